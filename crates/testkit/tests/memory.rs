//! Memory that contended locks use comes back, though nothing destroys them.

mod common;

use std::path::Path;
use std::process::Output;

/// Locks in a run; 64 bytes kept for each would be more than the bound.
const LOCKS: u32 = 10_000;
/// KiB that a run may grow: what the pool has before anything is taken back, and as much again.
const BOUND: u64 = 512;

/// What a run of the program said, in a process with this environment.
fn run(program: &Path, mode: &str, number: u32, environment: &[(&str, &str)]) -> Output {
    let mut command = common::limited(program, 120);
    command.args([mode, &number.to_string(), "4"]).env("LD_PRELOAD", common::lockwork_so());
    command.envs(environment.iter().copied());
    let output = command.output().expect("timeout (coreutils)");
    assert!(output.status.success(), "{mode}, {environment:?}: {}", common::text(&output));
    output
}

/// How many KiB a run of the program grew, in a process with this environment.
fn grown(program: &Path, mode: &str, number: u32, environment: &[(&str, &str)]) -> u64 {
    let output = run(program, mode, number, environment);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let grown = text.split_whitespace().nth(1).and_then(|number| number.parse::<i64>().ok());
    let Some(grown) = grown else { panic!("{mode}, {environment:?}: {text}") };
    u64::try_from(grown).unwrap_or(0)
}

/// Locks of every family that keeps something under contention, mutexes.
const MUTEXES: &[&str] = &[
    "auto",
    "cst-mutex",
    "gcr(mcs-stp)",
    "gcr-numa(mcs-stp)",
    "gcr(cst-mutex)",
    "c-tkt-mcs-stp",
    "c-mcs-mcs-stp",
    "hmcs-stp",
    "ahmcs-stp",
    "fc-mcs-stp",
    "hclh-stp",
    "glk",
];

/// Of those whose waiters spin in line, so that rounds take long where threads outnumber CPUs.
const SPINNING: &[&str] = &["alock", "ptl", "c-ptl-tkt"];

/// Reader-writer locks.
const RWLOCKS: &[&str] = &["cst-rwsem", "cst-rwsem-neutral", "c-rw-np", "c-rw-rp", "pf-q-stp", "auto-rw"];

#[test]
fn contended_mutexes_that_are_freed_cost_nothing_for_good() {
    let program = common::compiled_cpp("memory");
    let spinning = SPINNING.iter().map(|lock| (lock, LOCKS / 5));
    for (lock, locks) in MUTEXES.iter().map(|lock| (lock, LOCKS)).chain(spinning) {
        let grown = grown(&program, "mutex", locks, &[("LOCKWORK_LOCK", lock)]);
        assert!(grown <= BOUND, "{lock}: {grown} KiB for {locks} mutexes");
    }
    std::fs::remove_file(program).expect("our own file");
}

#[test]
fn waiters_that_time_out_leave_a_node_each() {
    // A node for each of these would be four times the bound.
    const TIMEOUTS: u32 = 16_000;
    const MOST: u64 = 256;
    let program = common::compiled_cpp("memory");
    let locks = [
        "auto",
        "cst-mutex",
        "mcs-stp",
        "clh-stp",
        "k42-stp",
        "hmcs-stp",
        "shfl-stp",
        "mcs-timepub",
        "gcr(mcs-stp)",
    ];
    for lock in locks {
        let grown = grown(&program, "timeouts", TIMEOUTS, &[("LOCKWORK_LOCK", lock)]);
        assert!(grown <= MOST, "{lock}: {grown} KiB for {TIMEOUTS} timeouts");
    }
    std::fs::remove_file(program).expect("our own file");
}

#[test]
fn contended_rwlocks_that_are_freed_cost_nothing_for_good() {
    let program = common::compiled_cpp("memory");
    for lock in RWLOCKS {
        let spec = format!("mcs-stp+{lock}");
        let grown = grown(&program, "shared", LOCKS, &[("LOCKWORK_LOCK", &spec)]);
        assert!(grown <= BOUND, "{lock}: {grown} KiB for {LOCKS} reader-writer locks");
    }
    std::fs::remove_file(program).expect("our own file");
}

/// Rounds of the threads over 20,000 locks, where the kernel gives no memory any more.
const STARVED: u32 = 100_000;

#[test]
fn a_process_without_memory_goes_on() {
    let program = common::compiled_cpp("memory");
    let simple = ["mcs-stp", "clh-stp", "futex", "auto"].into_iter().map(|lock| (lock, STARVED));
    let families = MUTEXES.iter().map(|&lock| (lock, STARVED));
    let spinning = SPINNING.iter().map(|&lock| (lock, STARVED / 5));
    for (lock, rounds) in simple.chain(families).chain(spinning) {
        grown(&program, "starved", rounds, &[("LOCKWORK_LOCK", lock)]);
    }
    std::fs::remove_file(program).expect("our own file");
}

#[test]
fn a_thread_that_finds_no_node_waits_until_another_gives_some_back() {
    /// Locks of the thread that gives back: more nodes than a thread keeps for itself.
    const HELD: u32 = 1_000;
    let program = common::compiled_cpp("memory");
    for lock in ["mcs-stp", "clh-stp", "mcs-spin"] {
        let output = run(&program, "exhausted", HELD, &[("LOCKWORK_LOCK", lock)]);
        let (said, complaint) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(said.starts_with("stuck_at "), "{lock}: {said}");
        assert_eq!(
            complaint.matches("lockwork: out of memory for queue nodes").count(),
            1,
            "{lock}: {complaint}"
        );
    }
    std::fs::remove_file(program).expect("our own file");
}

#[test]
fn reader_writer_locks_of_a_process_without_memory_go_on() {
    let program = common::compiled_cpp("memory");
    for lock in RWLOCKS.iter().chain(&["rw-futex", "linux-rwsem", "bravo(cst-rwsem)"]) {
        let spec = format!("mcs-stp+{lock}");
        grown(&program, "starving", STARVED, &[("LOCKWORK_LOCK", &spec)]);
    }
    std::fs::remove_file(program).expect("our own file");
}
