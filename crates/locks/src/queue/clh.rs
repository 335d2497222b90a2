//! CLH: a queue of waiters, each waiting on the node of its predecessor.
//!
//! Travis S. Craig, "Building FIFO and priority-queuing spin locks from atomic swap", TR 93-02-02, University of
//! Washington, 1993; Peter Magnusson, Anders Landin and Erik Hagersten, "Queue locks on cache coherent
//! multiprocessors", IPPS 1994. Deviations: the lock at rest is a null pointer, not a dummy node, because a release
//! first tries to swing the tail back; nodes come from the platform's pool and travel in the token; waiters can give
//! up at a deadline, and the release goes on behalf of those who did; the hand-off is a swap rather than a store,
//! because the waiter may be asleep or gone.
//!
//! Properties: FIFO; 8 bytes a lock; one node of 64 bytes for the holder and for each waiter; O(1) remote references
//! per hand-off where caches are coherent. A release never has to wait for a successor to link itself, as MCS's does.
//! Waiting: spin, stp, park, yield, aware; as `clh-ls` in the way of libslock (David, Guerraoui and Trigonakis, SOSP
//! 2013), asking for the line in writing before each look. `try_lock` succeeds only on a free lock with no queue. A
//! waiter that gave up leaves its node in the queue until the release gets there, and goes on with it when it comes back. Avoid the spinning variant with more
//! threads than CPUs: a preempted waiter at the head of the queue stops everybody for its whole time slice.
//!
//! # State
//!
//! ```text
//! tail ──────────────────────────┐        tail == null: unlocked
//! holder ←waits─ n1 ←waits─ … ←waits─ last    n1 waits on the holder's word, n2 on n1's, …
//! ```
//!
//! The word of a node is the hand-off word (see `wait`) of the thread *behind* it: `GRANTED` means that the node's
//! owner has released, `ABANDONED` that the thread behind has given up; `next` then says which node was that
//! thread's.
//!
//! # Invariants
//!
//! - I1: `tail` is null or the last node of the queue. The thread that swaps a node out of `tail`, and no other,
//!   waits on its word.
//! - I2: the lock is released on behalf of the node at the head of the queue only: the holder's, or one that the
//!   releaser found abandoned by following the queue from the holder's.
//! - I3: a node is recycled once, by one thread: by the releaser, if nobody is behind it (the CAS of `tail`) or if
//!   whoever was behind it has given up; else as its [`Retirement`] says. CLH's is [`Inherited`]: by the thread behind
//!   it, once that was granted the lock.
//! - I4: a node whose owner gave up is touched no more by its owner, unless it comes back (I2 of `wait::word`) before a release
//!   gets there; the releaser that is told so owns it.
//! - I5: before a waiter can abandon a word, it has written the `next` of that word's node.
//!
//! # Ordering
//!
//! - E1: a release's CAS of `tail` to null (Release) → the CAS or swap of the next locker that finds null (Acquire):
//!   the critical section.
//! - E2: the locker's CAS or swap of `tail` (Release) → the swap of its successor (Acquire): the node's
//!   initialisation.
//! - E3: `wait::grant` → `WaitPolicy::wait` (E1 there): the critical section on a hand-off, and the node's end of
//!   use.
//! - E4: `WaitPolicy::wait`'s abandonment → `wait::grant` (E2 there): `next` (I5), and all that the one who gave up
//!   did to its own node, which is the releaser's from then on.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use lockwork_platform::{AtomicCell, Native, Platform, PoolNode};

use super::node_lock::NodeLock;
use crate::competitive;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{self, Behind, Grant, Owner, Returning, Wait, WaitPolicy};

