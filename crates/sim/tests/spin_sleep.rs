//! Threads that poll sleep until what they poll changes: that alters nothing for queue locks, and next to nothing for
//! others.

use lockwork_locks::registry::Spec;
use lockwork_sim::workload::{Distribution, Frame, Micro, Protection, RunResult, Workload};
use lockwork_sim::{Options, machine};

/// With sleeping pollers, and with every turn of every polling loop.
fn both_ways(host: &str, name: &str, threads: usize, seed: u64) -> [RunResult; 2] {
    let machine = machine::named(host).expect("a machine of ours");
    let lock = Protection::Lock(Spec::mutex(name).unwrap_or_else(|error| panic!("{name}: {error}")));
    let frame = Frame { threads, warm_up: 100_000, window: 400_000, ..Frame::SHORT };
    let micro = Micro { delay: Distribution::About(500), lines: 2, ..Micro::SHORT };
    [true, false].map(|spin_sleep| {
        micro.run(&frame, &machine, &lock, Options { seed, spin_sleep, ..Options::default() })
    })
}

#[test]
fn queue_locks_give_the_very_same_results() {
    for host in ["e7-4850", "opteron-6274"] {
        for name in ["mcs-spin", "mcs-stp", "clh-spin", "k42-spin"] {
            for threads in [2, 10, 20, 40] {
                for seed in 0..3 {
                    let [with, without] = both_ways(host, name, threads, seed);
                    let what = format!("{name}, {threads} threads on {host}, seed {seed}");
                    assert!(with.sections > 10, "{what}");
                    assert_eq!(with.by_thread, without.by_thread, "{what}");
                    let times = |run: &RunResult| (run.section, run.percentiles, run.hand_off);
                    assert_eq!(times(&with), times(&without), "{what}");
                    assert_eq!(with.transfers, without.transfers, "{what}");
                    assert_eq!(with.counts.parks, without.counts.parks, "{what}");
                }
            }
        }
    }
}

#[test]
fn other_locks_give_nearly_the_same() {
    for name in ["ticket", "ttas", "c-tkt-mcs-spin"] {
        for threads in [4, 16] {
            let runs = (0..8).map(|seed| both_ways("e7-4850", name, threads, seed));
            let [with, without] = runs.fold([0, 0], |[with, without], [asleep, awake]| {
                [with + asleep.sections, without + awake.sections]
            });
            let difference = with.abs_diff(without) as f64 / without as f64;
            assert!(difference <= 0.02, "{name}, {threads} threads: {with} with, {without} without");
        }
    }
}
