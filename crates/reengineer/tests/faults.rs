//! Each rule by which sections are refused is needed: with one switched off, something notices.

mod program;

use lockwork_reengineer::{Choice, Rule};
use program::Program;

const FAULTS: &str = include_str!("programs/faults.c");

/// What comes of the program without a rule: its verdicts, and its converted text.
fn outcome(without: Option<Rule>, may_hold: bool) -> Option<(Vec<String>, Option<String>)> {
    let program = Program::new(FAULTS);
    let project = program.project(Choice { may_hold, without, ..Choice::default() })?;
    let verdicts = project
        .findings
        .iter()
        .map(|found| {
            let refusal = found.refusal().map(ToString::to_string);
            format!("{}:{}: {refusal:?}", found.section.function, found.line)
        })
        .collect();
    let changes = project.converted(&mut |_, _, _| {}).ok();
    Some((verdicts, changes.and_then(|changes| changes.first().map(|change| change.after.clone()))))
}

#[test]
fn a_rule_that_is_switched_off_is_missed() {
    let Some((verdicts, text)) = outcome(None, true) else { return };
    let program = Program::new(FAULTS);
    let before = program.run();
    assert!(before.status.success(), "{before:?}");
    std::fs::write(program.file(), text.expect("converted")).expect("written");
    let after = program.run();
    assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before.stdout));
    let mut unnoticed = Vec::new();
    for rule in Rule::ALL.iter().filter(|rule| **rule != Rule::Holds) {
        let (others, text) = outcome(Some(*rule), true).expect("there is libclang");
        let verdict_differs = others != verdicts;
        let differs = |text| {
            std::fs::write(program.file(), text).expect("written");
            program.try_run().is_none_or(|run| run.stdout != before.stdout || !run.status.success())
        };
        // A verdict that is another is noticed by the fixtures of verdicts.
        if !verdict_differs && !text.is_none_or(differs) {
            unnoticed.push(rule);
        }
    }
    // This one applies only where nothing may be held.
    if outcome(None, false) == outcome(Some(Rule::Holds), false) {
        unnoticed.push(&Rule::Holds);
    }
    assert!(unnoticed.is_empty(), "nothing notices that these are switched off: {unnoticed:?}");
}

/// A section that is refused for what it calls takes those of its function and lock with it: conversion tells them apart by no more.
#[test]
fn what_is_refused_for_a_callee_is_not_converted() {
    let program = Program::new(FAULTS);
    let Some(project) = program.project(Choice { may_hold: true, ..Choice::default() }) else { return };
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    let text = &changes.first().expect("a file").after;
    assert!(text.contains("lockwork_survives_1_run"), "closures have other names");
    for function in ["callee_asks", "callee_asks_beside", "callee_releases"] {
        let mut of_function = project.findings.iter().filter(|found| found.section.function == function);
        assert!(of_function.all(|found| found.refusal().is_some()), "{function}");
        assert!(!text.contains(&format!("lockwork_{function}_")), "{function}");
    }
}
