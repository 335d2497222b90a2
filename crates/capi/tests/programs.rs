//! C and C++ programs that are compiled against the headers and linked with the library, shared and static.

mod common;

use std::process::Command;

use common::{DELEGATES, SPECS, compiled, run};

/// Compiles a program and runs it under each pair of specs.
fn check(compiler: &str, standard: &str, source: &str, is_static: bool) {
    let pairs = SPECS.map(|(mutex, rwlock)| vec![mutex, rwlock]);
    check_with(compiler, standard, source, is_static, &pairs);
}

/// As [`check`], under each delegate.
fn check_delegates(compiler: &str, standard: &str, source: &str, is_static: bool) {
    check_with(compiler, standard, source, is_static, &DELEGATES.map(|spec| vec![spec]));
}

fn check_with(compiler: &str, standard: &str, source: &str, is_static: bool, runs: &[Vec<&str>]) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = compiled(compiler, &[standard, "-O2"], source, is_static, directory.path());
    for specs in runs {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60"]).arg(&program).args(specs);
        // Memory that has been freed has another value, which ends a program that uses it.
        command.env("GLIBC_TUNABLES", "glibc.malloc.perturb=165");
        assert_eq!(String::from_utf8_lossy(&run(&mut command).stdout), "ok\n", "{specs:?}");
    }
}

#[test]
fn c_with_the_shared_library() {
    check("cc", "-std=gnu11", "locks.c", false);
}

#[test]
fn c_with_the_static_library() {
    check("cc", "-std=gnu11", "locks.c", true);
}

#[test]
fn cpp_with_the_shared_library() {
    check("c++", "-std=c++17", "locks.cpp", false);
}

/// With the static library, whose handlers are the program's own.
#[test]
fn a_child_of_fork_goes_on_with_locks_that_others_wait_for() {
    check("cc", "-std=gnu11", "fork.c", true);
}

#[test]
fn a_child_of_fork_goes_on_with_the_shared_library() {
    check("cc", "-std=gnu11", "fork.c", false);
}

#[test]
fn delegates_in_c_with_the_shared_library() {
    check_delegates("cc", "-std=gnu11", "delegates.c", false);
}

#[test]
fn delegates_in_cpp_with_the_static_library() {
    check_delegates("c++", "-std=c++17", "delegates.cpp", true);
}

/// The delegates that can be held like a lock.
fn can_be_held(spec: &str) -> bool {
    spec == "fc" || ["ffwd", "rcl", "sanl", "locked("].iter().any(|kind| spec.starts_with(kind))
}

/// A last user that ends a delegate does not free it under a thread that is still inside of a request, or of a release.
#[test]
fn a_last_user_ends_a_delegate() {
    let held = DELEGATES.into_iter().filter(|spec| can_be_held(spec)).map(|spec| vec![spec, "held"]);
    let runs: Vec<_> = DELEGATES.into_iter().map(|spec| vec![spec]).chain(held).collect();
    assert!(runs.len() > DELEGATES.len());
    check_with("cc", "-std=gnu11", "ends.c", false, &runs);
    check_with(
        "cc",
        "-std=gnu11",
        "ends.c",
        true,
        &["cc-synch", "rcl", "locked(futex)"].map(|spec| vec![spec]),
    );
}

/// One that is in use all the same stays.
#[test]
fn a_delegate_whose_section_runs_does_not_end() {
    let runs = ["fc", "rcl", "locked(cst-mutex)"].map(|spec| vec![spec, "busy"]);
    check_with("cc", "-std=gnu11", "ends.c", false, &runs);
}

/// A child of `fork` ends a delegate that threads of its parent were inside of.
#[test]
fn a_delegate_ends_in_a_child() {
    let runs = ["cc-synch", "dsm-synch", "fc", "locked(futex)"].map(|spec| vec![spec, "forked"]);
    check_with("cc", "-std=gnu11", "ends.c", false, &runs);
}

/// Servers are threads: a process whose other threads have all ended does not go on for them.
#[test]
fn a_process_ends_with_its_last_thread() {
    for is_static in [false, true] {
        check_delegates("cc", "-std=gnu11", "last.c", is_static);
        check_with("cc", "-std=gnu11", "last.c", is_static, &DELEGATES.map(|spec| vec![spec, "later"]));
    }
}

/// A thread that a section has started on a server is one of the program's: servers go on for it.
#[test]
fn servers_go_on_for_a_thread_that_a_section_has_started() {
    let runs = ["rcl", "ffwd"].map(|spec| vec![spec, "inside"]);
    check_with("cc", "-std=gnu11", "last.c", false, &runs);
}
