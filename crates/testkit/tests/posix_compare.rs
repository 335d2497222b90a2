//! How the POSIX suite compares what two runs printed.

#[allow(dead_code, reason = "the suite reads the rest")]
#[path = "common/compare.rs"]
mod compare;

use compare::{Deviation, differences};

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
