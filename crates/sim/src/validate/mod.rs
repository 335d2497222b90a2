//! Published results beside simulated ones.
//!
//! A claim is what a paper says, put so that a simulation can agree with it or not: a figure, or that one point is so
//! many times better than another. Claims stay in the list whether they agree or not; those that need what is not
//! modelled say so.

mod claims;
mod memory;
mod point;

use std::collections::HashMap;

use serde::Serialize;

pub use self::claims::claims;
use self::memory::Memory;
use self::point::Figure;
pub use self::point::{Measured, Point};

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
    /// A figure of one point, to be met within this factor, or to within so much.
    Figure { point: Point, figure: Figure, value: f64, within: f64, slack: f64 },
    /// The figure of one point is at least so many times that of another.
    AtLeast { factor: f64, figure: Figure, more: Point, less: Point },
    /// It is at most so many times that of another.
    AtMost { factor: f64, figure: Figure, this: Point, that: Point },
    /// It is so many times that of another, to be met within this factor.
    Ratio { value: f64, within: f64, figure: Figure, this: Point, that: Point },
    /// It is greater than that of another by so much, to be met within this factor, or to within so much.
    Difference { value: f64, within: f64, slack: f64, figure: Figure, this: Point, that: Point },
    /// A lock takes at least and at most so many times less memory than another.
    Memory { memory: Memory, least: f64, most: f64 },
    /// Out of reach, for this reason.
    NotModelled(&'static str),
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
    /// On a figure that is to lie between these.
    fn of(value: f64, (least, most): (f64, f64)) -> Self {
        if (least..=most).contains(&value) { Self::Agrees } else { Self::Differs }
    }

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
    /// What it says: a figure, or `in words` where the claim is all there is.
    pub published: String,
    /// When a simulated figure agrees, which is our choice.
    pub rule: String,
    /// What the simulation says: the median over the seeds.
    pub ours: String,
    /// The least and the most over the seeds.
    pub band: String,
    /// Whether they agree.
    pub verdict: Verdict,
}

impl Claim {
    /// What must be simulated to judge it.
    #[must_use]
    pub fn points(&self) -> Vec<&Point> {
        match &self.test {
            Test::Figure { point, .. } => vec![point],
            Test::AtLeast { more, less, .. } => vec![more, less],
            Test::AtMost { this, that, .. }
            | Test::Ratio { this, that, .. }
            | Test::Difference { this, that, .. } => vec![this, that],
            Test::Memory { .. } | Test::NotModelled(_) => Vec::new(),
        }
    }

    /// Judges it by the runs of its points, one for each seed; a point without runs makes it "not modelled".
    #[must_use]
    pub fn judge(&self, runs: &HashMap<&Point, Vec<Measured>>) -> Row {
        let of = |point: &Point, figure: Figure| -> Vec<f64> {
            runs.get(point).into_iter().flatten().map(|run| run.get(figure)).collect()
        };
        let by_seed = |this: &Point, that: &Point, figure| -> Vec<f64> {
            let that = of(that, figure);
            of(this, figure).iter().zip(that).map(|(this, that)| this / that.max(f64::MIN_POSITIVE)).collect()
        };
        let near = |value: f64, within: f64, slack: f64| {
            ((value / within).min(value - slack), (value * within).max(value + slack))
        };
        // The figures, their unit, what is published if it is one number, and the bounds between which ours agrees.
        let (mut values, unit, published, (least, most)) = match &self.test {
            Test::Figure { point, figure, value, within, slack } => {
                let unit = unit_of(*figure);
                (of(point, *figure), unit, Some(*value), near(*value, *within, *slack))
            }
            Test::AtLeast { factor, figure, more, less } => {
                (by_seed(more, less, *figure), "x".to_owned(), None, (*factor, f64::INFINITY))
            }
            Test::AtMost { factor, figure, this, that } => {
                (by_seed(this, that, *figure), "x".to_owned(), None, (0.0, *factor))
            }
            Test::Ratio { value, within, figure, this, that } => {
                (by_seed(this, that, *figure), "x".to_owned(), Some(*value), near(*value, *within, 0.0))
            }
            Test::Difference { value, within, slack, figure, this, that } => {
                let that = of(that, *figure);
                let differences =
                    of(this, *figure).iter().zip(that).map(|(this, that)| this - that).collect();
                (differences, unit_of(*figure), Some(*value), near(*value, *within, *slack))
            }
            Test::Memory { memory, least, most } => return self.weigh(*memory, (*least, *most)),
            Test::NotModelled(reason) => {
                return self.row((*reason).to_owned(), String::new(), Verdict::NotModelled);
            }
        };
        values.sort_by(f64::total_cmp);
        let (Some(lowest), Some(highest)) = (values.first(), values.last()) else {
            return self.row("not run".to_owned(), String::new(), Verdict::NotModelled);
        };
        let median = values[values.len() / 2];
        let ours = match published {
            Some(published) if published != 0.0 => {
                format!("{}{unit} ({:.2}x)", number(median), median / published)
            }
            Some(_) => format!("{}{unit}", number(median)),
            None => format!("{}{unit}", number(median)),
        };
        let band = format!("{} to {}", number(*lowest), number(*highest));
        self.row(ours, band, Verdict::of(median, (least, most)))
    }

    /// Judges it by the bytes of locks, which are measured.
    fn weigh(&self, memory: Memory, bounds: (f64, f64)) -> Row {
        let (own, other) = memory.bytes();
        let times = other as f64 / own.max(1) as f64;
        let ours = format!("{}x ({own} of {other} bytes)", number(times));
        self.row(ours, "measured".to_owned(), Verdict::of(times, bounds))
    }

