//! What all workloads have in common: threads that enter sections over and over, a window in which that is counted, and
//! a look at the data afterwards.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::distribution::Distribution;
use super::locks::{Access, Guard, Held, Protection, Servers};
use super::observed::{Observed, RunResult};
use crate::engine::{End, ProcessId};
use crate::machine::Machine;
use crate::random::Random;
use crate::simulation::{Options, Simulation, delay, now};
use crate::stacks;

/// Between two attempts, in cycles.
const AGAIN: u64 = 100;

/// Within how much time threads begin at least, in ns: about what it takes to create one, or to wake one whose CPU has
/// gone to sleep. Beside it the turns of a saturated lock are short. If all threads began within a turn they would line
/// up by the numbers of their CPUs, a FIFO lock would keep that order, and nearly all its hand-overs would be to a
/// neighbour.
const BEGIN_WITHIN_NS: u64 = 20_000;

/// How a workload is run. Times in cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Threads of each process.
    pub threads: usize,
    /// Processes that run the workload, each with locks and data of its own.
    pub processes: usize,
    /// Whether threads stay on their CPUs: the first on the first, and so on, node by node, process by process.
    pub pinned: bool,
    /// Before anything is counted.
    pub warm_up: u64,
    /// For which sections are counted.
    pub window: u64,
    /// Another delay between sections, by turns.
    pub phases: Option<Phases>,
    /// Whether to note what happens in the first hand-off after the warm-up, and where the time of the locks goes.
    pub explain: bool,
    /// Whether to note how the locks are used: [`RunResult::uses`].
    pub profile: bool,
}

/// A load that changes: the contention of one time is not that of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// For how long, in cycles, before the other delay's turn comes.
    pub each: u64,
    /// Between two sections of the second phase, and of each second one from then on.
    pub delay: Distribution,
}

impl Frame {
    /// One thread, for ten million cycles after one.
    pub const SHORT: Self = Self {
        threads: 1,
        processes: 1,
        pinned: true,
        warm_up: 1_000_000,
        window: 10_000_000,
        phases: None,
        explain: false,
        profile: false,
    };
}

impl Default for Frame {
    fn default() -> Self {
        Self::SHORT
    }
}

/// What the threads of a workload do, with the data that they do it to.
pub(super) trait Load: 'static {
    /// Whether the data can be checked although threads were cut short while they changed it.
    const MAY_BE_CUT_SHORT: bool = false;

    /// A mean think time, in cycles.
    fn think_time(&self) -> u64;

    /// What a thread does over and over.
    fn turn(&self, thread: &mut Thread);

    /// Looks at the data, from outside, after the last section.
    fn check(&self) -> Result<(), String>;
}

/// What the host keeps of a process beside the load.
struct Shared {
    guards: Vec<Guard>,
    servers: Servers,
    protection: Protection,
    /// What is seen of all processes, in which this one's threads and locks have the numbers from these on.
    observed: Rc<RefCell<Observed>>,
    first_thread: usize,
    first_lock: usize,
    phases: Option<Phases>,
    /// Threads begin at some time before this, in cycles.
    begin_within: u64,
    /// Threads that are changing data.
    changing: Cell<usize>,
    /// Whether no section is to begin any more.
    stopping: Cell<bool>,
    /// What a thread has found to be wrong, first.
    damage: RefCell<Option<String>>,
}

