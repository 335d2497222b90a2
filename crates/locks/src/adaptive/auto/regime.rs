//! Which way [`Auto`](super::Auto) goes about it, and how it finds out which way does best: by trying. Invariants and edges are
//! those of the lock.
//!
//! Holders count releases and look at the clock now and then. The way that was best so far has its period, then another is
//! tried for a sixteenth of that; it stays if it released more often by an eighth, and is undone if not. With every trial the
//! period doubles, up to [`LONGEST`], and it begins anew when the rate changes to its double or half: then so has the load.

use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, Clock, DataCell, Platform};

use crate::adaptive::rate;

/// How waiters line up, and how the lock is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Way {
    /// A queue for each node; the lock goes to the next of the holder's node, for a number of times.
    ByNode = 0,
    /// One queue; the lock goes to the next.
    OneQueue = 1,
    /// The lock is released, for anybody; the first waiter is patient.
    Barging = 2,
}

const WAYS: [Way; 3] = [Way::ByNode, Way::OneQueue, Way::Barging];

impl Way {
    fn of(number: u32) -> Self {
        WAYS[number as usize % WAYS.len()]
    }
}

/// The first period is 2 to the power of this many trials long.
const SHORTEST: u32 = 4;
/// The longest is.
const LONGEST: u32 = 8;
/// What a trial takes at least, in ns.
const TRIAL_NS: u32 = 20_000;

/// What is known of the ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    /// The one that is gone now.
    now: Way,
    /// The best so far.
    best: Way,
    /// The one that is tried next.
    next: Way,
    /// How long the period is: see [`SHORTEST`].
    length: u32,
}

impl Plan {
    fn unpack(bits: u32) -> Self {
        let way = |shift: u32| Way::of(bits >> shift & 3);
        Self { now: way(0), best: way(2), next: way(4), length: (bits >> 6).clamp(SHORTEST, LONGEST) }
    }

    fn pack(self) -> u32 {
        self.now as u32 | (self.best as u32) << 2 | (self.next as u32) << 4 | self.length << 6
    }

    fn is_trial(self) -> bool {
        self.now != self.best
    }

    /// How long the way that is gone now is gone for, in ns.
    fn duration(self) -> u32 {
        let trial = TRIAL_NS << (self.length - SHORTEST);
        if self.is_trial() { trial } else { trial << 4 }
    }

    /// What is done after a period with `rate`, where the best so far had `best`. Also, the rate of what is the best now.
    fn after(self, rate: u32, best: u32, nodes: usize) -> (Self, u32) {
        if !self.is_trial() {
            let changed = rate::is_of_another_load(rate, best);
            let length = if changed { SHORTEST } else { self.length };
            return (Self { now: self.next, length, ..self }, rate);
        }
        let pays = rate::pays(rate, best);
        let winner = if pays { self.now } else { self.best };
        let mut next = Way::of(self.now as u32 + 1);
        // On one node there is but one queue.
        while next == winner || nodes == 1 && next == Way::OneQueue {
            next = Way::of(next as u32 + 1);
        }
        let length = (self.length + 1).min(LONGEST);
        (Self { now: winner, best: winner, next, length }, if pays { rate } else { best })
    }
}

/// The period that has begun. The holder's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    /// When, in ns, modulo 2^32.
    since: u32,
    /// Releases until then, modulo 2^32.
    releases: u32,
    /// Of the best so far: releases in 2^20 ns; 0 = not known.
    rate: u32,
}

/// None yet.
pub(super) const NO_PERIOD: Period = Period { since: 0, releases: 0, rate: 0 };

/// See the module.
pub(super) struct Regime<P: Platform> {
    /// The [`Plan`]. The holder writes it; others take it as a hint.
    plan: P::U32,
}

impl<P: Platform> core::fmt::Debug for Regime<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Regime").field(&self.way()).finish()
    }
}

impl<P: Platform> Regime<P> {
    pub(super) fn new() -> Self {
        Self { plan: P::U32::new(FIRST.pack()) }
    }

    /// Begins anew, for another lock.
    pub(super) fn restart(&self) {
        self.plan.store(FIRST.pack(), Relaxed);
    }

