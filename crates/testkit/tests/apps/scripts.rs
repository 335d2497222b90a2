//! Interpreters with threads of their own: CPython (its global lock is a mutex and a condition
//! variable with timed waits; it forks while threads run) and Node.js (a thread pool behind libuv's
//! mutexes, conditions and rwlocks).

use crate::programs::{program, script_of, succeed, succeed_under};
use crate::under_each_lock;
use std::process::Command;
use std::sync::LazyLock;

fn script(interpreter: &str, file: &str) -> Command {
    let mut command = program(interpreter);
    command.arg(script_of(file));
    command
}

/// Python with threads, forks while they run, and child processes.
pub(crate) fn python() -> Command {
    script("python3", "threads_and_forks.py")
}

/// What [`python`] prints without any preload.
pub(crate) static PYTHON_OUTPUT: LazyLock<String> = LazyLock::new(|| {
    let text = succeed(python()).text();
    assert!(text.ends_with("done\n"), "{text}");
    text
});

fn node() -> Command {
    let mut command = script("node", "async_files.js");
    command.env("UV_THREADPOOL_SIZE", "8");
    command
}

static NODE_OUTPUT: LazyLock<String> = LazyLock::new(|| {
    let text = succeed(node()).text();
    assert!(text.ends_with("done\n"), "{text}");
    text
});

fn python_prints_the_same(lock: &str) {
    assert_eq!(succeed_under(python(), lock).text(), *PYTHON_OUTPUT);
}

fn node_prints_the_same(lock: &str) {
    assert_eq!(succeed_under(node(), lock).text(), *NODE_OUTPUT);
}

under_each_lock!(python_prints_the_same:
    python_futex = "futex",
    python_mcs_stp = "mcs-stp",
    python_gcr_mcs_stp = "gcr(mcs-stp)",
    python_auto = "auto",
    python_ttas = "ttas",
    python_k42_stp = "k42-stp",
    python_clh_stp = "clh-stp",
    python_passthrough = "passthrough",
);

under_each_lock!(node_prints_the_same:
    node_futex = "futex",
    node_mcs_stp = "mcs-stp",
    node_gcr_mcs_stp = "gcr(mcs-stp)",
    node_auto = "auto",
    node_ttas = "ttas",
    node_k42_stp = "k42-stp",
);
