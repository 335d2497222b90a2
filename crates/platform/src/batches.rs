//! The list of batches of free memory that all threads share: a stack that is pushed to by compare-and-swap, and popped from by
//! taking all of it, keeping the first batch and putting the rest back. Generic over the cells, so that model checkers run what
//! the pool runs.
//!
//! # State
//!
//! ```text
//! head ─→ batch ─next_batch→ batch ─next_batch→ … ─→ null     batches that nobody owns
//! head = TAKEN                                                a thread has the list, and will put the rest back shortly
//! head = null                                                 nothing there
//! ```
//!
//! # Invariants
//!
//! - I1: a chain belongs to the thread that made it until its compare-and-swap puts it into `head`, and to the thread whose
//!   compare-and-swap replaces it by `TAKEN` from then on. So nobody reads a link of a batch that another thread may own, and a
//!   batch that comes back as the head (ABA) is no different from one that stayed.
//! - I2: `TAKEN` is a hint. It may be replaced by a chain that is pushed meanwhile, or by another thread's `TAKEN`: the thread that
//!   puts its rest back then pushes it like any other chain. So a thread that ends between the two, or a `fork` there, loses the
//!   batches that it had taken, and nothing else.
//! - I3: a thread that finds `TAKEN` looks again for a bounded time, and then takes the list for empty: it may be the thread that was
//!   interrupted by a signal handler, in which it waits for itself. It puts null in place of `TAKEN`, so that nobody else waits for
//!   a list that may never come back.
//!
//! # Ordering
//!
//! - E1: the compare-and-swap that pushes a chain (Release) → the one that takes the list (Acquire), through the others', which are
//!   all read-modify-writes: the links, and whatever the memory was used for before.

use core::fmt;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::Native;
use crate::cells::{AtomicCell, Cells, DataCell};
use crate::cpu::Cpu;

/// What the first bytes of a batch are while it is free.
#[repr(C)]
pub struct Batch<C: Cells> {
    /// The address of the next batch of the chain, or 0.
    next_batch: C::Data<usize>,
}

impl<C: Cells> fmt::Debug for Batch<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl<C: Cells> Batch<C> {
    /// A batch in no chain.
    #[must_use]
    pub fn alone() -> Self {
        Self { next_batch: C::Data::new(0) }
    }
}

/// The list.
pub struct Batches<C: Cells + 'static> {
    head: C::Ptr<Batch<C>>,
}

impl<C: Cells + 'static> fmt::Debug for Batches<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}

impl Batches<Native> {
    /// An empty list, for statics.
    pub(crate) const fn empty() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// The address in `head` while a thread has the list.
const TAKEN: usize = 1;

fn taken<C: Cells>() -> *mut Batch<C> {
    ptr::without_provenance_mut(TAKEN)
}

/// Looks at a list that another thread has, of which the first ones are apart by a pause, the others by a yield: enough for a thread
/// that runs, or will as soon as there is a CPU for it.
const LOOKS: u32 = 96;
const PAUSES: u32 = 32;

impl<C: Cells + Cpu + 'static> Batches<C> {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self { head: C::Ptr::new(ptr::null_mut()) }
    }

    /// Adds a batch.
    ///
    /// # Safety
    ///
    /// The batch is the caller's, and no other thread will access it; it stays readable and writable for ever.
    pub unsafe fn push(&self, batch: NonNull<Batch<C>>) {
        self.push_chain(batch.as_ptr(), batch.as_ptr());
    }

    /// Adds the chain `first ..= last`, which is the caller's.
    fn push_chain(&self, first: *mut Batch<C>, last: *mut Batch<C>) {
        let mut head = self.head.load(Relaxed);
        loop {
            let below = if head == taken() { ptr::null_mut() } else { head };
            // SAFETY: I1: the chain is the caller's; batches stay readable and writable.
            let link = unsafe { &(*last).next_batch };
            // SAFETY: as above.
            unsafe { link.set(below.expose_provenance()) };
            // ORDER: Release is E1.
            match self.head.compare_exchange(head, first, Release, Relaxed) {
                Ok(_) => return,
                Err(there) => head = there,
            }
        }
    }

    /// Takes a batch, which is the caller's from here on. `None` if there is none, or if a thread that has taken the list
    /// does not put it back (I3).
    #[must_use]
    pub fn pop(&self) -> Option<NonNull<Batch<C>>> {
        let first = self.take_all()?;
        // SAFETY: I1: the chain is ours.
        let rest = unsafe { next_of(first.as_ptr()) };
        // ORDER: Relaxed: nothing has been written since E1, whose chain of read-modify-writes goes on.
        if self.head.compare_exchange(taken(), rest, Relaxed, Relaxed).is_err() && !rest.is_null() {
            let mut last = rest;
            // SAFETY: as above, for every batch of the chain.
            while let Some(next) = NonNull::new(unsafe { next_of(last) }) {
                last = next.as_ptr();
            }
            self.push_chain(rest, last);
        }
        Some(first)
    }

    /// Takes the whole list, and leaves `TAKEN`.
    fn take_all(&self) -> Option<NonNull<Batch<C>>> {
        for look in 0..LOOKS {
            let head = self.head.load(Relaxed);
            if head != taken() {
                let first = NonNull::new(head)?;
                // ORDER: Acquire is E1.
                if self.head.compare_exchange(head, taken(), Acquire, Relaxed).is_ok() {
                    return Some(first);
                }
            } else if look < PAUSES {
                C::pause();
            } else {
                C::yield_now();
            }
        }
        // I3. ORDER: Relaxed: null publishes nothing.
        let _ = self.head.compare_exchange(taken(), ptr::null_mut(), Relaxed, Relaxed);
        None
    }
}

impl<C: Cells + Cpu + 'static> Default for Batches<C> {
    fn default() -> Self {
        Self::new()
    }
}

/// What comes after a batch in its chain.
///
/// # Safety
///
/// The chain is the caller's.
unsafe fn next_of<C: Cells>(batch: *mut Batch<C>) -> *mut Batch<C> {
    // SAFETY: the caller's contract.
    let link = unsafe { &(*batch).next_batch };
    // SAFETY: as above.
    ptr::with_exposed_provenance_mut(unsafe { link.get() })
}
