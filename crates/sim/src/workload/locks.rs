//! Locks of a simulated machine, by their specs.

use std::fmt;

use lockwork_locks::api::{RawLock, RawRwLock};
use lockwork_locks::knobs::Knobs;
use lockwork_locks::registry::Spec;
use lockwork_locks::registry::Visitor;
use lockwork_locks::registry::erased::{self, ErasedLock, ErasedRwLock};

use crate::platform::Sim;
use crate::simulation::Simulation;

/// A lock in simulated memory.
pub type SimLock = &'static dyn ErasedLock<Sim>;

struct Build<'a>(&'a mut Simulation);

impl Visitor<Sim> for Build<'_> {
    type Output = SimLock;

    fn mutex<L: RawLock<Sim> + 'static>(self, new: impl Fn() -> L) -> SimLock {
        self.0.place_named("the lock", new())
    }
}

/// As [`Build`], of a reader-writer lock.
struct BuildRw<'a>(&'a mut Simulation);

/// Puts an unlocked lock into a run's memory, on cache lines of its own. Its knobs are still to be set, by a simulated
/// thread ([`ErasedLock::configure`]): that may touch memory.
pub fn build(run: &mut Simulation, spec: &Spec) -> SimLock {
    Spec { knobs: Knobs::NONE, ..*spec }.dispatch(Build(run))
}

/// A reader-writer lock in simulated memory.
type SimRwLock = &'static dyn ErasedRwLock<Sim>;

impl Visitor<Sim> for BuildRw<'_> {
    type Output = SimRwLock;

    fn rwlock<L: RawRwLock<Sim> + 'static>(self, new: impl Fn() -> L) -> SimRwLock {
        self.0.place_named("the lock", new())
    }
}

/// What is to guard the data of a workload.
#[derive(Debug, Clone, PartialEq)]
pub enum Protection {
    /// Nothing: a control, which is to be caught.
    None,
    /// A lock. Threads that only read take it, too.
    Lock(Spec),
    /// A reader-writer lock.
    Rw(Spec),
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no lock"),
            Self::Lock(spec) => spec.fmt(f),
            Self::Rw(spec) => spec.fmt(f),
        }
    }
}

/// How a thread is about to use the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It only reads.
    Read,
    /// It changes something.
    Write,
}

/// What guards the data: a [`Protection`] in simulated memory.
#[derive(Clone, Copy)]
pub(super) enum Guard {
    None,
    Lock(SimLock),
    Rw(SimRwLock),
}

/// What is needed to release.
pub(super) enum Held {
    Nothing,
    Lock(erased::Held),
    Rw(Access),
}

impl Guard {
    /// Puts it into a run's memory.
    pub(super) fn build(run: &mut Simulation, protection: &Protection) -> Self {
        match protection {
            Protection::None => Self::None,
            Protection::Lock(spec) => Self::Lock(build(run, spec)),
            Protection::Rw(spec) => Self::Rw(spec.dispatch(BuildRw(run))),
        }
    }

    /// Sets its knobs, in a simulated thread.
    pub(super) fn configure(self, protection: &Protection) {
        if let (Self::Lock(lock), Protection::Lock(spec)) = (self, protection) {
            lock.configure(&spec.knobs);
        }
    }

    /// Acquires.
    pub(super) fn acquire(self, access: Access) -> Held {
        match self {
            Self::None => Held::Nothing,
            Self::Lock(lock) => Held::Lock(lock.lock()),
            Self::Rw(lock) => {
                // Without a deadline that cannot fail.
                let acquired = match access {
                    Access::Read => lock.lock_shared(None),
                    Access::Write => lock.lock_exclusive(None),
                };
                debug_assert!(acquired);
                Held::Rw(access)
            }
        }
    }

    /// Acquires for writing, if that is possible without waiting.
    pub(super) fn try_acquire(self) -> Option<Held> {
        match self {
            Self::None => Some(Held::Nothing),
            Self::Lock(lock) => lock.try_lock().map(Held::Lock),
            Self::Rw(lock) => lock.try_lock_exclusive().then_some(Held::Rw(Access::Write)),
        }
    }

    /// Releases.
    ///
    /// # Safety
    ///
    /// `held` is of an acquisition of this lock.
    pub(super) unsafe fn release(self, held: Held) {
        match (self, held) {
            // SAFETY: the caller's contract.
            (Self::Lock(lock), Held::Lock(held)) => unsafe { lock.unlock(held) },
            // SAFETY: as above.
            (Self::Rw(lock), Held::Rw(Access::Read)) => unsafe { lock.unlock_shared() },
            // SAFETY: as above.
            (Self::Rw(lock), Held::Rw(Access::Write)) => unsafe { lock.unlock_exclusive() },
            _ => {}
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard")
    }
}
