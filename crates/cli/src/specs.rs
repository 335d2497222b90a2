//! Lock specs as users type them.

use lockwork_locks::registry::Choice;

use crate::error::Failure;

/// The spec that means: no library at all.
pub(crate) const NO_PRELOAD: &str = "pthread";

/// Parses a spec; the error is a sentence that names the mend.
pub(crate) fn parse(text: &str) -> Result<Choice, Failure> {
    if text.trim() == NO_PRELOAD {
        return Err(Failure::usage(
            "`pthread` means no Lockwork at all, which only `compare` knows; start the program without \
             `lockwork run`, or use `passthrough`",
        ));
    }
    Choice::parse(text).map_err(|error| match error.offset() {
        0 => Failure::usage(error),
        offset => {
            let column = text.get(..offset).map_or(0, |before| before.chars().count()) + 1;
            Failure::usage(format!("in `{text}`, column {column}: {error}"))
        }
    })
}

/// For what measures mutexes alone.
pub(crate) fn no_mutex(spec: &str) -> Failure {
    Failure::usage(format!(
        "`{spec}` says what serves reader-writer locks, and only mutexes are measured here: name a mutex alone"
    ))
}

/// The parts of a text between commas that are not inside parentheses.
pub(crate) fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_inside_parentheses_do_not_split() {
        assert_eq!(
            split_outside_parentheses("pthread,gcr(mcs-stp, active=4),ttas"),
            ["pthread", "gcr(mcs-stp, active=4)", "ttas"]
        );
        assert_eq!(split_outside_parentheses("a)),b"), ["a))", "b"]);
    }
}
