//! Figures taken from what a run prints.

use lockwork_stats::printed::whole;
use regex::Regex;
use serde::{Deserialize, Serialize};

/// What counts where a pattern matches several times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// The last match.
    #[default]
    Last,
    /// The mean of all: a steady state of which a line is printed now and then.
    Mean,
    /// The sum: a line for each thread.
    Sum,
    /// The highest: of percentiles of several threads.
    Max,
}

/// A regular expression whose first group is a number; alone, or with what is to be done with the number.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MetricPattern {
    /// The pattern alone.
    Pattern(String),
    /// With more.
    More(More),
}

/// A pattern and what is to be done with its matches.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct More {
    pattern: String,
    /// What the number is multiplied by: 1e-6 for microseconds.
    #[serde(default = "one")]
    scale: f64,
    #[serde(default)]
    take: Take,
}

fn one() -> f64 {
    1.0
}

impl MetricPattern {
    fn parts(&self) -> (&str, f64, Take) {
        match self {
            MetricPattern::Pattern(pattern) => (pattern, 1.0, Take::Last),
            MetricPattern::More(More { pattern, scale, take }) => (pattern, *scale, *take),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let (pattern, ..) = self.parts();
        let regex = Regex::new(pattern).map_err(|error| {
            let message = error.to_string();
            format!("`{pattern}` is no regular expression: {}", message.lines().last().unwrap_or_default())
        })?;
        match regex.captures_len() {
            0 | 1 => Err(format!("`{pattern}` has no group (…) around the number")),
            _ => Ok(()),
        }
    }

    /// All numbers, in their order.
    ///
    /// # Panics
    ///
    /// If the pattern is no regular expression; a campaign that was read has none such.
    #[must_use]
    pub fn all(&self, text: &str) -> Vec<f64> {
        let (pattern, scale, _) = self.parts();
        let regex = Regex::new(pattern).expect("checked when the campaign was read");
        let numbers = regex.captures_iter(text).filter_map(|found| {
            // A comma may end the column.
            whole(found.get(1)?.as_str().trim().trim_end_matches(','))
        });
        numbers.map(|number| number * scale).collect()
    }

    /// The one number that counts.
    ///
    /// # Panics
    ///
    /// As [`MetricPattern::all`].
    #[must_use]
    pub fn value(&self, text: &str) -> Option<f64> {
        let all = self.all(text);
        match self.parts().2 {
            Take::Last => all.last().copied(),
            Take::Mean => lockwork_stats::mean(&all),
            Take::Sum => (!all.is_empty()).then(|| all.iter().sum()),
            Take::Max => all.into_iter().reduce(f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_matches_become_one_number() {
        let text = "t0 1,000 us\nt1 3000, us\nt2 nan us\n";
        let take = |take| {
            MetricPattern::More(More { pattern: r"t\d (\S+) us".to_owned(), scale: 1e-3, take }).value(text)
        };
        assert_eq!([Take::Last, Take::Mean, Take::Sum, Take::Max].map(take), [3.0, 2.0, 4.0, 3.0].map(Some));
        assert_eq!(MetricPattern::Pattern("x(.*)".to_owned()).value(text), None);
        assert!(MetricPattern::Pattern("x.*".to_owned()).check().is_err(), "no group");
    }
}
