//! Locks whose type is forgotten: tests are compiled once, and not once for every lock.

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::ptr;

use lockwork_locks::RawLock;
use lockwork_locks::erased::ErasedLock;
pub use lockwork_locks::erased::Held;
use lockwork_platform::Platform;

/// Any lock, at a place of its own.
pub struct AnyLock<P: Platform> {
    lock: Box<ManuallyDrop<dyn ErasedLock<P>>>,
    drops: bool,
}

impl<P: Platform> AnyLock<P> {
    /// What the registry of waiters calls the lock.
    #[must_use]
    pub fn address(&self) -> usize {
        ptr::from_ref(&**self).addr()
    }
}

impl<P: Platform> Deref for AnyLock<P> {
    type Target = dyn ErasedLock<P>;

    fn deref(&self) -> &Self::Target {
        &**self.lock
    }
}

impl<P: Platform> Drop for AnyLock<P> {
    fn drop(&mut self) {
        if self.drops {
            // SAFETY: not used again.
            unsafe { ManuallyDrop::drop(&mut self.lock) };
        }
    }
}

impl<P: Platform> fmt::Debug for AnyLock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyLock").field("drops", &self.drops).finish_non_exhaustive()
    }
}

/// A lock that is dropped with its box.
pub fn erased<P: Platform, L: RawLock<P> + 'static>(lock: L) -> AnyLock<P> {
    AnyLock { lock: Box::new(ManuallyDrop::new(lock)), drops: true }
}

/// A lock that is never dropped: in a model a drop would need an order after all threads.
pub fn undropped<P: Platform, L: RawLock<P> + 'static>(lock: L) -> AnyLock<P> {
    AnyLock { lock: Box::new(ManuallyDrop::new(lock)), drops: false }
}

/// A lock made of nothing but zeros.
#[must_use]
pub fn zeroed<P: Platform, L: RawLock<P> + 'static>() -> AnyLock<P> {
    // SAFETY: `RawLock`: all-zero memory is an unlocked lock.
    erased::<P, L>(unsafe { MaybeUninit::zeroed().assume_init() })
}
