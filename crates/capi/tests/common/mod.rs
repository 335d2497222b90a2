//! What tests of C and C++ programs share.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// Specs of mutexes and of reader-writer locks, by turns: one of each way to live in 64 bytes.
pub(crate) const SPECS: [(&str, &str); 9] = [
    ("auto", "rw-futex"),
    ("cst-mutex", "auto-rw"),
    ("ticket", "pf-t"),
    ("mcs-stp", "cst-rwsem"),
    ("k42-stp", "linux-rwsem"),
    ("gcr(mcs-stp, active=2)", "bravo(rw-futex)"),
    ("gcr(k42-stp)", "c-rw-wp"),
    ("biased(futex)", "bravo(cst-rwsem)"),
    ("hmcs-stp(may-pass-local=4)", "pf-q-stp"),
];

/// Every delegate by name, and locks under which sections run.
pub(crate) const DELEGATES: [&str; 15] = [
    "oyama",
    "fc",
    "fc-list",
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

pub(crate) const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The directory of the libraries: `LOCKWORK_C_DIR`, else the release build of this workspace.
pub(crate) fn libraries() -> PathBuf {
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

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Compiles `source` of `tests/c` into `directory`, against the headers and with the library, shared or static. Returns the program.
pub(crate) fn compiled(
    compiler: &str,
    flags: &[&str],
    source: &str,
    is_static: bool,
    directory: &Path,
) -> PathBuf {
    let program = directory.join("program");
    let libraries = libraries();
    let mut compile = Command::new(compiler);
    compile.args(flags).args(["-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    compile.arg(Path::new(CRATE).join("include")).arg(Path::new(CRATE).join("tests/c").join(source));
    compile.arg("-o").arg(&program);
    if is_static {
        compile.arg(libraries.join("liblockwork_c.a")).args(["-ldl", "-lm"]);
    } else {
        // The shared library's name in programs is that of its interface.
        let named = directory.join("liblockwork_c.so.0");
        fs::copy(libraries.join("liblockwork_c.so"), &named).expect("a copy");
        compile.arg(&named).arg(format!("-Wl,-rpath,{}", directory.display()));
    }
    run(&mut compile);
    program
}
