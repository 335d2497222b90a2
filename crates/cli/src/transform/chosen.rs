//! `--from PROFILE`: which locks of a profile are worth delegating, and where the program takes them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use lockwork_reengineer::{Frame, Project, Seen};
use serde_json::{Value, json};

use crate::advise::WORTH;
use crate::error::Failure;
use crate::profile;
use crate::profile::delegation::{self, Share};
use crate::profile::table::percent;
use crate::profile::view::{OWN_LIBRARY, Row, View};

/// Locks below the thresholds that are named; the others are counted.
const NAMED: usize = 8;

/// When a mutex of a profile is worth delegating.
#[derive(Debug, Args)]
pub(super) struct Thresholds {
    /// Of a profile: the least part of the threads' time in a mutex's sections, waiting included [default: 20 of a profile under
    /// glibc's locks, 70 under MCS]
    #[arg(long, value_name = "PERCENT", value_parser = part)]
    share: Option<f64>,
    /// Of a profile: the least part of the threads' time that they wait for the mutex [default: 1]
    #[arg(long, value_name = "PERCENT", value_parser = part)]
    waited: Option<f64>,
}

impl Thresholds {
    pub(super) fn are_given(&self) -> bool {
        self.share.is_some() || self.waited.is_some()
    }
}

/// A percentage as a part of one.
fn part(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a percentage from 0 to 100 is expected, such as 20".to_owned()),
    }
}

/// A lock of the profile.
#[derive(Debug)]
struct Candidate {
    name: String,
    site: String,
    kind: &'static str,
    served_by: String,
    /// How many locks these are: elements of an array, or those that one place initialised.
    locks: usize,
    /// The time in the sections of the hottest of them.
    in_sections: Share,
    /// The time that threads waited for that one.
    waited: f64,
    /// The time in the sections of all of them.
    in_all: Share,
    /// Whether the thresholds choose it.
    is_worth: bool,
    /// Why it is left alone, by the thresholds or because it cannot be found in the text; `None` if it is chosen.
    left: Option<String>,
    /// Its lock calls that were seen, if it is worth delegating: the frames of their stacks that have lines.
    calls: Vec<Vec<Frame>>,
    /// The files that others of its lock calls are in, which have no debug information.
    blind: BTreeSet<String>,
    /// The lines of the calls that begin sections.
    sections: BTreeSet<String>,
}

/// What a profile says of all its locks.
#[derive(Debug)]
pub(super) struct Chosen {
    file: PathBuf,
    program: String,
    in_sections: Share,
    candidates: Vec<Candidate>,
}

impl Chosen {
    /// Reads a profile, and judges its locks.
    pub(super) fn read(file: &Path, args: &Thresholds) -> Result<Self, Failure> {
        let view = profile::open(file)?;
        let candidates = view.locks.iter().map(|row| Candidate::of(&view, row, args));
        let mut chosen = Self {
            file: file.to_owned(),
            program: view.profile.name.clone(),
            in_sections: delegation::in_sections(&view),
            candidates: candidates.collect(),
        };
        for (candidate, row) in chosen.candidates.iter_mut().zip(&view.locks) {
            if candidate.is_worth {
                let calls = calls(&view, row);
                check_age(file, &view, &calls)?;
                candidate.find_calls(&view, &calls);
            }
        }
        Ok(chosen)
    }

    /// The lock calls of all mutexes that are worth delegating.
    pub(super) fn calls(&self) -> Vec<Vec<Frame>> {
        self.candidates.iter().flat_map(|candidate| candidate.calls.clone()).collect()
    }

