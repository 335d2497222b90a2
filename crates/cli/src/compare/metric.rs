//! What is measured of a run: its wall-clock time, or a number in its output.

use lockwork_stats::printed::leading;
use regex::Regex;

/// One figure taken from every run.
#[derive(Debug, Clone)]
pub(crate) struct Metric {
    /// How tables and files call it.
    pub(crate) name: String,
    /// Printed after values; empty when the output does not say.
    pub(crate) unit: &'static str,
    /// Whether more of it is better.
    pub(crate) higher_is_better: bool,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Wall,
    Output(Regex),
}

impl Metric {
    /// The wall-clock time of a run, in seconds.
    pub(crate) fn wall() -> Self {
        Metric { name: "wall".to_owned(), unit: "s", higher_is_better: false, source: Source::Wall }
    }

    /// What a run prints as a line `name: value`.
    pub(crate) fn printed(name: &str, unit: &'static str, higher_is_better: bool) -> Self {
        let pattern = format!("(?m)^{}: (.+)$", regex::escape(name));
        let regex = Regex::new(&pattern).expect("an escaped name is a regular expression");
        Metric { name: name.to_owned(), unit, higher_is_better, source: Source::Output(regex) }
    }

    /// `wall`, or `[+|-][NAME=]REGEX`. `+`: higher is better. A regex that has a name's look up to its first
    /// `=` is written with an empty name: `=time=(\d+)`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (sign, rest) = match text.chars().next() {
            Some('+') => (Some(true), &text[1..]),
            Some('-') => (Some(false), &text[1..]),
            _ => (None, text),
        };
        if rest == "wall" {
            if sign == Some(true) {
                return Err("a longer wall-clock time is never better: leave out the `+`".to_owned());
            }
            return Ok(Metric::wall());
        }
        let (name, pattern) = split_name(rest);
        if pattern.is_empty() {
            return Err(format!(
                "metric `{text}` has no regular expression; write for example '+throughput=(\\d+) ops/sec'"
            ));
        }
        let regex = Regex::new(pattern).map_err(|error| {
            let message = error.to_string();
            let last = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("metric `{text}`: `{pattern}` is no regular expression: {last}")
        })?;
        let name = name.unwrap_or(pattern).to_owned();
        Ok(Metric { name, unit: "", higher_is_better: sign == Some(true), source: Source::Output(regex) })
    }

    /// Whether the metric is the wall-clock time.
    pub(crate) fn is_wall(&self) -> bool {
        matches!(self.source, Source::Wall)
    }

    /// The metric's value in a run of `wall` seconds that printed `output`; the last match counts.
    pub(crate) fn value<'a>(&self, wall: f64, output: impl IntoIterator<Item = &'a str>) -> Option<f64> {
        match &self.source {
            Source::Wall => Some(wall),
            Source::Output(regex) => output.into_iter().find_map(|text| {
                let found = regex.captures_iter(text).last()?;
                let matched = found.iter().skip(1).flatten().next().or_else(|| found.get(0))?;
                number_in(matched.as_str(), &text[matched.end()..])
            }),
        }
    }
}

/// Splits `NAME=REGEX`; a name is made of letters, digits, `_`, `.`, `/`, `%` and inner blanks or hyphens.
fn split_name(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some(("", pattern)) => (None, pattern),
        Some((name, pattern))
            if name.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_alphanumeric() || "_./% -".contains(c)) =>
        {
            (Some(name.trim()), pattern)
        }
        _ => (None, text),
    }
}

/// The first number in `text`, scaled by a k, M, G or T that follows it, in `text` or just `after` it.
fn number_in(text: &str, after: &str) -> Option<f64> {
    let mut begin = text.find(|c: char| c.is_ascii_digit())?;
    // A fraction without its zero, then a sign, belong to the number.
    for mark in ['.', '-'] {
        if text[..begin].ends_with(mark) {
            begin -= 1;
        }
    }
    let (value, rest) = leading(&text[begin..])?;
    Some(value * scale(if rest.is_empty() { after } else { rest }))
}

