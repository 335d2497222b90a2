//! Time-published MCS: waiters keep publishing the time, and a release passes over those that have not lately, because they
//! have been preempted; a waiter that was passed over lines up again.
//!
//! Bijun He, William N. Scherer III and Michael L. Scott, "Preemption adaptivity in time-published queue-based spin locks",
//! HiPC 2005, the lock MCS-TP, with the constants of the RCL and LiTL implementations. Deviations: a waiter that has waited
//! for 50 µs always yields, where the paper's does if the holder seems to be preempted (the time at which it entered
//! is not kept, which would cost each acquisition a look at the clock and the lock a word); while it yields, the
//! time that it publishes says that it is away, and it reclaims its position by publishing again. Nodes come from the
//! platform's pool and travel in the token; those of waiters whose deadline has passed are the releaser's, unless they come back before. A
//! release that has passed over 64 nodes takes the next waiter as it is, where the paper's keeps those it has passed
//! over from lining up again.
//!
//! Properties: FIFO among those that run; 8 bytes a lock; one node of 64 bytes for the holder and for each waiter; O(1)
//! remote references per hand-off to a waiter that runs. Waiting: spin, and yield now and then. A preempted waiter stops
//! nobody, and a preempted holder gets the CPUs of those who wait for it. `try_lock` succeeds only on a free lock with
//! no queue, and writes nothing otherwise. Avoid it where each waiter has a CPU of its own: looking at the clock is wasted.
//!
//! # State
//!
//! ```text
//! tail ──────────────────────────────┐         tail == null: unlocked
//! holder ─next→ waiter ─next→ … ─next→ last
//! ```
//!
//! | status      | meaning                                            | who moves it there               |
//! |-------------|----------------------------------------------------|----------------------------------|
//! | `WAITING`   | the owner waits; it was there at `time`            | the owner, before publishing     |
//! | `GRANTED`   | the lock is the owner's                            | a releaser, from `WAITING`, once |
//! | `ABANDONED` | the owner's deadline has passed; with its bookmark | the owner, from `WAITING`        |
//! | `REMOVED`   | passed over: out of the queue, and the owner's     | a releaser                       |
//!
//! # Invariants
//!
//! - I1: the node at the head belongs to the holder; its status means nothing.
//! - I2: `tail` is null or the last node of the queue; a node is linked by its predecessor's `next` after it became
//!   `tail`, once for each time it lines up.
//! - I3: a releaser moves a node it passes over to `REMOVED` when nobody is behind it or its successor is linked, and
//!   touches it no more, unless that finds it `ABANDONED` and its bookmark open: then the node is the releaser's to recycle.
//! - I4: a node that is `ABANDONED` is not touched by its owner any more, unless it comes back and closes the bookmark before a
//!   releaser looks there; it may find then that it was passed over. So each node is recycled once.
//! - I5: a waiter polls its status: whatever a releaser does with its node, it notices. Nobody sleeps.
//!
//! # Ordering
//!
//! - E1: a release's CAS of `tail` to null (Release) → the swap or CAS of the next locker that finds null (Acquire): the
//!   critical section.
//! - E2: the locker's swap of `tail` (Release) → the swap of its successor (Acquire): the node's
//!   initialisation comes before the successor's write to `next`.
//! - E3: the store of `next` (Release) → the releaser's load (Acquire): the successor's node is initialised.
//! - E4: the CAS to `GRANTED` (Release) → the owner's load (Acquire): the critical section, on a hand-off.
//! - E5: the swap to `REMOVED` (Release) → the owner's load (Acquire): the releaser's reading of the node comes before
//!   the owner's re-use of it.
//! - E6: the CAS to `ABANDONED` (Release) → the swap to `REMOVED` that finds it (Acquire): the owner's accesses to the
//!   node come before the releaser's recycling of it.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Clock, Deadline, Native, Platform, PoolNode};

use super::node_lock::NodeLock;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{self, ABANDONED, GRANTED, Patience, Returning, WAITING, Wait, expired};

