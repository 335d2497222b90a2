//! Partitioned ticket lock: draw a number, and wait until it is served, on one of several words.
//!
//! Dave Dice, "Brief announcement: a partitioned ticket lock", SPAA 2011. A waiter polls the slot that its number falls on,
//! so a release disturbs only the waiters on one slot. Deviations: the slots are made when a third thread comes, and
//! given back when nobody waits; without them the lock is a ticket lock. So a lock that is free, and perhaps freed without being
//! destroyed, keeps no memory. An acquisition first tries to draw exactly the number that is being served.
//!
//! Properties: FIFO; 16 bytes a lock, and a line for each slot (8 by default) from when a holder and two waiters meet until
//! nobody waits; nothing a waiter. Waiting: spin. A drawn number cannot be given back, so a timed acquisition polls `try_lock`: it
//! stands in no line, and starves for as long as there is always somebody in line. Avoid the lock with more threads
//! than CPUs: a preempted waiter whose number comes up stops everybody for its whole time slice.
//!
//! # State
//!
//! ```text
//! next: the number that is drawn next, and whether the lock is partitioned
//!
//!                    not partitioned                 partitioned
//! serving            the number that is served       the holder's number
//! number n waits     until `serving` is n            until `grant` of slot n modulo the number of slots is n
//! unlocked           serving == next                 never
//! ```
//!
//! Numbers are counted modulo 2^31 and kept times two. Only equality and small differences are looked at, so wrapping
//! around is no event.
//!
//! # Invariants
//!
//! - I1: a number is drawn by one thread: `next` changes by atomic additions only.
//! - I2: the holder is the thread that drew the number that was served last. Only it serves another.
//! - I3: the lock is partitioned by the thread that published the slots, in the step that draws its number k.
//!   Numbers up to k wait for `serving`, later ones on slots. The slots are unsettled until k holds the lock: a release
//!   before that serves by `serving`, whether it sees that the lock is partitioned or not, and every later one by a
//!   slot, but the last: a release that finds nobody in line makes the lock whole again in the same step, takes the slots
//!   out, and serves by `serving`. So slots are looked at by holders and by threads in line, and there as long as one is.
//! - I4: a release touches nothing of the lock after the one store that serves the next number: the lock may be gone.
//! - I5: a grant is overwritten after as many numbers as there are slots: no number finds the one of 2^31 numbers ago.
//!
//! # Ordering
//!
//! - E1: a release's store of `serving` (Release) → the load that finds the number served (Acquire): the critical section.
//! - E2: the CAS in `partition` (Release) → the loads and draws that find the lock partitioned (Acquire): the slots.
//! - E3: a release's store of `grant` (Release) → the load that finds it (Acquire): the critical section.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{
    AtomicCell, AtomicInt, ConstPlatform, DataCell, Deadline, Native, Platform, PoolNode,
};

use crate::api::RawLock;
use crate::competitive::backoff::Delay;
use crate::competitive::poll;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{Patience, Wait};

/// What is known of the partitioned ticket lock.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "ptl",
    family: Family::Queue,
    order: Order::Fifo,
    bytes: 16,
    timed: Timed::Polls("without a place in the queue"),
    proofs: &[Proof { source: file!(), by: &["ptl, two slots at once"] }],
    citation: Citation {
        key: "dice11",
        text: "Dice: Brief announcement: a partitioned ticket lock. SPAA 2011",
    },
    summary: "a ticket lock whose waiters are spread over several cache lines",
    properties: "FIFO without queue nodes. A release costs those waiters a cache miss that share a slot with the next. A lock \
                 for which two threads wait at once has 512 bytes of slots until nobody waits.",
    deviations: "Slots are made when they are needed, and otherwise it is a ticket lock.",
    avoid: "More threads than CPUs (a preempted waiter stops everybody), and timed acquisitions of a saturated lock \
            (they may starve).",
    ..Descriptor::MUTEX
};

/// Slots of a lock by itself.
const SLOTS: usize = 8;

/// In `next`: the lock is partitioned.
const PARTITIONED: u32 = 1;
/// What draws a number.
const DRAW: u32 = 2;
/// Not a number: nothing was granted on this slot.
const NONE: u32 = 1;

/// The longest delay of a timed acquisition between two attempts, in pauses. Short: it competes
/// with a queue for the instants when there is none.
const TIMED_DELAY: u32 = 64;

/// Where every so-many-th number waits.
#[repr(C, align(64))]
struct Slot<P: Platform> {
    /// The last number that was served here; written by releasers, read by waiters.
    grant: P::U32,
    /// Whose slot it is: the lock's address.
    owner: P::Usize,
    /// Whether all numbers wait on slots (I3), the same in all slots; the holder's.
    settled: P::Data<bool>,
}

/// The slots of a lock.
#[repr(C)]
pub struct Slots<P: Platform, const N: usize>([Slot<P>; N]);

