//! The locks as the benchmarks see them: those of the catalogue and glibc's mutex, without their types.
//!
//! Only what an uncontended lock costs is compiled once for every lock, with its code inlined. The other benchmarks make a
//! virtual call to lock and to unlock, which is nothing beside a hand-over between CPUs.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::NonNull;

use lockwork_locks::RawLock;
use lockwork_locks::dispatch::SpecVisitor;
use lockwork_locks::erased::{ErasedLock, Held};
use lockwork_locks::spec::{Choice, LockSpec};
use lockwork_platform::Native;

use super::Figures;
use crate::compare::plan::NO_PRELOAD;
use crate::error::Failure;
use crate::specs::no_mutex;

/// A lock to measure.
///
/// # Safety
///
/// As for [`RawLock`].
pub(super) unsafe trait Lock: Send + Sync + 'static {
    fn lock(&self) -> Held;
    fn try_lock(&self) -> Option<Held>;
    /// # Safety
    ///
    /// As for [`RawLock::unlock`].
    unsafe fn unlock(&self, held: Held);
    /// Locks and unlocks so many times, as code does that knows the type.
    fn pairs(&self, count: u64);
}

/// A lock of the catalogue.
#[repr(transparent)]
struct Ours<L>(L);

// SAFETY: the lock's own guarantees.
unsafe impl<L: RawLock<Native> + 'static> Lock for Ours<L> {
    fn lock(&self) -> Held {
        ErasedLock::lock(&self.0)
    }

    fn try_lock(&self) -> Option<Held> {
        ErasedLock::try_lock(&self.0)
    }

    unsafe fn unlock(&self, held: Held) {
        // SAFETY: the caller's contract.
        unsafe { ErasedLock::unlock(&self.0, held) };
    }

    fn pairs(&self, count: u64) {
        for _ in 0..count {
            let token = RawLock::lock(&self.0);
            // SAFETY: the token of this acquisition.
            unsafe { RawLock::unlock(&self.0, token) };
        }
    }
}

/// glibc's default mutex. It may be moved until it is first locked.
struct Pthread(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is made for being called from several threads.
unsafe impl Send for Pthread {}
// SAFETY: as above.
unsafe impl Sync for Pthread {}

// SAFETY: POSIX gives the same guarantees; a default mutex has no failures for callers that lock and unlock in turn.
unsafe impl Lock for Pthread {
    fn lock(&self) -> Held {
        // SAFETY: initialised statically.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        Held(0)
    }

    fn try_lock(&self) -> Option<Held> {
        // SAFETY: initialised statically.
        (unsafe { libc::pthread_mutex_trylock(self.0.get()) } == 0).then_some(Held(0))
    }

    unsafe fn unlock(&self, _: Held) {
        // SAFETY: initialised statically, and the caller holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    fn pairs(&self, count: u64) {
        for _ in 0..count {
            let held = self.lock();
            // SAFETY: held since the line above.
            unsafe { self.unlock(held) };
        }
    }
}

/// Cache lines of its own, two of them, since processors fetch lines in pairs.
#[repr(align(128))]
pub(super) struct Padded<T: ?Sized>(pub(super) T);

/// Locks of one type.
pub(super) trait Kind {
    /// One, on cache lines of its own.
    fn padded(&self) -> Box<Padded<dyn Lock>>;
    /// The memory that one takes.
    fn layout(&self) -> Layout;
    /// Makes so many, side by side; locks and unlocks each once, right after it was made.
    ///
    /// # Safety
    ///
    /// There is memory for them, suitably aligned.
    unsafe fn fill(&self, memory: NonNull<u8>, count: usize);
}

impl<L: Lock, F: Fn() -> L> Kind for F {
    fn padded(&self) -> Box<Padded<dyn Lock>> {
        Box::new(Padded(self()))
    }

    fn layout(&self) -> Layout {
        Layout::new::<L>()
    }

    unsafe fn fill(&self, memory: NonNull<u8>, count: usize) {
        let first = memory.cast::<L>();
        for index in 0..count {
            // SAFETY: within the memory that the caller promises.
            let place = unsafe { first.add(index) };
            // SAFETY: as above.
            unsafe { place.write(self()) };
            // SAFETY: just written.
            unsafe { place.as_ref() }.pairs(1);
        }
    }
}

/// A benchmark.
pub(super) trait Job {
    /// Measures locks of this kind, or says what is wrong with them.
    fn run(&self, kind: &dyn Kind) -> Result<Figures, String>;
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
            Choice::Rw(_) | Choice::Both(..) => Err(no_mutex(name)),
        }
    }

    /// Measures it.
    pub(super) fn run(&self, job: &dyn Job) -> Result<Figures, String> {
        match self {
            Subject::Pthread => job.run(&|| Pthread(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))),
            Subject::Lock(spec) => spec.dispatch(Measure(job)),
        }
    }
}

struct Measure<'a>(&'a dyn Job);

impl SpecVisitor<Native> for Measure<'_> {
    type Output = Result<Figures, String>;

    fn visit<L: RawLock<Native> + 'static>(self, new: impl Fn() -> L) -> Self::Output {
        self.0.run(&|| Ours(new()))
    }
}
