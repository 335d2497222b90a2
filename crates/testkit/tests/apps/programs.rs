//! Finds programs and libraries, and puts programs under a lock.

use crate::process::{Ended, run};
use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command for the program `name`, free of any preload the tests themselves run under.
///
/// # Panics
/// When the program is not installed.
pub(crate) fn program(name: &str) -> Command {
    program_if_any(name).unwrap_or_else(|| panic!("{name} is not installed; run: scripts/setup.sh test"))
}

/// The same for a program that cannot be had everywhere.
pub(crate) fn program_if_any(name: &str) -> Option<Command> {
    let search = env::var_os("PATH").unwrap_or_default();
    let path = env::split_paths(&search)
        .chain(["/usr/bin", "/usr/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())?;
    let mut command = Command::new(path);
    for (variable, _) in env::vars_os() {
        if variable == "LD_PRELOAD" || variable.to_string_lossy().starts_with("LOCKWORK_") {
            command.env_remove(variable);
        }
    }
    Some(command)
}

/// A script among those of the tests.
pub(crate) fn script_of(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("apps").join(file)
}

/// Says that something is not tested here, and why, past the harness, which keeps what tests print to itself. `scripts/test.sh`
/// counts these lines.
pub(crate) fn skipped(what: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {what}");
}

/// A shared library of the system, such as an allocator to preload.
///
/// # Panics
/// When it is not installed.
pub(crate) fn library(name: &str) -> PathBuf {
    let multiarch = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    [multiarch.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib"]
        .iter()
        .map(|directory| Path::new(directory).join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{name} is not installed; run: scripts/setup.sh test"))
}

/// liblockwork.so.
///
/// # Panics
/// When it was not built.
pub(crate) fn lockwork_so() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/liblockwork.so");
    let path = env::var_os("LOCKWORK_SO").map_or_else(built, PathBuf::from);
    path.canonicalize()
        .unwrap_or_else(|error| panic!("{}: {error}; run: cargo build --release", path.display()))
}

/// Puts `command` under `lock`.
pub(crate) fn put_under(command: &mut Command, lock: &str) {
    preload(command, lock, &[lockwork_so()]);
}

/// Puts `command` under `lock` with `libraries`, one of them ours, preloaded in that order.
pub(crate) fn preload(command: &mut Command, lock: &str, libraries: &[PathBuf]) {
    let list: Vec<OsString> = libraries.iter().map(|path| path.as_os_str().to_owned()).collect();
    command
        .env("LD_PRELOAD", list.join(":".as_ref()))
        .env("LOCKWORK_LOCK", lock)
        .env("LOCKWORK_VERBOSE", "1");
}

/// Runs `command` under `lock` and checks that it succeeded, and that the lock really was there.
pub(crate) fn succeed_under(mut command: Command, lock: &str) -> Ended {
    put_under(&mut command, lock);
    let ended = succeed(command);
    assert_served(&ended, lock);
    ended
}

/// The same with the recorder on, which must have made a file.
pub(crate) fn succeed_recorded_under(mut command: Command, lock: &str) -> Ended {
    let directory = tempfile::tempdir().expect("a directory");
    command.env("LOCKWORK_PROFILE", directory.path().join("p"));
    let ended = succeed_under(command, lock);
    assert!(!ended.stderr.contains("is not recorded"), "{}", tail(&ended.stderr));
    assert!(
        std::fs::read_dir(directory.path()).expect("the directory").next().is_some(),
        "nothing is recorded"
    );
    ended
}

/// Checks that the library reported at the program's end, and had served mutexes by `lock`, or both kinds by
/// `MUTEX+RWLOCK`.
pub(crate) fn assert_served(ended: &Ended, lock: &str) {
    let (mutex, rwlock) = lock.split_once('+').map_or((lock, None), |(mutex, rwlock)| (mutex, Some(rwlock)));
    let mutexes =
        if mutex == "passthrough" { "lockwork: ".to_owned() } else { format!(" mutexes by {mutex}") };
    for expected in [Some(mutexes), rwlock.map(|rwlock| format!(" rwlocks by {rwlock}"))].iter().flatten() {
        assert!(ended.stderr.contains(expected), "no {expected:?} in {}", tail(&ended.stderr));
    }
}

/// Runs `command` as it is and checks that it succeeded.
pub(crate) fn succeed(mut command: Command) -> Ended {
    let ended = run(&mut command);
    assert!(
        ended.status.success(),
        "{:?}: {command:?}\nstdout: {}\nstderr: {}",
        ended.status,
        ended.text(),
        ended.stderr
    );
    assert!(!ended.stderr.contains("cannot be preloaded"), "{}", ended.stderr);
    ended
}

/// The last lines of a text that may be long.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

#[test]
#[should_panic(expected = "scripts/setup.sh test")]
fn a_missing_program_names_the_set_up() {
    program("no-such-program-anywhere");
}

#[test]
#[should_panic(expected = "scripts/setup.sh test")]
fn a_missing_library_names_the_set_up() {
    library("libnothing.so.0");
}
