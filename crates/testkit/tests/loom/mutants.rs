//! Every ordering of every source, weakened on its own, must be caught by a loom scenario, or stand in the one list of
//! exceptions: one test for each file of the sources that asks for orderings. Those of reader-writer locks are in
//! `rw_loom.rs`. `LOCKWORK_MUTANTS=1` prints every verdict.

use std::cmp::Reverse;
use std::sync::LazyLock;

use libtest_mimic::{Failed, Trial};
use lockwork_testkit::exceptions::{EXCEPTIONS, Exception};
use lockwork_testkit::mutation::{Witness, judge_source};
use lockwork_testkit::sources::{self, Source, proves};

use crate::WITNESSES;

/// The plays in which states are taken back from idle locks.
const STATES: &[&str] = &["state of cst-mutex", "state of gcr(futex)"];

/// Those of locks whose uncontended acquisitions go through the state, without being counted.
const LOOKED_AT: &[&str] = &["state of c-tkt-mcs-park", "state of hmcs-park, on one node"];

/// What proves the sources that belong to no lock of the registry.
const PARTS: &[(&str, &[&str])] = &[
    ("cond/waiter.rs", &["cond(futex)"]),
    ("load/glk.rs", &["state of glk"]),
    ("hierarchical/cst/mod.rs", &["cst-mutex, as a part"]),
    ("locks/src/inplace/start.rs", &["start"]),
    ("locks/src/state/claim.rs", STATES),
    ("locks/src/state/claim.rs", LOOKED_AT),
    ("hierarchical/directory.rs", STATES),
    ("hierarchical/directory.rs", LOOKED_AT),
    ("locks/src/state/mod.rs", STATES),
    ("locks/src/state/mod.rs", LOOKED_AT),
    ("platform/src/batches.rs", &["batches"]),
    ("platform/src/published.rs", &["published"]),
    ("platform/src/waiters/cancel.rs", &["waiters"]),
    ("platform/src/waiters/owner.rs", &["waiters"]),
    ("platform/src/waiters/steps.rs", &["waiters"]),
    ("delegation/posts.rs", &["posts"]),
    ("lockwork/src/wait_free/universal.rs", &["wait-free"]),
];

/// The sources whose orderings are judged here.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let is_here = |source: &Source| !source.path.starts_with("crates/locks/src/rw/");
    sources::all().into_iter().filter(is_here).collect()
});

/// One test for each source, and one of the exceptions.
pub(crate) fn trials() -> Vec<Trial> {
    let mut sources: Vec<&'static Source> = SOURCES.iter().collect();
    // What takes longest comes first, so that all CPUs have work until the end.
    sources.sort_by_cached_key(|source| Reverse(source.lines.len() * witnesses_of(&source.path).len()));
    let trial = |source: &'static Source| {
        Trial::test(format!("mutants of {}", source.path), move || {
            judge_source(source, &witnesses_of(&source.path)).map_err(Failed::from)
        })
    };
    let exceptions = [
        Trial::test("exceptions are of lines that there are", exceptions_are_of_lines_that_there_are),
        Trial::test("exceptions say their own reason", exceptions_say_their_own_reason),
    ];
    sources.into_iter().map(trial).chain(exceptions).collect()
}

/// Whether some source's mutants are shown to a scenario.
pub(crate) fn are_shown_to(witness: &Witness) -> bool {
    SOURCES.iter().any(|source| is_witness(witness, &source.path))
}

/// An exception outlives its line in a source of which nothing is left to prove.
fn exceptions_are_of_lines_that_there_are() -> Result<(), Failed> {
    let sources = sources::all();
    for Exception { source, snippet, .. } in EXCEPTIONS {
        let names = |it: &&Source| it.path.ends_with(source);
        let code = snippet.split("//").next().unwrap_or("").trim();
        let text =
            |it: &Source| std::fs::read_to_string(sources::workspace().join(&it.path)).unwrap_or_default();
        let has = |it: &Source| text(it).contains(code);
        if !sources.iter().filter(names).any(has) {
            return Err(format!(
                "no source that asks for orderings ends with {source} and has the line `{snippet}`"
            )
            .into());
        }
    }
    Ok(())
}

/// A reason that points at another goes astray when that is moved, and an argument is a kind of its own.
fn exceptions_say_their_own_reason() -> Result<(), Failed> {
    let astray =
        |text: &str| ["as above", "as below", "by argument"].iter().any(|words| text.contains(words));
    match EXCEPTIONS.iter().find(|exception| astray(exception.reason.text())) {
        Some(Exception { source, snippet, reason, .. }) => {
            Err(format!("{source}: `{snippet}`: {reason:?}").into())
        }
        None => Ok(()),
    }
}

/// The scenarios that prove a source. Files that share some explore them once.
fn witnesses_of(source: &str) -> Vec<&'static Witness> {
    WITNESSES.iter().filter(|witness| is_witness(witness, source)).collect()
}

fn is_witness(witness: &Witness, source: &str) -> bool {
    let subject = witness.subject();
    proves(subject, source)
        || PARTS.iter().any(|(part, subjects)| source.ends_with(part) && subjects.contains(&subject))
}
