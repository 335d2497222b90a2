//! The scenarios with the most executions. Each took four seconds or more, and these two dozen a third of the time of three
//! thousand: with one involuntary switch fewer they take next to nothing, and every mutant is still caught.

use crate::scenarios::{Scenario, Subject};

/// A subject, one of its scenarios, and the nodes of the machine that it runs on.
pub type Large = (&'static str, &'static str, usize);

/// Those of mutexes, delegates and what they are made of.
pub const LARGEST: &[Large] = &[
    ("auto, restless", "come-back-between", 2),
    ("c-tkt-mcs-stp", "destroy-of-three", 2),
    ("c-tkt-mcs-stp", "give-up-in-the-middle", 2),
    ("c-tkt-mcs-stp(may-pass-local=1)", "destroy-of-three", 2),
    ("c-tkt-mcs-stp(may-pass-local=1)", "give-up-in-the-middle", 2),
    ("fc-list", "sections", 1),
    ("fc-list", "sections-of-three", 1),
    ("fc-list, removing at once", "sections", 1),
    ("fc-list, removing at once", "sections-of-three", 1),
    ("fc-mcs-stp, splicing", "come-again-from-elsewhere", 2),
    ("gcr(mcs-stp)", "exclusion", 1),
    ("mutexee", "contended", 1),
    ("sanl, delegating", "sections", 1),
    ("state of gcr(futex)", "arrivals", 1),
    ("state of hmcs-park, on one node", "contended", 1),
    ("wait-free", "changes-of-three", 1),
    ("wait-free", "readings", 1),
];

/// Those of reader-writer locks.
pub const LARGEST_OF_RWLOCKS: &[Large] = &[
    ("auto-rw", "w r  r", 2),
    ("auto-rw", "wrerrw r", 2),
    ("c-rw-np", "ww RR", 2),
    ("c-rw-np", "wwc tt", 2),
    ("cst-rwsem-neutral", "w r  r", 2),
    ("pf-q-stp", "w w RR", 1),
    ("pf-q-stp", "ww RR", 1),
    ("pf-q-stp", "ww WW", 1),
    ("pf-q", "w w RR", 1),
    ("pf-q", "w r R", 1),
];

fn is_it((name, of, nodes): &Large, subject: &str, scenario: &Scenario) -> bool {
    *name == subject && *of == scenario.name && *nodes == scenario.config.nodes
}

/// The subject, the largest of its scenarios with one involuntary switch fewer; as it is with `LOCKWORK_DEEPER`.
#[must_use]
pub fn shallower(mut subject: Subject, largest: &[Large]) -> Subject {
    if std::env::var_os("LOCKWORK_DEEPER").is_some() {
        return subject;
    }
    for scenario in &mut subject.scenarios {
        if largest.iter().any(|one| is_it(one, &subject.name, scenario)) {
            scenario.preemptions = scenario.preemptions.saturating_sub(1);
        }
    }
    subject
}

/// Whether these subjects have all that the list names.
///
/// # Errors
///
/// What none of them has, where there is nothing left to spare.
pub fn are_there(largest: &[Large], subjects: &[Subject]) -> Result<(), String> {
    let is_there = |one: &&Large| {
        subjects.iter().any(|subject| subject.scenarios.iter().any(|it| is_it(one, &subject.name, it)))
    };
    let gone: Vec<_> = largest.iter().filter(|one| !is_there(one)).collect();
    if gone.is_empty() { Ok(()) } else { Err(format!("no subject has {gone:?}")) }
}
