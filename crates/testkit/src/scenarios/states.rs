//! Plays in which the state of an idle lock is taken for another one of its kind.
//!
//! A thread that waits for its own lock, until a deadline that has passed, makes sure that the lock has a state: so a play
//! needs few threads.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;

use lockwork_locks::adaptive::auto::Auto;
use lockwork_locks::api::Token;
use lockwork_locks::blocking::futex::FutexLock;
use lockwork_locks::hierarchical::combinations::CTktMcs;
use lockwork_locks::hierarchical::cst::Cst;
use lockwork_locks::hierarchical::hclh::Hclh;
use lockwork_locks::hierarchical::hmcs::Hmcs;
use lockwork_locks::load::glk::Glk;
use lockwork_locks::restrict::gcr::{Gcr, Together};
use lockwork_locks::rw::by_node::variants::{CRwRp, CstRwsem};
use lockwork_locks::rw::pf_q::PfQ;
use lockwork_locks::wait::{Park, Wait};
use lockwork_locks::{RawLock, RawRwLock};
use lockwork_platform::{AtomicCell, AtomicInt, Deadline, Platform};

use super::{Make, Scenario, Stage, Subject, expired, gcr};
use crate::erased::{AnyLock, undropped};
use crate::model::{ModelPlatform, Play};

/// Several locks of a kind, and the threads of a play that are still there.
struct Locks<P: ModelPlatform> {
    stages: Vec<Arc<Stage<P>>>,
    left: P::Usize,
}

impl<P: ModelPlatform> Locks<P> {
    /// So many free locks, for so many threads.
    fn new(make: impl Make<P>, locks: usize, threads: usize) -> Arc<Self> {
        let stages = (0..locks).map(|_| Stage::<P>::new(make())).collect();
        Arc::new(Self { stages, left: AtomicCell::new(threads) })
    }

    /// A section of lock `number`, in which the thread waits for the lock until a deadline that has passed.
    #[track_caller]
    fn contend(&self, number: usize) {
        let stage = &self.stages[number];
        let token = stage.lock.lock();
        assert!(!stage.timed(expired()), "held by this thread");
        stage.finish(Some(token));
    }

    /// Lock `number` is free, and only the calling thread uses it.
    #[track_caller]
    fn attempt(&self, number: usize) {
        let token = self.stages[number].lock.try_lock();
        assert!(self.stages[number].finish(token), "free, and nobody else uses it");
    }

    /// As [`Locks::attempt`], with a deadline that has passed.
    #[track_caller]
    fn timed(&self, number: usize) {
        assert!(self.stages[number].timed(expired()), "free, and nobody else uses it");
    }

    /// The end of a thread. When all have come to it, nobody uses a state.
    #[track_caller]
    fn leave(&self) {
        // What the others did has happened before.
        if self.left.fetch_sub(1, AcqRel) == 1 {
            assert_eq!(P::states_in_use(), 0, "states are in use, and no thread is there to use them");
        }
    }

    /// A play of these roles, with so many sections of each lock at the end.
    fn play(self: Arc<Self>, sections: &[usize], roles: Vec<fn(&Self)>) -> Play {
        let ends: Vec<Play> =
            self.stages.iter().zip(sections).map(|(stage, number)| stage.play(*number, *number)).collect();
        let play = Play::new(move || ends.into_iter().for_each(|play| (play.end)()));
        roles.into_iter().fold(play, |play, role| {
            let locks = Arc::clone(&self);
            play.with(move || {
                role(&locks);
                locks.leave();
            })
        })
    }
}

/// Two locks, each contended by two threads in turn, while the other takes its state.
fn by_turns<P: ModelPlatform>(make: impl Make<P>) -> Play {
    let forward = |locks: &Locks<P>| {
        locks.contend(0);
        locks.contend(1);
    };
    let backward = |locks: &Locks<P>| {
        locks.contend(1);
        locks.contend(0);
    };
    Locks::new(make, 2, 2).play(&[2, 2], vec![forward, backward])
}

/// A thread comes to an idle lock with a state while another thread takes that for its own lock, and then, perhaps, the
/// first thread takes it back.
fn arrival<P: ModelPlatform>(make: impl Make<P>) -> Play {
    let locks = Locks::new(make, 2, 2);
    locks.contend(0);
    locks.play(&[2, 1], vec![|locks| locks.contend(0), |locks| locks.contend(1)])
}

/// As [`arrival`], with two threads that come.
fn arrivals<P: ModelPlatform>(make: impl Make<P>) -> Play {
    let locks = Locks::new(make, 2, 3);
    locks.contend(0);
    let come = |locks: &Locks<P>| _ = locks.stages[0].locked();
    locks.play(&[3, 1], vec![|locks| locks.contend(1), come, come])
}