/// What is known of time-published MCS.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "mcs-timepub",
    family: Family::LoadControl,
    order: Order::FifoAmongRunning,
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: Timed::GivesUp("in the queue"),
    proofs: &[Proof::of(file!())],
    citation: Citation {
        key: "he05",
        text: "He, Scherer, Scott: Preemption adaptivity in time-published queue-based spin locks. HiPC 2005",
    },
    summary: "an MCS queue whose waiters publish the time; a release passes over those that are not running",
    properties: "Preempted waiters stop nobody, and waiters yield to a preempted holder. The holder keeps a 64-byte node.",
    deviations: "Waiters yield after 50 µs whatever the holder does; the time of entry is not kept; after 64 nodes a \
                 release takes the next waiter as it is.",
    avoid: "A CPU for every thread (looking at the clock is wasted), and wherever a waiter may not be overtaken.",
    ..Descriptor::MUTEX
};

/// How long a waiter spins before it yields, in ns.
const PATIENCE: u64 = 50_000;
/// A waiter that has not published the time for so long does not run, in ns.
const FRESH: u64 = 10_000;
/// What a waiter publishes that is about to yield.
const AWAY: usize = 0;
/// Nodes that one release passes over.
const MOST: u32 = 64;

const REMOVED: u32 = 4;

/// A queue node.
#[repr(C)]
pub struct TimepubNode<P: Platform> {
    /// When the owner was last seen waiting, or [`AWAY`]; written by the owner, read by releasers.
    time: P::Usize,
    /// The successor; written by it.
    next: P::Ptr<TimepubNode<P>>,
    /// See the module's documentation. (Last: with a gap in the middle, the uncontended path copies the node by pieces that
    /// do not match.)
    status: P::U32,
}

impl<P: Platform> core::fmt::Debug for TimepubNode<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TimepubNode").field("status", &self.status.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for TimepubNode<P> {
    fn new() -> Self {
        Self { status: P::U32::new(WAITING), time: P::Usize::new(AWAY), next: P::Ptr::new(ptr::null_mut()) }
    }
}

/// What to publish at `now`: never [`AWAY`]. It may wrap around: only differences are looked at.
fn stamp(now: u64) -> usize {
    (now as usize).max(1)
}

/// What to publish at once.
fn present<P: Platform>() -> usize {
    stamp(P::now(Clock::Monotonic))
}

impl<P: Platform> TimepubNode<P> {
    /// Whether the owner was waiting a moment before `now`.
    fn runs(&self, now: usize) -> bool {
        // ORDER: Relaxed: only whether to try.
        let seen = self.time.load(Relaxed);
        // A stamp from after `now` is fresh too.
        seen != AWAY && (now.wrapping_sub(seen) as isize) <= FRESH as isize
    }

    /// Waits, as the owner, until the status is no more `WAITING`, and returns it; `ABANDONED` is the deadline.
    fn wait(&self, wait: &Wait) -> u32 {
        /// Pauses between two looks at the clock; far less than [`FRESH`].
        const CLOCK_INTERVAL: u32 = 16;
        let mut pauses = Patience::new::<P>();
        let mut since = None;
        loop {
            let mut paused = 0;
            loop {
                match self.status.load(Acquire) {
                    WAITING => {}
                    status => return status, // ORDER: E4, E5.
                }
                if paused >= CLOCK_INTERVAL {
                    break;
                }
                paused += self.pause(&mut pauses, CLOCK_INTERVAL - paused);
            }
            let mut now = P::now(Clock::Monotonic);
            if wait.deadline.is_some_and(|deadline| passed::<P>(deadline, now)) {
                let mut said = ABANDONED;
                wait::give_up::<P, _>(wait, |abandoned| {
                    // ORDER: Release is E6. Acquire is E4, E5.
                    let given_up = self.status.compare_exchange(WAITING, abandoned, Release, Acquire);
                    given_up.inspect_err(|status| said = *status).is_ok()
                });
                return said;
            }
            if now.saturating_sub(*since.get_or_insert(now)) >= PATIENCE {
                self.publish(AWAY);
                P::yield_now();
                now = P::now(Clock::Monotonic);
                since = Some(now);
            }
            self.publish(stamp(now));
        }
    }

    /// Pauses, as the owner, or yields, which it says before: a releaser is to pass over a waiter that gave its CPU away.
    fn pause(&self, pauses: &mut Patience, most: u32) -> u32 {
        if pauses.yields() {
            self.publish(AWAY);
        }
        pauses.pause_within::<P>(most)
    }

    /// Publishes a time, as the owner.
    fn publish(&self, time: usize) {
        // A clock that has not moved is no news.
        if self.time.load(Relaxed) != time {
            self.time.store(time, Relaxed);
        }
    }
}

