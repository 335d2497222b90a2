//! Load control: waiters spin as long as there is a CPU for each; while there are more threads than CPUs, some sleep.
//!
//! Ryan Johnson, Radu Stoica, Anastasia Ailamaki and Todd C. Mowry, "Decoupling contention management from scheduling",
//! ASPLOS 2010. Deviations: no thread in the background measures the load and no array of slots says which threads sleep: a
//! spinner looks at how many threads of the process can run (one of them counts every few milliseconds) and takes itself off it when
//! it goes to sleep, so that as many do as there are threads too many, in whatever lock they wait. The lock is
//! test-and-set with back-off that counts its spinners and sleepers, and a release wakes a sleeper where nobody spins:
//! the lock is not left free while somebody sleeps for it.
//!
//! Properties: no fairness, and spinners go before sleepers, but every 10 ms a sleeper spins again; 4 bytes a lock,
//! nothing a waiter. Waiting: spin; park when the process has more threads that can run than CPUs.
//!
//! State, invariants and ordering: see [`mutexee`](crate::blocking::mutexee), whose word and release this lock has.

use lockwork_platform::{Deadline, Native, Platform};

use crate::api::RawLock;
use crate::blocking::mutexee::{Mutexee, SLEEPER, SPINNER};
use crate::competitive::backoff::Delay;
use crate::describe::{Citation, Descriptor, Family, Order, Timed};
use crate::wait::{Wait, expired};

/// What is known of load control.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "lc",
    family: Family::LoadControl,
    order: Order::None,
    bytes: 4,
    timed: Timed::SpinsThenSleeps,
    citation: Citation {
        key: "johnson10",
        text: "Johnson, Stoica, Ailamaki, Mowry: Decoupling contention management from scheduling. ASPLOS 2010",
    },
    summary: "waiters spin; while more threads can run than there are CPUs, as many of them sleep as are too many",
    properties: "Spins like a simple lock where there are CPUs enough, and leaves the CPUs to others where not.",
    deviations: "No background thread and no slots: spinners look at the number of the process's runnable threads and take themselves off it.",
    avoid: "Wherever starvation matters. Where a spinner that the lock was left to loses its CPU, the lock is idle until a sleeper looks \
            by itself, as one does every 10 ms or so.",
    ..Descriptor::MUTEX
};

/// What became of a spinner.
enum Spun {
    Acquired,
    /// There are too many threads.
    Surplus,
    TimedOut,
}

/// The lock with load control. One of its sleepers looks at the load again every `NAP_NS` or so; 0 = sleeps end only by
/// a wake.
#[repr(transparent)]
pub struct Lc<P: Platform, const NAP_NS: u64 = 10_000_000> {
    word: Mutexee<P>,
}

const _: () = assert!(size_of::<Lc<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform, const NAP_NS: u64> core::fmt::Debug for Lc<P, NAP_NS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Lc").field(&self.word).finish()
    }
}

impl Lc<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Mutexee::unlocked() }
    }
}

impl<P: Platform, const NAP_NS: u64> Lc<P, NAP_NS> {
    fn wait(&self, deadline: Option<Deadline>) -> bool {
        loop {
            // So many spinners that they cannot be counted are too many.
            let mut mine = 0;
            if self.word.becomes_spinner() {
                mine = SPINNER;
                match self.spin(deadline) {
                    Spun::Acquired => return true,
                    Spun::TimedOut => return self.word.take_or_become(SPINNER, 0),
                    Spun::Surplus => {}
                }
            }
            if self.word.take_or_become(mine, SLEEPER) || self.nap(deadline) {
                return true;
            }
            // Not counted as a sleeper any more, and the lock was locked.
            if deadline.is_some_and(expired::<P>) {
                return false;
            }
        }
    }

