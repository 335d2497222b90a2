//! Whose a slot of the registry is.
//!
//! # Invariants
//!
//! - I1: a slot has one owner at a time: it is taken by an exchange that finds none, and freed by its owner (in a child of `fork`, where
//!   nobody else is, by the thread that purges).
//!
//! # Ordering
//!
//! - E1: [`Owner::free`] (Release) → [`Owner::take`] (Acquire): what the last owner wrote to the slot comes before what the next one
//!   writes.
//! - Whether a slot is still its target's is asked by a requester between two sequentially consistent fences of `cancel`, and the
//!   owner that leaves has one in `settle`. So one of the two sees the other, whatever the orderings here.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{AtomicCell, Cells};

/// No thread's `pthread_self()`: the owner is about to free the slot.
const LEAVING: usize = usize::MAX;

/// The owner of a slot: its `pthread_self()`, or 0.
#[derive(Debug)]
#[repr(transparent)]
pub struct Owner<C: Cells>(C::Usize);

impl<C: Cells> Owner<C> {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self(C::Usize::new(0))
    }

    /// Takes the slot for a thread, if it is free.
    pub fn take(&self, thread: usize) -> bool {
        // A look first: all slots up to a free one are tried. ORDER: Acquire is E1.
        self.0.load(Relaxed) == 0 && self.0.compare_exchange(0, thread, Acquire, Relaxed).is_ok()
    }

    /// Whether the slot is this thread's: a hint, but for a requester.
    pub fn is(&self, thread: usize) -> bool {
        self.0.load(Relaxed) == thread // ORDER: see the module.
    }

    /// Whether the slot is taken, as a hint.
    pub fn is_taken(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// Frees the slot, as its owner. From before `settle` on no thread that asks takes it for the owner's.
    pub fn free(&self, settle: impl FnOnce()) {
        self.0.store(LEAVING, Relaxed); // ORDER: see the module.
        settle();
        self.0.store(0, Release); // ORDER: E1.
    }
}

impl<C: Cells> Default for Owner<C> {
    fn default() -> Self {
        Self::new()
    }
}