/// Whether a deadline has passed at `now` of the monotonic clock.
fn passed<P: Platform>(deadline: Deadline, now: u64) -> bool {
    if deadline.clock == Clock::Monotonic { now >= deadline.ns } else { expired::<P>(deadline) }
}

/// The time-published MCS lock.
#[repr(transparent)]
pub struct McsTimepub<P: Platform> {
    /// The last node of the queue; written by every locker, and by a releaser that leaves the lock free.
    tail: P::Ptr<TimepubNode<P>>,
}

const _: () = assert!(size_of::<McsTimepub<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform> core::fmt::Debug for McsTimepub<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("McsTimepub").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl McsTimepub<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { tail: Native::null() }
    }
}

impl<P: Platform> McsTimepub<P> {
    /// Frees the lock, if nobody is behind `node`.
    #[inline(always)]
    fn release_last(&self, node: NonNull<TimepubNode<P>>) -> bool {
        // ORDER: Release is E1.
        self.tail.compare_exchange(node.as_ptr(), ptr::null_mut(), Release, Relaxed).is_ok()
    }

    /// Waits with `node`, which is in the queue or `REMOVED`. Whether it was granted the lock; `None`: it was passed over, and is
    /// to line up again.
    fn wait_in_queue(node: NonNull<TimepubNode<P>>, wait: &Wait) -> Option<bool> {
        // SAFETY: ours until it is `ABANDONED`.
        let mine = unsafe { node.as_ref() };
        match mine.wait(wait) {
            GRANTED => Some(true),
            ABANDONED => Some(false), // I4.
            _ if wait.is_over::<P>() => {
                // SAFETY: I3: `REMOVED`: out of the queue, and ours.
                unsafe { P::free_node(node) };
                Some(false)
            }
            _ => {
                mine.status.store(WAITING, Relaxed);
                mine.next.store(ptr::null_mut(), Relaxed);
                None
            }
        }
    }

    /// Hands the lock to the first waiter that runs, or frees it.
    #[cold]
    fn pass_on(&self, holder: NonNull<TimepubNode<P>>) {
        let now = present::<P>();
        let mut node = holder;
        // I3. The holder's node is recycled, the others are told.
        let leave = |node: NonNull<TimepubNode<P>>| {
            // SAFETY: not given up before. ORDER: Release is E5, Acquire is E6.
            if node == holder || wait::is_left::<P>(unsafe { node.as_ref() }.status.swap(REMOVED, AcqRel)) {
                // SAFETY: the holder's, or abandoned; nobody links to it or looks for it any more.
                unsafe { P::free_node(node) };
            }
        };
        for passed_over in 0_u32.. {
            // SAFETY: the head of the queue, and not given up (I1, I3).
            let head = unsafe { node.as_ref() };
            let mut next = NonNull::new(head.next.load(Acquire)); // ORDER: E3.
            if next.is_none() {
                if self.release_last(node) {
                    return leave(node);
                }
                // Somebody swapped `tail` after we looked, and is about to link.
                let mut patience = Patience::new::<P>();
                while next.is_none() {
                    patience.pause::<P>();
                    next = NonNull::new(head.next.load(Acquire)); // ORDER: E3.
                }
            }
            let Some(succ) = next else { unreachable!("the loop above ends with a successor") };
            // SAFETY: initialised (E3), and not recycled before a release gives it up (I3).
            let waiter = unsafe { succ.as_ref() };
            // ORDER: Release is E4.
            let granted = (passed_over >= MOST || waiter.runs(now))
                && waiter.status.compare_exchange(WAITING, GRANTED, Release, Relaxed).is_ok();
            leave(node);
            if granted {
                return;
            }
            node = succ;
        }
    }
}

// SAFETY: at most one node is at the head (I1, I2), and E1 and E4 order the sections.
unsafe impl<P: Platform> NodeLock for McsTimepub<P> {
    type Platform = P;
    type Node = TimepubNode<P>;

    fn empty() -> Self {
        Self { tail: P::Ptr::new(ptr::null_mut()) }
    }

    #[inline(always)]
    fn acquire_fast(&self, node: NonNull<Self::Node>) -> bool {
        // ORDER: Release is E2 (and the initialisation of our node), Acquire is E1.
        self.tail.compare_exchange(ptr::null_mut(), node.as_ptr(), AcqRel, Relaxed).is_ok()
    }

