//! Which way [`Auto`](super::Auto) goes about it, and how it finds out which way does best: by trying. Invariants and edges are
//! those of the lock.
//!
//! Holders count releases and look at the clock now and then. The way that was best so far has its period, then another is
//! tried for a short time; it stays if it released more often by an eighth, and is undone if not. With every trial the
//! period doubles, up to the longest, and it begins anew when the rate changes to its double or half: then so has the load. (Where
//! trials do harm, see below, it is longer, halves with each that does none, and is not begun anew.)
//!
//! How many releases there are before another leader has the lock, where each node has its queue, says something about one queue for all. If
//! it is hardly more than one, that is seen before anything is tried, and one queue is the best until another way has shown to be
//! better. If it is many, one queue is not tried at all, and the other way later.
//!
//! A trial may do harm beyond its time: where all threads were awake, they may sleep and wake each other from then on. If the rate
//! is much lower after a trial than before it, the next ones come much later.
//!
//! Where threads outnumber the CPUs of several nodes the lock goes by node and nothing is tried: a trial is much shorter than a time
//! slice, and so does not show what becomes of a way when its waiters lose their CPUs.

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

/// What a trial takes at least, in ns.
const TRIAL_NS: u32 = 20_000;
/// A period takes 2 to the power of this many of those, at first.
const SHORTEST: u32 = 4;
/// The first one where turns are long.
const CALM: u32 = 6;
/// At most.
const LONGEST: u32 = 8;
/// At most where trials do harm.
const HARMED: u32 = 14;
/// How often a node looks whether a period is over, in ns: when it began is in a line that leaders write, and would have to come.
pub(super) const LOOK_EVERY_NS: u32 = TRIAL_NS << LOOK;
/// What comes before the first period, to see how long turns are.
const LOOK: u32 = 2;

/// How many releases there are in a turn: until another leader has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turns {
    /// Hardly more than one.
    OfOne,
    Short,
    Long,
}

impl Turns {
    fn of(turns: u32, releases: u32) -> Self {
        /// Fewer than these say nothing.
        const ENOUGH: u32 = 16;
        /// Releases of a long turn.
        const MANY: u32 = 32;
        if turns >= ENOUGH && releases - releases / 3 < turns {
            Self::OfOne
        } else if releases / MANY < turns {
            Self::Short
        } else {
            Self::Long
        }
    }
}

/// What is known of the ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    /// The one that is gone now.
    now: Way,
    /// The best so far.
    best: Way,
    /// The one that is tried next.
    next: Way,
    /// How long the period is: see [`SHORTEST`]; or [`LOOK`].
    length: u32,
    /// Whether the last trial was undone.
    undone: bool,
}

impl Plan {
    fn unpack(bits: u32) -> Self {
        let way = |shift: u32| Way::of(bits >> shift & 3);
        let length = (bits >> 6 & 31).clamp(LOOK, HARMED);
        Self { now: way(0), best: way(2), next: way(4), length, undone: bits >> 11 & 1 != 0 }
    }

    fn pack(self) -> u32 {
        let ways = self.now as u32 | (self.best as u32) << 2 | (self.next as u32) << 4;
        ways | self.length << 6 | u32::from(self.undone) << 11
    }

    fn is_trial(self) -> bool {
        self.now != self.best
    }

    /// Whether a way is gone that is left at once where threads outnumber the CPUs of several nodes.
    fn is_not_for_a_crowd(self) -> bool {
        self.now != Way::ByNode
    }

    /// How long the way that is gone now is gone for, in ns. The longer a period, the smaller the share of it that a trial takes.
    fn duration(self) -> u32 {
        if self.is_trial() {
            TRIAL_NS << ((self.length.clamp(SHORTEST, LONGEST) - SHORTEST) / 2)
        } else {
            TRIAL_NS << self.length
        }
    }

