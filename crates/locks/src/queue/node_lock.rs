//! What the locks have in common whose holder keeps a queue node: it comes from the pool, is tried with, and else lines up.

use core::ptr::{self, NonNull};

use lockwork_platform::{Deadline, Platform, PoolNode};

use crate::api::RawLock;
use crate::wait::{endless, registered};

/// A lock that is acquired with a queue node, which is its token.
pub trait NodeLock<P: Platform>: RawLock<P, Token = NonNull<Self::Node>> + Sized {
    /// A queue node.
    type Node: PoolNode<P>;

    /// Acquires with `node`, which is the caller's and fresh, if there is no queue.
    fn acquire_at_once(&self, node: NonNull<Self::Node>) -> bool;

    /// Lines up with `node`, which is the caller's and fresh, and waits, as a thread that is registered as a waiter.
    /// Returns whether it was granted the lock; if the deadline was first, the node is no longer the caller's.
    fn queue_up(&self, node: NonNull<Self::Node>, deadline: Option<Deadline>) -> bool;

    /// [`NodeLock::queue_up`], known as a waiter for `address`.
    #[cold]
    fn queue_up_for(
        &self,
        address: usize,
        node: NonNull<Self::Node>,
        deadline: Option<Deadline>,
    ) -> Option<NonNull<Self::Node>> {
        // From before it is in the queue: a child of `fork` must be able to find every node of a ghost.
        let granted = registered::<P, _>(address, || self.queue_up(node, deadline));
        granted.then_some(node)
    }

    /// [`NodeLock::queue_up`], for as long as it takes.
    #[cold]
    fn queue_up_endlessly(&self, node: NonNull<Self::Node>) -> NonNull<Self::Node> {
        endless(self.queue_up_for(self.address(), node, None))
    }

    /// What waiters are known to wait for.
    #[inline(always)]
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// See [`RawLock::lock`].
    #[inline(always)]
    fn acquire(&self) -> NonNull<Self::Node> {
        let node = P::alloc_node();
        if self.acquire_at_once(node) { node } else { self.queue_up_endlessly(node) }
    }

    /// See [`RawLock::try_lock`].
    #[inline(always)]
    fn acquire_free(&self) -> Option<NonNull<Self::Node>> {
        // Read first: a failing attempt would take the line from the holder.
        if self.is_locked() {
            return None;
        }
        let node = P::alloc_node();
        if self.acquire_at_once(node) {
            return Some(node);
        }
        // SAFETY: never published.
        unsafe { P::free_node(node) };
        None
    }

    /// See [`RawLock::try_lock_until`].
    #[inline(always)]
    fn acquire_until(&self, deadline: Deadline) -> Option<NonNull<Self::Node>> {
        self.acquire_for(self.address(), Some(deadline))
    }

    /// Acquires, known as a waiter for `address`: this lock, or one that it is a part of.
    #[inline(always)]
    fn acquire_for(&self, address: usize, deadline: Option<Deadline>) -> Option<NonNull<Self::Node>> {
        let node = P::alloc_node();
        if self.acquire_at_once(node) { Some(node) } else { self.queue_up_for(address, node, deadline) }
    }
}
