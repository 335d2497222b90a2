//! Plays for the model checkers, generic over platform and lock.

mod cast;
pub mod cond;
mod gcr;
pub mod locks;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use lockwork_locks::RawLock;
use lockwork_locks::biased::{self, Biased};
use lockwork_locks::blocking::futex::FutexLock;
use lockwork_locks::catalogue::{Family, LOCKS, LockId, LockInfo, Visitor, dispatch, wrapped_by};
use lockwork_locks::hierarchical::{ahmcs::Ahmcs, cna::Cna, fc_mcs::FcMcs, hclh::Hclh, shfl::Shfl};
use lockwork_locks::knobs::BaseKnobs;
use lockwork_locks::load::{glk::Glk, lc::Lc, malth::Malth};
use lockwork_locks::queue::{alock::Alock, mcs::Mcs, mcs_timepub::McsTimepub};
use lockwork_locks::restrict::gcr::{ByNode, Gcr, Passive, Together};
use lockwork_locks::wait::{Spin, SpinThenPark};

pub use cast::{Stage, expired, in_time};

use crate::engines::loom::LoomPlatform;
use crate::engines::shuttle::ShuttlePlatform;
use crate::erased::{AnyLock, undropped};
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

    /// With this many more pool nodes that may be in use at the end.
    #[must_use]
    pub fn keeping(mut self, resident: usize) -> Self {
        self.resident += resident;
        self
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

/// The scenarios for a lock that `make` makes, in 2 or 3 threads: small enough for exhaustive exploration.
pub fn small<P: ModelPlatform>(make: fn() -> AnyLock<P>) -> Vec<Scenario> {
    vec![
        Scenario::new("exclusion", 2, move || locks::exclusion(make(), 2, 2)),
        Scenario::new("exclusion-of-three", 3, move || locks::exclusion(make(), 3, 1)),
        Scenario::new("contended", 3, move || locks::contended(make())),
        Scenario::new("attempt", 2, move || locks::attempt(make())),
        Scenario::new("attempts", 2, move || locks::attempts(make())),
        Scenario::new("give-up", 2, move || locks::give_up(make())).within(2),
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

/// The scenarios for a lock that `make` makes, in 4 to 8 threads: for random exploration.
pub fn large<P: ModelPlatform>(make: fn() -> AnyLock<P>) -> Vec<Scenario> {
    vec![
        Scenario::new("crowd", 8, move || locks::exclusion(make(), 8, 2)),
        Scenario::new("rounds", 3, move || locks::exclusion(make(), 3, 6)),
        Scenario::new("mixture", 8, move || locks::mixture(make(), 8)),
        Scenario::new("exodus", 6, move || locks::exodus(make(), 4)),
        Scenario::new("release-elsewhere", 3, move || locks::release_elsewhere(make())),
        Scenario::new("two-locks", 2, move || locks::two_locks(make(), make())),
        Scenario::new("destroy", 5, move || locks::destroy(make(), 5)),
        Scenario::new("fork", 4, move || locks::forked(make(), 3)).keeping(8),
    ]
}

/// The scenarios of every lock, plain.
struct Plain {
    large: bool,
}

impl<P: ModelPlatform> Visitor<P> for Plain {
    type Output = Vec<Scenario>;

    fn visit<L: RawLock<P> + 'static>(self) -> Self::Output {
        let make: fn() -> _ = || undropped::<P, _>(L::new());
        if self.large { large(make) } else { small(make) }
    }
}

/// The scenarios of a hierarchical lock that lets no more than one hand-over pass.
struct Impatient {
    large: bool,
}

impl<P: ModelPlatform> Visitor<P> for Impatient {
    type Output = Vec<Scenario>;

    fn visit<L: RawLock<P> + 'static>(self) -> Self::Output {
        let make: fn() -> _ = || {
            let lock = L::new();
            lock.configure(&BaseKnobs { pass_limit: Some(1) });
            undropped::<P, _>(lock)
        };
        if self.large {
            return large(make);
        }
        let configured = || locks::configured(undropped::<P, _>(L::new()));
        let mut all = small(make);
        all.push(Scenario::new("configured", 2, configured));
        all
    }
}

/// What shows whether a queue lock that lets no more than one hand-over pass keeps its queues in order.
fn impatient_queue<P: ModelPlatform, L: RawLock<P> + 'static>() -> Vec<Scenario> {
    let unknowing = || undropped::<P, _>(L::new());
    let impatient = || {
        let lock = L::new();
        lock.configure(&BaseKnobs { pass_limit: Some(1) });
        undropped::<P, _>(lock)
    };
    vec![
        Scenario::new("come-again", 3, move || locks::come_again(impatient())).within(1),
        Scenario::new("configured", 2, move || locks::configured(unknowing())),
    ]
}

