//! The scenarios of the locks themselves.

use lockwork_locks::RawLock;
use lockwork_locks::adaptive::auto::Auto;
use lockwork_locks::describe::{Family, Keeps};
use lockwork_locks::hierarchical::{ahmcs::Ahmcs, cst::Cst};
use lockwork_locks::knobs::Knobs;
use lockwork_locks::load::{glk::Glk, lc::Lc, malth::Malth};
use lockwork_locks::queue::{alock::Alock, mcs_timepub::McsTimepub, ptl::Ptl};
use lockwork_locks::registry::{Entry, LockId, Visitor, mutexes};
use lockwork_locks::wait::SpinThenPark;

use super::{Make, Scenario, Subject, locks, small};
use crate::erased::{AnyLock, undropped};
use crate::model::ModelPlatform;

/// Makes a lock without a wrapper.
struct Plain;

impl<P: ModelPlatform> Visitor<P> for Plain {
    type Output = fn() -> AnyLock<P>;

    fn mutex<L: RawLock<P> + 'static>(self, _: impl Fn() -> L) -> Self::Output {
        plain::<P, L>
    }
}

fn plain<P: ModelPlatform, L: RawLock<P> + 'static>() -> AnyLock<P> {
    undropped::<P, _>(L::new())
}

/// A lock that lets no more than one hand-over pass.
fn impatient<P: ModelPlatform>(make: impl Make<P>) -> impl Make<P> {
    move || {
        let lock = make();
        lock.configure(&Knobs { pass_limit: Some(1), ..Knobs::NONE });
        lock
    }
}

/// The small or the large scenarios.
fn scenarios_of<P: ModelPlatform>(make: impl Make<P>, large: bool) -> Vec<Scenario> {
    if large { super::large(make) } else { small(make) }
}

/// The scenarios of a hierarchical lock that lets no more than one hand-over pass.
fn of_impatient<P: ModelPlatform>(make: impl Make<P>, large: bool) -> Vec<Scenario> {
    let mut all = scenarios_of(impatient(make), large);
    if !large {
        all.push(Scenario::new("configured", 2, move || locks::configured(make())));
    }
    all
}

/// What shows whether a queue lock that lets no more than one hand-over pass keeps its queues in order.
fn of_impatient_queue<P: ModelPlatform>(make: impl Make<P>) -> Vec<Scenario> {
    let knowing = impatient(make);
    vec![
        Scenario::new("come-again", 3, move || locks::come_again(knowing())).within(1),
        Scenario::new("configured", 2, move || locks::configured(make())),
    ]
}

