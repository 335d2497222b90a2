//! Locks whose type is forgotten, for code that is compiled once and not once for every lock.

use lockwork_platform::{Deadline, Platform};

use crate::api::{RawLock, Token};
use crate::knobs::BaseKnobs;

/// The word of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held(pub usize);

/// [`RawLock`] with words for tokens: every lock is one.
///
/// # Safety
///
/// As for [`RawLock`].
pub unsafe trait ErasedLock<P: Platform>: Send + Sync {
    /// [`RawLock::configure`].
    fn configure(&self, knobs: &BaseKnobs);
    /// [`RawLock::lock`].
    #[must_use = "the word is needed to unlock"]
    fn lock(&self) -> Held;
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
    fn configure(&self, knobs: &BaseKnobs) {
        RawLock::configure(self, knobs);
    }

    fn lock(&self) -> Held {
        Held(RawLock::lock(self).into_word())
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
