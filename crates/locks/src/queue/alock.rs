//! Anderson's array lock: draw a number, and wait on the slot of an array that belongs to it.
//!
//! Thomas E. Anderson, "The performance of spin lock alternatives for shared-memory multiprocessors", IEEE TPDS 1(1),
//! 1990, the array-based queueing lock. Deviations: the array is taken from the platform's pool by a release
//! that finds two waiters, and given back by the one that finds none; without it, waiters watch the number that is served,
//! as in a ticket lock. So a lock that is free, and perhaps freed without being destroyed, keeps no memory. A slot holds the number that has come up instead of a flag that its owner resets, so a slot may have
//! more than one waiter, and any number of threads can wait. The place in the array is the holder's number, which the
//! lock keeps. The uncontended acquisition draws by compare-and-swap (so `try_lock` is the uncontended path of `lock`).
//!
//! Properties: FIFO; 16 bytes a lock, and 2 KiB from when two wait until nobody does; nothing a waiter; O(1) remote references per
//! hand-off while fewer threads wait than there are slots. Waiting: spin. A drawn number cannot be given back, so a
//! timed acquisition polls `try_lock`: it stands in no line, and starves for as long as there is always somebody in
//! line. Avoid the lock with more threads than CPUs: a preempted waiter whose number comes up stops everybody for its
//! whole time slice.
//!
//! # State
//!
//! ```text
//! next 11                 drawn next
//! serving 7               7 holds the lock, or is free to be drawn
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
//! - I3: only a holder installs the array, and only a holder removes it, in a release that finds nobody in line. It takes the
//!   array out of the lock first, and looks then, by a read-modify-write of `next`: a thread that has drawn before is found, and the
//!   array put back; one that draws afterwards finds none. So a thread that is in line and has seen the array has it until its
//!   number comes up, and is served by it; nobody else looks into it. A release's last access to the lock or the array is one
//!   store: to `serving` without, to the next number's slot with an array.
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
//! - E4: the operation on `next` that finds nobody in line (Release) → the addition that draws a number (Acquire): that the array is
//!   gone, and the critical section.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, ConstPlatform, Deadline, Native, Platform, PoolNode};

use crate::api::{RawLock, address};
use crate::competitive::backoff::Delay;
use crate::competitive::poll;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{Patience, Wait};

/// What is known of the array lock.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "alock",
    family: Family::Queue,
    order: Order::Fifo,
    bytes: 16,
    timed: Timed::Polls("without a place in the queue"),
    proofs: &[Proof { source: file!(), by: &["alock, two slots"] }],
    citation: Citation {
        key: "anderson90",
        text: "Anderson: The performance of spin lock alternatives for shared-memory multiprocessors. \
               IEEE TPDS 1(1), 1990",
    },
    summary: "draw a number, and wait until its slot in an array says that it has come up",
    properties: "One remote reference per hand-off. 2 KiB from when two threads wait at once until nobody does.",
    deviations: "The array has 32 slots, comes with contention of three threads and goes with it, and slots hold numbers, so \
                 that any number of threads can wait.",
    avoid: "More threads than CPUs (a preempted waiter stops everybody), many contended locks, and timed acquisitions of \
            a saturated lock (they may starve).",
    ..Descriptor::MUTEX
};

/// The longest delay of a timed acquisition between two attempts, in pauses.
const TIMED_DELAY: u32 = 64;

/// A slot, on a cache line of its own.
#[repr(C, align(64))]
struct Slot<P: Platform> {
    /// The number that came up here last; written by a holder, read by those who wait here.
    number: P::U32,
    /// Of the first slot: the address of the lock.
    owner: P::Usize,
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
        Self {
            slots: core::array::from_fn(|index| Slot {
                number: P::U32::new(index as u32 + 1),
                owner: P::Usize::new(0),
            }),
        }
    }
}

impl<P: Platform, const SLOTS: usize> Slots<P, SLOTS> {
    fn of(&self, number: u32) -> &P::U32 {
        &self.slots[number as usize % SLOTS].number
    }

