//! Whether delegation pays, found out by trying: for [`sanl`](super::sanl) on machines of which nobody can tell beforehand.
//!
//! Threads count their sections, each in its own line, and one that reads the clock anyway takes stock now and then. The mode
//! that was best so far has its period, then the other is tried for [`TRIAL_NS`]; it stays if it ran an eighth more sections in
//! a time, and is undone if not. With every trial in vain the period doubles, up to [`LONGEST`]. It begins anew when
//! the other mode has won, so that an error is noticed soon, and when the rate has changed to its double or half: then so has the load.
//!
//! All is a hint: threads may disagree on the mode, and two that take stock at once spoil one trial and nothing else.

use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, Platform, PoolNode};

use crate::adaptive::rate;

/// What a trial takes at least, in ns. Shorter ones see little but the change: threads that wait in the other mode's way are waited for.
const TRIAL_NS: u32 = 1 << 20;
/// The first period is 2 to the power of this many trials long.
const SHORTEST: u32 = 1;
/// The longest is.
const LONGEST: u32 = 6;
/// Sections that tell one rate from another. Where they take long, so do periods and trials.
const ENOUGH: u32 = 64;
/// But no period or trial takes longer than so many times what it should.
const TIMES: u32 = 16;

/// What is known of the two modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    /// Whether the best so far is to delegate.
    delegates: bool,
    /// Whether the other is tried now.
    is_trial: bool,
    /// How long the period is: see [`SHORTEST`].
    length: u32,
}

impl Plan {
    fn unpack(bits: u32) -> Self {
        let length = (bits >> 2).clamp(SHORTEST, LONGEST);
        Self { delegates: bits & 1 != 0, is_trial: bits & 2 != 0, length }
    }

    fn pack(self) -> u32 {
        u32::from(self.delegates) | u32::from(self.is_trial) << 1 | self.length << 2
    }

    /// How long it is gone on as now, in ns.
    fn duration(self) -> u32 {
        if self.is_trial { TRIAL_NS } else { TRIAL_NS << self.length }
    }

    /// What is done after a period or trial with `rate`, where the best so far had `best`. Also, the rate of what is the best now.
    fn after(self, rate: u32, best: u32) -> (Self, u32) {
        if !self.is_trial {
            let length = if rate::is_of_another_load(rate, best) { SHORTEST } else { self.length };
            return (Self { is_trial: true, length, ..self }, rate);
        }
        if rate::pays(rate, best) {
            return (Self { delegates: !self.delegates, is_trial: false, length: SHORTEST }, rate);
        }
        (Self { is_trial: false, length: (self.length + 1).min(LONGEST), ..self }, best)
    }
}

/// See the module. Begins with a period in place.
pub(super) struct Trials<P: Platform> {
    /// The [`Plan`].
    plan: P::U32,
    /// When the period or trial began, in ns, modulo 2^32. The thread that changes it takes stock.
    since: P::U32,
    /// Sections until then, modulo 2^32.
    sections: P::U32,
    /// Of the best so far: sections in 2^26 ns; 0 = not known.
    rate: P::U32,
}

impl<P: Platform> PoolNode<P> for Trials<P> {
    fn new() -> Self {
        let zero = || P::U32::new(0);
        Self { plan: zero(), since: zero(), sections: zero(), rate: zero() }
    }
}

impl<P: Platform> Trials<P> {
    /// Whether sections are delegated now.
    #[inline(always)]
    pub(super) fn delegates(&self) -> bool {
        let plan = Plan::unpack(self.plan.load(Relaxed));
        plan.delegates != plan.is_trial
    }

