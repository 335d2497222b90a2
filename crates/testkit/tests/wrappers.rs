//! A library that is preloaded behind ours and wraps a function: it is called for glibc's, and finds glibc's by version.

mod common;

use std::process::Command;

#[test]
fn a_wrapper_behind_the_locks_finds_glibc() {
    let program = common::compiled("wrappers");
    let wrapper = program.with_extension("so");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrappers.c");
    let output = Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-DWRAPPER", "-o"])
        .args([&wrapper, &source])
        .output()
        .expect("gcc");
    assert!(output.status.success(), "{}", common::text(&output));
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
