//! What all workloads have in common: threads that enter sections over and over, a window in which that is counted, and a look at the
//! data afterwards.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::locks::{Access, Guard, Held, Protection};
use super::observed::{Observed, RunResult};
use crate::engine::End;
use crate::machine::Machine;
use crate::random::Random;
use crate::simulation::{Options, Simulation, delay};

/// How a workload is run. Times in cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Threads.
    pub threads: usize,
    /// Whether threads stay on their CPUs: the first on the first, and so on, node by node.
    pub pinned: bool,
    /// Before anything is counted.
    pub warm_up: u64,
    /// For which sections are counted.
    pub window: u64,
    /// Whether to note what happens in the first hand-off after the warm-up.
    pub explain: bool,
}

impl Frame {
    /// One thread, for ten million cycles after one.
    pub const SHORT: Self =
        Self { threads: 1, pinned: true, warm_up: 1_000_000, window: 10_000_000, explain: false };
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

    /// Threads begin at some time before this.
    fn stagger(&self) -> u64;

    /// What a thread does over and over.
    fn turn(&self, thread: &mut Thread);

    /// Looks at the data, from outside, after the last section.
    fn check(&self) -> Result<(), String>;
}

/// What the host keeps of a run beside the load.
struct Shared {
    guards: Vec<Guard>,
    protection: Protection,
    observed: RefCell<Observed>,
    /// Threads that are changing data.
    changing: Cell<usize>,
    /// Whether no section is to begin any more.
    stopping: Cell<bool>,
    /// What a thread has found to be wrong, first.
    damage: RefCell<Option<String>>,
}

/// Runs the threads of a load that has so many locks.
pub(super) fn run<L: Load>(
    frame: &Frame,
    machine: &Machine,
    (protection, locks): (&Protection, usize),
    options: Options,
    build: impl FnOnce(&mut Simulation) -> L,
) -> RunResult {
    // SAFETY: what is placed is used by the threads, and looked at before the run goes; threads keep numbers and counted references
    // on their stacks.
    let mut run = unsafe { Simulation::new(machine, options) };
    let end = frame.warm_up + frame.window;
    let shared = Rc::new(Shared {
        guards: (0..locks).map(|_| Guard::build(&mut run, protection)).collect(),
        protection: protection.clone(),
        observed: RefCell::new(Observed::new(frame.threads, locks, (frame.warm_up, end), frame.explain)),
        changing: Cell::new(0),
        stopping: Cell::new(false),
        damage: RefCell::new(None),
    });
    let load = Rc::new(build(&mut run));
    for me in 0..frame.threads {
        let (load, shared) = (Rc::clone(&load), Rc::clone(&shared));
        let random = Random::split(options.seed, me as u64 + 1);
        run.spawn(me, frame.pinned, move || Thread { me, random, shared }.run(&*load));
    }
    let outcome = run.run(end);
    let ended = match outcome.end {
        End::Deadlock(_) => Ok(()),
        End::Finished | End::Time if L::MAY_BE_CUT_SHORT => Ok(()),
        End::Finished | End::Time => come_to_rest(&mut run, frame, machine, &shared),
    };
    let found = shared.damage.take();
    let damage = found.or_else(|| ended.and_then(|()| load.check()).err());
    // Threads that are cut short keep their share of it for ever: what is large is taken out.
    shared.observed.take().result(outcome, damage)
}

/// Lets the sections that change something end, and no other begin.
fn come_to_rest(
    run: &mut Simulation,
    frame: &Frame,
    machine: &Machine,
    shared: &Shared,
) -> Result<(), String> {
    /// Between two looks.
    const STEP: u64 = 10_000;
    shared.observed.borrow_mut().close();
    shared.stopping.set(true);
    // Whoever is inside may have to wait until all others of its CPU have had their slices.
    let slices = frame.threads.div_ceil(machine.cpus()) as u64 + 2;
    let patience = frame.window + 2 * slices * machine.cycles(machine.os.slice_us * 1000);
    let end = frame.warm_up + frame.window;
    let mut time = end;
    while shared.changing.get() > 0 && time < end + patience {
        time += STEP;
        if !matches!(run.run(time).end, End::Time) {
            break;
        }
    }
    match shared.changing.get() {
        0 => Ok(()),
        _ => Err(format!("a section did not end within {patience} cycles after the window")),
    }
}

/// A simulated thread of a workload.
pub(super) struct Thread {
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
            self.shared.guards.iter().for_each(|guard| guard.configure(&self.shared.protection));
        }
        delay(self.random.below(load.stagger()));
        while !self.is_stopping() {
            load.turn(&mut self);
        }
    }

    /// Whether the thread is to leave the data alone from now on.
    pub(super) fn is_stopping(&self) -> bool {
        self.shared.stopping.get()
    }

    /// A whole section: acquires the lock, does the work, releases.
    pub(super) fn section(&mut self, lock: usize, access: Access, work: impl FnOnce(&mut Self)) {
        self.begins();
        let holding = self.acquire(lock, access);
        self.change(access, work);
        self.release(holding);
        self.ends();
    }

    /// The time of a section begins.
    pub(super) fn begins(&self) {
        self.shared.observed.borrow_mut().begins(self.me);
    }

    /// The section is over.
    pub(super) fn ends(&self) {
        self.shared.observed.borrow_mut().finished(self.me);
    }

    /// Acquires a lock.
    pub(super) fn acquire(&self, lock: usize, access: Access) -> Holding {
        let held = self.shared.guards[lock].acquire(access);
        self.shared.observed.borrow_mut().acquired(self.me, lock);
        Holding { lock, held }
    }

    /// Acquires a lock for writing by trying until that succeeds.
    pub(super) fn acquire_by_trying(&self, lock: usize) -> Holding {
        /// Between two attempts, in cycles.
        const AGAIN: u64 = 100;
        let held = loop {
            match self.shared.guards[lock].try_acquire() {
                Some(held) => break held,
                None => self.shared.observed.borrow_mut().failed(),
            }
            delay(AGAIN);
        };
        self.shared.observed.borrow_mut().acquired(self.me, lock);
        Holding { lock, held }
    }

    /// Releases a lock.
    pub(super) fn release(&self, Holding { lock, held }: Holding) {
        self.shared.observed.borrow_mut().releases(self.me, lock);
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
