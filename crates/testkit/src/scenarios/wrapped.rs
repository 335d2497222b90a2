//! The scenarios of wrappers.

use std::marker::PhantomData;

use lockwork_locks::RawLock;
use lockwork_locks::biased::Biased;
use lockwork_locks::blocking::futex::FutexLock;
use lockwork_locks::competitive::tas::Tas;
use lockwork_locks::queue::mcs::Mcs;
use lockwork_locks::registry::{Entry, LockId, Visitor, WrapperId, mutexes};
use lockwork_locks::restrict::gcr::{ByNode, Gcr, Passive, Together};
use lockwork_locks::wait::SpinThenPark;

use super::plain::adapted;
use super::{Scenario, Subject, gcr, large, locks};
use crate::erased::{AnyLock, undropped};
use crate::is_typical;
use crate::model::ModelPlatform;

/// What makes GCR around a lock, with knobs that make a few threads too many.
struct Restricted<S>(PhantomData<S>);

/// With both sets of knobs.
struct Makers<P: ModelPlatform> {
    strictest: fn() -> AnyLock<P>,
    patient: fn() -> AnyLock<P>,
}

impl<P: ModelPlatform, S: Passive<P>> Visitor<P> for Restricted<S> {
    type Output = Makers<P>;

    fn mutex<L: RawLock<P> + 'static>(self, _: impl Fn() -> L) -> Makers<P> {
        Makers {
            strictest: || undropped::<P, _>(Gcr::<P, L, S>::with_knobs(gcr::strictest())),
            patient: || undropped::<P, _>(Gcr::<P, L, S>::with_knobs(gcr::patient())),
        }
    }
}

impl<P: ModelPlatform> Makers<P> {
    /// Each lock keeps its restriction.
    const KEPT: usize = 2;

    fn small(self) -> Vec<Scenario> {
        let Self { strictest, patient } = self;
        let scenarios = [
            Scenario::new("exclusion", 2, move || locks::exclusion(strictest(), 2, 2)),
            Scenario::new("exclusion-of-three", 3, move || locks::exclusion(strictest(), 3, 1)),
            Scenario::new("contended", 3, move || locks::contended(strictest())).within(1),
            Scenario::new("give-up", 2, move || locks::give_up(strictest())).within(2),
            Scenario::new("give-up-in-the-middle", 3, move || locks::give_up_in_the_middle(strictest())),
            Scenario::new("destroy", 2, move || locks::destroy(strictest(), 2)),
            Scenario::new("patient", 3, move || locks::exclusion(patient(), 3, 1)),
        ];
        scenarios.into_iter().map(|scenario| scenario.keeping(Self::KEPT)).collect()
    }

    fn large(self) -> Vec<Scenario> {
        let Self { strictest, patient } = self;
        let mut all = large(strictest);
        all.push(Scenario::new("patient-crowd", 6, move || locks::exclusion(patient(), 6, 3)));
        all.push(Scenario::new("patient-mixture", 8, move || locks::mixture(patient(), 8)));
        all.into_iter().map(|scenario| scenario.keeping(Self::KEPT)).collect()
    }
}

/// On two nodes, for each of which (and as its root) the queue of passive threads of two locks keeps one.
fn by_node(scenario: Scenario) -> Scenario {
    scenario.on_two_nodes().keeping(6)
}

/// What makes a bias around a lock.
struct BiasedAround;

impl<P: ModelPlatform> Visitor<P> for BiasedAround {
    type Output = fn() -> AnyLock<P>;

    fn mutex<L: RawLock<P> + 'static>(self, _: impl Fn() -> L) -> Self::Output {
        || undropped::<P, _>(Biased::<P, L>::new())
    }
}

/// The small scenarios of a bias.
fn small_biased<P: ModelPlatform>(make: fn() -> AnyLock<P>) -> Vec<Scenario> {
    vec![
        Scenario::new("exclusion", 2, move || locks::exclusion(make(), 2, 2)).within(2),
        Scenario::new("exclusion-of-three", 3, move || locks::exclusion(make(), 3, 1)).within(1),
        Scenario::new("attempt", 2, move || locks::attempt(make())).within(2),
        Scenario::new("attempts", 2, move || locks::attempts(make())),
        Scenario::new("give-up", 2, move || locks::give_up(make())).within(1),
        Scenario::new("deadline", 2, move || locks::deadline(make())).within(1),
        Scenario::new("release-elsewhere", 3, move || locks::release_elsewhere(make())).within(1),
        Scenario::new("release-elsewhere-and-again", 2, move || locks::release_elsewhere_and_again(make()))
            .within(2),
        Scenario::new("destroy", 2, move || locks::destroy(make(), 2)).within(2),
        Scenario::new("observed", 2, move || locks::observed(make())).within(2),
    ]
}

/// A lock that spins, one that sleeps, one that queues: a wrapper is the same around every lock. Only these are compiled.
fn a_few<P: ModelPlatform, V: Visitor<P>>(visitor: impl Fn() -> V) -> [(&'static Entry, V::Output); 3] {
    [
        (LockId::Tas.info(), visitor().mutex(Tas::<P>::new)),
        (LockId::Futex.info(), visitor().mutex(FutexLock::<P>::new)),
        (LockId::McsStp.info(), visitor().mutex(Mcs::<P, SpinThenPark>::new)),
    ]
}

fn subject(wrapper: &str, lock: &Entry, scenarios: Vec<Scenario>) -> Subject {
    Subject { name: format!("{wrapper}({})", lock.name), scenarios: adapted(lock, scenarios) }
}

/// The wrappers with the small scenarios.
#[must_use]
pub fn wrapped_around_a_few<P: ModelPlatform>() -> Vec<Subject> {
    let mut all = Vec::new();
    for (lock, makers) in a_few::<P, _>(|| Restricted::<Together>(PhantomData)) {
        all.push(subject("gcr", lock, makers.small()));
    }
    // Around one lock only: it is costly to explore.
    let makers: Makers<P> = Restricted::<ByNode>(PhantomData).mutex(FutexLock::<P>::new);
    let scenarios = makers.small().into_iter().map(by_node).collect();
    all.push(subject("gcr-numa", LockId::Futex.info(), scenarios));
    for (lock, make) in a_few::<P, _>(|| BiasedAround) {
        all.push(subject("biased", lock, small_biased(make)));
    }
    all
}

/// The wrappers with the large scenarios, around every algorithm that they take; by node around a few.
#[must_use]
pub fn wrapped_around_all<P: ModelPlatform>() -> Vec<Subject> {
    let mut all = Vec::new();
    for lock in mutexes().filter(|lock| is_typical(lock)) {
        let makers = lock.id.dispatch::<P, _>(Restricted::<Together>(PhantomData));
        all.push(subject("gcr", lock, makers.large()));
    }
    for (lock, makers) in a_few::<P, _>(|| Restricted::<ByNode>(PhantomData)) {
        all.push(subject("gcr-numa", lock, makers.large().into_iter().map(by_node).collect()));
    }
    for lock in WrapperId::Biased.inner_locks().filter(|lock| is_typical(lock)) {
        all.push(subject("biased", lock, large(lock.id.dispatch::<P, _>(BiasedAround))));
    }
    all
}
