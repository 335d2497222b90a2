//! A run: events in the order of their times, and the threads that they set going.
//!
//! Three layers, each in a file of its own: `coherence` (which CPU has which cache line), `cpu` (what a CPU does: hits, stores,
//! polling), `os` (which thread has which CPU, futexes). A thread runs on the host until it needs something that takes
//! time, or until its own clock has run ahead of what may still happen to it; then another event is next. All is
//! single-threaded, and nothing depends on addresses or on the host's time: a seed determines a run.

mod coherence;
pub(crate) mod cpu;
pub(crate) mod fiber;
mod os;
mod process;
pub(crate) mod stats;
mod stores;
pub(crate) mod trace;

use std::alloc::Layout;
use std::cell::Cell;
use std::collections::VecDeque;
use std::mem;
use std::ptr::{self, NonNull};

use lockwork_platform::{Cpu as _, Native};

pub(crate) use self::coherence::CoreId;
use self::coherence::outlook::Outlook;
use self::coherence::{BETWEEN_SERVICES, Directory, Move, RequestId};
use self::cpu::Cpu;
pub(crate) use self::fiber::FiberId;
pub use self::fiber::ProcessId;
use self::fiber::{Fiber, State};
use self::process::Process;
use self::stats::Counts;
use self::trace::Name;
use crate::machine::Machine;
use crate::memory::{Arena, LineId};
use crate::random::Random;
use crate::simulation::Options;

/// A CPU's number: a hardware thread.
pub(crate) type CpuId = u16;

/// The part of a run whose random numbers decide which CPU gets a line; threads have the numbers from 0.
const ARBITRATION: u64 = u64::MAX - 1;

/// With fewer threads all that the host needs for them stays in its caches.
const MANY: usize = 256;

/// What happens at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A thread goes on, if it is still this turn of it.
    Go(FiberId, u32),
    /// A request arrives at its line.
    Arrive(RequestId),
    /// A request has been served.
    Done(RequestId),
    /// A line turns to the next request.
    Next(LineId),
    /// A CPU's time slice ends, if it is still this one.
    Slice(CpuId, u32),
    /// A sleeper has been woken.
    Wake(FiberId, u32),
    /// A sleeper's deadline has come.
    Expire(FiberId, u32),
    /// The operating system looks whether the cores have equally much to do.
    Balance,
}

/// Why a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All threads have ended.
    Finished,
    /// The time was over.
    Time,
    /// Nothing can happen any more, though threads have not ended; with the state of every thread.
    Deadlock(String),
}

/// A simulated machine with its threads.
pub(crate) struct Engine {
    pub(crate) machine: Machine,
    /// Whether polling threads sleep until what they poll changes.
    spin_sleep: bool,
    /// Whether spinning locks never yield.
    pub(crate) strict_spin: bool,
    pub(crate) now: u64,
    /// When the run is over: no thread runs ahead of that.
    end: u64,
    wheel: crate::wheel::Wheel<Event>,
    /// Before the memory, so that what threads own is dropped while there is one.
    pub(crate) fibers: Vec<Fiber>,
    pub(crate) memory: Arena,
    pub(crate) directory: Directory,
    cpus: Vec<Cpu>,
    /// Threads to run on the host now.
    ready: VecDeque<FiberId>,
    current: FiberId,
    processes: Vec<Process>,
    random: Random,
    alive: usize,
    /// Whether a look at the balance of the machine is filed.
    balances: bool,
    runnable: usize,
    pub(crate) counts: Counts,
    hash: u64,
    trace: trace::Trace,
}

thread_local! {
    static CURRENT: Cell<*mut Engine> = const { Cell::new(ptr::null_mut()) };
}

/// Runs `f` on the machine that the calling thread is part of. `f` must not suspend the thread.
///
/// # Panics
///
/// Outside a run.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Engine) -> R) -> R {
    let engine = CURRENT.get();
    assert!(!engine.is_null(), "simulated cells are used outside a run");
    // SAFETY: `Engine::enter` has set it, and takes it back before the engine can go; one host thread; and no borrow
    // outlasts its closure: none of them suspends, which alone lets other code of the run go on, and none calls `with`.
    f(unsafe { &mut *engine })
}

