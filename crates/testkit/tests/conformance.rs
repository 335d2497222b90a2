//! The conformance suite on every lock of the registry, and on GCR around one lock of each kind: one test for
//! each lock and property. (`shuttle.rs` has GCR around every lock.)

use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use lockwork_locks::RawLock;
use lockwork_locks::biased::Biased;
use lockwork_locks::blocking::futex::FutexLock;
use lockwork_locks::competitive::ttas::Ttas;
use lockwork_locks::queue::{clh::Clh, k42::K42, mcs::Mcs, ticket::Ticket};
use lockwork_locks::registry::mutexes;
use lockwork_locks::restrict::gcr::{ByNode, Gcr, Knobs};
use lockwork_locks::wait::{Spin, SpinThenPark};
use lockwork_platform::Native;
use lockwork_testkit::conformance::{Check, Traits};
use lockwork_testkit::crash::{report_crashes, running};
use lockwork_testkit::erased::erased;

/// GCR that restricts at the first contention, lets one thread compete, and promotes often.
const STRICT: Knobs = Knobs {
    active: Some(0),
    join: Some(0),
    promote: Some(64),
    enable: Some(1),
    idle: Some(0),
    ..Knobs::NONE
};

/// The suite for a lock.
fn trials(traits: Traits) -> impl Iterator<Item = Trial> {
    Check::of(&traits).into_iter().map(move |check| {
        let traits = traits.clone();
        let name = format!("{}::{}", traits.name, check.name);
        Trial::test(name.clone(), move || {
            running(&name, || check.run(&traits));
            Ok(())
        })
    })
}

/// GCR around a lock, as it comes and so strict that two threads are one too many.
fn of_restricted<L: RawLock<Native> + 'static>(name: &str, spins: bool) -> Vec<Trial> {
    let plain = Traits { spins, ..Traits::of::<Gcr<Native, L>>(format!("gcr({name})")) };
    let strict = Traits {
        name: format!("gcr({name}, active=0)"),
        new: Arc::new(|| erased::<Native, _>(Gcr::<Native, L>::with_knobs(STRICT))),
        ..plain.clone()
    };
    trials(plain).chain(trials(strict)).collect()
}

/// GCR by node around a lock.
fn of_restricted_by_node<L: RawLock<Native> + 'static>(name: &str, spins: bool) -> Vec<Trial> {
    let plain = Traits { spins, ..Traits::of::<Gcr<Native, L, ByNode>>(format!("gcr-numa({name})")) };
    let strict = Traits {
        name: format!("gcr-numa({name}, active=0)"),
        new: Arc::new(|| erased::<Native, _>(Gcr::<Native, L, ByNode>::with_knobs(STRICT))),
        ..plain.clone()
    };
    trials(plain).chain(trials(strict)).collect()
}

/// A bias around a lock.
fn of_biased<L: RawLock<Native> + 'static>(name: &str, spins: bool) -> Vec<Trial> {
    trials(Traits { spins, ..Traits::of::<Biased<Native, L>>(format!("biased({name})")) }).collect()
}

fn main() {
    report_crashes();
    let arguments = Arguments::from_args();
    let mut all: Vec<Trial> = mutexes().map(Traits::of_base).flat_map(trials).collect();
    all.extend(of_restricted::<Ttas<Native>>("ttas", true));
    all.extend(of_restricted::<Ticket<Native>>("ticket", true));
    all.extend(of_restricted::<Clh<Native, SpinThenPark>>("clh-stp", false));
    all.extend(of_restricted::<Mcs<Native, Spin>>("mcs-spin", true));
    all.extend(of_restricted::<Mcs<Native, SpinThenPark>>("mcs-stp", false));
    all.extend(of_restricted::<K42<Native, SpinThenPark>>("k42-stp", false));
    all.extend(of_restricted::<FutexLock<Native>>("futex", false));
    all.extend(of_restricted_by_node::<Mcs<Native, SpinThenPark>>("mcs-stp", false));
    all.extend(of_biased::<Ttas<Native>>("ttas", true));
    all.extend(of_biased::<Mcs<Native, SpinThenPark>>("mcs-stp", false));
    all.extend(of_biased::<FutexLock<Native>>("futex", false));
    libtest_mimic::run(&arguments, all).exit();
}
