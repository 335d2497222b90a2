//! Test-and-set: everybody tries to change the word until it works.
//!
//! Thomas E. Anderson, "The performance of spin lock alternatives for shared-memory multiprocessors", IEEE TPDS 1(1),
//! 1990, "spin on test-and-set". Deviations: the instruction is a compare-and-swap rather than a swap, so that a
//! failing attempt leaves the word as it is (model checkers see it as a read).
//!
//! Properties: no fairness at all; 4 bytes a lock, nothing a waiter; unbounded remote references per acquisition,
//! since every attempt takes the line from the holder. Waiting: spin. Timed acquisition polls. Use it as the baseline
//! that everything else is compared with, and for locks that are hardly ever contended.
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
//! - E1: `unlock`'s store of 0 (Release) → the next locker's CAS (Acquire): the critical section.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, ConstPlatform, Deadline, Native, Platform};

use super::poll_steadily;
use crate::api::RawLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::wait::registered;

/// What is known of test-and-set.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "tas",
    family: Family::Competitive,
    fairness: "none",
    bytes: 4,
    bytes_per_waiter: 0,
    holder_node: false,
    timed: "polls",
    citation: Citation {
        key: "anderson90",
        text: "Anderson: The performance of spin lock alternatives for shared-memory multiprocessors. \
               IEEE TPDS 1(1), 1990",
    },
    summary: "everybody tries to change one word until it works",
    properties: "Small and, uncontended, one of the fastest. Every attempt takes the cache line from the holder.",
    deviations: "Compare-and-swap instead of swap.",
    avoid: "Contention of any kind: attempts slow the holder down, and a waiter may starve.",
};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;

/// The test-and-set lock.
#[repr(transparent)]
pub struct Tas<P: Platform> {
    /// Read and written by every locker, written by the holder.
    word: P::U32,
}

const _: () = assert!(size_of::<Tas<Native>>() == ALGORITHM.bytes);

impl<P: Platform> core::fmt::Debug for Tas<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tas").field("word", &self.word.load(Relaxed)).finish()
    }
}

impl Tas<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Native::U32_ZERO }
    }
}

impl<P: Platform> Tas<P> {
    #[inline(always)]
    fn attempt(&self) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.word.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok()
    }

    #[cold]
    fn lock_slow(&self, deadline: Option<Deadline>) -> bool {
        registered::<P, _>(ptr::from_ref(self) as usize, || poll_steadily::<P>(deadline, || self.attempt()))
    }
}

// SAFETY: I1 gives exclusion, and E1 orders the sections.
unsafe impl<P: Platform> RawLock<P> for Tas<P> {
    type Token = ();

    fn new() -> Self {
        Self { word: P::U32::new(UNLOCKED) }
    }

    #[inline(always)]
    fn lock(&self) {
        if !self.attempt() {
            self.lock_slow(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.attempt().then_some(())
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<()> {
        (self.attempt() || self.lock_slow(Some(deadline))).then_some(())
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
        let lock: Tas<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        assert!(lock.try_lock().is_some());
        assert!(lock.is_locked());
        assert!(lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(lock.word.load(Relaxed), UNLOCKED);
    }
}
