//! The papers' micro-benchmark: threads that do nothing but compute and enter critical sections.
//!
//! As in RCL's and SANL's (section 4 of both): a delay, the lock, dependent accesses to some shared cache lines, the
//! release. A section's time runs from before the acquisition to after the release.

use super::Workload;
use super::distribution::Distribution;
use super::frame::{self, Frame, Load, Thread};
use super::lines::{self, Lines};
use super::locks::{Access, Protection};
use super::observed::RunResult;
use crate::machine::Machine;
use crate::simulation::{Options, delay};

/// What the threads do. Times in cycles.
#[derive(Debug, Clone, PartialEq)]
pub struct Micro {
    /// Between two sections.
    pub delay: Distribution,
    /// Whether threads try until they succeed, instead of waiting in the lock.
    pub tries: bool,
    /// Shared lines that a section reads and writes, one after the other.
    pub lines: usize,
    /// Work in a section beside that.
    pub work: Distribution,
    /// Locks, each with its own lines; a thread takes one at random.
    pub locks: usize,
}

impl Micro {
    /// One lock, one line, hardly any time between sections.
    pub const SHORT: Self =
        Self { delay: Distribution::About(100), tries: false, lines: 1, work: Distribution::NONE, locks: 1 };
}

impl Default for Micro {
    fn default() -> Self {
        Self::SHORT
    }
}

impl Workload for Micro {
    fn run(&self, frame: &Frame, machine: &Machine, lock: &Protection, options: Options) -> RunResult {
        let locks = self.locks.max(1);
        frame::run(frame, machine, (lock, locks), options, |run| Loop {
            micro: self.clone(),
            data: (0..locks).map(|_| Lines::place(run, self.lines)).collect(),
        })
    }

    fn memory(&self) -> u64 {
        lines::memory(self.locks as u64, self.lines as u64)
    }
}

/// The benchmark with its data.
struct Loop {
    micro: Micro,
    /// For each lock.
    data: Vec<Lines>,
}

impl Load for Loop {
    // Every update of a line is one of its own.
    const MAY_BE_CUT_SHORT: bool = true;

    fn think_time(&self) -> u64 {
        self.micro.delay.mean()
    }

    fn turn(&self, thread: &mut Thread) {
        let Self { micro, data } = self;
        let lock = if data.len() > 1 { thread.random.below(data.len() as u64) as usize } else { 0 };
        let section = |thread: &mut Thread| {
            data[lock].update(micro.lines.max(1));
            let work = micro.work.draw(&mut thread.random);
            if work > 0 {
                delay(work);
            }
        };
        thread.begins();
        if thread.is_delegate(lock) {
            thread.delegate(lock, micro.tries, section);
        } else {
            let holding = if micro.tries {
                thread.acquire_by_trying(lock)
            } else {
                thread.acquire(lock, Access::Write)
            };
            section(thread);
            thread.release(holding);
        }
        thread.ends();
        thread.think(|random| micro.delay.draw(random));
    }

    fn check(&self) -> Result<(), String> {
        lines::check(&self.data)
    }
}
