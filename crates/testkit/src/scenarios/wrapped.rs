//! The scenarios of wrappers.

use std::marker::PhantomData;

use lockwork_locks::RawLock;
use lockwork_locks::biased::{self, Biased};
use lockwork_locks::catalogue::{LOCKS, LockId, LockInfo, Visitor, dispatch, wrapped_by};
use lockwork_locks::restrict::gcr::{ByNode, Gcr, Passive, Together};

use super::plain::adapted;
use super::{Scenario, Subject, gcr, large, locks};
use crate::erased::undropped;
use crate::model::ModelPlatform;

/// The scenarios of GCR around every lock, with knobs that make a few threads too many.
struct Restricted<S> {
    large: bool,
    passive: PhantomData<S>,
}

impl<P: ModelPlatform, S: Passive<P>> Visitor<P> for Restricted<S> {
    type Output = Vec<Scenario>;

    fn visit<L: RawLock<P> + 'static>(self) -> Self::Output {
        let strictest: fn() -> _ = || undropped::<P, _>(Gcr::<P, L, S>::with_knobs(gcr::strictest()));
        let patient: fn() -> _ = || undropped::<P, _>(Gcr::<P, L, S>::with_knobs(gcr::patient()));
        let scenarios = if self.large {
            let mut all = large(strictest);
            all.push(Scenario::new("patient-crowd", 6, move || locks::exclusion(patient(), 6, 3)));
            all.push(Scenario::new("patient-mixture", 8, move || locks::mixture(patient(), 8)));
            all
        } else {
            vec![
                Scenario::new("exclusion", 2, move || locks::exclusion(strictest(), 2, 2)),
                Scenario::new("exclusion-of-three", 3, move || locks::exclusion(strictest(), 3, 1)),
                Scenario::new("contended", 3, move || locks::contended(strictest())).within(1),
                Scenario::new("give-up", 2, move || locks::give_up(strictest())).within(2),
                Scenario::new("give-up-in-the-middle", 3, move || locks::give_up_in_the_middle(strictest())),
                Scenario::new("destroy", 2, move || locks::destroy(strictest(), 2)),
                Scenario::new("patient", 3, move || locks::exclusion(patient(), 3, 1)),
            ]
        };
        // Each lock keeps its restriction.
        scenarios.into_iter().map(|scenario| scenario.keeping(2)).collect()
    }
}

/// GCR around every lock of the catalogue, with the small or the large scenarios.
#[must_use]
pub fn restricted_locks<P: ModelPlatform>(large: bool) -> Vec<Subject> {
    let subject = |lock: &LockInfo| Subject {
        name: format!("gcr({})", lock.name),
        scenarios: adapted(
            lock,
            dispatch::<P, _>(lock.id, Restricted::<Together> { large, passive: PhantomData }),
        ),
    };
    LOCKS.iter().map(subject).collect()
}

/// GCR-NUMA on two nodes.
#[must_use]
pub fn restricted_by_node<P: ModelPlatform>(large: bool) -> Vec<Subject> {
    // The queue of passive threads keeps its root and two nodes, for each of two locks.
    let adapt = |scenario: Scenario| scenario.on_two_nodes().keeping(6);
    let subject = |(name, lock): (&str, LockId)| {
        let scenarios = dispatch::<P, _>(lock, Restricted::<ByNode> { large, passive: PhantomData });
        Subject { name: format!("gcr-numa({name})"), scenarios: scenarios.into_iter().map(adapt).collect() }
    };
    // Exhaustively around one lock only: the wrapper is the same around all, and costly to explore.
    let around: &[_] = if large {
        &[("tas", LockId::Tas), ("futex", LockId::Futex), ("mcs-stp", LockId::McsStp)]
    } else {
        &[("futex", LockId::Futex)]
    };
    around.iter().copied().map(subject).collect()
}

/// The scenarios of a bias around a lock.
struct BiasedAround {
    large: bool,
}

impl<P: ModelPlatform> Visitor<P> for BiasedAround {
    type Output = Vec<Scenario>;

    fn visit<L: RawLock<P> + 'static>(self) -> Self::Output {
        let make: fn() -> _ = || undropped::<P, _>(Biased::<P, L>::new());
        if self.large {
            return large(make);
        }
        vec![
            Scenario::new("exclusion", 2, move || locks::exclusion(make(), 2, 2)).within(2),
            Scenario::new("exclusion-of-three", 3, move || locks::exclusion(make(), 3, 1)).within(1),
            Scenario::new("attempt", 2, move || locks::attempt(make())).within(2),
            Scenario::new("attempts", 2, move || locks::attempts(make())),
            Scenario::new("give-up", 2, move || locks::give_up(make())).within(1),
            Scenario::new("deadline", 2, move || locks::deadline(make())).within(1),
            Scenario::new("release-elsewhere", 3, move || locks::release_elsewhere(make())).within(1),
            Scenario::new("release-elsewhere-and-again", 2, move || {
                locks::release_elsewhere_and_again(make())
            })
            .within(2),
            Scenario::new("destroy", 2, move || locks::destroy(make(), 2)).within(2),
            Scenario::new("observed", 2, move || locks::observed(make())).within(2),
        ]
    }
}

/// A bias around every lock that can have one, with the small or the large scenarios.
#[must_use]
pub fn biased_locks<P: ModelPlatform>(large: bool) -> Vec<Subject> {
    let subject = |lock: &LockInfo| Subject {
        name: format!("biased({})", lock.name),
        scenarios: adapted(lock, dispatch::<P, _>(lock.id, BiasedAround { large })),
    };
    wrapped_by(&biased::ALGORITHM).map(subject).collect()
}
