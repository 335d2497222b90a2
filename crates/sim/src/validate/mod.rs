//! Published results beside simulated ones.
//!
//! A claim is what a paper says, put so that a simulation can agree with it or not: a figure, or that one point is so many times
//! better than another. Claims stay in the list whether they agree or not; those that need what is not modelled say so.

mod claims;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use lockwork_locks::spec::LockSpec;
use serde::Serialize;

pub use self::claims::claims;
use crate::machine::{self, Machine};
use crate::simulation::Options;
use crate::workload::{Frame, Micro, Protection, RunResult, Workload};

/// A published claim.
#[derive(Debug, Clone)]
pub struct Claim {
    /// In words.
    pub claim: String,
    /// Paper and place.
    pub source: &'static str,
    /// What it says, as a figure or a relation.
    pub published: String,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    /// A figure of one point, to be met within this factor.
    Figure { point: Point, figure: Figure, value: f64, within: f64 },
    /// The figure of one point is at least so many times that of another.
    AtLeast { factor: f64, figure: Figure, more: Point, less: Point },
    /// It is at most so many times that of another.
    AtMost { factor: f64, figure: Figure, this: Point, that: Point },
    /// Out of reach, for this reason.
    NotModelled(&'static str),
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// Sections a second.
    Throughput,
    /// Cycles of a section.
    Section,
    /// Cycles of a hand-off.
    HandOff,
    /// The share of the sections done by the upper half of the threads.
    Unfairness,
}

/// Something to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    machine: &'static str,
    lock: &'static str,
    frame: Frame,
    micro: Micro,
}

impl Eq for Point {}

impl Hash for Point {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.machine, self.lock, self.frame.threads).hash(state);
    }
}

/// What a run of a point gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    throughput: f64,
    section: f64,
    hand_off: f64,
    unfairness: f64,
}

/// Whether the simulation agrees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// It does.
    #[serde(rename = "agrees")]
    Agrees,
    /// It does not.
    #[serde(rename = "differs")]
    Differs,
    /// It cannot say.
    #[serde(rename = "not modelled")]
    NotModelled,
}

impl Verdict {
    /// As tables say it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::NotModelled => "not modelled",
        }
    }
}

/// A claim beside what was simulated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// In words.
    pub claim: String,
    /// Paper and place.
    pub source: String,
    /// What it says.
    pub published: String,
    /// What the simulation says: the median over the seeds.
    pub ours: String,
    /// The least and the most over the seeds.
    pub band: String,
    /// Whether they agree.
    pub verdict: Verdict,
}

impl Point {
    /// Simulates it.
    ///
    /// # Panics
    ///
    /// If the lists of machines and locks have lost what a claim names, which a test excludes.
    #[must_use]
    pub fn run(&self, seed: u64) -> Measured {
        let machine = self.machine();
        let options = Options { seed, strict_spin: true, ..Options::default() };
        let result = self.micro.run(&self.frame, &machine, &Protection::Lock(self.lock()), options);
        Measured::new(&self.frame, &machine, &result)
    }

    fn machine(&self) -> Machine {
        machine::named(self.machine).unwrap_or_else(|| panic!("no machine {}", self.machine))
    }

    fn lock(&self) -> LockSpec {
        LockSpec::parse(self.lock).unwrap_or_else(|error| panic!("{}: {error}", self.lock))
    }
}

impl Measured {
    fn new(frame: &Frame, machine: &Machine, result: &RunResult) -> Self {
        Self {
            throughput: result.sections as f64 / (machine.ns(frame.window) as f64 / 1e9),
            section: result.section,
            hand_off: result.hand_off,
            unfairness: lockwork_fairness::unfairness_factor(&result.by_thread),
        }
    }

    fn get(&self, figure: Figure) -> f64 {
        match figure {
            Figure::Throughput => self.throughput,
            Figure::Section => self.section,
            Figure::HandOff => self.hand_off,
            Figure::Unfairness => self.unfairness,
        }
    }
}

impl Claim {
    /// What must be simulated to judge it.
    #[must_use]
    pub fn points(&self) -> Vec<&Point> {
        match &self.test {
            Test::Figure { point, .. } => vec![point],
            Test::AtLeast { more, less, .. } => vec![more, less],
            Test::AtMost { this, that, .. } => vec![this, that],
            Test::NotModelled(_) => Vec::new(),
        }
    }