impl<P: Platform, const N: usize> core::fmt::Debug for Slots<P, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Slots").finish_non_exhaustive()
    }
}

impl<P: Platform, const N: usize> PoolNode<P> for Slots<P, N> {
    fn new() -> Self {
        let slot =
            |_| Slot { grant: P::U32::new(NONE), owner: P::Usize::new(0), settled: P::Data::new(false) };
        Self(core::array::from_fn(slot))
    }
}

impl<P: Platform, const N: usize> Slots<P, N> {
    #[inline(always)]
    fn of(&self, number: u32) -> &Slot<P> {
        &self.0[(number / DRAW) as usize % N]
    }

    fn is_of(&self, address: usize) -> bool {
        self.0[0].owner.load(Relaxed) == address
    }

    /// From now on all numbers wait on slots.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    unsafe fn settle(&self) {
        for slot in &self.0 {
            // SAFETY: the caller's contract.
            unsafe { slot.settled.set(true) };
        }
    }
}

/// The partitioned ticket lock, with `N` slots, which are made for whoever finds `CROWD` others in line, the holder
/// included.
#[repr(C)]
pub struct Ptl<P: Platform, const N: usize = SLOTS, const CROWD: u32 = 2> {
    /// The number that is drawn next, and [`PARTITIONED`]; written by lockers.
    next: P::U32,
    /// See the module's documentation; written by the holder.
    serving: P::U32,
    /// Null unless they are needed. Those of another lock, if this one is a copy that was made of it when it was locked.
    slots: P::Ptr<Slots<P, N>>,
}

const _: () = assert!(size_of::<Ptl<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform, const N: usize, const CROWD: u32> core::fmt::Debug for Ptl<P, N, CROWD> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ptl")
            .field("next", &self.next.load(Relaxed))
            .field("serving", &self.serving.load(Relaxed))
            .finish_non_exhaustive()
    }
}

impl<const N: usize, const CROWD: u32> Ptl<Native, N, CROWD> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { next: Native::U32_ZERO, serving: Native::U32_ZERO, slots: Native::null() }
    }
}

impl<P: Platform, const N: usize, const CROWD: u32> Ptl<P, N, CROWD> {
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// Draws the number that is served, if it is the next one.
    #[inline(always)]
    fn acquire_fast(&self) -> bool {
        // What a partitioned lock says is no number that is served. ORDER: Relaxed: slots are not looked at.
        let next = self.next.load(Relaxed);
        // Read first: a failing CAS would take the line from the holder. ORDER: E1.
        self.serving.load(Acquire) == next && self.draw(next)
    }

    /// Draws the number of `next`, if nobody has.
    #[inline(always)]
    fn draw(&self, next: u32) -> bool {
        self.next.compare_exchange(next, next.wrapping_add(DRAW), Relaxed, Relaxed).is_ok()
    }

    /// Lines up, or, with a deadline, polls. Whether the lock was acquired.
    fn acquire_slow(&self, deadline: Option<Deadline>) -> bool {
        if deadline.is_none() {
            self.line_up();
            return true;
        }
        let mut delay = Delay::new::<P>(TIMED_DELAY);
        poll::<P>(deadline, || self.acquire_fast(), |_| delay.pause::<P>())
    }

    /// Draws a number and waits for it.
    fn line_up(&self) {
        let next = self.next.load(Relaxed);
        // Less than nobody, if others have come and gone since `next` was read.
        let in_line = next.wrapping_sub(self.serving.load(Relaxed)) as i32 / DRAW as i32;
        if next & PARTITIONED == 0 && in_line >= CROWD as i32 && self.partition() {
            return;
        }
        let drawn = self.next.fetch_add(DRAW, Acquire); // ORDER: E2.
        let number = drawn & !PARTITIONED;
        let slots = if drawn & PARTITIONED == 0 { None } else { self.own_slots() };
        let Some(slots) = slots else { return self.wait_for(number) };
        let slot = slots.of(number);
        let mut patience = Patience::new::<P>();
        // ORDER: E3.
        while slot.grant.load(Acquire) != number {
            patience.pause::<P>();
        }
        self.serving.store(number, Relaxed);
    }

    /// Waits until `serving` is `number`.
    fn wait_for(&self, number: u32) {
        let mut patience = Patience::new::<P>();
        // ORDER: E1.
        while self.serving.load(Acquire) != number {
            patience.pause::<P>();
        }
    }

    /// Makes the slots, draws the last number that waits without one, and waits for it; unless another thread does.
    #[cold]
    fn partition(&self) -> bool {
        if !self.slots.load(Relaxed).is_null() {
            return false;
        }
        let Some(fresh) = P::try_alloc_node::<Slots<P, N>>() else { return false };
        // SAFETY: nobody else knows of them yet, and they are the lock's until we have held it (I3).
        let slots = unsafe { fresh.as_ref() };
        slots.0[0].owner.store(self.address(), Relaxed);
        // ORDER: Relaxed: nobody looks before the lock is partitioned (E2).
        if self.slots.compare_exchange(ptr::null_mut(), fresh.as_ptr(), Relaxed, Relaxed).is_err() {
            // SAFETY: never published.
            unsafe { P::free_node(fresh) };
            return false;
        }
        // ORDER: Release is E2.
        let number = self.next.fetch_add(DRAW | PARTITIONED, Release);
        self.wait_for(number);
        // SAFETY: we hold the lock (I3).
        unsafe { slots.settle() };
        true
    }

