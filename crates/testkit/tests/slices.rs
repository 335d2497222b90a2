//! Holders of mutexes ask for time-slice extensions if they are told to, and not otherwise.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, compiled.
fn program() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slices.c");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("slices-{}", std::process::id()));
    let output = Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&out, &source])
        .output()
        .expect("gcc");
    assert!(output.status.success(), "{}", common::text(&output));
    out
}

#[test]
fn holders_ask_when_told_to() {
    let program = program();
    for (lock, asks) in [
        ("mcs-stp", true),
        ("mcs-stp", false),
        ("gcr(mcs-stp)", true),
        ("futex", true),
        ("passthrough", false),
    ] {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60"]).arg(&program);
        common::put_under(&mut command, lock);
        if asks {
            command.arg("asks").env("LOCKWORK_TIME_SLICE", "1");
        }
        let output = command.env_remove("LOCKWORK_MONITOR").output().expect("timeout (coreutils)");
        assert!(output.status.success(), "{lock}, {asks}: {}", common::text(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        match text.trim() {
            "fine" => {}
            skipped => eprintln!("SKIPPED: {skipped}"),
        }
    }
    std::fs::remove_file(program).expect("our own file");
}
