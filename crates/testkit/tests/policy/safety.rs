//! What deciding must not do: allocate, need much stack, decide twice.

use crate::common::text;
use crate::harness::{Bench, Report, rule};

/// Rules of every sort, none of which matches.
fn in_vain() -> String {
    [
        rule(&[("init", "nowhere::at::all"), ("symbol", "nothing")], "tas"),
        rule(&[("init", "libc.so.6+0x1")], "tas"),
    ]
    .concat()
}

#[test]
fn no_lock_call_allocates() {
    let bench = Bench::new();
    bench.build_library("libabortmalloc.so", "../posix/lib/abortmalloc.c", &["-fno-builtin"]);
    let options = ["-L.", "-labortmalloc", "-Wl,-rpath,$ORIGIN"];
    let program = bench.build("quiet", "quiet.c", &options);
    for lock in ["ticket", "mcs-stp", "gcr(mcs-stp)", "passthrough"] {
        let policy =
            format!("default = \"futex\"\n{}{}", in_vain(), rule(&[("init", "in_lock_calls")], lock));
        let report = bench.report(&program, &policy);
        // Its spin lock follows the default.
        assert_eq!(report.counts(), [0, 0, 4, 1], "{report:?}");
    }
    let mut refused = bench.under(&program, &in_vain());
    let output = refused.arg("malloc").output().unwrap();
    assert!(!output.status.success(), "the test is void: {}", text(&output));
}

/// Threads with the smallest stack decide for thousands of locks at once, each of which one of them decides.
#[test]
fn a_crowd_decides_each_lock_once() {
    let bench = Bench::new();
    let program = bench.build("crowd", "crowd.c", &[]);
    let policy = [
        "default = \"futex\"\n".to_owned(),
        in_vain(),
        rule(&[("symbol", "known")], "ttas"),
        rule(&[("init", "take")], "passthrough"),
    ]
    .concat();
    let report = bench.report(&program, &policy);
    assert_eq!(report.counts().iter().sum::<u64>(), 4000, "{report:?}");
    // Whatever was inlined, the static array is found by its symbol.
    assert_eq!(report.counts()[2], 2000, "{report:?}");
}

/// A child that was forked while other threads decide can decide, too.
#[test]
fn a_program_that_forks() {
    let bench = Bench::new();
    let program = bench.build("forks", "forks.c", &[]);
    let policy = format!("default = \"ticket\"\n{}", in_vain());
    Report::of(&mut bench.under(&program, &policy));
}