    /// Takes in what the calls are in the program's text. That none is in it is an error.
    pub(super) fn place(&mut self, project: &Project) -> Result<(), Failure> {
        let mut seen = project.seen.iter();
        let worth: Vec<&mut Candidate> =
            self.candidates.iter_mut().filter(|it| !it.calls.is_empty()).collect();
        for candidate in worth {
            let seen: Vec<&Seen> = seen.by_ref().take(candidate.calls.len()).collect();
            candidate.place(&seen);
        }
        if self.candidates.iter().any(|candidate| candidate.left.is_none()) {
            return Ok(());
        }
        let reasons: Vec<String> = self
            .candidates
            .iter()
            .filter(|candidate| candidate.is_worth)
            .map(|candidate| format!("{}: {}", candidate.name, candidate.left.as_deref().unwrap_or_default()))
            .collect();
        Err(Failure::usage(format!(
            "no mutex that is worth delegating by `{}`, of {}, is found in these files: {}",
            self.file.display(),
            self.program,
            reasons.join("; ")
        )))
    }

    /// Whether the thresholds leave nothing.
    pub(super) fn is_empty(&self) -> bool {
        !self.candidates.iter().any(|candidate| candidate.is_worth)
    }

    /// One line for a profile that has nothing worth delegating.
    pub(super) fn nothing(&self) -> String {
        let most = self.candidates.iter().max_by(|a, b| {
            let value = |it: &Candidate| it.in_sections.value;
            value(a).total_cmp(&value(b))
        });
        let most = most.map_or_else(String::new, |it| {
            format!(
                "; the most is {}, with {}: {}",
                it.name,
                it.figures(),
                it.left.as_deref().unwrap_or_default()
            )
        });
        format!("Nothing is worth delegating in {}{most}\n", self.program)
    }

    /// A line for each lock that is chosen or of note.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{}: {}: {} of its threads' time in sections, waiting for them included\n",
            self.file.display(),
            self.program,
            shown(self.in_sections)
        );
        let mut others = 0;
        for (number, it) in self.candidates.iter().enumerate() {
            let place = format!("{} ({}): {}", it.name, it.site, it.figures());
            // Writing to a String cannot fail.
            let _ = match &it.left {
                None => {
                    let sections = it.sections.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                    writeln!(text, "  chosen  {place}; taken at {sections}")
                }
                Some(reason) if number < NAMED || it.is_worth => {
                    writeln!(text, "  left    {place}: {reason}")
                }
                Some(_) => {
                    others += 1;
                    Ok(())
                }
            };
        }
        if others > 0 {
            let _ = writeln!(text, "  left    {others} more, for which threads wait less (--json has all)");
        }
        text.push('\n');
        text
    }

    pub(super) fn json(&self) -> Value {
        let locks: Vec<Value> = self.candidates.iter().map(Candidate::json).collect();
        json!({
            "file": self.file,
            "program": self.program,
            "section_share": self.in_sections.value,
            "section_share_error": self.in_sections.error,
            "locks": locks,
        })
    }
}

impl Candidate {
    /// What the thresholds say of a lock.
    fn of(view: &View, row: &Row, args: &Thresholds) -> Self {
        let hottest = delegation::hottest(view, row);
        let in_sections = delegation::in_sections_of(view, hottest);
        let waited = view.of_threads(hottest.wait.total_ns);
        let least = args.share.or_else(|| delegation::threshold(&row.sum.served_by));
        let least_wait = args.waited.unwrap_or(WORTH);
        let left = if row.kind() != "mutex" {
            Some("it is a reader-writer lock, which a delegate cannot take the place of".to_owned())
        } else if least.is_some_and(|least| in_sections.at_least() < least) {
            Some(format!("below {} (--share)", percent(least.unwrap_or_default())))
        } else if hottest.address == 0 {
            Some("it is several locks that were recorded as one, of which none need be hot".to_owned())
        } else if waited < least_wait {
            Some(format!(
                "threads wait for it for less than {} of their time (--waited)",
                percent(least_wait)
            ))
        } else if least.is_none() {
            let under = &row.sum.served_by;
            Some(format!(
                "there is no threshold for locks served by {under}: give one by --share, or record under pthread"
            ))
        } else {
            None
        };
        Self {
            name: row.name.clone(),
            site: row.site.clone(),
            kind: row.kind(),
            served_by: row.sum.served_by.clone(),
            locks: row.members.len(),
            in_sections,
            waited,
            in_all: delegation::in_sections_of(view, &row.sum),
            is_worth: left.is_none(),
            left,
            calls: Vec::new(),
            blind: BTreeSet::new(),
            sections: BTreeSet::new(),
        }
    }

