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
    /// What is simulated, and when it agrees.
    Simulated(Quantity, Rule),
    /// A lock takes so many times less memory than another.
    Memory(Memory, Rule),
    /// Out of reach, for this reason.
    NotModelled(&'static str),
}

/// What is made of a figure of some points.
#[derive(Debug, Clone)]
struct Quantity {
    made: Made,
    figure: Figure,
    points: Vec<Point>,
}

#[derive(Debug, Clone, Copy)]
enum Made {
    /// The figure of one.
    Alone,
    /// So many times that of another.
    Ratio,
    /// So much more than that of another.
    Difference,
    /// So many percent less than that of another.
    Loss,
    /// The difference of the first two, as so many times that of the last two.
    Differences,
}

/// When a quantity agrees.
#[derive(Debug, Clone)]
enum Rule {
    /// It meets the published one within this factor, or to within so much.
    Near { value: f64, within: f64, slack: f64 },
    /// It is at least this.
    AtLeast(f64, Whose),
    /// It is at most this.
    AtMost(f64, Whose),
    /// It is between these, as published.
    Between(f64, f64),
}

/// Whose word it is how much is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// We do: the paper says it in words, or draws it.
    Ours,
    /// The paper does.
    Theirs,
}

impl Quantity {
    fn figure(figure: Figure, point: Point) -> Self {
        Self { made: Made::Alone, figure, points: vec![point] }
    }

    fn ratio(figure: Figure, points: [Point; 2]) -> Self {
        Self { made: Made::Ratio, figure, points: points.into() }
    }

    fn difference(figure: Figure, points: [Point; 2]) -> Self {
        Self { made: Made::Difference, figure, points: points.into() }
    }

    fn loss(figure: Figure, points: [Point; 2]) -> Self {
        Self { made: Made::Loss, figure, points: points.into() }
    }

    fn differences(figure: Figure, points: [Point; 4]) -> Self {
        Self { made: Made::Differences, figure, points: points.into() }
    }

    /// By seed. Without runs of each point there is none.
    fn values(&self, runs: &HashMap<&Point, Vec<Measured>>) -> Vec<f64> {
        let points = &self.points;
        let seeds = points.iter().map(|point| runs.get(point).map_or(0, Vec::len)).min().unwrap_or(0);
        let over = |this: f64, that: f64| if that > 0.0 { this / that } else { f64::INFINITY };
        (0..seeds)
            .map(|seed| {
                let of = |place: usize| runs[&points[place]][seed].get(self.figure);
                match self.made {
                    Made::Alone => of(0),
                    Made::Ratio => over(of(0), of(1)),
                    Made::Difference => of(0) - of(1),
                    Made::Loss => 100.0 * (1.0 - over(of(0), of(1))),
                    Made::Differences => over(of(0) - of(1), of(2) - of(3)),
                }
            })
            .collect()
    }

    /// As it stands behind a value.
    fn unit(&self) -> String {
        match self.made {
            Made::Alone | Made::Difference => match self.figure.unit() {
                "" => String::new(),
                unit => format!(" {unit}"),
            },
            Made::Ratio | Made::Differences => "x".to_owned(),
            Made::Loss => "%".to_owned(),
        }
    }
}

impl Rule {
    /// Between which values a quantity agrees.
    fn bounds(&self) -> (f64, f64) {
        match *self {
            Self::Near { value, within, slack } => {
                ((value / within).min(value - slack), (value * within).max(value + slack))
            }
            Self::AtLeast(least, _) => (least, f64::INFINITY),
            Self::AtMost(most, _) => (f64::NEG_INFINITY, most),
            Self::Between(least, most) => (least, most),
        }
    }

    /// The published value, which is the bound where one is published.
    fn published(&self) -> Option<f64> {
        match *self {
            Self::Near { value, .. }
            | Self::AtLeast(value, Whose::Theirs)
            | Self::AtMost(value, Whose::Theirs) => Some(value),
            Self::AtLeast(_, Whose::Ours) | Self::AtMost(_, Whose::Ours) | Self::Between(..) => None,
        }
    }