/// Lets the machine go on; returns when the calling thread's turn comes again.
pub(crate) fn suspend() {
    let yielder = with(|engine| {
        let current = engine.current;
        let fiber = engine.fiber(current);
        fiber.rests_at = ptr::from_ref(&current).cast();
        fiber.yielder()
    });
    // SAFETY: the yielder lives on the calling coroutine's own stack.
    unsafe { &*yielder }.suspend(());
}

/// Repeats `attempt`, which says what to wait for, until it succeeds.
#[inline]
pub(crate) fn until<R>(mut attempt: impl FnMut(&mut Engine) -> Option<R>) -> R {
    loop {
        match with(&mut attempt) {
            Some(result) => return result,
            None => suspend(),
        }
    }
}

/// Lets all happen that may happen before the calling thread's own time.
pub(crate) fn catch_up() {
    until(|engine| (!engine.is_ahead(Outlook::default())).then_some(()));
}

impl Engine {
    pub(crate) fn new(machine: &Machine, options: Options) -> Box<Self> {
        let Options { seed, spin_sleep, strict_spin, .. } = options;
        let mut memory = Arena::new();
        let first = Process::new(&mut memory);
        Box::new(Self {
            spin_sleep,
            strict_spin,
            now: 0,
            end: 0,
            wheel: crate::wheel::Wheel::new(),
            directory: Directory::new(machine, Random::split(seed, ARBITRATION)),
            memory,
            cpus: (0..machine.cpus())
                .map(|cpu| Cpu::new(machine.core_of(cpu) as u16, machine.core.order))
                .collect(),
            fibers: Vec::new(),
            ready: VecDeque::new(),
            current: 0,
            processes: vec![first],
            random: Random::split(seed, 0),
            alive: 0,
            balances: false,
            runnable: 0,
            counts: Counts::default(),
            hash: seed,
            trace: trace::Trace::default(),
            machine: machine.clone(),
        })
    }

