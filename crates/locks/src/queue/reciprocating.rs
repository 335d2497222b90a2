//! Reciprocating: arriving threads push themselves on a stack; a holder with nobody left to serve takes the whole stack off
//! as the next segment, which is served from its top.
//!
//! Dave Dice and Alex Kogan, "Reciprocating Locks", PPoPP 2025 (arXiv 2501.02380), listing 1. Deviations: the wait element
//! comes from the platform's pool, travels in the token and carries the holder's context, so that another thread can
//! release; the hand-off word and the end-of-segment address are two fields, because the word must be one that a waiter
//! can sleep on; waiters can give up at a deadline, and the release goes on behalf of those who did; a first attempt by
//! compare-and-swap comes before the swap.
//!
//! Properties: bounded bypass: while a thread waits, each other thread overtakes it at most once. 8 bytes a lock; one
//! node of 64 bytes for the holder and for each waiter; O(1) remote references per hand-off; a release never waits for
//! an arriving thread. Waiting: spin, stp, park, yield, aware. `try_lock` succeeds only on a free lock. Avoid the
//! spinning variant with more threads than CPUs: a preempted waiter stops everybody when its turn comes.
//!
//! # State
//!
//! ```text
//! arrivals == null              unlocked
//! arrivals == HELD              held, nobody has come since the segment was taken off
//! arrivals == the holder's node held, nobody has come since it found the lock free
//! arrivals → a2 ─succ→ a1 ─succ→ (one of the above)     those who have come since, the last on top
//!
//! holder ─succ→ s2 ─succ→ s1    the rest of the segment, which is served next
//! ```
//!
//! `end` goes from holder to holder: the address under the segment's lowest node, where the segment ends. It is
//! HELD, or the node of a former holder, which is only compared with.
//!
//! # Invariants
//!
//! - I1: the lock is held exactly while `arrivals` is not null. It is taken by moving `arrivals` from null, or by being
//!   granted it.
//! - I2: whoever swaps a node out of `arrivals` keeps it in its node's `succ` and is the only one that grants to it. HELD
//!   is kept as null.
//! - I3: a node is recycled once: by the release of its owner's acquisition, or by the releaser that was told it was
//!   abandoned. Only its one granter, which must come first, ever looks into another thread's node.
//! - I4: all nodes of a segment were pushed before it was taken off, and a former holder's node is recycled only after
//!   it was taken off with what lies upon it. So within a segment only the lowest node's `succ` is `end`,
//!   even if it has been recycled and pushed again.
//!
//! # Ordering
//!
//! - E1: a release's CAS of `arrivals` to null (Release) → the CAS or swap of the next locker that finds null
//!   (Acquire): the critical section.
//! - E2: a waiter's swap of `arrivals` (Release) → the swap that takes its node out (Acquire), of the next arrival or of
//!   the holder: the node's initialisation.
//! - E3: `wait::grant` → `WaitPolicy::wait` (E1 there): the critical section on a hand-off, and `end`.
//! - E4: `WaitPolicy::wait`'s abandonment → `wait::grant` (E2 there): `succ`, and the initialisation of the node there.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Native, Platform, PoolNode};

use super::node_lock::NodeLock;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{self, Grant, Returning, Wait, WaitPolicy};

/// What is known of the reciprocating lock.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "reciprocating",
    family: Family::Queue,
    order: Order::BoundedBypass,
    order_note: "each other thread overtakes a waiter at most once",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: Timed::GivesUp("in the queue"),
    proofs: &[Proof::of(file!())],
    citation: Citation {
        key: "dice25",
        text: "Dice, Kogan: Reciprocating locks. PPoPP 2025 (arXiv 2501.02380)",
    },
    summary: "waiters stack up; the whole stack is taken off at once and served from its top",
    properties: "One remote reference per hand-off, constant-time arrival and release. The holder keeps a 64-byte node.",
    deviations: "The wait element comes from a pool and carries the holder's context; waiters can give up at a \
                 deadline and are skipped.",
    avoid: "Strict FIFO order. reciprocating-spin: more threads than CPUs (a preempted waiter stops everybody).",
    ..Descriptor::MUTEX
};

/// A wait element.
#[repr(C)]
pub struct RecNode<P: Platform> {
    /// The one that the owner serves next; written by the owner.
    succ: P::Ptr<RecNode<P>>,
    /// Where the segment ends; written by the granter, then the owner's. Of an owner that found the lock free, and
    /// therefore was not granted it, the segment ends with its own node, and nothing is written here.
    end: P::Ptr<RecNode<P>>,
    /// The hand-off word of the node's owner; written by the owner and once by its granter.
    word: P::Futex,
}

