//! What the locks on one word have in common: the word, its release, and where each of them goes its own way.
//!
//! # State
//!
//! `word`: 0 = unlocked; otherwise locked, by the mark that the holder left ([`Contest::mark`]).
//!
//! # Invariants
//!
//! - I1: only the thread whose CAS moved `word` from 0 to a mark is the holder, and only the holder's release moves it
//!   back to 0.
//!
//! # Ordering
//!
//! - E1: `unlock`'s store of 0 (Release) → the next locker's CAS that finds 0 (Acquire): the critical section. Waiters'
//!   reads need no order: the CAS decides.

use core::fmt::Debug;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, ConstPlatform, Deadline, Native, Platform};

use crate::api::RawLock;
use crate::describe::Descriptor;
use crate::wait::Wait;

/// The word of an unlocked lock.
pub const UNLOCKED: u32 = 0;
/// The word of a locked lock, where nothing more is to be said.
pub const LOCKED: u32 = 1;

/// A word that is locked or not.
#[repr(transparent)]
pub struct Word<P: Platform> {
    /// Read by waiters, written by lockers and by the holder.
    word: P::U32,
}

impl<P: Platform> Debug for Word<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        Debug::fmt(&self.mark(), f)
    }
}

impl<P: Platform> Word<P> {
    /// The mark of the holder, or 0.
    pub(crate) fn mark(&self) -> u32 {
        // ORDER: Relaxed: only whether to try (E1).
        self.word.load(Relaxed)
    }

    /// Acquires an unlocked word, and leaves a locked one as it is.
    #[inline(always)]
    pub(crate) fn set(&self, mark: u32) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.word.compare_exchange(UNLOCKED, mark, Acquire, Relaxed).is_ok()
    }

    /// As [`Word::set`], if the word seems to be unlocked.
    #[inline(always)]
    pub(crate) fn test_and_set(&self, mark: u32) -> bool {
        self.mark() == UNLOCKED && self.set(mark)
    }

    /// Asks for the word's cache line, to write to it.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        P::prefetch_write(ptr::from_ref(self));
    }
}

/// How lockers contend for a [`Word`].
pub trait Contest<P: Platform>: Debug + Send + Sync + 'static {
    /// What is known of the lock.
    const DESCRIPTOR: &'static Descriptor;

    /// What the holder leaves in the word; not 0.
    #[inline(always)]
    fn mark() -> u32 {
        LOCKED
    }

    /// Acquires a word that is expected to be unlocked.
    #[inline(always)]
    fn acquire_fast(word: &Word<P>) -> bool {
        word.set(Self::mark())
    }

    /// Acquires an unlocked word, and spares the holder the transfer of its cache line if it can.
    #[inline(always)]
    fn try_acquire(word: &Word<P>) -> bool {
        word.test_and_set(Self::mark())
    }

    /// Tries until the word is acquired or the deadline has passed, at least once.
    fn wait(word: &Word<P>, deadline: Option<Deadline>) -> bool;
}

/// A lock on one word, for which `C` says how lockers contend.
#[repr(transparent)]
pub struct WordLock<P: Platform, C> {
    word: Word<P>,
    contest: PhantomData<C>,
}

const _: () = assert!(size_of::<WordLock<Native, ()>>() == 4);

impl<P: Platform, C: Contest<P>> Debug for WordLock<P, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple(C::DESCRIPTOR.name).field(&self.word).finish()
    }
}

impl<C> WordLock<Native, C> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Word { word: Native::U32_ZERO }, contest: PhantomData }
    }
}

impl<P: Platform, C: Contest<P>> WordLock<P, C> {
    /// Frees a lock that no living thread holds, after `fork`.
    pub(crate) fn reset(&self) {
        self.word.word.store(UNLOCKED, Relaxed);
    }
}

// SAFETY: I1 gives exclusion, and E1 orders the sections.
unsafe impl<P: Platform, C: Contest<P>> RawLock<P> for WordLock<P, C> {
    type Token = ();

    fn new() -> Self {
        Self { word: Word { word: P::U32::new(UNLOCKED) }, contest: PhantomData }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        C::try_acquire(&self.word).then_some(())
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        C::acquire_fast(&self.word).then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        C::wait(&self.word, wait.deadline).then_some(())
    }

    fn lock_with(&self, wait: &Wait) -> Option<()> {
        self.lock_slow(wait)
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // ORDER: Release is E1.
        self.word.word.store(UNLOCKED, Release);
    }

    fn is_locked(&self) -> bool {
        self.word.mark() != UNLOCKED
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        // Waiters leave no trace in the lock.
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Clock;

    use super::*;
    use crate::competitive::{backoff, hbo, tas, ttas};

    fn check<C: Contest<Native>>() {
        // SAFETY: atomics are valid whatever their bits.
        let lock: WordLock<Native, C> = unsafe { core::mem::zeroed() };
        for _ in 0..2 {
            assert!(!lock.is_locked());
            assert!(lock.try_lock().is_some());
            assert!(lock.is_locked());
            assert!(lock.try_lock().is_none());
            assert!(lock.try_lock_until(Deadline { clock: Clock::Monotonic, ns: 0 }).is_none());
            assert_eq!(lock.word.mark(), C::mark());
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
            assert_eq!(lock.word.mark(), UNLOCKED);
        }
    }

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        check::<tas::Always>();
        check::<tas::Prefetching>();
        check::<ttas::WhenUnlocked>();
        check::<ttas::BackingOff>();
        check::<backoff::LessAndLess>();
        check::<hbo::ByNode>();
    }
}
