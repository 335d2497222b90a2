//! Hemlock: an implicit queue, each waiter waiting on its predecessor's word; whoever releases keeps its word, because the
//! successor acknowledges the hand-off.
//!
//! Dave Dice and Alex Kogan, "Hemlock: Compact and Scalable Mutual Exclusion", SPAA 2021, listing 1. Deviations: the word
//! belongs to an acquisition, not to a thread: it is a node from the platform's pool that travels in the token. A word of the
//! thread could not be told from another lock's when a lock is released by another thread than its locker, and would
//! have to outlive its thread. So the word says "granted" instead of naming the lock, and no wait is for two locks. A
//! releaser waits for the acknowledgement for a bounded time, then leaves its node to the successor, which may be asleep
//! or preempted. Waiters can give up at a deadline, and the release goes on behalf of those who did. Waiters poll by
//! loads (no "coherence traffic reduction" by read-modify-writes).
//!
//! Properties: FIFO; 8 bytes a lock; one node of 64 bytes for the holder and for each waiter, which mostly stay with
//! their threads, where CLH's wander with the lock; O(1) remote references per hand-off where caches are coherent.
//! A release never has to wait for a successor to link itself, as MCS's does. Waiting: spin, stp. `try_lock` succeeds only on a
//! free lock with no queue. Avoid the spinning variant with more threads than CPUs: a preempted waiter at the head
//! of the queue stops everybody for its whole time slice.
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
//! thread's. `done` counts those who have done with a node after a hand-off: its owner, and the thread behind it.
//!
//! # Invariants
//!
//! - I1: `tail` is null or the last node of the queue. Whoever swaps a node out of `tail`, and nobody else,
//!   waits on its word.
//! - I2: the lock is released on behalf of the node at the head of the queue only: the holder's, or one that the
//!   releaser found abandoned by following the queue from the holder's.
//! - I3: a node is recycled once, by one thread: by the releaser, if nobody is behind it (the CAS of `tail`) or if
//!   whoever was behind it has given up; else, after a hand-off, by the second of the two who move `done`.
//! - I4: a node whose owner gave up is touched no more by its owner; the releaser that is told so owns it.
//! - I5: before a waiter can abandon a word, it has written the `next` of that word's node.
//!
//! # Ordering
//!
//! - E1: a release's CAS of `tail` to null (Release) → the CAS or swap of the next locker that finds null (Acquire):
//!   the critical section.
//! - E2: the locker's CAS or swap of `tail` (Release) → the swap of its successor (Acquire): the node's
//!   initialisation.
//! - E3: `wait::grant` → `WaitPolicy::wait` (E1 there): the critical section on a hand-off.
//! - E4: `WaitPolicy::wait`'s abandonment → `wait::grant` (E2 there): `next` (I5), and all that the one who gave up
//!   did to its own node, which is the releaser's from then on.
//! - E5: the first addition to `done` (Release) → the second (Acquire): one side's accesses to the node come before
//!   the other's recycling of it.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, Deadline, Native, Platform, PoolNode};

use crate::api::RawLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::wait::{self, Grant, WaitPolicy, poll_within, registered};

/// What is known of Hemlock.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "hemlock",
    family: Family::Queue,
    fairness: "FIFO",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: "gives up in the queue",
    citation: Citation {
        key: "dice21",
        text: "Dice, Kogan: Hemlock: compact and scalable mutual exclusion. SPAA 2021",
    },
    summary: "waiters wait on the word of the one before them, and acknowledge the hand-off, so that the word stays \
              where it is",
    properties: "One remote reference per hand-off; nodes stay with their threads. The holder keeps a 64-byte node.",
    deviations: "A word for each acquisition instead of each thread, from a pool; a release waits for the \
                 acknowledgement for a bounded time only; waiters can give up at a deadline and are skipped.",
    avoid: "hemlock-spin: more threads than CPUs (a preempted waiter stops everybody). hemlock-stp: very short \
            critical sections with more threads than CPUs (every hand-off may have to wake a sleeper).",
};

