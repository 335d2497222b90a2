//! Which lock suits which of a program's hot locks: successive halving over sites × locks, then a confirmation in fresh rounds.
//!
//! Sequential halving (Karnin, Koren, Somekh: Almost Optimal Exploration in Multi-Armed Bandits, ICML 2013, algorithm 1): the
//! time for the search is shared out evenly among rungs; in each, everything that is still in is measured equally often, and
//! the worse half goes. Here the halves are of the candidates of one site, so that a site with little to gain is not lost
//! behind one with much. Rounds of all rungs count: an arm's figure is the median of its ratios to the untouched program within
//! rounds, which all arms and the untouched program share, in an order shuffled anew for each round.
//!
//! The best of many arms has been lucky, too. So its figure from the search is not believed: it and the untouched program run
//! again in rounds of their own, and only those make the verdict ([`judge`]).
//!
//! The search knows no processes and no clock: a [`Lab`] runs arms and says how much time has gone.

use lockwork_stats::{Comparison, Finding, MIN_PAIRS, compare, median};

/// What is measured: for each site that is changed its candidate, both as places. Empty: the untouched program.
pub(crate) type Arm = Vec<(usize, usize)>;

/// What one run gave.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    /// A value for each metric.
    Values(Vec<f64>),
    /// It hung, crashed or printed no figure: why, in words.
    Failed(String),
    /// Ctrl-C ended it.
    Interrupted,
}

/// Runs arms.
pub(crate) trait Lab {
    /// One run at a thread count, given by its place.
    fn run(&mut self, arm: &Arm, threads: usize) -> Seen;
    /// Seconds since the beginning.
    fn elapsed(&self) -> f64;
    /// Whether the user wants to stop.
    fn interrupted(&self) -> bool;
    /// Told before each stage.
    fn stage(&mut self, what: &str);
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How many thread counts there are.
    pub(crate) threads: usize,
    /// For each metric whether more of it is better; the first decides, the others may not get worse.
    pub(crate) higher_is_better: Vec<bool>,
    /// For each site the number of its candidates, the hottest site first.
    pub(crate) candidates: Vec<usize>,
    /// Seconds for everything, counted as [`Lab::elapsed`] does.
    pub(crate) budget: f64,
    /// Rounds of the confirmation.
    pub(crate) rounds: u32,
    /// A gain below this share is not worth a policy: 0.02 is 2%.
    pub(crate) least_gain: f64,
    pub(crate) seed: u64,
}

/// What became of an arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Never begun: the budget is too small for so many.
    NotTried,
    /// Still in when the search ended.
    In,
    /// A run of it failed: why, in words.
    Failed(String),
    /// Its interval lies below 1.
    Slower,
    /// Others of its site were better in that rung, counted from 1.
    Beaten(usize),
    /// The best: it went into the confirmation.
    Best,
}

/// An arm and what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) arm: Arm,
    pub(crate) fate: Fate,
    /// By thread count, by metric: (round, value).
    series: Vec<Vec<Vec<(u32, f64)>>>,
}

impl Trial {
    fn new(arm: Arm, settings: &Settings) -> Self {
        let series = vec![vec![Vec::new(); settings.higher_is_better.len()]; settings.threads];
        Trial { arm, fate: Fate::In, series }
    }

    /// The values of a metric over all thread counts: of each round that has all of them their geometric mean.
    fn over_all(&self, metric: usize) -> Vec<(u32, f64)> {
        let (first, others) = match self.series.split_first() {
            Some((first, others)) => (&first[metric], others),
            None => return Vec::new(),
        };
        let in_round =
            |series: &[(u32, f64)], round| series.iter().find(|(r, _)| *r == round).map(|(_, v)| *v);
        let all = |&(round, value): &(u32, f64)| {
            let rest: Option<Vec<f64>> =
                others.iter().map(|series| in_round(&series[metric], round)).collect();
            let product: f64 = rest?.iter().product::<f64>() * value;
            Some((round, product.powf(1.0 / (others.len() + 1) as f64)))
        };
        first.iter().filter_map(all).collect()
    }
}

/// Arms and the untouched program, measured in the same rounds.
#[derive(Debug)]
pub(crate) struct Ledger {
    untouched: Trial,
    pub(crate) trials: Vec<Trial>,
    rounds: u32,
    /// Rounds in which the untouched program failed.
    failures: u32,
    settings: Settings,
    order: fastrand::Rng,
}

