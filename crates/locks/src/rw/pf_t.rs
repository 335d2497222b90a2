//! `pf-t`: phase-fair tickets. Phases of readers and of one writer take turns: a reader waits for at most one writer, a
//! writer for the writers before it and for one phase of readers each.
//!
//! Björn B. Brandenburg and James H. Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time
//! systems", Real-Time Systems 46(1), 2010, algorithm PF-T. Deviations: the readers' arrivals and the ticket that is
//! served share a word, so that a writer's release is one operation (in the paper a second one follows the first, which
//! may let in a thread that destroys the lock). A writer stops the readers by a compare-and-swap, for a child of `fork` must know
//! which of them came before. A thread that may be a reader already and finds a writer waiting takes back a departure
//! instead of a new place (a guest). Readers first try a compare-and-swap, which a writer that is there does not see. A
//! thread that waits for long yields its CPU.
//!
//! Properties: 24 bytes, nothing a waiter; up to 2^31 writers and 2^32 readers at once. Waiting: spin, all readers and
//! all writers but the first on one word.
//!
//! Timed acquisition. A reader draws as others do; at the deadline it takes its arrival back, as long as the phase is
//! the one that it waits for, and else is in. A ticket cannot be given back once others have drawn after it, and one
//! that is abandoned would have to be found and skipped by a release, which then is no longer one operation. So a timed
//! writer polls until no writer is before it, draws only then, and stops the readers like any other: they do not starve
//! it, but writers that come without a deadline can. At the deadline it ends its turn, and the readers that it stopped
//! come in.
//!
//! # State
//!
//! `word`: see [`phases`](super::phases). Its number of turns is the ticket that is served.
//!
//! `departures`: the lower half is how many of the arrivals have left, less the guests that have come. It only grows: a
//! guest takes one from the lower half by adding 2^32 − 1. `tickets`: how many writers have drawn. `entry`: the
//! arrivals when the turn began.
//!
//! # Invariants
//!
//! - I1: the writer that is served changes the phase, and before that `entry`.
//! - I2: the readers are the arrivals that need not wait, and the guests; each release takes one from either. So the
//!   writer that is served has the lock once it is present and `departures` is `entry`. From then on `departures` stays
//!   as it is to the end of the turn (I3).
//! - I3: a guest comes in by an exchange of `departures` that it has read before it saw a writer present whose `entry`
//!   was another. If the exchange succeeds, nobody has left in between: a reader that came before that `entry` is still
//!   one, and no writer has had the lock since.
//! - I4: a release, and the surrender of a waiter, touch nothing after their last operation.
//!
//! # Ordering
//!
//! - E1 to E3: those of `word` and `entry`. A guest needs all of them: it may see the beginning of a turn in `word` and
//!   a later one in `entry`.
//! - E4: a reader's release on `departures` (Release) → the load by a writer that finds it at `entry` (Acquire),
//!   through the other readers' and guests' RMWs: what the reader read. And the load by an attempt to write, which must
//!   see the arrivals of those that have left: else it takes them for the ones that have not.
//! - E5: a reader's release on `departures`, or a guest's exchange (Release) → a guest's load (Acquire): the turns that
//!   ended before that one came in, so that the guest does not take one of those for the present.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, ConstPlatform, Deadline, Native, Platform};

use super::phases::{self, Phases, READER};
use crate::api::RawRwLock;
use crate::competitive::poll_steadily;
use crate::describe::{Descriptor, Family, Favour, Order, Proof, Timed};
use crate::wait::{Patience, WAITING_ON_RWLOCK, Wait};

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "pf-t",
    family: Family::Queue,
    order: Order::PhaseFair,
    order_note: "readers and writers take turns, writers FIFO",
    bytes: 24,
    timed: Timed::GivesUp("in the order; a writer polls until none is before it"),
    proofs: &[Proof { source: file!(), by: &["pf-t"] }, Proof { source: "rw/phases.rs", by: &["pf-t"] }],
    citation: phases::CITATION,
    summary: "tickets: a reader waits for at most one writer, a writer for one phase of readers for each writer before it",
    properties: "Nobody starves, and a reader's wait is bounded by the readers and the one writer before it. A reader changes two \
                 words, by one fetch-and-add each when there is competition.",
    deviations: "Arrivals and the ticket that is served share a word: a writer's release is one operation. Writers stop the \
                 readers by compare-and-swap. Guests. Timed writers poll for their turn, and then have it like others.",
    avoid: "More threads than CPUs, and many cores that mostly read: every reader changes two words.",
    ..Descriptor::rwlock(
        Favour::Neutral,
        "a thread that has read locks joins the readers that a writer waits for",
    )
};

/// What a guest adds to `departures`.
const GUEST: usize = READER - 1;

/// The lock.
#[repr(C)]
pub struct PfT<P: Platform> {
    /// Everybody changes it; readers wait on it, and writers for their turn.
    word: Phases<P>,
    /// Changed by readers that leave. The writer that is present waits on it.
    departures: P::Usize,
    /// Changed by writers that draw.
    tickets: P::U32,
    /// Written by the writer that is served.
    entry: P::U32,
}

const _: () = assert!(size_of::<PfT<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform> core::fmt::Debug for PfT<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let seen = self.word.seen();
        f.debug_struct("PfT")
            .field("arrivals", &seen.arrivals())
            .field("departures", &departed(self.departures.load(Relaxed)))
            .field("tickets", &self.tickets.load(Relaxed))
            .field("phase", &seen.phase())
            .finish_non_exhaustive()
    }
}

impl<P: ConstPlatform> PfT<P> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Phases::none(), departures: P::USIZE_ZERO, tickets: P::U32_ZERO, entry: P::U32_ZERO }
    }
}

