//! Litmus tests: which outcomes of small programs the simulated memory allows.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};

use lockwork_platform::{AtomicCell, AtomicInt, Cells as _};
use lockwork_sim::machine::Order;
use lockwork_sim::{Machine, Options, Random, Sim, Simulation, Word, delay, machine};

type Cells = [&'static Word<u32>; 2];
/// A thread: from two cells to what it saw.
type Part = fn(Cells, Ordering) -> [u32; 2];

/// Runs the threads many times, on CPUs near and far and with different delays, and counts the outcomes that `asked` for.
fn count(parts: &[Part], order: Ordering, asked: impl Fn(&[[u32; 2]]) -> bool) -> u32 {
    let machine = machine::named("opteron-6274").expect("a machine of ours");
    count_on(&machine, parts, order, asked)
}

/// A machine on which stores are visible in this order, and requests are on their way for long: what a core has asked
/// for it gets late, and what it has it keeps meanwhile.
fn host(stores: Order) -> Machine {
    let mut machine: Machine = machine::named("opteron-6274").expect("a machine of ours");
    machine.core.order = stores;
    machine.memory.request_share = 0.8;
    machine
}

/// The same on any machine.
fn count_on(machine: &Machine, parts: &[Part], order: Ordering, asked: impl Fn(&[[u32; 2]]) -> bool) -> u32 {
    let mut found = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut run = new_run(machine, Options { seed, ..Options::default() });
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

/// The writer owns the second cell, and not the first, of which somebody else has a copy, too: its stores are not under
/// way for the same time.
const WRITER: Part = |[x, y], order| {
    y.fetch_add(0, Relaxed);
    x.store(1, Relaxed);
    y.store(1, order);
    [0, 0]
};
const READER: Part = |[x, y], _| [y.load(Acquire), x.load(Acquire)];
const SOMEBODY: Part = |_, _| [0, 0];

/// Whether the reader has seen the second store, and not the first.
fn early(seen: &[[u32; 2]]) -> bool {
    seen[1] == [1, 0]
}

#[test]
fn in_a_weak_order_messages_pass_in_order_by_release_alone() {
    assert!(count_on(&host(Order::Weak), &[WRITER, READER, SOMEBODY], Relaxed, early) > 0);
    assert_eq!(count_on(&host(Order::Weak), &[WRITER, READER, SOMEBODY], Release, early), 0);
    assert_eq!(count_on(&host(Order::Weak), &[WRITER, READER, SOMEBODY], SeqCst, early), 0);
    assert_eq!(count_on(&host(Order::Tso), &[WRITER, READER, SOMEBODY], Relaxed, early), 0);
    let arrives = |seen: &[[u32; 2]]| seen[1] == [1, 1];
    assert!(count_on(&host(Order::Weak), &[WRITER, READER, SOMEBODY], Release, arrives) > 0);
}

#[test]
fn in_a_weak_order_a_fence_that_releases_keeps_stores_in_order() {
    let releases: Part = |[x, y], _| {
        y.fetch_add(0, Relaxed);
        x.store(1, Relaxed);
        Sim::fence(Release);
        y.store(1, Relaxed);
        [0, 0]
    };
    let acquires: Part = |[x, y], _| {
        y.fetch_add(0, Relaxed);
        x.store(1, Relaxed);
        Sim::fence(Acquire);
        y.store(1, Relaxed);
        [0, 0]
    };
    assert_eq!(count_on(&host(Order::Weak), &[releases, READER, SOMEBODY], Relaxed, early), 0);
    assert!(count_on(&host(Order::Weak), &[acquires, READER, SOMEBODY], Relaxed, early) > 0);
}

#[test]
fn in_a_weak_order_a_cell_s_values_come_in_order() {
    let parts: [Part; 2] = [
        |[x, y], _| {
            y.fetch_add(0, Relaxed);
            x.store(1, Relaxed);
            x.store(2, Relaxed);
            [x.load(Relaxed), 0]
        },
        |[x, _], _| [x.load(Relaxed), x.load(Relaxed)],
    ];
    assert_eq!(count_on(&host(Order::Weak), &parts, Relaxed, |seen| seen[1][0] > seen[1][1]), 0);
    assert_eq!(count_on(&host(Order::Weak), &parts, Relaxed, |seen| seen[0][0] == 2), 300, "its own stores");
    // Two loads in a row are too near each other for both stores to come in between, but by chance.
    let apart: Part = |[x, _], _| {
        let first = x.load(Relaxed);
        delay(200);
        [first, x.load(Relaxed)]
    };
    assert!(count_on(&host(Order::Weak), &[parts[0], apart], Relaxed, |seen| seen[1] == [0, 2]) > 0);
}

#[test]
fn in_a_weak_order_stores_are_buffered_unless_sequentially_consistent() {
    let neither = |seen: &[[u32; 2]]| seen == [[0, 0], [0, 0]];
    assert!(count_on(&host(Order::Weak), &STORE_THEN_LOAD, Release, neither) > 0);
    assert_eq!(count_on(&host(Order::Weak), &STORE_THEN_LOAD, SeqCst, neither), 0);
}

/// A read-modify-write may overtake stores unless it releases.
#[test]
fn in_a_weak_order_a_read_modify_write_waits_if_it_releases() {
    let parts: [Part; 3] = [
        |[x, y], order| {
            y.fetch_add(0, Relaxed);
            x.store(1, Relaxed);
            y.swap(1, order);
            [0, 0]
        },
        READER,
        SOMEBODY,
    ];
    assert!(count_on(&host(Order::Weak), &parts, Acquire, early) > 0);
    assert_eq!(count_on(&host(Order::Weak), &parts, Ordering::AcqRel, early), 0);
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
    for stores in [Order::Tso, Order::Weak] {
        let both = |seen: &[[u32; 2]]| seen[2] == [1, 0] && seen[3] == [1, 0];
        assert_eq!(count_on(&host(stores), &parts, Relaxed, both), 0, "{stores:?}");
    }
    assert!(count(&parts, Relaxed, |seen| seen[2] == [1, 0]) > 0);
    assert!(count(&parts, Relaxed, |seen| seen[3] == [1, 0]) > 0);
}

/// A run of which nothing is used afterwards, and whose threads own nothing that must be dropped.
fn new_run(machine: &Machine, options: Options) -> Simulation {
    // SAFETY: as above.
    unsafe { Simulation::new(machine, options) }
}
