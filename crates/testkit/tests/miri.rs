//! Every lock on the portable platform, whose nodes are boxes: under Miri this shows that no lock reads freed or
//! uninitialised memory, races, or leaks.
//!
//! Run it by `make miri`; without Miri it is an ordinary test (`cargo test -p lockwork-testkit --test miri`).

use std::sync::Mutex;
use std::thread;

use lockwork_locks::RawLock;
use lockwork_locks::biased::Biased;
use lockwork_locks::cond::{Cond, Outcome};
use lockwork_locks::queue::mcs::Mcs;
use lockwork_locks::registry::{LockId, Visitor, mutexes};
use lockwork_locks::restrict::gcr::{ByNode, Gcr, Knobs};
use lockwork_locks::wait::SpinThenPark;
use lockwork_platform::{Clock, Cpu, DataCell, Deadline};
use lockwork_testkit::erased::{AnyLock, Held, erased};
use lockwork_testkit::portable::{Portable, PortableData};
use lockwork_testkit::rw::RwSubject;

/// Miri is slow.
const ROUNDS: u64 = if cfg!(miri) { 4 } else { 300 };
const THREADS: u64 = 3;
/// What wrappers are run around: a lock that spins, one that sleeps, one that queues.
const WRAPPED: [LockId; 3] = [LockId::Tas, LockId::Futex, LockId::McsStp];

/// Restricts at once, and promotes often.
fn strict() -> Knobs {
    Knobs {
        active: Some(0),
        join: Some(0),
        promote: Some(3),
        enable: Some(1),
        idle: Some(0),
        spin: Some(1),
        ..Knobs::default()
    }
}

struct Bench {
    lock: AnyLock<Portable>,
    count: PortableData<u64>,
}

impl Bench {
    fn section(&self, held: Option<Held>) -> u64 {
        let Some(held) = held else { return 0 };
        // SAFETY: under the lock.
        let count = unsafe { self.count.get() };
        // SAFETY: as above.
        unsafe { self.count.set(count + 1) };
        // SAFETY: the word of an acquisition, used once.
        unsafe { self.lock.unlock(held) };
        1
    }

    /// Locks, tries and gives up in turn. Sections entered.
    fn work(&self) -> u64 {
        (0..ROUNDS)
            .map(|round| {
                let soon = round % 4 * 1_000;
                let deadline = Deadline::after(Clock::Monotonic, Portable::now(Clock::Monotonic), soon);
                self.section(Some(self.lock.lock()))
                    + self.section(self.lock.try_lock())
                    + self.section(self.lock.try_lock_until(deadline))
            })
            .sum()
    }
}

fn exercise(name: &str, make: Maker) {
    let before = Portable::nodes_in_use();
    let bench = Bench { lock: make(), count: PortableData::new(0) };
    let sections = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| bench.work())).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).sum::<u64>()
    });
    // SAFETY: all threads have been joined.
    assert_eq!(unsafe { bench.count.get() }, sections, "sections under {name}");
    assert!(!bench.lock.is_locked(), "{name} is locked");
    drop(bench);
    assert_eq!(Portable::nodes_in_use(), before, "nodes in use after {name}");
}

type Maker = fn() -> AnyLock<Portable>;

/// What makes a lock: by itself, and in each wrapper by its name.
struct Makers {
    plain: Maker,
    wrapped: [(&'static str, Maker); 3],
}

/// Has the type of a lock make its [`Makers`].
struct Make;

impl Visitor<Portable> for Make {
    type Output = Makers;

    fn mutex<L: RawLock<Portable> + 'static>(self, _: impl Fn() -> L) -> Makers {
        Makers {
            plain: || erased(L::new()),
            wrapped: [
                ("gcr", || erased(Gcr::<Portable, L>::with_knobs(strict()))),
                ("gcr-numa", || erased(Gcr::<Portable, L, ByNode>::with_knobs(strict()))),
                ("biased", || erased(Biased::<Portable, L>::new())),
            ],
        }
    }
}

/// Readers, writers, those who try, give up or go from one to the other.
fn exercise_rw(subject: RwSubject) {
    let before = Portable::nodes_in_use();
    let lock = subject.make_on::<Portable>();
    let count = PortableData::new(0_u64);
    let add = || {
        // SAFETY: the caller is the writer.
        let seen = unsafe { count.get() };
        // SAFETY: as above.
        unsafe { count.set(seen + 1) };
    };
    let look = |is_reader: bool| {
        if is_reader {
            // SAFETY: a reader.
            let seen = unsafe { count.get() };
            // SAFETY: a reader, once.
            unsafe { lock.unlock_shared() };
            assert!(seen <= THREADS * ROUNDS * 3, "a count that nobody wrote");
        }
    };
    let change = |is_writer: bool| {
        if is_writer {
            add();
            // SAFETY: the writer, once.
            unsafe { lock.unlock_exclusive() };
        }
        u64::from(is_writer)
    };
    let work = || -> u64 {
        (0..ROUNDS)
            .map(|round| {
                let soon = || {
                    Some(Deadline::after(
                        Clock::Monotonic,
                        Portable::now(Clock::Monotonic),
                        round % 4 * 1_000,
                    ))
                };
                assert!(lock.lock_shared(None), "a wait without a deadline ends with the lock");
                look(true);
                look(lock.try_lock_shared());
                look(lock.lock_shared(soon()));
                let writes = change(lock.try_lock_exclusive()) + change(lock.lock_exclusive(soon()));
                assert!(lock.lock_exclusive(None), "a wait without a deadline ends with the lock");
                add();
                // SAFETY: the writer.
                unsafe { lock.downgrade() };
                look(true);
                writes + 1
            })
            .sum()
    };
    let writes = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).sum::<u64>()
    });
    // SAFETY: all threads have been joined.
    assert_eq!(unsafe { count.get() }, writes, "writes under {subject}");
    assert!(!lock.is_locked(), "{subject} is locked");
    // SAFETY: nobody uses it any more.
    unsafe { lock.dispose() };
    assert_eq!(Portable::nodes_in_use(), before, "nodes in use after {subject}");
}

