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
//! - I1: a section is run by a thread that holds its delegate's `lock`, and may run the request (V2) or has left it itself.
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
//! A request is neither taken nor marked by a read-modify-write: that would move its line once more to the server and back, which
//! takes as long as all the rest. The servicing thread says where it is instead ([`service`]), by plain stores, and these hold:
//!
//! - V1: one thread at a time does something to requests. It has said that it looks, and seen behind a light barrier that it has the turn.
//!   The one that is to be the next has the turn already, and behind a heavy barrier waits until that one is `AWAY`, or runs a
//!   section.
//! - V2: a request that is seen by the thread that looks, which looks at its number first, stays as it is, and its delegate is alive,
//!   until that thread has answered it, or has left it: nobody else runs it (V1, V3) or takes it back (V4).
//! - V3: what the thread before has in its hands while it runs a section is noted as `taken`, by the requests' numbers, so that nobody
//!   else runs it.
//! - V4: an owner that wants its request back makes its number odd; behind a heavy barrier it waits while the thread looks, and has its
//!   request back unless that thread runs it, or has run it. The number stays odd until the next request, so that a thread that
//!   looks by then does not take the one for the other.
//! - V5: whoever takes a turn or a request back, or ceases to serve, holds `gate`. A thread that looks never waits for it, but for the
//!   few steps until it runs a section or rests; so a thread that waits for it waits for a CPU at most, or for a signal handler.
//!
//! # Ordering
//!
//! - E1: the delegate's lock orders its sections. The lines' edges order requester and executor.
//! - E2: the store of a request's number (Release) → the load of a thread that looks at it (Acquire): that the requests before have ended,
//!   that their words said so, and what their executor said of itself then.
//! - E3: what a servicing thread did with lines (Release) → whoever sees in `at` or `unanswered` that it has (Acquire).

mod measures;
mod service;
mod value;

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, AtomicInt, Clock, Deadline, FutexCell, Platform};

pub use self::measures::Measures;
use self::service::Service;
pub use self::value::{Seat, Served};
use super::lines::{LINES, Line, Lines};
use super::pace::Pace;
use super::{known_by, run_holding};
use crate::api::{Apart, RawLock};
use crate::biased::Biased;
use crate::blocking::futex::FutexLock;
use crate::wait::{Patience, pauses_before_sleep};

/// A delegate's lock. The server is who uses it, and pays a compare-and-swap for it only where a requester has done so, too: the
/// answers that it has given before are on their way meanwhile.
type Lock<P> = Biased<P, FutexLock<P>>;

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
    /// The turn of the thread that has begun to serve last.
    begun: P::U32,
    /// Held by those who take turns or requests back (V5).
    gate: FutexLock<P>,
    /// Of the thread that looks at lines, or was the last to do so.
    service: P::Ptr<Service<P>>,
    lines: Lines<P>,
    manner: Manner,
    /// The real-time priority of its threads; 0 = none.
    priority: u32,
    hire: Hire<P>,
    /// What has been counted. Written by the thread that has the turn, nearly always, at every request: apart from what
    /// requesters read.
    counts: Apart<[P::Usize; 3]>,
}

