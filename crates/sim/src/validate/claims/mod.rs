//! The published claims, one after the other.
//!
//! The locks spin as they were published: without the yields that Lockwork adds after a while.

mod cst;
mod delegation;
mod gcr;
mod in_place;

use super::{Claim, Quantity, Rule, Test, Whose};
use crate::validate::point::{Figure, Load, Point};
use crate::workload::{Distribution, Frame, Micro};

/// What is published of a claim without a figure. The threshold is ours.
const IN_WORDS: &str = "in words";

/// How near a published figure must be met.
const WITHIN: f64 = 1.5;

/// How near a small number of misses or atomic operations must be met, where a factor says little.
const SLACK: f64 = 0.5;

/// Long enough for threads that share CPUs to be preempted some times; what happens before the first of that is not
/// counted.
const SOME_SLICES: Frame = Frame { warm_up: 20_000_000, window: 80_000_000, pinned: false, ..Frame::SHORT };

/// All claims.
#[must_use]
pub fn claims() -> Vec<Claim> {
    [
        delegation::rcl(),
        in_place::sanl(),
        delegation::sanl(),
        in_place::thesis(),
        gcr::claims(),
        cst::claims(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn point(machine: &'static str, lock: &'static str, frame: Frame, load: impl Into<Load>) -> Point {
    Point { machine, lock, frame, load: load.into() }
}

/// Sections of one line, so much time apart.
fn every(delay: Distribution) -> Micro {
    Micro { delay, ..Micro::SHORT }
}

fn claim(
    claim: impl Into<String>,
    source: &'static str,
    published: impl Into<String>,
    quantity: Quantity,
    rule: Rule,
) -> Claim {
    let (claim, published) = (claim.into(), published.into());
    Claim { claim, source, published, test: Test::Simulated(quantity, rule) }
}

/// A published figure, to be met within a factor.
fn near(value: f64) -> Rule {
    Rule::Near { value, within: WITHIN, slack: 0.0 }
}

/// In words, the figure of one point is at least so many times that of another.
fn at_least(
    words: impl Into<String>,
    source: &'static str,
    figure: Figure,
    factor: f64,
    more: Point,
    less: Point,
) -> Claim {
    let quantity = Quantity::ratio(figure, [more, less]);
    claim(words, source, IN_WORDS, quantity, Rule::AtLeast(factor, Whose::Ours))
}

/// In words, it is at most so many times that of another.
fn at_most(
    words: impl Into<String>,
    source: &'static str,
    figure: Figure,
    factor: f64,
    this: Point,
    that: Point,
) -> Claim {
    let quantity = Quantity::ratio(figure, [this, that]);
    claim(words, source, IN_WORDS, quantity, Rule::AtMost(factor, Whose::Ours))
}

/// A figure of one point as so many times that of another.
fn ratio(
    words: impl Into<String>,
    source: &'static str,
    figure: Figure,
    value: f64,
    this: Point,
    that: Point,
) -> Claim {
    claim(words, source, format!("{value}x"), Quantity::ratio(figure, [this, that]), near(value))
}

/// It is more than so many times that of another, as published.
fn more_than(
    words: impl Into<String>,
    source: &'static str,
    figure: Figure,
    value: f64,
    this: Point,
    that: Point,
) -> Claim {
    let quantity = Quantity::ratio(figure, [this, that]);
    claim(words, source, format!("more than {value}x"), quantity, Rule::AtLeast(value, Whose::Theirs))
}

/// The cycles of a section.
fn cycles(words: impl Into<String>, source: &'static str, value: f64, point: Point) -> Claim {
    claim(words, source, format!("{value} cycles"), Quantity::figure(Figure::Section, point), near(value))
}

/// What threads do for a section: a published number of misses or atomic operations.
fn times_a_section(
    words: impl Into<String>,
    source: &'static str,
    figure: Figure,
    value: f64,
    point: Point,
) -> Claim {
    let rule = Rule::Near { value, within: WITHIN, slack: SLACK };
    claim(words, source, format!("{value} a section"), Quantity::figure(figure, point), rule)
}

/// How many more misses a section of one point takes than one of another.
fn more_misses(
    words: impl Into<String>,
    source: &'static str,
    value: f64,
    this: Point,
    that: Point,
) -> Claim {
    let rule = Rule::Near { value, within: WITHIN, slack: SLACK };
    let quantity = Quantity::difference(Figure::Misses, [this, that]);
    claim(words, source, format!("{value} more"), quantity, rule)
}

fn not_modelled(words: &str, source: &'static str, published: &str, reason: &'static str) -> Claim {
    let (claim, published) = (words.to_owned(), published.to_owned());
    Claim { claim, source, published, test: Test::NotModelled(reason) }
}
