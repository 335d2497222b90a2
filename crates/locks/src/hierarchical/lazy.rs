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
//! Nothing lies in the lowest 64 KiB of a process: Linux maps nothing there unless it is asked for that very address.
//!
//! # Invariants
//!
//! - I1: once the word is an address it stays until the lock is disposed of.
//!
//! # Ordering
//!
//! - E1: the CAS that publishes something (Release) → the load or failed CAS that finds it (Acquire): its
//!   initialisation.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Native, Platform, PoolNode};

use crate::knobs::{BaseKnobs, MOST_PASSES};

/// State with a pass limit, which starts as the default one.
pub trait Limited<P: Platform> {
    /// The limit; changed by [`Lazy`] only.
    fn pass_limit(&self) -> &P::U32;
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
    pub(super) const fn unused() -> Self {
        Self(Native::null())
    }
}

/// Whether a word is the address of a state.
#[inline(always)]
fn is_address<T>(word: *mut T) -> bool {
    word.addr() > MOST_PASSES as usize
}

impl<P: Platform, T: PoolNode<P> + Limited<P>> Lazy<P, T> {
    pub(super) fn new() -> Self {
        Self(P::Ptr::new(ptr::null_mut()))
    }

    /// The state, if there is one.
    #[inline(always)]
    pub(super) fn get(&self) -> Option<&T> {
        let word = self.0.load(Acquire); // ORDER: E1.
        // SAFETY: I1: published, and there until the lock is disposed of.
        is_address(word).then(|| unsafe { &*word })
    }

    /// The state of a lock that has been acquired.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    #[inline(always)]
    pub(super) unsafe fn of_holder(&self) -> &T {
        // SAFETY: I1: published before the acquisition. ORDER: Relaxed: the acquisition has found it there (E1).
        unsafe { &*self.0.load(Relaxed) }
    }

    /// The state, made if this is the first use.
    #[inline(always)]
    pub(super) fn get_or_make(&self) -> &T {
        match self.get() {
            Some(state) => state,
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> &T {
        let fresh = P::alloc_node::<T>();
        let mut word = ptr::null_mut();
        // ORDER: Release on success and Acquire on failure are E1.
        while let Err(there) = self.0.compare_exchange(word, fresh.as_ptr(), Release, Acquire) {
            if is_address(there) {
                // SAFETY: never published.
                unsafe { P::free_node(fresh) };
                // SAFETY: I1.
                return unsafe { &*there };
            }
            // SAFETY: nobody else knows of it yet.
            unsafe { fresh.as_ref() }.pass_limit().store(there.addr() as u32, Relaxed);
            word = there;
        }
        // SAFETY: I1.
        unsafe { &*fresh.as_ptr() }
    }

    /// See [`RawLock::configure`](crate::api::RawLock::configure).
    pub(super) fn configure(&self, knobs: &BaseKnobs) {
        let Some(limit) = knobs.pass_limit.map(|limit| limit.clamp(1, MOST_PASSES)) else { return };
        loop {
            if let Some(state) = self.get() {
                return state.pass_limit().store(limit, Relaxed);
            }
            let word = self.0.load(Relaxed);
            let limit = ptr::without_provenance_mut(limit as usize);
            // ORDER: a number says all; nothing is published.
            if !is_address(word) && self.0.compare_exchange(word, limit, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Gives the state back, once `clear` has given back what it points to.
    ///
    /// # Safety
    ///
    /// Nobody uses the lock.
    pub(super) unsafe fn dispose(&self, clear: impl FnOnce(&T)) {
        let Some(state) = self.get() else { return };
        clear(state);
        self.0.store(ptr::null_mut(), Relaxed);
        // SAFETY: unlinked, and nobody else knows of it.
        unsafe { P::free_node(NonNull::from(state)) };
    }
}
