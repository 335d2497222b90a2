//! Reader-writer locks that count readers by node.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, sync_channel};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use lockwork_locks::describe::Favour;
use lockwork_locks::registry::erased::ErasedRwLock;
use lockwork_locks::rw::by_node::variants::{CRwNp, CstRwsem};
use lockwork_platform::{Native, Placement, topology};
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::shelf::Shelf;
use lockwork_testkit::watchdog::watchdog;

/// Far more than any test needs.
const LIMIT: Duration = Duration::from_secs(300);

/// A lock that says what its words count.
trait Counts: ErasedRwLock<Native> {
    /// The counts of the nodes that have a word, in the order of the nodes.
    fn counts(&self) -> Vec<i32>;

    fn read(&self) {
        assert!(self.lock_shared(None));
        // SAFETY: a reader.
        unsafe { self.unlock_shared() };
    }

    fn can_be_written(&self) -> bool {
        let can = self.try_lock_exclusive();
        if can {
            // SAFETY: the writer.
            unsafe { self.unlock_exclusive() };
        }
        can
    }
}

macro_rules! counts {
    ($($lock:ident)*) => {$(
        impl Counts for $lock<Native> {
            fn counts(&self) -> Vec<i32> {
                let mut counts = Vec::new();
                self.visit_counts(|count| counts.push(count));
                counts
            }
        }
    )*};
}

counts!(CRwNp CstRwsem);

/// Runs `check` with a lock whose waiters spin, and with one whose waiters sleep.
fn with_both(name: &'static str, check: impl Fn(&dyn Counts)) {
    watchdog(
        LIMIT,
        || name.to_owned(),
        || {
            check(&CRwNp::unlocked());
            check(&CstRwsem::unlocked());
        },
    );
}

/// Calls `check` with every lock that knows nodes.
fn with_all(name: &'static str, check: impl Fn(RwSubject)) {
    for subject in RwSubject::all().filter(RwSubject::knows_nodes) {
        watchdog(LIMIT, || format!("{name}, {subject}"), || check(subject));
    }
}

/// How many of these nodes are this one.
fn occurrences(nodes: &[usize], node: usize) -> i32 {
    nodes.iter().filter(|other| **other == node).count() as i32
}

/// Once every node has a word, a reader is counted by that of its own.
#[test]
#[ignore = "wants a topology"]
fn readers_are_counted_on_their_nodes() {
    with_both("readers are counted on their nodes", |lock| {
        let (cpus, nodes) = (topology::current().cpus(), topology::current().domains());
        let (step, places) = (Barrier::new(cpus + 1), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..cpus {
                scope.spawn(|| {
                    lock.read();
                    places.lock().expect("no panics").push(Native::domain());
                    step.wait();
                    step.wait();
                    assert!(lock.lock_shared(None));
                    step.wait();
                    step.wait();
                    // SAFETY: a reader.
                    unsafe { lock.unlock_shared() };
                });
            }
            step.wait();
            let before = lock.counts();
            step.wait();
            step.wait();
            let during = lock.counts();
            assert!(!lock.try_lock_exclusive());
            step.wait();
            let places = places.lock().expect("no panics");
            assert_eq!((before.len(), during.len()), (nodes, nodes), "words");
            assert_eq!(before.iter().sum::<i32>(), 0);
            for node in 0..nodes {
                assert_eq!(during[node] - before[node], occurrences(&places, node), "on node {node}");
            }
        });
        assert!(lock.can_be_written());
        // SAFETY: unlocked, and nobody uses it.
        unsafe { lock.dispose() };
    });
}

/// A lock that one node uses has no word for another, nor two for that one.
#[test]
#[ignore = "wants a topology"]
fn only_nodes_that_read_have_words() {
    with_both("only nodes that read have words", |lock| {
        let (cpus, nodes) = (topology::current().cpus(), topology::current().domains());
        assert_eq!(lock.counts(), []);
        assert!(lock.can_be_written(), "unused");
        assert_eq!(lock.counts(), [0]);
        let used = AtomicUsize::new(0);
        let step = Barrier::new(cpus);
        thread::scope(|scope| {
            for number in 0..cpus {
                let (used, step) = (&used, &step);
                scope.spawn(move || {
                    // Everybody has a CPU before anybody reads, and one node reads before the others.
                    let node = Native::domain();
                    step.wait();
                    if node == nodes - 1 {
                        lock.read();
                    }
                    step.wait();
                    if number == 0 {
                        used.store(lock.counts().len(), Relaxed);
                    }
                    step.wait();
                    lock.read();
                });
            }
        });
        assert_eq!(used.into_inner(), nodes.min(2), "the first node's, and the last one's");
        assert_eq!(lock.counts().len(), nodes);
        // SAFETY: unlocked, and nobody uses it.
        unsafe { lock.dispose() };
        assert_eq!(lock.counts(), []);
    });
}

