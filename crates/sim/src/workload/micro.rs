//! The papers' micro-benchmark: threads that do nothing but compute and enter critical sections.
//!
//! As in RCL's and SANL's (section 4 of both): a delay, the lock, dependent accesses to some shared cache lines, the release. A
//! section's time runs from before the acquisition to after the release.

use std::cell::RefCell;
use std::rc::Rc;

use lockwork_locks::erased::Held;
use lockwork_locks::knobs::BaseKnobs;
use lockwork_locks::spec::LockSpec;
use lockwork_platform::DataCell;
use serde::Serialize;

use super::distribution::Distribution;
use super::locks::{SimLock, build};
use crate::engine::End;
use crate::engine::stats::{Counts, Transfers};
use crate::engine::trace::Step;
use crate::machine::Machine;
use crate::platform::Plain;
use crate::random::Random;
use crate::simulation::{Options, Simulation, begin_trace, delay, end_trace, note, now};

/// What the threads do. Times in cycles.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Micro {
    /// Threads.
    pub threads: usize,
    /// Between two sections.
    pub delay: Distribution,
    /// Another delay, by turns.
    pub phases: Option<Phases>,
    /// Whether threads try until they succeed, instead of waiting in the lock.
    pub tries: bool,
    /// Shared lines that a section reads and writes, one after the other.
    pub lines: usize,
    /// Work in a section beside that.
    pub work: Distribution,
    /// Locks, each with its own lines; a thread takes one at random.
    pub locks: usize,
    /// Whether threads stay on their CPUs: the first on the first, and so on, node by node.
    pub pinned: bool,
    /// Before anything is counted.
    pub warm_up: u64,
    /// For which sections are counted.
    pub window: u64,
    /// Whether to note what happens in the first hand-off after the warm-up.
    pub explain: bool,
}

/// A load that changes: the contention of one time is not that of the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Phases {
    /// For how long, in cycles, before the other delay's turn comes.
    pub each: u64,
    /// Between two sections of the second phase, and of each second one from then on.
    pub delay: Distribution,
}

impl Default for Micro {
    fn default() -> Self {
        Self::SHORT
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MicroResult {
    /// Sections that ended inside the window.
    pub sections: u64,
    /// The same, for each thread.
    pub by_thread: Vec<u64>,
    /// Cycles of a section, on average: from before the acquisition to after the release. All the time that threads spent in
    /// sections within the window counts, whether or not the section ended, so that a lock cannot hide those whom it lets starve.
    pub section: f64,
    /// The same for those that ended, at most, for this share of them: 0.5, 0.99, 1.
    pub percentiles: [u64; 3],
    /// Attempts that failed, within the window.
    pub failures: u64,
    /// Cycles from before a release to after the next acquisition by another thread, on average.
    pub hand_off: f64,
    /// Updates of the shared lines that were lost: more than none, and the lock does not exclude.
    pub lost_updates: u64,
    /// Cache lines moved.
    pub transfers: Transfers,
    /// What all threads did, warm-up included.
    pub counts: Counts,
    /// The hash of the run.
    pub hash: u64,
    /// Why the run could not go on, if it could not.
    pub deadlock: Option<String>,
    /// What happened in the first hand-off after the warm-up, if that was asked for.
    #[serde(skip)]
    pub steps: Vec<Step>,
}

/// A lock with what it protects.
#[derive(Clone, Copy)]
struct Guarded {
    /// None: a control without any lock.
    lock: Option<SimLock>,
    /// The first word of each line.
    lines: &'static [&'static Plain<u64>],
}

/// What the host sees of the threads, at no simulated cost.
#[derive(Default)]
struct Observed {
    by_thread: Vec<u64>,
    /// Cycles that threads spent in sections, within the window.
    spent: u64,
    /// When the thread's section began, if it is in one.
    begun: Vec<Option<u64>>,
    /// The window.
    window: (u64, u64),
    times: Vec<u64>,
    updates: Vec<u64>,
    /// The last release of each lock: whose it was, and when it began.
    released: Vec<Option<(usize, u64)>>,
    hand_offs: (u64, u64),
    failures: u64,
    /// The thread whose release is looked at, and what came of it.
    explained: Option<(usize, Vec<Step>)>,
}

impl Micro {
    /// One thread, one lock, one line; ten million cycles.
    pub const SHORT: Self = Self {
        threads: 1,
        delay: Distribution::About(100),
        phases: None,
        tries: false,
        lines: 1,
        work: Distribution::NONE,
        locks: 1,
        pinned: true,
        warm_up: 1_000_000,
        window: 10_000_000,
        explain: false,
    };