    fn row(&self, ours: String, band: String, verdict: Verdict) -> Row {
        let (claim, published) = (self.claim.clone(), self.published.clone());
        Row { claim, source: self.source.to_owned(), published, rule: self.rule(), ours, band, verdict }
    }

    /// When a figure agrees.
    fn rule(&self) -> String {
        match &self.test {
            Test::Figure { within, slack, .. } | Test::Difference { within, slack, .. } if *slack > 0.0 => {
                format!("within {within}x, or {slack}")
            }
            Test::Figure { within, .. } | Test::Ratio { within, .. } | Test::Difference { within, .. } => {
                format!("within {within}x")
            }
            Test::AtLeast { factor, .. } => format!("at least {factor}x"),
            Test::AtMost { factor, .. } => format!("at most {factor}x"),
            Test::Memory { least, most, .. } if most.is_finite() => {
                format!("{}x to {}x", number(*least), number(*most))
            }
            Test::Memory { least, .. } => format!("at least {}x", number(*least)),
            Test::NotModelled(_) => String::new(),
        }
    }
}

/// The unit of a figure, as it stands behind one.
fn unit_of(figure: Figure) -> String {
    match figure.unit() {
        "" => String::new(),
        unit => format!(" {unit}"),
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
    use super::memory::Than;
    use super::*;
    use crate::workload::{Frame, Micro, PerSection};

    #[test]
    fn every_claim_names_machines_and_locks_that_exist() {
        for claim in claims() {
            for point in claim.points() {
                let (machine, lock) = (point.machine(), point.protection());
                assert!(!machine.name.is_empty() && !lock.to_string().is_empty(), "{}", claim.claim);
            }
            if let Test::Memory { memory, .. } = &claim.test {
                let (own, other) = memory.bytes();
                assert!(own > 0 && other > 0, "{}", claim.claim);
            }
        }
    }

    fn claim(test: Test) -> Claim {
        Claim { claim: String::new(), source: "", published: String::new(), test }
    }

    #[test]
    fn a_figure_agrees_within_its_factor_and_a_relation_on_its_side() {
        let point = |lock| Point { machine: "e7-4850", lock, frame: Frame::SHORT, load: Micro::SHORT.into() };
        let (slow, fast) = (point("tas"), point("mcs-spin"));
        let of = |throughput| {
            let (section, first_section) = (900.0, 100.0);
            let each = PerSection { misses: 0.2, ..PerSection::default() };
            vec![Measured { throughput, section, first_section, hand_off: 0.0, unfairness: 0.5, each }; 3]
        };
        let runs = HashMap::from([(&slow, of(10.0)), (&fast, of(40.0))]);
        let verdict = |test| claim(test).judge(&runs).verdict;
        let figure = |value| Test::Figure {
            point: point("tas"),
            figure: Figure::Section,
            value,
            within: 1.5,
            slack: 0.0,
        };
        assert_eq!(verdict(figure(1000.0)), Verdict::Agrees);
        assert_eq!(verdict(figure(500.0)), Verdict::Differs);
        let misses = |slack| Test::Figure {
            point: point("tas"),
            figure: Figure::Misses,
            value: 0.0,
            within: 1.5,
            slack,
        };
        assert_eq!(verdict(misses(0.1)), Verdict::Differs);
        assert_eq!(verdict(misses(0.25)), Verdict::Agrees);
        assert_eq!(claim(misses(0.25)).judge(&runs).ours, "0.20");
        assert_eq!(claim(misses(0.25)).judge(&runs).rule, "within 1.5x, or 0.25");
        let throughput = Figure::Throughput;
        let at_least =
            |factor| Test::AtLeast { factor, figure: throughput, more: fast.clone(), less: slow.clone() };
        assert_eq!(verdict(at_least(3.0)), Verdict::Agrees);
        assert_eq!(verdict(at_least(5.0)), Verdict::Differs);
        let ratio = |value| Test::Ratio {
            value,
            within: 1.5,
            figure: throughput,
            this: fast.clone(),
            that: slow.clone(),
        };
        for (value, expected) in
            [(2.5, Verdict::Differs), (3.0, Verdict::Agrees), (5.0, Verdict::Agrees), (7.0, Verdict::Differs)]
        {
            assert_eq!(verdict(ratio(value)), expected, "{value}");
        }
        assert_eq!(claim(ratio(5.0)).judge(&runs).ours, "4.00x (0.80x)");
        assert_eq!(claim(ratio(5.0)).judge(&runs).rule, "within 1.5x");
        assert_eq!(claim(at_least(3.0)).judge(&runs).rule, "at least 3x");
        assert_eq!(verdict(Test::NotModelled("later")), Verdict::NotModelled);
    }

    #[test]
    fn bytes_are_measured_and_compared() {
        let row = |than, (least, most)| {
            let memory = Memory { lock: "ticket", everywhere: true, than };
            claim(Test::Memory { memory, least, most }).judge(&HashMap::new())
        };
        let published = row(Than::Bytes(80), (9.0, 11.0));
        assert_eq!((published.ours.as_str(), published.verdict), ("10.0x (8 of 80 bytes)", Verdict::Agrees));
        assert_eq!(row(Than::Bytes(80), (11.0, 12.0)).verdict, Verdict::Differs);
        // It has lines of its own for each node.
        let ours = row(Than::Lock("c-tkt-tkt"), (20.0, f64::INFINITY));
        assert_eq!(ours.verdict, Verdict::Agrees, "{}", ours.ours);
    }
}
