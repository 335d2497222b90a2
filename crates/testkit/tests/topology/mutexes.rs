//! Hierarchical locks.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lockwork_locks::describe::{Descriptor, Family, Order};
use lockwork_locks::knobs::Knobs;
use lockwork_locks::registry::{Entry, mutexes};
use lockwork_platform::{Native, Placement, Waiters, topology};
use lockwork_testkit::conformance::{Check, LIMIT as TIME, Traits};
use lockwork_testkit::erased::Held;
use lockwork_testkit::is_typical;
use lockwork_testkit::watchdog::watchdog;

/// The pass limit: small, so that few threads reach it.
const LIMIT: u32 = 1;

/// Algorithms that promise that nodes take turns, but for a reason, and one under which they do though it promises less.
const NO_TURNS: [(&str, &str); 1] =
    [("ahmcs", "threads of all nodes wait in one queue until that is crowded")];
const TURNS: [&str; 1] = ["cst-mutex"];

/// Whether nodes have to take turns, wherever their threads stand in line. Not where they compete for a word, where pieces of a queue
/// are served in the order of arrival, or where the limit is one of overtaking: those in line by nodes overtake nobody.
fn takes_turns(lock: &Descriptor) -> bool {
    let promises = lock.order == Order::FifoByNode && NO_TURNS.iter().all(|(name, _)| *name != lock.name);
    promises || TURNS.contains(&lock.name)
}

fn hierarchical() -> impl Iterator<Item = &'static Entry> {
    mutexes().filter(|lock| lock.descriptor.family == Family::Hierarchical && is_typical(lock))
}

/// What the suite must know of a lock that lets one hand-over pass.
fn limited(lock: &Entry) -> Traits {
    let Traits { new, name, zeroed, keeps, spins, .. } = Traits::of_base(lock);
    let limited = move || {
        let lock = new();
        lock.configure(&Knobs { pass_limit: Some(LIMIT), ..Knobs::NONE });
        lock
    };
    Traits { name, new: Arc::new(limited), zeroed, keeps, fifo: false, spins }
}

/// Lets one thread for each CPU wait for a lock that is held, then releases it; every thread has the lock once. Returns
/// their nodes in the order in which they had it. If `elsewhere`, another thread releases each time, the same for all
/// nodes.
fn order_of_nodes(traits: &Traits, elsewhere: bool) -> Vec<usize> {
    let cpus = topology::current().cpus();
    let lock = (traits.new)();
    let order = Mutex::new(Vec::new());
    let (post, mailbox) = channel::<Held>();
    // SAFETY: callers pass the token that they hold, once.
    let unlock = |held: Held| unsafe { lock.unlock(held) };
    thread::scope(|scope| {
        let held = lock.lock();
        for _ in 0..cpus {
            let (post, lock, order, unlock) = (post.clone(), &lock, &order, &unlock);
            scope.spawn(move || {
                let node = Native::domain();
                let held = lock.lock();
                order.lock().expect("no panics").push(node);
                // The head of each node's line gets the time to line up between the nodes.
                thread::sleep(Duration::from_millis(1));
                if elsewhere {
                    post.send(held).expect("the releaser listens");
                } else {
                    unlock(held);
                }
            });
        }
        drop(post);
        while Native::waiters_of(lock.address()) < cpus {
            thread::sleep(Duration::from_millis(1));
        }
        // They are registered; soon they are in line.
        thread::sleep(Duration::from_millis(50));
        unlock(held);
        mailbox.iter().for_each(&unlock);
    });
    assert!(!lock.is_locked());
    order.into_inner().expect("no panics")
}

/// What is wrong with an order in which nodes should take turns, if anything.
fn flaw(order: &[usize]) -> Option<String> {
    let topology = topology::current();
    let nodes = topology.domains();
    // A lock with a level below the nodes has its limit there too.
    let levels = if topology.place_of(0, 1).is_some() { 2 } else { 1 };
    let turn = (LIMIT as usize + 1).pow(levels);
    for (index, node) in order.iter().enumerate() {
        let run = order[index..].iter().take_while(|other| *other == node).count();
        if run > turn && order[index + run..].iter().any(|other| other != node) {
            return Some(format!("node {node} had the lock {run} times in a row: {order:?}"));
        }
    }
    for node in 0..nodes {
        match order.iter().position(|other| *other == node) {
            None => return Some(format!("no thread of node {node}: {order:?}")),
            Some(first) if first >= nodes * turn => {
                return Some(format!("node {node} had to wait for {first} others: {order:?}"));
            }
            Some(_) => {}
        }
    }
    None
}

#[test]
#[ignore = "wants a topology"]
fn nodes_take_turns() {
    let topology = topology::current();
    let mut all = Vec::new();
    for lock in hierarchical() {
        let traits = limited(lock);
        let any_order = !takes_turns(lock.descriptor);
        for elsewhere in [false, true] {
            let order = || {
                let order = watchdog(TIME, || lock.name.to_owned(), || order_of_nodes(&traits, elsewhere));
                assert_eq!(order.len(), topology.cpus(), "{}", lock.name);
                if any_order { None } else { flaw(&order) }
            };
            // Nobody sees from outside whether a thread is in line already, so a slow one is not an error yet.
            let flaws: Vec<_> = (0..5).map_while(|_| order()).collect();
            if flaws.len() == 5 {
                all.push((lock.name, flaws));
            }
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
#[ignore = "wants a topology"]
fn conformance() {
    for lock in hierarchical() {
        let traits = limited(lock);
        for check in Check::of(&traits) {
            check.run(&traits);
        }
    }
}
