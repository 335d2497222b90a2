//! Readers and writers: writers change some shared lines, readers look whether all of them have been changed.
//!
//! Under a reader-writer lock readers share it; under another lock they take it as writers do.

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
pub struct Mix {
    /// Between two sections.
    pub delay: Distribution,
    /// The share of sections that write, between 0 and 1.
    pub write_share: f64,
    /// In place of that: so many threads write, the first ones, and the others read.
    pub writers: Option<usize>,
    /// Shared lines: a writer reads and writes each, a reader reads each, one after the other. From 2 on a reader can
    /// tell whether a writer was there at the same time; 0 for sections in which nothing is done, and which show
    /// nothing.
    pub lines: usize,
    /// Work in a section beside that.
    pub work: Distribution,
}

impl Mix {
    /// One writer in ten, two lines.
    pub const TENTH: Self = Self {
        delay: Distribution::About(2000),
        write_share: 0.1,
        writers: None,
        lines: 2,
        work: Distribution::NONE,
    };
}

impl Workload for Mix {
    fn run(&self, frame: &Frame, machine: &Machine, lock: &Protection, options: Options) -> RunResult {
        let place = |run: &mut _| Data { mix: self.clone(), lines: Lines::place(run, self.lines) };
        frame::run(frame, machine, (lock, 1), options, place)
    }

    fn memory(&self) -> u64 {
        lines::memory(1, self.lines as u64)
    }
}

/// The mix with its lines.
struct Data {
    mix: Mix,
    lines: Lines,
}

impl Load for Data {
    // Every update of a line is one of its own.
    const MAY_BE_CUT_SHORT: bool = true;

    fn think_time(&self) -> u64 {
        self.mix.delay.mean()
    }

    fn turn(&self, thread: &mut Thread) {
        let writes = match self.mix.writers {
            Some(writers) => thread.me < writers,
            None => thread.random.fraction() < self.mix.write_share,
        };
        let access = if writes { Access::Write } else { Access::Read };
        thread.section(0, access, |thread| {
            if writes {
                self.lines.update(self.mix.lines);
            } else if self.mix.lines > 0 && !self.lines.are_equal() {
                thread.found(|| "a reader saw half of an update: the lock does not exclude".to_owned());
            }
            delay(self.mix.work.draw(&mut thread.random));
        });
        thread.think(|random| self.mix.delay.draw(random));
    }

    fn check(&self) -> Result<(), String> {
        lines::check(&[self.lines])
    }
}