/// Runs the threads of a load that has so many locks, in each process.
pub(super) fn run<L: Load>(
    frame: &Frame,
    machine: &Machine,
    (protection, locks): (&Protection, usize),
    options: Options,
    build: impl Fn(&mut Simulation) -> L,
) -> RunResult {
    let processes = frame.processes.max(1);
    // Given back when the run is gone.
    let _stacks = stacks::take(processes * (frame.threads + protection.servers()) + options.background);
    // SAFETY: what is placed is used by the threads, and looked at before the run goes; threads keep numbers and
    // counted references on their stacks.
    let mut run = unsafe { Simulation::new(machine, options) };
    let end = frame.warm_up + frame.window;
    let (threads, all_locks) = (processes * frame.threads, processes * locks);
    let observed = Observed::new(threads, all_locks, (frame.warm_up, end), frame.explain);
    let observed = Rc::new(RefCell::new(observed));
    if frame.profile {
        observed.borrow_mut().record(threads, all_locks);
    }
    let processes: Vec<(Rc<Shared>, Rc<L>)> = (0..processes)
        .map(|number| {
            let process = if number == 0 { ProcessId::FIRST } else { run.add_process() };
            let load = Rc::new(build(&mut run));
            let shared = Rc::new(Shared {
                guards: (0..locks).map(|_| Guard::build(&mut run, protection)).collect(),
                servers: Servers::build(&mut run, protection),
                protection: protection.clone(),
                observed: Rc::clone(&observed),
                first_thread: number * frame.threads,
                first_lock: number * locks,
                phases: frame.phases,
                begin_within: load.think_time().max(machine.cycles(BEGIN_WITHIN_NS)),
                changing: Cell::new(0),
                stopping: Cell::new(false),
                damage: RefCell::new(None),
            });
            for me in 0..frame.threads {
                let (load, shared) = (Rc::clone(&load), Rc::clone(&shared));
                let number = shared.first_thread + me;
                let random = Random::split(options.seed, number as u64 + 1);
                let body = move || Thread { me, random, shared }.run(&*load);
                run.spawn_in(process, number, frame.pinned, body);
            }
            // On CPUs of their own, behind those of all clients, where there are so many.
            let first = threads + number * protection.servers();
            for (place, serve) in shared.servers.threads().enumerate() {
                let observed = Rc::clone(&observed);
                let body = move || {
                    observed.borrow_mut().serves();
                    serve();
                };
                run.spawn_in(process, first + place, frame.pinned, body);
            }
            (shared, load)
        })
        .collect();
    let outcome = run.run(end);
    let states = observed.borrow().is_stuck().then(|| run.describe());
    let ended = match outcome.end {
        End::Deadlock(_) => Ok(()),
        End::Finished | End::Time if L::MAY_BE_CUT_SHORT => Ok(()),
        End::Finished | End::Time => come_to_rest(&mut run, frame, machine, &processes),
    };
    let found = processes.iter().find_map(|(shared, _)| shared.damage.take());
    let check = || processes.iter().try_for_each(|(_, load)| load.check());
    let damage = found.or_else(|| ended.and_then(|()| check()).err());
    // Threads that are cut short keep their share of it for ever: what is large is taken out.
    observed.take().result(outcome, damage, states)
}

/// Lets the sections that change something end, and no other begin.
fn come_to_rest<L>(
    run: &mut Simulation,
    frame: &Frame,
    machine: &Machine,
    processes: &[(Rc<Shared>, Rc<L>)],
) -> Result<(), String> {
    /// Between two looks.
    const STEP: u64 = 10_000;
    for (shared, _) in processes {
        shared.observed.borrow_mut().close();
        shared.stopping.set(true);
    }
    let changing = || processes.iter().map(|(shared, _)| shared.changing.get()).sum::<usize>();
    // The thread inside may have to wait until all others of its CPU have had their slices.
    let threads = frame.threads * processes.len();
    let slices = threads.div_ceil(machine.cpus()) as u64 + 2;
    let patience = frame.window + 2 * slices * machine.cycles(machine.os.slice_us * 1000);
    let end = frame.warm_up + frame.window;
    let mut time = end;
    while changing() > 0 && time < end + patience {
        time += STEP;
        if !matches!(run.run(time).end, End::Time) {
            break;
        }
    }
    match changing() {
        0 => Ok(()),
        _ => Err(format!("a section did not end within {patience} cycles after the window")),
    }
}

/// Cycles that the first thread has to give values to servers, and those for each.
const SET_UP: u64 = 10_000;
const SET_UP_EACH: u64 = 2_000;

/// A simulated thread of a workload.
pub(super) struct Thread {
    /// Its number in its process.
    pub(super) me: usize,
    pub(super) random: Random,
    shared: Rc<Shared>,
}

/// A lock that a thread holds.
#[must_use = "it is to be released"]
pub(super) struct Holding {
    lock: usize,
    held: Held,
}

impl Thread {
    fn run(mut self, load: &impl Load) {
        if self.me == 0 {
            let Shared { guards, servers, protection, .. } = &*self.shared;
            guards.iter().enumerate().for_each(|(turn, guard)| guard.configure(protection, servers, turn));
        } else if self.shared.protection.servers() > 0 {
            // A value has its server before others use it.
            delay(SET_UP + SET_UP_EACH * self.shared.guards.len() as u64);
        }
        delay(self.random.below(self.shared.begin_within));
        while !self.is_stopping() {
            load.turn(&mut self);
        }
    }

