//! A queue lock whose holder keeps its queue node: such a lock says how a node enters and leaves its queue, and is a
//! [`RawLock`] by that.

use core::hint;
use core::ptr::NonNull;

use lockwork_platform::{Deadline, Platform, Pool, PoolNode, Sched};

use crate::api::{RawLock, address};
use crate::knobs::Knobs;
use crate::wait::{Returning, Wait, endless};

/// A lock that is acquired with a queue node from the pool, which is its token. All-zero memory is an unlocked lock.
///
/// # Safety
///
/// Implementations guarantee what [`RawLock`] asks, between an acquisition ([`NodeLock::acquire_fast`],
/// [`NodeLock::queue_up`]) and the matching [`NodeLock::release`].
pub unsafe trait NodeLock: Send + Sync + Sized {
    /// The machine. Not a parameter, for then other crates could make a lock of this one a `NodeLock`, and the
    /// implementation of [`RawLock`] below would not be the only one for it.
    type Platform: Platform;
    /// A queue node.
    type Node: PoolNode<Self::Platform>;

    /// An unlocked lock.
    fn empty() -> Self;

    /// See [`RawLock::configure`].
    #[inline]
    fn take_knobs(&self, knobs: &Knobs) {
        let _ = knobs;
    }

    /// Writes into `node`, which is the caller's and fresh, that it is the calling thread's, which is known by what `id` says; where
    /// those who wait behind it want to know.
    #[inline(always)]
    fn note(node: NonNull<Self::Node>, id: impl FnOnce() -> u32) {
        let _ = (node, id);
    }

    /// Acquires with `node`, which is the caller's and fresh, and [noted](NodeLock::note), if there is no queue.
    fn acquire_fast(&self, node: NonNull<Self::Node>) -> bool;

    /// Notes the calling thread, and acquires with `node`, which is the caller's and fresh, if there is no queue.
    #[inline(always)]
    fn acquire_if_free(&self, node: NonNull<Self::Node>) -> bool {
        Self::note(node, Self::Platform::scheduling_id);
        self.acquire_fast(node)
    }

    /// Lines up with `node`, which is the caller's and fresh, and waits. Returns whether it was granted the lock; if the
    /// deadline was first, the node is no longer the caller's.
    fn queue_up(&self, node: NonNull<Self::Node>, wait: &Wait) -> bool;

    /// Whether a thread that gave up leaves its node in the queue, and [`NodeLock::come_back`] goes on with it.
    const RETURNS: bool = false;

    /// Goes on waiting where the thread gave up, at `left`: the node that it lined up with, or the one that
    /// [`Returning::leaves`] was told. The word that it waits on is to be taken up first. Returns its node if it was granted the
    /// lock; else it has given up again.
    #[doc(hidden)]
    fn come_back(
        &self,
        left: NonNull<Self::Node>,
        returning: &mut Returning<Self::Platform, Self::Node>,
        wait: &Wait,
    ) -> Option<NonNull<Self::Node>> {
        let _ = (left, returning, wait);
        unreachable!("who gives up leaves no node behind")
    }

    /// [`NodeLock::queue_up`], of a thread that may give up: it goes on where it gave up before, if it did and its node is still
    /// in the queue. `fresh` is the caller's.
    #[cold]
    #[inline(never)]
    fn queue_up_again(&self, fresh: NonNull<Self::Node>, wait: &Wait) -> Option<NonNull<Self::Node>> {
        if !Self::RETURNS {
            return self.queue_up(fresh, wait).then_some(fresh);
        }
        Returning::run(
            address(self),
            wait,
            fresh,
            |wait| self.queue_up(fresh, wait).then_some(fresh),
            |left, returning, wait| self.come_back(left, returning, wait),
        )
    }

    /// Hands the lock over, or frees it.
    ///
    /// # Safety
    ///
    /// As for [`RawLock::unlock`]; the node is no longer the caller's.
    unsafe fn release(&self, node: NonNull<Self::Node>);

    /// See [`RawLock::is_locked`].
    fn is_held(&self) -> bool;

    /// Makes `holder` the only node of a locked lock.
    ///
    /// # Safety
    ///
    /// As for [`RawLock::forget_waiters`], with the holder's node.
    unsafe fn keep_only(&self, holder: NonNull<Self::Node>);

    /// See [`RawLock::dispose`].
    ///
    /// # Safety
    ///
    /// As there.
    #[inline]
    unsafe fn reset(&self) {}

    /// [`NodeLock::queue_up`], for as long as it takes, as a lock that stands for itself.
    #[cold]
    fn queue_up_endlessly(&self, node: NonNull<Self::Node>) -> NonNull<Self::Node> {
        let granted = Wait::run::<Self::Platform, _>(address(self), None, |wait| {
            self.queue_up(node, wait).then_some(node)
        });
        // The compiler must not see that this returns its argument: it would keep a register for it across this call, and
        // save that register on the fast path, too.
        hint::black_box(endless(granted))
    }
}

// SAFETY: the contract of `NodeLock`.
unsafe impl<L: NodeLock> RawLock<L::Platform> for L {
    type Token = NonNull<L::Node>;

    fn new() -> Self {
        L::empty()
    }

    fn configure(&self, knobs: &Knobs) {
        self.take_knobs(knobs);
    }

    #[inline(always)]
    fn lock(&self) -> Self::Token {
        let node = L::Platform::alloc_node();
        if self.acquire_if_free(node) { node } else { self.queue_up_endlessly(node) }
    }

    #[inline(always)]
    fn lock_at_once(&self) -> Result<Self::Token, Option<Self::Token>> {
        let Some(node) = L::Platform::take_spare_node() else { return Err(None) };
        Self::note(node, L::Platform::known_scheduling_id);
        if self.acquire_fast(node) { Ok(node) } else { Err(Some(node)) }
    }

    unsafe fn finish_lock(&self, node: Option<Self::Token>) -> Self::Token {
        match node {
            Some(node) => self.queue_up_endlessly(node),
            None => self.lock(),
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Token> {
        // Read first: a failing attempt would take the line from the holder.
        if self.is_held() {
            return None;
        }
        let node = L::Platform::alloc_node();
        if self.acquire_if_free(node) {
            return Some(node);
        }
        // SAFETY: never published.
        unsafe { L::Platform::free_node(node) };
        None
    }

    fn lock_slow(&self, wait: &Wait) -> Option<Self::Token> {
        self.lock_with(wait)
    }

    /// One node for both paths.
    fn lock_with(&self, wait: &Wait) -> Option<Self::Token> {
        let node = L::Platform::alloc_node();
        if wait.deadline.is_none() {
            return (self.acquire_if_free(node) || self.queue_up(node, wait)).then_some(node);
        }
        if self.acquire_if_free(node) { Some(node) } else { self.queue_up_again(node, wait) }
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        let node = L::Platform::alloc_node();
        if self.acquire_if_free(node) {
            return Some(node);
        }
        Wait::run::<L::Platform, _>(address(self), Some(deadline), |wait| self.queue_up_again(node, wait))
    }

    #[inline(always)]
    unsafe fn unlock(&self, node: Self::Token) {
        // SAFETY: the caller's contract.
        unsafe { self.release(node) };
    }

    fn is_locked(&self) -> bool {
        self.is_held()
    }

    unsafe fn forget_waiters(&self, holder: Option<Self::Token>) {
        if let Some(holder) = holder.filter(|_| self.is_held()) {
            // SAFETY: the caller's contract.
            unsafe { self.keep_only(holder) };
        }
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.reset() };
    }
}
