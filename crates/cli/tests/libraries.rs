//! Programs that use the Rust and the C library, built with the feature `profile`: `lockwork profile` records their locks, and
//! `lockwork top` looks at them while they run, whoever started them.

mod common;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

use common::{lockwork, output};
use serde_json::Value;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The same as `recorded.c`, in Rust.
const PROGRAM: &str = r#"
use std::io::Read as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use lockwork::locks::McsStp;
use lockwork::{Condvar, DynMutex, Mutex, RwLock};

static HOT: Mutex<u64, McsStp> = Mutex::unlocked(0);
static SHARED: RwLock<u64> = RwLock::new(0);
static HEAP: OnceLock<Box<DynMutex<u64>>> = OnceLock::new();
static TURN: Condvar = Condvar::new();
static ARRIVED: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
fn hold() {
    let mut count = HOT.lock();
    *count += 1;
    thread::sleep(Duration::from_micros(200));
}

#[inline(never)]
fn look() {
    let count = SHARED.read();
    thread::sleep(Duration::from_micros(50));
    assert!(*count < u64::MAX);
}

#[inline(never)]
fn change() {
    *SHARED.write() += 1;
}

#[inline(never)]
fn pass_turn(number: u64) {
    let heap = HEAP.get_or_init(|| Box::new(DynMutex::with_spec("gcr(ticket, active=2)", 0).unwrap()));
    // The first turn is passed when somebody waits for the next.
    while number == 0 && ARRIVED.load(SeqCst) == 0 {
        thread::sleep(Duration::from_micros(100));
    }
    let mut turns = heap.lock();
    if number != 0 {
        ARRIVED.fetch_add(1, SeqCst);
    }
    TURN.wait_while(&mut turns, |turns| *turns % 4 != number);
    *turns += 1;
    TURN.notify_all();
}

fn work(number: u64, rounds: u64) {
    for round in 0..rounds {
        hold();
        if round % 3 != 0 { look() } else { change() }
        pass_turn(number);
    }
}

fn main() {
    if std::env::args().count() > 1 {
        for number in 0..4 {
            thread::spawn(move || work(number, u64::MAX));
        }
        println!("up");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        std::process::exit(7);
    }
    thread::scope(|scope| (0..4).for_each(|number| _ = scope.spawn(move || work(number, 15))));
}
"#;

fn built(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded")
}

/// A package of its own that depends on the library.
fn rust_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let package = target().join("recorded");
        let workspace = Path::new(CRATE).join("../..");
        let library = workspace.join("crates/lockwork");
        let manifest = format!(
            "[package]\nname = \"recorded\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             lockwork = {{ path = {library:?}, features = [\"profile\"] }}\n\n\
             [profile.dev]\nopt-level = 1\n\n[workspace]\n",
        );
        fs::create_dir_all(package.join("src")).unwrap();
        fs::write(package.join("Cargo.toml"), manifest).unwrap();
        fs::write(package.join("src/main.rs"), PROGRAM).unwrap();
        // The versions of the workspace, which are there without asking a registry.
        fs::copy(workspace.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--offline"]).current_dir(&package);
        build.env("CARGO_TARGET_DIR", target().join("rust")).env("RUSTFLAGS", "-Cforce-frame-pointers");
        built(&mut build);
        target().join("rust/debug/recorded")
    })
}

/// A program with the C library, static.
fn c_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--offline", "-p", "lockwork-capi", "--features", "profile"]);
        build
            .current_dir(CRATE)
            .env("CARGO_TARGET_DIR", target().join("c"))
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        built(&mut build);
        let program = target().join("recorded-c");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Werror", "-pthread", "-I"]);
        compile.arg(Path::new(CRATE).join("../capi/include"));
        compile.arg(Path::new(CRATE).join("tests/recorded.c")).arg(target().join("c/debug/liblockwork_c.a"));
        built(compile.args(["-ldl", "-lm", "-o"]).arg(&program));
        program
    })
}

fn library() -> PathBuf {
    let built = || Path::new(CRATE).join("../../target/release/liblockwork.so");
    env::var_os("LOCKWORK_SO")
        .map_or_else(built, PathBuf::from)
        .canonicalize()
        .expect("cargo build --release")
}

/// The command, and a watchdog that is no part of what is tested.
fn command(words: &[&str]) -> Command {
    let plain = lockwork();
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "120"]).arg(plain.get_program()).args(words);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("LOCKWORK_SO", library()).stdin(Stdio::null());
    command
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
    succeed(command(&["profile", "-o", path, "--"]).arg(program));
    let text = succeed(&mut command(&["profile", "report", path, "--format", "json"]));
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
    // Who waited for whom: the functions of the program, and not those of the library.
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
    check(
        c_program(),
        ["hot", "shared", "make_heap", "turn"],
        ["cst-mutex", "rw-futex", "gcr(ticket, active=2)"],
    );
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
            let mut top = command(&["top", &id, "--once", "--interval", "0.3"]);
            let picture = succeed(top.env("TMPDIR", directory.path()));
            assert!(picture.contains(hot), "{picture}");
        }
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
