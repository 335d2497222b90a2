//! Plays for the model checkers, generic over platform and lock.

mod cast;
pub mod cond;
mod delegates;
mod gcr;
pub mod locks;
mod parts;
mod plain;
mod pool;
mod published;
mod start;
mod states;
mod wait_free;
pub mod waiters;
mod wrapped;

use std::fmt;
use std::sync::Arc;

pub use cast::{Stage, expired, in_time};
pub use cond::conditions;
pub use delegates::delegates;
pub use parts::parts;
pub use plain::base_locks;
pub use pool::pool;
pub use published::publication;
pub use start::starts;
pub use states::{states, states_of_rwlocks};
pub use wait_free::wait_free;
pub use wrapped::{wrapped_around_a_few, wrapped_around_all};

use crate::engines::loom::LoomPlatform;
use crate::engines::shuttle::ShuttlePlatform;
use crate::erased::AnyLock;
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
    /// Involuntary switches in one execution, where they are bounded.
    pub preemptions: usize,
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
    /// A scenario on the default machine, without resident nodes, with three involuntary switches (two if
    /// there are more than two threads).
    pub fn new(name: &'static str, threads: usize, play: impl Fn() -> Play + Send + Sync + 'static) -> Self {
        let preemptions = if threads <= 2 { 3 } else { 2 };
        Self { name, threads, config: Config::default(), preemptions, resident: 0, play: Arc::new(play) }
    }

    /// With this many involuntary switches.
    #[must_use]
    pub fn within(mut self, preemptions: usize) -> Self {
        self.preemptions = preemptions;
        self
    }

    /// On a machine with this many CPUs.
    #[must_use]
    pub fn on_cpus(mut self, cpus: usize) -> Self {
        self.config.parallelism = cpus;
        self
    }

    /// On a machine that has more threads to run than CPUs.
    #[must_use]
    pub fn overloaded(mut self) -> Self {
        self.config.runnable = self.config.parallelism + 1;
        self
    }

    /// With waiters that do not poll before they line up, or sleep.
    #[must_use]
    pub fn without_polling(mut self) -> Self {
        self.config.spin_budget = 0;
        self
    }

    /// On a machine whose threads are seen to be on a CPU, or not to be.
    #[must_use]
    pub fn watched(mut self, running: bool) -> Self {
        self.config.running = Some(running);
        self
    }

    /// On a machine where the CPU clocks of threads are seen to move on, or to stand still.
    #[must_use]
    pub fn clocked(mut self, moving: bool) -> Self {
        self.config.clocks = Some(moving);
        self
    }

    /// On a machine with two nodes: threads of odd and even number are on different ones.
    #[must_use]
    pub fn on_two_nodes(mut self) -> Self {
        self.config.nodes = 2;
        self
    }

    /// On a machine with two nodes of two groups of cores: threads whose numbers differ by two meet on a node.
    #[must_use]
    pub fn on_three_levels(mut self) -> Self {
        self.config.parallelism = 4;
        self.config.nodes = 2;
        self.config.clusters = 2;
        self
    }

    /// With states that are taken back from idle locks, of which there are at most this many at the end, with what they point to.
    #[must_use]
    pub fn reclaiming(mut self, states: usize) -> Self {
        self.config.reclaims = true;
        self.keeping(states)
    }

    /// With this many more pool nodes that may be in use at the end.
    #[must_use]
    pub fn keeping(mut self, resident: usize) -> Self {
        self.resident += resident;
        self
    }
}

/// What makes a lock: a function for each type, so that no scenario is compiled once for every lock.
pub trait Make<P: ModelPlatform>: Fn() -> AnyLock<P> + Copy + Send + Sync + 'static {}

impl<P: ModelPlatform, F: Fn() -> AnyLock<P> + Copy + Send + Sync + 'static> Make<P> for F {}

/// A lock and its scenarios.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The name as in a lock spec.
    pub name: String,
    /// What is played with it.
    pub scenarios: Vec<Scenario>,
}

