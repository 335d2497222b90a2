//! Test-and-test-and-set with exponential back-off: waiters look at the word less and less often.
//!
//! Thomas E. Anderson, "The performance of spin lock alternatives for shared-memory multiprocessors", IEEE TPDS 1(1),
//! 1990; Mellor-Crummey and Scott, ACM TOCS 9(1), 1991, algorithm 1. Deviations: waiters read before they try; the
//! delay is bounded by the cost of a context-switch round trip, as measured on the machine, rather than by a
//! constant; its jitter comes from the CPU number instead of a random generator.
//!
//! Properties: no fairness, and the longer a thread has waited, the smaller its chance (up to the bound); 4 bytes a
//! lock, nothing a waiter. The line is left alone for most of the time, so the holder is hardly disturbed. Waiting:
//! spin. Timed acquisition polls, and may overshoot its deadline by one delay.
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

use super::poll;
use crate::api::RawLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::wait::{Patience, registered};

/// What is known of test-and-set with back-off.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "backoff",
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
    summary: "waiters read one word less and less often, and try to change it when it says \"unlocked\"",
    properties: "Disturbs the holder little, however many wait. The lock may lie idle while all waiters look away.",
    deviations: "Reads before it tries; the longest delay is about a context-switch round trip.",
    avoid: "Wherever latency or starvation matters: newcomers overtake those who have waited long.",
};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;

/// Bounded exponential back-off.
#[derive(Debug)]
pub(crate) struct Delay {
    /// The next delay is more than half of this and at most this, in pauses.
    limit: u32,
    /// `limit` grows up to here.
    bound: u32,
    /// State of the jitter.
    jitter: u32,
    patience: Patience,
}

impl Delay {
    /// The first delay, in pauses: short against a short critical section.
    const FIRST: u32 = 4;

    /// Delays that grow up to `bound` pauses. Waiters on different CPUs get different delays, or those
    /// that started together would stay together; waiters on one CPU do not run together anyway.
    pub(crate) fn new<P: Platform>(bound: u32) -> Self {
        let bound = bound.max(1);
        // Knuth's multiplicative hash, so that neighbours differ in their high bits too.
        let jitter = (P::cpu() as u32).wrapping_add(1).wrapping_mul(0x9E37_79B9);
        Self { limit: Self::FIRST.min(bound), bound, jitter, patience: Patience::new::<P>() }
    }

    /// The next delay in pauses, at least 1.
    fn next(&mut self) -> u32 {
        // A linear congruential generator (Numerical Recipes); its high bits are the good ones.
        self.jitter = self.jitter.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let half = self.limit / 2;
        let pauses = half + 1 + (self.jitter >> 16) % (self.limit - half);
        self.limit = self.limit.saturating_mul(2).min(self.bound);
        pauses
    }

    /// Waits for the next delay; returns it in pauses.
    pub(crate) fn pause<P: Platform>(&mut self) -> u32 {
        let pauses = self.next();
        self.patience.pause_n::<P>(pauses)
    }
}

/// The test-and-set lock with exponential back-off.
#[repr(transparent)]
pub struct Backoff<P: Platform> {
    /// Read by waiters now and then, written by lockers that saw it unlocked, and by the holder.
    word: P::U32,
}

const _: () = assert!(size_of::<Backoff<Native>>() == ALGORITHM.bytes);

impl<P: Platform> core::fmt::Debug for Backoff<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Backoff").field("word", &self.word.load(Relaxed)).finish()
    }
}

impl Backoff<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Native::U32_ZERO }
    }
}

impl<P: Platform> Backoff<P> {
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
        let mut delay = Delay::new::<P>(P::spin_budget());
        registered::<P, _>(ptr::from_ref(self) as usize, || {
            poll::<P>(deadline, || self.test_and_set(), || delay.pause::<P>())
        })
    }
}

// SAFETY: I1 gives exclusion, and E1 orders the sections.
unsafe impl<P: Platform> RawLock<P> for Backoff<P> {
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
        let lock: Backoff<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        assert!(lock.try_lock().is_some());
        assert!(lock.is_locked());
        assert!(lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(lock.word.load(Relaxed), UNLOCKED);
    }

    #[test]
    fn delays_grow_to_their_bound_and_stay_there() {
        let mut delay = Delay::new::<Native>(100);
        let mut limit = Delay::FIRST;
        for _ in 0..1000 {
            let pauses = delay.next();
            assert!((limit / 2 + 1..=limit).contains(&pauses), "{pauses} of {limit}");
            limit = (limit * 2).min(100);
        }
    }

    #[test]
    fn any_bound_gives_a_delay() {
        for bound in [0, 1, 2, 3, u32::MAX] {
            let mut delay = Delay::new::<Native>(bound);
            for _ in 0..100 {
                assert!((1..=bound.max(1)).contains(&delay.next()));
            }
        }
    }
}
