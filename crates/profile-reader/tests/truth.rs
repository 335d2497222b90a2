//! A program that knows what its locks do, profiled: the profile must say the same as the program's own clock in the same run,
//! under glibc's locks and under ours. And what the reader says of files that are none.
//!
//! The library is the release build of this workspace, or what `LOCKWORK_SO` names.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use lockwork_profile_reader::{Kind, Lock, Mode, Profile};

fn library() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/liblockwork.so");
    let path = std::env::var_os("LOCKWORK_SO").map_or_else(built, PathBuf::from);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}; cargo build --release", path.display()))
}

/// One test at a time: the program's own clock is the truth only while it has the CPUs to itself.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/truth.c");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("truth-{}", std::process::id()));
        let flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-no-pie", "-pthread", "-Wall", "-Werror"];
        let status = Command::new("gcc").args(flags).arg("-o").arg(&target).arg(source).status().unwrap();
        assert!(status.success());
        target
    })
}

fn start(lock: &str, part: &str, directory: &Path) -> Child {
    let mut command = Command::new("timeout");
    // A watchdog: a profile must not hang a program.
    command.args(["--signal=KILL", "60"]).arg(program()).arg(part);
    command
        .env("LD_PRELOAD", library())
        .env("LOCKWORK_LOCK", lock)
        .env("LOCKWORK_PROFILE", directory.join("p"));
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Profiles of this program in a directory: that of `timeout` is none of it.
fn profiles(directory: &Path) -> Vec<Profile> {
    let files = std::fs::read_dir(directory).unwrap();
    let all = files.map(|entry| Profile::read(&entry.unwrap().path()).expect("a profile"));
    all.filter(|profile| profile.name.starts_with("truth")).collect()
}

/// The address of a function or variable, by `nm`.
fn symbol(name: &str) -> (u64, u64) {
    let output = Command::new("nm").arg("-S").arg(program()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("a symbol");
    let mut words = line.split(' ').map(|word| u64::from_str_radix(word, 16));
    let start = words.next().unwrap().unwrap();
    (start, start + words.next().unwrap().unwrap())
}

fn lock<'a>(profile: &'a Profile, name: &str) -> &'a Lock {
    let (start, end) = symbol(name);
    profile.locks.iter().find(|lock| (start..end).contains(&lock.address)).expect("the lock has a record")
}

/// Whether the figure is the true one, to 5% and a little for what lies between the two readings of the clock.
fn assert_is(what: &str, figure: f64, truth: f64, slack: f64) {
    assert!((figure - truth).abs() <= truth * 0.05 + slack, "{what}: {figure}, in truth {truth}");
}

/// A thread that loses its CPU between its own reading of the clock and the recorder's makes the two differ, so a run
/// counts in which that did not happen. A recorder that is wrong is wrong in all of them.
fn the_profile_tells_the_truth(choice: &str) {
    const RUNS: u32 = 5;
    let agrees = |run| {
        std::panic::catch_unwind(|| one_profile_tells_the_truth(choice))
            .inspect_err(|_| eprintln!("run {run}"))
            .is_ok()
    };
    assert!((1..=RUNS).any(agrees), "{choice}: in {RUNS} runs the profile and the program never agreed");
}

fn one_profile_tells_the_truth(choice: &str) {
    let directory = tempfile::tempdir().unwrap();
    let output = start(choice, "all", directory.path()).wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let truth = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a figure");
        line.trim().parse().unwrap()
    };
    let all = profiles(directory.path());
    let profile = &all[0];
    assert!(profile.has_ended);

    let five = lock(profile, "held_by_five");
    assert_eq!(five.kind, Kind::Mutex);
    // The thread that comes first need not wait; nor one that comes late, between a release and the waiter that it woke up.
    let waiters = truth("waiters ") as u64;
    assert_eq!(five.contended, waiters, "{choice}, and {} without having waited", five.uncontended);
    if waiters == 4 {
        assert_eq!(five.uncontended, 1);
        assert_eq!(five.waiting_max, 4);
    }
    const SLACK_NS: f64 = 5e6;
    assert_is("time waited", five.wait.total_ns as f64, truth("waited "), SLACK_NS);
    assert_is("time held", five.hold.total_ns as f64, truth("held "), SLACK_NS);
    let mut blamed = 0;
    for holder in 1..=5 {
        let name = format!("hold_{holder}");
        let (start, end) = symbol(&name);
        let is_in = |stack: u32| {
            profile.stacks[stack as usize].first().is_some_and(|caller| (start..end).contains(caller))
        };
        let edges = profile.edges.iter().filter(|edge| edge.lock == five.index);
        let ns: u64 =
            edges.filter(|edge| is_in(edge.released) && is_in(edge.acquired)).map(|edge| edge.ns).sum();
        assert_is(&name, ns as f64, truth(&format!("{name} ")), SLACK_NS);
        blamed += ns;
    }
    assert_is("all blame", blamed as f64, five.wait.total_ns as f64, 0.0);

    // Two locks in an array of 2, each acquired 200,000 times: an estimate with an interval.
    let (start, end) = symbol("counted");
    let counted = profile.locks.iter().filter(|lock| (start..end).contains(&lock.address));
    let counts: Vec<&Lock> = counted.collect();
    assert_eq!(counts.len(), 2);
    for counted in counts {
        let interval = 4.0 * (counted.uncontended_variance as f64).sqrt();
        assert_is("acquisitions", (counted.uncontended + counted.contended) as f64, 200_000.0, interval);
        assert_eq!(counted.contended, 0);
    }

    let mixed = lock(profile, "read_and_written");
    assert_eq!(mixed.kind, Kind::RwLock);
    let acquisitions = (mixed.contended + mixed.uncontended) as f64;
    let interval = 4.0 * (mixed.uncontended_variance as f64).sqrt();
    assert_is("acquisitions of the reader-writer lock", acquisitions, 1600.0, interval);
    let reads = (mixed.contended_reads + mixed.uncontended_reads) as f64;
    assert_is("reads", reads, 1440.0, interval);
}

