//! How long things take, as a profile of a program would say it.

use std::fmt;
use std::str::FromStr;

use crate::random::Random;

/// A distribution of times, in cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Always the same.
    Fixed(u64),
    /// About the same: a tenth more or less.
    About(u64),
    /// Anything between two bounds.
    Uniform(u64, u64),
    /// Mostly short, sometimes long, with this mean.
    Exponential(u64),
}

impl Distribution {
    /// No time at all.
    pub const NONE: Self = Self::Fixed(0);

    /// The next time.
    pub(crate) fn draw(self, random: &mut Random) -> u64 {
        const JITTER: f64 = 0.1;
        match self {
            Self::Fixed(time) => time,
            Self::About(time) => random.jittered(time, JITTER),
            Self::Uniform(low, high) => low + random.below(high - low + 1),
            Self::Exponential(mean) => (-(1.0 - random.fraction()).ln() * mean as f64) as u64,
        }
    }

    /// The mean.
    #[must_use]
    pub fn mean(self) -> u64 {
        match self {
            Self::Fixed(time) | Self::About(time) | Self::Exponential(time) => time,
            Self::Uniform(low, high) => low + (high - low) / 2,
        }
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no time: write cycles (2000: a tenth more or less), fixed:2000, uniform:100-5000 or \
                 exponential:2000, at most a thousand million"
            )
        };
        let number = |text: &str| text.parse::<u64>().ok().filter(|n| *n <= 1_000_000_000).ok_or_else(wrong);
        match text.split_once(':') {
            None => Ok(Self::About(number(text)?)),
            Some(("fixed", time)) => Ok(Self::Fixed(number(time)?)),
            Some(("exponential", mean)) => Ok(Self::Exponential(number(mean)?)),
            Some(("uniform", bounds)) => {
                let (low, high) = bounds.split_once('-').ok_or_else(wrong)?;
                let (low, high) = (number(low)?, number(high)?);
                if low <= high { Ok(Self::Uniform(low, high)) } else { Err(wrong()) }
            }
            Some(_) => Err(wrong()),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(time) => write!(f, "fixed:{time}"),
            Self::About(time) => write!(f, "{time}"),
            Self::Uniform(low, high) => write!(f, "uniform:{low}-{high}"),
            Self::Exponential(mean) => write!(f, "exponential:{mean}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_draws_about_its_mean() {
        for text in ["2000", "fixed:2000", "uniform:100-3900", "exponential:2000"] {
            let distribution: Distribution = text.parse().expect("well-formed");
            assert_eq!(distribution.to_string(), text);
            assert_eq!(distribution.mean(), 2000);
            let mut random = Random::new(3);
            let sum: u64 = (0..10_000).map(|_| distribution.draw(&mut random)).sum();
            assert!((19_000_000..21_000_000).contains(&sum), "{text}: {sum}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "x", "-1", "fixed:", "uniform:5", "uniform:5-4", "normal:3", "2000000000"] {
            assert!(text.parse::<Distribution>().is_err(), "{text}");
        }
    }
}
