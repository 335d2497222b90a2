//! Litmus tests: which outcomes of small programs the simulated memory allows.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};

use lockwork_platform::{AtomicCell, Platform};
use lockwork_sim::{Machine, Options, Random, Sim, Simulation, Word, delay, machine};

type Cells = [&'static Word<u32>; 2];
/// A thread: from two cells to what it saw.
type Part = fn(Cells, Ordering) -> [u32; 2];

/// Runs the threads many times, on CPUs near and far and with different delays, and counts the outcomes that `asked` for.
fn count(parts: &[Part], order: Ordering, asked: impl Fn(&[[u32; 2]]) -> bool) -> u32 {
    let machine: Machine = machine::named("opteron-6274").expect("a machine of ours");
    let mut found = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut run = new_run(&machine, Options { seed, ..Options::default() });
        let cells: Cells = [run.place(Word::new(0)), run.place(Word::new(0))];
        let seen: Vec<Rc<Cell<[u32; 2]>>> = parts.iter().map(|_| Rc::default()).collect();
        for (part, seen) in parts.iter().zip(&seen) {
            let (part, seen, wait) = (*part, Rc::clone(seen), random.below(1500));
            // All threads know both cells first, as in a loop.
            let body = move || {
                for cell in cells {
                    cell.load(Relaxed);
                }
                delay(3000 + wait);
                seen.set(part(cells, order));
            };
            run.spawn(random.below(64) as usize, true, body);
        }
        // Threads on one CPU run one after the other.
        run.run(1_000_000_000);
        let seen: Vec<[u32; 2]> = seen.iter().map(|seen| seen.get()).collect();
        found += u32::from(asked(&seen));
    }
    found
}

const STORE_THEN_LOAD: [Part; 2] = [
    |[x, y], order| {
        x.store(1, order);
        [y.load(Acquire), 0]
    },
    |[x, y], order| {
        y.store(1, order);
        [x.load(Acquire), 0]
    },
];

#[test]
fn stores_are_buffered() {
    assert!(count(&STORE_THEN_LOAD, Relaxed, |seen| seen == [[0, 0], [0, 0]]) > 0);
    assert!(count(&STORE_THEN_LOAD, Release, |seen| seen == [[0, 0], [0, 0]]) > 0);
}

#[test]
fn sequentially_consistent_stores_are_not() {
    assert_eq!(count(&STORE_THEN_LOAD, SeqCst, |seen| seen == [[0, 0], [0, 0]]), 0);
}

#[test]
fn a_fence_empties_the_buffer() {
    let parts: [Part; 2] = [
        |[x, y], _| {
            x.store(1, Relaxed);
            Sim::fence(SeqCst);
            [y.load(Relaxed), 0]
        },
        |[x, y], _| {
            y.store(1, Relaxed);
            Sim::fence(SeqCst);
            [x.load(Relaxed), 0]
        },
    ];
    assert_eq!(count(&parts, Relaxed, |seen| seen == [[0, 0], [0, 0]]), 0);
}

#[test]
fn a_heavy_barrier_stands_for_both() {
    let parts: [Part; 2] = [
        |[x, y], _| {
            x.store(1, Relaxed);
            Sim::light_barrier();
            [y.load(Relaxed), 0]
        },
        |[x, y], _| {
            y.store(1, Relaxed);
            Sim::heavy_barrier();
            [x.load(Relaxed), 0]
        },
    ];
    assert_eq!(count(&parts, Relaxed, |seen| seen == [[0, 0], [0, 0]]), 0);
}

#[test]
fn a_thread_sees_its_own_stores() {
    let parts: [Part; 1] = [|[x, y], _| {
        x.store(1, Relaxed);
        y.store(2, Relaxed);
        [x.load(Relaxed), y.load(Relaxed)]
    }];
    assert_eq!(count(&parts, Relaxed, |seen| seen == [[1, 2]]), 300);
}

#[test]
fn messages_pass_in_order() {
    let parts: [Part; 2] = [
        |[x, y], _| {
            x.store(1, Relaxed);
            y.store(1, Relaxed);
            [0, 0]
        },
        |[x, y], _| [y.load(Relaxed), x.load(Relaxed)],
    ];
    assert_eq!(count(&parts, Relaxed, |seen| seen[1] == [1, 0]), 0);
    assert!(count(&parts, Relaxed, |seen| seen[1] == [1, 1]) > 0);
    assert!(count(&parts, Relaxed, |seen| seen[1] == [0, 1]) > 0);
}

#[test]
fn independent_reads_of_independent_writes_agree() {
    let parts: [Part; 4] = [
        |[x, _], _| {
            x.store(1, Relaxed);
            [0, 0]
        },
        |[_, y], _| {
            y.store(1, Relaxed);
            [0, 0]
        },
        |[x, y], _| [x.load(Relaxed), y.load(Relaxed)],
        |[x, y], _| [y.load(Relaxed), x.load(Relaxed)],
    ];
    assert_eq!(count(&parts, Relaxed, |seen| seen[2] == [1, 0] && seen[3] == [1, 0]), 0);
    assert!(count(&parts, Relaxed, |seen| seen[2] == [1, 0]) > 0);
    assert!(count(&parts, Relaxed, |seen| seen[3] == [1, 0]) > 0);
}

/// A run of which nothing is used afterwards, and whose threads own nothing that must be dropped.
fn new_run(machine: &Machine, options: Options) -> Simulation {
    // SAFETY: as above.
    unsafe { Simulation::new(machine, options) }
}