    /// Runs it under a lock, or under none.
    #[must_use]
    pub fn run(&self, machine: &Machine, lock: Option<&LockSpec>, options: Options) -> MicroResult {
        // SAFETY: locks and lines are used by the threads, and looked at before the run goes; threads keep numbers and counted
        // references on their stacks.
        let mut run = unsafe { Simulation::new(machine, options) };
        let guarded: Vec<Guarded> = (0..self.locks.max(1))
            .map(|_| Guarded { lock: lock.map(|spec| build(&mut run, spec)), lines: self.lines(&mut run) })
            .collect();
        let knobs = lock.map_or(BaseKnobs::NONE, |spec| spec.knobs);
        let observed = Rc::new(RefCell::new(Observed {
            by_thread: vec![0; self.threads],
            spent: 0,
            begun: vec![None; self.threads],
            window: (self.warm_up, self.warm_up + self.window),
            times: Vec::new(),
            updates: vec![0; guarded.len()],
            released: vec![None; guarded.len()],
            hand_offs: (0, 0),
            failures: 0,
            explained: None,
        }));
        for thread in 0..self.threads {
            let (this, guarded, observed) = (self.clone(), guarded.clone(), Rc::clone(&observed));
            let random = Random::split(options.seed, thread as u64 + 1);
            run.spawn(thread, self.pinned, move || {
                if thread == 0 {
                    guarded.iter().filter_map(|guarded| guarded.lock).for_each(|lock| lock.configure(&knobs));
                }
                this.thread(thread, &guarded, &observed, random);
            });
        }
        let outcome = run.run(self.warm_up + self.window);
        // Threads that are cut short keep their share of it for ever: what is large is taken out.
        let mut observed = observed.take();
        observed.count_unfinished();
        let lost_updates = lost_updates(&guarded, &observed.updates);
        observed.times.sort_unstable();
        let times = &observed.times;
        let at = |share: f64| {
            let last = times.len().saturating_sub(1);
            times.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
        };
        let sections = times.len() as u64;
        MicroResult {
            sections,
            section: observed.spent as f64 / sections.max(1) as f64,
            percentiles: [at(0.5), at(0.99), at(1.0)],
            hand_off: observed.hand_offs.0 as f64 / observed.hand_offs.1.max(1) as f64,
            by_thread: observed.by_thread,
            failures: observed.failures,
            lost_updates,
            transfers: outcome.transfers,
            counts: outcome.counts,
            hash: outcome.hash,
            steps: observed.explained.map(|(_, steps)| steps).unwrap_or_default(),
            deadlock: match outcome.end {
                End::Deadlock(threads) => Some(threads),
                End::Finished | End::Time => None,
            },
        }
    }

    fn lines(&self, run: &mut Simulation) -> &'static [&'static Plain<u64>] {
        let lines: Vec<_> =
            (0..self.lines.max(1)).map(|_| run.place_named("a shared line", Plain::new(0))).collect();
        // A few words a run; the run's threads may be cut short, and own nothing.
        Box::leak(lines.into_boxed_slice())
    }

