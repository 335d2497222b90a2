//! Runtimes with garbage collectors that stop other threads by signals, wherever they are: in a section, in the queue of a lock, on
//! the way out of it. Guile (Boehm's collector) and SBCL do; Erlang's collects each process alone, and has locks of all kinds.
//!
//! `scripts/setup.sh test` installs them where they can be had; elsewhere their tests say that they are skipped.

use crate::programs::{program_if_any, script_of, skipped, succeed, succeed_under};
use crate::under_each_lock;
use std::process::Command;
use std::sync::LazyLock;

fn guile() -> Option<Command> {
    let mut command = program_if_any("guile")?;
    command.arg("--no-auto-compile").arg(script_of("threads_and_garbage.scm"));
    Some(command)
}

fn sbcl() -> Option<Command> {
    let mut command = program_if_any("sbcl")?;
    command.arg("--script").arg(script_of("threads_and_garbage.lisp"));
    Some(command)
}

fn erlang() -> Option<Command> {
    let mut command = program_if_any("escript")?;
    command.arg(script_of("processes_and_garbage.escript"));
    Some(command)
}

/// What a runtime prints without any preload; `None` where it is not installed.
fn plain(runtime: fn() -> Option<Command>) -> Option<String> {
    let text = succeed(runtime()?).text();
    assert!(text.ends_with("done\n"), "{text}");
    Some(text)
}

static GUILE: LazyLock<Option<String>> = LazyLock::new(|| plain(guile));
static SBCL: LazyLock<Option<String>> = LazyLock::new(|| plain(sbcl));
static ERLANG: LazyLock<Option<String>> = LazyLock::new(|| plain(erlang));

fn prints_the_same(name: &str, expected: Option<&String>, command: Option<Command>, lock: &str) {
    match (expected, command) {
        (Some(expected), Some(command)) => assert_eq!(succeed_under(command, lock).text(), *expected),
        _ => skipped(&format!("{name} is not installed")),
    }
}

fn guile_prints_the_same(lock: &str) {
    prints_the_same("guile", GUILE.as_ref(), guile(), lock);
}

fn sbcl_prints_the_same(lock: &str) {
    prints_the_same("sbcl", SBCL.as_ref(), sbcl(), lock);
}

fn erlang_prints_the_same(lock: &str) {
    prints_the_same("erlang", ERLANG.as_ref(), erlang(), lock);
}

#[test]
fn collectors_stop_threads_often() {
    for text in [&*GUILE, &*SBCL].into_iter().flatten() {
        assert!(text.contains("collected often: #t\n") || text.contains("collected often: T\n"), "{text}");
    }
}

under_each_lock!(guile_prints_the_same:
    guile_futex = "futex",
    guile_mcs_stp = "mcs-stp",
    guile_gcr_mcs_stp = "gcr(mcs-stp)",
    guile_auto = "auto",
    guile_ttas = "ttas",
    guile_flexguard = "flexguard",
);

under_each_lock!(sbcl_prints_the_same:
    sbcl_futex = "futex",
    sbcl_mcs_stp = "mcs-stp",
    sbcl_gcr_mcs_stp = "gcr(mcs-stp)",
    sbcl_auto = "auto",
    sbcl_ttas = "ttas",
    sbcl_mcs_spin = "mcs-spin",
);

under_each_lock!(erlang_prints_the_same:
    erlang_futex = "futex",
    erlang_mcs_stp = "mcs-stp",
    erlang_gcr_mcs_stp = "gcr(mcs-stp)",
    erlang_auto = "auto",
    erlang_ttas = "ttas",
);
