//! The adaptive futex mutex: spin for about as long as it took before, then sleep.
//!
//! `PTHREAD_MUTEX_ADAPTIVE_NP` of the GNU C Library (`nptl/pthread_mutex_lock.c`, since 2.38 with exponential back-off).
//! Deviations: the word is that of [`futex`](super::futex); the jitter of the back-off comes from the CPU number; spinning
//! ends after a context-switch round trip where that is shorter than 100 pauses.
//!
//! Properties: no fairness; 8 bytes a lock, nothing a waiter. Waiting: spin-then-park, with a limit of twice the average of
//! what the lock's acquisitions spun, plus 10, at most 100 pauses. `try_lock` succeeds on a free lock, even if other
//! threads are on the way to it. Locks that are held briefly learn to spin, the others to sleep. Avoid it where a sleeper may not starve.
//!
//! # State
//!
//! `lock`: see [`futex`](super::futex). `spins`: the running average of the pauses of contended acquisitions; each new one
//! counts for an eighth.
//!
//! # Invariants
//!
//! - I1: those of the futex mutex.
//! - I2: only the holder writes `spins`, which is a hint.
//!
//! # Ordering
//!
//! - E1: that of the futex mutex. `spins` publishes nothing.

use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, ConstPlatform, Deadline, Native, Platform};

use super::futex::FutexLock;
use crate::api::RawLock;
use crate::competitive::backoff::Delay;
use crate::describe::{Citation, Descriptor, Family, Order, Timed};
use crate::wait::Wait;

/// What is known of the adaptive mutex.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "futex-adaptive",
    family: Family::Blocking,
    order: Order::None,
    bytes: 8,
    timed: Timed::SpinsThenSleeps,
    citation: Citation {
        key: "glibc-adaptive",
        text: "The GNU C Library: PTHREAD_MUTEX_ADAPTIVE_NP, nptl/pthread_mutex_lock.c",
    },
    summary: "waiters spin for about as long as it took before, then sleep in the kernel",
    properties: "The contract of glibc's adaptive mutex: no system calls where sections are short and CPUs are free.",
    deviations: "Jitter from the CPU number; never spins longer than a context-switch round trip.",
    avoid: "More threads than CPUs (a spinning waiter keeps the holder from running), and wherever starvation matters.",
    ..Descriptor::MUTEX
};

/// The most pauses of one acquisition: glibc's default.
const MOST: u32 = 100;
/// What an acquisition may spin beyond twice the average.
const MARGIN: u32 = 10;
/// The longest delay between two looks, in pauses.
const LONGEST: u32 = 16;

/// The adaptive futex mutex.
#[repr(C)]
pub struct FutexAdaptive<P: Platform> {
    lock: FutexLock<P>,
    /// Written by holders, read by waiters.
    spins: P::U32,
}

const _: () = assert!(size_of::<FutexAdaptive<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform> core::fmt::Debug for FutexAdaptive<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let spins = self.spins.load(Relaxed);
        f.debug_struct("FutexAdaptive").field("lock", &self.lock).field("spins", &spins).finish()
    }
}

impl FutexAdaptive<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { lock: FutexLock::unlocked(), spins: Native::U32_ZERO }
    }
}

/// The average after one more acquisition that made `spun` pauses.
fn averaged(average: u32, spun: u32) -> u32 {
    average.wrapping_add_signed(spun.wrapping_sub(average).cast_signed() / 8)
}

impl<P: Platform> FutexAdaptive<P> {
    /// Spins for a while and sleeps then. Whether the lock was acquired before the deadline.
    fn spin_then_sleep(&self, deadline: Option<Deadline>) -> bool {
        let average = self.spins.load(Relaxed);
        let limit = MOST.min(P::spin_budget()).min(average.saturating_mul(2).saturating_add(MARGIN));
        let mut delay = Delay::new::<P>(LONGEST);
        let mut spun = 0;
        let acquired = loop {
            spun += delay.pause::<P>();
            if spun >= limit {
                break self.lock.sleep_until_free(deadline);
            }
            if self.lock.try_lock().is_some() {
                break true;
            }
        };
        if acquired {
            // I2: the average may have moved meanwhile; glibc does not look again either.
            self.spins.store(averaged(average, spun), Relaxed);
        }
        acquired
    }
}

// SAFETY: exclusion and order are the futex mutex's (I1, E1).
unsafe impl<P: Platform> RawLock<P> for FutexAdaptive<P> {
    type Token = ();

    fn new() -> Self {
        Self { lock: FutexLock::new(), spins: P::U32::new(0) }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.lock.try_lock()
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        self.lock.lock_fast()
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.spin_then_sleep(wait.deadline).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // SAFETY: the caller's contract.
        unsafe { self.lock.unlock(()) };
    }

    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    unsafe fn forget_waiters(&self, holder: Option<()>) {
        // SAFETY: the caller's contract.
        unsafe { self.lock.forget_waiters(holder) };
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Clock;

    use super::*;

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: atomics are valid whatever their bits.
        let lock: FutexAdaptive<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        assert!(lock.try_lock().is_some());
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock_until(Deadline { clock: Clock::Monotonic, ns: 0 }).is_none());
        assert!(lock.is_locked());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert!(!lock.is_locked());
        assert_eq!(lock.spins.load(Relaxed), 0, "a waiter that gives up teaches nothing");
    }

    #[test]
    fn the_average_follows_the_acquisitions() {
        assert_eq!(averaged(0, 80), 10);
        assert_eq!(averaged(80, 0), 70);
        assert_eq!(averaged(10, 10), 10);
        let long = (0..100).fold(0, |average, _| averaged(average, 100));
        assert!((90..=100).contains(&long), "{long}");
    }
}
