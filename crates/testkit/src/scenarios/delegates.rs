//! Plays for delegates: every section adds a number of its own to a total and answers what the total was before.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use lockwork_locks::delegation::cc_synch::CcSynch;
use lockwork_locks::delegation::condition::{Condition, Seen};
use lockwork_locks::delegation::dsm_synch::DsmSynch;
use lockwork_locks::delegation::fc::Fc;
use lockwork_locks::delegation::fc_list::FcList;
use lockwork_locks::delegation::h_synch::HSynch;
use lockwork_locks::delegation::locked::Locked;
use lockwork_locks::delegation::oyama::Oyama;
use lockwork_locks::delegation::p_sim::PSim;
use lockwork_locks::delegation::posts::Posts;
use lockwork_locks::delegation::sanl::{Mode, Sanl, SanlPlus};
use lockwork_locks::delegation::served::{Manner, Served};
use lockwork_locks::delegation::{Delegate, Section, Server};
use lockwork_locks::queue::mcs::Mcs;
use lockwork_locks::wait::{Spin, SpinThenPark};
use lockwork_platform::{Clock, DataCell};

use super::{Scenario, Subject};
use crate::model::{ModelPlatform, Play};

/// A delegate without its type.
type AnyDelegate<P> = Box<dyn Delegate<P>>;

/// A delegate, the total behind it, and what was asked and answered.
struct Sum<P: ModelPlatform> {
    delegate: AnyDelegate<P>,
    /// Plain data: a checker of orderings sees here whether sections are ordered.
    total: P::Data<usize>,
    /// Threads inside a section, for checkers that see no orderings.
    inside: AtomicUsize,
    /// What each section added, and what its requester was told.
    history: Mutex<Vec<(usize, usize)>>,
    /// The threads that ran requested sections.
    executors: Mutex<Vec<u32>>,
    /// The thread that is left, once a section has forked.
    survivor: AtomicU32,
    /// What has been requested, as long as this is: a section that is run too late, as by a delegate with a weakened ordering, is to
    /// be found, and not to end the process.
    requested: Mutex<Vec<usize>>,
}

impl<P: ModelPlatform> Drop for Sum<P> {
    fn drop(&mut self) {
        let requested = self.requested.get_mut().map(std::mem::take).unwrap_or_default();
        for addition in requested {
            // SAFETY: given away by `request`; all threads have ended.
            drop(unsafe {
                Box::from_raw(std::ptr::with_exposed_provenance_mut::<Addition<'_, P>>(addition))
            });
        }
    }
}

impl<P: ModelPlatform> fmt::Debug for Sum<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sum").field("history", &self.history).finish_non_exhaustive()
    }
}

/// One request, on its requester's stack.
struct Addition<'a, P: ModelPlatform> {
    sum: &'a Sum<P>,
    number: usize,
    requester: u32,
    /// Whether the section forks.
    forks: bool,
    /// The answer; plain data, which the requester reads when its request has been served.
    before: P::Data<Option<usize>>,
}

impl<'a, P: ModelPlatform> Addition<'a, P> {
    fn new(sum: &'a Sum<P>, number: usize) -> Self {
        Self { sum, number, requester: P::thread_id(), forks: false, before: P::Data::new(None) }
    }
}

impl<P: ModelPlatform> Sum<P> {
    fn new(delegate: AnyDelegate<P>) -> Arc<Self> {
        let sum = Arc::new(Self {
            delegate,
            total: P::Data::new(0),
            inside: AtomicUsize::new(0),
            history: Mutex::new(Vec::new()),
            executors: Mutex::new(Vec::new()),
            survivor: AtomicU32::new(0),
            requested: Mutex::default(),
        });
        P::adopt(&*sum.delegate);
        sum
    }

    /// Requests that `number` be added.
    fn add(&self, number: usize) {
        self.request(Addition::new(self, number));
    }

    fn request(&self, addition: Addition<'_, P>) {
        let number = addition.number;
        let place = Box::into_raw(Box::new(addition));
        self.requested.lock().expect("no panic while it is held").push(place.expose_provenance());
        // SAFETY: alive as long as the sum is.
        let addition = unsafe { &*place };
        // SAFETY: `run` is called once with an addition that outlives the request, and does not unwind but to fail the play.
        let section = unsafe { Section::new(run::<P>, place.cast()) };
        // SAFETY: the addition is alive until this returns.
        unsafe { self.delegate.execute(section) };
        // SAFETY: the section has run, and nobody else looks at the answer.
        let before = unsafe { addition.before.get() }.expect("the section has run");
        self.history.lock().expect("no panic while it is held").push((number, before));
    }

