//! Test-and-test-and-set: waiters read the word, and try to change it only when it says "unlocked".
//!
//! Larry Rudolph and Zary Segall, "Dynamic decentralized cache schemes for MIMD parallel processors", ISCA 1984.
//! Deviations: a compare-and-swap rather than a swap; the very first attempt does not read first, which saves the
//! uncontended acquisition a dependent load.
//!
//! Properties: no fairness at all; 4 bytes a lock, nothing a waiter. Waiters spin in their own cache while the lock
//! is held; each release costs all of them a miss, and a burst of attempts. Waiting: spin. Timed acquisition polls.
//! Good for short critical sections and few threads; the holder can take the lock again before anybody else sees it
//! free, which costs fairness and saves hand-offs.
//!
//! # State
//!
//! `word`: 0 = unlocked, 1 = locked.
//!
//! # Invariants
//!
//! - I1: only the thread whose CAS moved `word` from 0 to 1 is the holder, and only the holder's release
//!   moves it back.
//!
//! # Ordering
//!
//! - E1: `unlock`'s store of 0 (Release) → the next locker's CAS (Acquire): the critical section. The test
//!   before a CAS needs no order: the CAS decides.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, ConstPlatform, Deadline, Native, Platform};

use super::poll_steadily;
use crate::api::RawLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::wait::registered;

/// What is known of test-and-test-and-set.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "ttas",
    family: Family::Competitive,
    fairness: "none",
    bytes: 4,
    bytes_per_waiter: 0,
    holder_node: false,
    timed: "polls",
    citation: Citation {
        key: "rudolph84",
        text: "Rudolph, Segall: Dynamic decentralized cache schemes for MIMD parallel processors. ISCA 1984",
    },
    summary: "waiters read one word, and try to change it only when it says \"unlocked\"",
    properties: "Waiters spin in their own caches; every release costs each of them a cache miss.",
    deviations: "Compare-and-swap instead of swap; the first attempt does not read first.",
    avoid: "Many waiters (each release starts a race of all), and wherever starvation matters.",
};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;

/// The test-and-test-and-set lock.
#[repr(transparent)]
pub struct Ttas<P: Platform> {
    /// Read by waiters, written by lockers that saw it unlocked, and by the holder.
    word: P::U32,
}

const _: () = assert!(size_of::<Ttas<Native>>() == ALGORITHM.bytes);

impl<P: Platform> core::fmt::Debug for Ttas<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ttas").field("word", &self.word.load(Relaxed)).finish()
    }
}

impl Ttas<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Native::U32_ZERO }
    }
}

impl<P: Platform> Ttas<P> {
    #[inline(always)]
    fn set(&self) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.word.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok()
    }

    #[inline(always)]
    fn test_and_set(&self) -> bool {
        // ORDER: Relaxed: only whether to try (E1).
        self.word.load(Relaxed) == UNLOCKED && self.set()
    }

    #[cold]
    fn lock_slow(&self, deadline: Option<Deadline>) -> bool {
        registered::<P, _>(ptr::from_ref(self) as usize, || {
            poll_steadily::<P>(deadline, || self.test_and_set())
        })
    }
}

// SAFETY: I1 gives exclusion, and E1 orders the sections.
unsafe impl<P: Platform> RawLock<P> for Ttas<P> {
    type Token = ();

    fn new() -> Self {
        Self { word: P::U32::new(UNLOCKED) }
    }

    #[inline(always)]
    fn lock(&self) {
        if !self.set() {
            self.lock_slow(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.test_and_set().then_some(())
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<()> {
        (self.set() || self.lock_slow(Some(deadline))).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // ORDER: Release is E1.
        self.word.store(UNLOCKED, Release);
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != UNLOCKED
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        // Waiters leave no trace in the lock.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: atomics are valid whatever their bits.
        let lock: Ttas<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        assert!(lock.try_lock().is_some());
        assert!(lock.is_locked());
        assert!(lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(lock.word.load(Relaxed), UNLOCKED);
    }
}
