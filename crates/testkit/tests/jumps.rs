//! A thread leaves a wait by `siglongjmp` out of a signal handler, which POSIX leaves undefined: see `jumps.c`.

mod common;

/// Locks that know nothing of their waiters, or no more than a count: a mutex can be had again, as under glibc.
const BEARS_IT: [&str; 8] =
    ["passthrough", "tas", "ttas", "backoff", "futex", "linux-mutex", "mutexee", "gcr(futex)"];
/// Locks that hand themselves to a waiter: the mutex is lost. All else goes on.
const HANDS_OVER: [&str; 7] =
    ["ticket", "mcs-stp", "clh-stp", "cna-stp", "cst-mutex", "auto", "gcr(mcs-stp)"];

#[test]
fn a_wait_left_by_a_jump_harms_no_other_lock() {
    let program = common::compiled("jumps");
    for lock in BEARS_IT.into_iter().chain(HANDS_OVER) {
        let mut command = common::limited(&program, 60);
        common::put_under(&mut command, lock);
        let output = command.output().expect("timeout (coreutils)");
        assert!(output.status.success(), "{lock}: {}", common::text(&output));
        let said = String::from_utf8_lossy(&output.stdout);
        if BEARS_IT.contains(&lock) {
            assert_eq!(said.trim(), "the mutex is free", "{lock}");
        }
    }
    std::fs::remove_file(program).expect("our own file");
}
