//! `pf-t`: phase-fair tickets. Readers and writers alternate: a reader waits for at most one writer, a writer for at most the
//! readers of one phase and the writers before it.
//!
//! Björn B. Brandenburg and James H. Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time
//! systems", Real-Time Systems 46(1), 2010, listing 3 (PF-T). Deviations: the readers' arrivals and the ticket that is served
//! share a word, so that a writer's release is one operation and its last (in the paper a second one follows the first, which may
//! let in who destroys the lock); for this they are changed by compare-and-swap. A thread that may be a reader already and finds a
//! writer waiting joins the readers as a guest. Timed acquisitions poll, without a place in the order. A thread
//! that waits for long yields its CPU.
//!
//! Properties: 24 bytes, nothing a waiter; up to 65,535 writers at once. Waiting: spin, all readers on one word, all writers
//! on two.
//!
//! # State
//!
//! `word`:
//!
//! | bits  | name      | meaning                                                             |
//! |-------|-----------|---------------------------------------------------------------------|
//! | 0     | `PHASE`   | with `PRESENT`: of successive writers one has it, and the next has not |
//! | 1     | `PRESENT` | a writer has the lock, or waits for the readers that came before it  |
//! | 2–33  | arrivals  | how many readers have drawn, mod 2^32                               |
//! | 48–63 | served    | the ticket of the writer whose turn it is                            |
//!
//! `departures`: how many of them have left, mod 2^32. `tickets`: how many writers have drawn. `entry`: the arrivals at which `PRESENT` was
//! set. `guests`: readers that have not drawn, or `TAKEN`.
//!
//! # Invariants
//!
//! - I1: only the writer that is served sets `PRESENT`, and clears it with its turn.
//! - I2: a reader that finds `PRESENT` when it draws waits until both bits are others. Who drew before `entry` waits for no writer, or for
//!   one that is gone.
//! - I3: the readers are those that drew and need not wait, and the guests; each release takes one from either, so
//!   `departures` reaches `entry`, with no guests left, when the last of them has left.
//! - I4: the writer that is served clears `TAKEN` before it sets `PRESENT`, and sets it, where no guests are, once `departures` is
//!   `entry`: then it has the lock. Guests come in while it is not set. It stays set after the release.
//! - I5: a release touches nothing after its last operation.
//!
//! # Ordering
//!
//! - E1: the release of a writer on `word` (Release) → the operations on it and the loads by which readers and writers come in
//!   (Acquire), through other RMWs: the critical section.
//! - E2: a reader's release on `departures` (Release) → the load by a writer that finds it at `entry` (Acquire), through the other
//!   readers': what the reader read.
//! - E3: a guest's release on `guests` (Release) → the CAS to `TAKEN` (Acquire), through the other guests': what it read.
//! - E4: the reset of `TAKEN` (Release) → the CAS that adds a guest (Acquire): the sections before.
//! - E5: the CAS that sets `PRESENT` (Release) → the load before a guest tries to come in (Acquire): that `TAKEN` is reset.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, ConstPlatform, Deadline, Native, Platform};

use super::catalogue::{Favour, RwAlgorithm};
use crate::api::RawRwLock;
use crate::catalogue::Citation;
use crate::competitive::poll_steadily;
use crate::wait::{WAITING_ON_RWLOCK, registered};

/// What is known of it.
pub const ALGORITHM: RwAlgorithm = RwAlgorithm {
    name: "pf-t",
    favour: Favour::Neutral,
    waiting: "spin",
    by_node: false,
    fairness: "phase-fair: readers and writers alternate, writers in turn",
    bytes: 24,
    bytes_per_waiter: 0,
    timed: "polls, without a place in the order",
    recursion: "a thread that has read locks joins the readers that a writer waits for, as a guest",
    citation: Citation {
        key: "brandenburg10",
        text: "Brandenburg, Anderson: Spin-based reader-writer synchronization for multiprocessor real-time systems. \
               Real-Time Systems 46(1), 2010",
    },
    summary: "tickets: a reader waits for at most one writer, a writer for one phase of readers and the writers before it",
    properties: "No reader and no writer starves, and a reader's wait is bounded by one writer's section.",
    deviations: "Arrivals and the served ticket share a word, changed by compare-and-swap: a writer's release is one \
                 operation. Guests. Timed acquisitions poll.",
    avoid: "More threads than CPUs, and many cores that mostly read: every reader writes two words.",
};

