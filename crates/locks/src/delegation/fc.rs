//! Flat combining: a thread that finds the delegate busy leaves its request at a line of its own; the thread that has the
//! delegate looks over all lines, several times, and runs what it finds.
//!
//! Danny Hendler, Itai Incze, Nir Shavit and Moran Tzafrir, "Flat combining and the synchronization-parallelism tradeoff", SPAA
//! 2010, section 2. Deviations: the publication list is an array of lines by the numbers of threads ([`lines`](super::lines)), so
//! that no record is enlisted, aged or removed; a thread that finds the delegate free runs its section without publishing it; a
//! combiner stops after [`PASSES`] passes at the latest; requesters that have waited for a context switch's time sleep, and a
//! combiner that leaves wakes one of those that it has not served.
//!
//! Properties: no order among requesters, but each pass serves everybody; 16 bytes a delegate, and 64 for each thread that ever
//! found it busy, in pages of 512. Uncontended, one compare-and-swap; no atomic operation on shared memory for a request that
//! another thread serves.
//!
//! # State
//!
//! | busy | meaning                                   |
//! |------|-------------------------------------------|
//! | 0    | idle; requests may be open for a moment   |
//! | 1    | one thread combines                       |
//!
//! # Invariants
//!
//! - I1: sections are run by the thread that moved `busy` to 1, before it moves it back.
//! - I2: a requester waits until its section has run, or it combines: then it takes its request back, if that is still open.
//! - I3: a thread that holds the delegate combines: it has moved `busy` to 1, and moves it back when it has released it, and run what
//!   others have requested meanwhile. One that waits for that has a line that says so, and nothing to be run.
//!
//! # Ordering
//!
//! - E1: the store of 0 to `busy` (Release) → the compare-and-swap to 1 (Acquire): all sections run so far.
//! - Requests and answers: those of [`lines`](super::lines). Sleep against the end of combining: L5 there.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Platform};

use super::lines::{Line, Lines, Outcome, Parked, Sleepers};
use super::{Attempt, COMBINED, Delegate, Section, Stint, held_here, known_by};
use crate::api::Held;
use crate::describe::{Capabilities, Citation, Descriptor, Family, Kind, Order, Proof, Timed};
use crate::wait::{Patience, Wait};

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "fc",
    kind: Kind::Delegate,
    capabilities: Capabilities { guard: true, ..Capabilities::COMBINER },
    family: Family::Combining,
    order: Order::LongTerm,
    order_note: "every pass over the lines serves everybody who has a request there",
    bytes: 16,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("while its section has not begun"),
    proofs: &[Proof::of(file!()), Proof { source: "delegation/lines.rs", by: &["fc"] }],
    citation: Citation {
        key: "hendler10",
        text: "Hendler, Incze, Shavit, Tzafrir: Flat combining and the synchronization-parallelism tradeoff. SPAA 2010",
    },
    summary: "the thread that finds it free looks over the requests of all others, and runs them",
    properties: "no atomic operation for a request that another thread serves; the combiner reads every line in each pass",
    deviations: "an array of lines instead of a list of records; uncontended sections are not published; bounded passes; sleepers",
    avoid: "many threads that seldom come: their lines are read all the same",
    ..Descriptor::MUTEX
};

/// Passes over the lines that a combiner makes at most.
const PASSES: u32 = 8;

/// The flat-combining delegate.
#[repr(C)]
#[derive(Debug)]
pub struct Fc<P: Platform> {
    /// Written by those who find it 0, and by the combiner.
    busy: P::U32,
    /// Sleepers. Read by a combiner that has left.
    parked: Parked<P>,
    lines: Lines<P>,
}

