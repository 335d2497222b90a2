//! Plays for the model checkers, generic over platform and lock.

mod cast;
mod gcr;
pub mod locks;

use std::fmt;
use std::sync::Arc;

use lockwork_locks::catalogue::{LOCKS, LockInfo, Visitor, dispatch};
use lockwork_locks::{RawLock, restrict::gcr::Gcr};

pub use cast::{Stage, expired, in_time};

use crate::model::{Config, ModelPlatform, Play};

/// A play with a name, for as many executions as a model checker likes.
#[derive(Clone)]
pub struct Scenario {
    /// What it shows.
    pub name: &'static str,
    /// How many threads it has.
    pub threads: usize,
    /// The machine it runs on.
    pub config: Config,
    /// Pool nodes that may be in use at its end: state that belongs to a lock.
    pub resident: usize,
    /// Makes an execution.
    pub play: Arc<dyn Fn() -> Play + Send + Sync>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Scenario {
    /// A scenario on the default machine, without resident nodes.
    pub fn new(name: &'static str, threads: usize, play: impl Fn() -> Play + Send + Sync + 'static) -> Self {
        Self { name, threads, config: Config::default(), resident: 0, play: Arc::new(play) }
    }
}

/// Whose scenarios these are.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The name as in a lock spec.
    pub name: String,
    /// What is played with it.
    pub scenarios: Vec<Scenario>,
}

/// The scenarios for a lock that `make` makes, in 2 to 4 threads: small enough for exhaustive exploration.
pub fn small<P: ModelPlatform, L: RawLock<P> + 'static>(make: fn() -> L) -> Vec<Scenario> {
    vec![
        Scenario::new("exclusion", 2, move || locks::exclusion(make(), 2, 2)),
        Scenario::new("exclusion-of-three", 3, move || locks::exclusion(make(), 3, 1)),
        Scenario::new("attempt", 2, move || locks::attempt(make())),
        Scenario::new("attempts", 2, move || locks::attempts(make())),
        Scenario::new("give-up", 2, move || locks::give_up(make())),
        Scenario::new("give-up-in-the-middle", 3, move || locks::give_up_in_the_middle(make())),
        Scenario::new("deadline", 2, move || locks::deadline(make())),
        Scenario::new("deadline-any-time", 3, move || locks::deadline_any_time(make())),
        Scenario::new("release-elsewhere", 3, move || locks::release_elsewhere(make())),
        Scenario::new("two-locks", 2, move || locks::two_locks(make(), make())),
        Scenario::new("destroy", 2, move || locks::destroy(make(), 2)),
        Scenario::new("destroy-of-three", 3, move || locks::destroy(make(), 3)),
        Scenario::new("observed", 2, move || locks::observed(make())),
    ]
}

struct Small;

impl<P: ModelPlatform> Visitor<P> for Small {
    type Output = Vec<Scenario>;

    fn visit<L: RawLock<P> + 'static>(self) -> Self::Output {
        small::<P, L>(L::new)
    }
}

/// Every lock of the catalogue, each with the small scenarios.
#[must_use]
pub fn base_locks<P: ModelPlatform>() -> Vec<Subject> {
    let subject = |lock: &LockInfo| Subject { name: lock.name.to_owned(), scenarios: dispatch::<P, _>(lock.id, Small) };
    LOCKS.iter().map(subject).collect()
}

struct SmallGcr;

impl<P: ModelPlatform> Visitor<P> for SmallGcr {
    type Output = Vec<Scenario>;

    fn visit<L: RawLock<P> + 'static>(self) -> Self::Output {
        let strictest = || Gcr::<P, L>::with_knobs(gcr::STRICTEST);
        let patient = || Gcr::<P, L>::with_knobs(gcr::PATIENT);
        let mut scenarios = small::<P, _>(strictest);
        scenarios.push(Scenario::new("patient", 3, move || locks::exclusion(patient(), 3, 1)));
        scenarios.push(Scenario::new("patient-give-up", 3, move || locks::give_up_in_the_middle(patient())));
        for scenario in &mut scenarios {
            // Each lock keeps its restriction.
            scenario.resident = 2;
        }
        scenarios
    }
}

/// GCR around every lock of the catalogue.
#[must_use]
pub fn restricted_locks<P: ModelPlatform>() -> Vec<Subject> {
    let subject =
        |lock: &LockInfo| Subject { name: format!("gcr({})", lock.name), scenarios: dispatch::<P, _>(lock.id, SmallGcr) };
    LOCKS.iter().map(subject).collect()
}
