//! What the tests of the command share.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The command under test, in an environment of its own. Its library is the C library, which every program has
/// loaded anyway: these tests are about the command, not about locks.
pub fn lockwork() -> Command {
    let mut command = bare_lockwork();
    command.env("LOCKWORK_SO", harmless_library());
    command
}

/// The command without a library.
pub fn bare_lockwork() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockwork"));
    let ours = lockwork_config::VARIABLES.iter().map(|variable| variable.name);
    for variable in ours.chain(["LD_PRELOAD", "COLUMNS", "NO_COLOR"]) {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

/// The library under which programs of the tests run: the release build of this workspace, or what `LOCKWORK_SO` names.
pub fn real_library() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/liblockwork.so");
    let path = std::env::var_os("LOCKWORK_SO").map_or_else(built, PathBuf::from);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}; cargo build --release", path.display()))
}

/// The command with the real library, and a watchdog that is no part of what is tested.
pub fn watched(words: &[&str]) -> Command {
    let plain = bare_lockwork();
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "120"]).arg(plain.get_program()).args(words);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("LOCKWORK_SO", real_library()).stdin(Stdio::null());
    command
}

/// Where this process has its C library from.
pub fn harmless_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libc.so"));
    PathBuf::from(path.expect("the tests are linked with libc.so.6"))
}

/// Runs to the end; every test's command is short.
pub fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Says that something is not tested here, and why, past the harness, which keeps what passing tests print to itself.
/// `scripts/test.sh` counts these lines.
pub fn skipped(what: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {what}");
}

/// Writes an executable script.
pub fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
    let source = directory.join(format!("{name}.text"));
    std::fs::write(&source, text).unwrap();
    let path = directory.join(name);
    install(&source, &path);
    path
}

/// Makes an executable of a file. By a process of its own: were this one to write it, a child that another test forks
/// meanwhile would have it open for writing too, and it could not be run until that child has called `exec`.
pub fn install(source: &Path, target: &Path) {
    let status = Command::new("install").arg("-m755").args([source, target]).status().unwrap();
    assert!(status.success(), "install {}: {status}", target.display());
}
