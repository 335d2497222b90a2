//! A value behind a `pthread_mutex_t`.
//!
//! `std::sync::Mutex` waits on a futex of its own; only calls to `pthread_mutex_lock` and its kin
//! can be served by a preloaded lock library.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// A default POSIX mutex and the value it protects.
///
/// The mutex lies on cache lines of its own: the holder's writes to the value do not disturb
/// waiters, whatever the lock.
#[derive(Debug)]
pub(crate) struct PosixMutex<T> {
    // Boxed because a `pthread_mutex_t` must not move once it is in use.
    raw: Box<Raw>,
    value: UnsafeCell<T>,
}

#[repr(align(128))]
#[derive(Debug)]
struct Raw(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: the value is reached only through a guard, and only one thread at a time has a guard.
unsafe impl<T: Send> Sync for PosixMutex<T> {}

impl<T> PosixMutex<T> {
    /// An unlocked mutex around `value`.
    pub(crate) fn new(value: T) -> Self {
        let raw = Box::new(Raw(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        Self { raw, value: UnsafeCell::new(value) }
    }

    /// Waits for the mutex.
    ///
    /// # Panics
    /// When `pthread_mutex_lock` fails.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // SAFETY: initialised in `new`, never moved, destroyed only in `drop`.
        let error = unsafe { libc::pthread_mutex_lock(self.raw.0.get()) };
        assert_eq!(error, 0, "pthread_mutex_lock failed");
        Guard { mutex: self }
    }

    /// Takes the value out.
    pub(crate) fn into_inner(self) -> T {
        // SAFETY: the mutex is unlocked, since a guard would borrow `self`, and it is not used again.
        let error = unsafe { libc::pthread_mutex_destroy(self.raw.0.get()) };
        assert_eq!(error, 0, "pthread_mutex_destroy failed");
        self.value.into_inner()
    }
}

/// Access to the value; unlocks when dropped.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    mutex: &'a PosixMutex<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the mutex.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the mutex, and `&mut self` is the only way to the guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this thread locked the mutex when it made the guard.
        let error = unsafe { libc::pthread_mutex_unlock(self.mutex.raw.0.get()) };
        assert_eq!(error, 0, "pthread_mutex_unlock failed");
    }
}

#[cfg(test)]
mod tests {
    use super::PosixMutex;
    use std::thread;

    #[test]
    fn threads_exclude_each_other() {
        let mutex = PosixMutex::new(0u64);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *mutex.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(mutex.into_inner(), 40_000);
    }
}
