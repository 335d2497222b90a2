//! Servers: threads of their own that run the sections of the delegates given to them. `rcl` and `ffwd` differ in when they
//! answer, and in what becomes of a section that blocks.
//!
//! A server is a list of lines ([`lines`](super::lines)) and a turn: the thread that has it scans the lines and runs what
//! it finds. The library above starts the thread, by [`Server::serve`], and says how another one is had.
//!
//! # State
//!
//! | state     | meaning                                                        | who moves it there       |
//! |-----------|----------------------------------------------------------------|--------------------------|
//! | `STOPPED` | no thread serves: requesters run their sections in place       | `stop`, `after_fork`     |
//! | `AWAKE`   | a thread scans, or is about to                                 | `start`, a requester     |
//! | `ASLEEP`  | the thread found nothing for a while; it sleeps, or is about to | the thread               |
//!
//! The thread adds its turn to `ASLEEP`: one that has been relieved takes no other's sleep for its own, and returns. A relieved
//! thread may have said so last, before it was relieved or since; the thread that has the turn puts its own sleep in place of
//! that.
//!
//! # Invariants
//!
//! - I1: a section is run by a thread that holds its delegate's `lock` and has taken the request, or whose request it is.
//!   So there may be several servicing threads, and requesters that do without.
//! - I2: a thread whose number is not `turn` any more serves nobody once its section has ended: another one has relieved it.
//! - I3: a request that is left while the server falls asleep, or stops, is seen by the server, which looks once more, or its
//!   requester sees that, and wakes the server or runs the section itself. A barrier on both sides, of which the requester's
//!   costs nothing.
//! - I4: a requester that sleeps looks at the server now and then. If nobody has begun its section, and the server
//!   has not run any since the last look, a section blocks (or the server has no CPU): the requester has another thread take the
//!   turn, or, where there is none, takes its request back and runs the section itself. No thread has to watch. Another
//!   thread does not help while the delegate's lock is held, and none is needed for a server that sleeps: it is woken first.
//! - I5: of the threads of a server that is not stopped, only the one that has the turn sleeps or scans for long: one that says
//!   that it sleeps where another one did wakes that one, which looks whether it has the turn.
//!
//! # Ordering
//!
//! - E1: the delegate's lock orders its sections. The lines' edges order requester and executor.

use core::sync::atomic::Ordering::Relaxed;
use core::{fmt, ptr};

use lockwork_platform::{AtomicCell, AtomicInt, FutexCell, Platform};

use super::lines::{Line, Lines};
use super::pace::Pace;
use super::{Apart, Attempt, Delegate, Section, acquire_inside, known_by, lock_inside, release_held};
use crate::api::{Held, RawLock};
use crate::blocking::futex::FutexLock;
use crate::knobs::Knobs;
use crate::wait::{Patience, Wait, pauses_before_sleep};

const STOPPED: u32 = 0;
const AWAKE: u32 = 1;
const ASLEEP: u32 = 2;

/// Of a state, what the table says; above it is the turn of the thread that sleeps.
const WHAT: u32 = 3;

/// How long a requester sleeps before it looks whether its server makes progress: a few time slices.
const LOOK_NS: u64 = 5_000_000;

/// Budgets of spinning that a server looks for requests before it sleeps.
const IDLE_BUDGETS: u32 = 4;

/// How a server works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Answers at once; another thread takes over when a section blocks.
    Rcl,
    /// Answers the requests of a page of lines together, as far as they are for one delegate. There is one thread: requesters run
    /// their sections themselves while it is held up.
    Ffwd,
}