    /// Whether the array is that of the lock at `address`.
    fn is_of(&self, address: usize) -> bool {
        self.slots[0].owner.load(Relaxed) == address
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
    /// Null, or the array; written by holders.
    slots: P::Ptr<Slots<P, SLOTS>>,
}

const _: () = assert!(size_of::<Alock<Native>>() == DESCRIPTOR.bytes);
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
    /// The array, if there is one, for a thread in line. That of another lock is none: this one is a copy, made of it when it
    /// was locked, and stays locked.
    fn slots(&self) -> Option<&Slots<P, SLOTS>> {
        // SAFETY: I3: null, or the lock's as long as the caller is in line or holds it; or pool memory, which stays readable.
        // ORDER: E3.
        let slots = unsafe { self.slots.load(Acquire).as_ref() }?;
        slots.is_of(address(self)).then_some(slots)
    }

    /// Whether `number`, which the caller has drawn, is served; the lock then is the caller's.
    #[inline(always)]
    fn serves(&self, number: u32, slots: Option<&Slots<P, SLOTS>>) -> bool {
        let Some(slots) = slots else {
            // With an array that the caller does not know of yet, only the caller itself could have written that.
            return self.serving.load(Acquire) == number; // ORDER: E1.
        };
        let served = slots.says(number);
        if served {
            self.serving.store(number, Relaxed); // I2.
        }
        served
    }

    /// Draws the number that is served, if it has not been drawn: acquires a free lock, which has no array.
    #[inline(always)]
    fn acquire_fast(&self) -> bool {
        let next = self.next.load(Relaxed);
        // Read first: a failing CAS would take the line from the holder. ORDER: Relaxed: read again below; Acquire is E4, for the
        // case in which the number has to be waited for.
        if self.serving.load(Relaxed) != next
            || self.next.compare_exchange(next, next.wrapping_add(1), Acquire, Relaxed).is_err()
        {
            return false;
        }
        // Not served only if 2^32 numbers were drawn between the reads and the CAS.
        if !self.serves(next, None) {
            self.wait_for_drawn(next);
        }
        true
    }

    /// Out of line, so that the fast path needs no stack.
    #[cold]
    #[inline(never)]
    fn wait_for_drawn(&self, number: u32) {
        Wait::run::<P, _>(address(self), None, |_| self.wait_for(number));
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

    /// How many have drawn `next` or a later number; where nobody holds the lock, `u32::MAX`.
    #[inline(always)]
    fn waiters(&self, next: u32) -> u32 {
        self.next.load(Relaxed).wrapping_sub(next)
    }

    /// Serves `next`, where there is an array or so many wait that one is made.
    #[inline(never)]
    fn release(&self, next: u32) {
        let (array, waiters) = (self.slots.load(Relaxed), self.waiters(next));
        // SAFETY: I3: null or the lock's array. ORDER: Relaxed: a holder has its initialisation (E3).
        let slots = match unsafe { array.as_ref() } {
            // Not locked, which POSIX leaves undefined: nobody has drawn the number that is served.
            None if waiters == u32::MAX => return,
            None => self.install(),
            Some(_) if waiters == 0 && self.release_alone(array, next) => return,
            Some(slots) => Some(slots),
        };
        match slots {
            Some(slots) => slots.of(next).store(next, Release), // ORDER: E2.
            None => self.serving.store(next, Release),          // ORDER: E1. There is no memory.
        }
    }

    /// Draws a number and waits for it; with a deadline, only one that is served. Whether the lock was acquired.
    fn line_up(&self, deadline: Option<Deadline>) -> bool {
        if deadline.is_none() {
            self.wait_for(self.next.fetch_add(1, Acquire)); // ORDER: E4.
            return true;
        }
        let mut delay = Delay::new::<P>(TIMED_DELAY);
        poll::<P>(deadline, || self.acquire_fast(), |_| delay.pause::<P>())
    }

    /// Installs the array, for the holder. `None`: there is no memory.
    #[cold]
    fn install(&self) -> Option<&Slots<P, SLOTS>> {
        let fresh = P::try_alloc_node::<Slots<P, SLOTS>>()?;
        // SAFETY: nobody else knows of it. ORDER: Relaxed: E3.
        unsafe { fresh.as_ref() }.slots[0].owner.store(address(self), Relaxed);
        self.slots.store(fresh.as_ptr(), Release); // ORDER: E3.
        // SAFETY: initialised by the pool, and the lock's until a holder removes it (I3).
        Some(unsafe { &*fresh.as_ptr() })
    }

    /// Releases by `serving`, without the array, if nobody is in line behind the holder, who is the caller and served
    /// before `next`.
    #[cold]
    fn release_alone(&self, slots: *mut Slots<P, SLOTS>, next: u32) -> bool {
        self.slots.store(ptr::null_mut(), Relaxed); // ORDER: Relaxed: E4.
        // I3. ORDER: Release is E4.
        if self.next.compare_exchange(next, next, Release, Relaxed).is_err() {
            self.slots.store(slots, Release); // ORDER: E3.
            return false;
        }
        self.serving.store(next, Relaxed); // ORDER: Relaxed: E4 has released the section, too.
        if let Some(slots) = NonNull::new(slots) {
            // SAFETY: I3: nobody else knows of it.
            unsafe { P::free_node(slots) };
        }
        true
    }
}

// SAFETY: I1 to I4 give exclusion, and E1 and E2 order the sections.
unsafe impl<P: Platform, const SLOTS: usize> RawLock<P> for Alock<P, SLOTS> {
    type Token = ();