/// The state of a lock with a holder and a waiter is not taken; when they have gone it may be.
fn contended<P: ModelPlatform>(make: impl Make<P>) -> Play {
    let locks = Locks::new(make, 2, 3);
    let come = |locks: &Locks<P>| _ = locks.stages[0].locked();
    locks.play(&[2, 1], vec![come, come, |locks| locks.contend(1)])
}

/// A thread tries a free lock whose state is taken meanwhile: it does not fail. (The taker's attempt on its own lock may, while
/// the other has acquired in the state and not yet looked whose it is.)
fn attempt<P: ModelPlatform>(make: impl Make<P>) -> Play {
    let locks = Locks::new(make, 2, 2);
    locks.contend(0);
    locks.play(&[2, 1], vec![|locks| locks.attempt(0), |locks| locks.contend(1)])
}

/// As [`attempt`], with a deadline that has passed.
fn timed<P: ModelPlatform>(make: impl Make<P>) -> Play {
    let locks = Locks::new(make, 2, 2);
    locks.contend(0);
    locks.play(&[2, 1], vec![|locks| locks.timed(0), |locks| locks.contend(1)])
}

/// A lock is destroyed; another takes its state.
fn given_back<P: ModelPlatform>(make: impl Make<P>) -> Play {
    let destroy = |locks: &Locks<P>| {
        locks.contend(0);
        // SAFETY: no other thread uses it.
        unsafe { locks.stages[0].lock.dispose() };
        P::retire(&*locks.stages[0].lock);
    };
    Locks::new(make, 2, 2).play(&[1, 1], vec![destroy, |locks| locks.contend(1)])
}

/// A state goes to two other locks and comes back to its first one, which had a second one meanwhile; a thread comes to
/// that lock and may find the state by what its word was at first.
fn comes_back<P: ModelPlatform>(make: impl Make<P>) -> Play {
    let locks = Locks::new(make, 3, 2);
    locks.contend(0);
    let rotate = |locks: &Locks<P>| {
        for number in [1, 0, 2, 1, 0] {
            locks.contend(number);
        }
    };
    locks.play(&[4, 2, 1], vec![rotate, |locks| locks.contend(0)])
}

/// Pool nodes that stay at the end: three states, each with those of two nodes.
const MOST_KEPT: usize = 9;

fn scenarios_of<P: ModelPlatform>(make: impl Make<P>) -> Vec<Scenario> {
    [
        Scenario::new("by-turns", 2, move || by_turns(make)).within(1),
        Scenario::new("arrival", 2, move || arrival(make)).within(1),
        Scenario::new("arrivals", 3, move || arrivals(make)).within(1),
        Scenario::new("contended", 3, move || contended(make)).within(1),
        Scenario::new("attempt", 2, move || attempt(make)).within(1),
        Scenario::new("timed", 2, move || timed(make)).within(1),
        Scenario::new("given-back", 2, move || given_back(make)).within(1),
        Scenario::new("comes-back", 2, move || comes_back(make)).within(0),
    ]
    .into_iter()
    .map(|scenario| scenario.reclaiming(MOST_KEPT))
    .collect()
}

fn restricted<P: ModelPlatform>() -> AnyLock<P> {
    undropped::<P, _>(Gcr::<P, FutexLock<P>, Together>::with_knobs(gcr::strictest()))
}

/// Whose threads look for room more than once.
fn patiently_restricted<P: ModelPlatform>() -> AnyLock<P> {
    undropped::<P, _>(Gcr::<P, FutexLock<P>, Together>::with_knobs(gcr::patient()))
}

/// A reader-writer lock as a mutex: acquired for writing, or, by a thread that has a deadline, for reading.
struct Either<L>(L);

/// The thread that acquired it, and how, as a word that is not 0.
const WRITER: usize = 8;
const READER: usize = 16;

fn token(word: usize) -> NonNull<u64> {
    // SAFETY: it is not 0.
    unsafe { Token::from_word(word) }
}

// SAFETY: the plays have one thread for each section that is read.
unsafe impl<P: Platform, L: RawRwLock<P>> RawLock<P> for Either<L> {
    type Token = NonNull<u64>;

    fn new() -> Self {
        Self(L::new())
    }

    fn lock_fast(&self) -> Option<Self::Token> {
        self.0.lock_exclusive(None).then(|| token(WRITER))
    }

    fn try_lock(&self) -> Option<Self::Token> {
        self.0.try_lock_exclusive().then(|| token(WRITER))
    }

    fn lock_slow(&self, _wait: &Wait) -> Option<Self::Token> {
        unreachable!("lock_fast waits")
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        self.0.lock_shared(Some(deadline)).then(|| token(READER))
    }

    unsafe fn unlock(&self, token: Self::Token) {
        if token.into_word() == WRITER {
            // SAFETY: the caller is the writer.
            unsafe { self.0.unlock_exclusive() };
        } else {
            // SAFETY: the caller is a reader.
            unsafe { self.0.unlock_shared() };
        }
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    unsafe fn forget_waiters(&self, _holder: Option<Self::Token>) {
        // SAFETY: the caller's contract.
        unsafe { self.0.forget_waiters() };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.0.dispose() };
    }
}