/// How a server gets another servicing thread, which is to call [`Server::serve`] with this turn. `false`: it does not.
pub type Hire<P> = fn(server: &'static Server<P>, turn: u32) -> bool;

/// A server. It is never freed: threads may come to it at any time.
#[derive(Debug)]
pub struct Server<P: Platform> {
    /// See the table. Written by requesters only to wake it.
    state: P::Futex,
    /// The number of the servicing thread (I2).
    turn: P::U32,
    lines: Lines<P>,
    manner: Manner,
    /// The real-time priority of its threads; 0 = none.
    priority: u32,
    hire: Hire<P>,
    /// What has been counted. Written by the thread that has the turn, nearly always, at every request: apart from what
    /// requesters read.
    counts: Apart<[P::Usize; 3]>,
}

/// What a server has done (Lozi et al., section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Scans in which there was at least one request.
    pub scans: usize,
    /// Requests that were run.
    pub served: usize,
    /// Of the scans, those that found requests for more than one delegate (Lozi et al.: false serialisation).
    pub mixed: usize,
}

impl Measures {
    /// The share of the scans that found requests which found them for more than one delegate: how much of the time threads
    /// wait for sections that have nothing to do with theirs.
    #[must_use]
    pub fn false_serialisation(&self) -> f64 {
        share(self.mixed, self.scans)
    }

    /// Requests that a scan found which found any, as a share of the `clients` that there are: 1 = all of them waited.
    #[must_use]
    pub fn use_rate(&self, clients: usize) -> f64 {
        share(self.served, self.scans.saturating_mul(clients))
    }

