//! The three-state futex mutex: free, held, held and perhaps waited for.
//!
//! Ulrich Drepper, "Futexes are tricky", 2011, the class `mutex2`; also what glibc does for a normal mutex.
//! Deviations: none in the protocol; waiters can give up at a deadline, which leaves
//! the word in its third state and costs the next release one needless wake.
//!
//! Properties: no fairness (a running thread overtakes those being woken, which keeps the lock busy), no spinning; 4
//! bytes a lock, nothing a waiter. Waiting: park. `try_lock` succeeds on a free lock, whoever is on the way to it.
//! The same contract as glibc's mutex. Avoid it for very short critical sections with a CPU for every thread: each
//! contended hand-off costs two system calls.
//!
//! # State
//!
//! `word`: 0 = unlocked, 1 = locked and nobody sleeps, 2 = locked and perhaps somebody sleeps.
//!
//! # Invariants
//!
//! - I1: a thread that moved `word` from 0 to anything else is the holder, and only the holder's release
//!   moves it to 0.
//! - I2: a thread sleeps only on the value 2, so whoever moves `word` from 2 to 0 has to wake one; and a thread
//!   that has slept takes the lock by writing 2, because it cannot know whether others still sleep.
//!
//! # Ordering
//!
//! - E1: `unlock`'s swap to 0 (Release) → the next locker's CAS or swap that finds 0 (Acquire): the critical section.
//!   Waiters' swaps from 1 to 2 in between belong to the holder's time and are overwritten by `unlock`.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, ConstPlatform, Deadline, FutexCell, Native, Platform};

use crate::api::RawLock;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::Wait;

/// What is known of the futex mutex.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "futex",
    family: Family::Blocking,
    order: Order::None,
    bytes: 4,
    timed: Timed::Sleeps,
    proofs: &[Proof::of(file!())],
    citation: Citation { key: "drepper11", text: "Drepper: Futexes are tricky. Red Hat, 2011" },
    summary: "waiters sleep in the kernel; a release wakes one of them, and anybody may be faster",
    properties: "The contract of glibc's normal mutex: no spinning, no CPU time lost to waiting.",
    deviations: "None.",
    avoid: "Very short critical sections with a CPU for every thread: every contended hand-off costs system calls.",
    ..Descriptor::MUTEX
};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
/// Locked, and perhaps somebody sleeps.
const CONTENDED: u32 = 2;

/// The three-state futex mutex.
#[repr(transparent)]
pub struct FutexLock<P: Platform> {
    /// Written by lockers and by the holder; waiters sleep on it.
    word: P::Futex,
}

const _: () = assert!(size_of::<FutexLock<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform> core::fmt::Debug for FutexLock<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FutexLock").field("word", &self.word.load(Relaxed)).finish()
    }
}

impl FutexLock<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Native::FUTEX_ZERO }
    }
}

impl<P: Platform> FutexLock<P> {
    #[inline(always)]
    fn acquire_fast(&self) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.word.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok()
    }

    /// Sleeps until the lock is acquired or the deadline has passed.
    pub(super) fn sleep_until_free(&self, deadline: Option<Deadline>) -> bool {
        // Where the word says 2 already, there is no need to take its line from the holder before sleeping.
        // ORDER: Relaxed: the kernel compares again. Acquire is E1.
        let mut contended = self.word.load(Relaxed) == CONTENDED;
        while contended || self.word.swap(CONTENDED, Acquire) != UNLOCKED {
            if self.word.wait(CONTENDED, deadline).is_err() {
                return false;
            }
            contended = false; // Awake, for some reason: the next swap tells. I2: it may not write 1.
        }
        true
    }

    /// Acquires, known as a waiter for `address`: what this lock is a part of.
    #[inline]
    pub(crate) fn lock_for(&self, address: usize) {
        if !self.acquire_fast() {
            Wait::run::<P, _>(address, None, |_| self.sleep_until_free(None));
        }
    }

    /// Unlocks a lock whose holder does not exist any more, after `fork`.
    pub(crate) fn reset(&self) {
        self.word.store(UNLOCKED, Relaxed);
    }

    /// Wakes one sleeper. The lock itself may be gone: its next owner could have released and freed it.
    #[cold]
    fn wake_one(word: *const P::Futex) {
        // SAFETY: the word was alive at the swap that released it; a wake that comes too late is spurious.
        unsafe { FutexCell::wake(word, 1) };
    }
}

// SAFETY: I1 gives exclusion, and E1 orders the sections.
unsafe impl<P: Platform> RawLock<P> for FutexLock<P> {
    type Token = ();

    fn new() -> Self {
        Self { word: P::Futex::new(UNLOCKED) }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        // Read first: a failing CAS would take the line from the holder.
        (self.word.load(Relaxed) == UNLOCKED && self.acquire_fast()).then_some(())
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        self.acquire_fast().then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.sleep_until_free(wait.deadline).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        let word = ptr::from_ref(&self.word);
        // ORDER: Release is E1.
        if self.word.swap(UNLOCKED, Release) == CONTENDED {
            Self::wake_one(word);
        }
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != UNLOCKED
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        if self.word.load(Relaxed) == CONTENDED {
            self.word.store(LOCKED, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Clock;

    use super::*;

    fn word(lock: &FutexLock<Native>) -> u32 {
        lock.word.load(Relaxed)
    }

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: atomics are valid whatever their bits.
        let lock: FutexLock<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        assert!(lock.try_lock().is_some());
        assert_eq!(word(&lock), LOCKED);
        assert!(lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(word(&lock), UNLOCKED);
    }

    #[test]
    fn a_waiter_that_gives_up_leaves_the_third_state() {
        for clock in [Clock::Realtime, Clock::Monotonic] {
            let lock = FutexLock::unlocked();
            let () = lock.lock();
            assert!(lock.try_lock_until(Deadline { clock, ns: 0 }).is_none());
            assert_eq!(word(&lock), CONTENDED);
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
            assert_eq!(word(&lock), UNLOCKED);
        }
    }

    #[test]
    fn forgetting_waiters_keeps_the_lock_locked() {
        let lock = FutexLock::unlocked();
        let () = lock.lock();
        lock.word.store(CONTENDED, Relaxed);
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(Some(())) };
        assert_eq!(word(&lock), LOCKED);
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(None) };
        assert_eq!(word(&lock), UNLOCKED);
    }
}
