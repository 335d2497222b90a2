//! The locks as the benchmarks see them: those of the registry and glibc's mutex, without their types.
//!
//! Only what an uncontended lock costs is compiled once for every lock, with its code inlined. The other benchmarks make a
//! virtual call to lock and to unlock, which is nothing beside a hand-over between CPUs.

use std::alloc::Layout;
use std::ptr::NonNull;

use lockwork_locks::RawLock;
use lockwork_locks::registry::Visitor;
use lockwork_locks::registry::erased::ErasedLock;
use lockwork_locks::registry::{Choice, Spec};
use lockwork_platform::Native;

use super::Figures;
use super::glibc::Pthread;
use crate::error::Failure;
use crate::specs::{NO_PRELOAD, no_mutex};

/// Cache lines of its own, two of them, since processors fetch lines in pairs.
#[repr(align(128))]
pub(super) struct Padded<T: ?Sized>(pub(super) T);

/// Locks of one type.
pub(super) trait Kind {
    /// One, on cache lines of its own.
    fn padded(&self) -> Box<Padded<dyn ErasedLock<Native>>>;
    /// Locks and unlocks one so many times, as code does that knows the type.
    fn pairs(&self) -> Box<dyn Fn(u64)>;
    /// The memory that one takes.
    fn layout(&self) -> Layout;
    /// Makes so many, side by side; locks and unlocks each once, right after it was made.
    ///
    /// # Safety
    ///
    /// There is memory for them, suitably aligned.
    unsafe fn fill(&self, memory: NonNull<u8>, count: usize);
}

impl<L: RawLock<Native> + 'static, F: Fn() -> L> Kind for F {
    fn padded(&self) -> Box<Padded<dyn ErasedLock<Native>>> {
        Box::new(Padded(self()))
    }

    fn pairs(&self) -> Box<dyn Fn(u64)> {
        let lock = Box::new(Padded(self()));
        Box::new(move |count| {
            for _ in 0..count {
                pair(&lock.0);
            }
        })
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
            pair(unsafe { place.as_ref() });
        }
    }
}

/// Locks and unlocks.
#[inline(always)]
fn pair<L: RawLock<Native>>(lock: &L) {
    let token = lock.lock();
    // SAFETY: the token of this acquisition.
    unsafe { lock.unlock(token) };
}

/// A benchmark.
pub(super) trait Job {
    /// Measures locks of this kind, or says what is wrong with them.
    fn run(&self, kind: &dyn Kind) -> Result<Figures, String>;
}

/// Which lock is measured.
#[allow(clippy::large_enum_variant, reason = "a measurement makes one")]
pub(super) enum Subject {
    /// glibc's.
    Pthread,
    /// One of the registry, wrapped or not.
    Lock(Spec),
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
            Choice::Rw(_) | Choice::Both(..) | Choice::MutexOnly(_) => Err(no_mutex(name)),
        }
    }

    /// Measures it.
    pub(super) fn run(&self, job: &dyn Job) -> Result<Figures, String> {
        match self {
            Subject::Pthread => job.run(&Pthread::new),
            Subject::Lock(spec) => spec.dispatch(Measure(job)),
        }
    }
}

struct Measure<'a>(&'a dyn Job);

impl Visitor<Native> for Measure<'_> {
    type Output = Result<Figures, String>;

    fn mutex<L: RawLock<Native> + 'static>(self, new: impl Fn() -> L) -> Self::Output {
        self.0.run(&new)
    }
}
