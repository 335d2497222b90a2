//! A value behind a `pthread_mutex_t` or a `pthread_rwlock_t`.
//!
//! The standard library's locks wait on futexes of their own; only calls to `pthread_mutex_lock` and its kin
//! can be served by a preloaded lock library.

use std::cell::UnsafeCell;

/// A default POSIX lock and the value it protects.
///
/// The lock lies on cache lines of its own: the holder's writes to the value do not disturb
/// waiters, whatever the lock.
#[derive(Debug)]
pub(crate) struct PosixLock<T> {
    // Boxed because a POSIX lock must not move once it is in use.
    raw: Box<Raw>,
    value: UnsafeCell<T>,
}

#[repr(align(128))]
#[derive(Debug)]
enum Raw {
    Mutex(UnsafeCell<libc::pthread_mutex_t>),
    RwLock(UnsafeCell<libc::pthread_rwlock_t>),
}

impl Raw {
    /// Waits for the lock: to write, or to read, which is the same for a mutex.
    fn acquire(&self, write: bool) {
        let error = match self {
            // SAFETY: initialised in `new`, never moved, destroyed only at the end.
            Self::Mutex(mutex) => unsafe { libc::pthread_mutex_lock(mutex.get()) },
            // SAFETY: as above.
            Self::RwLock(lock) if write => unsafe { libc::pthread_rwlock_wrlock(lock.get()) },
            // SAFETY: as above.
            Self::RwLock(lock) => unsafe { libc::pthread_rwlock_rdlock(lock.get()) },
        };
        assert_eq!(error, 0, "the lock cannot be acquired");
    }

    /// # Safety
    /// The caller has acquired it.
    unsafe fn release(&self) {
        let error = match self {
            // SAFETY: the caller's promise.
            Self::Mutex(mutex) => unsafe { libc::pthread_mutex_unlock(mutex.get()) },
            // SAFETY: the caller's promise.
            Self::RwLock(lock) => unsafe { libc::pthread_rwlock_unlock(lock.get()) },
        };
        assert_eq!(error, 0, "the lock cannot be released");
    }
}

// SAFETY: the value is reached by several threads at once to read only, and by one to write.
unsafe impl<T: Send + Sync> Sync for PosixLock<T> {}

impl<T> PosixLock<T> {
    /// A value behind an unlocked mutex.
    pub(crate) fn mutex(value: T) -> Self {
        Self::new(Raw::Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)), value)
    }

    /// A value behind an unlocked reader-writer lock.
    pub(crate) fn rwlock(value: T) -> Self {
        Self::new(Raw::RwLock(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER)), value)
    }

    fn new(raw: Raw, value: T) -> Self {
        Self { raw: Box::new(raw), value: UnsafeCell::new(value) }
    }

    /// Runs `use_it` as a reader, after others' writes. Behind a mutex readers exclude each other, too.
    ///
    /// # Panics
    /// When the lock fails.
    pub(crate) fn read<R>(&self, use_it: impl FnOnce(&T) -> R) -> R {
        self.raw.acquire(false);
        let held = Held(&self.raw);
        // SAFETY: acquired above: nobody writes.
        let result = use_it(unsafe { &*self.value.get() });
        drop(held);
        result
    }

    /// Runs `use_it` as the only thread that reads or writes.
    ///
    /// # Panics
    /// When the lock fails.
    pub(crate) fn write<R>(&self, use_it: impl FnOnce(&mut T) -> R) -> R {
        self.raw.acquire(true);
        let held = Held(&self.raw);
        // SAFETY: acquired above: nobody else is here.
        let result = use_it(unsafe { &mut *self.value.get() });
        drop(held);
        result
    }

    /// Takes the value out.
    pub(crate) fn into_inner(self) -> T {
        let error = match &*self.raw {
            // SAFETY: it is unlocked, since users borrow `self`, and it is not used again.
            Raw::Mutex(mutex) => unsafe { libc::pthread_mutex_destroy(mutex.get()) },
            // SAFETY: as above.
            Raw::RwLock(lock) => unsafe { libc::pthread_rwlock_destroy(lock.get()) },
        };
        assert_eq!(error, 0, "the lock cannot be destroyed");
        self.value.into_inner()
    }
}

/// An acquired lock; released when dropped.
struct Held<'a>(&'a Raw);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: acquired by the maker.
        unsafe { self.0.release() };
    }
}

#[cfg(test)]
mod tests {
    use super::PosixLock;
    use std::thread;

    fn count(lock: PosixLock<u64>) {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        lock.write(|value| *value += 1);
                        assert!(lock.read(|value| *value) > 0);
                    }
                });
            }
        });
        assert_eq!(lock.into_inner(), 40_000);
    }

    #[test]
    fn writers_exclude_each_other() {
        count(PosixLock::mutex(0));
        count(PosixLock::rwlock(0));
    }
}
