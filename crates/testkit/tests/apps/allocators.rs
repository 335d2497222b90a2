//! Allocators that are preloaded as well, before or after ours. Their own mutexes are first taken
//! inside malloc, before any constructor, and are initialised again after a fork.

use crate::programs::{assert_served, library, lockwork_so, preload, program, succeed, tail};
use crate::scripts::{PYTHON_OUTPUT, python};
use crate::under_each_lock;
use std::path::PathBuf;
use std::process::Command;

/// Python and its forks, then a program of many threads that allocate, with `libraries` preloaded.
fn programs_run(lock: &str, libraries: &[PathBuf]) {
    let under = |mut command: Command| {
        preload(&mut command, lock, libraries);
        let ended = succeed(command);
        assert_served(&ended, lock);
        ended.text()
    };
    let mut script = python();
    // Python's own arenas would hide the allocator.
    script.env("PYTHONMALLOC", "malloc");
    assert_eq!(under(script), *PYTHON_OUTPUT);

    let mut cache = program("kccachetest");
    cache.args(["wicked", "-th", "8", "-it", "1", "5000"]);
    let text = under(cache);
    assert!(text.trim_end().ends_with("\nok"), "{}", tail(&text));
}

fn jemalloc_first(lock: &str) {
    programs_run(lock, &[library("libjemalloc.so.2"), lockwork_so()]);
}

fn jemalloc_last(lock: &str) {
    programs_run(lock, &[lockwork_so(), library("libjemalloc.so.2")]);
}

fn tcmalloc_first(lock: &str) {
    programs_run(lock, &[library("libtcmalloc_minimal.so.4"), lockwork_so()]);
}

fn tcmalloc_last(lock: &str) {
    programs_run(lock, &[lockwork_so(), library("libtcmalloc_minimal.so.4")]);
}

under_each_lock!(jemalloc_first:
    jemalloc_first_futex = "futex",
    jemalloc_first_mcs_stp = "mcs-stp",
    jemalloc_first_gcr_mcs_stp = "gcr(mcs-stp)",
    jemalloc_first_auto = "auto",
);
under_each_lock!(jemalloc_last:
    jemalloc_last_futex = "futex",
    jemalloc_last_mcs_stp = "mcs-stp",
    jemalloc_last_k42_stp = "k42-stp",
);
under_each_lock!(tcmalloc_first: tcmalloc_first_futex = "futex", tcmalloc_first_mcs_stp = "mcs-stp");
under_each_lock!(tcmalloc_last: tcmalloc_last_futex = "futex", tcmalloc_last_gcr_mcs_stp = "gcr(mcs-stp)");
