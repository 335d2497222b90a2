//! Waiters that time out again and again while a lock stays held leave no more behind than a node each: every lock of the
//! registry, wrapped ones, and readers and writers of reader-writer locks. Counted in the pool's bytes, one test after the other.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use lockwork_locks::biased::Biased;
use lockwork_locks::hierarchical::cst::Cst;
use lockwork_locks::queue::mcs::Mcs;
use lockwork_locks::registry::mutexes;
use lockwork_locks::restrict::gcr::{ByNode, Gcr};
use lockwork_locks::wait::SpinThenPark;
use lockwork_platform::{Clock, Deadline, Native, nodes};
use lockwork_testkit::conformance::Traits;
use lockwork_testkit::erased::{AnyLock, AnyRwLock};
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::watchdog::watchdog;

const THREADS: usize = 4;
/// Timeouts of each thread. One node for each would be 64 bytes × 4,000 = 250 KiB.
const TIMEOUTS: usize = 1_000;
/// What a lock and the threads that wait for it may cost once as many timeouts have made what there is to make: a batch of
/// 2 KiB for each thread, states, and all over again where that comes from another list.
const MOST: usize = 32 * 1024;

/// Far more than any lock needs.
const LIMIT: Duration = Duration::from_secs(120);

const PASSED: Deadline = Deadline { clock: Clock::Monotonic, ns: 1 };

/// Has threads time out by `gives_up`, and as often again. Returns by how many bytes the pool grew the second time.
fn growth(gives_up: impl Fn(usize) + Sync) -> usize {
    growth_once(&gives_up);
    growth_once(&gives_up)
}

fn growth_once(gives_up: &(impl Fn(usize) + Sync)) -> usize {
    let before = nodes::bytes();
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                (0..TIMEOUTS).for_each(|_| gives_up(thread));
            });
        }
    });
    nodes::bytes() - before
}

fn judge(grown: usize) -> Result<(), Failed> {
    if grown > MOST {
        return Err(format!(
            "{THREADS} threads that timed out {TIMEOUTS} times, and as often before, left {grown} bytes"
        )
        .into());
    }
    Ok(())
}

fn check(lock: &AnyLock<Native>) -> Result<(), Failed> {
    let token = lock.lock();
    let grown = growth(|_| assert!(lock.try_lock_until(PASSED).is_none(), "held"));
    // SAFETY: locked above.
    unsafe { lock.unlock(token) };
    assert!(!lock.is_locked(), "all have given up");
    // A thread that comes back to a lock that is free finds it free.
    let token = lock.try_lock_until(PASSED).expect("a free lock");
    // SAFETY: locked above.
    unsafe { lock.unlock(token) };
    judge(grown)
}

fn check_rw(lock: &AnyRwLock<Native>, readers: bool) -> Result<(), Failed> {
    assert!(lock.lock_exclusive(None));
    let grown = growth(|thread| {
        let acquired = if readers && thread % 2 == 0 {
            lock.lock_shared(Some(PASSED))
        } else {
            lock.lock_exclusive(Some(PASSED))
        };
        assert!(!acquired, "held");
    });
    // SAFETY: locked above.
    unsafe { lock.unlock_exclusive() };
    assert!(lock.lock_shared(Some(PASSED)), "a free lock");
    // SAFETY: locked above.
    unsafe { lock.unlock_shared() };
    assert!(lock.lock_exclusive(Some(PASSED)), "a free lock");
    // SAFETY: locked above.
    unsafe { lock.unlock_exclusive() };
    judge(grown)
}

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let guarded = |name: String, run: Box<dyn Fn() -> Result<(), Failed> + Send>| {
        Trial::test(name.clone(), move || watchdog(LIMIT, || name.clone(), &run))
    };
    let of = |name: &str, traits: Traits| (name.to_owned(), traits.new);
    let plain = mutexes().map(|lock| of(lock.name, Traits::of_base(lock)));
    let wrapped = [
        of("gcr(mcs-stp)", Traits::of::<Gcr<Native, Mcs<Native, SpinThenPark>>>(String::new())),
        of("gcr(cst-mutex)", Traits::of::<Gcr<Native, Cst<Native>>>(String::new())),
        of("gcr-numa(mcs-stp)", Traits::of::<Gcr<Native, Mcs<Native, SpinThenPark>, ByNode>>(String::new())),
        of("biased(mcs-stp)", Traits::of::<Biased<Native, Mcs<Native, SpinThenPark>>>(String::new())),
    ];
    let mut all: Vec<Trial> =
        plain.chain(wrapped).map(|(name, make)| guarded(name, Box::new(move || check(&make())))).collect();
    for subject in RwSubject::all() {
        for readers in [false, true] {
            let of = if readers { "readers and writers" } else { "writers" };
            all.push(guarded(
                format!("{subject}::{of}"),
                Box::new(move || check_rw(&subject.make(), readers)),
            ));
        }
    }
    libtest_mimic::run(&arguments, all).exit();
}
