//! The mutex that owns what it protects.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use lockwork_locks::RawLock;
use lockwork_platform::{Deadline, Native, bookmarks};

use crate::lock::{self, Lock};
use crate::locks::DefaultLock;
use crate::profile::{self, How, Operation, Place};
use crate::time;

/// A value that one thread at a time may use, protected by a lock of the type `L`.
///
/// ```
/// use lockwork::Mutex;
/// use lockwork::locks::McsStp;
///
/// let names: Mutex<Vec<&str>, McsStp> = Mutex::unlocked(Vec::new());
/// names.lock().push("Ada");
/// assert_eq!(names.into_inner(), ["Ada"]);
/// ```
#[derive(Default)]
// The lock first: its address, by which profiles know it, is then that of a static mutex.
#[repr(C)]
pub struct Mutex<T: ?Sized, L = DefaultLock> {
    raw: Owned<L>,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread at a time.
unsafe impl<T: ?Sized + Send, L: Sync> Sync for Mutex<T, L> {}

/// A lock until its end, when it may be held: by a guard that was leaked.
#[derive(Default)]
pub(crate) struct Owned<L>(pub(crate) L);

impl<L> Drop for Owned<L> {
    fn drop(&mut self) {
        let address = std::ptr::from_ref(self).addr();
        bookmarks::forget(address, size_of::<Self>());
        profile::ends(address, How::Mutex);
    }
}

impl<T> Mutex<T> {
    /// An unlocked mutex with the default lock.
    pub const fn new(value: T) -> Self {
        Self::unlocked(value)
    }
}

impl<T, L: RawLock<Native>> Mutex<T, L> {
    /// An unlocked mutex with the lock that its type names.
    ///
    /// ```
    /// use lockwork::{Mutex, locks::K42Stp};
    ///
    /// static TABLE: Mutex<[u8; 64], K42Stp> = Mutex::unlocked([0; 64]);
    /// TABLE.lock()[3] = 1;
    /// ```
    pub const fn unlocked(value: T) -> Self {
        Self::from_lock(lock::unlocked(), value)
    }
}

impl<T, L> Mutex<T, L> {
    /// A mutex with this lock, for locks that take settings.
    ///
    /// ```
    /// use lockwork::Mutex;
    /// use lockwork::locks::{Gcr, GcrKnobs, McsStp};
    ///
    /// let lock = Gcr::<McsStp>::with_knobs(GcrKnobs { active: Some(2), ..GcrKnobs::default() });
    /// let mutex = Mutex::from_lock(lock, 0);
    /// *mutex.lock() += 1;
    /// ```
    pub const fn from_lock(lock: L, value: T) -> Self {
        Self { raw: Owned(lock), value: UnsafeCell::new(value) }
    }

    /// The value, for whoever owns the mutex.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, L> Mutex<T, L> {
    /// The value, for whoever has the mutex to itself.
    pub const fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The lock. Unlocking it by hand while a guard lives breaks the guard's promise, and is `unsafe` for that.
    pub const fn lock_ref(&self) -> &L {
        &self.raw.0
    }
}

impl<T: ?Sized, L: Lock> Mutex<T, L> {
    /// Locks, waiting as long as it takes.
    ///
    /// A thread that locks a mutex it holds waits for ever.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T, L> {
        let lock = || self.raw.0.lock();
        MutexGuard { mutex: self, token: profile::acquire(self.operation(), Place::here(), lock, |_| true) }
    }

