//! The conformance suite on every lock of the catalogue and on GCR around each of them: one test for each
//! lock and property.

use libtest_mimic::{Arguments, Trial};
use lockwork_locks::RawLock;
use lockwork_locks::catalogue::{LOCKS, LockInfo, Visitor, dispatch};
use lockwork_locks::restrict::gcr::{Gcr, Knobs};
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

/// The suite for GCR around a lock, as it comes and so strict that two threads are one too many.
struct Restricted;

impl Visitor<Native> for Restricted {
    type Output = (Vec<Check>, Vec<Check>);

    fn visit<L: RawLock<Native> + 'static>(self) -> Self::Output {
        (suite::<Gcr<Native, L>>(), suite::<Strict<L>>())
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
    let traits = |name, fifo| Traits { name, fifo, spins };
    let (default, strict) = dispatch(lock.id, Restricted);
    trials(traits(lock.name.to_owned(), fifo), dispatch(lock.id, Plain))
        .chain(trials(traits(format!("gcr({})", lock.name), false), default))
        .chain(trials(traits(format!("gcr({}, active=0)", lock.name), false), strict))
        .collect()
}

fn main() {
    let arguments = Arguments::from_args();
    libtest_mimic::run(&arguments, LOCKS.iter().flat_map(of_lock).collect()).exit();
}
