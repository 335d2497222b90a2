//! Locks whose type is forgotten, for code that is compiled once and not once for every lock.

use lockwork_platform::{Deadline, Platform};

pub use crate::api::Held;
use crate::api::{RawLock, RawRwLock, Token};
use crate::delegation;
use crate::knobs::Knobs;

/// [`RawLock`] with words for tokens: every lock is one.
///
/// # Safety
///
/// As for [`RawLock`].
pub unsafe trait ErasedLock<P: Platform>: Send + Sync {
    /// [`RawLock::configure`].
    fn configure(&self, knobs: &Knobs);
    /// [`RawLock::lock`].
    #[must_use = "the word is needed to unlock"]
    fn lock(&self) -> Held;
    /// [`RawLock::lock`] of a lock that a delegate is made of.
    #[must_use = "the word is needed to unlock"]
    fn lock_inside(&self) -> Held;
    /// [`RawLock::try_lock`].
    #[must_use = "the word is needed to unlock"]
    fn try_lock(&self) -> Option<Held>;
    /// [`RawLock::try_lock_until`].
    #[must_use = "the word is needed to unlock"]
    fn try_lock_until(&self, deadline: Deadline) -> Option<Held>;
    /// [`RawLock::unlock`].
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn unlock(&self, held: Held);
    /// [`RawLock::is_locked`].
    fn is_locked(&self) -> bool;
    /// [`RawLock::forget_waiters`].
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn forget_waiters(&self, holder: Option<Held>);
    /// [`RawLock::dispose`].
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn dispose(&self);
}

// SAFETY: the lock's own guarantees; a token is the same after its way through a word.
unsafe impl<P: Platform, L: RawLock<P>> ErasedLock<P> for L {
    fn configure(&self, knobs: &Knobs) {
        RawLock::configure(self, knobs);
    }

    fn lock(&self) -> Held {
        Held(RawLock::lock(self).into_word())
    }

    fn lock_inside(&self) -> Held {
        Held(delegation::lock_inside(self).into_word())
    }

    fn try_lock(&self) -> Option<Held> {
        RawLock::try_lock(self).map(|token| Held(token.into_word()))
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Held> {
        RawLock::try_lock_until(self, deadline).map(|token| Held(token.into_word()))
    }

    unsafe fn unlock(&self, held: Held) {
        // SAFETY: the caller's contract: the word of a token of this lock.
        let token = unsafe { L::Token::from_word(held.0) };
        // SAFETY: the caller's contract.
        unsafe { RawLock::unlock(self, token) };
    }

    fn is_locked(&self) -> bool {
        RawLock::is_locked(self)
    }

    unsafe fn forget_waiters(&self, holder: Option<Held>) {
        // SAFETY: the caller's contract: the word of a token of this lock.
        let holder = holder.map(|held| unsafe { L::Token::from_word(held.0) });
        // SAFETY: the caller's contract.
        unsafe { RawLock::forget_waiters(self, holder) };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { RawLock::dispose(self) };
    }
}

/// [`RawRwLock`] without its type: every reader-writer lock is one.
///
/// # Safety
///
/// As for [`RawRwLock`].
pub unsafe trait ErasedRwLock<P: Platform>: Send + Sync {
    /// [`RawRwLock::lock_shared`].
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool;
    /// [`RawRwLock::lock_shared_again`].
    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool;
    /// [`RawRwLock::try_lock_shared`].
    fn try_lock_shared(&self) -> bool;
    /// [`RawRwLock::unlock_shared`].
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn unlock_shared(&self);
    /// [`RawRwLock::lock_exclusive`].
    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool;
    /// [`RawRwLock::try_lock_exclusive`].
    fn try_lock_exclusive(&self) -> bool;
    /// [`RawRwLock::unlock_exclusive`].
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn unlock_exclusive(&self);
    /// [`RawRwLock::downgrade`].
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn downgrade(&self);
    /// [`RawRwLock::is_locked`].
    fn is_locked(&self) -> bool;
    /// [`RawRwLock::forget_waiters`].
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn forget_waiters(&self);
    /// [`RawRwLock::dispose`].
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn dispose(&self);
}

// SAFETY: the lock's own guarantees.
unsafe impl<P: Platform, L: RawRwLock<P>> ErasedRwLock<P> for L {
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        RawRwLock::lock_shared(self, deadline)
    }

    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        RawRwLock::lock_shared_again(self, deadline)
    }

    fn try_lock_shared(&self) -> bool {
        RawRwLock::try_lock_shared(self)
    }

    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller's contract.
        unsafe { RawRwLock::unlock_shared(self) };
    }

    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        RawRwLock::lock_exclusive(self, deadline)
    }

    fn try_lock_exclusive(&self) -> bool {
        RawRwLock::try_lock_exclusive(self)
    }

    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller's contract.
        unsafe { RawRwLock::unlock_exclusive(self) };
    }

    unsafe fn downgrade(&self) {
        // SAFETY: the caller's contract.
        unsafe { RawRwLock::downgrade(self) };
    }

    fn is_locked(&self) -> bool {
        RawRwLock::is_locked(self)
    }

    unsafe fn forget_waiters(&self) {
        // SAFETY: the caller's contract.
        unsafe { RawRwLock::forget_waiters(self) };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { RawRwLock::dispose(self) };
    }
}