    /// The slots of a partitioned lock, for a thread in line. Those of another lock are none: this one is a copy.
    #[inline(always)]
    fn own_slots(&self) -> Option<&Slots<P, N>> {
        // SAFETY: I3: the lock's as long as the caller is in line; or pool memory, which stays readable.
        let slots = unsafe { self.slots.load(Relaxed).as_ref() }?;
        slots.is_of(self.address()).then_some(slots)
    }

    /// Serves the number after the holder's `number`, in a partitioned lock.
    #[cold]
    fn pass_on(&self, number: u32) {
        let next = number.wrapping_add(DRAW);
        let array = self.slots.load(Relaxed);
        // SAFETY: I3: published by those who partitioned it (E2), and there while there is a holder.
        let Some(slots) = (unsafe { array.as_ref() }) else {
            unreachable!("a lock is partitioned after its slots were published")
        };
        // SAFETY: the holder's.
        if !unsafe { slots.of(next).settled.get() } {
            self.serving.store(next, Release); // ORDER: E1.
        } else if !self.make_whole(array, next) {
            slots.of(next).grant.store(next, Release); // ORDER: E3.
        }
    }

    /// Serves `next` by `serving`, and gives the slots back, if nobody is in line behind the holder, who is the caller.
    fn make_whole(&self, slots: *mut Slots<P, N>, next: u32) -> bool {
        // Read first: a failing CAS would take the line from those who come. ORDER: Relaxed: a thread that draws learns nothing by
        // it.
        if self.next.load(Relaxed) != next | PARTITIONED
            || self.next.compare_exchange(next | PARTITIONED, next, Relaxed, Relaxed).is_err()
        {
            return false;
        }
        // Until now nobody could publish others. ORDER: Relaxed: a thread that publishes others comes after it, by the exchange.
        self.slots.store(ptr::null_mut(), Relaxed);
        self.serving.store(next, Release); // ORDER: E1. I4.
        if let Some(slots) = NonNull::new(slots) {
            // SAFETY: I3: nobody else knows of them.
            unsafe { P::free_node(slots) };
        }
        true
    }

    /// After `fork`: leaves nobody in line but the holder, if there is one; with `free` there is none.
    fn settle(&self, free: bool) {
        let mut number = self.serving.load(Relaxed);
        let mut is_locked = !free && self.next.load(Relaxed) != number;
        let own = self.own_slots().is_some();
        let slots = NonNull::new(self.slots.swap(ptr::null_mut(), Relaxed)).filter(|_| own);
        if let Some(slots) = slots {
            let coming = number.wrapping_add(DRAW);
            // A ghost was about to hold the lock.
            // SAFETY: I3: the lock's.
            if unsafe { slots.as_ref() }.of(coming).grant.load(Relaxed) == coming {
                number = coming;
                is_locked = false;
            }
            // SAFETY: nobody else runs.
            unsafe { P::free_node(slots) };
        }
        self.serving.store(number, Relaxed);
        self.next.store(if is_locked { number.wrapping_add(DRAW) } else { number }, Relaxed);
    }

    /// Frees a lock that no living thread holds or waits for, after `fork`.
    pub(crate) fn reset(&self) {
        self.settle(true);
    }
}

// SAFETY: I1 and I2 give exclusion, and E1 and E3 order the sections.
unsafe impl<P: Platform, const N: usize, const CROWD: u32> RawLock<P> for Ptl<P, N, CROWD> {
    type Token = ();

    fn new() -> Self {
        Self { next: P::U32::new(0), serving: P::U32::new(0), slots: P::Ptr::new(ptr::null_mut()) }
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<()> {
        self.acquire_fast().then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.acquire_slow(wait.deadline).then_some(())
    }

    fn lock_with(&self, wait: &Wait) -> Option<()> {
        self.lock_slow(wait)
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        let number = self.serving.load(Relaxed);
        // ORDER: E2. A thread that partitions the lock only now waits for `serving`, as do all before it (I3).
        if self.next.load(Acquire) & PARTITIONED == 0 {
            self.serving.store(number.wrapping_add(DRAW), Release); // ORDER: E1.
        } else {
            self.pass_on(number);
        }
    }

    fn is_locked(&self) -> bool {
        // A partitioned lock is locked, and serves no odd number.
        self.serving.load(Relaxed) != self.next.load(Relaxed)
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        self.settle(false);
    }
}

#[cfg(test)]
mod tests;