/// A reader that comes in on one node and leaves on another leaves the lock free, whatever the single counts are.
#[test]
#[ignore = "wants a topology"]
fn readers_may_leave_on_another_node() {
    with_both("readers may leave on another node", |lock| {
        for writes_between in [false, true] {
            thread::scope(|scope| {
                let ((post, mail), (done, is_done)) = (sync_channel::<usize>(1), sync_channel(1));
                // One that leaves in the place of all others.
                scope.spawn(move || {
                    for node in mail {
                        assert_eq!(lock.counts().iter().sum::<i32>(), 1);
                        // SAFETY: that thread has read-locked it.
                        unsafe { lock.unlock_shared() };
                        assert_eq!(lock.counts().iter().sum::<i32>(), 0, "after a reader of node {node}");
                        assert!(!writes_between || lock.can_be_written());
                        done.send(()).expect("the others wait");
                    }
                });
                for _ in 0..topology::current().cpus() {
                    let come = || {
                        assert!(lock.lock_shared(None));
                        assert!(!lock.can_be_written());
                        Native::domain()
                    };
                    post.send(scope.spawn(come).join().expect("no panics")).expect("the other one listens");
                    is_done.recv().expect("the other one is well");
                }
            });
            assert!(lock.can_be_written());
        }
        // SAFETY: unlocked, and nobody uses it.
        unsafe { lock.dispose() };
    });
}

/// After one release, readers of all nodes are inside together: none of them waits for a further writer.
#[test]
#[ignore = "wants a topology"]
fn readers_of_all_nodes_come_in_after_one_release() {
    with_all("readers of all nodes come in after one release", |subject| {
        let cpus = topology::current().cpus();
        let (shelf, inside) = (Shelf::new(subject.make()), Barrier::new(cpus));
        for _ in 0..2 {
            thread::scope(|scope| {
                assert!(shelf.lock.lock_exclusive(None));
                for _ in 0..cpus {
                    scope.spawn(|| {
                        assert!(shelf.lock.lock_shared(None));
                        inside.wait();
                        shelf.read();
                    });
                }
                shelf.until_waiting(cpus);
                shelf.write();
            });
        }
        assert_eq!(shelf.writes(), 2);
    });
}

/// After one release, every waiting writer has the lock once, on whatever node it is.
#[test]
#[ignore = "wants a topology"]
fn writers_of_all_nodes_get_the_lock() {
    with_all("writers of all nodes get the lock", |subject| {
        let topology = topology::current();
        let (shelf, order) = (Shelf::new(subject.make()), Mutex::new(Vec::new()));
        let (mut writers, mut seen) = (0, BTreeSet::new());
        thread::scope(|scope| {
            assert!(shelf.lock.lock_shared(None));
            // A thread's node goes by its slot, and a thread that has just ended may still have one: so there may have to be more
            // writers than CPUs.
            let (tell, nodes) = mpsc::channel();
            while writers < topology.cpus() || seen.len() < topology.nodes() {
                assert!(writers < 10 * topology.cpus(), "nodes of {writers} threads: {seen:?}");
                let (tell, shelf, order) = (tell.clone(), &shelf, &order);
                scope.spawn(move || {
                    tell.send(Native::domain()).expect("the test listens");
                    assert!(shelf.lock.lock_exclusive(None));
                    order.lock().expect("no panics").push(Native::domain());
                    shelf.write();
                });
                seen.insert(nodes.recv().expect("the writer tells"));
                writers += 1;
            }
            shelf.until_waiting(writers);
            shelf.read();
        });
        let order = order.into_inner().expect("no panics");
        assert_eq!(order.len(), writers);
        assert!((0..topology.nodes()).all(|node| order.contains(&node)), "{order:?}");
    });
}

/// While all others keep using the lock, a side that it does not let starve gets it again and again on every node.
#[test]
#[ignore = "wants a topology"]
fn no_node_starves() {
    const SECTIONS: usize = 20;
    with_all("no node starves", |subject| {
        let nodes = topology::current().domains();
        let (shelf, left) = (Shelf::new(subject.make()), AtomicUsize::new(0));
        let is_over = AtomicBool::new(false);
        let section = |writes: bool| {
            if writes {
                shelf.lock_and_write();
            } else {
                shelf.lock_and_read();
            }
        };
        // One of each on every node, of which a favoured sort, or both, must get in.
        let counted = |writes: bool| match subject.favour() {
            Favour::Readers => !writes,
            Favour::Writers | Favour::WritersOfNode => writes,
            Favour::Neutral => true,
        };
        left.store([false, true].into_iter().filter(|writes| counted(*writes)).count() * nodes, Relaxed);
        let started = Barrier::new(2 * nodes);
        thread::scope(|scope| {
            for number in 0..2 * nodes {
                let (section, counted, left, is_over, started) =
                    (&section, &counted, &left, &is_over, &started);
                scope.spawn(move || {
                    let writes = number % 2 == 0;
                    started.wait();
                    if counted(writes) {
                        (0..SECTIONS).for_each(|_| section(writes));
                        if left.fetch_sub(1, Relaxed) == 1 {
                            is_over.store(true, Relaxed);
                        }
                    }
                    while !is_over.load(Relaxed) {
                        section(writes);
                    }
                });
            }
        });
    });
}
