//! C and C++ programs that are compiled against the headers and linked with the library, shared and static.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// Specs of mutexes and of reader-writer locks, by turns: one of each way to live in 64 bytes.
const SPECS: [(&str, &str); 8] = [
    ("cst-mutex", "rw-futex"),
    ("ticket", "pf-t"),
    ("mcs-stp", "cst-rwsem"),
    ("k42-stp", "linux-rwsem"),
    ("gcr(mcs-stp, active=2)", "bravo(rw-futex)"),
    ("gcr(k42-stp)", "c-rw-wp"),
    ("biased(futex)", "bravo(cst-rwsem)"),
    ("hmcs-stp(may-pass-local=4)", "pf-q-stp"),
];

/// Every delegate by name, and locks under which sections run.
const DELEGATES: [&str; 14] = [
    "oyama",
    "fc",
    "cc-synch",
    "dsm-synch",
    "h-synch",
    "p-sim",
    "ffwd",
    "rcl",
    "rcl(servers=1)",
    "sanl",
    "sanl-numa",
    "sanl-plus",
    "locked(cst-mutex)",
    "locked(gcr(mcs-stp, active=2))",
];

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The directory of the libraries: `LOCKWORK_C_DIR`, else the release build of this workspace.
fn libraries() -> PathBuf {
    let built = || Path::new(CRATE).join("../../target/release");
    let directory = env::var_os("LOCKWORK_C_DIR").map_or_else(built, PathBuf::from);
    let missing =
        |error| panic!("{}: {error}; run: cargo build --release -p lockwork-capi", directory.display());
    directory
        .join("liblockwork_c.a")
        .canonicalize()
        .unwrap_or_else(missing)
        .parent()
        .expect("a directory")
        .to_owned()
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

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
    let program = directory.path().join("program");
    let libraries = libraries();
    let mut compile = Command::new(compiler);
    compile.args([standard, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    compile.arg(Path::new(CRATE).join("include")).arg(Path::new(CRATE).join("tests/c").join(source));
    compile.arg("-o").arg(&program);
    if is_static {
        compile.arg(libraries.join("liblockwork_c.a")).args(["-ldl", "-lm"]);
    } else {
        // The shared library's name in programs is that of its interface.
        let named = directory.path().join("liblockwork_c.so.0");
        fs::copy(libraries.join("liblockwork_c.so"), &named).expect("a copy");
        compile.arg(&named).arg(format!("-Wl,-rpath,{}", directory.path().display()));
    }
    run(&mut compile);
    for specs in runs {
        let mut program = Command::new("timeout");
        program.args(["-s", "KILL", "60"]).arg(directory.path().join("program")).args(specs);
        assert_eq!(String::from_utf8_lossy(&run(&mut program).stdout), "ok\n", "{specs:?}");
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
