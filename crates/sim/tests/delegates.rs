//! Delegates on simulated machines: the same code as natively, with servers as threads of their own.

use lockwork_locks::registry::{DelegateSpec, delegates};
use lockwork_sim::workload::{Distribution, Frame, Map, Micro, Protection, Queue, RunResult, Workload};
use lockwork_sim::{Machine, Options, machine};

fn delegate(text: &str) -> Protection {
    Protection::Delegate(DelegateSpec::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn all() -> Vec<Protection> {
    let others = [
        "locked(mcs-spin)",
        "locked(gcr(mcs-stp, active=2))",
        "rcl(servers=2)",
        "sanl(wait=50, contention=1)",
    ];
    delegates().map(|entry| entry.name).chain(others).map(delegate).collect()
}

fn e7() -> Machine {
    machine::named("e7-4850").expect("a machine of ours")
}

fn frame(threads: usize) -> Frame {
    Frame { threads, warm_up: 100_000, window: 900_000, ..Frame::SHORT }
}

fn check(name: &str, result: &RunResult) {
    assert_eq!(result.deadlock, None, "{name}");
    assert_eq!(result.damage, None, "{name}");
    assert!(result.sections > 0, "{name}: {:?}", result.states);
}

const DELAY: Distribution = Distribution::About(300);
const MICRO: Micro = Micro { delay: DELAY, lines: 3, locks: 2, ..Micro::SHORT };

#[test]
fn every_delegate_excludes_and_answers() {
    let map = Map { delay: DELAY, keys: 256, write_share: 0.5, ..Map::GCR };
    let queue = Queue { producers: 5, capacity: 4, produce: DELAY, consume: DELAY };
    let workloads: [(&str, &dyn Workload); 4] =
        [("micro", &MICRO), ("trylock", &Micro { tries: true, ..MICRO }), ("map", &map), ("queue", &queue)];
    for (name, workload) in workloads {
        for protection in all() {
            for strict_spin in [false, true] {
                let options = Options { strict_spin, ..Options::default() };
                let result = workload.run(&frame(12), &e7(), &protection, options);
                check(&format!("{name} under {protection}, strict: {strict_spin}"), &result);
            }
        }
    }
}

#[test]
fn and_with_more_threads_than_cpus() {
    let mut small = e7();
    small.cores_per_llc = 1;
    small.os.slice_us = 50;
    small.os.wakeup_granularity_us = 10;
    for protection in all() {
        let frame = Frame { window: 3_000_000, pinned: false, ..frame(10) };
        check(&protection.to_string(), &MICRO.run(&frame, &small, &protection, Options::default()));
    }
}

#[test]
fn what_sets_sanl_plus_apart_are_its_knobs() {
    let sections = |text: &str| {
        // Votes for delegation, and the lock in place before them, on two nodes.
        let frame = Frame { window: 3_000_000, ..frame(20) };
        MICRO.run(&frame, &e7(), &delegate(text), Options::default()).sections
    };
    let plus = sections("sanl-plus");
    assert_eq!(sections("sanl(where-it-pays=1, in-place=cst-mutex)"), plus);
    assert_ne!(sections("sanl-plus(in-place=mcs-stp)"), plus, "the lock in place is simulated");
}

#[test]
fn a_seed_determines_a_run_and_another_one_differs() {
    for protection in all() {
        let run = |seed| MICRO.run(&frame(8), &e7(), &protection, Options { seed, ..Options::default() });
        assert_eq!(run(1), run(1), "{protection}");
        assert_ne!(run(1).hash, run(2).hash, "{protection}");
    }
}

/// One request, from its thread to the server and back.
#[test]
fn a_request_is_explained() {
    let explained = |text| {
        let frame = Frame { explain: true, ..frame(8) };
        let one = Micro { locks: 1, ..MICRO };
        let steps = one.run(&frame, &e7(), &delegate(text), Options::default()).steps;
        let (first, last) = (steps.first().expect("a step").clone(), steps.last().expect("a step").clone());
        assert_eq!(
            (first.what.as_str(), last.what.as_str()),
            ("hands its section over", "has its answer"),
            "{text}"
        );
        assert_eq!(first.thread, last.thread, "{text}");
        let begun = format!("begins to run the section of thread {}", first.thread);
        let runner = steps.iter().find(|step| step.what == begun).expect("it has run").thread;
        assert_ne!(runner, first.thread, "{text}");
        runner
    };
    // The server's thread is behind those of the workload.
    assert_eq!(explained("rcl"), 8);
    assert_eq!(explained("ffwd"), 8);
    assert!(explained("fc") < 8 && explained("cc-synch") < 8);
}

/// Where the line of data stays with the server, five lines take it hardly longer than one.
#[test]
fn data_stays_with_a_server() {
    let section = |text, lines| {
        let micro = Micro { lines, locks: 1, ..MICRO };
        let result = micro.run(
            &frame(12),
            &e7(),
            &delegate(text),
            Options { strict_spin: true, ..Options::default() },
        );
        check(text, &result);
        result.section
    };
    let more = |text| section(text, 8) / section(text, 1);
    assert!(more("rcl") < 1.2, "{}", more("rcl"));
    assert!(more("locked(mcs-spin)") > 2.0, "{}", more("locked(mcs-spin)"));
}
