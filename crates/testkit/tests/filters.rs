//! Waiters that read CPU clocks stop before the program adds a filter of system calls that ends it for that.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use lockwork_platform::cpu_time::{self, Allowed};

const SIGSYS: i32 = 31;

/// How the program ends that adds its filter in this way.
fn ends(program: &Path, lock: &str, how: &str, clocks: Option<&str>) -> ExitStatus {
    let mut command = common::limited(program, 60);
    common::put_under(&mut command, lock);
    command.arg(how).env("LOCKWORK_MONITOR", "0");
    if let Some(clocks) = clocks {
        command.env("LOCKWORK_CPU_CLOCKS", clocks);
    }
    let output = command.output().expect("timeout (coreutils)");
    if !output.status.success() {
        eprintln!("{lock}, {how}, {clocks:?}: {}", common::text(&output));
    }
    output.status
}

#[test]
fn clocks_are_not_read_under_a_filter() {
    let program = common::compiled("filters");
    let are_read = cpu_time::allow() == Allowed::Yes;
    if !are_read {
        common::skipped("that clocks are read at all: a filter is in force, or they stand still");
    }
    for lock in ["flexguard", "mcs-aware"] {
        for how in ["prctl", "seccomp", "syscall-prctl"] {
            assert!(ends(&program, lock, how, None).success(), "{lock}, {how}");
        }
        // A filter that nobody has seen coming.
        assert!(ends(&program, lock, "by-hand", Some("0")).success(), "{lock}");
        if are_read {
            let end = ends(&program, lock, "by-hand", None);
            assert_eq!(end.signal(), Some(SIGSYS), "{lock} reads no clocks: {end}");
        }
    }
    std::fs::remove_file(program).expect("our own file");
}

/// The filter is there for all threads at once, some of which are about to read a clock, or have been preempted when they were.
#[test]
fn nor_by_those_who_were_about_to() {
    let program = common::compiled("filters");
    for _ in 0..40 {
        assert!(ends(&program, "flexguard", "meanwhile", None).success());
    }
    std::fs::remove_file(program).expect("our own file");
}