    /// In words, with the unit of the quantity.
    fn text(&self, unit: &str) -> String {
        let (bound, whose) = match *self {
            Self::Near { within, slack, .. } if slack > 0.0 => {
                return format!("within {within}x, or {slack}{unit}");
            }
            Self::Near { within, .. } => return format!("within {within}x"),
            Self::AtLeast(least, whose) => (format!("at least {least}{unit}"), whose),
            Self::AtMost(most, whose) => (format!("at most {most}{unit}"), whose),
            Self::Between(least, most) => (format!("{least}{unit} to {most}{unit}"), Whose::Theirs),
        };
        match whose {
            Whose::Ours => bound,
            Whose::Theirs => format!("theirs: {bound}"),
        }
    }
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
    /// When a simulated figure agrees: our choice, but where it says that it is theirs.
    pub rule: String,
    /// What the simulation says: the median over the seeds.
    pub ours: String,
    /// The least and the most over the seeds.
    pub band: String,
    /// Whether they agree.
    pub verdict: Verdict,
    /// The same on variants of the machine, where those were simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_variants: Option<OnVariants>,
}

/// What becomes of a row on variants of its machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnVariants {
    /// The least and the most of the simulated figure, the machine as it is among them.
    pub band: String,
    /// The variants whose verdict is another.
    pub differs_with: Vec<&'static str>,
}

