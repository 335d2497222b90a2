//! Signal handlers that fork while their thread is in the middle of a fork or of `pthread_cancel`, children of `_Fork`, and children
//! that make locks anew: see `forks.c`.

mod common;

/// One lock without a state, one whose states are taken back, one with a queue.
const LOCKS: [&str; 5] = ["passthrough", "futex", "auto", "cst-mutex", "gcr(mcs-stp)"];

/// Reader-writer locks that keep something outside themselves: a state of the pool, or readers in a table.
const RWLOCKS: [&str; 5] =
    ["futex+cst-rwsem", "futex+pf-q-stp", "futex+auto-rw", "futex+bravo(rw-ttas)", "futex+bravo(rw-futex)"];

fn run(part: &str, locks: &[&str]) {
    let program = common::compiled("forks");
    for lock in locks {
        let mut command = common::limited(&program, 120);
        common::put_under(&mut command, lock);
        let output = command.arg(part).output().expect("timeout (coreutils)");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.ends_with("fine\n"),
            "{part} under {lock}: {}",
            common::text(&output)
        );
    }
    std::fs::remove_file(program).expect("our own file");
}

#[test]
fn a_handler_that_forks_within_a_fork_leaves_no_fork_open() {
    run("fork", &LOCKS);
}

#[test]
fn a_handler_that_forks_within_a_cancellation_leaves_no_requester_behind() {
    run("cancel", &LOCKS);
}

#[test]
fn a_child_that_makes_a_lock_anew_is_rid_of_the_readers_of_its_parent() {
    run("renew", &RWLOCKS);
}

#[test]
fn a_child_of_the_fork_for_signal_handlers_knows_its_threads() {
    run("_Fork", &LOCKS);
}
