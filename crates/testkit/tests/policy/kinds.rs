//! Rules by kind, and what `passthrough` does to locks of each kind.

use std::path::Path;

use crate::common::lockwork_so;
use crate::harness::{Bench, Report, path, rule, under};

const ALL: [&str; 7] = ["normal", "adaptive", "recursive", "errorcheck", "rwlock", "cond", "spin"];

/// How many locks of each kind `kinds.c` has.
const COUNTS: [u64; 7] = [2, 2, 2, 2, 2, 1, 1];

#[test]
fn each_kind_by_itself() {
    let bench = Bench::new();
    let program = bench.build("kinds", "kinds.c", &[]);
    for lock in ["ticket", "gcr(mcs-stp)"] {
        let rules: Vec<String> = ALL.iter().map(|kind| rule(&[("kind", kind)], lock)).collect();
        let report = bench.report(&program, &rules.concat());
        assert_eq!(report.counts(), [&COUNTS[..], &[0]].concat(), "{report:?}");
        let served = format!(
            "served 8 mutexes by {lock}, 1 conditions by cond-fifo, 2 rwlocks by rw-futex, 1 spin locks by ttas-yield;"
        );
        assert!(report.summary.starts_with(&served), "{report:?}");
    }
}

/// What is left to glibc works, whatever serves the rest.
#[test]
fn each_kind_by_glibc() {
    let bench = Bench::new();
    let program = bench.build("kinds", "kinds.c", &[]);
    for (index, kind) in ALL.iter().enumerate() {
        let policy = format!("default = \"mcs-stp\"\n{}", rule(&[("kind", kind)], "passthrough"));
        let report = bench.report(&program, &policy);
        assert_eq!(report.counts(), [COUNTS[index], 12 - COUNTS[index]], "{kind}: {report:?}");
        // Its condition is first waited on with a mutex that is not glibc's.
        let count = if *kind == "cond" { 0 } else { COUNTS[index] };
        let noun = match *kind {
            "rwlock" => "rwlocks",
            "cond" => "conditions",
            "spin" => "spin locks",
            _ => "mutexes",
        };
        let forwarded = report.summary.split_once("; forwarded").unwrap().1;
        assert!(forwarded.contains(&format!(" {count} {noun}")), "{kind}: {report:?}");
    }
}

#[test]
fn all_mutexes_at_once() {
    let bench = Bench::new();
    let program = bench.build("kinds", "kinds.c", &[]);
    let report = bench.report(&program, &rule(&[("kind", "mutex")], "ticket"));
    assert_eq!(report.counts(), [8, 4], "{report:?}");
    // The default is glibc.
    assert!(
        report.summary.ends_with("forwarded to glibc 0 mutexes, 0 conditions, 2 rwlocks, 1 spin locks"),
        "{report:?}"
    );
}

#[test]
fn everything_by_glibc() {
    let bench = Bench::new();
    let program = bench.build("kinds", "kinds.c", &[]);
    let rest = "forwarded to glibc 8 mutexes, {}, 2 rwlocks, 1 spin locks";
    for (policy, served, conditions) in [
        ("", "1 conditions by cond-fifo", 0),
        (
            "default = \"passthrough\"\n[[rule]]\ninit = \"nowhere\"\nlock = \"ticket\"\n",
            "1 conditions by cond-fifo",
            0,
        ),
        ("[[rule]]\nkind = \"cond\"\nlock = \"passthrough\"\n", "nothing", 1),
    ] {
        let report = bench.report(&program, policy);
        let forwarded = rest.replace("{}", &format!("{conditions} conditions"));
        assert_eq!(report.summary, format!("served {served}; {forwarded}"));
    }
}

/// Programs under the library and, behind it, conditions laid out as by this machine's glibc, and as by 2.41.
fn each_layout(bench: &Bench, program: &Path, policy: &str, check: impl Fn(&Report)) {
    let versions = concat!("-Wl,--version-script=", env!("CARGO_MANIFEST_DIR"), "/policy/glibc241.map");
    let later = bench.build_library("glibc241.so", "glibc241.c", &["-ldl", versions]);
    let both = format!("{}:{}", path(&lockwork_so()), path(&later));
    let policy = bench.policy(policy);
    for preload in [path(&lockwork_so()), &both] {
        let variables =
            [("LOCKWORK_POLICY", path(&policy)), ("LOCKWORK_VERBOSE", "1"), ("LD_PRELOAD", preload)];
        check(&Report::of(&mut under(program, &variables)));
    }
}

/// A condition is glibc's if the rules say so and the mutex of its first wait is glibc's, too.
#[test]
fn conditions_and_their_mutexes() {
    let bench = Bench::new();
    let program = bench.build("conds", "conds.c", &[]);
    for ours in ["ticket", "mcs-stp", "gcr(futex)"] {
        let policy = [
            format!("default = \"{ours}\"\n"),
            rule(&[("symbol", "glibcs")], "passthrough"),
            rule(&[("kind", "cond")], "passthrough"),
        ]
        .concat();
        each_layout(&bench, &program, &policy, |report| {
            assert_eq!(report.counts(), [1, 5, 1], "{report:?}");
            assert_eq!(
                report.summary,
                format!(
                    "served 1 mutexes by {ours}, 2 conditions by cond-fifo; forwarded to glibc 1 mutexes, 2 conditions, 0 rwlocks, 0 spin locks"
                )
            );
        });
    }
}

/// What is glibc's by default alone may be waited on with any mutex, one after the other.
#[test]
fn conditions_by_default() {
    let bench = Bench::new();
    let program = bench.build("conds", "conds.c", &[]);
    let policy = format!("default = \"passthrough\"\n{}", rule(&[("symbol", "ours")], "ticket"));
    let report = Report::of(bench.under(&program, &policy).arg("by default"));
    assert!(
        report.summary.starts_with("served 1 mutexes by ticket, 5 conditions by cond-fifo;"),
        "{report:?}"
    );
}

/// Conditions that processes share are glibc's, and what it keeps in them stays as it left it.
#[test]
fn conditions_of_several_processes() {
    let bench = Bench::new();
    let program = bench.build("shared", "shared.c", &[]);
    each_layout(&bench, &program, "default = \"mcs-stp\"\n", |report| {
        assert!(report.summary.ends_with(" 1 mutexes, 1 conditions, 0 rwlocks, 0 spin locks"), "{report:?}");
    });
}

/// A lock named beside a policy takes the place of its default.
#[test]
fn another_default() {
    let bench = Bench::new();
    let program = bench.build("kinds", "kinds.c", &[]);
    let policy = format!("default = \"ticket\"\n{}", rule(&[("kind", "recursive")], "ttas"));
    let mut command = bench.under(&program, &policy);
    let report = Report::of(command.env("LOCKWORK_LOCK", "mcs-stp"));
    assert!(
        report.summary.contains("2 mutexes by ttas") && report.summary.contains("6 mutexes by mcs-stp"),
        "{report:?}"
    );
    assert_eq!(report.rules[&0], ("mcs-stp".to_owned(), 10));
}
