//! What a servicing thread says of itself, for the thread that is to take its place, and for requesters that want their requests
//! back. It costs the servicing thread plain stores to a line of its own; whoever asks pays.
//!
//! # Where the thread is
//!
//! | `at`               | meaning                                                                                  |
//! |--------------------|------------------------------------------------------------------------------------------|
//! | `AWAY`             | it may look over the lines, but does nothing to them, and has no request in its hands    |
//! | `LOOKS`            | it has found a request, and is about to run it, or to leave it                           |
//! | a line, `RUNS`     | it runs that line's section                                                              |
//! | a line, `HAS_RUN`  | it has, and may not have answered yet; without a line: it will answer what `unanswered` says |
//!
//! A line stands there with the number of its request. Invariants V1 to V5 and edges are those of [`served`](super).

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Clock, Deadline, FutexCell, NODE_BYTES, Native, Platform, PoolNode};

use super::super::lines::{LINES, Line};
use crate::wait::Patience;

const AWAY: usize = 0;
const LOOKS: usize = 1;
const RUNS: usize = 2;
const HAS_RUN: usize = 3;
/// Of `at`: which of them it is. Lines are aligned to more.
const WHAT: usize = 3;
/// Of `at`, from here on: the lowest bits of the request's number. The rest is the line's address.
const NUMBER_SHIFT: u32 = 48;

/// What a servicing thread says of itself.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Service<P: Platform> {
    at: P::Usize,
    /// The first of the lines that are answered together.
    page: P::Usize,
    /// Which of these have been run, and not answered.
    unanswered: P::U32,
    /// Nobody changes it: to sleep at for some time.
    nap: P::Futex,
    /// The numbers of these requests.
    numbers: [P::U32; LINES],
}

const _: () = assert!(size_of::<Service<Native>>() <= NODE_BYTES);

impl<P: Platform> PoolNode<P> for Service<P> {
    fn new() -> Self {
        Self {
            at: P::Usize::new(AWAY),
            page: P::Usize::new(0),
            unanswered: P::U32::new(0),
            nap: P::Futex::new(0),
            numbers: core::array::from_fn(|_| P::U32::new(0)),
        }
    }
}

/// The line of `at`, as an address, or 0.
fn line_of(at: usize) -> usize {
    (at & !WHAT) << (usize::BITS - NUMBER_SHIFT) >> (usize::BITS - NUMBER_SHIFT)
}

/// What `at` says of a line and its request.
#[inline(always)]
fn place<P: Platform>(line: &Line<P>, what: usize) -> usize {
    let number = (line.number() / 2) as usize;
    ptr::from_ref(line).expose_provenance() | number << NUMBER_SHIFT | what
}

/// By the servicing thread.
impl<P: Platform> Service<P> {
    /// Says that it is about to look at a request. Whether it still may: that is asked behind a barrier (V1).
    #[inline(always)]
    pub(super) fn looks(&self, may: impl FnOnce() -> bool) -> bool {
        self.at.store(LOOKS, Relaxed); // ORDER: the barrier.
        P::light_barrier(); // ORDER: V1.
        may()
    }

    /// Does nothing to lines for now. What has not been answered is still in its hands.
    #[inline(always)]
    pub(super) fn rests(&self) {
        let is_done = self.unanswered.load(Relaxed) == 0;
        self.at.store(if is_done { AWAY } else { HAS_RUN }, Release); // ORDER: E3.
    }

    /// Is about to run a line's section.
    #[inline(always)]
    pub(super) fn runs(&self, line: &Line<P>) {
        self.at.store(place(line, RUNS), Release); // ORDER: E3.
    }

    /// Has run it.
    #[inline(always)]
    pub(super) fn has_run(&self, line: &Line<P>) {
        self.at.store(place(line, HAS_RUN), Release); // ORDER: E3.
    }

    /// Will answer one of these lines, which has been run, together with others.
    #[inline(always)]
    pub(super) fn answers_later(&self, lines: &[Line<P>; LINES], index: usize) {
        self.numbers[index].store(lines[index].number(), Relaxed); // ORDER: E3, by what follows.
        self.page.store(lines.as_ptr().expose_provenance(), Relaxed); // ORDER: as above.
        self.unanswered.store(self.unanswered.load(Relaxed) | 1 << index, Release); // ORDER: E3.
    }

    /// Answers what it has not answered of these lines. Whether there was anything.
    #[inline(always)]
    pub(super) fn answers(&self, lines: &[Line<P>; LINES]) -> bool {
        let mut left = self.unanswered.load(Relaxed);
        if left == 0 {
            return false;
        }
        while left != 0 {
            let line = &lines[left.trailing_zeros() as usize];
            if line.answer() {
                line.wake();
            }
            left &= left - 1;
        }
        self.unanswered.store(0, Release); // ORDER: E3.
        true
    }
}