    /// What is done after a period with `rate`, where the best so far had `best`, and with such turns. Also, the rate of what is the
    /// best now; 0 = not known.
    fn after(self, rate: u32, best: u32, turns: Turns, nodes: usize) -> (Self, u32) {
        /// By how much a harmed rate is lower.
        const HARM: u32 = 8;
        if self.length == LOOK {
            return (Self::after_look(turns, nodes), 0);
        }
        if !self.is_trial() {
            if self.undone && rate < best / HARM {
                let length = (self.length.max(LONGEST) + 4).min(HARMED);
                return (Self { length, undone: false, ..self }, best);
            }
            let changed = self.length <= LONGEST && rate::is_of_another_load(rate, best);
            let length = if changed { SHORTEST } else { self.length };
            let worse = self.now == Way::ByNode && self.next == Way::OneQueue && turns == Turns::Long;
            let now = if worse { Way::Barging } else { self.next };
            return (Self { now, length, ..self }, rate);
        }
        let pays = rate::pays(rate, best);
        let winner = if pays { self.now } else { self.best };
        let mut next = Way::of(self.now as u32 + 1);
        // On one node there is but one queue.
        while next == winner || nodes == 1 && next == Way::OneQueue {
            next = Way::of(next as u32 + 1);
        }
        let length = if self.length > LONGEST { self.length - 1 } else { (self.length + 1).min(LONGEST) };
        (Self { now: winner, best: winner, next, length, undone: !pays }, if pays { rate } else { best })
    }

    fn after_look(turns: Turns, nodes: usize) -> Self {
        let (best, next, length) = match turns {
            _ if nodes == 1 => (Way::ByNode, Way::Barging, SHORTEST),
            Turns::OfOne => (Way::OneQueue, Way::Barging, SHORTEST),
            Turns::Short => (Way::ByNode, Way::OneQueue, SHORTEST),
            Turns::Long => (Way::ByNode, Way::Barging, CALM),
        };
        Self { now: best, best, next, length, undone: false }
    }
}

/// The period that has begun. The holder's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    /// When, in ns, modulo 2^32.
    since: u32,
    /// Releases until then, modulo 2^32.
    releases: u32,
    /// Turns until then, modulo 2^32.
    turns: u32,
    /// Of the best so far: releases in 2^20 ns; 0 = not known.
    rate: u32,
}