    fn new() -> Self {
        Self { next: P::U32::new(0), serving: P::U32::new(0), slots: P::Ptr::new(ptr::null_mut()) }
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<()> {
        self.acquire_fast().then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.line_up(wait.deadline).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        let next = self.serving.load(Relaxed).wrapping_add(1); // I2.
        // With one waiter `serving` is as good as a slot.
        if self.slots.load(Relaxed).is_null() && self.waiters(next) <= 1 {
            return self.serving.store(next, Release); // ORDER: E1.
        }
        self.release(next);
    }

    fn is_locked(&self) -> bool {
        self.serving.load(Relaxed) != self.next.load(Relaxed)
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        let mut number = self.serving.load(Relaxed);
        let mut is_locked = self.next.load(Relaxed) != number;
        let array = self.slots.swap(ptr::null_mut(), Relaxed);
        if let Some(slots) = NonNull::new(array) {
            // A ghost was about to hold the lock, whose number has come up: it now is free to be drawn.
            // SAFETY: I3: the lock's.
            if unsafe { slots.as_ref() }.of(number.wrapping_add(1)).load(Relaxed) == number.wrapping_add(1) {
                number = number.wrapping_add(1);
                is_locked = false;
            }
            // SAFETY: nobody else runs.
            unsafe { P::free_node(slots) };
        }
        self.serving.store(number, Relaxed);
        self.next.store(number.wrapping_add(u32::from(is_locked)), Relaxed);
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
    fn the_array_comes_with_the_second_waiter_and_goes_with_the_last() {
        let lock = Alock::<Native, 4>::unlocked();
        let () = lock.lock();
        for number in [1, 2] {
            assert!(lock.slots().is_none());
            lock.next.fetch_add(1, Relaxed);
            if number == 2 {
                // SAFETY: locked above.
                unsafe { lock.unlock(()) };
                lock.wait_for(1);
            }
        }
        assert!(lock.slots().is_some());
        for number in [2, 3] {
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
            if number == 2 {
                lock.wait_for(2);
            }
        }
        assert!(lock.slots().is_none());
        check(&lock);
        crowd(&lock, 3);
        assert!(lock.slots().is_none());
        check(&lock);
    }

    #[test]
    fn an_unlock_too_many_changes_nothing() {
        let lock = Alock::<Native, 4>::unlocked();
        for _ in 0..3 {
            // SAFETY: not locked, but nobody else uses this lock.
            unsafe { lock.unlock(()) };
            assert!(lock.slots().is_none());
            check(&lock);
            crowd(&lock, 3);
        }
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
            if waiters > 0 {
                assert!(lock.install().is_some());
            }
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
