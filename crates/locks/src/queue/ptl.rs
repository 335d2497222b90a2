//! Partitioned ticket lock: draw a number, and wait until it is served, on one of several words.
//!
//! Dave Dice, "Brief announcement: a partitioned ticket lock", SPAA 2011. A waiter polls the slot that its number falls on,
//! so a release disturbs only the waiters on one slot. Deviations: the slots are made when a third thread comes, and
//! until then the lock is a ticket lock; an acquisition first tries to draw exactly the number that is being served.
//!
//! Properties: FIFO; 16 bytes a lock, and a line for each slot (8 by default) once a holder and two waiters have met;
//! nothing a waiter. Waiting: spin. A drawn number cannot be given back, so a timed acquisition polls `try_lock`: it
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
//! unlocked           serving == next                 the grant of the slot of `next` is `next`
//! ```
//!
//! Numbers are counted modulo 2^31 and kept times two. Only equality and small differences are looked at, so wrapping
//! around is no event.
//!
//! # Invariants
//!
//! - I1: a number is drawn by one thread: `next` changes by atomic additions only.
//! - I2: the holder is the thread that drew the number that was served last. Only it serves another.
//! - I3: the lock is partitioned once, by the thread that published the slots, in the step that draws its number k.
//!   Numbers up to k wait for `serving`, later ones on slots. The slots are unsettled until k holds the lock: a release
//!   before that serves by `serving`, whether it sees that the lock is partitioned or not, and every later one by a
//!   slot.
//! - I4: a release touches nothing after the one store that serves the next number: the lock may be gone.
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
use crate::catalogue::{Algorithm, Citation, Family};
use crate::competitive::backoff::Delay;
use crate::competitive::poll;
use crate::wait::{Patience, registered};

/// What is known of the partitioned ticket lock.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "ptl",
    family: Family::Queue,
    fairness: "FIFO",
    bytes: 16,
    bytes_per_waiter: 0,
    holder_node: false,
    timed: "polls, without a place in the queue",
    citation: Citation {
        key: "dice11",
        text: "Dice: Brief announcement: a partitioned ticket lock. SPAA 2011",
    },
    summary: "a ticket lock whose waiters are spread over several cache lines",
    properties: "FIFO without queue nodes. A release costs those waiters a cache miss that share a slot with the next. A lock \
                 that two threads have waited for at once has 512 bytes of slots.",
    deviations: "Slots are made when they are needed, and before that it is a ticket lock.",
    avoid: "More threads than CPUs (a preempted waiter stops everybody), and timed acquisitions of a saturated lock \
            (they may starve).",
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
    /// Whose slot it is, by the lock's address.
    owner: P::U32,
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
        let slot = |_| Slot { grant: P::U32::new(NONE), owner: P::U32::new(0), settled: P::Data::new(false) };
        Self(core::array::from_fn(slot))
    }
}

impl<P: Platform, const N: usize> Slots<P, N> {
    #[inline(always)]
    fn of(&self, number: u32) -> &Slot<P> {
        &self.0[(number / DRAW) as usize % N]
    }

    fn is_owned_by(&self, identity: u32) -> bool {
        self.0[0].owner.load(Relaxed) == identity
    }

    fn set_owner(&self, identity: u32) {
        self.0.iter().for_each(|slot| slot.owner.store(identity, Relaxed));
    }

    /// From now on all numbers wait on slots.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, or nobody else uses the slots.
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
    /// Null until they are needed. Those of another lock, if this one is a copy of it.
    slots: P::Ptr<Slots<P, N>>,
}