/// What is known of CLH.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "clh",
    family: Family::Queue,
    order: Order::Fifo,
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: Timed::GivesUp("in the queue"),
    proofs: &[Proof::of(file!()), Proof::of("wait/policy.rs"), Proof::of("wait/word.rs")],
    citation: Citation {
        key: "magnusson94",
        text: "Magnusson, Landin, Hagersten: Queue locks on cache coherent multiprocessors. IPPS 1994 \
               (and Craig: TR 93-02-02, University of Washington, 1993)",
    },
    summary: "a queue of waiters, each waiting on the cache line of the one before it",
    properties: "One remote reference per hand-off, and a release never waits. The holder keeps a 64-byte node.",
    deviations: "The free lock is a null pointer instead of a dummy node; nodes come from a pool; waiters can \
                 give up at a deadline and are skipped.",
    avoid: "clh-spin: more threads than CPUs (a preempted waiter stops everybody). clh-stp: very short critical \
            sections with more threads than CPUs (every hand-off may have to wake a sleeper).",
    ..Descriptor::MUTEX
};

/// What is known of libslock's CLH.
pub const LIBSLOCK: Descriptor = Descriptor {
    name: "clh-ls",
    citation: competitive::LIBSLOCK,
    summary: "a queue of waiters, each on the cache line of the one before it, which it asks for in writing",
    avoid: "More threads than CPUs (a preempted waiter stops everybody).",
    ..DESCRIPTOR
};

/// How a node is recycled after a hand-off. Its owner and the thread behind it each say once when they have done with it.
///
/// # Safety
///
/// The node is recycled by one of the two, once both have done with it.
pub unsafe trait Retirement<P: Platform>: Sized + Send + Sync + 'static {
    /// What a fresh node keeps for it.
    fn new() -> Self;

    /// The owner has done with `node`.
    ///
    /// # Safety
    ///
    /// The caller has granted the lock to the thread behind `node`, on behalf of its owner, and touches the node no more.
    unsafe fn handed_over(node: NonNull<ClhNode<P, Self>>);

    /// The thread behind `node` has done with it.
    ///
    /// # Safety
    ///
    /// The caller is that thread, has been granted the lock, and touches the node no more.
    unsafe fn taken_over(node: NonNull<ClhNode<P, Self>>);
}

/// With the grant the node is the thread's behind it.
#[derive(Debug)]
pub struct Inherited;

// SAFETY: the grant is the owner's last access, and the thread behind has seen it (E3).
unsafe impl<P: Platform> Retirement<P> for Inherited {
    #[inline(always)]
    fn new() -> Self {
        Self
    }

    #[inline(always)]
    unsafe fn handed_over(_node: NonNull<ClhNode<P, Self>>) {}

    #[inline(always)]
    unsafe fn taken_over(node: NonNull<ClhNode<P, Self>>) {
        // SAFETY: the grant is the owner's last access, and the caller's contract.
        unsafe { P::free_node(node) };
    }
}

/// A queue node.
#[repr(C)]
pub struct ClhNode<P: Platform, R: 'static = Inherited> {
    /// The hand-off word of the thread behind the node's owner; written by both.
    word: P::Futex,
    /// Written before the node is in the queue.
    owner: Owner<P>,
    /// The node of the waiter that gave up behind this one; written by that waiter, before it can give up.
    next: P::Ptr<ClhNode<P, R>>,
    /// What the way of its retirement needs.
    pub(super) retirement: R,
}

impl<P: Platform, R> core::fmt::Debug for ClhNode<P, R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ClhNode").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform, R: Retirement<P>> PoolNode<P> for ClhNode<P, R> {
    fn new() -> Self {
        let (word, next) = (P::Futex::new(wait::WAITING), P::Ptr::new(ptr::null_mut()));
        Self { word, owner: Owner::new(), next, retirement: R::new() }
    }
}

/// The CLH lock, waiting by `W`, whose nodes are retired by `R`.
#[repr(transparent)]
pub struct Clh<P: Platform, W, R: 'static = Inherited> {
    /// The last node of the queue; written by every locker, and by a release that leaves the lock free.
    tail: P::Ptr<ClhNode<P, R>>,
    policy: PhantomData<W>,
}

const _: () = assert!(size_of::<Clh<Native, wait::Spin>>() == DESCRIPTOR.bytes);

