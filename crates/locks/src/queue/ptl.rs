//! Partitioned ticket lock: draw a number, and wait until it is served, on one of several words.
//!
//! Dave Dice, "Brief announcement: a partitioned ticket lock", SPAA 2011. A waiter polls the slot that its number falls on,
//! so a release disturbs only the waiters on one slot. Deviations: the slots are made when a third thread comes, and
//! until then the waiters poll the lock, as in a ticket lock; both numbers are in one word, so that one atomic step says both
//! that a number is served and who waits for it; an acquisition first tries to draw exactly the number that is being served.
//!
//! Properties: FIFO; 16 bytes a lock, and a line for each slot (8 by default) once a holder and two waiters have met; nothing a waiter.
//! Waiting: spin. A drawn number cannot be given back, so a timed acquisition polls `try_lock`: it stands in no line, and
//! starves for as long as there is always somebody in line. Avoid the lock with more threads than CPUs: a preempted
//! waiter whose number comes up stops everybody for its whole time slice.
//!
//! # State
//!
//! ```text
//! word: next (bits 32 to 62) | serving (bits 1 to 31) | partitioned (bit 0)     next == serving: unlocked
//!
//! slots ─→ slot 0: grant, since      number n waits on slot n modulo N, until `grant` is n;
//!          slot 1: grant, since      but if it was drawn before the lock was partitioned, until `serving` is n
//!          …
//! ```
//!
//! Both numbers count modulo 2^31. Only equality and the difference are looked at, so wrapping around is no event.
//!
//! # Invariants
//!
//! - I1: a number is drawn by one thread: `next` changes by atomic additions of 1 only.
//! - I2: the holder is the thread that drew the number in `serving`; only its release changes `serving`, by 1.
//! - I3: the lock is partitioned once, by the thread that published the slots, in the step that draws the number which
//!   `since` says. Numbers before that one wait for `serving`, it and all later ones on their slots. When it is served,
//!   `since` becomes `ALWAYS`: so a release always knows where the next number waits.
//! - I4: who waits on a slot is not served before its grant is written, so a release may use the slot until
//!   then. Other waiters may take the lock, and destroy it, as soon as `serving` is theirs.
//! - I5: `grant` is `NONE`, unless the holder has not seen it yet: no number finds a grant that was meant for one 2^31
//!   numbers ago.
//!
//! # Ordering
//!
//! - E1: `unlock`'s CAS (Release) → the draw or the load that finds the number served (Acquire): the critical section.
//! - E2: the CAS in `partition` (Release) → the draws and releases that find the lock partitioned (Acquire): the slots.
//! - E3: `unlock`'s store of `grant` (Release) → the waiter's load (Acquire): the critical section.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

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
    deviations: "Slots are made when they are needed; both numbers share a word, and a release is a compare-and-swap.",
    avoid: "More threads than CPUs (a preempted waiter stops everybody), and timed acquisitions of a saturated lock \
            (they may starve).",
};

/// Slots of a lock by itself.
const SLOTS: usize = 8;

/// In the word: waiters use the slots.
const PARTITIONED: usize = 1;
/// Added to the word, draws a number.
const DRAW: usize = 1 << 32;
/// The largest number.
const LARGEST: u32 = u32::MAX >> 1;
/// Not a number: nothing was granted on this slot.
const NONE: u32 = u32::MAX;
/// Not a number: all numbers wait on slots.
const ALWAYS: u32 = u32::MAX;

/// The longest delay of a timed acquisition between two attempts, in pauses. Short: it competes
/// with a queue for the instants when there is none.
const TIMED_DELAY: u32 = 64;

/// The number that is drawn next.
#[inline(always)]
const fn next(word: usize) -> u32 {
    (word >> 32) as u32 & LARGEST
}

/// The number that is served.
#[inline(always)]
const fn serving(word: usize) -> u32 {
    word as u32 >> 1
}

#[inline(always)]
const fn is_free(word: usize) -> bool {
    next(word) == serving(word)
}

/// A word.
#[inline(always)]
const fn word(next: u32, serving: u32, partitioned: usize) -> usize {
    (next as usize) << 32 | (serving as usize) << 1 | partitioned
}

#[inline(always)]
const fn after(number: u32) -> u32 {
    number.wrapping_add(1) & LARGEST
}

/// Where every so-many-th number waits.
#[repr(C, align(64))]
struct Slot<P: Platform> {
    /// The number that is served, until its owner has seen it; written by releasers and by the owner, read by waiters.
    grant: P::U32,
    /// The first number that waits on a slot, the same in all slots, or [`ALWAYS`]; the holder's.
    since: P::Data<u32>,
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
        Self(core::array::from_fn(|_| Slot { grant: P::U32::new(NONE), since: P::Data::new(ALWAYS) }))
    }
}

