//! Locks whose type is forgotten: tests are compiled once, and not once for every lock.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use lockwork_locks::RawLock;
use lockwork_locks::api::Token;
use lockwork_locks::knobs::BaseKnobs;
use lockwork_platform::{Deadline, Platform};

/// The word of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held(pub usize);

/// Any lock.
pub type AnyLock<P> = Box<dyn Erased<P>>;

/// [`RawLock`] with words for tokens.
pub trait Erased<P: Platform>: Send + Sync {
    /// [`RawLock::configure`].
    fn configure(&self, knobs: &BaseKnobs);
    /// [`RawLock::lock`].
    fn lock(&self) -> Held;
    /// [`RawLock::try_lock`].
    fn try_lock(&self) -> Option<Held>;
    /// [`RawLock::try_lock_until`].
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
    /// What the registry of waiters calls the lock.
    fn address(&self) -> usize;
}

/// A lock that is dropped with its box, or not at all.
#[repr(transparent)]
struct Shell<L, const DROPS: bool>(ManuallyDrop<L>);

impl<L, const DROPS: bool> Drop for Shell<L, DROPS> {
    fn drop(&mut self) {
        if DROPS {
            // SAFETY: not used again.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

impl<P: Platform, L: RawLock<P>, const DROPS: bool> Erased<P> for Shell<L, DROPS> {
    fn configure(&self, knobs: &BaseKnobs) {
        self.0.configure(knobs);
    }

    fn lock(&self) -> Held {
        Held(self.0.lock().into_word())
    }

    fn try_lock(&self) -> Option<Held> {
        self.0.try_lock().map(|token| Held(token.into_word()))
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Held> {
        self.0.try_lock_until(deadline).map(|token| Held(token.into_word()))
    }

    unsafe fn unlock(&self, held: Held) {
        // SAFETY: the caller's contract: the word of a token of this lock.
        let token = unsafe { L::Token::from_word(held.0) };
        // SAFETY: the caller's contract.
        unsafe { self.0.unlock(token) };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    unsafe fn forget_waiters(&self, holder: Option<Held>) {
        // SAFETY: the caller's contract: the word of a token of this lock.
        let holder = holder.map(|held| unsafe { L::Token::from_word(held.0) });
        // SAFETY: the caller's contract.
        unsafe { self.0.forget_waiters(holder) };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.0.dispose() };
    }

    fn address(&self) -> usize {
        ptr::from_ref(&*self.0) as usize
    }
}

/// A lock that is dropped with its box.
pub fn erased<P: Platform, L: RawLock<P> + 'static>(lock: L) -> AnyLock<P> {
    Box::new(Shell::<L, true>(ManuallyDrop::new(lock)))
}

/// A lock that is never dropped: in a model a drop would need an order after all threads.
pub fn undropped<P: Platform, L: RawLock<P> + 'static>(lock: L) -> AnyLock<P> {
    Box::new(Shell::<L, false>(ManuallyDrop::new(lock)))
}

/// A lock made of nothing but zeros.
#[must_use]
pub fn zeroed<P: Platform, L: RawLock<P> + 'static>() -> AnyLock<P> {
    // SAFETY: `RawLock`: all-zero memory is an unlocked lock.
    erased::<P, L>(unsafe { MaybeUninit::zeroed().assume_init() })
}