impl<P: Platform, W, R> core::fmt::Debug for Clh<P, W, R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Clh").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl<W, R> Clh<Native, W, R> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { tail: Native::null(), policy: PhantomData }
    }
}

impl<P: Platform, W: WaitPolicy<P>, R: Retirement<P>> Clh<P, W, R> {
    /// Puts those from `node` to `last` into the queue, each but `node` behind the one before it already, and waits with
    /// `node`. Returns whether it was granted the lock.
    pub(crate) fn append(
        &self,
        node: NonNull<ClhNode<P, R>>,
        last: NonNull<ClhNode<P, R>>,
        wait: &Wait,
    ) -> bool {
        // ORDER: Release is E2; Acquire is E1 and E2.
        match NonNull::new(self.tail.swap(last.as_ptr(), AcqRel)) {
            Some(pred) => Self::wait_behind(pred, node, wait),
            None => true, // Released since our first attempt.
        }
    }

    /// Waits for the lock on the word of `pred`; returns whether it was granted.
    pub(crate) fn wait_behind(
        pred: NonNull<ClhNode<P, R>>,
        node: NonNull<ClhNode<P, R>>,
        wait: &Wait,
    ) -> bool {
        // SAFETY: I1 and I3: nobody recycles `pred` before we are granted the lock or give up.
        let ahead = unsafe { pred.as_ref() };
        if wait.deadline.is_some() {
            ahead.next.store(node.as_ptr(), Relaxed); // I5. ORDER: E4 publishes it.
            Returning::leaves(pred, wait);
        }
        Self::wait_on(pred, node, wait)
    }

    /// Waits on the word of `pred`, as the thread behind it.
    fn wait_on(pred: NonNull<ClhNode<P, R>>, node: NonNull<ClhNode<P, R>>, wait: &Wait) -> bool {
        // SAFETY: I1 and I3: nobody recycles `pred` before we are granted the lock or give up.
        let ahead = unsafe { pred.as_ref() };
        // SAFETY: ours.
        let own = &unsafe { node.as_ref() }.owner;
        if W::wait_at(&ahead.word, &Behind::new(ahead.owner.get::<W>(), own), wait).is_err() {
            return false;
        }
        // SAFETY: granted (I3). ORDER: E3.
        unsafe { R::taken_over(pred) };
        true
    }

    /// Goes on waiting behind `pred`, where the thread gave up. Returns its node if it was granted the lock.
    pub(crate) fn wait_again(
        pred: NonNull<ClhNode<P, R>>,
        returning: &mut Returning<P, ClhNode<P, R>>,
        wait: &Wait,
    ) -> Option<NonNull<ClhNode<P, R>>> {
        // SAFETY: I1 and I3: not recycled before we are granted the lock or give up again.
        let ahead = unsafe { pred.as_ref() };
        let Some(node) = NonNull::new(ahead.next.load(Relaxed)) else {
            unreachable!("I5: a waiter that gave up has said where")
        };
        let Some(wait) = returning.take_up(&ahead.word, wait) else {
            // SAFETY: granted (I3). ORDER: E3.
            unsafe { R::taken_over(pred) };
            return Some(node);
        };
        // SAFETY: I4: ours again.
        unsafe { node.as_ref() }.owner.note::<W>();
        Self::wait_on(pred, node, &wait).then_some(node)
    }

    /// Frees the lock, if nobody is behind `node`.
    #[inline(always)]
    fn release_last(&self, node: NonNull<ClhNode<P, R>>) -> bool {
        // ORDER: Release is E1. A successful CAS means that `node` is last, and was all the time: it is ours,
        // so it cannot have been recycled and come back.
        if self.tail.compare_exchange(node.as_ptr(), ptr::null_mut(), Release, Relaxed).is_err() {
            return false;
        }
        // SAFETY: I3: nobody is behind it.
        unsafe { P::free_node(node) };
        true
    }

