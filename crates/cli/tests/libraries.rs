//! Programs that use the Rust and the C library, built with the feature `profile`: `lockwork profile` records their locks, and
//! `lockwork top` looks at them while they run, whoever started them.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::{output, watched};
use serde_json::Value;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

fn built(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}

/// Where this test was built: what it needs besides is there, but for the libraries themselves.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a directory of it").to_owned()
}

/// Builds something with the feature, and the compiler's options after that.
fn build(words: &[&str], options: &[&str]) {
    let mut build = Command::new(env!("CARGO"));
    build.args(words).args(["--quiet", "--offline", "--features", "profile"]).args(options);
    built(build.current_dir(CRATE).env("CARGO_TARGET_DIR", target()));
}

/// A program that depends on the library.
fn rust_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let example = ["rustc", "--package", "lockwork", "--example", "recorded"];
        build(&example, &["--", "-Cforce-frame-pointers", "-Copt-level=1"]);
        target().join("debug/examples/recorded")
    })
}

/// A program with the C library, static.
fn c_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        build(&["build", "--package", "lockwork-capi"], &[]);
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded-c");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Werror", "-pthread", "-I"]);
        compile.arg(Path::new(CRATE).join("../capi/include"));
        compile.arg(Path::new(CRATE).join("tests/recorded.c")).arg(target().join("debug/liblockwork_c.a"));
        built(compile.args(["-ldl", "-lm", "-o"]).arg(&program));
        program
    })
}

fn succeed(command: &mut Command) -> String {
    let (status, stdout, stderr) = output(command);
    assert_eq!(status, Some(0), "{command:?}: {stdout}{stderr}");
    stdout
}

/// The only lock or condition whose name ends so.
fn lock<'a>(profile: &'a Value, kind: &str, name: &str) -> &'a Value {
    let is_it = |lock: &&Value| lock["name"].as_str().is_some_and(|its| its.ends_with(name));
    let mut found = profile[kind].as_array().unwrap().iter().filter(is_it);
    let it = found.next().unwrap_or_else(|| panic!("no lock {name}: {profile:#}"));
    assert!(found.next().is_none(), "{name}: {profile:#}");
    it
}

/// Records a program, whose hot lock, reader-writer lock, lock on the heap and condition are called so, and what serves them.
fn check(program: &Path, names: [&str; 4], served_by: [&str; 3]) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("profile");
    let path = file.to_str().unwrap();
    succeed(watched(&["profile", "-o", path, "--"]).arg(program));
    let text = succeed(&mut watched(&["profile", "report", path, "--format", "json"]));
    let profile: Value = serde_json::from_str(&text).unwrap();
    let [hot, shared, heap, turn] = names;
    let [hot, shared, heap] = [hot, shared, heap].map(|name| lock(&profile, "locks", name));
    for ((lock, kind), server) in
        [(hot, "mutex"), (shared, "rwlock"), (heap, "mutex")].into_iter().zip(served_by)
    {
        assert_eq!(lock["kind"], kind, "{text}");
        assert_eq!(lock["served_by"], server, "{text}");
    }
    assert!(lock(&profile, "conditions", turn)["waits"].as_u64().unwrap() > 0, "{text}");
    // So few that all are counted.
    let acquired = |lock: &Value| lock["acquisitions"].as_u64().unwrap();
    assert_eq!([acquired(hot), acquired(shared)], [60, 60], "{text}");
    // Once for each turn, and again after each wait.
    assert!(acquired(heap) >= 60, "{text}");
    assert!(
        hot["contended"].as_u64().unwrap() > 0 && hot["wait_ns"]["total"].as_u64().unwrap() > 0,
        "{text}"
    );
    let held = hot["hold_ns"]["total"].as_f64().unwrap() / 60.0;
    assert!(held >= 200_000.0, "{held}: {text}");
    let read = shared["read_share"].as_f64().unwrap();
    assert!((read - 2.0 / 3.0).abs() < 0.01, "{read}: {text}");
    // Which thread waited for which: the functions of the program, and not those of the library.
    let blame = hot["blame"].as_array().unwrap();
    assert!(!blame.is_empty(), "{text}");
    for side in ["waiter", "holder"] {
        let innermost = blame[0][side][0].as_str().unwrap();
        assert!(innermost.contains("hold"), "{side}: {innermost}: {text}");
    }
}

#[test]
fn locks_of_the_rust_library_are_recorded() {
    check(
        rust_program(),
        ["HOT", "SHARED", "pass_turn", "TURN"],
        ["Mcs<SpinThenPark>", "RwFutex", "gcr(ticket, active=2)"],
    );
}

#[test]
fn locks_of_the_c_library_are_recorded() {
    check(c_program(), ["hot", "shared", "make_heap", "turn"], ["auto", "rw-futex", "gcr(ticket, active=2)"]);
}

/// A program that nothing of lockwork's started can be asked to record, too.
#[test]
fn top_looks_at_programs_with_the_libraries() {
    for (program, hot) in [(rust_program(), "HOT"), (c_program(), "hot")] {
        let directory = tempfile::tempdir().unwrap();
        let mut child =
            Command::new(program).arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        let id = child.id().to_string();
        let maps = || fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
        assert!(!maps().contains(" rw-s "), "{}", maps());
        for _ in 0..2 {
            let mut top = watched(&["top", &id, "--once", "--interval", "0.3"]);
            let picture = succeed(top.env("TMPDIR", directory.path()));
            assert!(picture.contains(hot), "{picture}");
        }
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
