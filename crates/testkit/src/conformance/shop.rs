//! A lock and what it guards, for tests on the real machine.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lockwork_platform::{Clock, Cpu, Deadline, Native};

use super::{LIMIT, Traits};
use crate::erased::{AnyLock, Held};
use crate::watchdog::watchdog;

/// A lock, a counter that only the lock makes safe, and a detector of overlapping sections.
pub struct Shop {
    /// The lock.
    pub lock: AnyLock<Native>,
    counter: UnsafeCell<u64>,
    occupied: AtomicBool,
    /// Sections entered, counted without the lock.
    entered: AtomicU64,
    /// Threads that are about to wait for the lock.
    pub arriving: AtomicUsize,
}

// SAFETY: the counter is accessed by the holder of the lock only, or by a test that has joined all threads.
unsafe impl Sync for Shop {}

impl fmt::Debug for Shop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shop")
            .field("entered", &self.entered)
            .field("occupied", &self.occupied)
            .field("arriving", &self.arriving)
            .finish_non_exhaustive()
    }
}

/// The deadline `ms` milliseconds from now.
pub(super) fn in_ms(ms: u64) -> Deadline {
    Deadline::after(Clock::Monotonic, Native::now(Clock::Monotonic), ms * 1_000_000)
}

/// A deadline that has passed.
pub(super) const PASSED: Deadline = Deadline { clock: Clock::Monotonic, ns: 1 };

/// Long enough for a thread to get from an announcement into a queue, and asleep there.
pub(super) const A_WHILE: Duration = Duration::from_millis(20);

impl Shop {
    /// A free lock of this kind.
    #[must_use]
    pub fn new(traits: &Traits) -> Self {
        Self {
            lock: (traits.new)(),
            counter: UnsafeCell::new(0),
            occupied: AtomicBool::new(false),
            entered: AtomicU64::new(0),
            arriving: AtomicUsize::new(0),
        }
    }

    /// A critical section.
    pub fn section(&self) {
        assert!(!self.occupied.swap(true, Relaxed), "two threads in a critical section");
        // SAFETY: the caller holds the lock.
        unsafe { *self.counter.get() += 1 };
        self.entered.fetch_add(1, Relaxed);
        self.occupied.store(false, Relaxed);
    }

    /// Locks, enters a section, unlocks.
    pub fn locked(&self) {
        let token = self.lock.lock();
        self.section();
        self.unlock(token);
    }

    /// Enters a section and unlocks, if there is a token. Whether there was.
    pub fn finish(&self, token: Option<Held>) -> bool {
        let Some(token) = token else { return false };
        self.section();
        self.unlock(token);
        true
    }

    /// Sections entered so far.
    pub fn sections(&self) -> u64 {
        self.entered.load(Relaxed)
    }

    /// Unlocks.
    pub fn unlock(&self, token: Held) {
        // SAFETY: tokens in tests come from this lock and are used once.
        unsafe { self.lock.unlock(token) };
    }

    /// Checks that the counter, incremented without atomics, has missed nothing, and that the lock is free.
    ///
    /// # Panics
    ///
    /// If that is not so.
    pub fn close(&mut self, sections: u64) {
        assert_eq!(self.entered.load(Relaxed), sections, "sections entered");
        assert_eq!(*self.counter.get_mut(), sections, "increments under the lock");
        assert!(!self.lock.is_locked(), "the lock is free in the end");
        // A thread of a lock that the state belonged to before may hold it for a moment, until it has seen that.
        let token = (0..1_000_000).find_map(|_| {
            let token = self.lock.try_lock();
            if token.is_none() {
                thread::yield_now();
            }
            token
        });
        self.unlock(token.expect("a free lock"));
    }

    /// Runs `f` under the watchdog, which describes the shop when `f` hangs.
    pub fn watch<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        watchdog(LIMIT, || format!("{name}: {self:?}, locked: {}", self.lock.is_locked()), f)
    }
}