    /// Its number among the threads of all processes.
    fn number(&self) -> usize {
        self.shared.first_thread + self.me
    }

    /// Whether the thread is to leave the data alone from now on.
    pub(super) fn is_stopping(&self) -> bool {
        self.shared.stopping.get()
    }

    /// Computes between two sections: for as long as `usual` says, or as the phase does that it is time for.
    pub(super) fn think(&mut self, usual: impl FnOnce(&mut Random) -> u64) {
        let cycles = match self.shared.phases {
            Some(Phases { each, delay }) if (now() / each.max(1)) % 2 == 1 => delay.draw(&mut self.random),
            _ => usual(&mut self.random),
        };
        delay(cycles);
    }

    /// A whole section: acquires the lock, does the work, releases; or hands the work to the delegate.
    pub(super) fn section(&mut self, lock: usize, access: Access, work: impl FnOnce(&mut Self)) {
        self.begins();
        if self.is_delegate(lock) {
            self.delegate(lock, false, |thread| thread.change(access, work));
        } else {
            let holding = self.acquire(lock, access);
            self.change(access, work);
            self.release(holding);
        }
        self.ends();
    }

    /// Whether sections are handed to this lock.
    pub(super) fn is_delegate(&self, lock: usize) -> bool {
        self.shared.guards[lock].is_delegate()
    }

    /// Hands work to a delegate, and waits until it has been done, by this thread or another; `tries`: until it can do it
    /// itself.
    pub(super) fn delegate(&mut self, lock: usize, tries: bool, work: impl FnOnce(&mut Self)) {
        let shared = Rc::clone(&self.shared);
        let (guard, me, its) = (shared.guards[lock], self.number(), shared.first_lock + lock);
        shared.observed.borrow_mut().hands_over(me, its);
        let mut section = Some(|| {
            shared.observed.borrow_mut().runs(me, its);
            work(self);
            shared.observed.borrow_mut().has_run(me, its);
        });
        while !guard.execute(tries, &mut section) {
            shared.observed.borrow_mut().failed();
            delay(AGAIN);
        }
        shared.observed.borrow_mut().answered(me);
    }

    /// The time of a section begins.
    pub(super) fn begins(&self) {
        self.shared.observed.borrow_mut().begins(self.number());
    }

    /// The section is over.
    pub(super) fn ends(&self) {
        self.shared.observed.borrow_mut().finished(self.number());
    }

    /// Acquires a lock.
    pub(super) fn acquire(&self, lock: usize, access: Access) -> Holding {
        self.shared.observed.borrow_mut().asks(self.number(), self.shared.first_lock + lock);
        let held = self.shared.guards[lock].acquire(access);
        self.shared.observed.borrow_mut().acquired(self.number(), self.shared.first_lock + lock);
        Holding { lock, held }
    }

    /// Acquires a lock for writing by trying until that succeeds.
    pub(super) fn acquire_by_trying(&self, lock: usize) -> Holding {
        self.shared.observed.borrow_mut().asks(self.number(), self.shared.first_lock + lock);
        let held = loop {
            match self.shared.guards[lock].try_acquire() {
                Some(held) => break held,
                None => self.shared.observed.borrow_mut().failed(),
            }
            delay(AGAIN);
        };
        self.shared.observed.borrow_mut().acquired(self.number(), self.shared.first_lock + lock);
        Holding { lock, held }
    }

    /// Releases a lock.
    pub(super) fn release(&self, Holding { lock, held }: Holding) {
        self.shared.observed.borrow_mut().releases(self.number(), self.shared.first_lock + lock);
        // SAFETY: of the acquisition that made the `Holding`, which is gone now.
        unsafe { self.shared.guards[lock].release(held) };
    }

    /// Does the work of a section, unless the run is over.
    pub(super) fn change(&mut self, access: Access, work: impl FnOnce(&mut Self)) {
        if self.is_stopping() {
            return;
        }
        let by = usize::from(access == Access::Write);
        self.shared.changing.set(self.shared.changing.get() + by);
        work(self);
        self.shared.changing.set(self.shared.changing.get() - by);
    }

    /// Reports something that cannot be under a lock that excludes.
    pub(super) fn found(&self, damage: impl FnOnce() -> String) {
        self.shared.damage.borrow_mut().get_or_insert_with(damage);
    }
}
