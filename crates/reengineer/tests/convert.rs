//! Programs keep what they do, section by section.

mod program;

use std::collections::BTreeMap;

use lockwork_reengineer::{Choice, Finding, Refusal};
use program::Program;

/// Everything, and what stays locks holds the delegate.
fn all() -> Choice {
    Choice { may_hold: true, ..Choice::default() }
}

/// Sections of every kind: each function returns what it computed, and `main` prints it.
const SECTIONS: &str = include_str!("programs/sections.c");

#[test]
fn a_converted_program_does_what_it_did() {
    let program = Program::new(SECTIONS);
    let Some(project) = program.project(all()) else { return };
    let before = program.run();
    assert!(before.status.success(), "{before:?}");
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    program.write(&changes);
    let after = program.run();
    let text = std::fs::read_to_string(program.file()).expect("written");
    assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before.stdout), "{text}");
    assert!(after.status.success(), "{after:?}\n{text}");
    let again = program.project(all()).expect("there is libclang");
    assert!(
        again.converted(&mut |_, _, _| {}).expect("converted").is_empty(),
        "a second run changes nothing"
    );
}

#[test]
fn each_refusal_has_its_reason() {
    let program = Program::new(SECTIONS);
    let Some(project) = program.project(all()) else { return };
    let found: BTreeMap<String, Vec<Option<Refusal>>> =
        project.findings.iter().fold(BTreeMap::new(), |mut all, found| {
            all.entry(found.section.function.clone()).or_default().push(found.refusal().cloned());
            all
        });
    let expected = |line: &str| {
        let (name, reason) = line.split_once("refused: ")?;
        Some((
            name.trim().trim_start_matches("/* ").trim().to_owned(),
            reason.trim_end_matches(" */").to_owned(),
        ))
    };
    let refused: BTreeMap<String, String> = SECTIONS.lines().filter_map(expected).collect();
    assert!(refused.len() > 8, "{refused:?}");
    for (function, verdicts) in &found {
        let reasons: Vec<String> = verdicts.iter().flatten().map(ToString::to_string).collect();
        match refused.get(function) {
            Some(reason) => {
                assert!(reasons.iter().any(|it| it == reason), "{function}: {reasons:?}, not {reason:?}")
            }
            None => assert!(reasons.is_empty(), "{function}: {reasons:?}"),
        }
    }
    for function in refused.keys() {
        assert!(found.contains_key(function), "{function} has no section");
    }
}

/// A mutex cannot be a delegate for one file and a mutex for another, so a program is converted whole or not at all.
#[test]
fn a_program_that_waits_for_conditions_is_left_alone() {
    let program = Program::new(include_str!("programs/conditions.c"));
    let Some(project) = program.project(all()) else { return };
    assert_eq!(project.findings.iter().filter_map(Finding::refusal).collect::<Vec<_>>(), [&Refusal::Waits]);
    let error = project.converted(&mut |_, _, _| {}).expect_err("it has no counterpart");
    assert!(error.to_string().contains("program.c:10: pthread_cond_wait"), "{error}");
}

#[test]
fn sections_that_stay_locks_must_be_allowed_to_hold() {
    let program = Program::new(SECTIONS);
    let Some(project) = program.project(Choice::default()) else { return };
    let error = project.converted(&mut |_, _, _| {}).expect_err("some stay locks");
    assert!(error.to_string().contains("--hold"), "{error}");
}

#[test]
fn locks_and_places_can_be_chosen() {
    let program = Program::new(SECTIONS);
    let choice = Choice { locks: vec!["&other".to_owned()], ..all() };
    let Some(project) = program.project(choice) else { return };
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    let text = &changes[0].after;
    assert!(text.contains("lockwork_delegate_run((&other)"), "{text}");
    assert!(!text.contains("lockwork_delegate_run((&lock)"), "{text}");
}