    /// Finds the lines of its lock calls.
    fn find_calls(&mut self, view: &View, calls: &[Vec<u64>]) {
        for call in calls {
            let frames: Vec<_> = call.iter().flat_map(|address| view.symbols.frames(*address)).collect();
            if let Some(inner) = frames.first().filter(|inner| inner.source.is_none()) {
                self.blind.insert(inner.module.clone());
            }
            let of_text = frames.into_iter().filter_map(|frame| {
                let (file, line) = frame.source.filter(|(_, line)| *line > 0)?;
                Some(Frame { function: frame.function, file, line: line as usize })
            });
            let of_text: Vec<Frame> = of_text.collect();
            if !of_text.is_empty() && !self.calls.contains(&of_text) {
                self.calls.push(of_text);
            }
        }
        if self.calls.is_empty() {
            self.left = Some(self.without_lines());
        }
    }

    fn without_lines(&self) -> String {
        let files = self.blind.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        match files.as_str() {
            "" => "no call that takes it was seen: record for longer".to_owned(),
            files => format!("there is no debug information in {files}: compile it with -g and record again"),
        }
    }

    /// Takes in what its calls are in the text.
    fn place(&mut self, seen: &[&Seen]) {
        for seen in seen {
            if let Seen::Section { file, line, mutex: Some(_) } = seen {
                self.sections.insert(at(file, *line));
            }
        }
        if !self.sections.is_empty() {
            return;
        }
        let calls: BTreeSet<String> = self
            .calls
            .iter()
            .filter_map(|call| call.first())
            .map(|frame| at(&frame.file, frame.line))
            .collect();
        let calls = calls.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let is = |wanted: fn(&Seen) -> bool| seen.iter().any(|seen| wanted(seen));
        self.left = Some(if is(|seen| matches!(seen, Seen::Section { .. })) {
            format!("the call at {calls} names it in a way that is not understood")
        } else if is(|seen| *seen == Seen::NoSection) {
            format!(
                "no section begins at {calls}: the sources have changed since, so record again; or a function of the program takes \
                 it for others, which --macros has to name"
            )
        } else if !self.blind.is_empty() {
            self.without_lines()
        } else {
            format!(
                "it is taken at {calls}, in no file of this compilation database: name the program's own by -p"
            )
        });
    }

    /// Its figures in words.
    fn figures(&self) -> String {
        let own = format!(
            "{} of the threads' time in its sections, {} waiting for it",
            shown(self.in_sections),
            percent(self.waited)
        );
        match self.locks {
            0 | 1 => own,
            locks => format!("the hottest of {locks} locks: {own}; all of them: {}", shown(self.in_all)),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "site": self.site,
            "kind": self.kind,
            "served_by": self.served_by,
            "section_share": self.in_sections.value,
            "section_share_error": self.in_sections.error,
            "wait_share": self.waited,
            "locks": self.locks,
            "section_share_of_all": self.in_all.value,
            "chosen": self.left.is_none(),
            "reason": self.left,
            "taken_at": self.sections,
        })
    }
}

