//! Signal handlers that fork while their thread is in the middle of a fork or of `pthread_cancel`, and children of `_Fork`: see `forks.c`.

mod common;

/// One lock without a state, one whose states are taken back, one with a queue.
const LOCKS: [&str; 4] = ["passthrough", "futex", "cst-mutex", "gcr(mcs-stp)"];

fn run(part: &str) {
    let program = common::compiled("forks");
    for lock in LOCKS {
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
    run("fork");
}

#[test]
fn a_handler_that_forks_within_a_cancellation_leaves_no_requester_behind() {
    run("cancel");
}

#[test]
fn a_child_of_the_fork_for_signal_handlers_knows_its_threads() {
    run("_Fork");
}