/// Why measuring ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    Interrupted,
    /// The untouched program fails, and why.
    Hopeless(String),
}

/// So many rounds may pass in which the untouched program fails.
const FORGIVEN: u32 = 1;

impl Ledger {
    fn new(arms: impl IntoIterator<Item = Arm>, settings: &Settings, stream: u64) -> Self {
        Ledger {
            untouched: Trial::new(Arm::new(), settings),
            trials: arms.into_iter().map(|arm| Trial::new(arm, settings)).collect(),
            rounds: 0,
            failures: 0,
            settings: settings.clone(),
            order: fastrand::Rng::with_seed(settings.seed.wrapping_add(stream)),
        }
    }

    /// Places of the arms that are still in.
    fn alive(&self) -> Vec<usize> {
        (0..self.trials.len()).filter(|&place| self.trials[place].fate == Fate::In).collect()
    }

    /// Runs the untouched program and these arms once at each thread count.
    fn round(&mut self, lab: &mut impl Lab, arms: &[usize]) -> Result<(), Stop> {
        let threads = 0..self.settings.threads;
        let whom = arms.iter().copied().map(Some).chain([None]);
        let mut cells: Vec<(Option<usize>, usize)> =
            whom.flat_map(|arm| threads.clone().map(move |threads| (arm, threads))).collect();
        self.order.shuffle(&mut cells);
        let mut failed = None;
        for (place, threads) in cells {
            if lab.interrupted() {
                return Err(Stop::Interrupted);
            }
            let trial = match place {
                Some(place) => &mut self.trials[place],
                None => &mut self.untouched,
            };
            if matches!(trial.fate, Fate::Failed(_)) {
                continue;
            }
            match lab.run(&trial.arm, threads) {
                Seen::Values(values) => {
                    for (series, value) in trial.series[threads].iter_mut().zip(values) {
                        series.push((self.rounds, value));
                    }
                }
                Seen::Interrupted => return Err(Stop::Interrupted),
                Seen::Failed(why) if place.is_some() => trial.fate = Fate::Failed(why),
                Seen::Failed(why) => failed = Some(why),
            }
        }
        self.rounds += 1;
        if let Some(why) = failed {
            self.failures += 1;
            if self.failures > FORGIVEN || self.rounds == 1 {
                return Err(Stop::Hopeless(why));
            }
        }
        Ok(())
    }

    /// By how much an arm is better than the untouched program over all thread counts: a ratio, above 1 if it is better.
    pub(crate) fn gain(&self, place: usize, metric: usize) -> Comparison {
        self.oriented(self.trials[place].over_all(metric), self.untouched.over_all(metric), metric)
    }

    /// The same at one thread count.
    pub(crate) fn gain_at(&self, place: usize, threads: usize, metric: usize) -> Comparison {
        let of = |trial: &Trial| trial.series[threads][metric].clone();
        self.oriented(of(&self.trials[place]), of(&self.untouched), metric)
    }

    fn oriented(&self, own: Vec<(u32, f64)>, base: Vec<(u32, f64)>, metric: usize) -> Comparison {
        match self.settings.higher_is_better[metric] {
            true => compare(&own, &base, self.settings.seed),
            false => compare(&base, &own, self.settings.seed),
        }
    }