/// What a scan has found so far.
struct Scan {
    /// That of the thread.
    turn: u32,
    served: usize,
    /// The delegate of the last request; 0 = none yet.
    target: usize,
    /// Whether there were requests for others before.
    is_mixed: bool,
    /// Whether the thread has lost its turn.
    is_relieved: bool,
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
            begun: P::U32::new(0),
            gate: FutexLock::new(),
            service: P::Ptr::new(ptr::null_mut()),
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
    /// forked may wait for one of its own, if a signal handler did: it takes that back when it finds that the server has stopped,
    /// unless its section has run, or had been begun, and is half done: then it waits for ever, as for a mutex that a thread of the
    /// parent held. It may be a servicing thread, whose section forked, too: that one has lost its turn.
    ///
    /// # Safety
    ///
    /// No other thread exists.
    pub unsafe fn after_fork(&self) {
        self.state.store(STOPPED, Relaxed); // ORDER: one thread, as all that follows.
        self.turn.fetch_add(1, Relaxed);
        self.gate.reset();
        // SAFETY: null or a node, which its thread frees.
        let service = unsafe { self.service.swap(ptr::null_mut(), Relaxed).as_ref() };
        let own = P::thread_id();
        self.lines.each_numbered(|number, line| {
            let runs = || {
                // SAFETY: the request of this very thread, which is not answered.
                let target = unsafe { line.target() };
                // SAFETY: as above.
                unsafe { Self::lock(target) }.is_locked()
            };
            let had_run = service.and_then(|service| service.had_run(line));
            let has_begun = had_run.is_some() || line.taken.load(Relaxed) == line.number();
            // A section that nobody is inside any more has run.
            if number != own || line.is_done() || had_run == Some(true) || has_begun && !runs() {
                line.forget();
                return;
            }
            line.wants_back(false);
            line.taken.store(if has_begun { line.number() } else { 0 }, Relaxed);
        });
        if let Some(service) = service {
            service.is_gone();
        }
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
        let line = self.lines.own();
        if let Some(line) = line {
            line.serves(true);
        }
        let node = P::alloc_node::<Service<P>>();
        // SAFETY: fresh, and ours until it is freed below.
        let service = unsafe { node.as_ref() };
        if self.begins(service, turn) {
            self.attend(service, turn);
        }
        self.through_gate(|| {
            if self.service.load(Relaxed) == node.as_ptr() {
                self.service.store(ptr::null_mut(), Relaxed); // ORDER: the gate.
            }
        });
        // SAFETY: nobody finds it any more, and a thread that did held the gate.
        unsafe { P::free_node(node) };
        if let Some(line) = line {
            line.serves(false);
        }
    }

    /// Does something to turns or requests that one thread does at a time (V5).
    fn through_gate<R>(&self, f: impl FnOnce() -> R) -> R {
        self.gate.lock_for(known_by(self));
        let result = f();
        // SAFETY: locked above.
        unsafe { self.gate.unlock(()) };
        result
    }

    /// Takes the place of the thread before, as long as this one has the turn.
    fn begins(&self, service: &Service<P>, turn: u32) -> bool {
        let has_turn = || self.turn.load(Relaxed) == turn;
        self.through_gate(|| {
            P::heavy_barrier(); // ORDER: V1.
            // SAFETY: null, or of a thread that cannot free it before it holds the gate.
            let begins = match unsafe { self.service.load(Relaxed).as_ref() } {
                Some(before) => before.is_relieved(has_turn),
                None => has_turn(),
            };
            if begins {
                self.service.store(ptr::from_ref(service).cast_mut(), Relaxed); // ORDER: the gate.
                self.begun.store(turn, Relaxed);
            }
            begins
        })
    }

    fn attend(&self, service: &Service<P>, turn: u32) {
        let mut left = Self::idle_budget();
        let mut patience = Patience::brief::<P>();
        let mut pace = Pace::new();
        loop {
            if self.state.load(Relaxed) == STOPPED {
                P::heavy_barrier(); // ORDER: I3, as the server stops.
                self.scan(service, turn);
                return;
            }
            if self.turn.load(Relaxed) != turn {
                return;
            }
            if self.scan(service, turn) {
                left = Self::idle_budget();
                patience = Patience::brief::<P>();
                pace.step::<P>();
                continue;
            }
            if left > 0 {
                left = left.saturating_sub(patience.pause_within::<P>(left));
                continue;
            }
            self.sleep(service, turn);
            left = Self::idle_budget();
        }
    }

    fn idle_budget() -> u32 {
        pauses_before_sleep::<P>().saturating_mul(IDLE_BUDGETS)
    }