/// Signals, deadlines and broadcasts on a condition.
fn exercise_condition() {
    let before = Portable::nodes_in_use();
    let lock = Mcs::<Portable, SpinThenPark>::new();
    let cond = Cond::<Portable>::new();
    let tokens = PortableData::new(0_u64);
    let take = |deadline_ns: Option<u64>| {
        let mut held = lock.lock();
        // SAFETY: under the lock.
        while unsafe { tokens.get() } == 0 {
            let deadline =
                deadline_ns.map(|ns| Deadline::after(Clock::Monotonic, Portable::now(Clock::Monotonic), ns));
            // SAFETY: the token of the acquisition, used once.
            let unlock = || unsafe { lock.unlock(held) };
            let (outcome, again) = cond.wait(1, deadline, &(), unlock, || lock.lock());
            assert!(outcome != Outcome::Interrupted);
            held = again;
        }
        // SAFETY: under the lock.
        let left = unsafe { tokens.get() } - 1;
        // SAFETY: as above.
        unsafe { tokens.set(left) };
        // SAFETY: the token of the last acquisition.
        unsafe { lock.unlock(held) };
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let take = &take;
            scope.spawn(move || (0..ROUNDS).for_each(|_| take((thread == 0).then_some(2_000))));
        }
        for round in 0..THREADS * ROUNDS {
            let held = lock.lock();
            // SAFETY: under the lock.
            let more = unsafe { tokens.get() } + 1;
            // SAFETY: as above.
            unsafe { tokens.set(more) };
            if round % 3 == 0 {
                cond.broadcast();
            } else {
                cond.signal();
            }
            // SAFETY: the token of the acquisition above.
            unsafe { lock.unlock(held) };
        }
    });
    assert!(cond.destroy(), "nobody waits");
    assert_eq!(Portable::nodes_in_use(), before, "nodes in use");
}

/// The node that `gcr-numa` prefers changes at the end of a turn only, however many passive threads are admitted meanwhile.
fn exercise_turns() {
    const TURN: usize = 5;
    /// Changes that are waited for, in no more than so many sections.
    const CHANGES: usize = if cfg!(miri) { 2 } else { 20 };
    const SECTIONS: usize = 10_000;
    let before = Portable::nodes_in_use();
    // Every release admits a passive thread.
    let knobs = Knobs { promote: Some(1), turn: Some(TURN as u32), ..strict() };
    // In a box, for it is known by its address until it has been dropped.
    let lock = Box::new(Gcr::<Portable, Mcs<Portable, SpinThenPark>, ByNode>::with_knobs(knobs));
    // Which node was preferred in each section that the restriction counted.
    let preferred = Mutex::new(Vec::new());
    let section = || {
        let token = lock.lock();
        let mut preferred = preferred.lock().expect("no panic under it");
        preferred.push(lock.preferred_node().expect("a lock that is restricted has a state"));
        let changes = preferred.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let goes_on = changes < CHANGES && preferred.len() < SECTIONS;
        drop(preferred);
        thread::yield_now(); // Others find the lock taken.
        // SAFETY: the token of the acquisition.
        unsafe { lock.unlock(token) };
        goes_on
    };
    // The first waiter restricts the lock, so that all sections from its own on are counted.
    let token = lock.lock();
    thread::scope(|scope| {
        scope.spawn(section);
        while lock.preferred_node().is_none() {
            thread::yield_now();
        }
        // SAFETY: as above.
        unsafe { lock.unlock(token) };
    });
    thread::scope(|scope| {
        for _ in 0..2 * THREADS {
            scope.spawn(|| while section() {});
        }
    });
    drop(lock);
    assert_eq!(Portable::nodes_in_use(), before, "nodes in use");
    let preferred = preferred.into_inner().expect("no panic under it");
    let ends: Vec<usize> =
        (1..preferred.len()).filter(|&index| preferred[index] != preferred[index - 1]).collect();
    assert!(
        ends.len() >= CHANGES,
        "{} changes of the preferred node in {} sections",
        ends.len(),
        preferred.len()
    );
    assert!(ends.iter().all(|end| end % TURN == 0), "turns of {TURN} sections end before sections {ends:?}");
}

/// One test, one lock after another: the nodes in use are counted for the whole process.
#[test]
fn locks_and_conditions_use_their_nodes_well() {
    for lock in mutexes() {
        let makers = lock.id.dispatch(Make);
        exercise(lock.name, makers.plain);
        if WRAPPED.contains(&lock.id) {
            for (wrapper, make) in makers.wrapped {
                exercise(&format!("{wrapper}({})", lock.name), make);
            }
        }
    }
    RwSubject::all().for_each(exercise_rw);
    exercise_condition();
    exercise_turns();
}
