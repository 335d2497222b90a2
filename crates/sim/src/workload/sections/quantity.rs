//! A quantity that is drawn for every section: from a distribution, or from a histogram that was measured.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

use crate::random::Random;
use crate::workload::Distribution;

/// A time, or a number of lines.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantity {
    /// By a formula.
    Drawn(Distribution),
    /// As measured: values, each with how many were at most that and not among the values before it. Not empty, and not
    /// all 0.
    Measured(Arc<[(u64, u64)]>),
}

impl Quantity {
    /// The next one.
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Self::Drawn(distribution) => distribution.draw(random),
            Self::Measured(values) => {
                let all: u64 = values.iter().map(|(_, count)| count).sum();
                let mut chosen = random.below(all);
                for (value, count) in values.iter() {
                    match chosen.checked_sub(*count) {
                        Some(rest) => chosen = rest,
                        None => return *value,
                    }
                }
                unreachable!("what is chosen is less than the sum of all counts")
            }
        }
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> u64 {
        match self {
            Self::Drawn(distribution) => distribution.mean(),
            Self::Measured(values) => {
                let (mut sum, mut all) = (0_u128, 0_u128);
                for (value, count) in values.iter() {
                    sum += u128::from(*value) * u128::from(*count);
                    all += u128::from(*count);
                }
                (sum / all.max(1)) as u64
            }
        }
    }

    /// The most that can be drawn; of an exponential distribution, which has no bound, ten means.
    #[must_use]
    pub fn most(&self) -> u64 {
        match self {
            Self::Drawn(Distribution::Fixed(value) | Distribution::Uniform(_, value)) => *value,
            Self::Drawn(Distribution::About(value)) => value + value / 10,
            Self::Drawn(Distribution::Exponential(mean)) => 10 * mean,
            Self::Measured(values) => values.iter().map(|(value, _)| *value).max().unwrap_or(0),
        }
    }

    /// The same in another unit.
    pub(super) fn times(&self, factor: f64) -> Self {
        if factor == 1.0 {
            return self.clone();
        }
        let scaled = |value: u64| (value as f64 * factor).round() as u64;
        match self {
            Self::Drawn(distribution) => Self::Drawn(match *distribution {
                Distribution::Fixed(value) => Distribution::Fixed(scaled(value)),
                Distribution::About(value) => Distribution::About(scaled(value)),
                Distribution::Uniform(low, high) => Distribution::Uniform(scaled(low), scaled(high)),
                Distribution::Exponential(mean) => Distribution::Exponential(scaled(mean)),
            }),
            Self::Measured(values) => {
                Self::Measured(values.iter().map(|(value, count)| (scaled(*value), *count)).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a number, a distribution such as \"exponential:2000\", or a histogram: [[value, count], …]",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map(Quantity::Drawn).map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
                self.visit_str(&format!("fixed:{value}"))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
                self.visit_str(&format!("fixed:{value}"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<Quantity, A::Error> {
                let mut values: Vec<(u64, u64)> = Vec::new();
                while let Some(pair) = pairs.next_element()? {
                    values.push(pair);
                }
                let all = values.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
                match all {
                    Some(1..) => Ok(Quantity::Measured(values.into())),
                    _ => Err(de::Error::custom("a histogram has counts, some of them more than 0")),
                }
            }
        }

        deserializer.deserialize_any(Read)
    }
}
