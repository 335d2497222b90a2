//! The conformance suite on every lock of the catalogue, and on GCR around one lock of each kind: one test for
//! each lock and property. (`shuttle.rs` has GCR around every lock.)

use libtest_mimic::{Arguments, Trial};
use lockwork_locks::RawLock;
use lockwork_locks::blocking::futex::FutexLock;
use lockwork_locks::catalogue::{LOCKS, LockInfo, Visitor, dispatch};
use lockwork_locks::competitive::ttas::Ttas;
use lockwork_locks::queue::{clh::Clh, k42::K42, mcs::Mcs, ticket::Ticket};
use lockwork_locks::restrict::gcr::{Gcr, Knobs};
use lockwork_locks::wait::{Spin, SpinThenPark};
use lockwork_platform::{Deadline, Native};
use lockwork_testkit::conformance::{Check, Traits, suite};

/// The suite for a lock itself.
struct Plain;

impl Visitor<Native> for Plain {
    type Output = Vec<Check>;

    fn visit<L: RawLock<Native> + 'static>(self) -> Vec<Check> {
        suite::<L>()
    }
}

/// GCR that restricts at the first contention, lets one thread compete, and promotes often.
#[repr(transparent)]
struct Strict<L: RawLock<Native>>(Gcr<Native, L>);

const STRICT: Knobs = Knobs {
    active: Some(0),
    join: Some(0),
    promote: Some(64),
    enable: Some(1),
    idle: Some(0),
    check_max: None,
    spin: None,
};

// SAFETY: GCR's.
unsafe impl<L: RawLock<Native>> RawLock<Native> for Strict<L> {
    type Token = L::Token;

    fn new() -> Self {
        Self(Gcr::with_knobs(STRICT))
    }

    fn lock(&self) -> L::Token {
        self.0.lock()
    }

    fn try_lock(&self) -> Option<L::Token> {
        self.0.try_lock()
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<L::Token> {
        self.0.try_lock_until(deadline)
    }

    unsafe fn unlock(&self, token: L::Token) {
        // SAFETY: the caller's contract.
        unsafe { self.0.unlock(token) };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    unsafe fn forget_waiters(&self, holder: Option<L::Token>) {
        // SAFETY: the caller's contract.
        unsafe { self.0.forget_waiters(holder) };
    }
}

fn trials(traits: Traits, checks: Vec<Check>) -> impl Iterator<Item = Trial> {
    checks.into_iter().map(move |check| {
        let traits = traits.clone();
        Trial::test(format!("{}::{}", traits.name, check.name), move || {
            (check.run)(&traits);
            Ok(())
        })
    })
}

fn of_lock(lock: &LockInfo) -> Vec<Trial> {
    let fifo = lock.algorithm.fairness.starts_with("FIFO");
    let spins = lock.waiting == "spin";
    trials(Traits { name: lock.name.to_owned(), fifo, spins }, dispatch(lock.id, Plain)).collect()
}

/// GCR around a lock, as it comes and so strict that two threads are one too many.
fn of_restricted<L: RawLock<Native> + 'static>(name: &str, spins: bool) -> Vec<Trial> {
    let traits = |name| Traits { name, fifo: false, spins };
    trials(traits(format!("gcr({name})")), suite::<Gcr<Native, L>>())
        .chain(trials(traits(format!("gcr({name}, active=0)")), suite::<Strict<L>>()))
        .collect()
}

fn main() {
    let arguments = Arguments::from_args();
    let mut all: Vec<Trial> = LOCKS.iter().flat_map(of_lock).collect();
    all.extend(of_restricted::<Ttas<Native>>("ttas", true));
    all.extend(of_restricted::<Ticket<Native>>("ticket", true));
    all.extend(of_restricted::<Clh<Native, SpinThenPark>>("clh-stp", false));
    all.extend(of_restricted::<Mcs<Native, Spin>>("mcs-spin", true));
    all.extend(of_restricted::<Mcs<Native, SpinThenPark>>("mcs-stp", false));
    all.extend(of_restricted::<K42<Native, SpinThenPark>>("k42-stp", false));
    all.extend(of_restricted::<FutexLock<Native>>("futex", false));
    libtest_mimic::run(&arguments, all).exit();
}