    /// As [`Sum::add`], unless another thread executes.
    fn try_add(&self, number: usize) -> bool {
        let addition = Addition::new(self, number);
        // SAFETY: as in `add`.
        let section = unsafe { Section::new(run::<P>, (&raw const addition).cast_mut().cast()) };
        // SAFETY: as in `add`.
        let is_run = unsafe { self.delegate.try_execute(section) };
        if is_run {
            // SAFETY: as in `add`.
            let before = unsafe { addition.before.get() }.expect("the section has run");
            self.history.lock().expect("no panic while it is held").push((number, before));
        }
        is_run
    }

    /// Adds `number` with the delegate held.
    fn hold_and_add(&self, number: usize) {
        let held = self.delegate.acquire().expect("it can be held");
        assert_eq!(self.inside.fetch_add(1, Relaxed), 0, "a section while it is held");
        // SAFETY: it is held; the checker reports it if sections run.
        let before = unsafe { self.total.get() };
        P::switch();
        // SAFETY: as above.
        unsafe { self.total.set(before + number) };
        self.inside.fetch_sub(1, Relaxed);
        self.history.lock().expect("no panic while it is held").push((number, before));
        // SAFETY: acquired above.
        unsafe { self.delegate.release(held) };
    }

    /// Checks that the answers are those of some order of the sections.
    fn check(&self, sections: usize) {
        let mut history = self.history.lock().expect("all threads have ended").clone();
        assert_eq!(history.len(), sections, "{history:?}");
        history.sort_unstable_by_key(|(_, before)| *before);
        let total = history.iter().fold(0, |total, (number, before)| {
            assert_eq!(*before, total, "{history:?}");
            total + number
        });
        assert_eq!(total, (1..=sections).sum());
    }
}

