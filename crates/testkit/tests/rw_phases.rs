//! Phase-fair reader-writer locks: phases of readers and of one writer take turns.

use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use lockwork_locks::RawRwLock;
use lockwork_locks::rw::pf_q::PfQ;
use lockwork_locks::rw::pf_t::PfT;
use lockwork_locks::wait::{Spin, SpinThenPark, WAITING_ON_RWLOCK, WaitPolicy};
use lockwork_platform::{Clock, Cpu, Deadline, Native, Waiters};
use lockwork_testkit::watchdog::watchdog;

/// No test takes more than a few seconds, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A lock that can say how many readers have come into its order.
trait Phased: RawRwLock<Native> {
    fn arrivals(&self) -> u32;
}

impl Phased for PfT<Native> {
    fn arrivals(&self) -> u32 {
        PfT::arrivals(self)
    }
}

impl<W: WaitPolicy<Native>> Phased for PfQ<Native, W> {
    fn arrivals(&self) -> u32 {
        PfQ::arrivals(self)
    }
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

fn soon(ns: u64) -> Deadline {
    Deadline::after(Clock::Monotonic, Native::now(Clock::Monotonic), ns)
}

const FAR: u64 = 3_600_000_000_000;

/// While a writer is in, the next one lines up, and behind that one some readers. They go before it, all of them
/// together, whatever came first; and no reader sees two writers pass.
fn phases_take_turns<L: Phased>(readers_give_up: bool) {
    const READERS: usize = 3;
    const ROUNDS: usize = 20;
    let lock = L::new();
    let waiting_on = ptr::from_ref(&lock).addr() | WAITING_ON_RWLOCK;
    let (entered, left, read) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let may_leave = AtomicUsize::new(0);
    let meetings: Vec<Barrier> = (0..ROUNDS).map(|_| Barrier::new(READERS)).collect();
    let writer = |round: usize| {
        assert!(lock.lock_exclusive(None));
        assert_eq!(read.load(Relaxed), round * READERS, "the readers that waited before writer {round}");
        assert_eq!(left.load(Relaxed), round, "writers before writer {round}");
        entered.store(round + 1, Relaxed);
        until(|| may_leave.load(Relaxed) > round);
        left.store(round + 1, Relaxed);
        // SAFETY: the writer.
        unsafe { lock.unlock_exclusive() };
    };
    let reader = |round: usize, deadline: Option<Deadline>| {
        assert!(lock.lock_shared(deadline));
        assert_eq!(left.load(Relaxed), round + 1, "writers that passed readers of round {round}");
        meetings[round].wait();
        read.fetch_add(1, Relaxed);
        // SAFETY: a reader.
        unsafe { lock.unlock_shared() };
    };
    thread::scope(|scope| {
        let (writer, reader) = (&writer, &reader);
        scope.spawn(move || writer(0));
        for round in 0..ROUNDS {
            until(|| entered.load(Relaxed) == round + 1);
            // The state of the lock may have served another one before.
            let before = lock.arrivals();
            if round + 1 < ROUNDS {
                scope.spawn(move || writer(round + 1));
                until(|| Native::waiters_of(waiting_on) == 1);
            }
            for number in 0..READERS {
                let deadline = (number % 2 == 1).then(|| soon(FAR));
                scope.spawn(move || reader(round, deadline));
            }
            let arrivals = before.wrapping_add(READERS as u32);
            until(|| lock.arrivals() == arrivals);
            if readers_give_up {
                assert!(!lock.lock_shared(Some(soon(100_000))));
                assert_eq!(lock.arrivals(), arrivals, "a reader that gave up");
            }
            may_leave.store(round + 1, Relaxed);
        }
    });
    assert!(!lock.is_locked());
}

/// Writers that have a deadline have no place among writers, but readers do not keep them out.
fn readers_do_not_starve_a_timed_writer<L: Phased>() {
    let lock = L::new();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    assert!(lock.lock_shared(None));
                    thread::yield_now();
                    // SAFETY: a reader.
                    unsafe { lock.unlock_shared() };
                }
            });
        }
        for _ in 0..100 {
            assert!(lock.lock_exclusive(Some(soon(FAR))));
            // SAFETY: the writer.
            unsafe { lock.unlock_exclusive() };
        }
        stop.store(true, Relaxed);
    });
}

/// The tests of a lock.
fn trials<L: Phased + 'static>(name: &'static str) -> Vec<Trial> {
    let checks: [(&str, fn()); 3] = [
        ("phases_take_turns", || phases_take_turns::<L>(false)),
        ("phases_take_turns_though_readers_give_up", || phases_take_turns::<L>(true)),
        ("readers_do_not_starve_a_timed_writer", readers_do_not_starve_a_timed_writer::<L>),
    ];
    let trial = |(check, run): (&str, fn())| {
        let name = format!("{name}::{check}");
        Trial::test(name.clone(), move || {
            watchdog(LIMIT, || name.clone(), run);
            Ok(())
        })
    };
    checks.into_iter().map(trial).collect()
}

fn main() {
    let arguments = Arguments::from_args();
    let mut all = trials::<PfT<Native>>("pf-t");
    all.extend(trials::<PfQ<Native, Spin>>("pf-q"));
    all.extend(trials::<PfQ<Native, SpinThenPark>>("pf-q-stp"));
    libtest_mimic::run(&arguments, all).exit();
}
