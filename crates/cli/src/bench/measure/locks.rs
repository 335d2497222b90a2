//! The locks as the benchmarks see them: those of the catalogue by their types, and glibc's mutex.

use std::cell::UnsafeCell;

use lockwork_locks::RawLock;
use lockwork_locks::biased::Biased;
use lockwork_locks::catalogue::{Visitor, dispatch};
use lockwork_locks::restrict::gcr::{ByNode, Gcr};
use lockwork_locks::spec::{Choice, LockSpec, Wrapper};
use lockwork_platform::Native;

use super::Figures;
use crate::compare::plan::NO_PRELOAD;
use crate::error::Failure;

/// A lock to measure.
///
/// # Safety
///
/// As for [`RawLock`].
pub(super) unsafe trait Lock: Send + Sync + 'static {
    /// What the holder keeps.
    type Token: Copy;
    fn lock(&self) -> Self::Token;
    fn try_lock(&self) -> Option<Self::Token>;
    /// # Safety
    ///
    /// As for [`RawLock::unlock`].
    unsafe fn unlock(&self, token: Self::Token);
}

/// A lock of the catalogue.
#[repr(transparent)]
pub(super) struct Ours<L>(L);

// SAFETY: the lock's own guarantees.
unsafe impl<L: RawLock<Native> + 'static> Lock for Ours<L> {
    type Token = L::Token;

    #[inline(always)]
    fn lock(&self) -> L::Token {
        self.0.lock()
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<L::Token> {
        self.0.try_lock()
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: L::Token) {
        // SAFETY: the caller's contract.
        unsafe { self.0.unlock(token) };
    }
}

/// glibc's default mutex. It may be moved until it is first locked.
pub(super) struct Pthread(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is made for being called from several threads.
unsafe impl Send for Pthread {}
// SAFETY: as above.
unsafe impl Sync for Pthread {}

// SAFETY: POSIX gives the same guarantees; a default mutex has no failures for callers that lock and unlock in turn.
unsafe impl Lock for Pthread {
    type Token = ();

    #[inline(always)]
    fn lock(&self) {
        // SAFETY: initialised statically.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<()> {
        // SAFETY: initialised statically.
        (unsafe { libc::pthread_mutex_trylock(self.0.get()) } == 0).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // SAFETY: initialised statically, and the caller holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// A benchmark, generic over the lock.
pub(super) trait Job {
    /// Measures locks that `new` makes, or says what is wrong with them.
    fn run<L: Lock>(self, new: &dyn Fn() -> L) -> Result<Figures, String>;
}

/// Which lock is measured.
pub(super) enum Subject {
    /// glibc's.
    Pthread,
    /// One of the catalogue, wrapped or not.
    Lock(LockSpec),
}

impl Subject {
    /// From its name.
    pub(super) fn parse(name: &str) -> Result<Self, Failure> {
        if name == NO_PRELOAD {
            return Ok(Subject::Pthread);
        }
        match crate::specs::parse(name)? {
            Choice::Lock(spec) => Ok(Subject::Lock(spec)),
            Choice::Passthrough => Err(Failure::usage("`passthrough` cannot be measured: name a lock")),
        }
    }

    /// Measures it.
    pub(super) fn run<J: Job>(&self, job: J) -> Result<Figures, String> {
        match self {
            Subject::Pthread => job.run(&|| Pthread(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))),
            Subject::Lock(spec) => dispatch(spec.base, Measure { job, wrapper: spec.wrapper }),
        }
    }
}

struct Measure<J> {
    job: J,
    wrapper: Option<Wrapper>,
}

impl<J: Job> Visitor<Native> for Measure<J> {
    type Output = Result<Figures, String>;

    fn visit<L: RawLock<Native> + 'static>(self) -> Self::Output {
        match self.wrapper {
            None => self.job.run(&|| Ours(L::new())),
            Some(Wrapper::Biased) => self.job.run(&|| Ours(Biased::<Native, L>::new())),
            Some(Wrapper::GcrNuma(knobs)) => {
                self.job.run(&|| Ours(Gcr::<Native, L, ByNode>::with_knobs(knobs)))
            }
            Some(Wrapper::Gcr(knobs)) => self.job.run(&|| Ours(Gcr::<Native, L>::with_knobs(knobs))),
        }
    }
}