impl<P: Platform> Fc<P> {
    #[inline(always)]
    fn begin(&self) -> bool {
        // ORDER: E1.
        self.busy.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// [`Fc::begin`], where nobody is seen to combine.
    #[inline(always)]
    fn try_begin(&self) -> bool {
        self.busy.load(Relaxed) == 0 && self.begin()
    }

    /// Runs what others have requested, and ends to combine.
    #[inline(always)]
    fn combine(&self) {
        if self.lines.is_used() {
            return self.combine_others();
        }
        self.busy.store(0, Release); // ORDER: E1.
        self.parked.nominate(&self.lines);
    }

    fn combine_others(&self) {
        let mut sleepers = Sleepers::none();
        self.look_over(&mut sleepers);
        self.busy.store(0, Release); // ORDER: E1.
        self.parked.nominate(&self.lines);
        sleepers.wake();
    }

    fn look_over(&self, sleepers: &mut Sleepers<P>) {
        let mut stint = Stint::of::<P>(COMBINED);
        for _ in 0..PASSES {
            let mut goes_on = false;
            // A pass serves everybody, also one in which the stint ends.
            self.lines.each(|line| {
                // SAFETY: I1.
                if unsafe { self.parked.serve(line, &self.lines, sleepers) } {
                    goes_on = stint.goes_on::<P>();
                }
            });
            if !goes_on {
                return;
            }
        }
    }

    #[cold]
    unsafe fn request(&self, section: Section) {
        let Some(line) = self.lines.own_usable() else {
            self.begin_without_line();
            // SAFETY: I1.
            unsafe { section.run() };
            return self.combine();
        };
        // SAFETY: the calling thread's, which waits below.
        unsafe { line.request(section) };
        match self.wait(line) {
            Outcome::Served => {}
            Outcome::Begun(()) => {
                // SAFETY: I1, I2: nobody has run it, and nobody will.
                unsafe { section.run() };
                self.combine();
            }
            Outcome::BegunServed(()) => self.combine(),
        }
    }

    fn wait(&self, line: &Line<P>) -> Outcome<()> {
        let is_busy = || self.busy.load(Relaxed) != 0;
        let begin = || self.begin().then_some(());
        Wait::run::<P, _>(known_by(self), None, |_| self.parked.wait(line, &self.lines, 0, is_busy, begin))
    }

    /// Waits until the calling thread combines, which has nothing to be run.
    #[cold]
    fn wait_to_begin(&self) {
        let Some(line) = self.lines.own_usable() else { return self.begin_without_line() };
        // SAFETY: the calling thread's, which waits below.
        unsafe { line.hold() };
        // Nobody answers, so that the wait ends only by beginning.
        self.wait(line);
    }

    fn begin_without_line(&self) {
        let mut patience = Patience::new::<P>();
        while !self.begin() {
            patience.pause::<P>();
        }
    }
}

// SAFETY: I1, I2: one thread at a time runs sections, each once; E1 and the lines' edges order them and their requesters.
unsafe impl<P: Platform> Delegate<P> for Fc<P> {
    fn new() -> Self {
        Self { busy: P::U32::new(0), parked: Parked::none(), lines: Lines::none() }
    }

    unsafe fn execute(&self, section: Section) {
        // SAFETY: the caller's contract.
        if !unsafe { self.try_execute(section) } {
            // SAFETY: as above.
            unsafe { self.request(section) };
        }
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        if !self.try_begin() {
            return false;
        }
        // SAFETY: I1: this thread combines, and nobody has run the section.
        unsafe { section.run() };
        self.combine();
        true
    }

    /// A thread that holds it combines, and runs what others have requested when it releases it.
    fn acquire(&self) -> Option<Held> {
        if !self.try_begin() {
            self.wait_to_begin();
        }
        Some(held_here::<P>(Held(0)))
    }

    fn try_acquire(&self) -> Attempt {
        if self.try_begin() { Attempt::Held(held_here::<P>(Held(0))) } else { Attempt::Busy }
    }

    unsafe fn release(&self, _: Held) {
        // Of what was requested in a parent the lines know.
        self.combine();
    }

    fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) != 0
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.lines.dispose() };
    }
}