/// Pool nodes that two locks of a kind keep, at most.
fn state_of(lock: &LockInfo) -> usize {
    match lock.algorithm.family {
        // They keep nothing but their words.
        Family::Hierarchical if ["cna", "shfl", "hbo"].contains(&lock.algorithm.name) => 0,
        // Each what all nodes share, and the states of two nodes and of three groups of cores.
        Family::Hierarchical => 12,
        // The slots.
        _ if lock.id == LockId::Alock || lock.id == LockId::Ptl => 2,
        // What the other modes need.
        _ if lock.id == LockId::Glk => 2,
        _ => 0,
    }
}

/// With fewer involuntary switches, for a lock that has many steps between its states.
fn shallower(scenario: Scenario) -> Scenario {
    let most = if scenario.threads <= 2 && scenario.name != "give-up" { 2 } else { 1 };
    let preemptions = scenario.preemptions.min(most);
    scenario.within(preemptions)
}

/// The scenarios for a lock that keeps state; for a hierarchical one on a machine that has a hierarchy, and with fewer
/// involuntary switches if there are many steps between its states.
fn adapted(lock: &LockInfo, scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let adapt = |scenario: Scenario| {
        let kept = if scenario.name.starts_with("destroy") { 0 } else { state_of(lock) };
        let scenario = scenario.keeping(kept);
        if lock.algorithm.family != Family::Hierarchical {
            let is_deep = lock.id == LockId::Glk || lock.id == LockId::Lc && scenario.name == "contended";
            return if is_deep { shallower(scenario) } else { scenario };
        }
        if state_of(lock) == 0 || ["hclh", "fc-mcs"].contains(&lock.algorithm.name) {
            return scenario.on_two_nodes();
        }
        shallower(scenario).on_two_nodes()
    };
    scenarios.into_iter().map(adapt).collect()
}

/// Waiters of a node queue up one behind the other (on one CPU), or with a stranger in between (on three).
fn shuffling<P: ModelPlatform, L: RawLock<P> + 'static>() -> Vec<Scenario> {
    let make: fn() -> _ = || undropped::<P, _>(L::new());
    vec![
        Scenario::new("neighbours", 3, move || locks::contended(make())).on_cpus(1),
        Scenario::new("strangers", 4, move || locks::give_up_before_release(make())).on_cpus(3).within(0),
    ]
}

/// Two waiters of a node are put into the lock's queue together, and one of another node behind them.
fn splicing<P: ModelPlatform, L: RawLock<P> + 'static>() -> Vec<Scenario> {
    let play = || locks::come_again_as(undropped::<P, _>(L::new()), 1);
    vec![Scenario::new("come-again-from-elsewhere", 3, play).on_cpus(3).within(1)]
}

