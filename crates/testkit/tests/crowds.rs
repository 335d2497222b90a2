//! More threads at one lock than any fixed table would hold: 20,000 that wait for a mutex, 1,000 at a reader-writer lock.

mod common;

use common::served::{Served, expect};
use std::path::Path;

/// Mutexes whose waiters sleep, of each kind: with a word, a queue, a list, queues by node, a culled queue, behind a wrapper; and
/// one whose waiters sleep as soon as it finds that they are too many.
const MUTEXES: [&str; 10] = [
    "futex",
    "mcs-stp",
    "cst-mutex",
    "auto",
    "reciprocating-stp",
    "hmcs-stp",
    "malth-stp",
    "glk",
    "gcr(mcs-stp)",
    "passthrough",
];

/// Runs the crowd of `kind`; false when the system does not let so many threads start, which is said.
fn crowd(program: &Path, kind: &str, lock: &str, threads: u32) -> bool {
    let mut command = common::limited(program, 240);
    common::put_under(&mut command, lock);
    let output = command.args([kind, &threads.to_string()]).output().expect("timeout (coreutils)");
    if output.status.code() == Some(3) {
        let allowed = String::from_utf8_lossy(&output.stdout);
        common::skipped(&format!("{threads} waiters: the system allows {}", allowed.trim()));
        return false;
    }
    assert!(output.status.success(), "{kind} under {lock}: {}", common::text(&output));
    let served = Served::read(&String::from_utf8_lossy(&output.stderr));
    assert_eq!(served.lines, 1, "{}", common::text(&output));
    let served = if kind == "mutex" { served.mutexes } else { served.rwlocks };
    let expected = (lock != "passthrough").then_some(lock);
    expect(kind, &served, expected, &[]).unwrap_or_else(|wrong| panic!("under {lock}: {wrong}"));
    true
}

#[test]
fn twenty_thousand_wait_for_a_mutex() {
    let program = common::compiled("crowds");
    let _ = MUTEXES.iter().all(|lock| crowd(&program, "mutex", lock, 20_000));
    std::fs::remove_file(program).expect("our own file");
}

#[test]
fn a_thousand_meet_at_a_reader_writer_lock() {
    let program = common::compiled("crowds");
    let locks = lockwork_locks::registry::rwlocks().map(|lock| lock.name);
    let _ = locks
        .chain(["bravo(rw-futex)", "bravo(cst-rwsem)", "passthrough"])
        .all(|lock| crowd(&program, "rwlock", lock, 1_000));
    std::fs::remove_file(program).expect("our own file");
}