    /// The median gain alone; without pairs worse than any.
    fn score(&self, place: usize) -> f64 {
        let (own, base) = (self.trials[place].over_all(0), self.untouched.over_all(0));
        let ratio = |&(round, value): &(u32, f64)| {
            let (_, other) = base.iter().find(|(r, _)| *r == round)?;
            let ratio = if self.settings.higher_is_better[0] { value / other } else { other / value };
            (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
        };
        let ratios: Vec<f64> = own.iter().filter_map(ratio).collect();
        median(&ratios).map_or(0.0, f64::exp)
    }

    /// Takes out what its interval shows to be slower.
    fn drop_slower(&mut self) {
        if (self.rounds as usize) < MIN_PAIRS {
            return;
        }
        for place in self.alive() {
            if self.gain(place, 0).finding == Finding::Lower {
                self.trials[place].fate = Fate::Slower;
            }
        }
    }

    /// Keeps the better half of each site's arms, at least one; returns whether any site has several left.
    fn cut(&mut self, rung: usize, sites: usize) -> bool {
        let mut several = false;
        for site in 0..sites {
            let mut of_site: Vec<(usize, f64)> = self
                .alive()
                .into_iter()
                .filter(|&place| self.trials[place].arm[0].0 == site)
                .map(|place| (place, self.score(place)))
                .collect();
            of_site.sort_by(|a, b| b.1.total_cmp(&a.1));
            let kept = of_site.len().div_ceil(2);
            several |= kept > 1;
            for &(place, _) in of_site.iter().skip(kept) {
                self.trials[place].fate = Fate::Beaten(rung);
            }
        }
        several
    }
}

/// What the confirmation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The gain is there again, and nothing is worse.
    Confirmed,
    /// In the search nothing was better than the untouched program by the least gain.
    NothingToGain,
    /// Nothing that was tried ran to its end under its rule: the first reason. That says nothing of the program's locks.
    NothingRan(String),
    /// The interval of the gain reaches 1, or the gain is smaller than what is worth a policy.
    NotReproduced,
    /// At this thread count (a place) this metric (a place) got worse.
    Worse { threads: usize, metric: usize },
    /// A run of the best policy failed, and why.
    Failed(String),
    /// Too few rounds for a verdict.
    OutOfBudget,
    /// Ctrl-C came before there was a verdict.
    Interrupted,
}

/// Everything that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) search: Ledger,
    /// The place of the best arm in the search.
    pub(crate) best: Option<usize>,
    /// The best arm, alone, in rounds of its own.
    pub(crate) confirmation: Option<Ledger>,
    pub(crate) verdict: Verdict,
    pub(crate) interrupted: bool,
    /// Seconds.
    pub(crate) spent: f64,
}

/// Rounds of a rung at most: more than that hardly moves a median.
const ROUNDS_OF_A_RUNG: u32 = 12;
/// The part of the budget that one round of all arms may take at most.
const FIRST_ROUND: f64 = 0.25;
/// The part of the budget that the confirmation may take at most.
const CONFIRMATION: f64 = 0.5;
/// Runs may take longer than they have taken.
const MARGIN: f64 = 1.1;

/// Finds the best policy and confirms it.
///
/// # Errors
///
/// Why the untouched program cannot be measured.
pub(crate) fn search(lab: &mut impl Lab, settings: &Settings) -> Result<Found, String> {
    let mut ledger = Ledger::new(Vec::new(), settings, 0);
    let (best, stopped) = match look(lab, settings, &mut ledger) {
        Ok(best) => (best, false),
        Err(Stop::Interrupted) => (None, true),
        Err(Stop::Hopeless(why)) => return Err(why),
    };
    let mut found = Found {
        search: ledger,
        best,
        confirmation: None,
        verdict: Verdict::NothingToGain,
        interrupted: stopped,
        spent: 0.0,
    };
    if let Some(best) = best {
        found.search.trials[best].fate = Fate::Best;
        confirm(lab, settings, &mut found, best)?;
    } else if stopped {
        found.verdict = Verdict::Interrupted;
    } else if let Some(why) = why_nothing_ran(&found.search.trials) {
        found.verdict = Verdict::NothingRan(why);
    }
    found.spent = lab.elapsed();
    Ok(found)
}

/// Why the first candidate failed, if all that were tried did.
fn why_nothing_ran(trials: &[Trial]) -> Option<String> {
    let mut first = None;
    for trial in trials {
        match &trial.fate {
            Fate::NotTried => {}
            Fate::Failed(why) => first = first.or_else(|| Some(why.clone())),
            _ => return None,
        }
    }
    first
}

/// The search: the place of the arm that is to be confirmed, if one is promising.
fn look(lab: &mut impl Lab, settings: &Settings, ledger: &mut Ledger) -> Result<Option<usize>, Stop> {
    lab.stage("the untouched program, to warm up");
    let begin = lab.elapsed();
    Ledger::new(Vec::new(), settings, 1).round(lab, &[])?;
    let each = (lab.elapsed() - begin).max(1e-3);
    let (arms, left_out) =
        affordable(settings, ((settings.budget - lab.elapsed()) * FIRST_ROUND / each) as usize);
    *ledger = Ledger::new(arms, settings, 2);
    let reserve = f64::from(settings.rounds) * 2.0 * each * MARGIN;
    let deadline = settings.budget - reserve.min((settings.budget - lab.elapsed()) * CONFIRMATION);
    let done = halve(lab, settings, ledger, deadline);
    let untried = left_out.into_iter().map(|arm| Trial { fate: Fate::NotTried, ..Trial::new(arm, settings) });
    let best = done.map(|()| best(ledger, settings));
    ledger.trials.extend(untried);
    best
}