    /// Judges it by the runs of its points, one for each seed; a point without runs makes it "not modelled".
    #[must_use]
    pub fn judge(&self, runs: &HashMap<&Point, Vec<Measured>>) -> Row {
        let of = |point: &Point, figure: Figure| -> Vec<f64> {
            runs.get(point).into_iter().flatten().map(|run| run.get(figure)).collect()
        };
        let by_seed = |this: &Point, that: &Point, figure| -> Vec<f64> {
            of(this, figure)
                .iter()
                .zip(of(that, figure))
                .map(|(this, that)| this / that.max(f64::MIN_POSITIVE))
                .collect()
        };
        let (mut values, unit, agrees): (Vec<f64>, _, Box<dyn Fn(f64) -> bool>) = match &self.test {
            Test::Figure { point, figure, value, within } => {
                let (value, within) = (*value, *within);
                (
                    of(point, *figure),
                    figure.unit(),
                    Box::new(move |ours| ours <= value * within && ours >= value / within),
                )
            }
            Test::AtLeast { factor, figure, more, less } => {
                let factor = *factor;
                (by_seed(more, less, *figure), "x", Box::new(move |ours| ours >= factor))
            }
            Test::AtMost { factor, figure, this, that } => {
                let factor = *factor;
                (by_seed(this, that, *figure), "x", Box::new(move |ours| ours <= factor))
            }
            Test::NotModelled(reason) => {
                return self.row((*reason).to_owned(), String::new(), Verdict::NotModelled);
            }
        };
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (values.first(), values.last()) else {
            return self.row("not run".to_owned(), String::new(), Verdict::NotModelled);
        };
        let median = values[values.len() / 2];
        let verdict = if agrees(median) { Verdict::Agrees } else { Verdict::Differs };
        let ours = match (&self.test, verdict) {
            (Test::Figure { value, .. }, _) => format!("{} {unit} ({:.2}x)", number(median), median / value),
            _ => format!("{}{unit}", number(median)),
        };
        self.row(ours, format!("{} to {}", number(*least), number(*most)), verdict)
    }

    fn row(&self, ours: String, band: String, verdict: Verdict) -> Row {
        let (claim, published) = (self.claim.clone(), self.published.clone());
        Row { claim, source: self.source.to_owned(), published, ours, band, verdict }
    }
}

impl Figure {
    fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "/s",
            Self::Section | Self::HandOff => "cycles",
            Self::Unfairness => "",
        }
    }
}

/// A figure with as many digits as it deserves.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_names_machines_and_locks_that_exist() {
        for claim in claims() {
            for point in claim.points() {
                let (machine, lock) = (point.machine(), point.lock());
                assert!(!machine.name.is_empty() && !lock.to_string().is_empty(), "{}", claim.claim);
            }
        }
    }

    fn claim(test: Test) -> Claim {
        Claim { claim: String::new(), source: "", published: String::new(), test }
    }

    #[test]
    fn a_figure_agrees_within_its_factor_and_a_relation_on_its_side() {
        let point = |lock| Point { machine: "e7-4850", lock, frame: Frame::SHORT, micro: Micro::SHORT };
        let (slow, fast) = (point("tas"), point("mcs-spin"));
        let of =
            |throughput| vec![Measured { throughput, section: 900.0, hand_off: 0.0, unfairness: 0.5 }; 3];
        let runs = HashMap::from([(&slow, of(10.0)), (&fast, of(40.0))]);
        let verdict = |test| claim(test).judge(&runs).verdict;
        let figure =
            |value| Test::Figure { point: point("tas"), figure: Figure::Section, value, within: 1.5 };
        assert_eq!(verdict(figure(1000.0)), Verdict::Agrees);
        assert_eq!(verdict(figure(500.0)), Verdict::Differs);
        let (more, less) = (fast.clone(), slow.clone());
        let at_least = |factor| Test::AtLeast {
            factor,
            figure: Figure::Throughput,
            more: more.clone(),
            less: less.clone(),
        };
        assert_eq!(verdict(at_least(3.0)), Verdict::Agrees);
        assert_eq!(verdict(at_least(5.0)), Verdict::Differs);
        assert_eq!(verdict(Test::NotModelled("later")), Verdict::NotModelled);
    }
}