/// The scenarios for a lock that `make` makes, in 2 or 3 threads: small enough for exhaustive exploration.
pub fn small<P: ModelPlatform>(make: impl Make<P>) -> Vec<Scenario> {
    vec![
        Scenario::new("exclusion", 2, move || locks::exclusion(make(), 2, 2)),
        Scenario::new("contended", 3, move || locks::contended(make())),
        Scenario::new("attempt", 2, move || locks::attempt(make())),
        Scenario::new("attempts", 2, move || locks::attempts(make())),
        Scenario::new("give-up", 2, move || locks::give_up(make())).within(2),
        Scenario::new("give-up-in-the-middle", 3, move || locks::give_up_in_the_middle(make())),
        Scenario::new("come-back", 2, move || locks::come_back(make())),
        Scenario::new("come-back-between", 3, move || locks::come_back_between(make())),
        Scenario::new("deadline", 2, move || locks::deadline(make())),
        Scenario::new("deadline-any-time", 3, move || locks::deadline_any_time(make())),
        Scenario::new("release-elsewhere", 3, move || locks::release_elsewhere(make())),
        Scenario::new("two-locks", 2, move || locks::two_locks(make(), make())),
        Scenario::new("destroy", 2, move || locks::destroy(make(), 2)),
        // The same as an exclusion of three, up to the end.
        Scenario::new("destroy-of-three", 3, move || locks::destroy(make(), 3)),
        Scenario::new("observed", 2, move || locks::observed(make())),
    ]
}

/// The scenarios for a lock that `make` makes, in 4 to 8 threads: for random exploration.
pub fn large<P: ModelPlatform>(make: impl Make<P>) -> Vec<Scenario> {
    vec![
        Scenario::new("crowd", 8, move || locks::exclusion(make(), 8, 2)),
        Scenario::new("rounds", 3, move || locks::exclusion(make(), 3, 6)),
        Scenario::new("mixture", 8, move || locks::mixture(make(), 8)),
        Scenario::new("come-back", 5, move || locks::come_back_often(make(), 4)),
        Scenario::new("exodus", 6, move || locks::exodus(make(), 4)),
        Scenario::new("release-elsewhere", 3, move || locks::release_elsewhere(make())),
        Scenario::new("two-locks", 2, move || locks::two_locks(make(), make())),
        Scenario::new("destroy", 5, move || locks::destroy(make(), 5)),
        Scenario::new("destroy-and-fork", 3, move || locks::destroy_and_fork(make(), 3)).keeping(8),
        Scenario::new("fork", 4, move || locks::forked(make(), 3)).keeping(8),
    ]
}

/// Every small scenario, for loom, but those of reader-writer locks' [states](states_of_rwlocks_for_loom). Not generic, so that it
/// is compiled here and not once in every test that uses it.
#[must_use]
pub fn for_loom() -> Vec<Subject> {
    let mut all = base_locks::<LoomPlatform>(false);
    all.extend(wrapped_around_a_few::<LoomPlatform>());
    all.extend(conditions::<LoomPlatform>(false));
    all.extend(waiters::registry::<LoomPlatform>(false));
    all.extend(starts::<LoomPlatform>());
    all.extend(delegates::<LoomPlatform>(false));
    all.extend(parts::<LoomPlatform>());
    all.extend(states::<LoomPlatform>());
    all.push(pool::<LoomPlatform>());
    all.push(publication::<LoomPlatform>());
    all.push(wait_free::<LoomPlatform>(false));
    all
}

/// The states of reader-writer locks, for loom.
#[must_use]
pub fn states_of_rwlocks_for_loom() -> Vec<Subject> {
    states_of_rwlocks::<LoomPlatform>()
}

/// Every large scenario, for shuttle. Not generic, as [`for_loom`].
#[must_use]
pub fn for_shuttle() -> Vec<Subject> {
    let mut all = base_locks::<ShuttlePlatform>(true);
    all.extend(wrapped_around_all::<ShuttlePlatform>());
    all.extend(conditions::<ShuttlePlatform>(true));
    all.extend(waiters::registry::<ShuttlePlatform>(true));
    all.extend(starts::<ShuttlePlatform>());
    all.extend(delegates::<ShuttlePlatform>(true));
    all.extend(parts::<ShuttlePlatform>());
    all.extend(states::<ShuttlePlatform>());
    all.extend(states_of_rwlocks::<ShuttlePlatform>());
    all.push(pool::<ShuttlePlatform>());
    all.push(publication::<ShuttlePlatform>());
    all.push(wait_free::<ShuttlePlatform>(true));
    all
}