    #[cold]
    fn sleep(&self, service: &Service<P>, turn: u32) {
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
        if self.scan(service, turn) || self.turn.load(Relaxed) != turn {
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
    fn scan(&self, service: &Service<P>, turn: u32) -> bool {
        let mut scan = Scan { turn, served: 0, target: 0, is_mixed: false, is_relieved: false };
        self.lines.each_page(|lines| {
            for index in 0..LINES {
                if !scan.is_relieved && lines[index].is_requested() {
                    self.look(service, lines, index, &mut scan);
                }
            }
            if service.answers(lines) {
                service.rests();
            }
        });
        if scan.target != 0 && !scan.is_relieved {
            self.count(SCANS, 1);
            self.count(MIXED, usize::from(scan.is_mixed));
        }
        scan.served > 0
    }

    /// Looks at a request, and runs it if its delegate is free.
    #[inline(always)]
    fn look(&self, service: &Service<P>, lines: &[Line<P>; LINES], index: usize, scan: &mut Scan) {
        let line = &lines[index];
        let turn = scan.turn;
        let has_turn = || self.turn.load(Relaxed) == turn;
        scan.is_relieved = !service.looks(has_turn);
        if scan.is_relieved || !line.is_open() {
            return service.rests();
        }
        // SAFETY: V2.
        let target = unsafe { line.target() };
        let is_another = scan.target != 0 && scan.target != target;
        if is_another {
            // The section may wait for what a requester of another delegate does once it has its answer.
            service.answers(lines);
        }
        scan.is_mixed |= is_another;
        scan.target = target;
        // SAFETY: V2.
        if !unsafe { self.run(service, line, target) } {
            return service.rests();
        }
        service.has_run(line);
        scan.served += 1;
        match self.manner {
            Manner::Ffwd => {
                service.answers_later(lines, index);
                service.rests();
            }
            Manner::Rcl => {
                let sleeps = line.answer();
                service.rests();
                if sleeps {
                    line.wake();
                }
            }
        }
    }

    /// The lock of the delegate that a request is for.
    ///
    /// # Safety
    ///
    /// The request has not been answered.
    unsafe fn lock<'a>(target: usize) -> &'a Lock<P> {
        // SAFETY: the address was exposed by the requester, whose delegate is alive.
        unsafe { &*ptr::with_exposed_provenance::<Lock<P>>(target) }
    }

    /// Runs the request of a line, unless its delegate's lock is held.
    ///
    /// # Safety
    ///
    /// The calling thread, whose service this is, looks at lines, and the request is for that delegate.
    #[inline(always)]
    unsafe fn run(&self, service: &Service<P>, line: &Line<P>, target: usize) -> bool {
        // SAFETY: the caller's contract.
        let lock = unsafe { Self::lock(target) };
        // A look costs nothing; an attempt, if the lock is held by bias, a barrier in all threads.
        if lock.is_locked() {
            return false;
        }
        let Some(token) = lock.try_lock() else { return false };
        service.runs(line);
        // SAFETY: I1.
        let run = || unsafe { line.run() };
        // SAFETY: acquired above.
        unsafe { run_holding(lock, token, run) };
        self.count(SERVED, 1);
        true
    }

    /// Waits until the section of the calling thread's `line` has run. After every [`LOOK_NS`] asleep with nobody having begun to run
    /// it, `looks_lost` is called; if it says so, the request is taken back. `false`: it was, and the section has not run.
    fn waits(&self, line: &Line<P>, mut looks_lost: impl FnMut() -> bool) -> bool {
        let spins = |mut left: u32, mut patience: Patience| {
            while !line.is_done() {
                if left == 0 {
                    return false;
                }
                left = left.saturating_sub(patience.pause_within::<P>(left));
            }
            true
        };
        if spins(pauses_before_sleep::<P>(), Patience::brief::<P>())
            || spins(self.lines.pauses_in_crowd(), Patience::new::<P>())
        {
            return true;
        }
        while !line.is_done() {
            let deadline = Deadline::after(Clock::Monotonic, P::now(Clock::Monotonic), LOOK_NS);
            line.asleep.store(1, Relaxed);
            P::heavy_barrier(); // ORDER: L8.
            let is_late = !line.is_done() && line.asleep.wait(1, Some(deadline)).is_err();
            line.asleep.store(0, Relaxed); // ORDER: a wake that comes late is spurious.
            if is_late && line.is_open() && looks_lost() && self.withdraws(line) {
                return false;
            }
        }
        true
    }

    /// Takes the request at the calling thread's `line` back, unless its section has run or is run (V4).
    #[cold]
    fn withdraws(&self, line: &Line<P>) -> bool {
        self.through_gate(|| {
            if line.is_done() || line.taken.load(Relaxed) == line.number() {
                return false;
            }
            line.wants_back(true);
            P::heavy_barrier(); // ORDER: V4.
            // SAFETY: null, or of a thread that cannot free it before it holds the gate.
            let service = unsafe { self.service.load(Relaxed).as_ref() };
            if service.is_some_and(|service| service.has_begun(line)) || line.is_done() {
                line.wants_back(false);
                return false;
            }
            line.forget();
            true
        })
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
        if self.begun.load(Relaxed) != turn {
            return true; // One is on its way.
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

#[cfg(test)]
mod tests;
