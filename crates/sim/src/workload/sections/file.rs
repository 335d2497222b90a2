//! The file of a profile.
//!
//! ```toml
//! unit = "ns"                     # of all times; "cycles" where nothing is said
//! think = "exponential:2000"      # between two sections
//!
//! [[lock]]
//! name = "cache"
//! share = 3                       # sections, relative to the other locks' shares; 1 where nothing is said
//! hold = [[100, 50], [400, 30], [2000, 1]]   # a histogram: values, each with a count
//! lines = "uniform:1-4"           # 1 where nothing is said
//! instances = 8                   # 1 where nothing is said
//! reads = 0.9                     # the part of the sections that only read; 0 where nothing is said
//! ```

use std::path::Path;

use serde::Deserialize;

use super::{Kind, Quantity, Sections};
use crate::file::{self, FileError};
use crate::workload::Distribution;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    unit: Unit,
    think: Quantity,
    lock: Vec<Lock>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Cycles,
    Ns,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lock {
    name: Option<String>,
    #[serde(default = "Share::one")]
    share: Share,
    #[serde(default)]
    instances: Instances,
    hold: Quantity,
    #[serde(default)]
    lines: LineCount,
    #[serde(default)]
    reads: Part,
}

/// From 0 to 1.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "f64")]
struct Part(f64);

impl TryFrom<f64> for Part {
    type Error = String;

    fn try_from(part: f64) -> Result<Self, String> {
        match part {
            0.0..=1.0 => Ok(Self(part)),
            _ => Err(format!("`reads` is {part}: a part of all sections, from 0 to 1")),
        }
    }
}

/// More than 0.
#[derive(Debug, Deserialize)]
#[serde(try_from = "f64")]
struct Share(f64);

impl Share {
    fn one() -> Self {
        Self(1.0)
    }
}

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        match share {
            share if share > 0.0 && share.is_finite() => Ok(Self(share)),
            _ => Err(format!("`share` is {share}: a number above 0")),
        }
    }
}

/// At least one.
#[derive(Debug, Deserialize)]
#[serde(try_from = "u64")]
struct Instances(usize);

impl Default for Instances {
    fn default() -> Self {
        Self(1)
    }
}

impl TryFrom<u64> for Instances {
    type Error = String;

    fn try_from(instances: u64) -> Result<Self, String> {
        match instances {
            1..=100_000 => Ok(Self(instances as usize)),
            _ => Err(format!("`instances` is {instances}: between 1 and 100000")),
        }
    }
}

/// A few thousand at most.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Quantity")]
struct LineCount(Quantity);

impl Default for LineCount {
    fn default() -> Self {
        Self(Quantity::Drawn(Distribution::Fixed(1)))
    }
}

impl TryFrom<Quantity> for LineCount {
    type Error = String;

    fn try_from(lines: Quantity) -> Result<Self, String> {
        match lines.most() {
            0..=4096 => Ok(Self(lines)),
            most => Err(format!("`lines` may be {most}: at most 4096")),
        }
    }
}

impl Sections {
    /// Reads the file of a profile: JSON if its name ends so, else TOML.
    ///
    /// # Errors
    ///
    /// If it cannot be read or does not describe sections.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::parse(&path.display().to_string(), &file::text_of(path)?)
    }

    /// The sections that `text` describes; `file` is its name in errors.
    ///
    /// # Errors
    ///
    /// If it does not describe sections.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let Text { unit, think, lock } = file::parse(file, text)?;
        if lock.is_empty() {
            let problem = "no `lock`: there must be at least one".to_owned();
            return Err(FileError { file: file.to_owned(), line: None, problem });
        }
        let kind = |(index, lock): (usize, Lock)| Kind {
            name: lock.name.unwrap_or_else(|| format!("lock {}", index + 1)),
            share: lock.share.0,
            instances: lock.instances.0,
            hold: lock.hold,
            lines: lock.lines.0,
            reads: lock.reads.0,
        };
        let locks = lock.into_iter().enumerate().map(kind).collect();
        Ok(Self { in_nanoseconds: unit == Unit::Ns, think, locks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "unit = \"ns\"\nthink = \"exponential:2000\"\n\n[[lock]]\nname = \"cache\"\nshare = 3\n\
                        hold = [[100, 50], [400, 30]]\nlines = \"uniform:1-4\"\ninstances = 8\n\n[[lock]]\nhold = 700\nreads = 0.5\n";

    const JSON: &str = r#"{"unit": "ns", "think": "exponential:2000", "lock": [
        {"name": "cache", "share": 3, "hold": [[100, 50], [400, 30]], "lines": "uniform:1-4", "instances": 8},
        {"hold": 700, "reads": 0.5}]}"#;

    #[test]
    fn toml_and_json_say_the_same() {
        let sections = Sections::parse("a.toml", TOML).expect("well-formed");
        assert_eq!(sections, Sections::parse("a.json", JSON).expect("well-formed"));
        assert!(sections.in_nanoseconds);
        let [cache, other] = &sections.locks[..] else { panic!("two kinds") };
        assert_eq!((cache.name.as_str(), cache.share, cache.instances), ("cache", 3.0, 8));
        assert_eq!((cache.hold.mean(), cache.lines.most()), ((5_000 + 12_000) / 80, 4));
        assert_eq!((other.name.as_str(), other.share, other.instances), ("lock 2", 1.0, 1));
        assert_eq!((cache.reads, other.reads), (0.0, 0.5));
        assert_eq!(other.hold, Quantity::Drawn(Distribution::Fixed(700)));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (from, to, message) in [
            ("exponential:2000", "normal:3", "a.toml:2: `normal:3` is no time"),
            ("share = 3", "share = 0", "a.toml:6: `share` is 0: a number above 0"),
            ("instances = 8", "instances = 0", "a.toml:9: `instances` is 0"),
            ("uniform:1-4", "uniform:1-5000", "a.toml:8: `lines` may be 5000"),
            ("[[100, 50], [400, 30]]", "[[100, 0]]", "a.toml:7: a histogram has counts"),
            ("[[100, 50], [400, 30]]", "[100]", "a.toml:7: invalid type"),
            ("reads = 0.5", "reads = 1.5", "a.toml:13: `reads` is 1.5: a part of all sections"),
            ("hold = 700", "hole = 700", "a.toml:12: unknown field `hole`"),
            ("\"ns\"", "\"ms\"", "a.toml:1: unknown variant `ms`"),
        ] {
            assert!(TOML.contains(from), "{from}");
            let error = Sections::parse("a.toml", &TOML.replace(from, to)).expect_err(to).to_string();
            assert!(error.starts_with(message), "{error}");
        }
        let error = Sections::parse("a.json", &JSON.replace("\"share\": 3", "\"share\": 0")).expect_err("0");
        assert_eq!((error.line, error.problem.as_str()), (Some(2), "`share` is 0: a number above 0"));
        let error = Sections::parse("a.toml", "think = 5\nlock = []\n").expect_err("no lock");
        assert_eq!(error.to_string(), "a.toml: no `lock`: there must be at least one");
    }
}