impl<P: Platform> core::fmt::Debug for RecNode<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RecNode").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for RecNode<P> {
    fn new() -> Self {
        // Compilers copy this by way of the stack, slowly, where the word comes first.
        let (succ, end) = (P::Ptr::new(ptr::null_mut()), P::Ptr::new(ptr::null_mut()));
        Self { succ, end, word: P::Futex::new(wait::WAITING) }
    }
}

impl<P: Platform> RecNode<P> {
    /// Whether the owner holds the lock because it found it free, and not because it was granted it.
    #[inline(always)]
    fn found_it_free(&self) -> bool {
        self.word.load(Relaxed) == wait::WAITING
    }
}

/// What a holder knows of those it may have to serve.
struct Context<P: Platform> {
    succ: *mut RecNode<P>,
    end: *mut RecNode<P>,
}

impl<P: Platform> Context<P> {
    /// What the holder whose node this is knows, or the releaser that goes on behalf of the node's owner.
    ///
    /// # Safety
    ///
    /// The node is the caller's.
    #[inline(always)]
    unsafe fn of(node: NonNull<RecNode<P>>) -> Self {
        // SAFETY: the caller's contract.
        let kept = unsafe { node.as_ref() };
        if kept.found_it_free() {
            Self { succ: ptr::null_mut(), end: node.as_ptr() }
        } else {
            Self::granted(kept)
        }
    }

    /// The context of the thread that was granted the lock with this node, or that goes on behalf of its owner.
    fn granted(node: &RecNode<P>) -> Self {
        let (succ, end) = (node.succ.load(Relaxed), node.end.load(Relaxed));
        // The lowest node (I4): the segment was replaced by HELD when it was taken off.
        if succ == end { Self { succ: ptr::null_mut(), end: held::<P>() } } else { Self { succ, end } }
    }

    fn keep_in(&self, node: &RecNode<P>) {
        node.word.store(wait::GRANTED, Relaxed);
        node.succ.store(self.succ, Relaxed);
        node.end.store(self.end, Relaxed);
    }
}

/// The `arrivals` of a lock that is held, when nobody has come since a segment was taken off: no node has this address.
#[inline(always)]
const fn held<P: Platform>() -> *mut RecNode<P> {
    ptr::without_provenance_mut(1)
}

/// The reciprocating lock, waiting by `W`.
#[repr(transparent)]
pub struct Reciprocating<P: Platform, W> {
    /// The stack of arrivals; written by every locker, and by a holder with nobody left to serve.
    arrivals: P::Ptr<RecNode<P>>,
    policy: PhantomData<W>,
}

const _: () = assert!(size_of::<Reciprocating<Native, wait::Spin>>() == DESCRIPTOR.bytes);

impl<P: Platform, W> core::fmt::Debug for Reciprocating<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Reciprocating").field("arrivals", &self.arrivals.load(Relaxed)).finish()
    }
}

impl<W> Reciprocating<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { arrivals: Native::null(), policy: PhantomData }
    }
}

impl<P: Platform, W: WaitPolicy<P>> Reciprocating<P, W> {
    /// Frees the lock if nobody has come since `end` was put under the stack of arrivals.
    #[inline(always)]
    fn release_last(&self, end: *mut RecNode<P>) -> bool {
        // ORDER: Release is E1. `end` is HELD or the holder's own node, so it cannot have gone and come back.
        self.arrivals.compare_exchange(end, ptr::null_mut(), Release, Relaxed).is_ok()
    }

    /// Hands the lock to the next waiter that has not given up, or frees it, on behalf of `node`.
    #[cold]
    fn pass_on(&self, mut node: NonNull<RecNode<P>>) {
        // SAFETY: the holder's node.
        let Context { mut succ, mut end } = unsafe { Context::of(node) };
        loop {
            if succ.is_null() {
                if self.release_last(end) {
                    // SAFETY: I3: out of the stack, and ours.
                    unsafe { P::free_node(node) };
                    return;
                }
                // ORDER: Acquire is E2. Not Release: a thread that finds HELD looks into nothing.
                succ = self.arrivals.swap(held::<P>(), Acquire);
            }
            let Some(next) = NonNull::new(succ) else {
                unreachable!("a waiter has come, or the CAS succeeds")
            };
            // SAFETY: I2 and I3: initialised (E2), and not recycled before we have granted it.
            let waiter = unsafe { next.as_ref() };
            waiter.end.store(end, Relaxed); // ORDER: E3 publishes it.
            let outcome = wait::grant::<P>(&waiter.word); // ORDER: E3, E4.
            // SAFETY: I3 and I4: no longer on the stack.
            unsafe { P::free_node(node) };
            if outcome == Grant::Accepted {
                return;
            }
            node = next;
            // SAFETY: abandoned to us (E4).
            Context { succ, end } = Context::granted(unsafe { node.as_ref() });
        }
    }
}

