//! Mutation tests of orderings: every `Acquire` and `Release` of a source is weakened on its own, and
//! some scenario must fail.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicUsize, Ordering, Ordering::Relaxed};
use std::sync::{Once, OnceLock};
use std::thread;

use crate::engines::loom::Bounds;
use crate::exceptions::{EXCEPTIONS, Exception, REPEATED};
use crate::exploration::{run, run_within};
use crate::model::sites::{Site, record, weakened};
use crate::scenarios::{Scenario, Subject};
use crate::sources::{Source, workspace};

/// A scenario that may catch mutants, explored once as it is.
#[derive(Debug)]
pub struct Witness {
    subject: String,
    scenario: Scenario,
    seen: OnceLock<Seen>,
}

/// What the exploration of a scenario saw.
#[derive(Debug)]
struct Seen {
    sites: BTreeSet<Site>,
    executions: u64,
}

impl Witness {
    /// All scenarios of a subject.
    pub fn all_of(subject: Subject) -> impl Iterator<Item = Self> {
        let Subject { name, scenarios } = subject;
        let witness = move |scenario| Self { subject: name.clone(), scenario, seen: OnceLock::new() };
        scenarios.into_iter().map(witness)
    }

    /// The name of the subject.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The scenario.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Explores the scenario, unless that has been done; returns the number of executions.
    ///
    /// # Panics
    ///
    /// If an execution fails.
    #[must_use]
    pub fn explore(&self) -> u64 {
        self.seen().executions
    }

    /// The places in a source that some execution passes and that ask for an ordering.
    #[must_use]
    pub fn sites_in(&self, source: &str) -> Vec<Site> {
        self.seen().sites.iter().filter(|site| site.file == source).copied().collect()
    }

    fn seen(&self) -> &Seen {
        self.seen.get_or_init(|| {
            let mut executions = 0;
            let sites = record(|| executions = run(&self.scenario));
            Seen { sites, executions }
        })
    }
}

/// Calls `f` with every item, on all CPUs; returns the results in the order of the items.
fn each<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((index, item)) = items.iter().enumerate().nth(next.fetch_add(1, Relaxed)) {
            done.push((index, f(item)));
        }
        done
    };
    let mut all: Vec<(usize, R)> = thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

/// What became of a mutant.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// A scenario failed, with this message.
    Caught {
        /// Subject and scenario.
        by: String,
        /// First line of the panic.
        message: String,
    },
    /// No scenario failed.
    Survived,
}

/// One weakened ordering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// Where.
    pub site: Site,
    /// Index into [`Site::weaker`].
    choice: usize,
}

impl Mutant {
    /// What the site uses instead.
    #[must_use]
    pub fn weaker(&self) -> Ordering {
        self.site.weaker()[self.choice]
    }
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} -> {:?}", self.site, self.weaker())
    }
}

/// The verdicts on all mutants of a source file, by the witnesses that pass their sites. Those that are excused are shown
/// [fewer executions](stages).
fn verdicts(
    witnesses: &[&Witness],
    file: &str,
    is_excused: impl Fn(&Mutant) -> bool + Sync,
) -> Vec<(Mutant, Verdict)> {
    each(witnesses, |witness| _ = witness.seen());
    let mut found: BTreeMap<Mutant, Vec<&Witness>> = BTreeMap::new();
    for witness in witnesses {
        for &site in witness.seen().sites.iter().filter(|site| site.file == file) {
            for choice in 0..site.weaker().len() {
                found.entry(Mutant { site, choice }).or_default().push(witness);
            }
        }
    }
    let found: Vec<_> = found.into_iter().collect();
    each(&found, |(mutant, witnesses)| (*mutant, judge(*mutant, witnesses, stages(is_excused(mutant)))))
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; the message if it panics. Prints nothing.
pub fn failure(f: impl FnOnce()) -> Option<String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(false);
    let cause = result.err()?;
    let text = cause.downcast_ref::<String>().cloned();
    Some(text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}

/// How many executions of each witness a mutant is shown, one after the other; `None` is all.
///
/// Whatever catches one mostly does so early: every witness gets a few executions, then more, and all of them only if none has
/// caught it. One that is excused is known not to be caught by all of them, which took a third of the time: its exception is found
/// needless if it is caught early, and by all executions with `LOCKWORK_DEEPER`.
fn stages(is_excused: bool) -> &'static [Option<usize>] {
    const ALL: &[Option<usize>] = &[Some(100), Some(2_000), None];
    if is_excused && std::env::var_os("LOCKWORK_DEEPER").is_none() { &ALL[..1] } else { ALL }
}

