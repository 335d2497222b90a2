//! Waiters that read CPU clocks stop before the program adds a filter of system calls that might end it for that.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use lockwork_platform::cpu_time::{self, Allowed};

const SIGSYS: i32 = 31;

/// How the program ends that adds its filter in this way.
fn ends(program: &Path, lock: &str, how: &str, clocks: Option<&str>) -> ExitStatus {
    let mut command = common::limited(program);
    common::put_under(&mut command, lock);
    command.arg(how).env("LOCKWORK_MONITOR", "0").env_remove("LOCKWORK_CPU_CLOCKS");
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
    for lock in ["flexguard", "mcs-aware"] {
        for how in ["prctl", "seccomp", "syscall-prctl"] {
            assert!(ends(&program, lock, how, None).success(), "{lock}, {how}");
        }
        // A filter that nobody has seen coming.
        assert!(ends(&program, lock, "by-hand", Some("0")).success(), "{lock}");
        if cpu_time::allow() == Allowed::Yes {
            let end = ends(&program, lock, "by-hand", None);
            assert_eq!(end.signal(), Some(SIGSYS), "{lock} reads no clocks: {end}");
        }
    }
    std::fs::remove_file(program).expect("our own file");
}
