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

#[cfg(test)]
mod tests {
    use super::*;

    const GLIBC: &str = "a: lock: OK\na: unlock: OK\nb: wait: never returns\n";

    #[test]
    fn equal_outputs_have_no_difference() {
        assert_eq!(differences(GLIBC, GLIBC, &[]), []);
    }

    #[test]
    fn another_outcome_a_missing_line_and_an_extra_case_are_differences() {
        let found = differences(GLIBC, "a: lock: EBUSY\nb: wait: never returns\nc: HANG\n", &[]);
        let cases: Vec<_> = found.iter().map(|difference| difference.case.as_str()).collect();
        assert_eq!(cases, ["a", "c"]);
        assert_eq!(found[0].lines.len(), 2);
    }

    #[test]
    fn only_the_allowed_outcome_is_allowed() {
        let deviation = Deviation {
            step: "b: wait",
            glibc: "never returns",
            ours: "EBUSY",
            passthrough: false,
            reason: "a hang helps nobody",
        };
        let with = |outcome| format!("a: lock: OK\na: unlock: OK\nb: wait: {outcome}\n");
        assert_eq!(differences(GLIBC, &with("EBUSY"), &[&deviation]), []);
        assert_eq!(differences(GLIBC, &with("OK"), &[&deviation]).len(), 1);
        assert_eq!(differences(GLIBC, &with("EBUSY"), &[]).len(), 1);
    }
}
