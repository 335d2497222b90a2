//! The published claims, one after the other.
//!
//! The locks spin as they were published: without the yields that Lockwork adds after a while.

mod cst;
mod delegation;
mod gcr;
mod in_place;

use super::{Claim, Test};
use crate::validate::point::{Figure, Load, Point};
use crate::workload::{Distribution, Frame, Micro};

/// What is published of a claim without a figure. The threshold is ours, and said to be.
const IN_WORDS: &str = "in words";

/// How near a published figure must be met.
const WITHIN: f64 = 1.5;

/// Long enough for threads that share CPUs to be preempted some times; what happens before the first of that is not
/// counted.
const SOME_SLICES: Frame = Frame { warm_up: 20_000_000, window: 80_000_000, pinned: false, ..Frame::SHORT };

/// All claims.
#[must_use]
pub fn claims() -> Vec<Claim> {
    [
        in_place::rcl(),
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

fn at_least(
    claim: &str,
    source: &'static str,
    figure: Figure,
    factor: f64,
    more: Point,
    less: Point,
) -> Claim {
    let published = IN_WORDS.to_owned();
    Claim { claim: claim.to_owned(), source, published, test: Test::AtLeast { factor, figure, more, less } }
}

fn at_most(
    claim: &str,
    source: &'static str,
    figure: Figure,
    factor: f64,
    this: Point,
    that: Point,
) -> Claim {
    let published = IN_WORDS.to_owned();
    Claim { claim: claim.to_owned(), source, published, test: Test::AtMost { factor, figure, this, that } }
}

fn cycles(claim: String, source: &'static str, value: f64, point: Point) -> Claim {
    let published = format!("{value} cycles");
    Claim {
        claim,
        source,
        published,
        test: Test::Figure { point, figure: Figure::Section, value, within: WITHIN, slack: 0.0 },
    }
}

/// How near a small number of misses or atomic operations must be met, where a factor says little.
const SLACK: f64 = 0.5;

/// What threads do for a section: a published number of misses or atomic operations.
fn times_a_section(claim: String, source: &'static str, figure: Figure, value: f64, point: Point) -> Claim {
    let published = format!("{value} a section");
    Claim {
        claim,
        source,
        published,
        test: Test::Figure { point, figure, value, within: WITHIN, slack: SLACK },
    }
}

/// How many more misses a section of one point takes than one of another.
fn more_misses(claim: String, source: &'static str, value: f64, this: Point, that: Point) -> Claim {
    let published = format!("{value} more");
    let figure = Figure::Misses;
    Claim {
        claim,
        source,
        published,
        test: Test::Difference { value, within: WITHIN, slack: SLACK, figure, this, that },
    }
}

fn not_modelled(claim: &str, source: &'static str, published: &str, reason: &'static str) -> Claim {
    let published = published.to_owned();
    Claim { claim: claim.to_owned(), source, published, test: Test::NotModelled(reason) }
}

/// A figure of one point as so many times that of another.
fn ratio(claim: &str, source: &'static str, figure: Figure, value: f64, this: Point, that: Point) -> Claim {
    Claim {
        claim: claim.to_owned(),
        source,
        published: format!("{value}x"),
        test: Test::Ratio { value, within: WITHIN, figure, this, that },
    }
}
