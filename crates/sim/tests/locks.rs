//! Every lock on the simulated machine: exclusion, repeatability, and that sleeping instead of spinning changes nothing.

use lockwork_locks::registry::{Spec, mutex_wrappers, mutexes};
use lockwork_sim::workload::{Distribution, Frame, Micro, Phases, Protection, RunResult, Workload};
use lockwork_sim::{Machine, Options, machine};

fn lock(text: &str) -> Protection {
    Protection::Lock(Spec::mutex(text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn machine_of_ours(name: &str) -> Machine {
    machine::named(name).expect("a machine of ours")
}

/// All locks, and each wrapper round some.
fn all() -> Vec<String> {
    let wrapped = mutex_wrappers().flat_map(|wrapper| {
        let inner = wrapper.inner_locks().filter(|lock| ["ticket", "mcs-stp", "futex"].contains(&lock.name));
        inner.map(move |lock| format!("{}({})", wrapper.descriptor().name, lock.name))
    });
    mutexes().map(|lock| lock.name.to_owned()).chain(wrapped).collect()
}

fn short(threads: usize) -> Frame {
    Frame { threads, warm_up: 100_000, window: 400_000, ..Frame::SHORT }
}

const MICRO: Micro = Micro { delay: Distribution::About(500), lines: 2, ..Micro::SHORT };

fn check(name: &str, result: &RunResult) {
    assert_eq!(result.deadlock, None, "{name}");
    assert_eq!(result.damage, None, "{name}");
    assert!(result.sections > 0, "{name}");
}

#[test]
fn every_lock_excludes() {
    for name in all() {
        for (host, threads) in [("e7-4850", 12), ("x6-2", 24), ("chiplet-128", 40), ("arm-128", 24)] {
            let result = MICRO.run(&short(threads), &machine_of_ours(host), &lock(&name), Options::default());
            check(&format!("{name} on {host}"), &result);
        }
    }
}

#[test]
fn every_lock_excludes_with_more_threads_than_cpus() {
    let mut small = machine_of_ours("e7-4850");
    small.cores_per_llc = 1;
    small.os.slice_us = 50;
    small.os.wakeup_granularity_us = 10;
    for name in all() {
        let frame = Frame { warm_up: 0, window: 3_000_000, pinned: false, ..short(10) };
        check(&name, &MICRO.run(&frame, &small, &lock(&name), Options::default()));
    }
}

#[test]
fn without_a_lock_updates_are_lost() {
    let result = MICRO.run(&short(12), &machine_of_ours("e7-4850"), &Protection::None, Options::default());
    assert!(result.damage.is_some_and(|damage| damage.contains("updates were lost")));
}

#[test]
fn a_seed_determines_a_run() {
    let machine = machine_of_ours("x6-2");
    for name in ["mcs-stp", "backoff", "gcr(ticket)", "twa"] {
        let run = |seed| {
            let options = Options { seed, ..Options::default() };
            MICRO.run(&Frame { pinned: false, ..short(50) }, &machine, &lock(name), options)
        };
        let (one, again, other) = (run(1), run(1), run(2));
        assert_eq!(one, again, "{name}");
        assert_ne!(one.hash, other.hash, "{name}");
    }
}

/// The hash of a run, which must be the same in every process and on every build.
#[test]
fn a_run_is_the_same_everywhere() {
    let result = MICRO.run(&short(12), &machine_of_ours("e7-4850"), &lock("mcs-spin"), Options::default());
    insta::assert_snapshot!(format!("{:016x}, {} sections", result.hash, result.sections));
}

#[test]
fn trylock_loops_exclude_and_fail_now_and_then() {
    for name in ["tas", "ticket", "mcs-spin", "c-tkt-mcs-spin", "hmcs-spin", "gcr(mcs-spin)"] {
        let micro = Micro { tries: true, ..MICRO };
        let result = micro.run(&short(12), &machine_of_ours("e7-4850"), &lock(name), Options::default());
        check(name, &result);
        assert!(result.failures > 0, "{name}");
    }
}

#[test]
fn phases_change_the_contention() {
    let run = |phases| {
        let frame = Frame { window: 4_000_000, phases, ..short(12) };
        MICRO.run(&frame, &machine_of_ours("e7-4850"), &lock("mcs-spin"), Options::default()).section
    };
    let calm = Phases { each: 500_000, delay: Distribution::About(50_000) };
    assert!(run(Some(calm)) < run(None), "every second phase is calm");
}