    /// The way that is gone now.
    pub(super) fn way(&self) -> Way {
        Plan::unpack(self.plan.load(Relaxed)).now
    }

    /// Looks at the clock, and goes another way if it is time to. `begun` is the period that has begun; `releases` says how many
    /// there have been, modulo 2^32.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    pub(super) unsafe fn take_stock(
        &self,
        begun: &P::Data<Period>,
        releases: impl FnOnce() -> u32,
        pin: Option<u32>,
    ) {
        if let Some(pin) = pin {
            let way = Way::of(pin - 1);
            return self.go(Plan { now: way, best: way, ..FIRST });
        }
        let plan = Plan::unpack(self.plan.load(Relaxed));
        // SAFETY: the caller's contract, here and below.
        let period = unsafe { begun.get() };
        let now = P::now(Clock::Monotonic) as u32;
        let spent = now.wrapping_sub(period.since);
        if spent < plan.duration() {
            return;
        }
        let releases = releases();
        let begins = Period { since: now, releases, rate: period.rate };
        // A lock that nobody has waited for in between says nothing.
        if spent / 4 > plan.duration() && !plan.is_trial() {
            // SAFETY: as above.
            return unsafe { begun.set(begins) };
        }
        let rate = rate::of(releases.wrapping_sub(period.releases), spent, 20);
        let (plan, rate) = plan.after(rate, period.rate, P::nodes());
        self.go(plan);
        // SAFETY: as above.
        unsafe { begun.set(Period { rate, ..begins }) };
    }

    /// Goes the next way.
    pub(super) fn turn(&self) {
        let now = Way::of(self.way() as u32 + 1);
        self.go(Plan { now, best: now, ..FIRST });
    }

    fn go(&self, plan: Plan) {
        let bits = plan.pack();
        if self.plan.load(Relaxed) != bits {
            self.plan.store(bits, Relaxed); // ORDER: a hint.
        }
    }
}

/// How a lock begins.
const FIRST: Plan = Plan { now: Way::ByNode, best: Way::ByNode, next: Way::Barging, length: SHORTEST };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_packed_and_unpacked() {
        for now in WAYS {
            for length in SHORTEST..=LONGEST {
                let plan = Plan { now, best: Way::OneQueue, next: Way::Barging, length };
                assert_eq!(Plan::unpack(plan.pack()), plan);
            }
        }
        assert_eq!(Plan::unpack(0), Plan { next: Way::ByNode, ..FIRST }, "whatever the bits");
    }

    #[test]
    fn a_trial_that_does_not_pay_is_undone_and_the_next_comes_later() {
        let (trial, rate) = FIRST.after(100, 0, 2);
        assert_eq!((trial.now, trial.best, rate), (Way::Barging, Way::ByNode, 100));
        let (back, rate) = trial.after(112, 100, 2);
        assert_eq!((back.now, back.best, back.next, rate), (Way::ByNode, Way::ByNode, Way::OneQueue, 100));
        assert!(back.duration() > FIRST.duration());
    }

    #[test]
    fn a_trial_that_pays_stays() {
        let (trial, _) = FIRST.after(100, 0, 2);
        let (on, rate) = trial.after(113, 100, 2);
        assert_eq!((on.now, on.best, on.next, rate), (Way::Barging, Way::Barging, Way::ByNode, 113));
    }

    #[test]
    fn on_one_node_there_is_one_queue() {
        let mut plan = FIRST;
        for rate in [100, 50, 100, 200, 200, 50, 200, 400] {
            plan = plan.after(rate, 100, 1).0;
            assert_ne!(plan.now, Way::OneQueue);
            assert!(plan.is_trial() || plan.next != plan.best);
        }
    }

    #[test]
    fn periods_grow_up_to_a_bound_and_begin_anew_when_the_load_changes() {
        let mut plan = FIRST;
        for _ in 0..10 {
            plan = plan.after(100, 100, 2).0;
            plan = plan.after(50, 100, 2).0;
        }
        assert_eq!(plan.length, LONGEST);
        assert_eq!(plan.after(201, 100, 2).0.length, SHORTEST);
        assert_eq!(plan.after(49, 100, 2).0.length, SHORTEST);
        assert_eq!(plan.after(150, 100, 2).0.length, LONGEST);
    }
}
