//! What the plays have in common: a lock, what it protects, and what is known at the end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lockwork_platform::{Clock, DataCell, Deadline};

use crate::erased::{AnyLock, Held};
use crate::model::{ModelPlatform, Play};

/// A deadline that has passed when the play begins.
#[must_use]
pub fn expired() -> Deadline {
    Deadline { clock: Clock::Monotonic, ns: 0 }
}

/// A deadline that has passed when a thread has set the time to 1.
#[must_use]
pub fn in_time() -> Deadline {
    Deadline { clock: Clock::Monotonic, ns: 1 }
}

/// A lock and what it protects.
pub struct Stage<P: ModelPlatform> {
    /// The lock, not to be dropped.
    pub lock: AnyLock<P>,
    /// Plain data under the lock: a checker of orderings sees here whether sections are ordered.
    count: P::Data<usize>,
    /// Threads inside a section, for checkers that see no orderings.
    inside: AtomicUsize,
    /// Sections done.
    done: AtomicUsize,
}

impl<P: ModelPlatform> fmt::Debug for Stage<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("done", &self.done).finish_non_exhaustive()
    }
}

impl<P: ModelPlatform> Stage<P> {
    /// A free lock, whose memory is watched.
    pub fn new(lock: AnyLock<P>) -> Arc<Self> {
        let stage = Arc::new(Self {
            lock,
            count: P::Data::new(0),
            inside: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        });
        P::adopt(&*stage.lock);
        stage
    }

    /// A critical section: its number, from 1.
    #[track_caller]
    pub fn section(&self) -> usize {
        assert_eq!(self.inside.fetch_add(1, Relaxed), 0, "two threads in a critical section");
        // SAFETY: under the lock; the checker reports it if that does not exclude others.
        let count = unsafe { self.count.get() } + 1;
        P::switch();
        // SAFETY: as above.
        unsafe { self.count.set(count) };
        self.inside.fetch_sub(1, Relaxed);
        self.done.fetch_add(1, Relaxed);
        count
    }

    /// Locks, enters a section, unlocks. The section's number.
    #[track_caller]
    pub fn locked(&self) -> usize {
        let token = self.lock.lock();
        let number = self.section();
        // SAFETY: the token of the acquisition above.
        unsafe { self.lock.unlock(token) };
        number
    }

    /// Tries until a deadline, looking at the clock soon; enters a section if that succeeds. Whether it did.
    #[track_caller]
    pub fn timed(&self, deadline: Deadline) -> bool {
        // Spinning waiters look at the clock every 16 pauses.
        P::hurry(20);
        let token = self.lock.try_lock_until(deadline);
        P::hurry(0);
        self.finish(token)
    }

    /// Enters a section if there is a token, and unlocks. Whether there was.
    #[track_caller]
    pub fn finish(&self, token: Option<Held>) -> bool {
        let Some(token) = token else { return false };
        self.section();
        // SAFETY: the caller's token.
        unsafe { self.lock.unlock(token) };
        true
    }

    /// A play on this stage, which ends with between `least` and `most` sections done.
    pub fn play(self: &Arc<Self>, least: usize, most: usize) -> Play {
        let stage = Arc::clone(self);
        Play::new(move || {
            let done = stage.done.load(Relaxed);
            assert!((least..=most).contains(&done), "{done} sections, expected {least} to {most}");
        })
    }
}