    /// What both have done.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            scans: self.scans.wrapping_add(other.scans),
            served: self.served.wrapping_add(other.served),
            mixed: self.mixed.wrapping_add(other.mixed),
        }
    }

    /// What has been done since `before`.
    #[must_use]
    pub fn since(&self, before: Self) -> Self {
        Self {
            scans: self.scans.wrapping_sub(before.scans),
            served: self.served.wrapping_sub(before.served),
            mixed: self.mixed.wrapping_sub(before.mixed),
        }
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

const SCANS: usize = 0;
const SERVED: usize = 1;
const MIXED: usize = 2;

/// What a thread says that sleeps in this turn.
const fn asleep(turn: u32) -> u32 {
    ASLEEP | turn << WHAT.count_ones()
}

impl<P: Platform> Server<P> {
    /// A server that is stopped.
    #[must_use]
    pub fn new(manner: Manner, hire: Hire<P>) -> Self {
        Self::with_priority(manner, 0, hire)
    }

    /// A server that is stopped, whose threads are to have a real-time priority; 0 = none.
    #[must_use]
    pub fn with_priority(manner: Manner, priority: u32, hire: Hire<P>) -> Self {
        Self {
            state: P::Futex::new(STOPPED),
            turn: P::U32::new(0),
            lines: Lines::none(),
            manner,
            priority,
            hire,
            counts: Apart(core::array::from_fn(|_| P::Usize::new(0))),
        }
    }

    /// How it works.
    #[must_use]
    pub fn manner(&self) -> Manner {
        self.manner
    }

    /// The real-time priority that its threads are to have; 0 = none.
    #[must_use]
    pub fn priority(&self) -> u32 {
        self.priority
    }

    /// Whether it serves.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state.load(Relaxed) != STOPPED
    }

    /// Has a thread serve, unless one does. `false`: there is none to be had.
    pub fn start(&'static self) -> bool {
        let Some(turn) = self.new_turn() else { return true };
        let is_hired = (self.hire)(self, turn);
        if !is_hired {
            self.stop();
        }
        is_hired
    }

    /// Lets requesters leave requests from now on: the caller sees to it that a thread calls [`Server::serve`] with
    /// [`Server::turn`]. `true`: they did so before, and one does.
    pub fn open(&self) -> bool {
        self.new_turn().is_none()
    }

    /// Lets requesters leave requests for the thread of a new turn; `None`: they do so already. Threads that have not returned
    /// since the server stopped have another turn, and do.
    fn new_turn(&self) -> Option<u32> {
        self.state.compare_exchange(STOPPED, AWAKE, Relaxed, Relaxed).ok()?;
        Some(self.turn.fetch_add(1, Relaxed).wrapping_add(1))
    }

    /// The turn of the thread that is to serve.
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.turn.load(Relaxed)
    }

    /// Ends to serve: requests that have been left are run, later ones in place. Servicing threads return, sooner or later.
    pub fn stop(&self) {
        // The turn stays: the thread that has it looks for what has been left, for the last time, when it sees that the server
        // has stopped.
        self.state.swap(STOPPED, Relaxed); // ORDER: the barrier of `serve`.
        self.wake_all();
    }

    /// In a child after `fork`, where there are no servicing threads: requests of other threads are forgotten. The thread that
    /// forked may wait for one of its own, if a signal handler did: it takes that back when it finds that the server has stopped.
    ///
    /// # Safety
    ///
    /// No other thread exists.
    pub unsafe fn after_fork(&self) {
        self.state.store(STOPPED, Relaxed); // ORDER: one thread.
        let own = P::thread_id();
        self.lines.each_numbered(|number, line| {
            if number == own {
                // SAFETY: the request of this very thread, which is not answered.
                let runs = |target| unsafe { Self::lock(target) }.is_locked();
                // SAFETY: the caller's contract.
                unsafe { line.give_back(runs) };
            } else {
                line.forget();
            }
        });
    }

    /// What it has done so far.
    #[must_use]
    pub fn measures(&self) -> Measures {
        let count = |which: usize| self.counts.0[which].load(Relaxed);
        Measures { scans: count(SCANS), served: count(SERVED), mixed: count(MIXED) }
    }

    fn count(&self, which: usize, more: usize) {
        // ORDER: a hint, and a statistic: two threads that count at once may lose one.
        self.counts.0[which].store(self.counts.0[which].load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Serves until the server stops, or another thread takes the turn.
    pub fn serve(&self, turn: u32) {
        let mut left = Self::idle_budget();
        let mut patience = Patience::brief::<P>();
        let mut pace = Pace::new();
        loop {
            if self.state.load(Relaxed) == STOPPED {
                P::heavy_barrier(); // ORDER: I3, as the server stops.
                self.scan(turn);
                return;
            }
            if self.turn.load(Relaxed) != turn {
                return;
            }
            if self.scan(turn) {
                left = Self::idle_budget();
                patience = Patience::brief::<P>();
                pace.step::<P>();
                continue;
            }
            if left > 0 {
                left = left.saturating_sub(patience.pause_within::<P>(left));
                continue;
            }
            self.sleep(turn);
            left = Self::idle_budget();
        }
    }

    fn idle_budget() -> u32 {
        pauses_before_sleep::<P>().saturating_mul(IDLE_BUDGETS)
    }

    #[cold]
    fn sleep(&self, turn: u32) {
        let asleep = asleep(turn);
        let mut seen = self.state.load(Relaxed);
        loop {
            if seen == STOPPED {
                return;
            }
            match self.state.compare_exchange(seen, asleep, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(other) => seen = other,
            }
        }
        if seen != AWAKE {
            self.wake_all(); // I5: another thread sleeps, which has been relieved, or has relieved this one.
        }
        P::heavy_barrier(); // ORDER: I3.
        // A thread that was relieved before it said that it sleeps leaves no such word behind: the one that has the turn may be
        // awake.
        if self.scan(turn) || self.turn.load(Relaxed) != turn {
            // A thread that wakes it meanwhile does the same.
            let _ = self.state.compare_exchange(asleep, AWAKE, Relaxed, Relaxed);
            return;
        }
        while self.state.load(Relaxed) == asleep {
            let _ = self.state.wait(asleep, None);
        }
    }

    /// By a requester that has left a request.
    #[inline(always)]
    fn rouse(&self) -> bool {
        P::light_barrier(); // ORDER: I3.
        match self.state.load(Relaxed) {
            AWAKE => true,
            state => self.rouse_slow(state),
        }
    }

    #[cold]
    fn rouse_slow(&self, state: u32) -> bool {
        if state & WHAT == ASLEEP && self.state.compare_exchange(state, AWAKE, Relaxed, Relaxed).is_ok() {
            self.wake_all();
        }
        self.state.load(Relaxed) != STOPPED
    }

    /// All that sleep: one that has been relieved may be among them.
    fn wake_all(&self) {
        // SAFETY: the server is alive.
        unsafe { FutexCell::wake(&raw const self.state, u32::MAX) };
    }

    /// Looks at every line once, and runs what is there. Whether there was anything.
    fn scan(&self, turn: u32) -> bool {
        let (mut served, mut target, mut is_mixed) = (0, 0, false);
        self.lines.each_page(|lines| {
            let mut unanswered: u32 = 0;
            for (index, line) in lines.iter().enumerate() {
                if !line.take() {
                    continue;
                }
                // SAFETY: taken.
                let its = unsafe { line.target() };
                let is_another = target != 0 && target != its;
                if is_another {
                    // The section may wait for what a requester of another delegate does once it has its answer.
                    Self::answer(lines, &mut unanswered);
                }
                is_mixed |= is_another;
                target = its;
                // SAFETY: the delegate is alive until its request is answered.
                if !unsafe { self.run(line, its) } {
                    line.put_back();
                    continue;
                }
                served += 1;
                match self.manner {
                    Manner::Ffwd => unanswered |= 1 << index,
                    Manner::Rcl => line.finish(),
                }
            }
            Self::answer(lines, &mut unanswered);
        });
        if target != 0 && self.turn.load(Relaxed) == turn {
            self.count(SCANS, 1);
            self.count(MIXED, usize::from(is_mixed));
        }
        served > 0
    }

    /// Answers those of the lines that have been run and not answered.
    fn answer(lines: &[Line<P>], unanswered: &mut u32) {
        while *unanswered != 0 {
            lines[unanswered.trailing_zeros() as usize].finish();
            *unanswered &= *unanswered - 1;
        }
    }

    /// The lock of the delegate that a request is for.
    ///
    /// # Safety
    ///
    /// The request has not been answered.
    unsafe fn lock<'a>(target: usize) -> &'a FutexLock<P> {
        // SAFETY: the address was exposed by the requester, whose delegate is alive.
        unsafe { &*ptr::with_exposed_provenance::<FutexLock<P>>(target) }
    }

    /// Runs a request that this thread has taken, unless its delegate's lock is held.
    unsafe fn run(&self, line: &Line<P>, target: usize) -> bool {
        // SAFETY: the caller's contract.
        let lock = unsafe { Self::lock(target) };
        let Some(token) = lock.try_lock() else { return false };
        // SAFETY: I1.
        unsafe { line.run_taken() };
        // SAFETY: acquired above.
        unsafe { lock.unlock(token) };
        self.count(SERVED, 1);
        true
    }

    /// Whether a request will be run although the thread that has the turn does not go on (I4). `is_held`: its delegate's lock is
    /// held. `false`: there is no other thread, and will be none.
    #[cold]
    fn goes_on(&'static self, turn: u32, is_held: bool) -> bool {
        let is_asleep = self.state.load(Relaxed) & WHAT == ASLEEP;
        match self.manner {
            // A requester may as well wait for the lock itself.
            Manner::Ffwd if is_held => false,
            // Another thread would find the same. The thread that holds the lock runs a section, which may block; if it does so
            // for the server it goes on with the requests, and else a later look wakes the server.
            Manner::Rcl if is_held => true,
            _ if is_asleep => self.rouse(),
            _ => self.is_relieved(turn),
        }
    }

    /// Has another thread take the turn from one that does not go on (I4). `false`: there is none, and will be none.
    #[cold]
    fn is_relieved(&'static self, turn: u32) -> bool {
        if self.manner == Manner::Ffwd {
            return false;
        }
        let next = turn.wrapping_add(1);
        if self.turn.compare_exchange(turn, next, Relaxed, Relaxed).is_err() {
            return true;
        }
        let is_hired = (self.hire)(self, next);
        if !is_hired {
            let _ = self.turn.compare_exchange(next, turn, Relaxed, Relaxed);
        }
        is_hired
    }
}

/// A delegate whose sections a server runs, or, while it has none that serves, its requesters.
#[repr(C)]
#[derive(Debug)]
pub struct Served<P: Platform, const FFWD: bool> {
    /// Held while a section runs (I1). First: servers know the delegate by its address.
    lock: FutexLock<P>,
    /// Requesters read this: it is apart from the lock, which the server writes at every request.
    place: Apart<Place<P>>,
}

/// Where the sections of a delegate run.
struct Place<P: Platform> {
    /// Servers that the delegate is to be distributed over, as its spec says; 0 = 1.
    servers: P::U32,
    /// Which of them, from 1; 0 = by turns.
    number: P::U32,
    /// Of the servers' threads; 0 = none.
    priority: P::U32,
    server: P::Ptr<Server<P>>,
}

impl<P: Platform> fmt::Debug for Place<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("server", &self.server.load(Relaxed)).finish_non_exhaustive()
    }
}