    /// Locks if that needs no waiting. May fail while the lock is being released.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, L>> {
        self.attempt(Place::here(), || self.raw.0.try_lock())
    }

    /// Locks, or gives up after `timeout`. Tries at least once.
    ///
    /// ```
    /// use lockwork::Mutex;
    /// use std::time::Duration;
    ///
    /// let mutex = Mutex::new(());
    /// let held = mutex.lock();
    /// assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
    /// drop(held);
    /// assert!(mutex.try_lock_for(Duration::ZERO).is_some());
    /// ```
    #[inline]
    pub fn try_lock_for(&self, timeout: Duration) -> Option<MutexGuard<'_, T, L>> {
        self.try_lock_by(time::after(timeout))
    }

    /// Locks, or gives up at `deadline`. Tries at least once.
    #[inline]
    pub fn try_lock_until(&self, deadline: Instant) -> Option<MutexGuard<'_, T, L>> {
        self.try_lock_by(time::at(deadline))
    }

    /// As [`Mutex::try_lock_until`], with a deadline on either clock.
    #[inline]
    pub fn try_lock_by(&self, deadline: Deadline) -> Option<MutexGuard<'_, T, L>> {
        self.attempt(Place::here(), || self.raw.0.try_lock_until(deadline))
    }

    /// Whether somebody holds the lock or waits for it, at some instant during the call.
    pub fn is_locked(&self) -> bool {
        self.raw.0.is_locked()
    }

    #[inline(always)]
    fn attempt(
        &self,
        place: Place,
        attempt: impl FnOnce() -> Option<L::Token>,
    ) -> Option<MutexGuard<'_, T, L>> {
        let token = profile::acquire(self.operation(), place, attempt, Option::is_some);
        token.map(|token| MutexGuard { mutex: self, token })
    }

    #[inline(always)]
    fn operation(&self) -> Operation<'_> {
        let lock = std::ptr::from_ref(&self.raw).addr();
        Operation { lock, how: How::Mutex, name: self.raw.0.name() }
    }
}

impl<T, L: RawLock<Native>> From<T> for Mutex<T, L> {
    fn from(value: T) -> Self {
        Self::unlocked(value)
    }
}

impl<T: ?Sized + fmt::Debug, L: Lock> fmt::Debug for Mutex<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(guard) => shown.field("value", &&*guard),
            None => shown.field("value", &format_args!("<locked>")),
        };
        shown.finish_non_exhaustive()
    }
}

/// The right to use the value of a locked [`Mutex`]; unlocks when dropped, in whatever thread that happens.
#[must_use = "the mutex is unlocked as soon as the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized, L: Lock = DefaultLock> {
    mutex: &'a Mutex<T, L>,
    token: L::Token,
}

// SAFETY: tokens may be used by any thread (contract of `Lock`); with the guard goes the exclusive use of the value.
unsafe impl<T: ?Sized + Send, L: Lock> Send for MutexGuard<'_, T, L> {}
// SAFETY: a shared guard gives shared access to the value, and no access to the token; and it gives the mutex, which may be shared
// where the value may be sent.
unsafe impl<T: ?Sized + Send + Sync, L: Lock> Sync for MutexGuard<'_, T, L> {}

impl<'a, T: ?Sized, L: Lock> MutexGuard<'a, T, L> {
    /// The mutex that is locked.
    pub fn mutex(this: &Self) -> &'a Mutex<T, L> {
        this.mutex
    }

    /// Unlocks and locks again around a wait: `wait` is given the lock's address, what unlocks and what locks.
    pub(crate) fn wait_with<R>(
        this: &mut Self,
        cond: usize,
        wait: impl FnOnce(usize, &dyn Fn(), &dyn Fn() -> L::Token) -> (R, L::Token),
    ) -> R {
        let (raw, token) = (&this.mutex.raw.0, this.token);
        let unlock = || {
            // SAFETY: the token of our acquisition; the condition calls this once, and the guard gets another token.
            let unlock = || unsafe { raw.unlock(token) };
            profile::release_to_wait(cond, this.mutex.operation(), unlock);
        };
        let lock = || profile::acquire_after_wait(this.mutex.operation(), || raw.lock(), |_| true);
        let (outcome, token) = wait(std::ptr::from_ref(raw).addr(), &unlock, &lock);
        this.token = token;
        outcome
    }
}

impl<T: ?Sized, L: Lock> Deref for MutexGuard<'_, T, L> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is ours while the guard lives.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized, L: Lock> DerefMut for MutexGuard<'_, T, L> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is ours while the guard lives.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized, L: Lock> Drop for MutexGuard<'_, T, L> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the token of our acquisition, used once.
        let unlock = || unsafe { self.mutex.raw.0.unlock(self.token) };
        profile::release(self.mutex.operation(), Place::here(), unlock);
    }
}

impl<T: ?Sized + fmt::Debug, L: Lock> fmt::Debug for MutexGuard<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display, L: Lock> fmt::Display for MutexGuard<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
