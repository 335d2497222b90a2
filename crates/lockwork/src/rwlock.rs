//! The reader-writer lock that owns what it protects.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use lockwork_locks::RawRwLock;
use lockwork_platform::{Deadline, Native};

use crate::locks::RwPreferReaders;
use crate::profile::{self, How, Operation, Place};
use crate::time;

/// A value that many threads may read at a time, or one may change.
///
/// Readers pass waiting writers, so that a reader may lock again, unless the type says
/// [`RwPreferWriters`](crate::locks::RwPreferWriters).
///
/// ```
/// use lockwork::RwLock;
///
/// static ROUTES: RwLock<Vec<&str>> = RwLock::new(Vec::new());
///
/// ROUTES.write().push("/");
/// let (one, other) = (ROUTES.read(), ROUTES.read());
/// assert_eq!(one.len(), other.len());
/// ```
// The lock first: its address, by which profiles know it, is then that of a static one.
#[repr(C)]
pub struct RwLock<T: ?Sized, L = RwPreferReaders> {
    raw: Owned<L>,
    value: UnsafeCell<T>,
}

/// A lock until its end.
struct Owned<L>(L);

impl<L> Drop for Owned<L> {
    fn drop(&mut self) {
        profile::ends(std::ptr::from_ref(self).addr(), How::Write);
    }
}

// SAFETY: the lock excludes a writer against everybody; readers share the value, and any thread may become a writer.
unsafe impl<T: ?Sized + Send + Sync, L: Sync> Sync for RwLock<T, L> {}

impl<T> RwLock<T> {
    /// An unlocked lock that lets readers pass waiting writers.
    pub const fn new(value: T) -> Self {
        Self::unlocked(value)
    }
}

impl<T, L: RawRwLock<Native>> RwLock<T, L> {
    /// An unlocked lock of the kind that its type names.
    ///
    /// ```
    /// use lockwork::{RwLock, locks::RwPreferWriters};
    ///
    /// static LIMIT: RwLock<u32, RwPreferWriters> = RwLock::unlocked(10);
    /// *LIMIT.write() += 1;
    /// assert_eq!(*LIMIT.read(), 11);
    /// ```
    pub const fn unlocked(value: T) -> Self {
        // SAFETY: all-zero memory is an unlocked lock: part of the contract of `RawRwLock`.
        Self { raw: Owned(unsafe { core::mem::zeroed() }), value: UnsafeCell::new(value) }
    }
}

impl<T, L> RwLock<T, L> {
    /// The value, for whoever owns the lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, L> RwLock<T, L> {
    /// The value, for whoever has the lock to itself.
    pub const fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: ?Sized, L: RawRwLock<Native>> RwLock<T, L> {
    /// Locks for reading, waiting as long as it takes.
    ///
    /// # Panics
    ///
    /// If there are as many readers as the lock can count, which is more than thirty million; `cst-rwsem*`, `c-rw-*` (2^29)
    /// and `pf-*` (2^31 and more) do not notice.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T, L> {
        let guard = self.reading(Place::here(), |raw| raw.lock_shared(None));
        guard.expect("too many readers")
    }

    /// Locks for reading if that needs no waiting.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T, L>> {
        self.reading(Place::here(), RawRwLock::try_lock_shared)
    }

    /// Locks for reading, or gives up after `timeout`. Tries at least once.
    pub fn try_read_for(&self, timeout: Duration) -> Option<RwLockReadGuard<'_, T, L>> {
        self.read_by(time::after(timeout))
    }

    /// Locks for reading, or gives up at `deadline`. Tries at least once.
    pub fn try_read_until(&self, deadline: Instant) -> Option<RwLockReadGuard<'_, T, L>> {
        self.read_by(time::at(deadline))
    }

    /// Locks for writing, waiting as long as it takes.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T, L> {
        let guard = self.writing(Place::here(), |raw| raw.lock_exclusive(None));
        debug_assert!(guard.is_some(), "a wait without a deadline ends with the lock");
        guard.unwrap_or_else(|| RwLockWriteGuard(self))
    }

    /// Locks for writing if nobody holds the lock.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T, L>> {
        self.writing(Place::here(), RawRwLock::try_lock_exclusive)
    }

    /// Locks for writing, or gives up after `timeout`. Tries at least once.
    pub fn try_write_for(&self, timeout: Duration) -> Option<RwLockWriteGuard<'_, T, L>> {
        self.write_by(time::after(timeout))
    }

    /// Locks for writing, or gives up at `deadline`. Tries at least once.
    pub fn try_write_until(&self, deadline: Instant) -> Option<RwLockWriteGuard<'_, T, L>> {
        self.write_by(time::at(deadline))
    }

    #[inline]
    fn read_by(&self, deadline: Deadline) -> Option<RwLockReadGuard<'_, T, L>> {
        self.reading(Place::here(), |raw| raw.lock_shared(Some(deadline)))
    }

    #[inline]
    fn write_by(&self, deadline: Deadline) -> Option<RwLockWriteGuard<'_, T, L>> {
        self.writing(Place::here(), |raw| raw.lock_exclusive(Some(deadline)))
    }

    #[inline(always)]
    fn reading(&self, place: Place, attempt: impl FnOnce(&L) -> bool) -> Option<RwLockReadGuard<'_, T, L>> {
        let attempt = || attempt(&self.raw.0);
        profile::acquire(self.operation(How::Read), place, attempt, |has_it| *has_it)
            .then(|| RwLockReadGuard(self))
    }

    #[inline(always)]
    fn writing(&self, place: Place, attempt: impl FnOnce(&L) -> bool) -> Option<RwLockWriteGuard<'_, T, L>> {
        let attempt = || attempt(&self.raw.0);
        profile::acquire(self.operation(How::Write), place, attempt, |has_it| *has_it)
            .then(|| RwLockWriteGuard(self))
    }

    #[inline(always)]
    fn operation(&self, how: How) -> Operation<'_> {
        let lock = std::ptr::from_ref(&self.raw).addr();
        Operation { lock, how, name: std::any::type_name::<L>() }
    }
}