const _: () = assert!(size_of::<Ptl<Native>>() == ALGORITHM.bytes);

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

    /// What slots know their lock by: 32 bits that are different for locks less than 32 GiB apart.
    fn identity(&self) -> u32 {
        (self.address() >> 3) as u32
    }

    /// Draws the number that is served, if it is the next one.
    #[inline(always)]
    fn draw_served(&self) -> bool {
        let next = self.next.load(Acquire); // ORDER: E2.
        if next & PARTITIONED != 0 {
            return self.draw_granted(next);
        }
        // Read first: a failing CAS would take the line from the holder. ORDER: E1.
        self.serving.load(Acquire) == next && self.draw(next)
    }

    /// As [`Ptl::draw_served`], of a partitioned lock.
    #[cold]
    fn draw_granted(&self, next: u32) -> bool {
        let number = next & !PARTITIONED;
        let drawn = match self.own_slots() {
            // ORDER: E3.
            Some(slots) => slots.of(number).grant.load(Acquire) == number && self.draw(next),
            None => {
                self.forget_slots(next);
                return self.draw_served();
            }
        };
        if drawn {
            self.serving.store(number, Relaxed);
        }
        drawn
    }

    /// Draws the number of `next`, if nobody has.
    #[inline(always)]
    fn draw(&self, next: u32) -> bool {
        self.next.compare_exchange(next, next.wrapping_add(DRAW), Relaxed, Relaxed).is_ok()
    }

    /// Acquires, known as a waiter for `address`: this lock, or one that it is a part of.
    #[cold]
    pub(crate) fn lock_for(&self, address: usize, deadline: Option<Deadline>) -> bool {
        // Before the number is drawn: a child of `fork` must be able to find every number of a ghost.
        registered::<P, _>(address, || match deadline {
            None => {
                self.line_up();
                true
            }
            Some(_) => {
                let mut delay = Delay::new::<P>(TIMED_DELAY);
                poll::<P>(deadline, || self.draw_served(), |_| delay.pause::<P>())
            }
        })
    }

    /// Draws a number and waits for it.
    fn line_up(&self) {
        let next = self.next.load(Acquire); // ORDER: E2.
        if next & PARTITIONED != 0 && self.own_slots().is_none() {
            self.forget_slots(next);
            return self.line_up();
        }
        // Less than nobody, if others have come and gone since `next` was read.
        let in_line = next.wrapping_sub(self.serving.load(Relaxed)) as i32 / DRAW as i32;
        if next & PARTITIONED == 0 && in_line >= CROWD as i32 && self.partition() {
            return;
        }
        let drawn = self.next.fetch_add(DRAW, Acquire); // ORDER: E2.
        let number = drawn & !PARTITIONED;
        if drawn & PARTITIONED == 0 {
            return self.wait_for(number);
        }
        let slot = self.slots().of(number);
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
        let fresh = P::alloc_node::<Slots<P, N>>();
        // SAFETY: nobody else knows of them yet, and they are the lock's afterwards.
        let slots = unsafe { fresh.as_ref() };
        slots.set_owner(self.identity());
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

    /// The slots of a partitioned lock, by a thread that has found before that they are the lock's own.
    #[inline(always)]
    fn slots(&self) -> &Slots<P, N> {
        // SAFETY: I3: published by those who partitioned it (E2), and there until `dispose`.
        match unsafe { self.slots.load(Relaxed).as_ref() } {
            Some(slots) => slots,
            None => unreachable!("a lock is partitioned after its slots were published"),
        }
    }

    /// The lock's own slots, if there are any. Those of another are not: this lock is a copy.
    fn own_slots(&self) -> Option<&Slots<P, N>> {
        // SAFETY: null, or the lock's until `dispose`, or of a lock that this one is a copy of. Pool memory stays readable.
        let slots = unsafe { self.slots.load(Relaxed).as_ref() }?;
        if !slots.is_owned_by(self.identity()) {
            if P::locks_are_copied() {
                return None;
            }
            slots.set_owner(self.identity()); // It was moved.
        }
        Some(slots)
    }

    /// Makes a copy, which was made of an unlocked lock in the state `next`, a lock without slots.
    #[cold]
    fn forget_slots(&self, next: u32) {
        let number = next & !PARTITIONED;
        if self.next.compare_exchange(next, number, Relaxed, Relaxed).is_ok() {
            self.slots.store(ptr::null_mut(), Relaxed);
            // Last: nobody has the lock before.
            self.serving.store(number, Relaxed);
        }
    }

    /// Serves the number after the holder's `number`, in a partitioned lock.
    #[cold]
    fn pass_on(&self, number: u32) {
        let next = number.wrapping_add(DRAW);
        let slot = self.slots().of(next);
        // SAFETY: the holder's.
        if unsafe { slot.settled.get() } {
            slot.grant.store(next, Release); // ORDER: E3.
        } else {
            self.serving.store(next, Release); // ORDER: E1.
        }
    }
}

impl<P: Platform, const N: usize, const CROWD: u32> Ptl<P, N, CROWD> {
    /// After `fork`: leaves nobody in line but the holder, if there is one.
    fn settle(&self, is_locked: bool) {
        let number = self.serving.load(Relaxed);
        let next = if is_locked { number.wrapping_add(DRAW) } else { number };
        let mut partitioned = 0;
        // A ghost may have made them without partitioning the lock.
        if let Some(slots) = self.own_slots() {
            // SAFETY: nobody else runs.
            unsafe { slots.settle() };
            slots.0.iter().for_each(|slot| slot.grant.store(NONE, Relaxed));
            if !is_locked {
                slots.of(next).grant.store(next, Relaxed);
                self.serving.store(next.wrapping_sub(DRAW), Relaxed);
            }
            partitioned = PARTITIONED;
        }
        self.next.store(next | partitioned, Relaxed);
    }

    /// Frees a lock that no living thread holds or waits for, after `fork`.
    pub(crate) fn reset(&self) {
        self.settle(false);
    }
}

// SAFETY: I1 and I2 give exclusion, and E1 and E3 order the sections.
unsafe impl<P: Platform, const N: usize, const CROWD: u32> RawLock<P> for Ptl<P, N, CROWD> {
    type Token = ();

    fn new() -> Self {
        Self { next: P::U32::new(0), serving: P::U32::new(0), slots: P::Ptr::new(ptr::null_mut()) }
    }

    #[inline(always)]
    fn lock(&self) {
        if !self.draw_served() {
            self.lock_for(self.address(), None);
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.draw_served().then_some(())
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<()> {
        (self.draw_served() || self.lock_for(self.address(), Some(deadline))).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        let number = self.serving.load(Relaxed);
        // ORDER: E2. Who partitions the lock only now waits for `serving`, as do all before it (I3).
        if self.next.load(Acquire) & PARTITIONED == 0 {
            self.serving.store(number.wrapping_add(DRAW), Release); // ORDER: E1.
        } else {
            self.pass_on(number);
        }
    }

    fn is_locked(&self) -> bool {
        let next = self.next.load(Acquire); // ORDER: E2.
        if next & PARTITIONED == 0 {
            return self.serving.load(Relaxed) != next;
        }
        let number = next & !PARTITIONED;
        // A copy is one of an unlocked lock.
        self.own_slots().is_some_and(|slots| slots.of(number).grant.load(Relaxed) != number)
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        self.settle(self.is_locked());
    }

    unsafe fn dispose(&self) {
        let own = self.own_slots().is_some();
        let slots = NonNull::new(self.slots.swap(ptr::null_mut(), Relaxed)).filter(|_| own);
        self.next.store(0, Relaxed);
        self.serving.store(0, Relaxed);
        if let Some(slots) = slots {
            // SAFETY: unlinked, and nobody else knows of them.
            unsafe { P::free_node(slots) };
        }
    }
}

impl<P: Platform, const N: usize, const CROWD: u32> Drop for Ptl<P, N, CROWD> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

#[cfg(test)]
mod tests;