impl Claim {
    /// What must be simulated to judge it.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        match &self.test {
            Test::Simulated(quantity, _) => &quantity.points,
            Test::Memory(..) | Test::NotModelled(_) => &[],
        }
    }

    /// Judges it by the runs of its points, one for each seed; a point without runs makes it "not modelled".
    #[must_use]
    pub fn judge(&self, runs: &HashMap<&Point, Vec<Measured>>) -> Row {
        let (quantity, rule) = match &self.test {
            Test::Simulated(quantity, rule) => (quantity, rule),
            Test::Memory(memory, rule) => return self.weigh(*memory, rule),
            Test::NotModelled(reason) => {
                return self.row((*reason).to_owned(), String::new(), Verdict::NotModelled);
            }
        };
        let Some((lowest, median, highest)) = spread(quantity.values(runs)) else {
            return self.row("not run".to_owned(), String::new(), Verdict::NotModelled);
        };
        let unit = quantity.unit();
        let ours = match rule.published() {
            Some(published) if published != 0.0 => {
                format!("{}{unit} ({:.2}x)", number(median), median / published)
            }
            _ => format!("{}{unit}", number(median)),
        };
        self.row(ours, band(lowest, highest), Verdict::of(median, rule.bounds()))
    }

    /// The same for variants of the machine, each with its name and its runs, beside those on the machine as it is. `None` where
    /// nothing was simulated for the claim.
    #[must_use]
    pub fn judge_on_variants(
        &self,
        runs: &HashMap<&Point, Vec<Measured>>,
        variants: &[(&'static str, HashMap<&Point, Vec<Measured>>)],
    ) -> Option<OnVariants> {
        let Test::Simulated(quantity, rule) = &self.test else { return None };
        let (_, as_is, _) = spread(quantity.values(runs))?;
        let verdict = Verdict::of(as_is, rule.bounds());
        let (mut lowest, mut highest) = (as_is, as_is);
        let mut differs_with = Vec::new();
        for (name, runs) in variants {
            // Not every machine has every variant.
            let Some((_, median, _)) = spread(quantity.values(runs)) else { continue };
            (lowest, highest) = (lowest.min(median), highest.max(median));
            if Verdict::of(median, rule.bounds()) != verdict {
                differs_with.push(*name);
            }
        }
        Some(OnVariants { band: band(lowest, highest), differs_with })
    }

    /// Judges it by the bytes of locks, which are measured.
    fn weigh(&self, memory: Memory, rule: &Rule) -> Row {
        let (own, other) = memory.bytes();
        let times = other as f64 / own.max(1) as f64;
        let ours = format!("{}x ({own} of {other} bytes)", number(times));
        self.row(ours, "measured".to_owned(), Verdict::of(times, rule.bounds()))
    }

    fn row(&self, ours: String, band: String, verdict: Verdict) -> Row {
        let (claim, published) = (self.claim.clone(), self.published.clone());
        let (source, rule) = (self.source.to_owned(), self.rule());
        Row { claim, source, published, rule, ours, band, verdict, on_variants: None }
    }

    /// When a figure agrees.
    fn rule(&self) -> String {
        match &self.test {
            Test::Simulated(quantity, rule) => rule.text(&quantity.unit()),
            Test::Memory(_, rule) => rule.text("x"),
            Test::NotModelled(_) => String::new(),
        }
    }
}

/// The least, the median and the most of some values, if there are any.
fn spread(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    Some((*values.first()?, *values.get(values.len() / 2)?, *values.last()?))
}

/// As tables say it.
fn band(least: f64, most: f64) -> String {
    format!("{} to {}", number(least), number(most))
}

/// A figure with as many digits as it deserves.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        // What is rounded to zero has no sign.
        value if value.abs() < 0.005 => "0.00".to_owned(),
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
            if let Test::Memory(memory, _) = &claim.test {
                let (own, other) = memory.bytes();
                assert!(own > 0 && other > 0, "{}", claim.claim);
            }
        }
    }

    fn claim(test: Test) -> Claim {
        Claim { claim: String::new(), source: "", published: String::new(), test }
    }

    fn point(lock: &'static str) -> Point {
        Point { machine: "e7-4850", lock, frame: Frame::SHORT, load: Micro::SHORT.into() }
    }

    /// Three runs of so many sections a second, of 900 cycles each.
    fn runs(throughput: f64) -> Vec<Measured> {
        let (section, first_section) = (900.0, 100.0);
        let each = PerSection { misses: 0.2, ..PerSection::default() };
        vec![Measured { throughput, section, first_section, hand_off: 0.0, unfairness: 0.5, each }; 3]
    }

    #[test]
    fn a_figure_agrees_within_its_factor_and_a_bound_on_its_side() {
        let (slow, fast) = (point("tas"), point("mcs-spin"));
        let runs = HashMap::from([(&slow, runs(10.0)), (&fast, runs(40.0))]);
        let row = |quantity: Quantity, rule: Rule| claim(Test::Simulated(quantity, rule)).judge(&runs);
        let near = |value, slack| Rule::Near { value, within: 1.5, slack };
        let section = |value| row(Quantity::figure(Figure::Section, slow.clone()), near(value, 0.0)).verdict;
        assert_eq!((section(1000.0), section(500.0)), (Verdict::Agrees, Verdict::Differs));
        let misses = |slack| row(Quantity::figure(Figure::Misses, slow.clone()), near(0.0, slack));
        assert_eq!(misses(0.1).verdict, Verdict::Differs);
        let enough = misses(0.25);
        assert_eq!((enough.verdict, enough.ours.as_str()), (Verdict::Agrees, "0.20"));
        assert_eq!(enough.rule, "within 1.5x, or 0.25");
        let ratio = |rule| row(Quantity::ratio(Figure::Throughput, [fast.clone(), slow.clone()]), rule);
        assert_eq!(ratio(Rule::AtLeast(3.0, Whose::Ours)).verdict, Verdict::Agrees);
        assert_eq!(ratio(Rule::AtLeast(5.0, Whose::Ours)).verdict, Verdict::Differs);
        assert_eq!(ratio(Rule::AtMost(5.0, Whose::Ours)).verdict, Verdict::Agrees);
        for (value, expected) in
            [(2.5, Verdict::Differs), (3.0, Verdict::Agrees), (5.0, Verdict::Agrees), (7.0, Verdict::Differs)]
        {
            assert_eq!(ratio(near(value, 0.0)).verdict, expected, "{value}");
        }
        assert_eq!(ratio(near(5.0, 0.0)).ours, "4.00x (0.80x)");
        assert_eq!(ratio(near(5.0, 0.0)).rule, "within 1.5x");
        // A bound of ours says nothing of the figure; one that is published does.
        let (ours, theirs) =
            (ratio(Rule::AtLeast(3.0, Whose::Ours)), ratio(Rule::AtLeast(5.0, Whose::Theirs)));
        assert_eq!((ours.ours.as_str(), ours.rule.as_str()), ("4.00x", "at least 3x"));
        assert_eq!((theirs.ours.as_str(), theirs.rule.as_str()), ("4.00x (0.80x)", "theirs: at least 5x"));
        assert_eq!(theirs.verdict, Verdict::Differs);
        let loss = row(
            Quantity::loss(Figure::Throughput, [slow.clone(), fast.clone()]),
            Rule::AtMost(12.0, Whose::Theirs),
        );
        assert_eq!((loss.verdict, loss.ours.as_str()), (Verdict::Differs, "75.0% (6.25x)"));
        let points = [&fast, &slow, &fast, &slow].map(Clone::clone);
        let differences = row(Quantity::differences(Figure::Throughput, points), near(1.0, 0.0));
        assert_eq!((differences.verdict, differences.ours.as_str()), (Verdict::Agrees, "1.00x (1.00x)"));
        assert_eq!(claim(Test::NotModelled("later")).judge(&runs).verdict, Verdict::NotModelled);
        // A point that has not run leaves nothing to judge.
        let other = point("ticket");
        let unknown =
            row(Quantity::ratio(Figure::Throughput, [other, slow.clone()]), Rule::AtLeast(1.0, Whose::Ours));
        assert_eq!((unknown.verdict, unknown.ours.as_str()), (Verdict::NotModelled, "not run"));
    }

    #[test]
    fn variants_widen_the_band_and_those_with_another_verdict_are_named() {
        let (slow, fast) = (point("tas"), point("mcs-spin"));
        let of = |throughput| HashMap::from([(&slow, runs(10.0)), (&fast, runs(throughput))]);
        let quantity = Quantity::ratio(Figure::Throughput, [fast.clone(), slow.clone()]);
        let claim = claim(Test::Simulated(quantity, Rule::AtLeast(3.0, Whose::Ours)));
        let variants = [("a", of(20.0)), ("b", of(70.0)), ("c", HashMap::new())];
        let on_variants = claim.judge_on_variants(&of(40.0), &variants).expect("it was simulated");
        assert_eq!(on_variants, OnVariants { band: "2.00 to 7.00".to_owned(), differs_with: vec!["a"] });
        assert_eq!(claim.judge_on_variants(&HashMap::new(), &variants), None);
    }

    #[test]
    fn bytes_are_measured_and_compared() {
        let row = |than, (least, most)| {
            let memory = Memory { lock: "ticket", everywhere: true, than };
            claim(Test::Memory(memory, Rule::Between(least, most))).judge(&HashMap::new())
        };
        let published = row(Than::Bytes(80), (9.0, 11.0));
        assert_eq!((published.ours.as_str(), published.verdict), ("10.0x (8 of 80 bytes)", Verdict::Agrees));
        assert_eq!(row(Than::Bytes(80), (11.0, 12.0)).verdict, Verdict::Differs);
        // It has lines of its own for each node.
        let ours = row(Than::Lock("c-tkt-tkt"), (20.0, 10_000.0));
        assert_eq!(ours.verdict, Verdict::Agrees, "{}", ours.ours);
    }
}