impl<P: Platform, const N: usize> Slots<P, N> {
    fn of(&self, number: u32) -> &Slot<P> {
        &self.0[number as usize % N]
    }

    /// Says since which number all wait on slots.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, or nobody else uses the slots.
    unsafe fn set_since(&self, number: u32) {
        for slot in &self.0 {
            // SAFETY: the caller's contract.
            unsafe { slot.since.set(number) };
        }
    }
}

/// The partitioned ticket lock, with `N` slots.
#[repr(C)]
pub struct Ptl<P: Platform, const N: usize = SLOTS> {
    /// See the module's documentation; written by lockers and by the holder, read by waiters without a slot.
    word: P::Usize,
    /// Null until they are needed; written once.
    slots: P::Ptr<Slots<P, N>>,
}

const _: () = assert!(size_of::<Ptl<Native>>() == ALGORITHM.bytes);

impl<P: Platform, const N: usize> core::fmt::Debug for Ptl<P, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let word = self.word.load(Relaxed);
        f.debug_struct("Ptl")
            .field("next", &next(word))
            .field("serving", &serving(word))
            .finish_non_exhaustive()
    }
}

impl<const N: usize> Ptl<Native, N> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Native::USIZE_ZERO, slots: Native::null() }
    }
}

impl<P: Platform, const N: usize> Ptl<P, N> {
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// Draws the number that is served, if it is the next one.
    #[inline(always)]
    fn draw_served(&self) -> bool {
        let word = self.word.load(Relaxed);
        // Read first: a failing CAS would take the line from the holder. ORDER: E1.
        is_free(word) && self.word.compare_exchange(word, word.wrapping_add(DRAW), Acquire, Relaxed).is_ok()
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
        let seen = self.word.load(Relaxed);
        let crowded = next(seen).wrapping_sub(serving(seen)) & LARGEST >= 2;
        let drawn = if crowded && seen & PARTITIONED == 0 { self.partition() } else { None };
        // ORDER: E1 and E2.
        let drawn = drawn.unwrap_or_else(|| self.word.fetch_add(DRAW, Acquire));
        let number = next(drawn);
        let mut patience = Patience::new::<P>();
        if drawn & PARTITIONED == 0 || serving(drawn) == number {
            let mut word = drawn;
            while serving(word) != number {
                patience.pause::<P>();
                word = self.word.load(Acquire); // ORDER: E1.
            }
            return;
        }
        let slot = self.slots().of(number);
        // ORDER: E3.
        while slot.grant.load(Acquire) != number {
            patience.pause::<P>();
        }
        slot.grant.store(NONE, Relaxed); // I5.
    }

    /// Makes the slots and draws the first number that waits on one, unless another thread does. Returns the word as if the
    /// lock had been partitioned before.
    #[cold]
    fn partition(&self) -> Option<usize> {
        if !self.slots.load(Relaxed).is_null() {
            return None;
        }
        let fresh = P::alloc_node::<Slots<P, N>>();
        // ORDER: Relaxed: nobody looks before the lock is partitioned (E2).
        if self.slots.compare_exchange(ptr::null_mut(), fresh.as_ptr(), Relaxed, Relaxed).is_err() {
            // SAFETY: never published.
            unsafe { P::free_node(fresh) };
            return None;
        }
        // SAFETY: published by this thread.
        let slots = unsafe { fresh.as_ref() };
        let mut word = self.word.load(Relaxed);
        loop {
            let since = if is_free(word) { ALWAYS } else { next(word) };
            // SAFETY: I3: nobody else looks yet.
            unsafe { slots.set_since(since) };
            let partitioned = word.wrapping_add(DRAW) | PARTITIONED;
            // ORDER: Release is E2, Acquire is E1.
            match self.word.compare_exchange(word, partitioned, AcqRel, Relaxed) {
                Ok(_) => return Some(word | PARTITIONED),
                Err(there) => word = there,
            }
        }
    }

    /// The slots of a partitioned lock, for the holder or a waiter.
    fn slots(&self) -> &Slots<P, N> {
        // SAFETY: I3: published by those who partitioned it (E2), and there until `dispose`.
        match unsafe { self.slots.load(Relaxed).as_ref() } {
            Some(slots) => slots,
            None => unreachable!("a lock is partitioned after its slots were published"),
        }
    }

    /// Where the next number waits, which has been drawn: on a slot, or (`None`) for `serving`.
    #[cold]
    fn slot_of(&self, number: u32) -> Option<&Slot<P>> {
        let slots = self.slots();
        let slot = slots.of(number);
        // SAFETY: the holder's.
        let since = unsafe { slot.since.get() };
        if since == number {
            // SAFETY: the holder's.
            unsafe { slots.set_since(ALWAYS) };
        }
        (since == number || since == ALWAYS).then_some(slot)
    }
}