    /// Goes on with the plan if it is time to, `now`. `sections`: how many there have been, modulo 2^32.
    pub(super) fn take_stock(&self, now: u64, sections: impl FnOnce() -> u32) {
        let plan = Plan::unpack(self.plan.load(Relaxed));
        let (since, now) = (self.since.load(Relaxed), now as u32);
        let spent = now.wrapping_sub(since);
        if spent < plan.duration() {
            return;
        }
        let sections = sections();
        let run = sections.wrapping_sub(self.sections.load(Relaxed));
        if run < ENOUGH && spent / TIMES < plan.duration() {
            return;
        }
        // ORDER: hints, here and below.
        if self.since.compare_exchange(since, now, Relaxed, Relaxed).is_err() {
            return;
        }
        self.sections.store(sections, Relaxed);
        // A delegate that nobody has waited for in between says nothing.
        if spent / 4 > plan.duration() && !plan.is_trial && run >= ENOUGH {
            return;
        }
        let (plan, rate) = plan.after(rate::of(run, spent, 26), self.rate.load(Relaxed));
        self.rate.store(rate, Relaxed);
        self.plan.store(plan.pack(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Native;

    use super::*;

    const FIRST: Plan = Plan { delegates: false, is_trial: false, length: SHORTEST };

    /// Trials of which one is to be taken stock of at agreed times: at a fixed number of sections in a microsecond, by mode.
    struct Course {
        trials: Trials<Native>,
        now: u64,
        sections: u32,
    }

    impl Course {
        fn new() -> Self {
            let trials = <Trials<Native> as PoolNode<Native>>::new();
            // The first stock-taking finds that nobody has waited since the clock was at 0.
            let now = 1_u64 << 30;
            trials.take_stock(now, || ENOUGH);
            Self { trials, now, sections: ENOUGH }
        }

        /// Lets `us` pass; the share of them that was delegated.
        fn pass(&mut self, us: u32, in_place: u32, delegated: u32) -> f64 {
            let mut share = 0;
            for _ in 0..us {
                let delegates = self.trials.delegates();
                share += u32::from(delegates);
                self.sections = self.sections.wrapping_add(if delegates { delegated } else { in_place });
                self.now += 1_000;
                let sections = self.sections;
                self.trials.take_stock(self.now, || sections);
            }
            f64::from(share) / f64::from(us)
        }
    }

    #[test]
    fn plans_are_packed_and_unpacked() {
        for length in SHORTEST..=LONGEST {
            for (delegates, is_trial) in [(false, false), (false, true), (true, false), (true, true)] {
                let plan = Plan { delegates, is_trial, length };
                assert_eq!(Plan::unpack(plan.pack()), plan);
            }
        }
        assert_eq!(Plan::unpack(0), FIRST, "whatever the bits");
    }

    #[test]
    fn a_trial_that_does_not_pay_is_undone_and_the_next_comes_later() {
        let (trial, rate) = FIRST.after(100, 0);
        assert_eq!((trial, rate), (Plan { is_trial: true, ..FIRST }, 100));
        assert_eq!(trial.after(112, 100), (Plan { length: SHORTEST + 1, ..FIRST }, 100));
    }

    #[test]
    fn a_trial_that_pays_stays_and_is_looked_into_soon() {
        let trial = Plan { is_trial: true, length: LONGEST, ..FIRST };
        assert_eq!(trial.after(113, 100), (Plan { delegates: true, ..FIRST }, 113));
    }

    #[test]
    fn trials_come_sooner_when_the_load_changes() {
        let seldom = Plan { length: LONGEST, ..FIRST };
        assert_eq!(seldom.after(150, 100).0.length, LONGEST);
        assert_eq!(seldom.after(201, 100).0.length, SHORTEST);
        assert_eq!(seldom.after(49, 100).0.length, SHORTEST);
    }

    #[test]
    fn the_better_mode_is_found_soon_and_trials_cost_little() {
        let mut course = Course::new();
        assert!(!course.trials.delegates(), "it begins in place");
        course.pass(5_000, 1, 2);
        assert!(course.pass(200_000, 1, 2) > 0.95, "delegation pays");
        assert!(course.pass(400_000, 1, 2) > 0.98);
        course.pass(150_000, 2, 1);
        assert!(course.pass(400_000, 2, 1) < 0.02, "and does not pay any more");
    }

    #[test]
    fn modes_that_do_the_same_are_not_changed() {
        let mut course = Course::new();
        course.pass(200_000, 3, 3);
        assert!(course.pass(400_000, 3, 3) < 0.02);
    }

    #[test]
    fn sections_that_take_long_are_waited_for() {
        let course = Course::new();
        let after = |ms: u64, sections: u32| {
            course.trials.take_stock(course.now + ms * 1_000_000, || ENOUGH + sections);
            course.trials.delegates()
        };
        assert!(!after(3, ENOUGH - 1), "too few to tell");
        assert!(after(5, ENOUGH), "now the other mode is tried");
    }
}
