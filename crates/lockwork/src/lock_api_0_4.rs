//! The traits of lock_api 0.4, whose locks must remember what the holder keeps.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use lock_api_04 as lock_api;
use lockwork_locks::RawLock;
use lockwork_platform::{Deadline, Native};

use crate::lock;
use crate::mutex::Owned;
use crate::time;

/// Any lock, for the wrappers of lock_api 0.4.
///
/// ```
/// # use lock_api_04 as lock_api;
/// use lockwork::{RawMutex04, locks::McsStp};
///
/// type Mutex<T> = lock_api::Mutex<RawMutex04<McsStp>, T>;
///
/// static COUNT: Mutex<u32> = Mutex::new(0);
/// *COUNT.lock() += 1;
/// ```
pub struct RawMutex<L: RawLock<Native>> {
    lock: Owned<L>,
    /// The holder's token: written after the acquisition and read before the release.
    token: UnsafeCell<MaybeUninit<L::Token>>,
}

// SAFETY: only the holder of the lock accesses the token, which any thread may use.
unsafe impl<L: RawLock<Native>> Sync for RawMutex<L> {}
// SAFETY: as above.
unsafe impl<L: RawLock<Native>> Send for RawMutex<L> {}

impl<L: RawLock<Native>> fmt::Debug for RawMutex<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawMutex").field("locked", &self.lock.0.is_locked()).finish_non_exhaustive()
    }
}

impl<L: RawLock<Native>> RawMutex<L> {
    #[inline]
    fn keep(&self, token: L::Token) {
        // SAFETY: the caller holds the lock.
        unsafe { (*self.token.get()).write(token) };
    }

    fn lock_by(&self, deadline: Deadline) -> bool {
        self.lock.0.try_lock_until(deadline).map(|token| self.keep(token)).is_some()
    }
}

// SAFETY: exclusion and order are the lock's own.
unsafe impl<L: RawLock<Native>> lock_api::RawMutex for RawMutex<L> {
    const INIT: Self = Self { lock: Owned(lock::unlocked()), token: UnsafeCell::new(MaybeUninit::uninit()) };

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        self.keep(self.lock.0.lock());
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.lock.0.try_lock().map(|token| self.keep(token)).is_some()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        let token = unsafe { &*self.token.get() };
        // SAFETY: written by `keep` when the lock was acquired.
        let token = unsafe { token.assume_init_read() };
        // SAFETY: the token of the acquisition, by the caller's contract used once.
        unsafe { self.lock.0.unlock(token) };
    }

    fn is_locked(&self) -> bool {
        self.lock.0.is_locked()
    }
}

// SAFETY: the lock excludes, however it was acquired.
unsafe impl<L: RawLock<Native>> lock_api::RawMutexTimed for RawMutex<L> {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.lock_by(time::after(timeout))
    }

    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.lock_by(time::at(timeout))
    }
}