/// Every lock of the catalogue, with the small or the large scenarios.
#[must_use]
pub fn base_locks<P: ModelPlatform>(large: bool) -> Vec<Subject> {
    let subject = |lock: &LockInfo| Subject {
        name: lock.name.to_owned(),
        scenarios: adapted(lock, dispatch::<P, _>(lock.id, Plain { large })),
    };
    let mut all: Vec<Subject> = LOCKS.iter().map(subject).collect();
    let id = LockId::CTktMcsStp;
    all.push(Subject {
        name: "c-tkt-mcs-stp(may-pass-local=1)".to_owned(),
        scenarios: adapted(id.info(), dispatch::<P, _>(id, Impatient { large })),
    });
    // As it comes, the lock changes its mind about nothing in so few acquisitions.
    let adapting = Plain { large }.visit::<Ahmcs<P, SpinThenPark, 1>>();
    all.push(Subject {
        name: "ahmcs-stp, adapting at once".to_owned(),
        scenarios: adapted(LockId::AhmcsStp.info(), adapting),
    });
    let id = LockId::HmcsStp;
    let scenarios = adapted(id.info(), dispatch::<P, _>(id, Impatient { large }));
    all.push(Subject {
        name: "hmcs-stp(may-pass-local=1), three levels".to_owned(),
        scenarios: scenarios.into_iter().map(Scenario::on_three_levels).collect(),
    });
    // As it comes, the lock promotes nobody in so few hand-offs.
    all.push(tuned::<P, Malth<P, SpinThenPark, 1>>("malth-stp, promoting at once", large, 0));
    // As it comes, the lock changes its mode after so few acquisitions only if the system is overloaded.
    for (name, overload) in [
        ("glk, adapting at once", (|scenario| scenario) as fn(Scenario) -> Scenario),
        ("glk, adapting at once, overloaded", Scenario::overloaded),
    ] {
        let adapting = tuned::<P, Glk<P, true>>(name, large, 2).scenarios;
        let scenarios = adapting.into_iter().map(shallower).map(overload).collect();
        all.push(Subject { name: name.to_owned(), scenarios });
    }
    // Without naps nobody but a release wakes a sleeper.
    for (name, scenarios) in [
        ("lc, overloaded", Plain { large }.visit::<Lc<P>>()),
        ("lc, overloaded, without naps", Plain { large }.visit::<Lc<P, 0>>()),
    ] {
        let scenarios = scenarios.into_iter().map(shallower).map(Scenario::overloaded).collect();
        all.push(Subject { name: name.to_owned(), scenarios });
    }
    // As it comes, there are more slots than threads.
    all.push(tuned::<P, Alock<P, 2>>("alock, two slots", large, 2));
    // Waiters are patient for longer than the clock moves otherwise.
    let timepub = || undropped::<P, _>(<McsTimepub<P> as RawLock<P>>::new());
    let scenarios = vec![
        Scenario::new("passed-over", 2, move || locks::passed_over(timepub(), 1)).within(2),
        Scenario::new("passed-over-of-three", 3, move || locks::passed_over(timepub(), 2)).within(1),
        Scenario::new("passed-over-and-late", 2, move || locks::passed_over_and_late(timepub())).within(2),
    ];
    all.push(Subject { name: "mcs-timepub, as time passes".to_owned(), scenarios });
    let id = LockId::CnaStp;
    let scenarios = if large {
        dispatch::<P, _>(id, Impatient { large })
    } else {
        impatient_queue::<P, Cna<P, SpinThenPark>>()
    };
    all.push(Subject {
        name: "cna-stp(may-pass-local=1)".to_owned(),
        scenarios: adapted(id.info(), scenarios),
    });
    if !large {
        for (id, what, scenarios) in [
            (LockId::ShflSpin, "shuffling", shuffling::<P, Shfl<P, Spin>>()),
            (LockId::ShflStp, "shuffling", shuffling::<P, Shfl<P, SpinThenPark>>()),
            (LockId::FcMcsStp, "splicing", splicing::<P, FcMcs<P, SpinThenPark>>()),
            (LockId::HclhStp, "splicing", splicing::<P, Hclh<P, SpinThenPark>>()),
        ] {
            let name = format!("{}, {what}", id.info().name);
            all.push(Subject { name, scenarios: adapted(id.info(), scenarios) });
        }
    }
    all
}

