//! Flat combining as published: requesters enlist a record each; the thread that takes the lock follows the list, once, and runs
//! what it finds.
//!
//! Danny Hendler, Itai Incze, Nir Shavit and Moran Tzafrir, "Flat combining and the synchronization-parallelism tradeoff", SPAA
//! 2010, section 2. It is here to be compared: [`fc`](super::fc) has an array in place of the list, whose lines a combiner asks for
//! before it needs them, and does not publish a section that nobody else is in the way of. Deviations: a record is the line of a
//! thread's number ([`lines`](super::lines)), so that it is not allocated anew when a thread comes back; sections are run one by
//! one, and not combined by what they mean; requesters that have waited for a context switch's time sleep, and a combiner that leaves
//! wakes one of those that it has not served. The paper leaves open how often old records are removed, and which are old.
//!
//! Properties: no order among requesters, but a pass serves everybody in the list; 24 bytes a delegate, and 64 for each thread, in
//! pages of 512. Uncontended, one compare-and-swap, and a look at every record that is not old.
//!
//! # State
//!
//! ```text
//! first → record of the thread that enlisted last → … → that of the first one → LAST
//! ```
//!
//! | word         | meaning                                                                          |
//! |--------------|----------------------------------------------------------------------------------|
//! | `busy`       | 1 while a thread combines                                                        |
//! | `passes`     | how often a thread has followed the list. The combiner's                         |
//! | link         | of a line: the thread whose record is the next; [`LAST`]; 0 while not in the list |
//! | age          | of a line: the pass that served it last. The combiner's                          |
//!
//! # Invariants
//!
//! - I1: sections are run by the thread that moved `busy` to 1, before it moves it back.
//! - I2: a requester waits until its section has run, or it combines: then it takes its request back, if that is still open.
//! - I3: a link is moved from 0 by its owner, who has a request there, and to 0 by the combiner, who has taken the record out of the
//!   list. The first record is never taken out, so that threads which enlist have only each other in their way.
//! - I4: a requester that waits looks at its link as often as at its request, and enlists again if it is 0. So a record that was
//!   taken out while its owner made a request is not lost; a record that has one is never taken out.
//!
//! # Ordering
//!
//! - E1: the store of 0 to `busy` (Release) → the compare-and-swap to 1 (Acquire): all sections run so far, and the list.
//! - E2: the compare-and-swap that enlists (Release) → the load of `first` by a combiner (Acquire): the record's link and request,
//!   and, as each enlisting is a read-modify-write of the one before, those of all records behind it.
//! - Requests and answers: those of [`lines`](super::lines). Sleep against the end of combining: L5 there.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Platform};

use super::lines::{Line, Lines, Outcome, Parked, Sleepers};
use super::{Delegate, Section, fc, known_by};
use crate::describe::{Capabilities, Descriptor, Proof};
use crate::wait::{Patience, Wait};

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "fc-list",
    capabilities: Capabilities::COMBINER,
    order_note: "every pass over the list serves everybody who has a request there",
    bytes: 24,
    proofs: &[Proof::of(file!()), Proof { source: "delegation/lines.rs", by: &["fc-list"] }],
    summary: "flat combining as published: a list of records, which the combiner follows once",
    properties: "the combiner waits for one record after the other, some of which have no request",
    deviations: "sections are run one by one; a record is the line of a thread's number; sleepers",
    avoid: "all but comparisons: fc asks for several requests at once",
    ..fc::DESCRIPTOR
};

/// The link of the last record.
const LAST: u32 = u32::MAX;

/// Flat combining with a publication list. Every `OLD` passes the records are removed that have had no request for as many.
#[repr(C)]
#[derive(Debug)]
pub struct FcList<P: Platform, const OLD: u32 = 64> {
    /// Written by those who find it 0, and by the combiner.
    busy: P::U32,
    /// Sleepers. Read by a combiner that has left.
    parked: Parked<P>,
    /// The number of the thread whose record is the first.
    first: P::U32,
    passes: P::U32,
    lines: Lines<P>,
}

