//! Hemlock: an implicit queue, each waiter waiting on its predecessor's word; a releaser keeps its word, because the
//! successor acknowledges the hand-off.
//!
//! Dave Dice and Alex Kogan, "Hemlock: Compact and Scalable Mutual Exclusion", SPAA 2021, listing 1. Deviations: the
//! word belongs to an acquisition, not to a thread: it is a node from the platform's pool that travels in the token. A
//! word of the thread could not be told from another lock's when a lock is released by another thread than its locker,
//! and would have to outlive its thread. So the word says "granted" instead of naming the lock, and no wait is for two
//! locks. A releaser waits for the acknowledgement for a bounded time, then leaves its node to the successor, which may
//! be asleep or preempted. Waiters can give up at a deadline, and the release goes on behalf of those who did. Waiters
//! poll by loads (no "coherence traffic reduction" by read-modify-writes).
//!
//! Properties: FIFO; 8 bytes a lock; one node of 64 bytes for the holder and for each waiter, which mostly stay with
//! their threads, where CLH's wander with the lock; O(1) remote references per hand-off where caches are coherent. A
//! release never has to wait for a successor to link itself, as MCS's does. Waiting: spin, stp, park, yield, aware.
//! `try_lock` succeeds only on a free lock with no queue. Avoid the spinning variant with more threads than CPUs: a
//! preempted waiter at the head of the queue stops everybody for its whole time slice.
//!
//! With a word for each acquisition all but the acknowledgement is as in [`clh`](super::clh), and this is that lock
//! with another way of retiring its nodes.
//!
//! # State
//!
//! As CLH's. In each node, `done` counts those who have done with it after a hand-off: its owner, and the thread behind it.
//!
//! # Invariants
//!
//! CLH's, with its I3 completed:
//!
//! - I3: after a hand-off a node is recycled by the second of the two who move `done`.
//!
//! # Ordering
//!
//! CLH's, and
//!
//! - E5: the first addition to `done` (Release) → the second (Acquire): one side's accesses to the node come before
//!   the other's recycling of it.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

use lockwork_platform::{AtomicCell, AtomicInt, NODE_BYTES, Native, Platform};

use super::clh::{Clh, ClhNode, Retirement};
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{self, poll_within};

/// What is known of Hemlock.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "hemlock",
    family: Family::Queue,
    order: Order::Fifo,
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: Timed::GivesUp("in the queue"),
    proofs: &[Proof::of(file!())],
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
    ..Descriptor::MUTEX
};

/// The successor acknowledges the hand-off, and the node stays with its owner, if that is still there then.
#[repr(transparent)]
pub struct Acknowledged<P: Platform> {
    /// How many of the two sides have done with the node; added to by both.
    done: P::U32,
}

impl<P: Platform> core::fmt::Debug for Acknowledged<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Acknowledged").field("done", &self.done.load(Relaxed)).finish()
    }
}

// SAFETY: the second thread that leaves the node recycles it (I3), after the accesses of the first (E5).
unsafe impl<P: Platform> Retirement<P> for Acknowledged<P> {
    #[inline(always)]
    fn new() -> Self {
        Self { done: P::U32::new(0) }
    }

    /// Waits for the acknowledgement, or leaves the node to the successor.
    unsafe fn handed_over(node: NonNull<ClhNode<P, Self>>) {
        // SAFETY: I3: not recycled before we have done with it.
        let done = &unsafe { node.as_ref() }.retirement.done;
        let _ = poll_within::<P, _>(P::spin_budget(), || (done.load(Relaxed) != 0).then_some(()));
        leave(node);
    }

    /// The acknowledgement.
    unsafe fn taken_over(node: NonNull<ClhNode<P, Self>>) {
        leave(node);
    }
}

/// Has done with a node after a hand-off.
fn leave<P: Platform>(node: NonNull<ClhNode<P, Acknowledged<P>>>) {
    // SAFETY: I3: not recycled before both sides have been here. ORDER: E5.
    if unsafe { node.as_ref() }.retirement.done.fetch_add(1, AcqRel) != 0 {
        // SAFETY: I3: the other side has done with it (E5).
        unsafe { P::free_node(node) };
    }
}

/// The Hemlock lock, waiting by `W`.
pub type Hemlock<P, W> = Clh<P, W, Acknowledged<P>>;

const _: () = {
    assert!(size_of::<Hemlock<Native, wait::Spin>>() == DESCRIPTOR.bytes);
    assert!(size_of::<ClhNode<Native, Acknowledged<Native>>>() <= NODE_BYTES);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::RawLock;
    use crate::wait::Spin;
    use lockwork_platform::Pool;

    #[test]
    fn the_second_to_leave_recycles_the_node() {
        let lock = Hemlock::<Native, Spin>::unlocked();
        let node = Native::alloc_node();
        leave::<Native>(node);
        // SAFETY: only one side has done with it.
        assert_eq!(unsafe { node.as_ref() }.retirement.done.load(Relaxed), 1);
        leave::<Native>(node);
        assert_eq!(lock.lock(), node);
        // SAFETY: locked above.
        unsafe { lock.unlock(node) };
        assert!(!lock.is_locked());
    }
}