/// The first so many arms, the first candidates of all sites first, and the rest.
fn affordable(settings: &Settings, most: usize) -> (Vec<Arm>, Vec<Arm>) {
    let deepest = settings.candidates.iter().copied().max().unwrap_or(0);
    let mut arms: Vec<Arm> = Vec::new();
    for candidate in 0..deepest {
        let sites = settings.candidates.iter().enumerate();
        arms.extend(sites.filter(|(_, count)| candidate < **count).map(|(site, _)| vec![(site, candidate)]));
    }
    // The untouched program takes a place in each round, too.
    let rest = arms.split_off(most.saturating_sub(1).clamp(1, arms.len().max(1)).min(arms.len()));
    (arms, rest)
}

/// Halves until one arm of each site is left, then measures those, and all of them together.
fn halve(lab: &mut impl Lab, settings: &Settings, ledger: &mut Ledger, deadline: f64) -> Result<(), Stop> {
    let sites = settings.candidates.len();
    let of_site = |ledger: &Ledger, site| {
        let arms = ledger.trials.iter().filter(|trial| trial.arm[0].0 == site);
        arms.count()
    };
    let most = (0..sites).map(|site| of_site(ledger, site)).max().unwrap_or(0);
    let rungs = most.next_power_of_two().trailing_zeros() as usize;
    for rung in 0..rungs {
        let alive = ledger.alive().len();
        lab.stage(&format!("rung {} of {rungs}: {alive} candidates", rung + 1));
        // The finals take a share as every rung does.
        let share = (deadline - lab.elapsed()) / (rungs - rung + 1) as f64;
        rung_of(lab, ledger, share, ROUNDS_OF_A_RUNG)?;
        if !ledger.cut(rung + 1, sites) {
            break;
        }
    }
    let promising: Vec<usize> =
        ledger.alive().into_iter().filter(|&place| rungs == 0 || ledger.score(place) > 1.0).collect();
    if promising.len() > 1 {
        let arm = promising.iter().flat_map(|&place| ledger.trials[place].arm.clone()).collect();
        ledger.trials.push(Trial::new(arm, settings));
    }
    if ledger.alive().len() == 1 && ledger.rounds as usize >= MIN_PAIRS {
        // Nothing is left to choose from.
        return Ok(());
    }
    lab.stage(&format!("the best of each lock: {} candidates", ledger.alive().len()));
    let share = deadline - lab.elapsed();
    rung_of(lab, ledger, share, ROUNDS_OF_A_RUNG)
}

/// Rounds of what is still in, at least one, for so many seconds, or until intervals leave nothing in.
fn rung_of(lab: &mut impl Lab, ledger: &mut Ledger, seconds: f64, most: u32) -> Result<(), Stop> {
    let begin = lab.elapsed();
    for round in 1..=most {
        let alive = ledger.alive();
        if alive.is_empty() {
            return Ok(());
        }
        ledger.round(lab, &alive)?;
        ledger.drop_slower();
        let mean = (lab.elapsed() - begin) / f64::from(round);
        if lab.elapsed() - begin + mean > seconds {
            break;
        }
    }
    Ok(())
}

/// The arm with the highest gain, if that is worth a policy.
fn best(ledger: &Ledger, settings: &Settings) -> Option<usize> {
    let scores = ledger.alive().into_iter().map(|place| (place, ledger.score(place)));
    let worth = scores.filter(|(_, score)| *score >= 1.0 + settings.least_gain);
    worth.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
}

