//! What the library says it served, as it reports it at the end of a process (`LOCKWORK_VERBOSE`).
//!
//! ```text
//! lockwork: db_bench[4242]: served 3 mutexes by mcs-stp, 2 conditions; forwarded to glibc 1 mutexes, 0 rwlocks
//! ```
//!
//! Every process of a run says its own line; here they are added up. Files keep the sum in the same words, from `served`
//! on.

use std::fmt;
use std::str::FromStr;

use lockwork_config::report::{FORWARDED, NOTHING, SERVED, divide};
use lockwork_locks::registry::Spec;

use crate::specs::split_outside_parentheses;

/// Said where all locks are glibc's, so that only those are counted that were initialised.
const ALL: &str = "all locks, of which it initialised ";
const RWLOCKS: &str = "rwlocks";

/// The locks of a run by kind and by what served them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Served {
    ours: Vec<Count>,
    glibc: Vec<Count>,
    /// All locks were glibc's, and only initialised ones are counted.
    forwards_all: bool,
}

/// So many locks of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Count {
    number: u64,
    /// In the plural: `mutexes`.
    kind: String,
    /// What served them, where there is a choice.
    by: Option<String>,
}

impl Served {
    /// The sum of what all processes said in a run's output; `None` if none did.
    pub(crate) fn read<'a>(output: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let lines = output.into_iter().flat_map(str::lines);
        let each = lines.filter_map(|line| divide(line)?.1.parse::<Served>().ok());
        each.reduce(|mut sum, other| {
            sum.forwards_all |= other.forwards_all;
            other.ours.into_iter().for_each(|count| add(&mut sum.ours, count));
            other.glibc.into_iter().for_each(|count| add(&mut sum.glibc, count));
            sum
        })
    }

    /// Whether both mutexes and reader-writer locks were served.
    pub(crate) fn is_of_both_kinds(&self) -> bool {
        ["mutexes", RWLOCKS].iter().all(|kind| self.ours.iter().any(|count| count.kind == *kind))
    }

    /// Whether any lock was served by this one, in canonical spelling.
    pub(crate) fn is_any_by(&self, lock: &str) -> bool {
        self.ours.iter().any(|count| count.by.as_deref() == Some(lock))
    }

    /// Whether no lock at all was served.
    pub(crate) fn is_nothing(&self) -> bool {
        self.ours.is_empty()
    }
}

fn add(counts: &mut Vec<Count>, count: Count) {
    match counts.iter_mut().find(|known| known.kind == count.kind && known.by == count.by) {
        Some(known) => known.number += count.number,
        None => counts.push(count),
    }
}

impl FromStr for Served {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (ours, glibc) = text.strip_prefix(SERVED).and_then(|text| text.split_once(FORWARDED)).ok_or(())?;
        let counted = glibc.strip_prefix(ALL);
        let mut ours = counts(ours)?;
        // The default is not always named.
        for count in ours.iter_mut().filter(|count| count.kind == RWLOCKS && count.by.is_none()) {
            count.by = Some(Spec::DEFAULT_RWLOCK.to_string());
        }
        Ok(Served { ours, glibc: counts(counted.unwrap_or(glibc))?, forwards_all: counted.is_some() })
    }
}

/// The counts of a list, but for those of what was not there.
fn counts(text: &str) -> Result<Vec<Count>, ()> {
    let parts = split_outside_parentheses(text).into_iter().map(str::trim);
    let mut counts: Vec<Count> = parts
        .filter(|part| !part.is_empty() && *part != NOTHING)
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    counts.retain(|count| count.number > 0);
    Ok(counts)
}

impl FromStr for Count {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (number, what) = text.split_once(' ').ok_or(())?;
        let number = number.parse().map_err(|_| ())?;
        let (kind, by) = match what.split_once(" by ") {
            Some((kind, by)) => (kind, Some(by.to_owned())),
            None => (what, None),
        };
        Ok(Count { number, kind: kind.to_owned(), by })
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.kind)?;
        self.by.as_ref().map_or(Ok(()), |by| write!(f, " by {by}"))
    }
}

/// As the library says it, without what was not there.
impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |counts: &[Count]| {
            let all: Vec<String> = counts.iter().map(Count::to_string).collect();
            if all.is_empty() { NOTHING.to_owned() } else { all.join(", ") }
        };
        let all = if self.forwards_all { ALL } else { "" };
        write!(f, "{SERVED}{}{FORWARDED}{all}{}", list(&self.ours), list(&self.glibc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "lockwork: db_bench[4242]: served 3 mutexes by gcr(mcs-stp, active=4), 2 conditions, 1 rwlocks; \
                        forwarded to glibc 1 mutexes, 0 conditions, 0 rwlocks, 0 spin locks";

    #[test]
    fn a_line_of_the_library() {
        assert_eq!(divide(LINE).map(|(before, _)| before), Some(""));
        let served = Served::read([LINE]).expect("a report");
        assert_eq!(
            served.to_string(),
            "served 3 mutexes by gcr(mcs-stp, active=4), 2 conditions, 1 rwlocks by rw-futex; forwarded to glibc \
             1 mutexes"
        );
        assert_eq!(served.to_string().parse(), Ok(served.clone()), "files keep it in the same words");
        assert!(served.is_of_both_kinds());
    }

    #[test]
    fn processes_are_added_up() {
        let other = "lockwork: sh[7]: served 2 mutexes by ticket, 1 conditions; forwarded to glibc 2 mutexes";
        let both = format!("score: 12\n{LINE}\nmore\n{other}\n");
        assert_eq!(
            Served::read([both.as_str()]).expect("reports").to_string(),
            "served 3 mutexes by gcr(mcs-stp, active=4), 3 conditions, 1 rwlocks by rw-futex, 2 mutexes by ticket; \
             forwarded to glibc 3 mutexes"
        );
    }

    /// As `db_bench` leaves its standard error stream, of which the program's part stays the program's.
    #[test]
    fn behind_a_line_without_an_end() {
        const COUNTS: &str =
            "... finished 100000 ops\r... finished 200000 ops                              \r";
        for begun in [COUNTS, "Waiting for threads ... "] {
            let line = format!("{begun}{LINE}");
            assert_eq!(divide(&line).map(|(before, _)| before), Some(begun));
            let served = Served::read([format!("DB path: [/tmp/db]\n{line}\n").as_str()]);
            assert_eq!(served, Served::read([LINE]), "{line:?}");
            assert!(served.is_some());
        }
        assert_eq!(divide(COUNTS), None);
    }

    #[test]
    fn nothing_and_all() {
        let all = "served nothing; forwarded to glibc all locks, of which it initialised 5 mutexes";
        let served: Served = all.parse().expect("a report");
        assert!(served.is_nothing() && !served.is_of_both_kinds());
        assert_eq!(served.to_string(), all);
        for other in ["lockwork: served 3 mutexes", "lockwork: run[1]: cannot start", "P99: 12"] {
            assert_eq!(divide(other), None, "{other}");
        }
        assert!(Served::read(["P99: 12"]).is_none());
    }
}
