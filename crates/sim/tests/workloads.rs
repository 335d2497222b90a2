//! The workloads other than the micro-benchmark: that they run under every kind of lock, and that a lock which does not
//! exclude is caught by each of them.

use lockwork_locks::registry::{Spec, WrapperId, rwlocks};
use lockwork_sim::workload::{
    Distribution, Frame, Map, Micro, Mix, Phases, Protection, Queue, RunResult, Structure, Workload,
};
use lockwork_sim::{Machine, Options, machine};

fn lock(text: &str) -> Protection {
    Protection::Lock(Spec::mutex(text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn machine_of_ours(name: &str) -> Machine {
    machine::named(name).expect("a machine of ours")
}

fn frame(threads: usize) -> Frame {
    Frame { threads, warm_up: 100_000, window: 900_000, ..Frame::SHORT }
}

const DELAY: Distribution = Distribution::About(300);

const TREE: Map = Map { delay: DELAY, keys: 256, write_share: 0.5, ..Map::GCR };

fn workloads() -> Vec<(&'static str, Box<dyn Workload>)> {
    let queue = |producers, capacity| Queue { producers, capacity, produce: DELAY, consume: DELAY };
    vec![
        ("tree", Box::new(TREE)),
        ("table", Box::new(Map { structure: Structure::Table { buckets: 32 }, ..TREE })),
        ("mix", Box::new(Mix { delay: DELAY, write_share: 0.3, lines: 3, ..Mix::TENTH })),
        ("queue", Box::new(queue(5, 4))),
        ("queue of one", Box::new(queue(1, 1))),
    ]
}

fn check(name: &str, result: &RunResult) {
    assert_eq!(result.deadlock, None, "{name}");
    assert_eq!(result.damage, None, "{name}");
    assert!(result.sections > 0, "{name}");
    let spent: u64 = result.spent_by_thread.iter().sum();
    assert_eq!(spent as f64 / result.sections as f64, result.section, "{name}");
}

fn protections() -> Vec<Protection> {
    let locks = ["tas", "ticket", "mcs-spin", "mcs-stp", "futex", "hmcs-spin", "gcr(mcs-stp)"];
    locks.into_iter().map(lock).chain(readers_writers().into_iter().map(Protection::Rw)).collect()
}

/// All reader-writer locks, and those that can be with a bias.
fn readers_writers() -> Vec<Spec> {
    let plain = rwlocks().map(|lock| Spec::plain(lock.id));
    plain.chain(rwlocks().filter_map(|lock| Spec::wrapped(WrapperId::Bravo, lock.id))).collect()
}

#[test]
fn every_workload_runs_under_locks_of_every_kind() {
    let machine = machine_of_ours("e7-4850");
    for (name, workload) in workloads() {
        for protection in protections() {
            let result = workload.run(&frame(12), &machine, &protection, Options::default());
            check(&format!("{name} under {protection:?}"), &result);
        }
    }
}

#[test]
fn and_with_more_threads_than_cpus() {
    let mut small = machine_of_ours("e7-4850");
    small.cores_per_llc = 1;
    small.os.slice_us = 50;
    small.os.wakeup_granularity_us = 10;
    for (name, workload) in workloads() {
        for protection in protections() {
            let frame = Frame { window: 3_000_000, pinned: false, ..frame(10) };
            let result = workload.run(&frame, &small, &protection, Options::default());
            check(&format!("{name} under {protection:?}"), &result);
        }
    }
}

#[test]
fn without_a_lock_every_workload_reports_damage() {
    let machine = machine_of_ours("e7-4850");
    for (name, workload) in workloads() {
        let result = workload.run(&frame(12), &machine, &Protection::None, Options::default());
        // Threads may also wait for a signal that was lost.
        assert!(result.damage.is_some() || result.deadlock.is_some(), "{name}: {result:?}");
        assert!(result.damage.is_some() || name.starts_with("queue"), "{name}: {result:?}");
    }
}

#[test]
fn every_workload_can_have_phases() {
    let machine = machine_of_ours("e7-4850");
    for (name, workload) in workloads() {
        let run = |phases| {
            let frame = Frame { window: 4_000_000, phases, ..frame(12) };
            let result = workload.run(&frame, &machine, &lock("mcs-spin"), Options::default());
            check(name, &result);
            result.sections
        };
        let (busy, calm) =
            (run(None), run(Some(Phases { each: 500_000, delay: Distribution::About(50_000) })));
        assert!(calm < busy - busy / 5, "{name}: every second phase is calm: {busy}, {calm}");
    }
}

#[test]
fn a_seed_determines_a_run_of_every_workload() {
    let machine = machine_of_ours("x6-2");
    for (name, workload) in workloads() {
        let run = |seed| {
            let options = Options { seed, ..Options::default() };
            workload.run(&Frame { pinned: false, ..frame(24) }, &machine, &lock("mcs-stp"), options)
        };
        let (one, again, other) = (run(1), run(1), run(2));
        assert_eq!(one, again, "{name}");
        assert_ne!(one.hash, other.hash, "{name}");
    }
}

/// The hashes of runs, which must be the same in every process and on every build.
#[test]
fn runs_are_the_same_everywhere() {
    let machine = machine_of_ours("e7-4850");
    let mut text = String::new();
    for (name, workload) in workloads() {
        let result = workload.run(&frame(12), &machine, &lock("mcs-spin"), Options::default());
        text += &format!("{name}: {:016x}, {} sections\n", result.hash, result.sections);
    }
    insta::assert_snapshot!(text);
}

#[test]
fn readers_share_a_reader_writer_lock() {
    let machine = machine_of_ours("e7-4850");
    let work = Distribution::Fixed(20_000);
    let readers = Mix { delay: DELAY, write_share: 0.0, work, ..Mix::TENTH };
    let sections = |protection| readers.run(&frame(10), &machine, &protection, Options::default()).sections;
    let alone = sections(lock("mcs-spin"));
    for rw in readers_writers() {
        let together = sections(Protection::Rw(rw));
        assert!(together > 5 * alone, "{rw}: {alone} one at a time, {together} together");
    }
}

#[test]
fn only_those_threads_write_that_are_to() {
    let machine = machine_of_ours("e7-4850");
    let damage = |writers| {
        // With hardly a delay two come at the same time sooner or later.
        let delay = Distribution::About(10);
        let mix = Mix { delay, writers: Some(writers), lines: 1, ..Mix::TENTH };
        mix.run(&frame(8), &machine, &Protection::None, Options::default()).damage
    };
    assert_eq!(damage(1), None, "one writer loses no updates");
    assert!(damage(8).is_some());
}

#[test]
fn sections_may_be_empty() {
    let machine = machine_of_ours("e7-4850");
    let mix = Mix { delay: DELAY, lines: 0, ..Mix::TENTH };
    for protection in [lock("ticket"), Protection::Rw(Spec::DEFAULT_RWLOCK)] {
        check("empty", &mix.run(&frame(8), &machine, &protection, Options::default()));
    }
}

#[test]
fn threads_that_do_not_get_on_are_reported() {
    let machine = machine_of_ours("e7-4850");
    let of = |cycles| {
        let micro = Micro { work: Distribution::Fixed(cycles), ..Micro::SHORT };
        micro.run(&frame(8), &machine, &lock("mcs-stp"), Options::default())
    };
    let short = of(0);
    assert_eq!((&*short.starving, short.states), (&[][..], None));
    // Three of them have had their sections by the end.
    let long = of(300_000);
    assert_eq!((long.sections, long.starving.len()), (3, 5));
    assert!(long.starving.iter().all(|thread| long.by_thread[*thread] == 0));
    let states = long.states.expect("some starve");
    assert_eq!(states.lines().count(), 8, "{states}");
    assert!(states.contains("sleeps on the word at"), "{states}");
    let longer = of(2_000_000);
    assert_eq!((longer.sections, longer.starving.len()), (0, 8));
    assert_eq!(longer.states.expect("nobody gets on").lines().count(), 8);
}

#[test]
fn threads_that_wait_for_each_other_for_ever_are_reported() {
    let machine = machine_of_ours("e7-4850");
    let queue = Queue { producers: 4, capacity: 1, produce: DELAY, consume: DELAY };
    let result = queue.run(&frame(4), &machine, &lock("mcs-stp"), Options::default());
    let deadlock = result.deadlock.expect("nobody consumes");
    assert_eq!(deadlock.matches("sleeps on the word at").count(), 4, "{deadlock}");
}
