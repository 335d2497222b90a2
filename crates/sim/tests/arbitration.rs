//! Which of the requests that wait for a line is served next.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use lockwork_locks::registry::Spec;
use lockwork_platform::{AtomicCell, AtomicInt};
use lockwork_sim::machine::Arbitration;
use lockwork_sim::workload::{Distribution, Frame, Micro, Protection, Workload};
use lockwork_sim::{End, Machine, Options, Simulation, Word, delay, machine, now};
use lockwork_stats::fairness::jain_index;

fn host(arbitration: Arbitration) -> Machine {
    let mut machine = machine::named("e7-4850").expect("a machine of ours");
    machine.memory.arbitration = arbitration;
    machine
}

/// CPUs in the order in which they get a line. They ask for it one after the other, all while the first transfer is under
/// way: 35 of node 3, then 5 of node 0, and so on.
const ASKING: [usize; 6] = [0, 35, 5, 36, 6, 37];

fn order(arbitration: Arbitration, seed: u64) -> Vec<usize> {
    let machine = host(arbitration);
    // SAFETY: the line is used by the threads alone, which own counted references and numbers.
    let mut run = unsafe { Simulation::new(&machine, Options { seed, ..Options::default() }) };
    let word: &'static Word<u32> = run.place(Word::new(0));
    let seen = Rc::new(RefCell::new(Vec::new()));
    // All have a copy, so that all requests have as far to go.
    for (place, cpu) in ASKING.into_iter().enumerate() {
        let seen = Rc::clone(&seen);
        run.spawn(cpu, true, move || {
            word.load(Relaxed);
            delay(100_000 + 5 * place as u64 - now());
            let before = word.fetch_add(1, Relaxed);
            seen.borrow_mut().push((before, cpu));
        });
    }
    assert_eq!(run.run(1_000_000_000).end, End::Finished);
    let mut seen = seen.borrow().clone();
    seen.sort_unstable();
    seen.into_iter().map(|(_, cpu)| cpu).collect()
}

#[test]
fn the_first_come_is_served_first() {
    assert_eq!(order(Arbitration::Fifo, 1), ASKING);
}

#[test]
fn the_nearest_is_served_first() {
    assert_eq!(order(Arbitration::Nearest, 1), [0, 5, 6, 35, 36, 37]);
}

#[test]
fn chance_serves_all_in_any_order() {
    let orders: Vec<Vec<usize>> = (0..10).map(|seed| order(Arbitration::Random, seed)).collect();
    for (seed, order_seen) in orders.iter().enumerate() {
        let mut cpus = order_seen.clone();
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 5, 6, 35, 36, 37], "each once");
        assert_eq!(*order_seen, order(Arbitration::Random, seed as u64), "a seed determines it");
    }
    assert!(orders.iter().any(|order| *order != orders[0]), "{orders:?}");
}

/// A spin lock is as fair as the hardware: that is what the arbitration decides.
#[test]
fn the_fairness_of_a_spin_lock_depends_on_it_and_that_of_a_queue_lock_does_not() {
    let jain = |lock: &str, arbitration: Arbitration| {
        let lock = Protection::Lock(Spec::mutex(lock).expect("a lock of ours"));
        let micro = Micro { delay: Distribution::About(500), ..Micro::SHORT };
        let frame = Frame { threads: 20, warm_up: 100_000, window: 4_000_000, ..Frame::SHORT };
        let result = micro.run(&frame, &host(arbitration), &lock, Options::default());
        assert_eq!((result.damage, result.deadlock), (None, None), "{lock} {arbitration:?}");
        jain_index(&result.by_thread)
    };
    for order in [Arbitration::Fifo, Arbitration::Nearest, Arbitration::Random] {
        assert!(jain("mcs-spin", order) > 0.99, "{order:?}");
    }
    // The releaser is the first to ask again, and the others' requests that are in its way fail.
    assert!(jain("ttas", Arbitration::Fifo) < 0.3);
    assert!(jain("ttas", Arbitration::Random) > 0.7);
}
