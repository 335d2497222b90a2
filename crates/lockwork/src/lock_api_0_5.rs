//! The traits of lock_api 0.5, whose guards carry what a lock must keep.

use std::fmt;
use std::time::{Duration, Instant};

use lock_api_05 as lock_api;
use lockwork_locks::RawLock;
use lockwork_platform::Native;

use crate::lock;
use crate::mutex::Owned;
use crate::time;

/// Any lock, for the wrappers of lock_api 0.5.
///
/// ```
/// # use lock_api_05 as lock_api;
/// use lockwork::{RawMutex, locks::McsStp};
///
/// type Mutex<T> = lock_api::Mutex<RawMutex<McsStp>, T>;
///
/// static COUNT: Mutex<u32> = Mutex::new(0);
/// *COUNT.lock() += 1;
/// ```
#[repr(transparent)]
#[derive(Debug)]
pub struct RawMutex<L>(Owned<L>);

/// What a guard of lock_api keeps for the lock `L`.
pub struct Held<L: RawLock<Native>>(L::Token);

impl<L: RawLock<Native>> fmt::Debug for Held<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

// SAFETY: tokens may be used by any thread (contract of `RawLock::unlock`).
unsafe impl<L: RawLock<Native>> Send for Held<L> {}
// SAFETY: a shared reference gives no access to the token.
unsafe impl<L: RawLock<Native>> Sync for Held<L> {}

// SAFETY: exclusion and order are the lock's own; nothing unwinds; a lock that is held may be moved or dropped.
unsafe impl<L: RawLock<Native>> lock_api::RawMutex for RawMutex<L> {
    const INIT: Self = Self(Owned(lock::unlocked()));

    type Guard = Held<L>;

    #[inline]
    fn lock(&self) -> Held<L> {
        Held(self.0.0.lock())
    }

    #[inline]
    fn try_lock(&self) -> Option<Held<L>> {
        self.0.0.try_lock().map(Held)
    }

    #[inline]
    unsafe fn unlock(&self, guard: Held<L>) {
        // SAFETY: the caller's contract.
        unsafe { self.0.0.unlock(guard.0) };
    }

    fn is_locked(&self) -> bool {
        self.0.0.is_locked()
    }
}

// SAFETY: the lock excludes, however it was acquired.
unsafe impl<L: RawLock<Native>> lock_api::RawMutexTimed for RawMutex<L> {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> Option<Held<L>> {
        self.0.0.try_lock_until(time::after(timeout)).map(Held)
    }

    fn try_lock_until(&self, timeout: Instant) -> Option<Held<L>> {
        self.0.0.try_lock_until(time::at(timeout)).map(Held)
    }
}