/// The place of a server in a delegate that needs one.
#[derive(Debug)]
pub struct Seat<'a, P: Platform> {
    server: &'a P::Ptr<Server<P>>,
    /// How the server is to work.
    pub manner: Manner,
    /// Over how many servers the delegates of this kind are to be distributed.
    pub servers: u32,
    /// Which server it is to be, from 1, if the spec says so.
    pub number: Option<u32>,
    /// The real-time priority of the server's threads, if the spec says one.
    pub priority: Option<u32>,
}

impl<P: Platform> Seat<'_, P> {
    /// Has `server` run the sections from now on. Before the delegate is shared.
    pub fn give(&self, server: &'static Server<P>) {
        // ORDER: before the delegate is shared, which orders this.
        self.server.store(ptr::from_ref(server).cast_mut(), Relaxed);
    }
}

impl<P: Platform, const FFWD: bool> Served<P, FFWD> {
    const MANNER: Manner = if FFWD { Manner::Ffwd } else { Manner::Rcl };

    unsafe fn run_in_place(&self, section: Section) {
        lock_inside::<P, _>(&self.lock);
        // SAFETY: I1.
        unsafe { section.run() };
        // SAFETY: acquired above.
        unsafe { self.lock.unlock(()) };
    }

    fn server(&self) -> Option<&'static Server<P>> {
        // SAFETY: null, or given by `Seat::give`, before the delegate was shared.
        unsafe { self.place.0.server.load(Relaxed).as_ref() }
    }

    /// Leaves a request with the server, and waits for the answer.
    unsafe fn request(&self, server: &'static Server<P>, line: &Line<P>, section: Section) {
        let target = ptr::from_ref(&self.lock).expose_provenance();
        // SAFETY: the calling thread's line, and it waits below.
        unsafe { line.request(section, target) };
        let is_served = (server.rouse() || !line.withdraw()) && {
            let mut before = None;
            line.wait_for_server(LOOK_NS, || {
                let now = (server.turn(), server.counts.0[SERVED].load(Relaxed));
                let is_stuck = before.replace(now) == Some(now);
                !server.is_running() || is_stuck && !server.goes_on(now.0, self.lock.is_locked())
            })
        };
        if !is_served {
            // SAFETY: nobody has run it, and nobody will: it was taken back (I3, I4).
            unsafe { self.run_in_place(section) };
        }
    }
}