    /// Makes this the machine of the calling host thread, for the time of `f`, however that ends.
    ///
    /// # Panics
    ///
    /// If the calling thread is a simulated one: it could not tell its own machine from the other.
    pub(crate) fn enter<R>(this: *mut Self, f: impl FnOnce() -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.set(ptr::null_mut());
            }
        }
        assert!(CURRENT.get().is_null(), "a simulated thread cannot run a simulation");
        CURRENT.set(this);
        let _leave = Leave;
        f()
    }

    #[inline]
    pub(crate) fn fiber(&mut self, id: FiberId) -> &mut Fiber {
        &mut self.fibers[id as usize]
    }

    /// The thread that runs.
    #[inline]
    pub(crate) fn me(&mut self) -> &mut Fiber {
        let current = self.current as usize;
        &mut self.fibers[current]
    }

    pub(crate) fn my_id(&self) -> FiberId {
        self.current
    }

    /// Adds a thread. It starts at the time 0, on `cpu` or, unless it is pinned, where there is least to do.
    pub(crate) fn spawn(
        &mut self,
        process: ProcessId,
        cpu: usize,
        pinned: bool,
        body: impl FnOnce() + 'static,
    ) {
        let id = self.fibers.len() as FiberId;
        let cpu = (cpu % self.cpus.len()) as CpuId;
        let mut fiber = Fiber::new(body, cpu, pinned, id);
        fiber.process = process;
        self.processes[usize::from(process.0)].threads.push(id);
        let slot = Layout::new::<[u64; 8]>();
        fiber.slot = self.allocate(slot).as_ptr() as usize;
        self.name(fiber.slot, slot, Name::Slot(id));
        self.fibers.push(fiber);
        self.alive += 1;
        let cpu = self.cpu_for_new(id);
        self.fiber(id).cpu = cpu;
        self.enqueue(id, cpu);
        if !pinned && !self.balances {
            self.balances = true;
            self.file_balance();
        }
    }

    /// Simulated memory, zeroed.
    pub(crate) fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        let place = self.memory.allocate(layout);
        self.directory.grow(self.memory.lines());
        place
    }

    /// Lets events happen until the time `end`. `this` is entered.
    pub(crate) fn run(this: *mut Self, end: u64) -> End {
        with(|engine| engine.end = end);
        loop {
            if let Some(id) = with(|engine| engine.ready.pop_front()) {
                Self::resume(this, id);
            } else if let Some(end) = with(Self::step) {
                return end;
            }
        }
    }

    /// Lets a thread run on the host until it waits for something.
    fn resume(this: *mut Self, id: FiberId) {
        let stack = with(|engine| {
            if !engine.may_go_on(id) {
                return None;
            }
            engine.current = id;
            let fiber = engine.fiber(id);
            fiber.state = State::Running;
            fiber.take()
        });
        let Some(mut stack) = stack else { return };
        let result = stack.resume(());
        // SAFETY: as in `with`; the coroutine has given control back, so nothing of the engine is borrowed.
        let engine = unsafe { &mut *this };
        engine.fiber(id).put_back(stack);
        if fiber::has_ended(&result) {
            engine.end(id);
        }
    }

    /// Lets the next event happen. Returns why the run is over, if it is.
    fn step(&mut self) -> Option<End> {
        if self.alive == 0 {
            return Some(End::Finished);
        }
        if self.wheel.next_time() > self.end {
            let nothing_left = self.wheel.next_time() == u64::MAX;
            return Some(if nothing_left { End::Deadlock(self.describe()) } else { End::Time });
        }
        let Some((now, event)) = self.wheel.pop() else { return Some(End::Deadlock(self.describe())) };
        self.now = now;
        self.counts.events += 1;
        self.note(event);
        self.prefetch_upcoming();
        match event {
            Event::Go(id, turn) => {
                if self.fiber(id).turn == turn {
                    self.ready.push_back(id);
                }
            }
            Event::Arrive(request) => {
                let next = self.directory.arrive(request);
                self.served(request, next);
            }
            Event::Done(request) => self.done(request),
            Event::Next(line) => {
                if let Some((request, next)) = self.directory.next(line) {
                    self.served(request, next);
                }
            }
            Event::Slice(cpu, slice) => self.slice_ends(cpu, slice),
            Event::Wake(id, turn) => {
                if self.fiber(id).turn == turn {
                    self.counts.wakes += 1;
                    self.make_runnable(id);
                }
            }
            Event::Expire(id, turn) => self.expire(id, turn),
            Event::Balance => {
                self.balance();
                // What is left of the run may be a deadlock, which is found when nothing is left to happen.
                if self.wheel.next_time() != u64::MAX {
                    self.file_balance();
                } else {
                    self.balances = false;
                }
            }
        }
        None
    }

    /// Has the host fetch what it needs for the threads that go on soon.
    #[inline]
    fn prefetch_upcoming(&self) {
        if self.fibers.len() < MANY {
            return;
        }
        // Where a thread's stack is must have come before that can be fetched. Farther ahead was slower.
        if let Some(Event::Go(id, _)) = self.wheel.upcoming(3) {
            self.fibers[id as usize].prefetch();
        }
        if let Some(Event::Go(id, _)) = self.wheel.upcoming(1) {
            let fiber = &self.fibers[id as usize];
            fiber.prefetch_stack();
            Native::prefetch_write(ptr::from_ref(&self.cpus[usize::from(fiber.cpu)]));
        }
    }

    /// Files an event.
    #[inline]
    pub(crate) fn file(&mut self, time: u64, event: Event) {
        let rank = self.rank(event);
        self.wheel.push(time, rank, event);
    }

    /// An event's place among those of the same cycle: first what becomes of lines, then the operating system's, then
    /// what threads do on. By cores, lines and threads, so that it does not matter which of two was filed first.
    #[inline]
    fn rank(&self, event: Event) -> u64 {
        let of = |kind: u64, major: u16, minor: u32| kind << 48 | u64::from(major) << 32 | u64::from(minor);
        let requested = |kind: u64, request: RequestId| {
            let request = self.directory.request(request);
            of(kind, request.core, request.line)
        };
        match event {
            // A core that has got its line uses it before others can take it away.
            Event::Done(request) => requested(0, request),
            Event::Next(line) => of(1, 0, line),
            Event::Arrive(request) => requested(2, request),
            Event::Slice(cpu, slice) => of(3, cpu, slice),
            Event::Wake(id, _) => of(4, 0, id),
            Event::Expire(id, _) => of(5, 0, id),
            Event::Balance => of(7, 0, 0),
            Event::Go(id, _) => of(6, self.fibers[id as usize].cpu, id),
        }
    }

    /// Adds an event to the hash of the run.
    fn note(&mut self, event: Event) {
        let (kind, id) = match event {
            Event::Go(id, _) => (1, id),
            Event::Arrive(id) => (2, id),
            Event::Done(id) => (3, id),
            Event::Next(id) => (4, id),
            Event::Slice(id, _) => (5, id.into()),
            Event::Wake(id, _) => (6, id),
            Event::Expire(id, _) => (7, id),
            Event::Balance => (8, 0),
        };
        let word = self.now ^ (u64::from(id) << 40) ^ (kind << 60);
        self.hash = (self.hash.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// A number that is the same for the same run, and hardly ever for another.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// What follows from a service that has begun: others may have lost their copies.
    fn served(&mut self, request: RequestId, next: Move) {
        let Move::DoneIn(cycles) = next else { return };
        let line = self.directory.request(request).line;
        self.file(self.now + cycles, Event::Done(request));
        self.directory.set_busy_until(line, self.now + cycles);
        let lost = mem::take(&mut self.directory.lost);
        for core in &lost {
            self.wake_pollers(*core, line, self.now);
        }
        self.directory.lost = lost;
    }

    /// A core has got its line.
    fn done(&mut self, request: RequestId) {
        let (request, waited_for) = self.directory.done(request);
        if waited_for {
            self.file(self.now + BETWEEN_SERVICES, Event::Next(request.line));
        }
        for cpu in self.cpus_of(request.core) {
            if let Some(id) = self.cpus[usize::from(cpu)].fiber {
                self.note_event(id, |engine| format!("gets {}", engine.name_of(request.line)));
            }
            self.drain(cpu);
            self.line_came(cpu, request.line);
        }
    }

    /// The state of every thread, for reports.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for (id, fiber) in self.fibers.iter().enumerate().filter(|(_, fiber)| fiber.state != State::Ended) {
            let what = match fiber.state {
                State::Running | State::Computing => "runs".to_owned(),
                State::Line(line) => {
                    format!("waits for {} ({})", self.name_of(line), self.directory.describe(line))
                }
                State::Drain => "waits for its stores".to_owned(),
                State::Room => "waits for room in the store buffer".to_owned(),
                State::Polling { since, .. } => {
                    let lines: Vec<String> =
                        fiber.last_round.lines().iter().map(|line| self.name_of(*line)).collect();
                    format!("polls {} in vain since cycle {since}", lines.join(" and "))
                }
                State::Queued => "waits for a CPU".to_owned(),
                State::Parked(address) => {
                    format!("sleeps on the word at {:#x}", self.memory.offset_of(address))
                }
                State::Ended => unreachable!("left out above"),
            };
            let whose = match self.processes.len() {
                1 => String::new(),
                _ => format!(" of process {}", fiber.process.0),
            };
            let _ = std::fmt::Write::write_fmt(
                &mut text,
                format_args!("thread {id}{whose} on CPU {} {what}\n", fiber.cpu),
            );
        }
        text
    }
}