/// By others, one at a time, each after a heavy barrier: the thread sees what they have changed before, or they see that it looks.
impl<P: Platform> Service<P> {
    /// Waits until the thread, which has lost its turn, looks at no request, as long as `goes_on` says so. What it runs by then is
    /// marked (V3). Whether that is so.
    pub(super) fn is_relieved(&self, goes_on: impl Fn() -> bool) -> bool {
        let mut moments = Moments::new::<P>();
        while goes_on() {
            let at = self.at.load(Acquire); // ORDER: E3.
            match at & WHAT {
                AWAY => return true,
                RUNS if self.is_marked(at) => return true,
                _ => moments.pass(self),
            }
        }
        false
    }

    /// Marks what the thread runs, and what it has not answered, by the numbers of the requests. Whether it still ran the section at `at`
    /// when these had been read.
    fn is_marked(&self, at: usize) -> bool {
        // SAFETY: L3; a line, by `runs`.
        let line = |address| unsafe { &*ptr::with_exposed_provenance::<Line<P>>(address) };
        let runs = line(line_of(at));
        let number = runs.number_of_another();
        let unanswered = self.unanswered.load(Acquire); // ORDER: E3.
        let (page, numbers) =
            (self.page.load(Relaxed), self.numbers.each_ref().map(|number| number.load(Relaxed)));
        if self.at.load(Relaxed) != at {
            return false;
        }
        // If the thread has gone on since, these are numbers of requests that have been answered, which say nothing.
        runs.taken.store(number, Relaxed); // ORDER: the gate, for the next that has the turn.
        // There is a page where there is something unanswered (E3); models with a weaker order would come to the line at 0.
        let is_unanswered = |index: usize| page != 0 && unanswered & 1 << index != 0;
        for (index, number) in numbers.into_iter().enumerate().filter(|(index, _)| is_unanswered(*index)) {
            line(page + index * size_of::<Line<P>>()).taken.store(number, Relaxed); // ORDER: as above.
        }
        true
    }

    /// Whether the thread runs, or has run, the request at `line`, whose owner wants it back. Waits while the thread may have
    /// looked there before (V4).
    pub(super) fn has_begun(&self, line: &Line<P>) -> bool {
        let mut moments = Moments::new::<P>();
        let at = loop {
            let seen = self.at.load(Acquire); // ORDER: E3.
            if seen & WHAT != LOOKS {
                break seen;
            }
            moments.pass(self);
        };
        at & !WHAT == place(line, 0) || self.has_in_hand(line)
    }

    /// Whether the request has been run, and is to be answered together with others.
    fn has_in_hand(&self, line: &Line<P>) -> bool {
        let unanswered = self.unanswered.load(Acquire); // ORDER: E3.
        let offset = ptr::from_ref(line).addr().wrapping_sub(self.page.load(Relaxed));
        let index = offset / size_of::<Line<P>>();
        index < LINES && unanswered & 1 << index != 0 && self.numbers[index].load(Relaxed) == line.number()
    }

    /// In a child after `fork`, of a thread that is gone: what it had done with the request at `line`. `None`: nothing. Whether it had
    /// run it.
    pub(super) fn had_run(&self, line: &Line<P>) -> Option<bool> {
        let at = self.at.load(Relaxed); // ORDER: one thread.
        let is_here = at & !WHAT == place(line, 0);
        match at & WHAT {
            RUNS if is_here => Some(false),
            HAS_RUN if is_here => Some(true),
            _ => self.has_in_hand(line).then_some(true),
        }
    }

    /// In a child after `fork`, of a thread that is gone, or that is the one that forked, in a section: nobody is to wait for it.
    pub(super) fn is_gone(&self) {
        self.at.store(AWAY, Relaxed); // ORDER: one thread, here and below.
        self.unanswered.store(0, Relaxed);
    }
}

/// For a thread that waits until another has done its next steps, which are few. That one may have lost its CPU, even to this thread.
struct Moments {
    patience: Patience,
    passed: u32,
}

impl Moments {
    /// Moments after which it sleeps for each.
    const MANY: u32 = 10_000;
    const NAP_NS: u64 = 100_000;

    fn new<P: Platform>() -> Self {
        Self { patience: Patience::brief::<P>(), passed: 0 }
    }

    fn pass<P: Platform>(&mut self, service: &Service<P>) {
        if self.passed < Self::MANY {
            self.passed += 1;
            self.patience.pause::<P>();
            return;
        }
        let deadline = Deadline::after(Clock::Monotonic, P::now(Clock::Monotonic), Self::NAP_NS);
        let _ = service.nap.wait(0, Some(deadline));
    }
}