/// None yet.
pub(super) const NO_PERIOD: Period = Period { since: 0, releases: 0, turns: 0, rate: 0 };

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

    /// Whether it is worthwhile to take stock before [`LOOK_EVERY_NS`] are over, at the beginning of a node's turn.
    pub(super) fn is_due(&self, crowded: bool, pin: Option<u32>) -> bool {
        let plan = Plan::unpack(self.plan.load(Relaxed));
        plan.is_trial() || crowded && plan.is_not_for_a_crowd() || pin.is_some()
    }

    /// Whether a holder that took the word directly is to take stock, at the release of that number. Without that a trial in which all
    /// take it directly would not end, nor barging for a load that it is no longer right for. Elsewhere a way means nothing while nobody
    /// lines up.
    pub(super) fn is_due_directly(&self, release: u32) -> bool {
        const LOOK_EVERY: u32 = 16;
        /// Where it is no trial.
        const LOOK_AGAIN: u32 = 8 * LOOK_EVERY;
        if !release.is_multiple_of(LOOK_EVERY) {
            return false;
        }
        let plan = Plan::unpack(self.plan.load(Relaxed));
        plan.is_trial() || plan.now == Way::Barging && release.is_multiple_of(LOOK_AGAIN)
    }

    /// The way that is gone now.
    pub(super) fn way(&self) -> Way {
        Plan::unpack(self.plan.load(Relaxed)).now
    }

    /// Looks at the clock, and goes another way if it is time to. `begun` is the period that has begun; `counts` says how many releases
    /// there have been, and how many turns, both modulo 2^32. Whether threads `waited` all the time since this
    /// was last called is known or not, and so is whether there is a crowd: more threads than CPUs of several nodes.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    pub(super) unsafe fn take_stock(
        &self,
        begun: &P::Data<Period>,
        counts: impl FnOnce() -> (u32, u32),
        waited: bool,
        crowded: bool,
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
        let is_fresh = period.since == NO_PERIOD.since;
        let is_over = spent >= plan.duration() || crowded && plan.is_not_for_a_crowd();
        if !is_over && !is_fresh {
            return;
        }
        let (releases, turns) = counts();
        let begins = Period { since: now, releases, turns, rate: period.rate };
        // A lock that nobody has waited for in between says nothing.
        let was_idle = !waited && !plan.is_trial() && spent / 4 > plan.duration();
        if is_fresh || was_idle && !crowded {
            // SAFETY: as above.
            return unsafe { begun.set(begins) };
        }
        let released = releases.wrapping_sub(period.releases);
        let (plan, rate) = if crowded {
            (CROWDED, 0)
        } else {
            let turns = Turns::of(turns.wrapping_sub(period.turns), released);
            plan.after(rate::of(released, spent, 20), period.rate, turns, P::domains())
        };
        self.go(plan);
        // SAFETY: as above.
        unsafe { begun.set(Period { rate, ..begins }) };
    }

    /// Goes the next way, and touches what [`Regime::take_stock`] does.
    ///
    /// # Safety
    ///
    /// As there.
    pub(super) unsafe fn turn(&self, begun: &P::Data<Period>, counts: impl FnOnce() -> (u32, u32)) {
        let (releases, turns) = counts();
        // SAFETY: the caller's contract, here and below.
        let period = unsafe { begun.get() };
        // SAFETY: as above.
        unsafe { begun.set(Period { releases, turns, ..period }) };
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
const FIRST: Plan =
    Plan { now: Way::ByNode, best: Way::ByNode, next: Way::Barging, length: LOOK, undone: false };

/// How it goes on where threads outnumber the CPUs of several nodes.
const CROWDED: Plan = Plan { length: SHORTEST, ..FIRST };

#[cfg(test)]
mod tests {
    use super::*;

    /// After the look.
    const PLAN: Plan = Plan { length: SHORTEST, ..FIRST };

    #[test]
    fn plans_are_packed_and_unpacked() {
        for now in WAYS {
            for length in LOOK..=HARMED {
                for undone in [false, true] {
                    let plan = Plan { now, best: Way::OneQueue, next: Way::Barging, length, undone };
                    assert_eq!(Plan::unpack(plan.pack()), plan);
                }
            }
        }
        assert_eq!(Plan::unpack(0), Plan { next: Way::ByNode, ..FIRST }, "whatever the bits");
        assert!(Plan { best: Way::Barging, ..Plan::unpack(0) }.duration() > 0, "whatever the bits");
    }

    #[test]
    fn turns_are_told_by_enough_of_them() {
        assert_eq!(Turns::of(15, 15), Turns::Short);
        assert_eq!(Turns::of(16, 16), Turns::OfOne);
        assert_eq!(Turns::of(100, 145), Turns::OfOne);
        assert_eq!(Turns::of(100, 150), Turns::Short);
        assert_eq!(Turns::of(100, 3_199), Turns::Short);
        assert_eq!(Turns::of(100, 3_300), Turns::Long);
        assert_eq!(Turns::of(0, 0), Turns::Long);
        assert_eq!(Turns::of(u32::MAX, u32::MAX), Turns::OfOne);
    }

    #[test]
    fn the_first_look_says_where_to_begin() {
        let begins = |turns, nodes| {
            let (plan, rate) = FIRST.after(100, 0, turns, nodes);
            assert_eq!((rate, plan.now), (0, plan.best));
            (plan.best, plan.next, plan.length)
        };
        assert_eq!(begins(Turns::OfOne, 2), (Way::OneQueue, Way::Barging, SHORTEST));
        assert_eq!(begins(Turns::Short, 2), (Way::ByNode, Way::OneQueue, SHORTEST));
        assert_eq!(begins(Turns::Long, 2), (Way::ByNode, Way::Barging, CALM));
        assert_eq!(begins(Turns::OfOne, 1), (Way::ByNode, Way::Barging, SHORTEST));
    }

    #[test]
    fn a_trial_that_does_not_pay_is_undone_and_the_next_comes_later() {
        let (trial, rate) = PLAN.after(100, 0, Turns::Short, 2);
        assert_eq!((trial.now, trial.best, rate), (Way::Barging, Way::ByNode, 100));
        let (back, rate) = trial.after(112, 100, Turns::Short, 2);
        assert_eq!((back.now, back.best, back.next, rate), (Way::ByNode, Way::ByNode, Way::OneQueue, 100));
        assert!(back.duration() > PLAN.duration());
        assert!(trial.duration() * 16 <= PLAN.duration());
    }

    #[test]
    fn where_trials_do_harm_the_next_ones_come_much_later() {
        let trial = PLAN.after(2_000, 0, Turns::Short, 2).0;
        let (mut plan, mut rate) = trial.after(50, 2_000, Turns::Short, 2);
        for length in [12, 14, 14] {
            // Asleep, and awake again.
            (plan, rate) = plan.after(60, rate, Turns::Short, 2);
            assert_eq!((plan.now, plan.length, rate), (Way::ByNode, length, 2_000), "not tried at once");
            (plan, rate) = plan.after(2_000, rate, Turns::Short, 2);
            assert!(plan.is_trial() && plan.duration() * 16 < TRIAL_NS << length);
            (plan, rate) = plan.after(50, rate, Turns::Short, 2);
            assert_eq!(plan.length, length - 1);
        }
        // No harm any more.
        for length in (8..=12).rev().chain([8]) {
            plan = plan.after(2_000, rate, Turns::Short, 2).0;
            plan = plan.after(50, rate, Turns::Short, 2).0;
            assert_eq!(plan.length, length);
        }
    }

    #[test]
    fn a_trial_that_pays_stays() {
        let (trial, _) = PLAN.after(100, 0, Turns::Short, 2);
        let (on, rate) = trial.after(113, 100, Turns::Short, 2);
        assert_eq!((on.now, on.best, on.next, rate), (Way::Barging, Way::Barging, Way::ByNode, 113));
    }

    #[test]
    fn one_queue_is_not_tried_where_turns_are_long() {
        let plan = Plan { next: Way::OneQueue, ..PLAN };
        assert_eq!(plan.after(100, 100, Turns::Short, 2).0.now, Way::OneQueue);
        assert_eq!(plan.after(100, 100, Turns::Long, 2).0.now, Way::Barging);
    }

    #[test]
    fn on_one_node_there_is_one_queue() {
        let mut plan = FIRST;
        for rate in [100, 100, 50, 100, 200, 200, 50, 200, 400] {
            plan = plan.after(rate, 100, Turns::OfOne, 1).0;
            assert_ne!(plan.now, Way::OneQueue);
            assert!(plan.is_trial() || plan.next != plan.best);
        }
    }

    #[test]
    fn periods_grow_up_to_a_bound_and_begin_anew_when_the_load_changes() {
        let mut plan = PLAN;
        for _ in 0..10 {
            plan = plan.after(100, 100, Turns::Short, 2).0;
            plan = plan.after(50, 100, Turns::Short, 2).0;
        }
        assert_eq!(plan.length, LONGEST);
        assert_eq!(plan.after(201, 100, Turns::Short, 2).0.length, SHORTEST);
        assert_eq!(plan.after(49, 100, Turns::Short, 2).0.length, SHORTEST);
        assert_eq!(plan.after(150, 100, Turns::Short, 2).0.length, LONGEST);
    }
}
