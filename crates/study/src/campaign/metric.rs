//! Figures taken from what a run prints.

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
        let numbers = regex.captures_iter(text).filter_map(|found| number(found.get(1)?.as_str()));
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

/// A number. A comma before three digits separates thousands; any other, and one behind a single 0, is what some languages
/// write for the point, as `lockwork compare` has it. A number with a point before a comma, infinity and NaN are no figures.
fn number(text: &str) -> Option<f64> {
    let text = text.trim().trim_end_matches(',');
    let mut plain = String::new();
    for (at, character) in text.char_indices() {
        if character != ',' {
            plain.push(character);
            continue;
        }
        if plain.contains('.') {
            return None;
        }
        let group = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        if group != 3 || plain.trim_start_matches(['-', '+']) == "0" {
            plain.push('.');
        }
    }
    plain.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_matches_become_one_number() {
        let text = "t0 1,000 us\nt1 3000 us\nt2 nan us\n";
        let take = |take| {
            MetricPattern::More(More { pattern: r"t\d (\S+) us".to_owned(), scale: 1e-3, take }).value(text)
        };
        assert_eq!([Take::Last, Take::Mean, Take::Sum, Take::Max].map(take), [3.0, 2.0, 4.0, 3.0].map(Some));
        assert_eq!(MetricPattern::Pattern("x(.*)".to_owned()).value(text), None);
        assert!(MetricPattern::Pattern("x.*".to_owned()).check().is_err(), "no group");
    }

    #[test]
    fn commas_are_between_thousands_or_are_points() {
        for (text, value) in [
            ("1,234,567", Some(1_234_567.0)),
            ("1,234.5", Some(1234.5)),
            ("12,5", Some(12.5)),
            ("0,125", Some(0.125)),
            ("-0,125", Some(-0.125)),
            ("1,25e3", Some(1250.0)),
            (" 12, ", Some(12.0)),
            ("1.234,5", None),
            ("12,34,56", None),
            ("inf", None),
            ("", None),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