/// A queue node.
#[repr(C)]
pub struct HemlockNode<P: Platform> {
    /// The hand-off word of whoever comes behind the node's owner; written by both.
    word: P::Futex,
    /// The node of whoever gave up behind this one; written by it, before it can give up.
    next: P::Ptr<HemlockNode<P>>,
    /// After a hand-off: how many of the two sides have done with the node; added to by both.
    done: P::U32,
}

impl<P: Platform> core::fmt::Debug for HemlockNode<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("HemlockNode").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for HemlockNode<P> {
    fn new() -> Self {
        Self { word: P::Futex::new(wait::WAITING), next: P::Ptr::new(ptr::null_mut()), done: P::U32::new(0) }
    }
}

/// The Hemlock lock, waiting by `W`.
#[repr(transparent)]
pub struct Hemlock<P: Platform, W> {
    /// The last node of the queue; written by every locker, and by a release that leaves the lock free.
    tail: P::Ptr<HemlockNode<P>>,
    policy: PhantomData<W>,
}

const _: () = assert!(size_of::<Hemlock<Native, wait::Spin>>() == ALGORITHM.bytes);

impl<P: Platform, W> core::fmt::Debug for Hemlock<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Hemlock").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl<W> Hemlock<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { tail: Native::null(), policy: PhantomData }
    }
}

impl<P: Platform, W: WaitPolicy<P>> Hemlock<P, W> {
    /// Acquires with `node` if there is no queue.
    #[inline(always)]
    fn attempt(&self, node: NonNull<HemlockNode<P>>) -> bool {
        // ORDER: Release is E2, Acquire is E1.
        self.tail.compare_exchange(ptr::null_mut(), node.as_ptr(), AcqRel, Relaxed).is_ok()
    }

    /// Lines up and waits. Returns the token, or nothing if the deadline has passed: `node` is then the
    /// releaser's (I4).
    fn queue_up(
        &self,
        node: NonNull<HemlockNode<P>>,
        deadline: Option<Deadline>,
    ) -> Option<NonNull<HemlockNode<P>>> {
        // From before the swap: a child of `fork` must be able to find every node of a ghost.
        let granted = registered::<P, _>(ptr::from_ref(self) as usize, || {
            // ORDER: Release is E2; Acquire is E1 and E2.
            match NonNull::new(self.tail.swap(node.as_ptr(), AcqRel)) {
                Some(pred) => Self::wait_behind(pred, node, deadline),
                None => true, // Released since our first attempt.
            }
        });
        granted.then_some(node)
    }

    /// Waits for the lock on the word of `pred`; returns whether it was granted.
    fn wait_behind(
        pred: NonNull<HemlockNode<P>>,
        node: NonNull<HemlockNode<P>>,
        deadline: Option<Deadline>,
    ) -> bool {
        // SAFETY: I1 and I3: nobody recycles `pred` before we are granted the lock or give up.
        let ahead = unsafe { pred.as_ref() };
        if deadline.is_some() {
            ahead.next.store(node.as_ptr(), Relaxed); // I5. ORDER: E4 publishes it.
        }
        if W::wait(&ahead.word, deadline).is_err() {
            return false;
        }
        leave(pred); // The acknowledgement.
        true
    }

    #[cold]
    fn lock_slow(&self, node: NonNull<HemlockNode<P>>) -> NonNull<HemlockNode<P>> {
        match self.queue_up(node, None) {
            Some(token) => token,
            None => unreachable!("a wait without a deadline ends with the lock"),
        }
    }

    /// Frees the lock, if nobody is behind `node`.
    #[inline(always)]
    fn release_last(&self, node: NonNull<HemlockNode<P>>) -> bool {
        // ORDER: Release is E1. A successful CAS means that `node` is last, and was all the time: it is ours,
        // so it cannot have been recycled and come back.
        if self.tail.compare_exchange(node.as_ptr(), ptr::null_mut(), Release, Relaxed).is_err() {
            return false;
        }
        // SAFETY: I3: nobody is behind it.
        unsafe { P::free_node(node) };
        true
    }

