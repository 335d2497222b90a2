//! What a mutex of this crate can be made of.

use std::fmt::Debug;

use lockwork_locks::RawLock;
use lockwork_platform::{Deadline, Native};

/// A lock that [`Mutex`](crate::Mutex) can be made of: every [`RawLock`] of the real machine, and
/// [`DynLock`](crate::DynLock).
///
/// # Safety
///
/// As for [`RawLock`]; tokens may be used by any thread, and a lock may be moved or dropped while nobody waits for it.
pub unsafe trait Lock: Send + Sync {
    /// What the holder keeps between acquisition and release.
    type Token: Copy + Debug;

    /// Acquires, waiting as long as it takes.
    fn lock(&self) -> Self::Token;

    /// Acquires if that is possible without waiting.
    fn try_lock(&self) -> Option<Self::Token>;

    /// Acquires, or gives up when the deadline has passed.
    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token>;

    /// Releases.
    ///
    /// # Safety
    ///
    /// `token` came from an acquisition of this lock and has not been used for an unlock.
    unsafe fn unlock(&self, token: Self::Token);

    /// Whether somebody holds the lock or waits for it, at some instant during the call.
    fn is_locked(&self) -> bool;

    /// What profiles say that serves the mutex.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }
}

// SAFETY: the same contract.
unsafe impl<L: RawLock<Native>> Lock for L
where
    L::Token: Debug,
{
    type Token = L::Token;

    #[inline(always)]
    fn lock(&self) -> Self::Token {
        RawLock::lock(self)
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<Self::Token> {
        RawLock::try_lock(self)
    }

    #[inline]
    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        RawLock::try_lock_until(self, deadline)
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: Self::Token) {
        // SAFETY: the caller's contract.
        unsafe { RawLock::unlock(self, token) };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        RawLock::is_locked(self)
    }
}

/// An unlocked lock, as a constant.
pub(crate) const fn unlocked<L: RawLock<Native>>() -> L {
    // SAFETY: all-zero memory is an unlocked lock: part of the contract of `RawLock`.
    unsafe { core::mem::zeroed() }
}
