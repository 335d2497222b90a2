//! A pointer to something that threads share from the moment of its publication, and that stays for ever. Generic over the cells,
//! so that model checkers run what the library runs.
//!
//! # Invariants
//!
//! - I1: what is published is initialised, and is neither moved nor freed. All that changes afterwards changes by its own atomics.
//! - I2: the pointer changes by read-modify-writes only, so a thread that finds what was published last also sees what was
//!   published before.
//!
//! # Ordering
//!
//! - E1: the compare-and-swap that publishes (Release) → the load or failed compare-and-swap that finds the pointer (Acquire), through
//!   the publications in between (I2): what is behind the pointer.
//! - E2: the store that tells of something published (Release) → the load or swap that finds it ([`Told`], Acquire): the same, by a
//!   thread that had it by E1.

use core::fmt;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::Native;
use crate::cells::{AtomicCell, Cells};

/// The pointer.
#[repr(transparent)]
pub struct Published<C: Cells, T: 'static>(C::Ptr<T>);

impl<C: Cells, T: 'static> fmt::Debug for Published<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Published").field(&self.0.load(Relaxed)).finish()
    }
}

impl<T: 'static> Published<Native, T> {
    /// Nothing yet, for statics.
    #[must_use]
    pub const fn nothing() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

impl<C: Cells, T: 'static> Published<C, T> {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(C::Ptr::new(ptr::null_mut()))
    }

    /// What was published last, or null.
    #[inline(always)]
    pub fn pointer(&self) -> *mut T {
        // ORDER: Acquire is E1.
        self.0.load(Acquire)
    }

    /// What was published last.
    #[inline(always)]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or published (I1).
        unsafe { self.pointer().as_ref() }
    }

    /// Publishes `fresh` in place of what was `seen` last.
    ///
    /// # Errors
    ///
    /// What was published meanwhile, or null; `fresh` is still the caller's.
    ///
    /// # Safety
    ///
    /// I1 holds for `fresh`.
    pub unsafe fn replace(&self, seen: *mut T, fresh: NonNull<T>) -> Result<(), *mut T> {
        // ORDER: both are E1.
        self.0.compare_exchange(seen, fresh.as_ptr(), Release, Acquire).map(drop)
    }

    /// Publishes `fresh`, if nothing has been published yet.
    ///
    /// # Errors
    ///
    /// What was published first; `fresh` is still the caller's.
    ///
    /// # Safety
    ///
    /// I1 holds for `fresh`.
    pub unsafe fn first(&self, fresh: NonNull<T>) -> Result<&'static T, &'static T> {
        // SAFETY: the caller's contract.
        match unsafe { self.replace(ptr::null_mut(), fresh) } {
            // SAFETY: I1.
            Ok(()) => Ok(unsafe { fresh.as_ref() }),
            // SAFETY: published (I1): it was not null.
            Err(there) => Err(unsafe { &*there }),
        }
    }

    /// Publishes `fresh` as the newest of a list: `link` makes it point to the one before, or to null.
    ///
    /// # Safety
    ///
    /// I1 holds for `fresh`.
    pub unsafe fn push(&self, fresh: NonNull<T>, link: impl Fn(*mut T)) -> &'static T {
        let mut before = self.pointer();
        loop {
            link(before);
            // SAFETY: the caller's contract.
            match unsafe { self.replace(before, fresh) } {
                // SAFETY: I1.
                Ok(()) => return unsafe { fresh.as_ref() },
                Err(newer) => before = newer,
            }
        }
    }
}

impl<C: Cells, T: 'static> Default for Published<C, T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A pointer to something that has been [published](Published), which threads that know it tell others of, and forget again.
#[repr(transparent)]
pub struct Told<C: Cells, T: 'static>(C::Ptr<T>);

impl<C: Cells, T: 'static> fmt::Debug for Told<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Told").field(&self.0.load(Relaxed)).finish()
    }
}

impl<T: 'static> Told<Native, T> {
    /// Nothing yet, for statics.
    #[must_use]
    pub const fn nothing() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

impl<C: Cells, T: 'static> Told<C, T> {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(C::Ptr::new(ptr::null_mut()))
    }

    /// Tells of what the caller knows, in place of what was told before; null = of nothing.
    pub fn tell(&self, known: *mut T) {
        self.0.store(known, Release); // ORDER: E2.
    }

    /// What was told last, or null.
    pub fn pointer(&self) -> *mut T {
        self.0.load(Acquire) // ORDER: E2.
    }

    /// What was told last, for this thread alone.
    pub fn take(&self) -> Option<NonNull<T>> {
        if self.is_nothing() {
            return None;
        }
        NonNull::new(self.0.swap(ptr::null_mut(), Acquire)) // ORDER: E2.
    }

    /// Whether there is nothing just now.
    pub fn is_nothing(&self) -> bool {
        self.0.load(Relaxed).is_null()
    }
}

impl<C: Cells, T: 'static> Default for Told<C, T> {
    fn default() -> Self {
        Self::new()
    }
}
