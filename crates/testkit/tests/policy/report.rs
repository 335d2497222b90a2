//! When the library reports.

use std::path::Path;
use std::process::Command;

use crate::common::lockwork_so;
use crate::harness::{Bench, path, succeed, under};

fn stderr(command: &mut Command) -> String {
    String::from_utf8(succeed(command).stderr).expect("text")
}

#[test]
fn of_processes_that_use_locks_only() {
    let bench = Bench::new();
    let program = bench.build("kinds", "kinds.c", &[]);
    for lock in ["ticket", "passthrough"] {
        let run = |program: &Path, verbose: &str| {
            stderr(&mut under(program, &[("LOCKWORK_LOCK", lock), ("LOCKWORK_VERBOSE", verbose)]))
        };
        assert_eq!(run(&program, "1").lines().count(), 1);
        assert_eq!(run(Path::new("/bin/true"), "1"), "");
        for silent in ["0", ""] {
            assert_eq!(run(&program, silent), "");
        }
    }
}

/// Where every lock is glibc's, static mutexes are not counted, but seen.
#[test]
fn of_processes_whose_locks_are_all_static() {
    let bench = Bench::new();
    let program = bench.build("user", "static.c", &[]);
    for operation in ["lock", "trylock", "rwlock", "cond", "none"] {
        let mut command = under(&program, &[("LOCKWORK_LOCK", "passthrough"), ("LOCKWORK_VERBOSE", "1")]);
        let said = stderr(command.arg(operation));
        if operation == "none" {
            assert_eq!(said, "");
        } else {
            assert!(
                said.contains(
                    "served nothing; forwarded to glibc all locks, of which it initialised 0 mutexes"
                ),
                "{operation}: {said}"
            );
        }
    }
}

/// A command that becomes a program names its own process id, which is then the program's; not that of its child.
#[test]
fn of_the_process_that_is_named() {
    let script = format!(
        "echo $$; LD_PRELOAD={} LOCKWORK_LOCK=ticket LOCKWORK_VERBOSE=$$ exec timeout 60 true",
        path(&lockwork_so())
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env_clear().env("PATH", "/usr/bin:/bin");
    let output = succeed(&mut shell);
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.starts_with(&format!("lockwork: timeout[{id}]: served nothing; forwarded to glibc 0 mutexes")),
        "{said}"
    );
}