/// Runs the best arm and the untouched program in fresh rounds.
fn confirm(lab: &mut impl Lab, settings: &Settings, found: &mut Found, best: usize) -> Result<(), String> {
    lab.stage("the best policy against the untouched program, in fresh rounds");
    let mut ledger = Ledger::new([found.search.trials[best].arm.clone()], settings, 3);
    let begin = lab.elapsed();
    let mut mean = 0.0;
    for round in 1..=settings.rounds {
        if lab.elapsed() + mean > settings.budget || ledger.trials[0].fate != Fate::In {
            break;
        }
        match ledger.round(lab, &[0]) {
            Ok(()) => mean = (lab.elapsed() - begin) / f64::from(round),
            Err(Stop::Interrupted) => {
                found.interrupted = true;
                break;
            }
            Err(Stop::Hopeless(why)) => return Err(why),
        }
    }
    found.verdict = match judge(&ledger, settings) {
        Verdict::OutOfBudget if found.interrupted => Verdict::Interrupted,
        verdict => verdict,
    };
    found.confirmation = Some(ledger);
    Ok(())
}

/// The verdict on a confirmation: the first metric must be better over all thread counts, by the least gain and with an interval
/// above 1, and no metric may be worse at any thread count.
fn judge(ledger: &Ledger, settings: &Settings) -> Verdict {
    if let Fate::Failed(why) = &ledger.trials[0].fate {
        return Verdict::Failed(why.clone());
    }
    let gain = ledger.gain(0, 0);
    if gain.pairs < MIN_PAIRS {
        return Verdict::OutOfBudget;
    }
    let is_worth = gain.ratio.is_some_and(|ratio| ratio.value >= 1.0 + settings.least_gain);
    if gain.finding != Finding::Higher || !is_worth {
        return Verdict::NotReproduced;
    }
    let cells = (0..settings.higher_is_better.len())
        .flat_map(|metric| (0..settings.threads).map(move |threads| (threads, metric)));
    for (threads, metric) in cells {
        if is_worse(&ledger.gain_at(0, threads, metric)) {
            return Verdict::Worse { threads, metric };
        }
    }
    Verdict::Confirmed
}