/// GLK, each of whose holders by [`RawLock::lock`] finds a queue, and so leaves the lock with a state.
struct Queueing<P: Platform>(Glk<P>);

// SAFETY: that of GLK.
unsafe impl<P: Platform> RawLock<P> for Queueing<P> {
    type Token = ();

    fn new() -> Self {
        Self(RawLock::new())
    }

    fn lock(&self) {
        let () = self.0.lock();
        self.0.change_to_queue();
    }

    fn try_lock(&self) -> Option<()> {
        self.0.try_lock()
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.0.lock_slow(wait)
    }

    unsafe fn unlock(&self, (): ()) {
        // SAFETY: the caller's contract.
        unsafe { self.0.unlock(()) };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    unsafe fn forget_waiters(&self, holder: Option<()>) {
        // SAFETY: the caller's contract.
        unsafe { self.0.forget_waiters(holder) };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.0.dispose() };
    }
}

/// A reader-writer lock, used as a mutex.
fn either<P: ModelPlatform, L: RawRwLock<P> + 'static>() -> AnyLock<P> {
    undropped::<P, _>(Either(L::new()))
}

fn plain<P: ModelPlatform, L: RawLock<P> + 'static>() -> AnyLock<P> {
    undropped::<P, _>(L::new())
}

/// Locks that keep what they need, or what they need under contention, in memory that comes back.
#[must_use]
pub fn states<P: ModelPlatform>() -> Vec<Subject> {
    let of = |name: &str, scenarios: Vec<Scenario>| Subject { name: format!("state of {name}"), scenarios };
    let on_nodes = |scenarios: Vec<Scenario>| scenarios.into_iter().map(Scenario::on_two_nodes).collect();
    // They take many steps.
    let shallower = |scenarios: Vec<Scenario>| -> Vec<Scenario> {
        let shallower = |scenario: Scenario| match scenario.name {
            "by-turns" | "arrivals" => scenario.within(0),
            _ => scenario,
        };
        scenarios.into_iter().map(shallower).collect()
    };
    // Its waiters are patient while there are CPUs to spare.
    let cst = scenarios_of(plain::<P, Cst<P>>).into_iter().map(Scenario::overloaded).collect();
    // Each state of a lock finds that of the second node by way of a block.
    let blocks = |scenario: Scenario| scenario.keeping(3).overloaded();
    let auto = shallower(scenarios_of(plain::<P, Auto<P, 1, true>>)).into_iter().map(blocks).collect();
    // A state that was taken for a lock is looked at before it is given to that.
    let deeper = |scenarios: Vec<Scenario>| -> Vec<Scenario> {
        let deeper = |scenario: Scenario| match scenario.name {
            "arrival" | "attempt" => scenario.within(2),
            _ => scenario,
        };
        scenarios.into_iter().map(deeper).collect()
    };
    let patient = scenarios_of(patiently_restricted::<P>)
        .into_iter()
        .filter(|scenario| matches!(scenario.name, "arrival" | "by-turns"))
        .collect();
    vec![
        of("cst-mutex", on_nodes(cst)),
        of("auto, restless", on_nodes(auto)),
        of("gcr(futex)", scenarios_of(restricted::<P>)),
        of("gcr(futex), patient", patient),
        // On one node its threads share the state of that.
        of("c-tkt-mcs-park", shallower(scenarios_of(plain::<P, CTktMcs<P, Park>>))),
        of("glk", scenarios_of(plain::<P, Queueing<P>>)),
        of("hclh-park", on_nodes(scenarios_of(plain::<P, Hclh<P, Park>>))),
        of("hmcs-park, on one node", deeper(shallower(scenarios_of(plain::<P, Hmcs<P, Park>>)))),
        of("hmcs-park", on_nodes(scenarios_of(plain::<P, Hmcs<P, Park>>))),
    ]
}

/// Reader-writer locks of this kind, used as mutexes.
#[must_use]
pub fn states_of_rwlocks<P: ModelPlatform>() -> Vec<Subject> {
    let of = |name: &str, make: fn() -> AnyLock<P>| {
        // Readers and writers take many steps.
        let bounded = |scenario: Scenario| match scenario.name {
            "by-turns" | "arrivals" | "contended" => scenario.within(0),
            _ => scenario,
        };
        let scenarios = scenarios_of(make).into_iter().map(Scenario::overloaded).map(bounded).collect();
        Subject { name: format!("state of {name}"), scenarios }
    };
    vec![
        of("cst-rwsem", either::<P, CstRwsem<P>>),
        of("c-rw-rp", either::<P, CRwRp<P>>),
        of("pf-q", either::<P, PfQ<P, Park>>),
    ]
}
