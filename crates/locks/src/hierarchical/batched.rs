//! Queue locks that the waiters of a NUMA node enter together: they line up on their node first, and the first of them
//! puts all who have done so into the queue of the lock as a whole.
//!
//! What [`hclh`](super::hclh) and [`fc_mcs`](super::fc_mcs) share. How waiters line up, and with that the queue lock,
//! is the type of the nodes' states, [`Batch`].
//!
//! # State
//!
//! ```text
//! lock ─→ directory: queue lock, nodes ─→ node state: those who are not in the lock's queue yet
//! ```
//!
//! # Invariants
//!
//! - I1: the lock is held exactly while the queue lock is, by the same token.
//! - I2: directory and states stay until `dispose`. A release touches none of them after it has released the lock.
//!
//! # Ordering
//!
//! - E1: as E1 of `lazy` and of `directory`: the initialisation of the directory and of the states.
//! - E2: the edges of the queue lock: the critical section.

use core::fmt::{self, Debug, Formatter};
use core::ptr;

use lockwork_platform::{Deadline, Native, Platform, PoolNode};

use super::directory::Directory;
use super::lazy::Lazy;
use crate::api::RawLock;
use crate::queue::node_lock::NodeLock;
use crate::wait::{endless, registered};

/// The state of a NUMA node: those of its threads who are not in the lock's queue yet.
pub trait Batch<P: Platform>: PoolNode<P> + Debug {
    /// The lock as a whole.
    type Lock: NodeLock<P> + 'static;

    /// Lines up with `node`, and waits for `lock`. Returns whether that was granted; if the deadline was first, the
    /// node is no longer the caller's.
    ///
    /// # Safety
    ///
    /// `node` is the caller's and fresh.
    unsafe fn wait(&self, lock: &Self::Lock, node: Node<P, Self>, deadline: Option<Deadline>) -> bool;

    /// Drops all who have lined up, who are ghosts, after `fork`.
    fn clear(&self);
}

/// A queue node of the lock, which is its token.
type Node<P, S> = <<S as Batch<P>>::Lock as RawLock<P>>::Token;

/// The lock as a whole, and the states of the nodes.
pub(super) type Nodes<P, S> = Directory<P, <S as Batch<P>>::Lock, S>;

/// A queue lock that is entered in batches, which line up in states `S`.
#[repr(transparent)]
pub struct Batched<P: Platform, S: Batch<P>> {
    directory: Lazy<P, Nodes<P, S>>,
}

impl<P: Platform, S: Batch<P>> Debug for Batched<P, S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched").field("directory", &self.directory).finish()
    }
}

impl<S: Batch<Native>> Batched<Native, S> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { directory: Lazy::unused() }
    }
}

impl<P: Platform, S: Batch<P>> Batched<P, S> {
    /// Lines up and waits.
    #[cold]
    fn queue_up(
        &self,
        directory: &Nodes<P, S>,
        node: Node<P, S>,
        deadline: Option<Deadline>,
    ) -> Option<Node<P, S>> {
        // From before it lines up: a child of `fork` must be able to find every node of a ghost.
        let granted = registered::<P, _>(ptr::from_ref(self) as usize, || {
            let state = directory.nodes.state(P::node(), |_| {});
            // SAFETY: allocated by the caller.
            unsafe { state.wait(directory.root(), node, deadline) }
        });
        granted.then_some(node)
    }

    #[inline(always)]
    fn acquire(&self, deadline: Option<Deadline>) -> Option<Node<P, S>> {
        let directory = self.directory.get_or_make();
        let node = P::alloc_node();
        if directory.root().acquire_at_once(node) {
            return Some(node);
        }
        self.queue_up(directory, node, deadline)
    }
}

impl<P: Platform, S: Batch<P>> Drop for Batched<P, S> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

// SAFETY: the holder holds the queue lock (I1), whose edges order the sections (E2).
unsafe impl<P: Platform, S: Batch<P>> RawLock<P> for Batched<P, S> {
    type Token = Node<P, S>;

    fn new() -> Self {
        Self { directory: Lazy::new() }
    }

    #[inline(always)]
    fn lock(&self) -> Self::Token {
        endless(self.acquire(None))
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Token> {
        self.directory.get_or_make().root().try_lock()
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        self.acquire(Some(deadline))
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: Self::Token) {
        // SAFETY: the caller's contract.
        let directory = unsafe { self.directory.of_holder() };
        // SAFETY: the caller's contract: the token of the lock as a whole (I1).
        unsafe { directory.root().unlock(token) };
    }

    fn is_locked(&self) -> bool {
        self.directory.get().is_some_and(|directory| directory.root().is_locked())
    }

    unsafe fn forget_waiters(&self, holder: Option<Self::Token>) {
        let Some(directory) = self.directory.get() else { return };
        directory.nodes.visit(S::clear);
        // SAFETY: the caller's contract.
        unsafe { directory.root().forget_waiters(holder) };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        let clear = |directory: &Nodes<P, S>| unsafe { directory.nodes.dispose(|_| {}) };
        // SAFETY: the caller's contract.
        unsafe { self.directory.dispose(clear) };
    }
}