// SAFETY: the lock is held by one thread at a time (I1, I2), and E1 and E3 order the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>> NodeLock for Reciprocating<P, W> {
    type Platform = P;
    type Node = RecNode<P>;

    fn empty() -> Self {
        Self { arrivals: P::Ptr::new(ptr::null_mut()), policy: PhantomData }
    }

    #[inline(always)]
    fn acquire_fast(&self, node: NonNull<Self::Node>) -> bool {
        // ORDER: Acquire is E1. Not Release: nobody looks into the node of a holder that has not waited (I3).
        self.arrivals.compare_exchange(ptr::null_mut(), node.as_ptr(), Acquire, Relaxed).is_ok()
    }

    fn queue_up(&self, node: NonNull<Self::Node>, wait: &Wait) -> bool {
        // SAFETY: our node lives until it is granted and released, or abandoned.
        let ours = unsafe { node.as_ref() };
        // ORDER: Release is E2; Acquire is E1 and E2.
        let below = self.arrivals.swap(node.as_ptr(), AcqRel);
        if below.is_null() {
            return true; // Released since our first attempt.
        }
        if below != held::<P>() {
            ours.succ.store(below, Relaxed); // I2. ORDER: only ours, or E4 publishes it.
        }
        if W::wait(&ours.word, wait).is_err() {
            return false;
        }
        Context::granted(ours).keep_in(ours);
        true
    }

    const RETURNS: bool = true;

    fn come_back(
        &self,
        node: NonNull<Self::Node>,
        returning: &mut Returning<P, Self::Node>,
        wait: &Wait,
    ) -> Option<NonNull<Self::Node>> {
        // SAFETY: ours again, until it is granted and released, or abandoned.
        let ours = unsafe { node.as_ref() };
        // ORDER: E3 where it has been granted.
        if let Some(wait) = returning.take_up(&ours.word, wait) {
            W::wait(&ours.word, &wait).ok()?;
        }
        Context::granted(ours).keep_in(ours);
        Some(node)
    }

    #[inline(always)]
    unsafe fn release(&self, node: NonNull<Self::Node>) {
        // SAFETY: the holder's node.
        let Context { succ, end } = unsafe { Context::of(node) };
        if succ.is_null() && self.release_last(end) {
            // SAFETY: I3: out of the stack, and ours.
            unsafe { P::free_node(node) };
        } else {
            self.pass_on(node);
        }
    }

    fn is_held(&self) -> bool {
        !self.arrivals.load(Relaxed).is_null()
    }

    unsafe fn keep_only(&self, node: NonNull<Self::Node>) {
        let alone = Context { succ: ptr::null_mut(), end: held::<P>() };
        // SAFETY: the holder's node, and nobody else runs.
        alone.keep_in(unsafe { node.as_ref() });
        self.arrivals.store(held::<P>(), Relaxed);
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
    fn the_release_skips_those_who_gave_up_and_frees_the_lock() {
        for give_up in 0..4 {
            let lock = Reciprocating::<Native, Spin>::unlocked();
            let token = lock.lock();
            for _ in 0..give_up {
                assert!(lock.try_lock_until(PAST).is_none());
            }
            // SAFETY: locked above.
            unsafe { lock.unlock(token) };
            assert!(!lock.is_locked());
        }
    }

    #[test]
    fn forgetting_waiters_keeps_the_lock_locked() {
        let lock = Reciprocating::<Native, Spin>::unlocked();
        let token = lock.lock();
        assert!(lock.try_lock_until(PAST).is_none());
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(Some(token)) };
        lockwork_platform::bookmarks::forget(crate::api::address(&lock), size_of_val(&lock));
        assert!(lock.is_locked() && lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(!lock.is_locked());
    }
}