#[test]
fn glibcs_locks_are_told_truly() {
    let _alone = alone();
    the_profile_tells_the_truth("passthrough");
}

#[test]
fn our_locks_are_told_truly() {
    let _alone = alone();
    the_profile_tells_the_truth("futex");
    the_profile_tells_the_truth("mcs-stp");
}

/// A million locks and thousands of threads at a time: the file is no larger, and says how much found no room. What did is counted
/// right.
#[test]
fn memory_is_bounded_whatever_the_program_does() {
    let _alone = alone();
    for choice in ["passthrough", "mcs-stp"] {
        let directory = tempfile::tempdir().unwrap();
        let output = start(choice, "many", directory.path()).wait_with_output().unwrap();
        if output.status.code() == Some(77) {
            // Past the harness, which keeps what passing tests print to itself; `scripts/test.sh` counts these lines.
            let _ = writeln!(io::stderr(), "SKIPPED: a crowd of threads: the machine does not allow so many");
            return;
        }
        assert!(output.status.success(), "{choice}: {:?}", output.status);
        let size = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len());
        assert!(size.max().unwrap() < 32 << 20);
        let all = profiles(directory.path());
        let profile = &all[0];
        assert!(profile.locks.len() < 1024 && profile.dropped.locks > 0, "{choice}: {:?}", profile.dropped);
        // 4096 threads have a place at a time; others are counted, and do not record.
        assert!((1..=905).contains(&profile.dropped.threads), "{choice}: {:?}", profile.dropped);
        let sum = |figure: fn(&Lock) -> u64| profile.locks.iter().map(figure).sum::<u64>() as f64;
        let counted = sum(|lock| lock.uncontended + lock.contended) + profile.dropped.acquisitions as f64;
        let interval = 4.0 * sum(|lock| lock.uncontended_variance).sqrt() + 20_000.0;
        assert_is("acquisitions", counted, f64::from(1 << 20), interval);
    }
}

/// The file outlives SIGKILL, and a wait that never ended is in it.
#[test]
fn unfinished_waits_outlive_a_kill() {
    let _alone = alone();
    for choice in ["passthrough", "mcs-stp"] {
        let directory = tempfile::tempdir().unwrap();
        let mut child = start(choice, "stuck", directory.path());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "waiting\n");
        let live = profiles(directory.path());
        let now = &live[0].now;
        let waiter = now.iter().find_map(|activity| activity.waits_for).expect("a thread waits");
        assert_eq!((waiter.mode, waiter.address), (Mode::Mutex, symbol("never_released").0));
        assert!(waiter.ns > 100_000_000, "{}", waiter.ns);
        assert!(now.iter().any(|activity| activity.holds.iter().any(|(held, _)| *held == waiter.address)));
        // `timeout` ends its command, too.
        Command::new("kill").args(["-KILL", &live[0].pid.to_string()]).status().unwrap();
        child.wait().unwrap();
        let dead = profiles(directory.path());
        let lock = lock(&dead[0], "never_released");
        assert_eq!((lock.unfinished, lock.contended), (1, 1));
    }
}

/// A child of `fork` records in a file of its own.
#[test]
fn a_child_has_a_profile_of_its_own() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    assert!(start("mcs-stp", "fork", directory.path()).wait_with_output().unwrap().status.success());
    let all = profiles(directory.path());
    assert_eq!(all.len(), 2);
    let (start, end) = symbol("counted");
    for profile in &all {
        let counted = profile.locks.iter().filter(|lock| (start..end).contains(&lock.address));
        let (sum, variance) = counted.fold((0, 0), |(sum, variance), lock| {
            (sum + lock.uncontended, variance + lock.uncontended_variance)
        });
        assert_is("acquisitions", sum as f64, 400_000.0, 4.0 * (variance as f64).sqrt());
    }
}

#[test]
fn what_is_no_profile_is_refused() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    assert!(start("mcs-stp", "fork", directory.path()).wait_with_output().unwrap().status.success());
    let good = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&good).unwrap();
    let refused = |bytes: &[u8]| {
        let path = directory.path().join("bad");
        std::fs::write(&path, bytes).unwrap();
        Profile::read(&path).expect_err("no profile").to_string()
    };
    assert_eq!(refused(b""), "it is no profile of lockwork's");
    assert_eq!(refused(&[7; 4096]), "it is no profile of lockwork's");
    let half = bytes.len() / 2;
    assert_eq!(refused(&bytes[..half]), format!("it is cut short: {half} of {} bytes", bytes.len()));
    let mut older = bytes;
    older[8] = 77;
    assert!(refused(&older).contains("format 77"));
}
