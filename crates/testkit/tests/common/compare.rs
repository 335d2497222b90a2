//! Compares what a program of the suite prints with what it prints under plain glibc, line by line.

use std::fmt;

/// An outcome that differs from glibc's on purpose.
#[derive(Debug)]
pub(crate) struct Deviation {
    /// `case: step`, as printed.
    pub(crate) step: &'static str,
    /// glibc's outcome.
    pub(crate) glibc: &'static str,
    /// Ours.
    pub(crate) ours: &'static str,
    /// Whether it holds under `passthrough` too, where glibc serves every lock.
    pub(crate) passthrough: bool,
    /// Why ours is right, or as good as can be had.
    pub(crate) reason: &'static str,
}

/// A case whose lines are not those of glibc.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) case: String,
    /// Pairs of lines, glibc's and ours; the missing one is empty.
    pub(crate) lines: Vec<(String, String)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 6;
        for (glibc, ours) in self.lines.iter().take(SHOWN) {
            writeln!(f, "  glibc: {glibc}\n  ours:  {ours}")?;
        }
        match self.lines.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more lines of {}", self.case),
        }
    }
}

/// The differences, case by case in glibc's order, and then cases that glibc's output does not have.
pub(crate) fn differences(glibc: &str, ours: &str, allowed: &[&Deviation]) -> Vec<Difference> {
    let mut cases: Vec<&str> = Vec::new();
    for case in glibc.lines().chain(ours.lines()).map(case_of) {
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let lines_of = |text: &str, case: &str| -> Vec<String> {
        text.lines().filter(|line| case_of(line) == case).map(str::to_owned).collect()
    };
    let difference = |case: &str| {
        let (expected, got) = (lines_of(glibc, case), lines_of(ours, case));
        let lines: Vec<_> = (0..expected.len().max(got.len()))
            .map(|i| [&expected, &got].map(|lines| lines.get(i).cloned().unwrap_or_default()))
            .filter(|[expected, got]| expected != got && !is_allowed(expected, got, allowed))
            .map(|[expected, got]| (expected, got))
            .collect();
        (!lines.is_empty()).then(|| Difference { case: case.to_owned(), lines })
    };
    cases.into_iter().filter_map(difference).collect()
}

fn case_of(line: &str) -> &str {
    line.split_once(": ").map_or(line, |(case, _)| case)
}

fn is_allowed(glibc: &str, ours: &str, allowed: &[&Deviation]) -> bool {
    allowed.iter().any(|deviation| {
        let line = |outcome| format!("{}: {outcome}", deviation.step);
        glibc == line(deviation.glibc) && ours == line(deviation.ours)
    })
}