unsafe fn run<P: ModelPlatform>(addition: *mut ()) {
    // SAFETY: the requester's addition, which is alive until its section has run.
    let addition = unsafe { &*addition.cast::<Addition<'_, P>>() };
    let sum = addition.sum;
    assert_eq!(sum.inside.fetch_add(1, Relaxed), 0, "two sections at once");
    let survivor = sum.survivor.load(Relaxed);
    assert!(survivor == 0 || survivor == addition.requester, "a section of a thread that is gone");
    if addition.forks {
        P::fork();
        sum.survivor.store(P::thread_id(), Relaxed);
    }
    // SAFETY: in a section; the checker reports it if others run.
    let before = unsafe { sum.total.get() };
    P::switch();
    // SAFETY: as above.
    unsafe { sum.total.set(before + addition.number) };
    sum.inside.fetch_sub(1, Relaxed);
    sum.executors.lock().expect("no panic while it is held").push(P::thread_id());
    // SAFETY: the requester reads it when its request has been served.
    unsafe { addition.before.set(Some(before)) };
}

/// `threads` threads request `sections` sections each.
fn additions<P: ModelPlatform>(delegate: AnyDelegate<P>, threads: usize, sections: usize) -> Play {
    let sum = Sum::<P>::new(delegate);
    let end = Arc::clone(&sum);
    let mut play = Play::new(move || end.check(threads * sections));
    for thread in 0..threads {
        let sum = Arc::clone(&sum);
        play = play.with(move || {
            for section in 0..sections {
                sum.add(thread * sections + section + 1);
            }
            P::switch();
        });
    }
    play
}

/// One thread holds the delegate, as a lock, and changes the total, while `others` request a section each.
fn held<P: ModelPlatform>(delegate: AnyDelegate<P>, others: usize) -> Play {
    let sum = Sum::<P>::new(delegate);
    let end = Arc::clone(&sum);
    let holder = Arc::clone(&sum);
    let mut play = Play::new(move || end.check(others + 1)).with(move || holder.hold_and_add(others + 1));
    for number in 1..=others {
        let sum = Arc::clone(&sum);
        play = play.with(move || {
            sum.add(number);
            P::switch();
        });
    }
    play
}

/// Threads request sections, of which one forks: the thread that runs it goes on with sections of its own, and those of others that have
/// not begun are not run.
fn forked<P: ModelPlatform>(delegate: AnyDelegate<P>, others: usize) -> Play {
    let sum = Sum::<P>::new(delegate);
    let mut play = Play::new(|| {});
    for thread in 0..=others {
        let sum = Arc::clone(&sum);
        play = play.with(move || {
            for section in 0..3 {
                let forks = thread == 0 && section == 1;
                sum.request(Addition { forks, ..Addition::new(&sum, 1) });
            }
            // One that was left behind ends here at the latest.
            P::switch();
            assert!(
                !sum.delegate.is_busy() || sum.survivor.load(Relaxed) != P::thread_id(),
                "nobody else is here"
            );
        });
    }
    play
}

fn scenarios<P: ModelPlatform>(make: impl Make<P>, large: bool) -> Vec<Scenario> {
    let play = |threads, sections| move || additions::<P>(make(), threads, sections);
    if large {
        return vec![
            Scenario::new("crowd", 8, play(8, 2)),
            Scenario::new("rounds", 3, play(3, 6)),
            Scenario::new("pairs", 4, play(4, 3)),
            Scenario::new("attempts", 4, move || attempts::<P>(make(), 4)),
            Scenario::new("fork", 4, move || forked::<P>(make(), 3)),
        ];
    }
    vec![
        Scenario::new("sections", 2, play(2, 2)),
        Scenario::new("sections-of-three", 3, play(3, 1)).within(1),
        Scenario::new("again", 3, play(3, 2)).within(0),
        Scenario::new("attempts", 2, move || attempts::<P>(make(), 2)).within(2),
    ]
}

/// Threads try to execute, and execute where they cannot.
fn attempts<P: ModelPlatform>(delegate: AnyDelegate<P>, threads: usize) -> Play {
    let sum = Sum::<P>::new(delegate);
    let end = Arc::clone(&sum);
    let mut play = Play::new(move || end.check(threads));
    for thread in 0..threads {
        let sum = Arc::clone(&sum);
        play = play.with(move || {
            if !sum.try_add(thread + 1) {
                sum.add(thread + 1);
            }
        });
    }
    play
}

/// A server, and a sum that it is to serve.
fn open_server<P: ModelPlatform, const FFWD: bool>() -> (&'static Server<P>, Arc<Sum<P>>) {
    let manner = if FFWD { Manner::Ffwd } else { Manner::Rcl };
    // As long as requesters may look at it, which no end of theirs says.
    let server: &'static Server<P> = Box::leak(Box::new(Server::new(manner, |_, _| false)));
    server.open();
    let delegate = Served::<P, FFWD>::new();
    delegate.seat().expect("it needs a server").give(server);
    (server, Sum::new(Box::new(delegate)))
}

/// A server's thread beside those that request; the last of these stops it. Unless it stops `early`, or a checker may keep a thread
/// from running for long (`is_fair`), the server runs every section: requesters whose wake-up is lost would have run theirs
/// themselves.
fn served<P: ModelPlatform, const FFWD: bool>(
    threads: usize,
    sections: usize,
    early: bool,
    is_fair: bool,
) -> Play {
    let (server, sum) = open_server::<P, FFWD>();
    let end = Arc::clone(&sum);
    let left = Arc::new(AtomicUsize::new(threads));
    let mut play = Play::new(move || {
        end.check(threads * sections);
        let executors = end.executors.lock().expect("all threads have ended");
        let is_server = |thread: &u32| *thread as usize == threads + 1;
        assert!(early || !is_fair || executors.iter().all(is_server), "run by {executors:?}");
    });
    for thread in 0..threads {
        let (sum, left) = (Arc::clone(&sum), Arc::clone(&left));
        play = play.with(move || {
            for section in 0..sections {
                sum.add(thread * sections + section + 1);
            }
            assert!(early || !is_fair || P::now(Clock::Monotonic) == 0, "it has slept until a deadline");
            if left.fetch_sub(1, Relaxed) == if early { threads } else { 1 } {
                server.stop();
            }
        });
    }
    play.with(move || server.serve(server.turn()))
}

/// A server stops while a thread leaves a request: it is run at once, by the server or by its requester, which does not sleep until it
/// looks at the server.
fn stopped<P: ModelPlatform, const FFWD: bool>(requesters: usize) -> Play {
    let (server, sum) = open_server::<P, FFWD>();
    let end = Arc::clone(&sum);
    let mut play = Play::new(move || end.check(requesters));
    for thread in 0..requesters {
        let sum = Arc::clone(&sum);
        play = play.with(move || {
            sum.add(thread + 1);
            assert_eq!(P::now(Clock::Monotonic), 0, "it has slept until a deadline");
        });
    }
    play.with(move || server.stop()).with(move || server.serve(server.turn()))
}

/// A server stops and starts while threads request: the new servicing thread takes the place of one that looks at requests, or runs one, and
/// requesters take theirs back. The last to have done its part stops the server.
fn restarted<P: ModelPlatform, const FFWD: bool>(threads: usize, sections: usize) -> Play {
    let (server, sum) = open_server::<P, FFWD>();
    let end = Arc::clone(&sum);
    let left = Arc::new(AtomicUsize::new(threads + 1));
    let stops_last = |left: &AtomicUsize| {
        if left.fetch_sub(1, Relaxed) == 1 {
            server.stop();
        }
    };
    let mut play = Play::new(move || end.check(threads * sections));
    for thread in 0..threads {
        let (sum, left) = (Arc::clone(&sum), Arc::clone(&left));
        play = play.with(move || {
            for section in 0..sections {
                sum.add(thread * sections + section + 1);
            }
            stops_last(&left);
        });
    }
    let first = server.turn();
    play.with(move || server.serve(first)).with(move || {
        server.stop();
        server.open();
        let second = server.turn();
        stops_last(&left);
        server.serve(second);
    })
}

fn served_scenarios<P: ModelPlatform, const FFWD: bool>(large: bool) -> Vec<Scenario> {
    let play = |threads, sections, early| move || served::<P, FFWD>(threads, sections, early, !large);
    let all = if large {
        vec![
            Scenario::new("crowd", 7, play(6, 2, false)),
            Scenario::new("rounds", 4, play(3, 4, false)),
            Scenario::new("stopped", 5, play(4, 2, true)),
            Scenario::new("restarted", 5, || restarted::<P, FFWD>(3, 2)),
        ]
    } else {
        vec![
            Scenario::new("one", 2, play(1, 1, false)).within(2),
            Scenario::new("one-twice", 2, play(1, 2, false)).within(1),
            Scenario::new("two", 3, play(2, 1, false)).within(0),
            Scenario::new("stopped", 3, play(2, 1, true)).within(0),
            Scenario::new("stops-meanwhile", 3, || stopped::<P, FFWD>(1)).within(2),
            Scenario::new("restarted", 3, || restarted::<P, FFWD>(1, 1)).within(1),
            Scenario::new("restarted-twice", 3, || restarted::<P, FFWD>(1, 2)).within(0),
            Scenario::new("restarted-two", 4, || restarted::<P, FFWD>(2, 1)).within(0),
        ]
    };
    // Its lines.
    all.into_iter().map(|scenario| scenario.keeping(2)).collect()
}

/// Threads post additions, and request some.
fn posted<P: ModelPlatform>(delegate: AnyDelegate<P>, posters: usize, requesters: usize) -> Play {
    let sum = Sum::<P>::new(delegate);
    let posts = Arc::new(Posts::<P>::none());
    P::adopt(&*posts);
    let end = Arc::clone(&sum);
    let mut play = Play::new(move || end.check(posters + requesters));
    for thread in 0..posters + requesters {
        let (sum, posts) = (Arc::clone(&sum), Arc::clone(&posts));
        play = play.with(move || {
            if thread < posters {
                let addition = Box::new((Arc::clone(&sum), thread + 1));
                // SAFETY: called once, with what this gives away.
                let section = unsafe { Section::new(run_post::<P>, Box::into_raw(addition).cast()) };
                // SAFETY: it owns what it points to, and the delegate lives until the play ends.
                unsafe { posts.post(section, &*sum.delegate) };
            } else {
                sum.add(thread + 1);
                posts.settle(&*sum.delegate);
            }
        });
    }
    play
}

unsafe fn run_post<P: ModelPlatform>(addition: *mut ()) {
    // SAFETY: given away by the thread that posted.
    let (sum, number) = *unsafe { Box::from_raw(addition.cast::<(Arc<Sum<P>>, usize)>()) };
    // SAFETY: in a section.
    let before = unsafe { sum.total.get() };
    P::switch();
    // SAFETY: as above.
    unsafe { sum.total.set(before + number) };
    sum.history.lock().expect("no panic while it is held").push((number, before));
}

/// A thread waits until the others have added something.
fn awaited<P: ModelPlatform>(delegate: AnyDelegate<P>, others: usize) -> Play {
    let sum = Sum::<P>::new(delegate);
    let condition = Arc::new(Condition::<P>::new());
    P::adopt(&*condition);
    let end = Arc::clone(&sum);
    let mut play = Play::new(move || end.check(others));
    for thread in 0..=others {
        let (sum, condition) = (Arc::clone(&sum), Arc::clone(&condition));
        play = play.with(move || {
            if thread < others {
                sum.add(thread + 1);
                condition.signal();
                return;
            }
            loop {
                let look = Look { sum: &sum, condition: &condition, seen: P::Data::new(None) };
                // SAFETY: as in `Sum::add`.
                let section = unsafe { Section::new(run_look::<P>, (&raw const look).cast_mut().cast()) };
                // SAFETY: as there.
                unsafe { sum.delegate.execute(section) };
                // SAFETY: as there.
                match unsafe { look.seen.get() } {
                    Some(seen) => condition.wait(seen, None).expect("no deadline"),
                    None => return,
                }
            }
        });
    }
    play
}

/// A section that looks whether everything has been added.
struct Look<'a, P: ModelPlatform> {
    sum: &'a Sum<P>,
    condition: &'a Condition<P>,
    seen: P::Data<Option<Seen>>,
}