/// Where a value of 0 leaves nothing to divide, the differences decide.
fn is_worse(gain: &Comparison) -> bool {
    match gain.finding {
        Finding::NoRatio => gain.difference.is_some_and(|by| by.value < 0.0 && !by.includes(0.0)),
        finding => finding == Finding::Lower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_errors_hides_no_others() {
        let rounds = |values: &[f64]| (0..).zip(values.iter().copied()).collect::<Vec<_>>();
        let (before, after) =
            (rounds(&[1.0, 1.1, 0.9, 1.0, 1.2, 1.0, 1.1, 0.9]), [9.0, 8.0, 0.0, 9.5, 8.5, 9.0, 9.1, 8.8]);
        // Fewer errors are better, so the sides are turned.
        assert!(is_worse(&compare(&before, &rounds(&after), 1)));
        assert!(!is_worse(&compare(&rounds(&after), &before, 1)));
        let none = rounds(&[0.0; 8]);
        assert!(!is_worse(&compare(&none, &none, 1)));
    }

    /// A program whose speed is known: 100 operations a second, times the gain of each changed site.
    struct Synthetic {
        /// For each site, for each candidate: what it multiplies throughput by at each thread count; `NAN` crashes.
        gains: Vec<Vec<Vec<f64>>>,
        /// The standard deviation of throughput, as a share of it.
        noise: f64,
        random: fastrand::Rng,
        /// Seconds that a run takes, and have gone.
        each: f64,
        elapsed: f64,
        /// Ctrl-C comes after so many runs.
        stop_after: usize,
        runs: usize,
        /// The gain that is left in the confirmation.
        fades: bool,
        confirming: bool,
        untouched_fails: bool,
    }

    impl Synthetic {
        fn new(gains: Vec<Vec<Vec<f64>>>) -> Self {
            Synthetic {
                gains,
                noise: 0.01,
                random: fastrand::Rng::with_seed(7),
                each: 0.1,
                elapsed: 0.0,
                stop_after: usize::MAX,
                runs: 0,
                fades: false,
                confirming: false,
                untouched_fails: false,
            }
        }

        fn settings(&self) -> Settings {
            Settings {
                threads: self.gains[0][0].len(),
                higher_is_better: vec![true],
                candidates: self.gains.iter().map(Vec::len).collect(),
                budget: 60.0,
                rounds: 11,
                least_gain: 0.02,
                seed: 5,
            }
        }

        fn found(&mut self) -> Found {
            let settings = self.settings();
            search(self, &settings).unwrap()
        }

        /// About normal: the sum of 12 uniform numbers has a variance of 1.
        fn factor(&mut self) -> f64 {
            let sum: f64 = (0..12).map(|_| self.random.f64()).sum();
            1.0 + self.noise * (sum - 6.0)
        }
    }

    impl Lab for Synthetic {
        fn run(&mut self, arm: &Arm, threads: usize) -> Seen {
            self.runs += 1;
            self.elapsed += self.each;
            if self.runs > self.stop_after {
                return Seen::Interrupted;
            }
            let gain: f64 =
                arm.iter().map(|&(site, candidate)| self.gains[site][candidate][threads]).product();
            let gain = if self.fades && self.confirming { 1.0 } else { gain };
            if gain.is_nan() || (arm.is_empty() && self.untouched_fails) {
                return Seen::Failed("exit status 3".to_owned());
            }
            // The host slows down all the time.
            let drift = 1.0 / (1.0 + self.elapsed / 100.0);
            Seen::Values(vec![100.0 * gain * drift * self.factor()])
        }

        fn elapsed(&self) -> f64 {
            self.elapsed
        }

        fn interrupted(&self) -> bool {
            self.runs > self.stop_after
        }

        fn stage(&mut self, what: &str) {
            self.confirming = what.contains("fresh");
        }
    }

    /// Candidates of one site at one thread count.
    fn one_site(gains: &[f64]) -> Vec<Vec<Vec<f64>>> {
        vec![gains.iter().map(|gain| vec![*gain]).collect()]
    }

    fn chosen(found: &Found) -> Option<Arm> {
        found.best.map(|place| found.search.trials[place].arm.clone())
    }

    #[test]
    fn the_planted_best_is_found_and_confirmed() {
        let found = Synthetic::new(one_site(&[0.9, 1.02, 1.3, 0.7, 1.1, 1.0, 0.95])).found();
        assert_eq!(chosen(&found), Some(vec![(0, 2)]));
        assert_eq!(found.verdict, Verdict::Confirmed);
        let confirmation = found.confirmation.unwrap();
        let gain = confirmation.gain(0, 0).ratio.unwrap();
        assert!(gain.includes(1.3) && gain.high - gain.low < 0.1, "{gain:?}");
        assert_eq!(confirmation.gain(0, 0).pairs, 11);
        assert!(found.spent <= 60.0, "{}", found.spent);
    }

    #[test]
    fn lower_can_be_better() {
        let mut lab = Synthetic::new(one_site(&[1.3, 0.8, 1.0]));
        let settings = Settings { higher_is_better: vec![false], ..lab.settings() };
        let found = search(&mut lab, &settings).unwrap();
        assert_eq!((chosen(&found), found.verdict), (Some(vec![(0, 1)]), Verdict::Confirmed));
    }

    #[test]
    fn sites_that_gain_are_changed_together() {
        let gains = vec![
            vec![vec![1.2], vec![1.0], vec![0.9]],
            vec![vec![0.8], vec![0.9]],
            vec![vec![1.0], vec![1.1]],
        ];
        let found = Synthetic::new(gains).found();
        assert_eq!(chosen(&found), Some(vec![(0, 0), (2, 1)]), "the second site is better left alone");
        assert_eq!(found.verdict, Verdict::Confirmed);
    }

    #[test]
    fn what_is_no_better_makes_no_policy() {
        for seed in 0..5 {
            let mut lab = Synthetic::new(one_site(&[1.0, 1.0, 1.0, 1.0, 0.99]));
            lab.random = fastrand::Rng::with_seed(seed);
            lab.noise = 0.05;
            let verdict = lab.found().verdict;
            assert!(
                matches!(verdict, Verdict::NothingToGain | Verdict::NotReproduced),
                "{seed}: {verdict:?}"
            );
        }
        let slower = Synthetic::new(one_site(&[0.5, 0.6])).found();
        assert_eq!(slower.verdict, Verdict::NothingToGain);
        assert!(
            slower.search.trials.iter().all(|trial| matches!(trial.fate, Fate::Slower | Fate::Beaten(_)))
        );
        let too_little = Synthetic::new(one_site(&[1.005])).found();
        assert!(matches!(too_little.verdict, Verdict::NothingToGain | Verdict::NotReproduced));
    }

    #[test]
    fn a_gain_that_is_not_there_again_is_refused() {
        let mut lab = Synthetic::new(one_site(&[1.3, 1.0]));
        lab.fades = true;
        let found = lab.found();
        assert_eq!(chosen(&found), Some(vec![(0, 0)]));
        assert_eq!(found.verdict, Verdict::NotReproduced);
    }

    #[test]
    fn a_gain_at_one_thread_count_does_not_pay_for_a_loss_at_another() {
        let found = Synthetic::new(vec![vec![vec![0.8, 2.0]]]).found();
        assert_eq!(found.verdict, Verdict::Worse { threads: 0, metric: 0 });
        let found = Synthetic::new(vec![vec![vec![1.0, 2.0]]]).found();
        assert_ne!(found.verdict, Verdict::NotReproduced);
    }

    #[test]
    fn a_candidate_that_fails_once_is_out() {
        let found = Synthetic::new(one_site(&[f64::NAN, 1.2])).found();
        assert_eq!(found.search.trials[0].fate, Fate::Failed("exit status 3".to_owned()));
        assert_eq!((chosen(&found), found.verdict), (Some(vec![(0, 1)]), Verdict::Confirmed));
        let none = Synthetic::new(one_site(&[f64::NAN])).found();
        assert_eq!(
            none.verdict,
            Verdict::NothingRan("exit status 3".to_owned()),
            "no verdict on what never ran"
        );
        let slow = Synthetic::new(one_site(&[f64::NAN, 0.5])).found();
        assert_eq!(slow.verdict, Verdict::NothingToGain);
    }

    #[test]
    fn an_untouched_program_that_fails_ends_it() {
        let mut lab = Synthetic::new(one_site(&[1.2]));
        lab.untouched_fails = true;
        let settings = lab.settings();
        assert_eq!(search(&mut lab, &settings).unwrap_err(), "exit status 3");
        assert_eq!(lab.runs, 1);
    }

    #[test]
    fn the_budget_is_kept() {
        for each in [0.01, 0.3, 1.0, 3.0, 20.0] {
            let mut lab = Synthetic::new(one_site(&[1.2, 1.1, 1.0, 0.9, 0.8, 1.0, 1.1, 1.0]));
            lab.each = each;
            let found = lab.found();
            // The run under way is finished, and the round that it belongs to.
            assert!(found.spent <= 60.0 + 4.0 * each, "{each}: {}", found.spent);
            match each {
                1.0.. if each > 2.0 => assert_eq!(found.verdict, Verdict::OutOfBudget, "{each}"),
                _ => assert_eq!(found.verdict, Verdict::Confirmed, "{each}"),
            }
            let untried = found.search.trials.iter().filter(|trial| trial.fate == Fate::NotTried).count();
            assert_eq!(untried > 0, each > 1.0, "{each}: {untried}");
        }
    }

    #[test]
    fn an_interrupt_keeps_what_is_known() {
        let mut lab = Synthetic::new(one_site(&[1.2, 1.0]));
        lab.stop_after = 12;
        let found = lab.found();
        assert!(found.interrupted);
        assert_eq!((found.best, found.verdict), (None, Verdict::Interrupted));
        assert!(found.search.gain(0, 0).pairs > 0);
        // In the confirmation: before and after there are rounds enough for a verdict.
        let mut lab = Synthetic::new(one_site(&[1.2]));
        lab.found();
        let all = lab.runs;
        for (left_out, verdict) in [(20, Verdict::Interrupted), (4, Verdict::Confirmed)] {
            let mut lab = Synthetic::new(one_site(&[1.2]));
            lab.stop_after = all - left_out;
            let found = lab.found();
            assert!(found.interrupted);
            assert_eq!(found.verdict, verdict, "{left_out} runs left out");
        }
    }

    #[test]
    fn a_round_without_all_thread_counts_is_no_pair() {
        let settings = Synthetic::new(vec![vec![vec![1.0, 1.0]]]).settings();
        let mut trial = Trial::new(vec![(0, 0)], &settings);
        trial.series[0][0] = vec![(0, 4.0), (1, 1.0)];
        trial.series[1][0] = vec![(0, 9.0)];
        assert_eq!(trial.over_all(0), [(0, 6.0)]);
    }
}