/// Distinguishes successive writers.
const PHASE: usize = 1;
/// A writer has the lock, or waits for the readers before it.
const PRESENT: usize = 2;
/// Both.
const WRITER: usize = PHASE | PRESENT;
/// Where the arrivals begin.
const ARRIVALS_AT: u32 = 2;
/// All of the arrivals.
const ARRIVALS: usize = 0xffff_ffff << ARRIVALS_AT;
/// Where the ticket that is served begins; it is what is left of the word above.
const SERVED_AT: u32 = 48;
/// A ticket, of which the word has this much.
const TICKET: u32 = 0xffff;
/// In `guests`: a writer has the lock.
const TAKEN: u32 = 1 << 31;

/// The lock.
#[repr(C)]
pub struct PfT<P: Platform> {
    /// See the module's table. Everybody changes it, readers wait on it, and writers for their turn.
    word: P::Usize,
    /// Readers that drew and have left. A writer waits on it.
    departures: P::U32,
    /// Writers that have drawn.
    tickets: P::U32,
    /// Written by the writer that is served.
    entry: P::U32,
    /// Readers that have not drawn.
    guests: P::U32,
}

const _: () = assert!(size_of::<PfT<Native>>() == ALGORITHM.bytes);

impl<P: Platform> core::fmt::Debug for PfT<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PfT").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: ConstPlatform> PfT<P> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self {
            word: P::USIZE_ZERO,
            departures: P::U32_ZERO,
            tickets: P::U32_ZERO,
            entry: P::U32_ZERO,
            guests: P::U32_ZERO,
        }
    }
}

fn arrivals(word: usize) -> u32 {
    (word >> ARRIVALS_AT) as u32
}

fn served(word: usize) -> u32 {
    (word >> SERVED_AT) as u32
}

/// The word with one arrival more.
fn with_arrival(word: usize) -> usize {
    let arrived = (word & ARRIVALS).wrapping_add(1 << ARRIVALS_AT) & ARRIVALS;
    word & !ARRIVALS | arrived
}

