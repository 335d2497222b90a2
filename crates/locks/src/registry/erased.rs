//! Locks whose type is forgotten, for code that is compiled once and not once for every lock.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

use lockwork_platform::{Deadline, Platform};

pub use crate::api::Held;
use crate::api::{RawLock, RawRwLock, Token};
use crate::delegation::{self, Attempt, Delegate, Section, held_here, held_of};
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

/// As [`Locked`](crate::delegation::locked::Locked), over a lock without its type that `B` points to: a delegate whose requesters
/// run their sections themselves.
#[derive(Clone, Copy)]
pub struct UnderLock<P, B> {
    lock: B,
    platform: PhantomData<P>,
}

impl<P, B> UnderLock<P, B> {
    /// Sections under `lock`, which is free.
    #[must_use]
    pub fn over(lock: B) -> Self {
        Self { lock, platform: PhantomData }
    }
}

impl<P: Platform, B: Deref<Target = dyn ErasedLock<P>>> UnderLock<P, B> {
    /// Runs a section under the lock, which is held, and releases that.
    ///
    /// # Safety
    ///
    /// The section has not been run, and its requester waits; `held` is the word of the acquisition.
    unsafe fn run_holding(&self, section: Section, held: Held) {
        let generation = P::generation();
        // SAFETY: the caller's contract.
        unsafe { section.run() };
        // If the section has forked, and this is the child, the lock would be handed to a thread that is gone.
        // SAFETY: the caller's contract.
        unsafe { self.unlock(held, P::generation() != generation) };
    }

    /// Releases the lock, in a child of the process in which it was acquired or in that itself.
    ///
    /// # Safety
    ///
    /// `held` is the word of an acquisition, and has not been used for a release.
    unsafe fn unlock(&self, held: Held, is_in_child: bool) {
        if is_in_child {
            // SAFETY: the threads that wait are gone.
            unsafe { self.lock.forget_waiters(Some(held)) };
        }
        // SAFETY: the caller's contract.
        unsafe { self.lock.unlock(held) };
    }
}

// SAFETY: the lock's guarantees.
unsafe impl<P: Platform, B: Deref<Target = dyn ErasedLock<P>> + Send + Sync> Delegate<P> for UnderLock<P, B> {
    /// # Panics
    ///
    /// Always: it is made [over](UnderLock::over) a lock.
    fn new() -> Self {
        unreachable!("which lock?")
    }

    fn configure(&self, knobs: &Knobs) {
        self.lock.configure(knobs);
    }

    unsafe fn execute(&self, section: Section) {
        let held = self.lock.lock_inside();
        // SAFETY: with the lock held no other section runs, and the caller waits for this one.
        unsafe { self.run_holding(section, held) };
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        let Some(held) = self.lock.try_lock() else { return false };
        // SAFETY: as in `execute`.
        unsafe { self.run_holding(section, held) };
        true
    }

    fn acquire(&self) -> Option<Held> {
        Some(held_here::<P>(self.lock.lock_inside()))
    }

    fn try_acquire(&self) -> Attempt {
        self.lock.try_lock().map_or(Attempt::Busy, |held| Attempt::Held(held_here::<P>(held)))
    }

    unsafe fn release(&self, held: Held) {
        let (held, is_in_child) = held_of::<P>(held);
        // SAFETY: the caller's contract.
        unsafe { self.unlock(held, is_in_child) };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.lock.dispose() };
    }

    fn is_busy(&self) -> bool {
        self.lock.is_locked()
    }
}

impl<P, B> fmt::Debug for UnderLock<P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnderLock")
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