/// Tries to catch a mutant, in these stages. A run that only exceeds loom's bounds does not count.
fn judge(mutant: Mutant, witnesses: &[&Witness], stages: &[Option<usize>]) -> Verdict {
    let mut open = witnesses.to_vec();
    open.sort_by_key(|witness| witness.seen().executions);
    for &most in stages {
        let mut left = Vec::new();
        for witness in open {
            let Witness { subject, scenario, .. } = witness;
            let bounds = Bounds { executions: most, ..Bounds::preemptions(scenario.preemptions) };
            let mut executions = 0;
            let explore = || executions = run_within(scenario, bounds);
            let outcome = failure(|| weakened(mutant.site, mutant.weaker(), explore));
            let is_done = match outcome {
                Some(message) if !message.contains("maximum number of branches") => {
                    let message = message.trim().lines().next().unwrap_or_default().to_owned();
                    return Verdict::Caught { by: format!("{subject} {}", scenario.name), message };
                }
                // What exceeds the bounds once does so again.
                Some(_) => true,
                None => most.is_none_or(|most| executions < most as u64),
            };
            if !is_done {
                left.push(witness);
            }
        }
        open = left;
    }
    Verdict::Survived
}

/// What an exception is for, as a key.
fn name_of(weaker: Option<Ordering>) -> String {
    weaker.map_or_else(|| "not passed".to_owned(), |weaker| format!("{weaker:?}"))
}

/// Judges a source: every ordering in it is passed by a witness, and each weaker one is caught by a witness, unless the list of
/// [exceptions](EXCEPTIONS) says why not. An exception that is not needed is an error, too, and so is one that stands
/// on more lines than it is meant for.
///
/// # Errors
///
/// What is not proven, line by line.
pub fn judge_source(source: &Source, witnesses: &[&Witness]) -> Result<(), String> {
    let path = source.path.as_str();
    let exceptions: Vec<&Exception> =
        EXCEPTIONS.iter().filter(|exception| path.ends_with(exception.source)).collect();
    // Of those that are used: which one, and for which weaker ordering, if a model passes its line.
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    let exception_for = |line: &str, weaker: Option<Ordering>| {
        exceptions.iter().position(|exception| {
            line.contains(exception.snippet)
                && weaker.map_or(exception.weaker.is_empty(), |weaker| exception.weaker.contains(&weaker))
        })
    };
    let mut excused = |line: &str, weaker: Option<Ordering>| {
        let found = exception_for(line, weaker);
        used.extend(found.map(|index| (index, name_of(weaker))));
        found.is_some()
    };
    let root = workspace();
    let text = std::fs::read_to_string(root.join(path)).expect("the source");
    let line_of =
        |mutant: &Mutant| text.lines().nth(mutant.site.line as usize - 1).unwrap_or_default().trim();
    let is_excused = |mutant: &Mutant| exception_for(line_of(mutant), Some(mutant.weaker())).is_some();
    for (mutant, verdict) in verdicts(witnesses, path, is_excused) {
        let line = line_of(&mutant);
        if std::env::var_os("LOCKWORK_MUTANTS").is_some() {
            println!("{mutant:?} `{line}`: {verdict:?}");
        }
        if matches!(verdict, Verdict::Survived) && !excused(line, Some(mutant.weaker())) {
            wrong.push(format!("not caught: {mutant:?} `{line}`"));
        }
    }
    let sites: BTreeSet<u32> =
        witnesses.iter().flat_map(|witness| witness.sites_in(path)).map(|site| site.line).collect();
    for (number, line) in &source.lines {
        let is_passed = sites.range(line.start..=*number).next().is_some();
        if !is_passed && !excused(&line.text, None) {
            wrong.push(format!("not passed by a model: {path}:{number} `{}`", line.text));
        }
    }
    for (index, Exception { snippet, weaker, reason, .. }) in exceptions.iter().enumerate() {
        let all: Vec<Option<Ordering>> =
            if weaker.is_empty() { vec![None] } else { weaker.iter().copied().map(Some).collect() };
        for weaker in all.into_iter().map(name_of).filter(|weaker| !used.contains(&(index, weaker.clone()))) {
            wrong.push(format!("an exception that is not needed: `{snippet}` -> {weaker} ({reason:?})"));
        }
        let lines = text
            .lines()
            .zip(1..)
            .filter(|(line, number)| source.lines.contains_key(number) && line.contains(snippet));
        let expected = REPEATED.iter().find(|(of, what, _)| path.ends_with(of) && what == snippet);
        let (found, expected) = (lines.count(), expected.map_or(1, |(_, _, lines)| *lines));
        if found != expected {
            wrong.push(format!("an exception for {expected} lines that is on {found}: `{snippet}`"));
        }
    }
    if !wrong.is_empty() && witnesses.is_empty() {
        wrong.push(format!(
            "no model proves the orderings of {path}: name one among the `proofs` of a descriptor, or write one, or say in \
             crates/testkit/src/exceptions.rs of each line why there can be none"
        ));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