/// Pool nodes that two locks of a kind keep, at most.
fn state_of(lock: &Entry) -> usize {
    match lock.descriptor.keeps {
        Keeps::Nothing => 0,
        Keeps::Block => 2,
        // Each what all nodes share, and the states of two nodes and of three groups of cores.
        Keeps::Parts => 12,
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
pub(super) fn adapted(lock: &Entry, scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let adapt = |scenario: Scenario| {
        let kept = match scenario.name.starts_with("destroy") {
            // A thread may still be about to leave the state when the lock is destroyed. It then stays in the pool, with the
            // states of two nodes, where the next thread that needs a state finds it.
            true if lock.id == LockId::CstMutex => 3,
            // The second of them is found by way of a block.
            true if lock.id == LockId::Auto => 4,
            true => 0,
            false => state_of(lock),
        };
        let scenario = scenario.keeping(kept);
        if lock.id == LockId::LinuxMutex && scenario.threads > 2 {
            return scenario.within(0);
        }
        if lock.descriptor.family != Family::Hierarchical && lock.id != LockId::Auto {
            let is_deep = lock.id == LockId::Glk || lock.id == LockId::Lc && scenario.name == "contended";
            return if is_deep { shallower(scenario) } else { scenario };
        }
        if lock.descriptor.keeps == Keeps::Nothing {
            return scenario.on_two_nodes();
        }
        let scenario = shallower(scenario).on_two_nodes();
        // Its waiters are patient while there are CPUs to spare.
        if [LockId::CstMutex, LockId::Auto].contains(&lock.id) { scenario.overloaded() } else { scenario }
    };
    scenarios.into_iter().map(adapt).collect()
}

/// On one node, with a lock that keeps what all nodes share and the state of that node.
fn passing_over<P: ModelPlatform>(make: impl Make<P>, large: bool) -> Vec<Scenario> {
    let scenarios = if large {
        super::large(make)
    } else {
        vec![
            Scenario::new("exclusion", 2, move || locks::exclusion(make(), 2, 2)).within(1),
            Scenario::new("contended", 3, move || locks::contended(make())).within(0),
            Scenario::new("come-again", 3, move || locks::come_again(make())).within(0),
            Scenario::new("give-up", 2, move || locks::give_up(make())).within(1),
            Scenario::new("give-up-in-the-middle", 3, move || locks::give_up_in_the_middle(make())).within(0),
            Scenario::new("deadline-any-time", 3, move || locks::deadline_any_time(make())).within(1),
            Scenario::new("give-up-behind", 3, move || locks::give_up_behind(make())).within(0),
            Scenario::new("come-back", 2, move || locks::come_back(make())).within(1),
            Scenario::new("come-back-between", 3, move || locks::come_back_between(make())).within(0),
            Scenario::new("give-up-passed-over", 3, move || locks::give_up_passed_over(make())).within(0),
        ]
    };
    scenarios.into_iter().map(|scenario| scenario.keeping(4).overloaded()).collect()
}

/// Waiters of a node queue up one behind the other (on one CPU), or with a stranger in between (on three).
fn shuffling<P: ModelPlatform>(make: impl Make<P>) -> Vec<Scenario> {
    vec![
        Scenario::new("neighbours", 3, move || locks::contended(make())).on_cpus(1),
        Scenario::new("strangers", 4, move || locks::give_up_before_release(make())).on_cpus(3).within(0),
    ]
}

/// Newcomers are faster than the thread that was woken, and some sleepers give up.
fn overtaking<P: ModelPlatform>(make: impl Make<P>) -> Vec<Scenario> {
    vec![
        Scenario::new("come-again", 3, move || locks::come_again(make())),
        Scenario::new("give-up-behind", 3, move || locks::give_up_behind(make())),
        Scenario::new("give-up-passed-over", 3, move || locks::give_up_passed_over(make())),
    ]
}

/// Two waiters of a node are put into the lock's queue together, and one of another node behind them.
fn splicing<P: ModelPlatform>(make: impl Make<P>) -> Vec<Scenario> {
    let play = move || locks::come_again_as(make(), 1);
    vec![Scenario::new("come-again-from-elsewhere", 3, play).on_cpus(3).within(1)]
}

/// Every lock of the registry, with the small or the large scenarios.
#[must_use]
pub fn base_locks<P: ModelPlatform>(large: bool) -> Vec<Subject> {
    let make = |id: LockId| id.dispatch::<P, _>(Plain);
    let subject = |lock: &Entry| Subject {
        name: lock.name.to_owned(),
        scenarios: adapted(lock, scenarios_of(make(lock.id), large)),
    };
    let mut all: Vec<Subject> = mutexes().map(subject).collect();
    let id = LockId::CTktMcsStp;
    all.push(Subject {
        name: "c-tkt-mcs-stp(may-pass-local=1)".to_owned(),
        scenarios: adapted(id.info(), of_impatient(make(id), large)),
    });
    // With its own constants the lock adapts nothing in so few acquisitions.
    let adapting = scenarios_of(plain::<P, Ahmcs<P, SpinThenPark, 1>>, large);
    all.push(Subject {
        name: "ahmcs-stp, adapting at once".to_owned(),
        scenarios: adapted(LockId::AhmcsStp.info(), adapting),
    });
    let id = LockId::HmcsStp;
    let scenarios = adapted(id.info(), of_impatient(make(id), large));
    all.push(Subject {
        name: "hmcs-stp(may-pass-local=1), three levels".to_owned(),
        scenarios: scenarios.into_iter().map(Scenario::on_three_levels).collect(),
    });
    // With its own constants the lock promotes no thread in so few hand-offs.
    let promoting = plain::<P, Malth<P, SpinThenPark, 1>>;
    all.push(tuned::<P>("malth-stp, promoting at once", promoting, large, 0));
    // With its own constants the lock changes its mode after so few acquisitions only if the system is overloaded.
    for (name, overload) in [
        ("glk, adapting at once", (|scenario| scenario) as fn(Scenario) -> Scenario),
        ("glk, adapting at once, overloaded", Scenario::overloaded),
    ] {
        let adapting = tuned::<P>(name, plain::<P, Glk<P, true>>, large, 2).scenarios;
        let scenarios = adapting.into_iter().map(shallower).map(overload).collect();
        all.push(Subject { name: name.to_owned(), scenarios });
    }
    // With its own constants sleepers are passed over by more hand-overs than there are here.
    all.push(Subject {
        name: "cst-mutex, on one node".to_owned(),
        scenarios: passing_over(plain::<P, Cst<P, 1>>, large),
    });
    // With its own constants the lock goes another way after much longer only.
    let restless = scenarios_of(plain::<P, Auto<P, 1, true>>, large);
    all.push(Subject {
        name: "auto, restless".to_owned(),
        scenarios: adapted(LockId::Auto.info(), restless),
    });
    all.push(Subject {
        name: "auto, restless, on one node".to_owned(),
        scenarios: passing_over(plain::<P, Auto<P, 1, true>>, large),
    });
    // So that more of few threads line up.
    let at_once = scenarios_of(plain::<P, Auto<P>>, large).into_iter().map(Scenario::without_polling);
    all.push(Subject {
        name: "auto, lining up at once".to_owned(),
        scenarios: adapted(LockId::Auto.info(), at_once.collect()),
    });
    // Without naps only a release wakes a sleeper.
    for (name, make) in [
        ("lc, overloaded", plain::<P, Lc<P>> as fn() -> _),
        ("lc, overloaded, without naps", plain::<P, Lc<P, 0>>),
    ] {
        let scenarios = scenarios_of(make, large).into_iter();
        let scenarios = scenarios.map(shallower).map(Scenario::overloaded).collect();
        all.push(Subject { name: name.to_owned(), scenarios });
    }
    // On the default machine no waiter sleeps: nothing says that a thread is off its CPU.
    for (what, outlook) in [
        ("overloaded", Scenario::overloaded as fn(Scenario) -> Scenario),
        ("behind threads that run", |scenario| scenario.watched(true)),
        ("behind threads that do not run", |scenario| scenario.watched(false)),
        ("behind clocks that move on", |scenario| scenario.clocked(true)),
        ("behind clocks that stand still", |scenario| scenario.clocked(false)),
    ] {
        for id in [LockId::McsAware, LockId::FlexGuard] {
            let scenarios = scenarios_of(make(id), large).into_iter().map(outlook).collect();
            all.push(Subject { name: format!("{}, {what}", id.info().name), scenarios });
        }
    }
    // With its own constants there are more slots than threads.
    all.push(tuned::<P>("alock, two slots", plain::<P, Alock<P, 2>>, large, 2));
    // With its own constants a few threads do not wait on slots.
    all.push(tuned::<P>("ptl, two slots at once", plain::<P, Ptl<P, 2, 1>>, large, 2));
    // Waiters are patient for longer than the clock moves otherwise.
    let timepub = plain::<P, McsTimepub<P>>;
    let scenarios = vec![
        Scenario::new("passed-over", 2, move || locks::passed_over(timepub(), 1)).within(2),
        Scenario::new("passed-over-of-three", 3, move || locks::passed_over(timepub(), 2)).within(1),
        Scenario::new("passed-over-and-late", 2, move || locks::passed_over_and_late(timepub())).within(2),
    ];
    all.push(Subject { name: "mcs-timepub, as time passes".to_owned(), scenarios });
    let id = LockId::CnaStp;
    let scenarios = if large { of_impatient(make(id), large) } else { of_impatient_queue(make(id)) };
    all.push(Subject {
        name: "cna-stp(may-pass-local=1)".to_owned(),
        scenarios: adapted(id.info(), scenarios),
    });
    if !large {
        for (id, what, scenarios) in [
            (LockId::ShflSpin, "shuffling", shuffling as fn(fn() -> AnyLock<P>) -> _),
            (LockId::ShflStp, "shuffling", shuffling),
            (LockId::FcMcsStp, "splicing", splicing),
            (LockId::LinuxMutex, "overtaking", overtaking),
            (LockId::HclhStp, "splicing", splicing),
        ] {
            let name = format!("{}, {what}", id.info().name);
            all.push(Subject { name, scenarios: adapted(id.info(), scenarios(make(id))) });
        }
    }
    all
}

/// A lock with other constants than in the registry, in whose scenarios `resident` nodes may stay in use.
fn tuned<P: ModelPlatform>(name: &str, make: fn() -> AnyLock<P>, large: bool, resident: usize) -> Subject {
    let mut scenarios = scenarios_of(make, large);
    if !large {
        scenarios.push(Scenario::new("come-again", 3, move || locks::come_again(make())).within(1));
    }
    let scenarios = scenarios.into_iter().map(|scenario| scenario.keeping(resident)).collect();
    Subject { name: name.to_owned(), scenarios }
}