unsafe fn run_look<P: ModelPlatform>(look: *mut ()) {
    // SAFETY: the requester's, which waits.
    let look = unsafe { &*look.cast::<Look<'_, P>>() };
    // SAFETY: in a section.
    let total = unsafe { look.sum.total.get() };
    // SAFETY: the requester reads it when its request has been served.
    unsafe { look.seen.set((total == 0).then(|| look.condition.seen())) };
}

fn subject<P: ModelPlatform, D: Delegate<P> + 'static>(name: &str, large: bool) -> Subject {
    made::<P>(name, large, 0, || Box::new(D::new()))
}

/// What makes a delegate.
trait Make<P: ModelPlatform>: Fn() -> AnyDelegate<P> + Copy + Send + Sync + 'static {}

impl<P: ModelPlatform, F: Fn() -> AnyDelegate<P> + Copy + Send + Sync + 'static> Make<P> for F {}

/// A subject whose delegate keeps up to so many nodes.
fn made<P: ModelPlatform>(name: &str, large: bool, keeps: usize, make: impl Make<P>) -> Subject {
    let scenarios = scenarios::<P>(make, large);
    Subject {
        name: name.to_owned(),
        scenarios: scenarios
            .into_iter()
            // What threads that are gone had in their hands is not returned.
            .map(|scenario| {
                let lost = if scenario.name == "fork" { 8 } else { 0 };
                scenario.keeping(keeps + lost)
            })
            .collect(),
    }
}