    /// Hands the lock to the first waiter behind `node` that has not given up, or frees it if all have.
    #[cold]
    fn pass_on(&self, mut node: NonNull<ClhNode<P, R>>) {
        loop {
            // SAFETY: the head of the queue, and ours (I2).
            let head = unsafe { node.as_ref() };
            match wait::grant::<P>(&head.word) {
                // SAFETY: granted (I3). ORDER: E3.
                Grant::Accepted => return unsafe { R::handed_over(node) },
                Grant::Abandoned => {
                    // ORDER: Relaxed: E4 came with the grant.
                    let Some(gone) = NonNull::new(head.next.load(Relaxed)) else {
                        unreachable!("I5: a waiter that gave up has said where")
                    };
                    // SAFETY: I3: the waiter behind it has given up, and touches it no more.
                    unsafe { P::free_node(node) };
                    if self.release_last(gone) {
                        return;
                    }
                    node = gone;
                }
            }
        }
    }
}

// SAFETY: only the thread at the head of the queue holds the lock (I1, I2), and E1 and E3 order the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>, R: Retirement<P>> NodeLock for Clh<P, W, R> {
    type Platform = P;
    type Node = ClhNode<P, R>;

    fn empty() -> Self {
        Self { tail: P::Ptr::new(ptr::null_mut()), policy: PhantomData }
    }

    #[inline(always)]
    fn note(node: NonNull<Self::Node>, id: impl FnOnce() -> u32) {
        // SAFETY: the caller's, and fresh.
        unsafe { node.as_ref() }.owner.note_as::<W>(id);
    }

    #[inline(always)]
    fn acquire_fast(&self, node: NonNull<Self::Node>) -> bool {
        // ORDER: Release is E2, Acquire is E1.
        self.tail.compare_exchange(ptr::null_mut(), node.as_ptr(), AcqRel, Relaxed).is_ok()
    }

    fn queue_up(&self, node: NonNull<Self::Node>, wait: &Wait) -> bool {
        self.append(node, node, wait)
    }

    const RETURNS: bool = true;

    /// At the node ahead, whose word it is.
    fn come_back(
        &self,
        pred: NonNull<Self::Node>,
        returning: &mut Returning<P, Self::Node>,
        wait: &Wait,
    ) -> Option<NonNull<Self::Node>> {
        Self::wait_again(pred, returning, wait)
    }

    #[inline(always)]
    unsafe fn release(&self, node: NonNull<Self::Node>) {
        if !self.release_last(node) {
            self.pass_on(node);
        }
    }

    fn is_held(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }

    unsafe fn keep_only(&self, node: NonNull<Self::Node>) {
        // SAFETY: the holder's node is in the queue, and nobody else runs.
        unsafe { node.as_ref() }.word.store(wait::WAITING, Relaxed);
        self.tail.store(node.as_ptr(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::{Clock, Deadline};

    use super::*;
    use crate::api::RawLock;
    use crate::wait::Spin;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: a null pointer is a valid atomic pointer.
        let lock: Clh<Native, Spin> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        let Some(token) = lock.try_lock() else { panic!("free") };
        assert!(lock.is_locked());
        assert!(lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(lock.tail.load(Relaxed).is_null());
    }

    #[test]
    fn the_release_skips_those_who_gave_up_and_frees_the_lock() {
        let lock = Clh::<Native, Spin>::unlocked();
        let token = lock.lock();
        for _ in 0..3 {
            assert!(lock.try_lock_until(PAST).is_none());
        }
        assert_ne!(lock.tail.load(Relaxed), token.as_ptr());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(lock.tail.load(Relaxed).is_null());
    }

    #[test]
    fn forgetting_waiters_keeps_the_lock_locked() {
        let lock = Clh::<Native, Spin>::unlocked();
        let token = lock.lock();
        assert!(lock.try_lock_until(PAST).is_none());
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(Some(token)) };
        lockwork_platform::bookmarks::forget(crate::api::address(&lock), size_of_val(&lock));
        assert_eq!(lock.tail.load(Relaxed), token.as_ptr());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(!lock.is_locked());
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(None) };
        assert!(!lock.is_locked());
    }
}