impl<P: Platform, const OLD: u32> FcList<P, OLD> {
    #[inline(always)]
    fn begin(&self) -> bool {
        // ORDER: E1.
        self.busy.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Puts the record of the calling thread, which has a request there, at the front of the list.
    #[cold]
    fn enlist(&self, line: &Line<P>) {
        let number = P::thread_id();
        let mut first = self.first.load(Relaxed);
        loop {
            line.link().store(if first == 0 { LAST } else { first }, Relaxed); // ORDER: E2.
            match self.first.compare_exchange(first, number, Release, Relaxed) {
                Ok(_) => return debug_assert!(first != number, "the first record was taken out (I3)"), // ORDER: E2.
                Err(now) => first = now,
            }
        }
    }

    /// Runs what others have requested, and ends to combine.
    fn combine(&self) {
        let mut sleepers = Sleepers::none();
        let pass = self.passes.load(Relaxed).wrapping_add(1);
        self.passes.store(pass, Relaxed); // ORDER: E1, as the ages.
        let first = self.first.load(Acquire); // ORDER: E2.
        self.each_record(first, |line| {
            // SAFETY: I1.
            if unsafe { self.parked.serve(line, &self.lines, &mut sleepers) } {
                line.age().store(pass, Relaxed);
            }
        });
        if pass.is_multiple_of(OLD) {
            self.remove_old(first, pass);
        }
        self.busy.store(0, Release); // ORDER: E1.
        self.parked.nominate(&self.lines);
        sleepers.wake();
    }

    /// Calls `f` with a record and with every one behind it. By the combiner.
    fn each_record(&self, first: u32, mut f: impl FnMut(&Line<P>)) {
        let mut number = first;
        while let Some(line) = self.record(number) {
            f(line);
            number = line.link().load(Relaxed);
        }
    }

    fn record(&self, number: u32) -> Option<&Line<P>> {
        if number == LAST { None } else { self.lines.of(number) }
    }

    /// Takes the records out of the list that have had no request for long (I3).
    fn remove_old(&self, first: u32, pass: u32) {
        let Some(mut before) = self.record(first) else { return };
        while let Some(line) = self.record(before.link().load(Relaxed)) {
            let is_old = pass.wrapping_sub(line.age().load(Relaxed)) >= OLD;
            if is_old && !line.is_requested() {
                before.link().store(line.link().load(Relaxed), Relaxed); // ORDER: E1.
                line.link().store(0, Relaxed); // ORDER: its owner reads nothing else by it.
            } else {
                before = line;
            }
        }
    }

    /// By a thread that has no line.
    #[cold]
    unsafe fn run_alone(&self, section: Section) {
        let mut patience = Patience::new::<P>();
        while !self.begin() {
            patience.pause::<P>();
        }
        // SAFETY: I1.
        unsafe { section.run() };
        self.combine();
    }
}

// SAFETY: I1, I2: one thread at a time runs sections, each once; E1 and the lines' edges order them and their requesters.
unsafe impl<P: Platform, const OLD: u32> Delegate<P> for FcList<P, OLD> {
    fn new() -> Self {
        let zero = || P::U32::new(0);
        Self { busy: zero(), parked: Parked::none(), first: zero(), passes: zero(), lines: Lines::none() }
    }

    unsafe fn execute(&self, section: Section) {
        let Some(line) = self.lines.own_usable() else {
            // SAFETY: the caller's contract.
            return unsafe { self.run_alone(section) };
        };
        // SAFETY: the calling thread's, which waits below.
        unsafe { line.request(section) };
        let is_busy = || {
            if line.link().load(Relaxed) == 0 {
                self.enlist(line); // I4.
            }
            self.busy.load(Relaxed) != 0
        };
        let begin = || self.begin().then_some(());
        let outcome = Wait::run::<P, _>(known_by(self), None, |_| {
            self.parked.wait(line, &self.lines, 0, is_busy, begin)
        });
        match outcome {
            Outcome::Served => {}
            Outcome::Begun(()) => {
                // SAFETY: I1, I2: nobody has run it, and nobody will.
                unsafe { section.run() };
                line.age().store(self.passes.load(Relaxed).wrapping_add(1), Relaxed); // The pass that comes now.
                self.combine();
            }
            Outcome::BegunServed(()) => self.combine(),
        }
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        if self.busy.load(Relaxed) != 0 || !self.begin() {
            return false;
        }
        // SAFETY: I1: this thread combines, and nobody has run the section.
        unsafe { section.run() };
        self.combine();
        true
    }

    fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) != 0
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.lines.dispose() };
        // ORDER: the caller's exclusion.
        self.first.store(0, Relaxed);
    }
}