/// With plays of threads that hold it, besides those that request sections.
fn holdable<P: ModelPlatform>(mut subject: Subject, large: bool, make: impl Make<P>) -> Subject {
    let more = usize::from(large) * 2;
    subject.scenarios.extend([
        Scenario::new("held", 2 + more, move || held::<P>(make(), 1 + more)).keeping(2),
        Scenario::new("held-of-three", 3 + more, move || held::<P>(make(), 2 + more)).within(1).keeping(2),
    ]);
    subject
}

fn beside<P: ModelPlatform>(large: bool) -> Vec<Subject> {
    let cc_synch = || -> AnyDelegate<P> { Box::new(CcSynch::<P, SpinThenPark>::new()) };
    let locked = || -> AnyDelegate<P> { Box::new(Locked::<P, Mcs<P, SpinThenPark>>::new()) };
    let (posters, requesters) = if large { (3, 3) } else { (1, 1) };
    let more = usize::from(large) * 3;
    let named = |name: &str, scenarios| Subject { name: name.to_owned(), scenarios };
    vec![
        named(
            "posts",
            vec![
                Scenario::new("beside-cc-synch", posters + requesters, move || {
                    posted::<P>(cc_synch(), posters, requesters)
                })
                .within(2),
                Scenario::new("beside-locked", posters + requesters, move || {
                    posted::<P>(locked(), posters, requesters)
                })
                .within(2),
                Scenario::new("posts-only", 2 + more, move || posted::<P>(locked(), 2 + more, 0)).within(2),
                Scenario::new("two-posts", 3 + more, move || posted::<P>(locked(), 2, 1 + more)).within(1),
            ],
        ),
        named(
            "delegated condition",
            vec![Scenario::new("waits", 2 + more, move || awaited::<P>(cc_synch(), 1 + more)).within(2)],
        ),
    ]
}