impl<T: Default, L: RawRwLock<Native>> Default for RwLock<T, L> {
    fn default() -> Self {
        Self::unlocked(T::default())
    }
}

impl<T, L: RawRwLock<Native>> From<T> for RwLock<T, L> {
    fn from(value: T) -> Self {
        Self::unlocked(value)
    }
}

impl<T: ?Sized + fmt::Debug, L: RawRwLock<Native>> fmt::Debug for RwLock<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RwLock");
        match self.try_read() {
            Some(guard) => shown.field("value", &&*guard),
            None => shown.field("value", &format_args!("<locked>")),
        };
        shown.finish_non_exhaustive()
    }
}

/// The right to read the value of a locked [`RwLock`]; unlocks when dropped, in whatever thread that happens.
#[must_use = "the lock is unlocked as soon as the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized, L: RawRwLock<Native> = RwPreferReaders>(&'a RwLock<T, L>);

// SAFETY: any thread may release a reader; with the guard goes shared access to the value.
unsafe impl<T: ?Sized + Sync, L: RawRwLock<Native>> Send for RwLockReadGuard<'_, T, L> {}
// SAFETY: a shared guard gives shared access to the value.
unsafe impl<T: ?Sized + Sync, L: RawRwLock<Native>> Sync for RwLockReadGuard<'_, T, L> {}

impl<T: ?Sized, L: RawRwLock<Native>> Deref for RwLockReadGuard<'_, T, L> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no writer while the guard lives.
        unsafe { &*self.0.value.get() }
    }
}

impl<T: ?Sized, L: RawRwLock<Native>> Drop for RwLockReadGuard<'_, T, L> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard is a reader of the lock.
        let unlock = || unsafe { self.0.raw.0.unlock_shared() };
        profile::release(self.0.operation(How::Read), Place::here(), unlock);
    }
}

impl<T: ?Sized + fmt::Debug, L: RawRwLock<Native>> fmt::Debug for RwLockReadGuard<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The right to change the value of a locked [`RwLock`]; unlocks when dropped, in whatever thread that happens.
#[must_use = "the lock is unlocked as soon as the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized, L: RawRwLock<Native> = RwPreferReaders>(&'a RwLock<T, L>);

// SAFETY: any thread may release the writer; with the guard goes exclusive access to the value.
unsafe impl<T: ?Sized + Send, L: RawRwLock<Native>> Send for RwLockWriteGuard<'_, T, L> {}
// SAFETY: a shared guard gives shared access to the value.
unsafe impl<T: ?Sized + Sync, L: RawRwLock<Native>> Sync for RwLockWriteGuard<'_, T, L> {}

impl<T: ?Sized, L: RawRwLock<Native>> Deref for RwLockWriteGuard<'_, T, L> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is ours while the guard lives.
        unsafe { &*self.0.value.get() }
    }
}

impl<T: ?Sized, L: RawRwLock<Native>> DerefMut for RwLockWriteGuard<'_, T, L> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is ours while the guard lives.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T: ?Sized, L: RawRwLock<Native>> Drop for RwLockWriteGuard<'_, T, L> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard is the writer of the lock.
        let unlock = || unsafe { self.0.raw.0.unlock_exclusive() };
        profile::release(self.0.operation(How::Write), Place::here(), unlock);
    }
}

impl<T: ?Sized + fmt::Debug, L: RawRwLock<Native>> fmt::Debug for RwLockWriteGuard<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
