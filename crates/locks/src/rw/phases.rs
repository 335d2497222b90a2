//! The word from which readers of a phase-fair lock draw, and which its writers stop and let go.
//!
//! # State
//!
//! | bits  | name      | meaning                                                              |
//! |-------|-----------|----------------------------------------------------------------------|
//! | 0     | `PRESENT` | a writer has the lock, or waits for the readers that came before it   |
//! | 1–31  | turns     | how many writers have been present and are not any more, mod 2^31     |
//! | 32–63 | arrivals  | how many readers have drawn, mod 2^32                                 |
//!
//! The lower half is the phase. It is odd while a writer is present, and a turn's end adds 1 as its beginning did.
//!
//! # Invariants
//!
//! - I1: only the writer whose turn it is changes the phase; there is one at a time, by other means than this word.
//! - I2: a reader that finds a writer present when it draws waits until the phase is another. While it is the same,
//!   the readers that drew after its beginning wait, and no others.
//!
//! # Ordering
//!
//! - E1: the end of a writer's turn (Release) → the operations and loads by which others come in (Acquire), through
//!   other RMWs: the critical section.
//! - E2: the beginning of a writer's turn (Release) → a load that sees it (Acquire): `entry`, at least of that turn.
//! - E3: the store to `entry` (Release) → the load of it by a thread that comes in by it (Acquire): the turns before.

#[cfg(test)]
mod tests;

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, ConstPlatform, Platform};

use crate::describe::Citation;

/// Of the phase-fair locks.
pub(super) const CITATION: Citation = Citation {
    key: "brandenburg10",
    text: "Brandenburg, Anderson: Spin-based reader-writer synchronization for multiprocessor real-time systems. \
           Real-Time Systems 46(1), 2010",
};

/// A writer has the lock, or waits for the readers before it.
const PRESENT: u32 = 1;
/// One arrival.
pub(super) const READER: usize = 1 << 32;

/// The word.
#[repr(transparent)]
pub(super) struct Phases<P: Platform>(P::Usize);

/// What the word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen(usize);

/// A phase, which is the same only until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phase(u32);

impl Seen {
    /// How many readers have drawn.
    pub(super) fn arrivals(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The phase.
    pub(super) fn phase(self) -> Phase {
        Phase(self.0 as u32)
    }

    fn with_reader(self) -> Self {
        Self(self.0.wrapping_add(READER))
    }
}

impl Phase {
    /// Whether a writer is present.
    pub(super) fn is_writers(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// Whether no writer is present, after so many turns, mod 2^31.
    pub(super) fn is_after(self, turns: u32) -> bool {
        self.0 == turns << 1
    }

    /// How many turns are over, mod 2^31.
    pub(super) fn turns(self) -> u32 {
        self.0 >> 1
    }

    /// What it is without a writer.
    fn without_writer(self) -> Self {
        Self(self.0 & !PRESENT)
    }
}

impl<P: ConstPlatform> Phases<P> {
    /// No arrivals, no writer.
    pub(super) const fn none() -> Self {
        Self(P::USIZE_ZERO)
    }
}

impl<P: Platform> Phases<P> {
    pub(super) fn new() -> Self {
        Self(P::Usize::new(0))
    }

    /// After so many arrivals and so many turns.
    #[cfg(test)]
    pub(super) fn age(&self, arrivals: u32, turns: u32) {
        self.0.store((arrivals as usize * READER) | (turns << 1) as usize, Relaxed);
    }

    /// What the word says, for a thread that does not come in by it.
    pub(super) fn seen(&self) -> Seen {
        Seen(self.0.load(Relaxed))
    }

    /// What the word says, for a thread that comes in by it.
    pub(super) fn acquired(&self) -> Seen {
        // ORDER: E1, E2.
        Seen(self.0.load(Acquire))
    }

    /// One attempt to draw where no writer is present. A thread that finds competition draws unconditionally, which takes
    /// one operation however many compete.
    #[inline(always)]
    pub(super) fn try_once(&self) -> bool {
        let seen = self.seen();
        !seen.phase().is_writers() && self.exchange(seen, seen.with_reader()).is_ok()
    }

    /// Draws unless a writer is present.
    #[inline]
    pub(super) fn try_draw(&self) -> bool {
        let mut seen = self.seen();
        while !seen.phase().is_writers() {
            match self.exchange(seen, seen.with_reader()) {
                Ok(()) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Comes in.
    #[inline(always)]
    fn exchange(&self, seen: Seen, next: Seen) -> Result<(), Seen> {
        // ORDER: E1.
        self.0.compare_exchange(seen.0, next.0, Acquire, Relaxed).map(drop).map_err(Seen)
    }

    /// Draws. Returns the phase: a reader that finds a writer present waits for the next.
    pub(super) fn draw(&self) -> Phase {
        // ORDER: E1.
        Seen(self.0.fetch_add(READER, Acquire)).phase()
    }

    /// Takes back the arrival of a reader that found this phase, unless it has ended: then the reader has come in.
    pub(super) fn take_back(&self, found: Phase) -> bool {
        loop {
            let seen = self.acquired();
            if seen.phase() != found {
                return false;
            }
            // It waits, so nobody counts on it (I2). ORDER: Relaxed: it has read nothing.
            if self.0.compare_exchange(seen.0, seen.0.wrapping_sub(READER), Relaxed, Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Begins the turn of the writer whose turn it is: readers that draw from now on wait. Returns how many have
    /// before, which is in `entry` before anybody can see the turn.
    pub(super) fn begin_turn(&self, entry: &P::U32) -> u32 {
        let mut seen = self.seen();
        while let Err(now) = self.try_begin_turn(seen, entry) {
            seen = now;
        }
        seen.arrivals()
    }

    /// One attempt at [`Phases::begin_turn`], for as many arrivals as were seen.
    ///
    /// # Errors
    ///
    /// What the word says instead.
    pub(super) fn try_begin_turn(&self, seen: Seen, entry: &P::U32) -> Result<(), Seen> {
        // ORDER: Release is E3.
        entry.store(seen.arrivals(), Release);
        let present = seen.0 | PRESENT as usize;
        // ORDER: Release is E2.
        self.0.compare_exchange(seen.0, present, Release, Relaxed).map(drop).map_err(Seen)
    }

    /// Ends the turn of the writer that is present, which may go on as a reader, by adding `READER`.
    pub(super) fn end_turn(&self, more: usize) {
        let Phase(now) = self.seen().phase();
        // Not just 1, which at the last phase of all would carry into the arrivals.
        let step = (now.wrapping_add(1) as usize).wrapping_sub(now as usize);
        // ORDER: Release is E1.
        self.0.fetch_add(step.wrapping_add(more), Release);
    }

    /// In a child after `fork`: forgets the waiters. `entry` is that of the last turn, `is_held` whether a writer
    /// has the lock.
    pub(super) fn forget_waiters(&self, entry: u32, is_held: bool) -> Phase {
        let seen = self.seen();
        // I2.
        let came_in = if seen.phase().is_writers() { entry } else { seen.arrivals() };
        let phase = if is_held { seen.phase() } else { seen.phase().without_writer() };
        self.0.store((came_in as usize * READER) | phase.0 as usize, Relaxed);
        phase
    }
}
