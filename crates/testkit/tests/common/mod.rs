//! Builds the programs of the POSIX suite and runs them with and without `liblockwork.so`.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod compare;
pub(crate) mod served;

use std::env;
use std::fmt;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use lockwork_locks::describe::Waiting;
use lockwork_locks::registry as rw;
use lockwork_locks::registry::lookup;

/// A program that has not ended by then is killed with everything it started. Its cases have limits of their
/// own, which are meant to strike first.
const LIMIT_SECONDS: u32 = 600;

/// liblockwork.so: `LOCKWORK_SO`, else the release build of this workspace.
///
/// # Panics
/// When it was not built.
pub(crate) fn lockwork_so() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/liblockwork.so");
    let path = env::var_os("LOCKWORK_SO").map_or_else(built, PathBuf::from);
    path.canonicalize()
        .unwrap_or_else(|error| panic!("{}: {error}; run: cargo build --release", path.display()))
}

/// Where the suite is built: `bin/` has the programs and their libraries, `reference/` what they print under
/// plain glibc. Built once; test processes that run at the same time wait for each other.
pub(crate) fn suite() -> &'static Path {
    static SUITE: OnceLock<PathBuf> = OnceLock::new();
    SUITE.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("posix");
        std::fs::create_dir_all(&out).expect("a directory for the suite");
        let output = Command::new("flock")
            .arg(out.join("lock"))
            .args(make(&out))
            .args(["-j2", "all", "reference"])
            .env_remove("LD_PRELOAD")
            .output()
            .expect("flock (util-linux) and make");
        assert!(output.status.success(), "make failed:\n{}", text(&output));
        out
    })
}

/// The names of the suite's programs.
pub(crate) fn programs() -> Vec<String> {
    let command = make(suite());
    let output = Command::new(&command[0]).args(&command[1..]).arg("list").output().expect("make");
    assert!(output.status.success(), "make failed:\n{}", text(&output));
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

fn make(out: &Path) -> Vec<String> {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/posix");
    ["make", "-s", "-C", sources, &format!("OUT={}", out.display())].map(str::to_owned).to_vec()
}

/// What the program prints under plain glibc.
pub(crate) fn reference(program: &str) -> String {
    let path = suite().join("reference").join(program).with_extension("txt");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A command for a program of the suite, free of any preload and of settings the tests themselves run under,
/// that is killed when it does not end.
pub(crate) fn command(program: &str) -> Command {
    let mut command = limited(&suite().join("bin").join(program), LIMIT_SECONDS);
    command.current_dir(suite());
    command
}

/// The same for any program, and time.
pub(crate) fn limited(program: &Path, seconds: u32) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", &seconds.to_string()]).arg(program);
    for (variable, _) in env::vars_os() {
        let name = variable.to_string_lossy();
        if name == "LD_PRELOAD" || name.starts_with("LOCKWORK_") || name.starts_with("SUITE_") {
            command.env_remove(&variable);
        }
    }
    command
}

/// Says that something is not tested here, and why. Straight to the stream: a harness that captures what a test prints would keep it
/// to itself. `scripts/test.sh` counts these lines.
pub(crate) fn skipped(what: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {what}");
}

/// The program of the one file `tests/NAME.c`, compiled. The caller removes it.
pub(crate) fn compiled(name: &str) -> PathBuf {
    compiled_by("gcc", name, "c")
}

/// As [`compiled`], of a C++ source.
///
/// # Panics
/// As there.
pub(crate) fn compiled_cpp(name: &str) -> PathBuf {
    compiled_by("g++", name, "cpp")
}

fn compiled_by(compiler: &str, name: &str, extension: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name).with_extension(extension);
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}", std::process::id()));
    let output = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&out, &source])
        .output()
        .expect(compiler);
    assert!(output.status.success(), "{}", text(&output));
    out
}

/// Both streams of a process and how it ended, for a failure's message.
pub(crate) fn text(output: &Output) -> String {
    let mut all = String::new();
    for (name, stream) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let _ = writeln!(all, "{name}:\n{}", String::from_utf8_lossy(stream));
    }
    let _ = write!(all, "{}", output.status);
    all
}

/// How much of the suite a lock can do in reasonable time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Percentage of the iterations.
    pub(crate) scale: u32,
    /// Ceiling for thread counts.
    pub(crate) threads: u32,
    /// Factor on the time limits of cases.
    pub(crate) patience: u32,
    /// Whether waiters spin, so that crowds must be small.
    pub(crate) spin: bool,
}

/// The scale at which the suite runs, for a reader of what it prints.
impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scale, threads, .. } = self;
        write!(f, "{scale}% of the iterations, at most {threads} threads")
    }
}

/// The effort that suits a lock. With more threads than cores, a lock whose waiters spin keeps its holder off the
/// processor, or is handed to a thread that is; where they yield, each gets its turn before the holder does. GCR bounds
/// how many do so, but not to the number of cores.
pub(crate) fn effort(lock: &str) -> Effort {
    let (mutex, rwlock) = lock.split_once('+').unwrap_or((lock, lock));
    if rw::lookup(rwlock).is_some_and(|lock| lock.waiting == Waiting::Spin) {
        return Effort { scale: 2, threads: 3, patience: 3, spin: true };
    }
    let lock = mutex;
    if lock == "passthrough" {
        return Effort { scale: 100, threads: 64, patience: 2, spin: false };
    }
    let base = lock.rsplit('(').next().and_then(|rest| rest.split([',', ')']).next()).unwrap_or(lock);
    if lookup(base).is_none_or(|lock| !lock.waiting.never_sleeps()) {
        // In most of these every hand-off among so many threads wakes a sleeper.
        Effort { scale: 10, threads: 64, patience: 2, spin: false }
    } else if base == lock {
        Effort { scale: 2, threads: 3, patience: 3, spin: true }
    } else {
        Effort { scale: 2, threads: 64, patience: 3, spin: false }
    }
}

/// Puts a command under `lock`.
pub(crate) fn put_under(command: &mut Command, lock: &str) {
    let effort = effort(lock);
    command
        .env("LD_PRELOAD", lockwork_so())
        .env("LOCKWORK_LOCK", lock)
        .env("LOCKWORK_VERBOSE", "1")
        .env("SUITE_SCALE", effort.scale.to_string())
        .env("SUITE_THREADS", effort.threads.to_string())
        .env("SUITE_PATIENCE", effort.patience.to_string());
    if effort.spin {
        command.env("SUITE_SPIN", "1");
    }
}
