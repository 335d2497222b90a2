//! Anderson's array lock: draw a number, and wait on the slot of an array that belongs to it.
//!
//! Thomas E. Anderson, "The performance of spin lock alternatives for shared-memory multiprocessors", IEEE TPDS 1(1),
//! 1990, the array-based queueing lock. Deviations: the array is taken from the platform's pool by the first release
//! that finds two waiters, and kept until the lock is destroyed; before, waiters watch the number that is served, as in
//! a ticket lock. A slot holds the number that has come up instead of a flag that its owner resets, so a slot may have
//! more than one waiter, and any number of threads can wait. The place in the array is the holder's number, which the
//! lock keeps. The uncontended acquisition draws by compare-and-swap (so `try_lock` is the uncontended path of `lock`).
//!
//! Properties: FIFO; 16 bytes a lock, and 2 KiB once two have waited; nothing a waiter; O(1) remote references per
//! hand-off while fewer threads wait than there are slots. Waiting: spin. A drawn number cannot be given back, so a
//! timed acquisition polls `try_lock`: it stands in no line, and starves for as long as there is always somebody in
//! line. Avoid the lock with more threads than CPUs: a preempted waiter whose number comes up stops everybody for its
//! whole time slice.
//!
//! # State
//!
//! ```text
//! next 11                 drawn next
//! serving 7               7 holds the lock; without an array 7 may also be free to be drawn
//! slots ─→ … │7│8│9│…     the slot of n is n modulo their number; 8 waits until its slot says 8
//! ```
//!
//! Numbers count modulo 2^32, of which the number of slots is a divisor.
//!
//! # Invariants
//!
//! - I1: a number is drawn by one thread: `next` changes by atomic additions of 1 only. Fewer than 2^32 numbers are drawn
//!   and not yet released.
//! - I2: without an array, the holder is the thread that drew the number in `serving`, and its release adds 1. With an
//!   array it is the thread whose number its slot has said last; it then writes its number to `serving`. So while a
//!   thread holds the lock, `serving` is its number, once the acquisition has returned.
//! - I3: only a holder installs the array, and only `dispose` removes it. So a release knows whether there is an array, and
//!   its last access is one store: to `serving` without, to the next number's slot with an array.
//! - I4: a slot never says a number that belongs to it and has not come up: it begins with another slot's.
//!
//! # Ordering
//!
//! - E1: `unlock`'s store of `serving` (Release) → the load of the thread that finds its number there (Acquire): the
//!   critical section, while there is no array.
//! - E2: `unlock`'s store to a slot (Release) → the load of the thread that finds its number there (Acquire): the same,
//!   with an array.
//! - E3: the installing store of `slots` (Release) → the loads of `slots` by those who do not hold the lock (Acquire): the
//!   initialisation of the array. A holder has it by E1 and E2.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, ConstPlatform, Deadline, Native, Platform, PoolNode};

use crate::api::RawLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::competitive::backoff::Delay;
use crate::competitive::poll;
use crate::wait::{Patience, registered};

/// What is known of the array lock.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "alock",
    family: Family::Queue,
    fairness: "FIFO",
    bytes: 16,
    bytes_per_waiter: 0,
    holder_node: false,
    timed: "polls, without a place in the queue",
    citation: Citation {
        key: "anderson90",
        text: "Anderson: The performance of spin lock alternatives for shared-memory multiprocessors. \
               IEEE TPDS 1(1), 1990",
    },
    summary: "draw a number, and wait until its slot in an array says that it has come up",
    properties: "One remote reference per hand-off. 2 KiB for a lock on which two threads have waited at once.",
    deviations: "The array has 32 slots, comes with the first contention of three threads, and slots hold numbers, so \
                 that any number of threads can wait.",
    avoid: "More threads than CPUs (a preempted waiter stops everybody), many contended locks, and timed acquisitions of \
            a saturated lock (they may starve).",
};

/// The longest delay of a timed acquisition between two attempts, in pauses.
const TIMED_DELAY: u32 = 64;

/// A slot, on a cache line of its own.
#[repr(C, align(64))]
struct Slot<P: Platform> {
    /// The number that came up here last; written by a holder, read by those who wait here.
    number: P::U32,
}

/// The array.
#[repr(C)]
pub struct Slots<P: Platform, const SLOTS: usize> {
    slots: [Slot<P>; SLOTS],
}

impl<P: Platform, const SLOTS: usize> core::fmt::Debug for Slots<P, SLOTS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.slots.iter().map(|slot| slot.number.load(Relaxed))).finish()
    }
}