    /// Hands the lock to the first of those behind `node` who has not given up, or frees it if all have.
    #[cold]
    fn pass_on(&self, mut node: NonNull<HemlockNode<P>>) {
        loop {
            // SAFETY: the head of the queue, and ours (I2).
            let head = unsafe { node.as_ref() };
            match wait::grant::<P>(&head.word) {
                Grant::Accepted => return await_acknowledgement(node), // ORDER: E3.
                Grant::Abandoned => {
                    // ORDER: Relaxed: E4 came with the grant.
                    let Some(gone) = NonNull::new(head.next.load(Relaxed)) else {
                        unreachable!("I5: whoever gave up has said where")
                    };
                    // SAFETY: I3: whoever was behind it has given up, and touches it no more.
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

/// Waits until the thread behind `node`, which has been granted the lock, has done with it, or leaves it to that thread.
fn await_acknowledgement<P: Platform>(node: NonNull<HemlockNode<P>>) {
    // SAFETY: I3: not recycled before we have done with it.
    let done = &unsafe { node.as_ref() }.done;
    let _ = poll_within::<P, _>(P::spin_budget(), || (done.load(Relaxed) != 0).then_some(()));
    leave(node);
}

/// Has done with a node after a hand-off.
fn leave<P: Platform>(node: NonNull<HemlockNode<P>>) {
    // SAFETY: I3: not recycled before both sides have been here. ORDER: E5.
    if unsafe { node.as_ref() }.done.fetch_add(1, AcqRel) != 0 {
        // SAFETY: I3: the other side has done with it (E5).
        unsafe { P::free_node(node) };
    }
}

// SAFETY: only the thread at the head of the queue holds the lock (I1, I2), and E1 and E3 order the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>> RawLock<P> for Hemlock<P, W> {
    type Token = NonNull<HemlockNode<P>>;

    fn new() -> Self {
        Self { tail: P::Ptr::new(ptr::null_mut()), policy: PhantomData }
    }

    #[inline(always)]
    fn lock(&self) -> Self::Token {
        let node = P::alloc_node();
        if self.attempt(node) { node } else { self.lock_slow(node) }
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Token> {
        // Read first: a failing CAS would take the line from the holder.
        if !self.tail.load(Relaxed).is_null() {
            return None;
        }
        let node = P::alloc_node();
        if self.attempt(node) {
            return Some(node);
        }
        // SAFETY: never published.
        unsafe { P::free_node(node) };
        None
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        let node = P::alloc_node();
        if self.attempt(node) { Some(node) } else { self.queue_up(node, Some(deadline)) }
    }

    #[inline(always)]
    unsafe fn unlock(&self, node: Self::Token) {
        if !self.release_last(node) {
            self.pass_on(node);
        }
    }

    fn is_locked(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }

    unsafe fn forget_waiters(&self, holder: Option<Self::Token>) {
        if let Some(node) = holder.filter(|_| self.is_locked()) {
            // SAFETY: the holder's node is in the queue, and nobody else runs.
            unsafe { node.as_ref() }.word.store(wait::WAITING, Relaxed);
            self.tail.store(node.as_ptr(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Clock;

    use super::*;
    use crate::wait::Spin;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: a null pointer is a valid atomic pointer.
        let lock: Hemlock<Native, Spin> = unsafe { core::mem::zeroed() };
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
        let lock = Hemlock::<Native, Spin>::unlocked();
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
        let lock = Hemlock::<Native, Spin>::unlocked();
        let token = lock.lock();
        assert!(lock.try_lock_until(PAST).is_none());
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(Some(token)) };
        assert_eq!(lock.tail.load(Relaxed), token.as_ptr());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(!lock.is_locked());
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(None) };
        assert!(!lock.is_locked());
    }
}