impl<P: Platform> PfT<P> {
    fn waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        registered::<P, _>(ptr::from_ref(self) as usize | WAITING_ON_RWLOCK, wait)
    }

    /// Draws as a reader. Returns the writer's bits that it found.
    fn draw(&self) -> usize {
        let mut seen = self.word.load(Relaxed);
        loop {
            // ORDER: E1.
            match self.word.compare_exchange(seen, with_arrival(seen), Acquire, Relaxed) {
                Ok(_) => return seen & WRITER,
                Err(now) => seen = now,
            }
        }
    }

    /// Waits as a reader that has drawn and found a writer.
    #[cold]
    fn wait_to_read(&self, found: usize) {
        // ORDER: E1. I2.
        poll_steadily::<P>(None, || self.word.load(Acquire) & WRITER != found);
    }

    /// Comes in beside other readers, though a writer waits for them.
    fn join(&self) -> bool {
        let mut seen = self.guests.load(Relaxed);
        while seen & TAKEN == 0 {
            // ORDER: E4. I4.
            match self.guests.compare_exchange(seen, seen + 1, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Keeps readers out that have not drawn yet, as the writer whose ticket is served; only if there are no readers,
    /// if that is asked for.
    fn bar(&self, ticket: u32, only_if_empty: bool) -> bool {
        // ORDER: Release is E4.
        self.guests.fetch_and(!TAKEN, Release);
        let bits = PRESENT | ticket as usize & PHASE;
        let mut seen = self.word.load(Relaxed);
        loop {
            if only_if_empty && arrivals(seen) != self.departures.load(Relaxed) {
                return false;
            }
            // ORDER: Relaxed: for a child after `fork`.
            self.entry.store(arrivals(seen), Relaxed);
            // ORDER: Release is E5. The writer before has been acquired with the turn (E1).
            match self.word.compare_exchange(seen, seen | bits, Release, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether the readers that came before the writer have left; then it has the lock.
    fn take(&self) -> bool {
        // ORDER: E2.
        self.departures.load(Acquire) == self.entry.load(Relaxed)
            // ORDER: E3.
            && self.guests.compare_exchange(0, TAKEN, Acquire, Relaxed).is_ok()
    }

    /// Ends the turn of the writer that is served, with another change of the word.
    fn end_turn(&self, change: impl Fn(usize) -> usize) {
        let mut seen = self.word.load(Relaxed);
        loop {
            let next = change(seen & !WRITER).wrapping_add(1 << SERVED_AT);
            // ORDER: Release is E1. I5.
            match self.word.compare_exchange(seen, next, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

// SAFETY: I1 to I4 exclude writers against everybody; E1 to E4 order the critical sections.
unsafe impl<P: Platform> RawRwLock<P> for PfT<P> {
    fn new() -> Self {
        Self {
            word: P::Usize::new(0),
            departures: P::U32::new(0),
            tickets: P::U32::new(0),
            entry: P::U32::new(0),
            guests: P::U32::new(0),
        }
    }

    #[inline]
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        if self.try_lock_shared() {
            return true;
        }
        self.waiting(|| {
            if deadline.is_some() {
                return poll_steadily::<P>(deadline, || self.try_lock_shared());
            }
            match self.draw() {
                0 => {}
                found => self.wait_to_read(found),
            }
            true
        })
    }

    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        if self.try_lock_shared() {
            return true;
        }
        // ORDER: E5. A reader sees here the writer that barred it, if not a later one.
        let is_barred = self.word.load(Acquire) & PRESENT != 0;
        is_barred && self.join() || self.lock_shared(deadline)
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        let mut seen = self.word.load(Relaxed);
        while seen & WRITER == 0 {
            // ORDER: E1.
            match self.word.compare_exchange(seen, with_arrival(seen), Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        let mut guests = self.guests.load(Relaxed);
        // I3.
        while guests & !TAKEN != 0 {
            // ORDER: Release is E3.
            match self.guests.compare_exchange(guests, guests - 1, Release, Relaxed) {
                Ok(_) => return, // I5.
                Err(now) => guests = now,
            }
        }
        // ORDER: Release is E2. I5.
        self.departures.fetch_add(1, Release);
    }

    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        if self.try_lock_exclusive() {
            return true;
        }
        self.waiting(|| {
            if deadline.is_some() {
                return poll_steadily::<P>(deadline, || self.try_lock_exclusive());
            }
            // ORDER: Relaxed: a number says all.
            let ticket = self.tickets.fetch_add(1, Relaxed) & TICKET;
            // ORDER: E1.
            poll_steadily::<P>(None, || served(self.word.load(Acquire)) == ticket);
            self.bar(ticket, false);
            poll_steadily::<P>(None, || self.take())
        })
    }

    fn try_lock_exclusive(&self) -> bool {
        // ORDER: E1.
        let seen = self.word.load(Acquire);
        let drawn = self.tickets.load(Relaxed);
        let is_free = drawn & TICKET == served(seen)
            && arrivals(seen) == self.departures.load(Relaxed)
            && self.guests.load(Relaxed) & !TAKEN == 0;
        if !is_free || self.tickets.compare_exchange(drawn, drawn.wrapping_add(1), Relaxed, Relaxed).is_err()
        {
            return false;
        }
        // Our turn already, as nobody has drawn since. If a reader has come, it goes on to the next writer.
        if self.bar(drawn & TICKET, true) && self.take() {
            return true;
        }
        self.end_turn(|word| word);
        false
    }

    unsafe fn unlock_exclusive(&self) {
        self.end_turn(|word| word);
    }

    unsafe fn downgrade(&self) {
        self.end_turn(with_arrival);
    }

    fn is_locked(&self) -> bool {
        let seen = self.word.load(Relaxed);
        let readers =
            arrivals(seen) != self.departures.load(Relaxed) || self.guests.load(Relaxed) & !TAKEN != 0;
        readers || seen & PRESENT != 0
    }

    unsafe fn forget_waiters(&self) {
        let (seen, guests) = (self.word.load(Relaxed), self.guests.load(Relaxed));
        let departures = self.departures.load(Relaxed);
        let is_taken = guests & TAKEN != 0 && seen & PRESENT != 0;
        // Who drew after the writer that is served waits for it.
        let inside = if is_taken {
            departures
        } else if seen & PRESENT != 0 {
            self.entry.load(Relaxed)
        } else {
            arrivals(seen)
        };
        let writer = if is_taken { seen & WRITER } else { 0 };
        let word = (seen >> SERVED_AT) << SERVED_AT | (inside as usize) << ARRIVALS_AT | writer;
        self.word.store(word, Relaxed);
        self.tickets.store(served(seen).wrapping_add(u32::from(is_taken)), Relaxed);
        self.guests.store(if is_taken { TAKEN } else { guests & !TAKEN }, Relaxed);
    }
}