    /// Spins, counted as a spinner, until the lock is acquired or there is a reason not to.
    fn spin(&self, deadline: Option<Deadline>) -> Spun {
        let mut delay = Delay::new::<P>(P::spin_budget());
        loop {
            // About a context switch apart: looking at the load costs less than that.
            let mut paused = 0;
            while paused < P::spin_budget().max(1) {
                if self.word.try_acquire(SPINNER) {
                    return Spun::Acquired;
                }
                paused += delay.pause::<P>();
            }
            if deadline.is_some_and(expired::<P>) {
                return Spun::TimedOut;
            }
            if P::claim_surplus() {
                return Spun::Surplus;
            }
        }
    }

    /// When a nap from now on ends.
    fn end_of_nap(&self, deadline: Option<Deadline>) -> Option<Deadline> {
        if NAP_NS == 0 { deadline } else { Some(self.word.end_of_nap(NAP_NS, deadline)) }
    }

    /// Sleeps, counted as a sleeper, until the lock is acquired, or (false) not longer than a nap, and is not counted then.
    fn nap(&self, deadline: Option<Deadline>) -> bool {
        let until = self.end_of_nap(deadline);
        while !self.word.try_acquire(SLEEPER) {
            if self.word.doze(until).is_err() {
                return self.word.take_or_become(SLEEPER, 0);
            }
        }
        true
    }
}

// SAFETY: that of the lock it is made of.
unsafe impl<P: Platform, const NAP_NS: u64> RawLock<P> for Lc<P, NAP_NS> {
    type Token = ();

    fn new() -> Self {
        Self { word: Mutexee::new() }
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        self.word.lock_fast()
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.word.try_lock()
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.wait(wait.deadline).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // SAFETY: the caller's contract.
        unsafe { self.word.unlock(()) };
    }

    fn is_locked(&self) -> bool {
        self.word.is_locked()
    }

    unsafe fn forget_waiters(&self, holder: Option<()>) {
        // SAFETY: the caller's contract.
        unsafe { self.word.forget_waiters(holder) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::mutexee::LONGEST_NAP_NS;
    use lockwork_platform::{Clock, Cpu};

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: atomics are valid whatever their bits.
        let lock: Lc<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        let () = lock.lock();
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock_until(Deadline { clock: Clock::Monotonic, ns: 0 }).is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert!(!lock.is_locked());
    }

    #[test]
    fn naps_are_longer_the_more_sleep() {
        const DAY: u64 = 86_400_000_000_000;
        let lock = Lc::<Native>::unlocked();
        let () = lock.lock();
        let length = || {
            let now = Native::now(Clock::Monotonic);
            let end = lock.end_of_nap(Some(Deadline { clock: Clock::Monotonic, ns: now + DAY }));
            end.map(|end| end.ns - now).expect("naps end")
        };
        assert!(length() >= 10_000_000);
        for _ in 0..30 {
            assert!(!lock.word.take_or_become(0, SLEEPER));
        }
        assert!(length() >= 300_000_000);
        for _ in 0..3_000 {
            assert!(!lock.word.take_or_become(0, SLEEPER));
        }
        assert!(length() >= LONGEST_NAP_NS);
        let soon = Deadline { clock: Clock::Monotonic, ns: 1 };
        assert_eq!(lock.end_of_nap(Some(soon)), Some(soon));
    }

    #[test]
    fn a_spinner_that_lost_its_cpu_does_not_leave_the_lock_to_nobody() {
        extern crate std;

        let lock = Lc::<Native>::unlocked();
        let () = lock.lock();
        assert!(lock.word.becomes_spinner(), "counted, and never to be seen again");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The release may leave it to the spinner; then the nap ends, and this thread looks for itself.
                if !lock.word.take_or_become(0, SLEEPER) && !lock.nap(None) {
                    let () = lock.lock();
                }
                // SAFETY: acquired above.
                unsafe { lock.unlock(()) };
            });
            while lock.word.sleepers() == 0 {
                std::thread::yield_now();
            }
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
        });
        assert!(lock.word.try_acquire(SPINNER), "free");
    }

    #[test]
    fn naps_end() {
        let lock = Lc::<Native>::unlocked();
        let () = lock.lock();
        assert!(!lock.word.take_or_become(0, SLEEPER));
        assert!(!lock.nap(None));
        assert_eq!(lock.word.sleepers(), 0);
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert!(!lock.is_locked());
    }
}
