//! Which delegates threads are inside of: one that is ended must not be freed under a thread that is on its way out.
//!
//! POSIX allows the last user of an object to unlock its mutex, destroy it and free the object, while a thread that has unlocked it
//! before has not returned from that call. So may the last user of a delegate; and the thread whose section ran before may still be
//! at work for the delegate, or about to look for what was posted to it.
//!
//! # State
//!
//! A row for each thread, of the number that the platform gives it: the delegates that it is inside of, in no order. A thread without a
//! number, or inside of more than a row has places for, or for which there is no memory, is counted at the delegate. A child of `fork`
//! does not know which of those that are counted are its parent's.
//!
//! # Invariants
//!
//! - U1: a place is written by the row's thread only, which empties what it has filled once it touches the delegate no more.
//! - U2: a delegate is ended by a thread before which all requests of others have run: what they wrote before they requested is
//!   seen by it. So it sees every place that is filled, or that it has been emptied since.
//!
//! # Ordering
//!
//! - E1: the store that fills a place (Release, for E2 of the delegate that was there before) → the load of [`are_inside`]: by the delegate, which orders a requester before its section, and
//!   that before those that run later (U2).
//! - E2: the store that empties a place (Release), or one that fills it again → the load of [`are_inside`] (Acquire): all that the thread
//!   did with the delegate.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use lockwork_platform::{Native, Sched as _, Waiters as _, sys};

/// Delegates within whose sections a thread requests those of others, before it is counted.
const PLACES: usize = 7;
/// Rows of a page, which is as large as one of the system's.
const ROWS: usize = 63;

#[repr(C, align(64))]
struct Row {
    inside: [AtomicPtr<()>; PLACES],
    /// In which process the thread wrote here last: a child of `fork` has one thread of its parent's.
    generation: AtomicU32,
}

#[repr(C)]
struct Page {
    rows: [Row; ROWS],
    next: AtomicPtr<Self>,
}

static FIRST: Page = Page::new();

impl Page {
    const fn new() -> Self {
        Self {
            rows: [const {
                Row {
                    inside: [const { AtomicPtr::new(ptr::null_mut()) }; PLACES],
                    generation: AtomicU32::new(0),
                }
            }; ROWS],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The page behind this one, which stays for ever.
    fn next(&self) -> Option<&'static Self> {
        // SAFETY: null, or from `make_next`. ORDER: published there.
        unsafe { self.next.load(Acquire).as_ref() }
    }

    /// Makes the page behind this one, without malloc, whose lock may be a delegate. `None`: there is no memory.
    #[cold]
    fn make_next(&self) -> Option<&'static Self> {
        let pages = sys::map_pages(size_of::<Self>())?;
        let fresh = pages.cast::<Self>().as_ptr();
        // ORDER: Release publishes the zeros that the system has put there, which are rows without a delegate.
        match self.next.compare_exchange(ptr::null_mut(), fresh, Release, Acquire) {
            // SAFETY: made above, and never freed.
            Ok(_) => Some(unsafe { &*fresh }),
            Err(there) => {
                // SAFETY: made above, and nobody knows of it.
                unsafe { sys::unmap_pages(pages, size_of::<Self>()) };
                // SAFETY: as in `next`.
                Some(unsafe { &*there })
            }
        }
    }
}

/// The row of the thread with this number. `None`: there is no memory for it.
#[inline(always)]
fn row(number: usize) -> Option<&'static Row> {
    match FIRST.rows.get(number) {
        Some(row) => Some(row),
        None => row_behind(number - ROWS),
    }
}

#[cold]
fn row_behind(mut number: usize) -> Option<&'static Row> {
    let mut page = &FIRST;
    loop {
        page = page.next().or_else(|| page.make_next())?;
        if let Some(row) = page.rows.get(number) {
            return Some(row);
        }
        number -= ROWS;
    }
}

impl Row {
    /// Begins to use the row in this process. What it says is the thread's own, if that has come here by `fork`, or else a ghost's.
    #[cold]
    fn begin_anew(&self, thread: u32, generation: u32) {
        if !Native::lives_since(thread, self.generation.load(Relaxed)) {
            for place in &self.inside {
                place.store(ptr::null_mut(), Relaxed);
            }
        }
        self.generation.store(generation, Relaxed); // ORDER: E1, as the places.
    }
}

/// Threads inside of one delegate that have no place for it in a row.
#[derive(Debug, Default)]
pub(crate) struct Others(AtomicU32);

/// That the calling thread is inside of a delegate.
#[derive(Debug)]
pub(crate) enum Inside<'a> {
    Place(&'static AtomicPtr<()>),
    Counted(&'a Others),
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        match self {
            Self::Place(place) => place.store(ptr::null_mut(), Release), // ORDER: E2.
            Self::Counted(others) => {
                others.0.fetch_sub(1, Release); // ORDER: E2.
            }
        }
    }
}

/// The calling thread is inside of `delegate`, whose `others` these are, until it drops what it gets: the last that it does with it.
#[inline(always)]
pub(crate) fn enter<T>(delegate: *const T, others: &Others) -> Inside<'_> {
    let thread = Native::thread_id();
    let Some(row) = (thread as usize).checked_sub(1).and_then(row) else { return counted(others) };
    let generation = Native::generation();
    if row.generation.load(Relaxed) != generation {
        row.begin_anew(thread, generation);
    }
    // ORDER: of the row this thread writes all; a signal handler empties what it fills.
    match row.inside.iter().find(|place| place.load(Relaxed).is_null()) {
        Some(place) => {
            place.store(delegate.cast_mut().cast(), Release); // ORDER: E1, and E2 of another delegate.
            Inside::Place(place)
        }
        None => counted(others),
    }
}

#[cold]
fn counted(others: &Others) -> Inside<'_> {
    others.0.fetch_add(1, Relaxed); // ORDER: E1.
    Inside::Counted(others)
}

/// Whether threads are inside of `delegate`, whose `others` these are.
pub(crate) fn are_inside<T>(delegate: *const T, others: &Others) -> bool {
    if others.0.load(Acquire) != 0 {
        return true; // ORDER: E2.
    }
    let delegate: *const () = delegate.cast();
    let mut first = 1;
    let mut page = Some(&FIRST);
    while let Some(this) = page {
        for (number, row) in (first..).zip(&this.rows) {
            // ORDER: E2.
            let is_inside = row.inside.iter().any(|place| ptr::eq(place.load(Acquire), delegate));
            if is_inside && Native::lives_since(number, row.generation.load(Relaxed)) {
                return true;
            }
        }
        first += ROWS as u32;
        page = this.next();
    }
    false
}