#[cfg(test)]
impl PfT<Native> {
    /// An unlocked lock after so many readers and writers.
    pub(super) fn aged(arrivals: u32, turns: u32) -> Self {
        let lock = Self::unlocked();
        lock.word.age(arrivals, turns);
        lock.departures.store(arrivals as usize, Relaxed);
        lock.tickets.store(turns, Relaxed);
        lock
    }
}

/// How many readers have left, less the guests.
fn departed(departures: usize) -> u32 {
    departures as u32
}

impl<P: Platform> PfT<P> {
    /// How many readers have drawn, mod 2^32. A reader that has drawn has a place in the order.
    #[must_use]
    pub fn arrivals(&self) -> u32 {
        self.word.seen().arrivals()
    }

    fn waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        Wait::run::<P, _>(ptr::from_ref(self) as usize | WAITING_ON_RWLOCK, None, |_| wait())
    }

    /// Draws as a reader, and waits for the writer that is present.
    #[cold]
    fn draw(&self, deadline: Option<Deadline>) -> bool {
        self.waiting(|| {
            let found = self.word.draw();
            let is_over = || self.word.acquired().phase() != found;
            !found.is_writers() || poll_steadily::<P>(deadline, is_over) || !self.word.take_back(found)
        })
    }

    /// Comes in beside readers that a writer waits for. Returns what is in the way: a writer that has the lock, or
    /// nobody any more.
    fn join(&self) -> Result<(), Obstacle> {
        loop {
            // ORDER: E5. Before the word: I3.
            let seen = self.departures.load(Acquire);
            if !self.word.acquired().phase().is_writers() {
                return Err(Obstacle::Nobody);
            }
            // ORDER: E3.
            if self.entry.load(Acquire) == departed(seen) {
                return Err(Obstacle::Writer);
            }
            // ORDER: Release is E5.
            if self.departures.compare_exchange(seen, seen.wrapping_add(GUEST), Release, Relaxed).is_ok() {
                return Ok(());
            }
        }
    }

    /// Draws as a writer if that makes it its turn.
    fn try_turn(&self) -> bool {
        // Before the word: as no ticket has been drawn from here to the CAS, the word says whose turn it is since this
        // ticket could be drawn, and not how it was as many turns ago as there are tickets. ORDER: Acquire keeps it
        // before.
        let drawn = self.tickets.load(Acquire);
        self.word.acquired().phase().is_after(drawn)
            && self.tickets.compare_exchange(drawn, drawn.wrapping_add(1), Relaxed, Relaxed).is_ok()
    }

    /// Whether the readers that came before the writer which is present have left: then it has the lock (I2).
    fn have_left(&self, entry: u32) -> bool {
        // ORDER: E4.
        departed(self.departures.load(Acquire)) == entry
    }
}

/// Why a guest does not come in.
enum Obstacle {
    /// A writer has the lock.
    Writer,
    /// No writer is present: readers can draw.
    Nobody,
}

// SAFETY: I1 to I3 exclude writers against everybody; E1 to E5 order the critical sections.
unsafe impl<P: Platform> RawRwLock<P> for PfT<P> {
    fn new() -> Self {
        Self {
            word: Phases::new(),
            departures: P::Usize::new(0),
            tickets: P::U32::new(0),
            entry: P::U32::new(0),
        }
    }

    #[inline]
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        self.word.try_once() || self.draw(deadline)
    }

    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        let mut patience = Patience::new::<P>();
        loop {
            // A reader must not draw where it might find a writer present, which waits for it.
            if self.try_lock_shared() {
                return true;
            }
            match self.join() {
                Ok(()) => return true,
                // Then the caller is no reader.
                Err(Obstacle::Writer) => return self.lock_shared(deadline),
                Err(Obstacle::Nobody) => _ = patience.pause::<P>(),
            }
        }
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.word.try_draw()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // ORDER: Release is E4, E5. I4.
        self.departures.fetch_add(1, Release);
    }

    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        self.waiting(|| {
            if deadline.is_some() {
                if !poll_steadily::<P>(deadline, || self.try_turn()) {
                    return false;
                }
            } else {
                // ORDER: Relaxed: a number says all.
                let ticket = self.tickets.fetch_add(1, Relaxed);
                poll_steadily::<P>(None, || self.word.acquired().phase().is_after(ticket));
            }
            let entry = self.word.begin_turn(&self.entry);
            let has_it = poll_steadily::<P>(deadline, || self.have_left(entry));
            if !has_it {
                self.word.end_turn(0);
            }
            has_it
        })
    }

    fn try_lock_exclusive(&self) -> bool {
        // A look first: readers would be stopped for nothing.
        if self.is_locked() {
            return false;
        }
        self.waiting(|| {
            if !self.try_turn() {
                return false;
            }
            let has_it = self.have_left(self.word.begin_turn(&self.entry));
            if !has_it {
                self.word.end_turn(0);
            }
            has_it
        })
    }

    unsafe fn unlock_exclusive(&self) {
        self.word.end_turn(0); // I4.
    }

    unsafe fn downgrade(&self) {
        self.word.end_turn(READER);
    }

    fn is_locked(&self) -> bool {
        // Before the word, or those who come and leave in between would hide a reader that stays. ORDER: E4 keeps it before.
        let departures = self.departures.load(Acquire);
        let seen = self.word.seen();
        seen.phase().is_writers() || seen.arrivals() != departed(departures)
    }

    unsafe fn forget_waiters(&self) {
        let entry = self.entry.load(Relaxed);
        let has_left = entry == departed(self.departures.load(Relaxed));
        let is_held = self.word.seen().phase().is_writers() && has_left;
        let phase = self.word.forget_waiters(entry, is_held);
        self.tickets.store(phase.turns().wrapping_add(u32::from(is_held)), Relaxed);
    }
}
