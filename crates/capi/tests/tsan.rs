//! C and C++ programs compiled with ThreadSanitizer, which is told of the library's synchronisation: it finds no race where there
//! is none, and finds those that are there.

mod common;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use common::{DELEGATES, SPECS, compiled};

/// With which status a program ends that ThreadSanitizer has found a race in.
const RACE: i32 = 66;

/// Whether the compiler has ThreadSanitizer and programs start with it; says so if not.
fn is_there() -> bool {
    static IS_THERE: OnceLock<Result<(), String>> = OnceLock::new();
    let outcome = IS_THERE.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let source = directory.path().join("empty.c");
        fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
        let program = directory.path().join("empty");
        let compiled =
            Command::new("cc").arg("-fsanitize=thread").arg(&source).arg("-o").arg(&program).output();
        if !compiled.is_ok_and(|output| output.status.success()) {
            return Err("the C compiler has no ThreadSanitizer".to_owned());
        }
        let ran = sanitized(&program, &[]);
        ran.status.success().then_some(()).ok_or_else(|| {
            format!("ThreadSanitizer does not start: {}", String::from_utf8_lossy(&ran.stderr).trim())
        })
    });
    match outcome {
        Ok(()) => true,
        Err(reason) => {
            // Past the harness, which keeps what passing tests print to itself; `scripts/test.sh` counts these lines.
            let _ = writeln!(io::stderr(), "SKIPPED: C and C++ under ThreadSanitizer: {reason}");
            false
        }
    }
}

/// Runs a program with its addresses where older runtimes want them.
fn sanitized(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "120", "setarch", "-R"]).arg(program).args(arguments);
    // The programs fork with several threads, and their children go on with one.
    command.env("TSAN_OPTIONS", format!("halt_on_error=1 exitcode={RACE} die_after_fork=0"));
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// A program of `tests/c`, compiled with ThreadSanitizer in `directory`.
fn program(compiler: &str, standard: &str, source: &str, is_static: bool, directory: &Path) -> PathBuf {
    compiled(compiler, &[standard, "-O1", "-g", "-fsanitize=thread"], source, is_static, directory)
}

/// Runs a program under each list of specs: there is no race.
fn has_no_races(compiler: &str, standard: &str, source: &str, is_static: bool, runs: &[Vec<&str>]) {
    if !is_there() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let program = program(compiler, standard, source, is_static, directory.path());
    for specs in runs {
        let output = sanitized(&program, specs);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{source}, {specs:?}: {}\n{said}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{source}, {specs:?}\n{said}");
    }
}

fn pairs() -> Vec<Vec<&'static str>> {
    SPECS.map(|(mutex, rwlock)| vec![mutex, rwlock]).to_vec()
}

fn delegates() -> Vec<Vec<&'static str>> {
    DELEGATES.map(|spec| vec![spec]).to_vec()
}

#[test]
fn locks_in_c() {
    has_no_races("cc", "-std=gnu11", "locks.c", false, &pairs());
}

#[test]
fn locks_in_cpp() {
    has_no_races("c++", "-std=c++17", "locks.cpp", true, &pairs());
}

#[test]
fn delegates_in_c() {
    has_no_races("cc", "-std=gnu11", "delegates.c", false, &delegates());
}

#[test]
fn delegates_in_cpp() {
    has_no_races("c++", "-std=c++17", "delegates.cpp", true, &delegates());
}

#[test]
fn last_users_in_c() {
    has_no_races("cc", "-std=gnu11", "ends.c", false, &delegates());
}

/// What protects nothing is not called protected: there is a race under every lock and delegate.
#[test]
fn races_are_found() {
    if !is_there() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let program = program("cc", "-std=gnu11", "races.c", false, directory.path());
    let mutexes = SPECS.map(|(mutex, _)| ["mutex", mutex]);
    let rwlocks = SPECS.map(|(_, rwlock)| ["rwlock", rwlock]);
    let delegates = DELEGATES.map(|delegate| ["delegate", delegate]);
    for arguments in mutexes.iter().chain(&rwlocks).chain(&delegates) {
        let output = sanitized(&program, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(RACE), "{arguments:?}: {}\n{said}", output.status);
        assert!(said.contains("WARNING: ThreadSanitizer: data race"), "{arguments:?}: {said}");
    }
}