impl<P: Platform, const SLOTS: usize> PoolNode<P> for Slots<P, SLOTS> {
    fn new() -> Self {
        const { assert!(SLOTS.is_power_of_two() && SLOTS > 1 && SLOTS <= 64) };
        // I4.
        Self { slots: core::array::from_fn(|index| Slot { number: P::U32::new(index as u32 + 1) }) }
    }
}

impl<P: Platform, const SLOTS: usize> Slots<P, SLOTS> {
    fn of(&self, number: u32) -> &P::U32 {
        &self.slots[number as usize % SLOTS].number
    }

    /// Whether `number` has come up.
    fn says(&self, number: u32) -> bool {
        self.of(number).load(Acquire) == number // ORDER: E2.
    }
}

/// The array lock, with an array of `SLOTS` slots.
#[repr(C)]
pub struct Alock<P: Platform, const SLOTS: usize = 32> {
    /// The number that is drawn next; written by lockers.
    next: P::U32,
    /// The number that is served, or (with an array) of the last holder; written by holders.
    serving: P::U32,
    /// Null, or the array; written by one holder, once.
    slots: P::Ptr<Slots<P, SLOTS>>,
}

const _: () = assert!(size_of::<Alock<Native>>() == ALGORITHM.bytes);
const _: () = assert!(size_of::<Slots<Native, 32>>() == 2048);

impl<P: Platform, const SLOTS: usize> core::fmt::Debug for Alock<P, SLOTS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (next, serving) = (self.next.load(Relaxed), self.serving.load(Relaxed));
        f.debug_struct("Alock").field("next", &next).field("serving", &serving).finish_non_exhaustive()
    }
}

impl<const SLOTS: usize> Alock<Native, SLOTS> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { next: Native::U32_ZERO, serving: Native::U32_ZERO, slots: Native::null() }
    }
}

impl<P: Platform, const SLOTS: usize> Alock<P, SLOTS> {
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// The array, if there is one.
    #[inline(always)]
    fn slots(&self) -> Option<&Slots<P, SLOTS>> {
        // SAFETY: I3: null, or pool memory that stays the lock's until `dispose`. ORDER: E3.
        unsafe { self.slots.load(Acquire).as_ref() }
    }

    /// Whether `number`, which the caller has drawn, is served; the lock then is the caller's.
    #[inline(always)]
    fn serves(&self, number: u32, slots: Option<&Slots<P, SLOTS>>) -> bool {
        let Some(slots) = slots else {
            // With an array that `slots` does not know of yet, only the caller itself could have written that.
            return self.serving.load(Acquire) == number; // ORDER: E1.
        };
        let served = slots.says(number);
        if served {
            self.serving.store(number, Relaxed); // I2.
        }
        served
    }

    /// Draws the number that is served, if it has not been drawn: acquires a free lock.
    #[inline(always)]
    fn draw_served(&self) -> bool {
        let slots = self.slots();
        let next = self.next.load(Relaxed);
        // Read first: a failing CAS would take the line from the holder. ORDER: Relaxed: read again below.
        let free = match slots {
            None => self.serving.load(Relaxed) == next,
            Some(slots) => slots.of(next).load(Relaxed) == next,
        };
        if !free || self.next.compare_exchange(next, next.wrapping_add(1), Relaxed, Relaxed).is_err() {
            return false;
        }
        // Not served only if 2^32 numbers were drawn between the reads and the CAS.
        if !self.serves(next, slots) {
            registered::<P, _>(self.address(), || self.wait_for(next));
        }
        true
    }

    #[cold]
    fn wait_for(&self, number: u32) {
        let mut patience = Patience::new::<P>();
        let slots = loop {
            // The array may come while we watch `serving`.
            let slots = self.slots();
            if self.serves(number, slots) {
                return;
            }
            if let Some(slots) = slots {
                break slots;
            }
            patience.pause::<P>();
        };
        while !slots.says(number) {
            patience.pause::<P>();
        }
        self.serving.store(number, Relaxed); // I2.
    }

    #[cold]
    fn lock_slow(&self) {
        // Before the number is drawn: a child of `fork` must be able to find every number of a ghost.
        registered::<P, _>(self.address(), || self.wait_for(self.next.fetch_add(1, Relaxed)));
    }

    #[cold]
    fn lock_timed(&self, deadline: Deadline) -> bool {
        let mut delay = Delay::new::<P>(TIMED_DELAY);
        registered::<P, _>(self.address(), || {
            poll::<P>(Some(deadline), || self.draw_served(), |_| delay.pause::<P>())
        })
    }

    /// Installs the array, for the holder.
    #[cold]
    fn install(&self) -> &Slots<P, SLOTS> {
        let fresh = P::alloc_node::<Slots<P, SLOTS>>();
        self.slots.store(fresh.as_ptr(), Release); // ORDER: E3.
        // SAFETY: initialised by the pool, and the lock's until `dispose`.
        unsafe { fresh.as_ref() }
    }
}

