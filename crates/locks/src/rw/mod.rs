//! Reader-writer locks.

pub mod auto;
pub mod bravo;
pub mod by_node;
pub mod futex;
pub mod linux_rwsem;
pub mod pf_q;
pub mod pf_t;
mod phases;
pub mod ttas;

use lockwork_platform::{ConstPlatform, Deadline, Platform};

use crate::api::RawRwLock;
pub use futex::RwState;

/// Whom the lock lets pass while both wait. See [`futex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Readers pass waiting writers.
    Readers,
    /// Readers wait behind waiting writers.
    Writers,
}

/// Why a read lock was not acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadRefused {
    /// A writer holds it (or waits for it and is preferred): try again later. After a wait: the deadline passed.
    Busy,
    /// There are as many readers as can be counted.
    TooManyReaders,
}

/// The lock with a fixed preference: for readers, or with `PREFER_WRITERS` for writers.
#[repr(transparent)]
#[derive(Debug)]
pub struct RwFutex<P: Platform, const PREFER_WRITERS: bool = false>(RwState<P>);

/// The lock that bars readers while writers wait.
pub type RwFutexWriters<P> = RwFutex<P, true>;

impl<P: Platform, const PREFER_WRITERS: bool> RwFutex<P, PREFER_WRITERS> {
    const PREFERENCE: Preference = if PREFER_WRITERS { Preference::Writers } else { Preference::Readers };

    /// The lock whose preference is an argument.
    #[must_use]
    pub fn state(&self) -> &RwState<P> {
        &self.0
    }
}

impl<P: ConstPlatform, const PREFER_WRITERS: bool> RwFutex<P, PREFER_WRITERS> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self(RwState::unlocked())
    }
}

// SAFETY: I1 excludes writers against everybody; E1 and E2 order the critical sections.
unsafe impl<P: Platform, const PREFER_WRITERS: bool> RawRwLock<P> for RwFutex<P, PREFER_WRITERS> {
    fn new() -> Self {
        Self(RwState::new())
    }

    #[inline(always)]
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        self.0.lock_shared(Self::PREFERENCE, deadline).is_ok()
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.0.try_lock_shared(Self::PREFERENCE).is_ok()
    }

    #[inline(always)]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock_shared(Self::PREFERENCE) };
    }

    #[inline(always)]
    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        self.0.lock_exclusive(Self::PREFERENCE, deadline)
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.0.try_lock_exclusive()
    }

    #[inline(always)]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock_exclusive(Self::PREFERENCE) };
    }

    #[inline]
    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        self.0.try_lock_shared(Preference::Readers).is_ok() || self.lock_shared(deadline)
    }

    unsafe fn downgrade(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.downgrade(Self::PREFERENCE) };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    unsafe fn forget_waiters(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.forget_waiters() };
    }
}
