//! Locks of a simulated machine, by their specs.

use std::fmt;
use std::ptr;

use lockwork_locks::api::{RawLock, RawRwLock};
use lockwork_locks::delegation::served::Manner;
use lockwork_locks::delegation::{Delegate, Section, Server};
use lockwork_locks::knobs::Knobs;
use lockwork_locks::registry::erased::{self, ErasedLock, ErasedRwLock, UnderLock};
use lockwork_locks::registry::{DelegateSpec, LockId, Spec, Visitor};

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
        let lock = self.0.make(new);
        self.0.place_named("the lock", lock)
    }
}

/// A delegate in simulated memory.
type SimDelegate = &'static dyn Delegate<Sim>;

/// As [`Build`], of a delegate.
struct BuildDelegate<'a>(&'a mut Simulation);

impl Visitor<Sim> for BuildDelegate<'_> {
    type Output = SimDelegate;

    fn delegate<D: Delegate<Sim> + 'static>(self, new: impl Fn() -> D) -> SimDelegate {
        self.0.place_named("the delegate", new())
    }
}

/// The servers of a process: threads of their own, beside those of the workload.
#[derive(Clone)]
pub(super) struct Servers(Vec<&'static Server<Sim>>);

impl Servers {
    /// Puts as many into a run's memory as the delegates of this kind want.
    pub(super) fn build(run: &mut Simulation, protection: &Protection) -> Self {
        let manner = match protection {
            Protection::Delegate(DelegateSpec::Of(LockId::Ffwd, _)) => Manner::Ffwd,
            _ => Manner::Rcl,
        };
        // Nobody takes over from a section that blocks: those of workloads do not.
        let make = |_| run.place_named("a server", Server::new(manner, |_, _| false));
        Self((0..protection.servers()).map(make).collect())
    }

    /// What the threads of the servers do.
    pub(super) fn threads(&self) -> impl Iterator<Item = impl FnOnce() + 'static> {
        self.0.iter().map(|&server| {
            move || {
                server.open();
                server.serve(server.turn());
            }
        })
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
    /// A delegate, which is handed the sections. Threads that only read do so, too.
    Delegate(DelegateSpec),
}

impl Protection {
    /// Threads that each process has beside those of the workload, to run sections.
    #[must_use]
    pub fn servers(&self) -> usize {
        match self {
            Self::Delegate(DelegateSpec::Of(LockId::Rcl | LockId::Ffwd, knobs)) => {
                knobs.servers.unwrap_or(1) as usize
            }
            _ => 0,
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no lock"),
            Self::Lock(spec) => spec.fmt(f),
            Self::Rw(spec) => spec.fmt(f),
            Self::Delegate(spec) => spec.fmt(f),
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
    Delegate(SimDelegate),
    Locked(UnderLock<Sim, SimLock>),
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
            Protection::Delegate(DelegateSpec::Locked(spec)) => {
                Self::Locked(UnderLock::over(build(run, spec)))
            }
            // As for locks, knobs are set later.
            Protection::Delegate(spec) => Self::Delegate(spec.dispatch_bare(BuildDelegate(run))),
        }
    }

    /// Sets its knobs, in a simulated thread, and gives it the server that is its turn's, if it needs one.
    pub(super) fn configure(self, protection: &Protection, servers: &Servers, turn: usize) {
        match (self, protection) {
            (Self::Lock(lock), Protection::Lock(spec)) => lock.configure(&spec.knobs),
            (_, Protection::Delegate(spec)) => {
                let (DelegateSpec::Of(_, knobs) | DelegateSpec::Locked(Spec { knobs, .. })) = spec;
                let Some(delegate) = self.delegate() else { return };
                delegate.configure(knobs);
                if let (Some(seat), Some(server)) = (delegate.seat(), servers.0.iter().cycle().nth(turn)) {
                    seat.give(server);
                }
            }
            _ => {}
        }
    }

    /// Whether it is handed sections.
    pub(super) fn is_delegate(self) -> bool {
        self.delegate().is_some()
    }

    fn delegate(&self) -> Option<&dyn Delegate<Sim>> {
        match self {
            Self::Delegate(delegate) => Some(*delegate),
            Self::Locked(delegate) => Some(delegate),
            _ => None,
        }
    }

    /// Hands a section over, and waits until it has run. `false`: it has not run, because `tries` and somebody else executes.
    ///
    /// # Panics
    ///
    /// If this is not a delegate.
    pub(super) fn execute<F: FnOnce()>(self, tries: bool, section: &mut Option<F>) -> bool {
        unsafe fn run<F: FnOnce()>(section: *mut ()) {
            // SAFETY: of the thread that waits in `execute`.
            let section = unsafe { &mut *section.cast::<Option<F>>() };
            if let Some(section) = section.take() {
                section();
            }
        }
        let Some(delegate) = self.delegate() else { panic!("only delegates run sections") };
        // SAFETY: all threads of a run are coroutines of one host thread; a panic ends the run.
        let section = unsafe { Section::new(run::<F>, ptr::from_mut(section).cast()) };
        if tries {
            // SAFETY: what the section points to outlives the call.
            return unsafe { delegate.try_execute(section) };
        }
        // SAFETY: as above.
        unsafe { delegate.execute(section) };
        true
    }

    /// Acquires.
    ///
    /// # Panics
    ///
    /// If this is a delegate, which is handed sections instead.
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
            Self::Delegate(_) | Self::Locked(_) => panic!("sections are handed to a delegate"),
        }
    }

    /// Acquires for writing, if that is possible without waiting.
    ///
    /// # Panics
    ///
    /// As [`Guard::acquire`].
    pub(super) fn try_acquire(self) -> Option<Held> {
        match self {
            Self::None => Some(Held::Nothing),
            Self::Lock(lock) => lock.try_lock().map(Held::Lock),
            Self::Rw(lock) => lock.try_lock_exclusive().then_some(Held::Rw(Access::Write)),
            Self::Delegate(_) | Self::Locked(_) => panic!("sections are handed to a delegate"),
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