// SAFETY: I1 to I4 give exclusion, and E1 and E2 order the sections.
unsafe impl<P: Platform, const SLOTS: usize> RawLock<P> for Alock<P, SLOTS> {
    type Token = ();

    fn new() -> Self {
        Self { next: P::U32::new(0), serving: P::U32::new(0), slots: P::Ptr::new(ptr::null_mut()) }
    }

    #[inline(always)]
    fn lock(&self) {
        if !self.draw_served() {
            self.lock_slow();
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.draw_served().then_some(())
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<()> {
        (self.draw_served() || self.lock_timed(deadline)).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        let next = self.serving.load(Relaxed).wrapping_add(1); // I2.
        // SAFETY: I3: null or the lock's array. ORDER: Relaxed: a holder has its initialisation (E3).
        let slots = match unsafe { self.slots.load(Relaxed).as_ref() } {
            Some(slots) => slots,
            // With one waiter `serving` is as good as a slot.
            None if self.next.load(Relaxed).wrapping_sub(next) > 1 => self.install(),
            None => return self.serving.store(next, Release), // ORDER: Release is E1.
        };
        slots.of(next).store(next, Release); // ORDER: E2.
    }

    fn is_locked(&self) -> bool {
        let next = self.next.load(Relaxed);
        let free = match self.slots() {
            None => self.serving.load(Relaxed) == next,
            Some(slots) => slots.of(next).load(Relaxed) == next,
        };
        !free
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        if self.is_locked() {
            // I2. If a ghost was about to hold the lock, its number has come up and now is free to be drawn.
            self.next.store(self.serving.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    unsafe fn dispose(&self) {
        let Some(slots) = NonNull::new(self.slots.load(Relaxed)) else { return };
        self.slots.store(ptr::null_mut(), Relaxed);
        self.serving.store(self.next.load(Relaxed), Relaxed);
        // SAFETY: the caller's contract: nobody uses the lock.
        unsafe { P::free_node(slots) };
    }
}

impl<P: Platform, const SLOTS: usize> Drop for Alock<P, SLOTS> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { RawLock::dispose(self) };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::thread;

    use lockwork_platform::Clock;

    use super::*;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    fn check(lock: &Alock<Native, 4>) {
        for _ in 0..9 {
            assert!(!lock.is_locked());
            assert!(lock.try_lock().is_some());
            assert!(lock.is_locked());
            assert!(lock.try_lock().is_none());
            assert!(lock.try_lock_until(PAST).is_none());
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
        }
        assert!(!lock.is_locked());
    }

    /// A held lock with so many waiters, released and served.
    fn crowd(lock: &Alock<Native, 4>, waiters: u32) {
        let () = lock.lock();
        let first = lock.next.load(Relaxed);
        thread::scope(|scope| {
            for _ in 0..waiters {
                scope.spawn(|| {
                    let () = lock.lock();
                    // SAFETY: locked above.
                    unsafe { lock.unlock(()) };
                });
            }
            while lock.next.load(Relaxed) != first.wrapping_add(waiters) {
                thread::yield_now();
            }
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
        });
    }

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: atomics are valid whatever their bits.
        check(&unsafe { core::mem::zeroed() });
    }

    #[test]
    fn the_array_comes_with_the_second_waiter_and_goes_with_the_lock() {
        let lock = Alock::<Native, 4>::unlocked();
        crowd(&lock, 1);
        assert!(lock.slots().is_none());
        crowd(&lock, 2);
        assert!(lock.slots().is_some());
        check(&lock);
        // SAFETY: nobody else uses this lock.
        unsafe { lock.dispose() };
        assert!(lock.slots().is_none());
        check(&lock);
    }

    #[test]
    fn more_threads_than_slots_are_served_across_the_wrap_around() {
        let lock = Alock::<Native, 4>::unlocked();
        for counter in [&lock.next, &lock.serving] {
            counter.store(u32::MAX - 5, Relaxed);
        }
        crowd(&lock, 11);
        check(&lock);
    }

    #[test]
    fn forgetting_waiters_keeps_the_lock_locked() {
        let lock = Alock::<Native, 4>::unlocked();
        for waiters in [0, 2] {
            crowd(&lock, waiters);
            let () = lock.lock();
            lock.next.fetch_add(3, Relaxed);
            // SAFETY: nobody else uses this lock.
            unsafe { lock.forget_waiters(Some(())) };
            assert!(lock.is_locked());
            assert!(lock.try_lock().is_none());
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
            check(&lock);
            // SAFETY: nobody else uses this lock.
            unsafe { lock.forget_waiters(None) };
            check(&lock);
        }
    }
}