    fn queue_up(&self, node: NonNull<Self::Node>, wait: &Wait) -> bool {
        loop {
            // SAFETY: ours: fresh, or `REMOVED` (I3).
            let mine = unsafe { node.as_ref() };
            mine.publish(present::<P>());
            // ORDER: Release is E2 (and the initialisation of our node); Acquire is E1 and E2.
            let Some(pred) = NonNull::new(self.tail.swap(node.as_ptr(), AcqRel)) else {
                return true;
            };
            // SAFETY: I3: `pred` is not given up before it has found us as its successor. ORDER: E3.
            unsafe { pred.as_ref() }.next.store(node.as_ptr(), Release);
            if let Some(granted) = Self::wait_in_queue(node, wait) {
                return granted;
            }
        }
    }

    const RETURNS: bool = true;

    fn come_back(
        &self,
        node: NonNull<Self::Node>,
        returning: &mut Returning<P, Self::Node>,
        wait: &Wait,
    ) -> Option<NonNull<Self::Node>> {
        // SAFETY: I4: ours again.
        let mine = unsafe { node.as_ref() };
        mine.publish(present::<P>());
        // ORDER: E5 where it was passed over.
        let again = wait::take_up(&mine.status, wait, WAITING);
        let wait = again.map_or_else(|_| returning.was_met(wait), |()| *wait);
        let granted = Self::wait_in_queue(node, &wait).unwrap_or_else(|| self.queue_up(node, &wait));
        granted.then_some(node)
    }

    #[inline(always)]
    unsafe fn release(&self, node: NonNull<Self::Node>) {
        // SAFETY: the holder's node (I1). ORDER: Relaxed: `pass_on` reads it again.
        let alone = unsafe { node.as_ref() }.next.load(Relaxed).is_null();
        if alone && self.release_last(node) {
            // SAFETY: no longer in the queue, and without a successor (I2).
            unsafe { P::free_node(node) };
        } else {
            self.pass_on(node);
        }
    }

    fn is_held(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }

    unsafe fn keep_only(&self, node: NonNull<Self::Node>) {
        // SAFETY: the holder's node is in the queue, and nobody else runs.
        unsafe { node.as_ref() }.next.store(ptr::null_mut(), Relaxed);
        self.tail.store(node.as_ptr(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::thread;

    use super::*;
    use crate::api::RawLock;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: a null pointer is a valid atomic pointer.
        let lock: McsTimepub<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        let Some(token) = lock.try_lock() else { panic!("free") };
        assert!(lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(!lock.is_locked());
    }

    #[test]
    fn the_release_passes_over_those_who_gave_up_and_frees_the_lock() {
        let lock = McsTimepub::<Native>::unlocked();
        let token = lock.lock();
        for _ in 0..2 * MOST {
            assert!(lock.try_lock_until(PAST).is_none());
        }
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(!lock.is_locked());
    }

    #[test]
    fn who_is_away_or_late_does_not_run() {
        let node = TimepubNode::<Native>::new();
        let now = 1_000_000;
        assert!(!node.runs(now));
        for (time, runs) in
            [(now, true), (now - FRESH as usize, true), (now - 10 * FRESH as usize, false), (now + 1, true)]
        {
            node.time.store(time, Relaxed);
            assert_eq!(node.runs(now), runs, "{time}");
        }
    }

    #[test]
    fn who_was_passed_over_lines_up_again() {
        let lock = McsTimepub::<Native>::unlocked();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let token = lock.lock();
                        thread::yield_now();
                        // SAFETY: locked above.
                        unsafe { lock.unlock(token) };
                    }
                });
            }
        });
        assert!(!lock.is_locked());
    }

    #[test]
    fn a_waiter_that_yields_has_said_that_it_is_away() {
        let node = TimepubNode::<Native>::new();
        let mut pauses = Patience::new::<Native>();
        let now = present::<Native>();
        node.publish(now);
        while !pauses.yields() {
            node.pause(&mut pauses, u32::MAX);
            assert_eq!(node.time.load(Relaxed), now, "it was here all the time");
        }
        node.pause(&mut pauses, u32::MAX);
        assert_eq!(node.time.load(Relaxed), AWAY);
    }
}
