//! The scenarios with the most executions. Each took four seconds or more, and these two dozen a third of the time of three thousand: with
//! one involuntary switch fewer they take next to nothing, and every mutant is still caught.

use crate::scenarios::Subject;

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

/// The subject, the largest of its scenarios with one involuntary switch fewer; as it is with `LOCKWORK_DEEPER`.
#[must_use]
pub fn shallower(mut subject: Subject, largest: &[Large]) -> Subject {
    if std::env::var_os("LOCKWORK_DEEPER").is_some() {
        return subject;
    }
    for scenario in &mut subject.scenarios {
        if largest.contains(&(subject.name.as_str(), scenario.name, scenario.config.nodes)) {
            scenario.preemptions = scenario.preemptions.saturating_sub(1);
        }
    }
    subject
}

/// Those of the list that no subject has: there is nothing left to spare.
pub fn gone<'a>(largest: &'a [Large], subjects: &'a [Subject]) -> impl Iterator<Item = &'a Large> {
    let has = |subject: &Subject, &(name, of, nodes): &Large| {
        let is_it =
            |scenario: &crate::scenarios::Scenario| scenario.name == of && scenario.config.nodes == nodes;
        subject.name == name && subject.scenarios.iter().any(is_it)
    };
    largest.iter().filter(move |one| !subjects.iter().any(|subject| has(subject, one)))
}
