//! The word of a lock whose state is made at its first use.
//!
//! # State
//!
//! | word           | meaning                                                   |
//! |----------------|-----------------------------------------------------------|
//! | 0              | never used                                                |
//! | 1 … 65,535     | never used; the pass limit that its state is to be made with |
//! | anything else  | the address of its state                                  |
//!
//! The state knows its lock by its address. A lock that finds the state of another has been copied, where that may be
//! ([`Platform::locks_are_copied`]): it is as if never used, with the default pass limit. Or it has been moved, and the
//! state is its own.
//!
//! Nothing lies in the lowest 64 KiB of a process: Linux maps nothing there unless it is asked for that very address.
//!
//! # Invariants
//!
//! - I1: once the word is the address of the lock's own state it stays until the lock is disposed of.
//!
//! # Ordering
//!
//! - E1: the CAS that publishes a state (Release) → the load that finds it (Acquire): its initialisation.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Native, Platform, PoolNode};

use crate::knobs::{BaseKnobs, MOST_PASSES};

/// State with a pass limit, which starts as the default one. Both words are changed by [`Lazy`] only.
pub trait State<P: Platform> {
    /// The limit.
    fn pass_limit(&self) -> &P::U32;
    /// Whose state it is, by the lock's address.
    fn owner(&self) -> &P::U32;
}

/// Null, a pass limit, or where the state is.
#[repr(transparent)]
pub struct Lazy<P: Platform, T: 'static>(P::Ptr<T>);

impl<P: Platform, T: 'static> core::fmt::Debug for Lazy<P, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Lazy").field(&self.0.load(Relaxed)).finish()
    }
}

impl<T> Lazy<Native, T> {
    /// Never used, for statics.
    pub(crate) const fn unused() -> Self {
        Self(Native::null())
    }
}

/// Whether a word is the address of a state.
#[inline(always)]
fn is_address<T>(word: *mut T) -> bool {
    word.addr() > MOST_PASSES as usize
}

impl<P: Platform, T: PoolNode<P> + State<P>> Lazy<P, T> {
    pub(crate) fn new() -> Self {
        Self(P::Ptr::new(ptr::null_mut()))
    }

    /// What a state knows its lock by: 32 bits that are different for locks less than 32 GiB apart.
    #[inline(always)]
    fn identity(&self) -> u32 {
        (ptr::from_ref(self).addr() >> 3) as u32
    }

    /// The state, if there is one.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        self.own(self.0.load(Acquire)) // ORDER: E1.
    }

    /// The lock's own state, if that is where `word` points, which was read with Acquire.
    #[inline(always)]
    fn own(&self, word: *mut T) -> Option<&T> {
        if !is_address(word) {
            return None;
        }
        // SAFETY: I1: published, and there until the lock is disposed of; or the state of the lock that this one is a copy
        // of. Pool memory stays readable.
        let state = unsafe { &*word };
        if state.owner().load(Relaxed) == self.identity() { Some(state) } else { self.moved(state) }
    }

    /// The state of a lock that was moved, which is its own, or copied, which is not.
    #[cold]
    fn moved<'a>(&self, state: &'a T) -> Option<&'a T> {
        if P::locks_are_copied() {
            return None;
        }
        state.owner().store(self.identity(), Relaxed);
        Some(state)
    }

    /// The state of a lock that has been acquired.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    #[inline(always)]
    pub(crate) unsafe fn of_holder(&self) -> &T {
        // SAFETY: I1: published before the acquisition. ORDER: Relaxed: the acquisition has found it there (E1).
        unsafe { &*self.0.load(Relaxed) }
    }

    /// The state, made if this is the first use.
    #[inline(always)]
    pub(crate) fn get_or_make(&self) -> &T {
        match self.get() {
            Some(state) => state,
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> &T {
        let fresh = P::alloc_node::<T>();
        // SAFETY: nobody else knows of it yet.
        let state = unsafe { &*fresh.as_ptr() };
        loop {
            let word = self.0.load(Acquire); // ORDER: E1.
            if let Some(there) = self.own(word) {
                // SAFETY: never published.
                unsafe { P::free_node(fresh) };
                return there;
            }
            if !is_address(word) && !word.is_null() {
                state.pass_limit().store(word.addr() as u32, Relaxed);
            }
            // Only now: the state that `word` points to may be this very one, given back by the lock that this one is a
            // copy of.
            state.owner().store(self.identity(), Relaxed);
            // ORDER: Release is E1. A failure is looked at above.
            if self.0.compare_exchange(word, fresh.as_ptr(), Release, Relaxed).is_ok() {
                return state;
            }
        }
    }

    /// See [`RawLock::configure`](crate::api::RawLock::configure).
    pub(crate) fn configure(&self, knobs: &BaseKnobs) {
        let Some(limit) = knobs.pass_limit.map(|limit| limit.clamp(1, MOST_PASSES)) else { return };
        loop {
            let word = self.0.load(Acquire); // ORDER: E1.
            if let Some(state) = self.own(word) {
                return state.pass_limit().store(limit, Relaxed);
            }
            let limit = ptr::without_provenance_mut(limit as usize);
            // ORDER: a number says all; nothing is published.
            if self.0.compare_exchange(word, limit, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Gives the state back, if it is the lock's own, once `clear` has given back what it points to.
    ///
    /// # Safety
    ///
    /// Nobody uses the lock.
    pub(crate) unsafe fn dispose(&self, clear: impl FnOnce(&T)) {
        let state = self.get();
        // What is freed is the pointer that there was: a reference to the state may not free it.
        let word = NonNull::new(self.0.swap(ptr::null_mut(), Relaxed));
        let (Some(state), Some(word)) = (state, word) else { return };
        clear(state);
        // SAFETY: unlinked, and nobody else knows of it.
        unsafe { P::free_node(word) };
    }
}
