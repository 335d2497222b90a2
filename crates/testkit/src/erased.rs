//! Boxes of the registry's [`ErasedLock`] and [`ErasedRwLock`], which a model may leave undropped: tests are compiled once,
//! and not once for every lock.

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::ptr;

pub use lockwork_locks::registry::erased::Held;
use lockwork_locks::registry::erased::{ErasedLock, ErasedRwLock};
use lockwork_locks::{RawLock, RawRwLock};
use lockwork_platform::Platform;

/// A box of any lock.
pub struct Any<T: ?Sized> {
    lock: Box<ManuallyDrop<T>>,
    drops: bool,
}

/// Any mutex.
pub type AnyLock<P> = Any<dyn ErasedLock<P>>;
/// Any reader-writer lock.
pub type AnyRwLock<P> = Any<dyn ErasedRwLock<P>>;

impl<T: ?Sized> Any<T> {
    /// What the registry of waiters calls the lock.
    #[must_use]
    pub fn address(&self) -> usize {
        ptr::from_ref(&**self).cast::<()>().addr()
    }
}

impl<T: ?Sized> Deref for Any<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.lock
    }
}

impl<T: ?Sized> Drop for Any<T> {
    fn drop(&mut self) {
        if self.drops {
            // SAFETY: not used again.
            unsafe { ManuallyDrop::drop(&mut self.lock) };
        }
    }
}

impl<T: ?Sized> fmt::Debug for Any<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Any").field("drops", &self.drops).finish_non_exhaustive()
    }
}

/// A lock that is dropped with its box.
pub fn erased<P: Platform, L: RawLock<P> + 'static>(lock: L) -> AnyLock<P> {
    Any { lock: Box::new(ManuallyDrop::new(lock)), drops: true }
}

/// A lock that is never dropped: in a model a drop would need an order after all threads.
pub fn undropped<P: Platform, L: RawLock<P> + 'static>(lock: L) -> AnyLock<P> {
    Any { lock: Box::new(ManuallyDrop::new(lock)), drops: false }
}

/// A lock made of nothing but zeros.
#[must_use]
pub fn zeroed<P: Platform, L: RawLock<P> + 'static>() -> AnyLock<P> {
    // SAFETY: `RawLock`: all-zero memory is an unlocked lock.
    erased::<P, L>(unsafe { MaybeUninit::zeroed().assume_init() })
}

/// A reader-writer lock that is dropped with its box.
pub fn erased_rw<P: Platform, L: RawRwLock<P> + 'static>(lock: L) -> AnyRwLock<P> {
    Any { lock: Box::new(ManuallyDrop::new(lock)), drops: true }
}

/// A reader-writer lock that is never dropped: in a model a drop would need an order after all threads.
pub fn undropped_rw<P: Platform, L: RawRwLock<P> + 'static>(lock: L) -> AnyRwLock<P> {
    Any { lock: Box::new(ManuallyDrop::new(lock)), drops: false }
}

/// A reader-writer lock made of nothing but zeros.
#[must_use]
pub fn zeroed_rw<P: Platform, L: RawRwLock<P> + 'static>() -> AnyRwLock<P> {
    // SAFETY: `RawRwLock`: all-zero memory is an unlocked lock.
    erased_rw::<P, L>(unsafe { MaybeUninit::zeroed().assume_init() })
}