/// What a suffix multiplies by: `1.2M`, `1.2Mops`, `1.2 M`, `1.2 MiB`, but not `2 Threads`, nor `2Threads`.
fn scale(suffix: &str) -> f64 {
    let suffix = suffix.strip_prefix(' ').unwrap_or(suffix);
    let mut chars = suffix.chars();
    let power = match chars.next() {
        Some('k' | 'K') => 1,
        Some('M') => 2,
        Some('G') => 3,
        Some('T') => 4,
        _ => return 1.0,
    };
    let rest = chars.as_str();
    let unit = rest.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default().to_ascii_lowercase();
    let known = [
        "", "b", "ib", "i", "bit", "bits", "bps", "ops", "op", "req", "reqs", "rps", "tps", "qps", "pps",
        "iops", "hz", "flops", "tx", "txn", "events", "cycles",
    ];
    if !known.contains(&unit.as_str()) {
        return 1.0;
    }
    let base: f64 = if unit.starts_with('i') && unit != "iops" { 1024.0 } else { 1000.0 };
    base.powi(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(metric: &str, output: &str) -> Option<f64> {
        Metric::parse(metric).unwrap().value(1.5, [output])
    }

    #[test]
    fn wall_needs_no_output() {
        assert_eq!(value("wall", ""), Some(1.5));
        assert!(Metric::parse("+wall").is_err());
    }

    #[test]
    fn last_match_first_group() {
        let text = "readrandom : 1.1 micros/op 900 ops/sec;\nreadrandom : 0.9 micros/op 1,234,567 ops/sec;\n";
        assert_eq!(value(r"([\d,]+) ops/sec", text), Some(1_234_567.0));
        assert_eq!(value(r"[\d,]+ ops/sec", text), Some(1_234_567.0));
        assert_eq!(value(r"(?:foo: (\d+))|([\d.]+) micros", text), Some(0.9));
        assert_eq!(value("absent (.*)", text), None);
        assert_eq!(value("readrandom", text), None, "a match without a number is no value");
    }

    #[test]
    fn numbers() {
        for (text, expected) in [
            ("12", 12.0),
            ("-3.5", -3.5),
            (".5", 0.5),
            ("1e-3", 0.001),
            ("12e", 12.0),
            ("1_000", 1000.0),
            ("1,000.25", 1000.25),
            ("3k", 3000.0),
            ("1.5M", 1_500_000.0),
            ("1.5Mops/s", 1_500_000.0),
            ("2 GiB", 2.0 * 1024.0 * 1024.0 * 1024.0),
            ("2 MB", 2_000_000.0),
            ("2 Threads", 2.0),
            ("2Threads", 2.0),
            ("3Kreq", 3000.0),
            ("1.5GHz", 1_500_000_000.0),
            ("2 Mice", 2.0),
            ("7 ms", 7.0),
            ("4, 5", 4.0),
            ("1.234,5 s", 1234.5),
            ("1,234,567 ops", 1_234_567.0),
            ("3,52 s", 3.52),
            ("0,125 s", 0.125),
            ("12,5k", 12_500.0),
            ("1,2345", 1.2345),
        ] {
            assert_eq!(number_in(text, ""), Some(expected), "{text}");
        }
        assert_eq!(value(r"([\d.]+)[kM]", "1.5M"), Some(1_500_000.0), "the suffix may follow the group");
        assert_eq!(number_in("1.5,2.5", ""), None, "which of the two is not said");
    }

    #[test]
    fn names_and_directions() {
        let metric = Metric::parse(r"+throughput=(\d+) ops/sec").unwrap();
        assert_eq!((metric.name.as_str(), metric.higher_is_better), ("throughput", true));
        let metric = Metric::parse(r"-p99=P99: ([\d.]+)").unwrap();
        assert_eq!((metric.name.as_str(), metric.higher_is_better), ("p99", false));
        let metric = Metric::parse(r"=time=(\d+)").unwrap();
        assert_eq!(metric.name, r"time=(\d+)");
        assert!(Metric::parse("x=(").unwrap_err().contains("no regular expression"));
        assert!(Metric::parse("+").is_err());
    }

    proptest::proptest! {
        #[test]
        fn numbers_never_panic(text in ".{0,30}", after in ".{0,10}") {
            let _ = number_in(&text, &after);
        }
    }
}