/// Where a lock was seen to be taken: stacks of return addresses, without those of the library itself. Those that threads waited
/// longest at come first.
fn calls(view: &View, row: &Row) -> Vec<Vec<u64>> {
    let stack = |number: u32| view.profile.stacks.get(number as usize).cloned().unwrap_or_default();
    let edges = view.edges(row);
    let of_edges = edges.iter().flat_map(|edge| [edge.waiter, edge.acquired]).map(stack);
    let members = view.profile.locks.iter().filter(|lock| row.members.contains(&lock.index));
    let first =
        members.map(|lock| lock.first_use).filter(|address| *address != 0).map(|address| vec![address]);
    let is_own = |address: &u64| {
        view.symbols.file(*address).and_then(Path::file_name).is_some_and(|name| name == OWN_LIBRARY)
    };
    let mut calls: Vec<Vec<u64>> = Vec::new();
    let mut known = BTreeSet::new();
    for stack in of_edges.chain(first) {
        let call: Vec<u64> = stack.into_iter().skip_while(is_own).collect();
        if !call.is_empty() && known.insert(call.clone()) {
            calls.push(call);
        }
    }
    calls
}

/// Refuses a profile whose addresses mean something else by now: the program was built anew.
fn check_age(file: &Path, view: &View, calls: &[Vec<u64>]) -> Result<(), Failure> {
    let recorded = SystemTime::UNIX_EPOCH + Duration::from_nanos(view.profile.date_ns);
    let programs: BTreeSet<&Path> = calls.iter().filter_map(|call| view.symbols.file(call[0])).collect();
    for program in programs {
        let built = std::fs::metadata(program).and_then(|about| about.modified());
        let why = match built {
            Ok(built) if built <= recorded => continue,
            Ok(_) => "was built after that was recorded",
            Err(_) => "is not there any more",
        };
        return Err(Failure::usage(format!(
            "profile `{}` no longer tells where locks are taken: `{}` {why}; record again with `lockwork profile`",
            file.display(),
            program.display()
        )));
    }
    Ok(())
}

fn at(file: &Path, line: usize) -> String {
    format!("{}:{line}", file.file_name().unwrap_or_default().to_string_lossy())
}

fn shown(share: Share) -> String {
    format!("{} ± {}", percent(share.value), percent(share.error))
}

#[cfg(test)]
mod tests {
    use lockwork_profile_reader::{Durations, Lock, Profile};

    use super::*;

    /// An element of an array that one place initialised, which threads had for so many ms of a second.
    fn element(index: u32, address: u64, ms: u64) -> Lock {
        let mut half = Durations::default();
        half.add(ms * 500_000);
        Lock {
            index,
            address,
            site: 1,
            wait: half.clone(),
            hold: half,
            served_by: "pthread".to_owned(),
            ..Lock::default()
        }
    }

    fn judged(locks: Vec<Lock>) -> Candidate {
        let profile = Profile { threads_ns: 1_000_000_000, locks, ..Profile::default() };
        let view = View::new(profile);
        assert_eq!(view.locks.len(), 1, "one row");
        let args = Thresholds { share: None, waited: None };
        Candidate::of(&view, &view.locks[0], &args)
    }

    #[test]
    fn an_array_is_judged_by_its_hottest_element() {
        let cold = judged((0..8).map(|index| element(index, 64 + u64::from(index), 100)).collect());
        assert!(!cold.is_worth, "80% in all, but 10% in each");
        assert!(cold.figures().starts_with("the hottest of 8 locks: 10.0% ± "), "{}", cold.figures());
        assert!(cold.figures().contains("all of them: 80.0% ± "), "{}", cold.figures());
        let mut locks: Vec<Lock> = (0..8).map(|index| element(index, 64 + u64::from(index), 1)).collect();
        locks[5] = element(5, 69, 300);
        let hot = judged(locks);
        assert!(hot.is_worth, "{:?}", hot.left);
        assert!(hot.figures().contains("30.0% ± "), "{}", hot.figures());
        let several = judged(vec![element(0, 0, 900)]);
        assert!(several.left.is_some_and(|left| left.contains("recorded as one")));
    }

    #[test]
    fn percentages() {
        assert_eq!(part("20"), Ok(0.2));
        assert_eq!(part("0.5%"), Ok(0.005));
        assert!(part("120").is_err() && part("-1").is_err() && part("much").is_err());
    }
}