// SAFETY: I1: sections run under `lock`, each by the one thread that took it or whose it is; E1 and the lines' edges.
unsafe impl<P: Platform, const FFWD: bool> Delegate<P> for Served<P, FFWD> {
    fn new() -> Self {
        let none = || P::U32::new(0);
        let place =
            Place { servers: none(), number: none(), priority: none(), server: P::Ptr::new(ptr::null_mut()) };
        Self { lock: FutexLock::new(), place: Apart(place) }
    }

    fn configure(&self, knobs: &Knobs) {
        // ORDER: before the first use.
        self.place.0.servers.store(knobs.servers.unwrap_or(0), Relaxed);
        self.place.0.number.store(knobs.server.unwrap_or(0), Relaxed);
        self.place.0.priority.store(knobs.priority.unwrap_or(0), Relaxed);
    }

    fn seat(&self) -> Option<Seat<'_, P>> {
        let place = &self.place.0;
        let given = |knob: &P::U32| Some(knob.load(Relaxed)).filter(|value| *value > 0);
        Some(Seat {
            server: &place.server,
            manner: Self::MANNER,
            servers: given(&place.servers).unwrap_or(1),
            number: given(&place.number),
            priority: given(&place.priority),
        })
    }

    unsafe fn execute(&self, section: Section) {
        let server = self.server().filter(|server| server.is_running());
        let line = |server: &'static Server<P>| server.lines.own().filter(|line| !line.is_left_over());
        match server.and_then(|server| Some((server, line(server)?))) {
            Some((server, line)) => {
                Wait::run::<P, _>(known_by(self), None, |_| {
                    // SAFETY: the caller's contract.
                    unsafe { self.request(server, line, section) };
                });
            }
            // SAFETY: as above.
            None => unsafe { self.run_in_place(section) },
        }
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        let Some(token) = self.lock.try_lock() else { return false };
        // SAFETY: I1.
        unsafe { section.run() };
        // SAFETY: acquired above.
        unsafe { self.lock.unlock(token) };
        true
    }

    unsafe fn execute_nested(&self, section: Section) {
        // SAFETY: the caller's contract.
        unsafe { self.run_in_place(section) };
    }

    fn acquire(&self) -> Option<Held> {
        Some(acquire_inside::<P, _>(&self.lock))
    }

    fn try_acquire(&self) -> Attempt {
        Attempt::by::<P, _>(self.lock.try_lock())
    }

    unsafe fn release(&self, held: Held) {
        // SAFETY: the caller's contract.
        unsafe { release_held::<P, _>(&self.lock, held) };
    }

    fn is_busy(&self) -> bool {
        self.lock.is_locked()
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.lock.dispose() };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::boxed::Box;
    use std::sync::Barrier;
    use std::thread;
    use std::time::{Duration, Instant};

    use lockwork_platform::{Cells, Native, Sched as _};

    use super::*;

    /// A server for which no thread is to be had.
    fn server(manner: Manner) -> &'static Server<Native> {
        Box::leak(Box::new(Server::new(manner, |_, _| false)))
    }

    /// The thread that has the turn falls asleep although the one before it says that it sleeps, and ends that one.
    #[test]
    fn the_thread_that_has_the_turn_sleeps_in_place_of_another_one() {
        let server = server(Manner::Rcl);
        server.open();
        let old = thread::spawn(|| server.serve(1));
        while server.state.load(Relaxed) != asleep(1) {
            thread::yield_now();
        }
        server.turn.store(2, Relaxed);
        let new = thread::spawn(|| server.serve(2));
        // A thread that spins instead never gets so far, and the test never ends.
        while server.state.load(Relaxed) != asleep(2) {
            thread::yield_now();
        }
        old.join().expect("it has been relieved");
        server.stop();
        new.join().expect("the server has stopped");
    }

    /// A thread that was relieved before it says that it sleeps does not, whoever is awake or asleep.
    #[test]
    fn a_relieved_thread_does_not_sleep() {
        let server = server(Manner::Rcl);
        server.open();
        server.turn.store(2, Relaxed);
        for state in [AWAKE, asleep(2)] {
            server.state.store(state, Relaxed);
            server.sleep(1);
            assert_eq!(server.state.load(Relaxed), AWAKE);
        }
        server.stop();
        server.sleep(1);
        assert!(!server.is_running());
    }

    type Word = <Native as Cells>::U32;

    /// What a section waits for, and whether it did so in vain.
    struct Awaited {
        is_there: Word,
        is_missed: Word,
    }

    unsafe fn no_section(_: *mut ()) {}

    unsafe fn waiting_section(awaited: *mut ()) {
        // SAFETY: the test's.
        let awaited = unsafe { &*awaited.cast::<Awaited>() };
        let begun = Instant::now();
        while awaited.is_there.load(Relaxed) == 0 && awaited.is_missed.load(Relaxed) == 0 {
            awaited.is_missed.store((begun.elapsed() > Duration::from_secs(10)).into(), Relaxed);
            thread::yield_now();
        }
    }

    /// Of two requests that one scan finds, the second, of another delegate, waits for what the first one's requester does next.
    #[test]
    fn answers_do_not_wait_for_sections_of_another_delegate() {
        let server = server(Manner::Ffwd);
        let locks: [FutexLock<Native>; 2] = [FutexLock::new(), FutexLock::new()];
        let awaited = Awaited { is_there: Word::new(0), is_missed: Word::new(0) };
        let requested = Barrier::new(3);
        let requester = |number| {
            let is_first = number == 1;
            // Not its own, which may be in another page than the other's: nobody else uses the server.
            let line = server.lines.of(number).expect("a number");
            let run = if is_first { no_section } else { waiting_section };
            // SAFETY: what it is called with outlives the request.
            let section = unsafe { Section::new(run, (&raw const awaited).cast_mut().cast()) };
            let target = ptr::from_ref(&locks[usize::from(is_first)]).expose_provenance();
            // SAFETY: this thread's line, and it waits.
            unsafe { line.request(section, target) };
            requested.wait();
            while !line.is_done() {
                thread::yield_now();
            }
            if is_first {
                awaited.is_there.store(1, Relaxed);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| requester(1));
            scope.spawn(|| requester(2));
            requested.wait();
            assert!(server.scan(0));
        });
        assert_eq!(awaited.is_missed.load(Relaxed), 0);
    }

    /// A request for the delegate with this lock, whose section marks `run`.
    fn leave(line: &Line<Native>, lock: &FutexLock<Native>, run: &Word) {
        // SAFETY: called with a word that outlives the request.
        let section = unsafe { Section::new(mark, ptr::from_ref(run).cast_mut().cast()) };
        // SAFETY: nobody else uses the server's lines.
        unsafe { line.request(section, ptr::from_ref(lock).expose_provenance()) };
    }

    unsafe fn mark(run: *mut ()) {
        // SAFETY: the test's.
        unsafe { &*run.cast::<Word>() }.store(1, Relaxed);
    }

    /// In a child, requests of other threads are forgotten. The forking thread, whose handler forks while it waits, keeps its
    /// own.
    #[test]
    fn a_child_keeps_the_request_of_the_thread_that_forked() {
        let server = server(Manner::Rcl);
        let (lock, run) = (FutexLock::new(), Word::new(0));
        let own = Native::thread_id();
        let line = |number| server.lines.of(number).expect("a number");
        for is_taken in [false, true] {
            server.open();
            leave(line(own), &lock, &run);
            leave(line(own + 1), &lock, &run);
            assert!(!is_taken || line(own).take());
            // SAFETY: nobody else uses the server, as if there were no other thread.
            unsafe { server.after_fork() };
            assert!(line(own + 1).is_done());
            assert!(!line(own).is_done() && !server.is_running());
            assert!(line(own).withdraw(), "it can be taken back, and run in place");
        }
        assert_eq!(run.load(Relaxed), 0);
    }

    /// What a server had done with the forking thread's request: it runs the section, or has run it and not answered.
    #[test]
    fn a_child_does_not_run_again_what_a_server_had_begun() {
        let server = server(Manner::Ffwd);
        let (lock, run) = (FutexLock::new(), Word::new(0));
        let line = server.lines.own().expect("a thread with a number");
        server.open();
        leave(line, &lock, &run);
        assert!(line.take());
        lock.lock_fast().expect("it is free");
        // SAFETY: as above.
        unsafe { server.after_fork() };
        assert!(!line.is_done() && !line.withdraw(), "the section may be half done");
        // SAFETY: acquired above.
        unsafe { lock.unlock(()) };
        // SAFETY: taken.
        assert!(unsafe { server.run(line, ptr::from_ref(&lock).expose_provenance()) });
        // SAFETY: as above.
        unsafe { server.after_fork() };
        assert!(line.is_done());
        assert_eq!(run.load(Relaxed), 1);
    }
}