    fn thread(&self, me: usize, guarded: &[Guarded], observed: &RefCell<Observed>, mut random: Random) {
        // Threads do not start at the same time either.
        delay(random.below(self.delay.mean().max(100)));
        loop {
            let index = if guarded.len() > 1 { random.below(guarded.len() as u64) as usize } else { 0 };
            let Guarded { lock, lines } = guarded[index];
            observed.borrow_mut().begun[me] = Some(now());
            let held = lock.map(|lock| self.acquire(lock, observed));
            observed.borrow_mut().acquired(me, index);
            self.section(lines, &mut random);
            observed.borrow_mut().updates[index] += 1;
            observed.borrow_mut().releases(me, index, self.explain && now() >= self.warm_up);
            if let (Some(lock), Some(held)) = (lock, held) {
                // SAFETY: the word of the acquisition above.
                unsafe { lock.unlock(held) };
            }
            observed.borrow_mut().finished(me);
            delay(self.pause_between(now()).draw(&mut random));
        }
    }

    fn acquire(&self, lock: SimLock, observed: &RefCell<Observed>) -> Held {
        /// Between two attempts, in cycles.
        const AGAIN: u64 = 100;
        if !self.tries {
            return lock.lock();
        }
        loop {
            if let Some(held) = lock.try_lock() {
                return held;
            }
            observed.borrow_mut().failed();
            delay(AGAIN);
        }
    }

    /// The delay of the phase that it is time for.
    fn pause_between(&self, now: u64) -> Distribution {
        match self.phases {
            Some(Phases { each, delay }) if (now / each.max(1)) % 2 == 1 => delay,
            _ => self.delay,
        }
    }

    /// Reads and writes each line; which line is next depends on what was read, so the accesses do not overlap.
    fn section(&self, lines: &[&Plain<u64>], random: &mut Random) {
        for line in lines {
            // SAFETY: the lock excludes others; the control without a lock is there to be caught, and no value is torn.
            let value = unsafe { line.get() };
            // SAFETY: as above.
            unsafe { line.set(value + 1) };
        }
        let work = self.work.draw(random);
        if work > 0 {
            delay(work);
        }
    }
}

impl Observed {
    fn releases(&mut self, me: usize, lock: usize, explain: bool) {
        self.released[lock] = Some((me, now()));
        if explain && self.explained.is_none() {
            begin_trace();
            note("begins to release the lock");
            self.explained = Some((me, Vec::new()));
        }
    }

    fn acquired(&mut self, me: usize, lock: usize) {
        if let Some((releaser, steps)) = &mut self.explained
            && *releaser != me
            && steps.is_empty()
        {
            note("has the lock");
            *steps = end_trace();
        }
        let by_another = self.released[lock].filter(|(other, since)| *other != me && *since >= self.window.0);
        if let Some((_, since)) = by_another {
            self.hand_offs.0 += now().saturating_sub(since);
            self.hand_offs.1 += 1;
        }
    }

    fn failed(&mut self) {
        self.failures += u64::from((self.window.0..self.window.1).contains(&now()));
    }

    fn finished(&mut self, me: usize) {
        let end = now();
        let Some(start) = self.begun[me].take() else { return };
        self.spend(start, end);
        if (self.window.0..self.window.1).contains(&end) {
            self.by_thread[me] += 1;
            self.times.push(end - start);
        }
    }

    /// Counts the part of a time that is in the window.
    fn spend(&mut self, start: u64, end: u64) {
        let (from, to) = self.window;
        self.spent += end.min(to).saturating_sub(start.max(from));
    }

    /// Counts the sections that were cut short.
    fn count_unfinished(&mut self) {
        for start in std::mem::take(&mut self.begun).into_iter().flatten() {
            self.spend(start, self.window.1);
        }
    }
}

/// Compares what the lines hold with how often they were updated. A section that was cut short has updated some of them.
fn lost_updates(guarded: &[Guarded], updates: &[u64]) -> u64 {
    let lost = |(guarded, updates): (&Guarded, &u64)| {
        let missing = |line: &&Plain<u64>| updates.saturating_sub(line.peek());
        guarded.lines.iter().map(missing).max().unwrap_or(0)
    };
    guarded.iter().zip(updates).map(lost).sum()
}