/// The scenarios of all delegates. Those named `two` serve no more than two requests at a time, so that the role of the
/// combiner is handed over among few threads.
#[must_use]
pub fn delegates<P: ModelPlatform>(large: bool) -> Vec<Subject> {
    let of_server = |name: &str, scenarios| Subject { name: name.to_owned(), scenarios };
    let mut all = vec![
        subject::<P, CcSynch<P, Spin>>("cc-synch-spin", large),
        subject::<P, CcSynch<P, SpinThenPark>>("cc-synch-stp", large),
        subject::<P, CcSynch<P, SpinThenPark, 2>>("cc-synch-stp, two", large),
        subject::<P, DsmSynch<P, Spin>>("dsm-synch-spin", large),
        subject::<P, DsmSynch<P, SpinThenPark>>("dsm-synch-stp", large),
        subject::<P, DsmSynch<P, SpinThenPark, 2>>("dsm-synch-stp, two", large),
        subject::<P, Oyama<P, Spin>>("oyama-spin", large),
        subject::<P, Oyama<P, SpinThenPark>>("oyama-stp", large),
        subject::<P, Oyama<P, SpinThenPark, 2>>("oyama-stp, two", large),
        subject::<P, Locked<P, Mcs<P, SpinThenPark>>>("locked(mcs-stp)", large),
        made::<P>("p-sim", large, 1, || Box::new(PSim::<P>::new())),
        made::<P>("p-sim, one a group", large, 8, || Box::new(PSim::<P, 1>::new())),
        holdable(made::<P>("fc", large, 2, || Box::new(Fc::<P>::new())), large, || Box::new(Fc::<P>::new())),
        made::<P>("fc-list", large, 2, || Box::new(FcList::<P>::new())),
        made::<P>("fc-list, removing at once", large, 2, || Box::new(FcList::<P, 1>::new())),
        on_two_nodes(made::<P>("h-synch-stp", large, 1, || Box::new(HSynch::<P, SpinThenPark>::new()))),
        made::<P>("sanl", large, 2, || Box::new(Sanl::<P>::in_mode(Mode::Mixed))),
        fewer(made::<P>("sanl, delegating", large, 2, || Box::new(Sanl::<P>::in_mode(Mode::Delegated)))),
        of_server("rcl", served_scenarios::<P, false>(large)),
        of_server("ffwd", served_scenarios::<P, true>(large)),
    ];
    all.extend(beside::<P>(large));
    if large {
        let make = || -> AnyDelegate<P> { Box::new(SanlPlus::<P>::in_mode(Mode::Mixed)) };
        all.push(made::<P>("sanl-plus", large, 4, make));
    }
    all
}

/// A server of SANL takes many steps. A requester that comes again to it has more than five minutes of executions, which the
/// mixed mode plays; the others have minutes of them with as many involuntary switches as other delegates.
fn fewer(subject: Subject) -> Subject {
    let others = subject.scenarios.into_iter().filter(|scenario| scenario.name != "again");
    let shallower = |scenario: Scenario| {
        let preemptions = scenario.preemptions.saturating_sub(1);
        scenario.within(preemptions)
    };
    Subject { scenarios: others.map(shallower).collect(), ..subject }
}

fn on_two_nodes(subject: Subject) -> Subject {
    let scenarios = subject.scenarios.into_iter().map(Scenario::on_two_nodes).collect();
    Subject { scenarios, ..subject }
}