impl<P: Platform, const N: usize> Ptl<P, N> {
    /// After `fork`: `drawn` numbers from the one that is served are left.
    fn settle(&self, drawn: u32) {
        // SAFETY: null, or the lock's until `dispose`.
        let slots = unsafe { self.slots.load(Relaxed).as_ref() };
        if let Some(slots) = slots {
            // A ghost may have made them without partitioning the lock.
            // SAFETY: nobody else runs.
            unsafe { slots.set_since(ALWAYS) };
            slots.0.iter().for_each(|slot| slot.grant.store(NONE, Relaxed));
        }
        let number = serving(self.word.load(Relaxed));
        let next = number.wrapping_add(drawn) & LARGEST;
        self.word.store(word(next, number, usize::from(slots.is_some())), Relaxed);
    }

    /// Frees a lock that no living thread holds or waits for, after `fork`.
    pub(crate) fn reset(&self) {
        self.settle(0);
    }
}

// SAFETY: I1, I2 and I5 give exclusion, and E1 and E3 order the sections.
unsafe impl<P: Platform, const N: usize> RawLock<P> for Ptl<P, N> {
    type Token = ();

    fn new() -> Self {
        Self { word: P::Usize::new(0), slots: P::Ptr::new(ptr::null_mut()) }
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
        let mut seen = self.word.load(Acquire); // ORDER: E2.
        loop {
            let number = after(serving(seen));
            // Now: after the CAS there may be no lock (I4). Who draws `number` only then, finds it served.
            let waiter = seen & PARTITIONED != 0 && next(seen) != number;
            let slot = if waiter { self.slot_of(number) } else { None };
            let served = word((seen >> 32) as u32, number, seen & PARTITIONED);
            // ORDER: Release is E1, Acquire is E2.
            match self.word.compare_exchange(seen, served, Release, Acquire) {
                Ok(_) => {
                    if let Some(slot) = slot {
                        slot.grant.store(number, Release); // ORDER: E3.
                    }
                    return;
                }
                Err(there) => seen = there,
            }
        }
    }

    fn is_locked(&self) -> bool {
        !is_free(self.word.load(Relaxed))
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        self.settle(u32::from(self.is_locked()));
    }

    unsafe fn dispose(&self) {
        if let Some(slots) = NonNull::new(self.slots.swap(ptr::null_mut(), Relaxed)) {
            self.word.store(0, Relaxed);
            // SAFETY: unlinked, and nobody else knows of them.
            unsafe { P::free_node(slots) };
        }
    }
}

impl<P: Platform, const N: usize> Drop for Ptl<P, N> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::thread;

    use super::*;

    fn at(next: u32, serving: u32) -> Ptl<Native> {
        let lock = Ptl::unlocked();
        lock.word.store(word(next, serving, 0), Relaxed);
        lock
    }

    fn state(lock: &Ptl<Native>) -> (u32, u32) {
        let word = lock.word.load(Relaxed);
        (next(word), serving(word))
    }

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: atomics are valid whatever their bits, and so is a null pointer.
        let lock: Ptl<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        assert!(lock.try_lock().is_some());
        assert!(lock.is_locked() && lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(state(&lock), (1, 1));
    }

    #[test]
    fn numbers_wrap_around() {
        let lock = at(LARGEST, LARGEST);
        for served in [0, 1, 2] {
            let () = lock.lock();
            assert!(lock.is_locked() && lock.try_lock().is_none());
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
            assert_eq!(state(&lock), (served, served));
        }
    }

    #[test]
    fn a_crowd_across_the_wrap_around_is_served_on_slots() {
        let lock = at(LARGEST - 10, LARGEST - 10);
        let mut count = 0_u32;
        let counter = (&raw mut count).expose_provenance();
        let () = lock.lock();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let () = lock.lock();
                        let counter = ptr::with_exposed_provenance_mut::<u32>(counter);
                        // SAFETY: the lock excludes the other threads.
                        unsafe { *counter += 1 };
                        // SAFETY: locked above.
                        unsafe { lock.unlock(()) };
                    }
                });
            }
            while next(lock.word.load(Relaxed)) != LARGEST - 6 {
                thread::yield_now();
            }
            assert!(!lock.slots.load(Relaxed).is_null());
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
        });
        assert_eq!((count, state(&lock)), (60, (50, 50)));
    }

    #[test]
    fn forgetting_waiters_keeps_the_lock_locked() {
        let lock = at(2, LARGEST);
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(Some(())) };
        assert_eq!(state(&lock), (0, LARGEST));
        // SAFETY: the holder releases.
        unsafe { lock.unlock(()) };
        assert_eq!(state(&lock), (0, 0));
    }
}
