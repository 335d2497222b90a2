//! A library that is preloaded behind ours and wraps a function: it is called for glibc's, and finds glibc's by version. And what
//! glibc's mutexes look like while they are recorded, with and without such a library.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The wrapper for a program, compiled.
fn wrapper(program: &Path, options: &[&str]) -> PathBuf {
    let wrapper = program.with_extension("so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrappers.c");
    let output = Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-DWRAPPER", "-o"])
        .args([&wrapper, &source])
        .args(options)
        .output()
        .expect("gcc");
    assert!(output.status.success(), "{}", common::text(&output));
    wrapper
}

/// A recorder takes and frees mutexes of glibc's as glibc does, and leaves that to a library behind it that wraps the functions.
#[test]
fn recorded_mutexes_are_marked_as_glibcs() {
    const CALLS: u32 = 3 * 20_001;
    let program = common::compiled("wrappers");
    let wrapper = wrapper(&program, &["-DWRAPS_LOCK"]);
    for (is_wrapped, is_recorded) in [(false, false), (false, true), (true, true)] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = common::limited(&program, 60);
        command.arg("many").stdout(Stdio::piped());
        common::put_under(&mut command, "passthrough");
        if is_wrapped {
            command.env("LD_PRELOAD", format!("{}:{}", common::lockwork_so().display(), wrapper.display()));
        }
        if is_recorded {
            command.env("LOCKWORK_PROFILE", directory.path().join("p"));
        }
        let output = command.output().expect("timeout (coreutils)");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains("0 wrong\n"), "{is_wrapped} {is_recorded}: {}", common::text(&output));
        let calls = stdout.lines().find_map(|line| line.strip_prefix("wrapped ")?.parse().ok());
        assert_eq!(calls.is_some(), is_wrapped);
        assert!(calls.is_none_or(|calls: u32| calls >= CALLS), "{stdout}");
        let files = std::fs::read_dir(&directory).expect("our own").count();
        assert_eq!(files != 0, is_recorded);
    }
    for file in [program, wrapper] {
        std::fs::remove_file(file).expect("our own file");
    }
}

#[test]
fn a_wrapper_behind_the_locks_finds_glibc() {
    let program = common::compiled("wrappers");
    let wrapper = wrapper(&program, &[]);
    // A mutex that is glibc's goes through the wrapper; one that is ours does not.
    for (lock, wrapped) in [("passthrough", "wrapped 2"), ("mcs-stp", "wrapped 0")] {
        let mut command = common::limited(&program, 60);
        common::put_under(&mut command, lock);
        let preload = format!("{}:{}", common::lockwork_so().display(), wrapper.display());
        let output = command.env("LD_PRELOAD", preload).output().expect("timeout (coreutils)");
        assert!(output.status.success(), "{lock}: {}", common::text(&output));
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains("0 1\n") && stdout.contains(wrapped), "{lock}: {stdout}");
    }
    for file in [program, wrapper] {
        std::fs::remove_file(file).expect("our own file");
    }
}
