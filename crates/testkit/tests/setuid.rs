//! Programs that run with the rights of another user: neither the preload nor a variable of the caller's has a say.

mod common;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NOBODY: u32 = 65534;

/// What a program that belongs to the user `nobody` says in secure mode.
const SECURE: &str = "user 65534, secure 1, preload none\n";

/// Gives a program to the user `nobody` and makes it setuid. Returns whether it then runs as `nobody`: the file system or
/// the user of the tests may not be allowed to.
fn is_setuid(program: &Path) -> bool {
    let made = chown(program, Some(NOBODY), None)
        .and_then(|()| std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o4755)));
    made.is_ok() && run(&mut Command::new(program)).stdout == SECURE.as_bytes()
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// The program linked with the library, as a setuid program may be to have the library at all.
fn linked(library: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/setuid.c");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("setuid-linked-{}", std::process::id()));
    let mut rpath = std::ffi::OsString::from("-Wl,--no-as-needed,-rpath,");
    rpath.push(library.parent().expect("a file has a directory"));
    let output = run(Command::new("gcc")
        .args(["-O2", "-pthread", "-o"])
        .args([&out, &source])
        .arg(rpath)
        .arg(library));
    assert!(output.status.success(), "{}", common::text(&output));
    out
}

#[test]
fn the_loader_ignores_the_preload() {
    let program = common::compiled("setuid");
    if is_setuid(&program) {
        for direct in [true, false] {
            let mut command = if direct { Command::new(&program) } else { Command::new("sh") };
            if !direct {
                // The shell is served; its setuid child is not.
                command.args(["-c", "\"$0\"; true"]).arg(&program);
            }
            common::put_under(&mut command, "mcs-stp");
            let output = run(&mut command);
            assert!(output.status.success(), "{}", common::text(&output));
            assert_eq!(String::from_utf8_lossy(&output.stdout), SECURE);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!stderr.contains("lockwork: setuid"), "{stderr}");
        }
    } else {
        common::skipped("setuid programs: not root, or the file system is mounted nosuid");
    }
    std::fs::remove_file(program).expect("our own file");
}

/// A library that is there all the same does not obey the caller: not even a bad value is looked at.
#[test]
fn a_linked_library_ignores_the_environment() {
    let library = common::lockwork_so();
    let program = linked(&library);
    let with_bad_settings = |program: &Path| {
        let mut command = common::limited(program, 60);
        let bad =
            [("LOCKWORK_LOCK", "nonsense"), ("LOCKWORK_TOPOLOGY", "nonsense"), ("LOCKWORK_VERBOSE", "1")];
        run(command.envs(bad).env("LOCKWORK_POLICY", "/etc/shadow"))
    };
    let refused = with_bad_settings(&program);
    assert_eq!(refused.status.code(), Some(2), "as long as it is not setuid: {}", common::text(&refused));
    if is_setuid(&program) {
        let output = with_bad_settings(&program);
        assert!(output.status.success(), "{}", common::text(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), SECURE);
        assert!(output.stderr.is_empty(), "{}", common::text(&output));
    } else {
        common::skipped(
            "a setuid program linked with the library: not root, or the file system is mounted nosuid",
        );
    }
    std::fs::remove_file(program).expect("our own file");
}