/// A lock with other constants than in the catalogue, in whose scenarios `resident` nodes may stay in use.
fn tuned<P: ModelPlatform, L: RawLock<P> + 'static>(name: &str, large: bool, resident: usize) -> Subject {
    let mut scenarios = Plain { large }.visit::<L>();
    if !large {
        let play = || locks::come_again::<P>(undropped::<P, _>(L::new()));
        scenarios.push(Scenario::new("come-again", 3, play).within(1));
    }
    let scenarios = scenarios.into_iter().map(|scenario| scenario.keeping(resident)).collect();
    Subject { name: name.to_owned(), scenarios }
}

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

/// Every small scenario, for loom. Not generic, so that it is compiled here and not once in every test that uses it.
#[must_use]
pub fn for_loom() -> Vec<Subject> {
    let mut all = base_locks::<LoomPlatform>(false);
    all.extend(restricted_locks::<LoomPlatform>(false));
    all.extend(restricted_by_node::<LoomPlatform>(false));
    all.extend(biased_locks::<LoomPlatform>(false));
    all.extend(conditions::<LoomPlatform>(false));
    all
}

/// Every large scenario, for shuttle. Not generic, as [`for_loom`].
#[must_use]
pub fn for_shuttle() -> Vec<Subject> {
    let mut all = base_locks::<ShuttlePlatform>(true);
    all.extend(restricted_locks::<ShuttlePlatform>(true));
    all.extend(restricted_by_node::<ShuttlePlatform>(true));
    all.extend(biased_locks::<ShuttlePlatform>(true));
    all.extend(conditions::<ShuttlePlatform>(true));
    all
}

/// The condition variable with a lock of one kind.
fn conditions_with<P: ModelPlatform, L: RawLock<P> + 'static>(name: &str, large: bool) -> Subject {
    let scenarios = if large {
        vec![
            Scenario::new("signals", 6, || cond::signals::<P, L>(3)),
            Scenario::new("signal-or-deadline", 3, || cond::signal_or_deadline::<P, L>(true)),
            Scenario::new("broadcast", 6, || cond::broadcast::<P, L>(5, false)).on_cpus(2),
            Scenario::new("broadcast-one-leaves", 5, || cond::broadcast::<P, L>(4, true)).on_cpus(1),
            Scenario::new("interruption", 3, || cond::interruption::<P, L>(true)),
            Scenario::new("destroy", 4, || cond::destroy::<P, L>(3)).on_cpus(1),
            Scenario::new("destroy-or-deadline", 2, cond::destroy_or_deadline::<P, L>),
            Scenario::new("fork", 4, || cond::forked::<P, L>(3)).keeping(8),
        ]
    } else {
        vec![
            Scenario::new("signal-under-lock", 2, || cond::signal::<P, L>(true)),
            Scenario::new("signal-after-lock", 2, || cond::signal::<P, L>(false)),
            Scenario::new("two-signals", 3, cond::two_signals::<P, L>),
            Scenario::new("signal-or-deadline", 2, || cond::signal_or_deadline::<P, L>(false)),
            Scenario::new("signal-or-deadline-of-three", 3, || cond::signal_or_deadline::<P, L>(true))
                .within(1),
            Scenario::new("broadcast", 3, || cond::broadcast::<P, L>(2, false)).on_cpus(1),
            Scenario::new("broadcast-one-leaves", 3, || cond::broadcast::<P, L>(2, true)).on_cpus(1),
            Scenario::new("interruption", 2, || cond::interruption::<P, L>(false)).within(2),
            Scenario::new("interruption-and-signal", 3, || cond::interruption::<P, L>(true)).within(1),
            Scenario::new("destroy", 2, || cond::destroy::<P, L>(1)).within(2),
            Scenario::new("destroy-or-deadline", 2, cond::destroy_or_deadline::<P, L>).within(2),
        ]
    };
    Subject { name: format!("cond({name})"), scenarios }
}

/// The condition variable, with a lock that keeps nothing for its holder and with one that keeps a node.
#[must_use]
pub fn conditions<P: ModelPlatform>(large: bool) -> Vec<Subject> {
    vec![
        conditions_with::<P, FutexLock<P>>("futex", large),
        conditions_with::<P, Mcs<P, SpinThenPark>>("mcs-stp", large),
    ]
}
