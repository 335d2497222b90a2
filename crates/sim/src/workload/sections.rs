//! Sections as a profile of a program would describe them: how long they last, how far they are apart, how many lines
//! they touch, and which of several locks they take.

mod file;
mod quantity;

use super::Workload;
use super::frame::{self, Frame, Load, Thread};
use super::lines::{self, Lines};
use super::locks::{Access, Protection};
use super::observed::RunResult;
use crate::machine::Machine;
use crate::simulation::{Options, delay};

pub use quantity::Quantity;

/// What the threads do.
#[derive(Debug, Clone, PartialEq)]
pub struct Sections {
    /// Whether times are nanoseconds; else they are cycles.
    pub in_nanoseconds: bool,
    /// Between two sections.
    pub think: Quantity,
    /// The locks, at least one kind.
    pub locks: Vec<Kind>,
}

/// Locks of one kind, which are used alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// For messages.
    pub name: String,
    /// How often a section takes one of these, relative to the other kinds' shares; more than 0.
    pub share: f64,
    /// How many there are, at least one; a section takes one of them at random.
    pub instances: usize,
    /// Time in a section, beside what its lines take.
    pub hold: Quantity,
    /// The part of the sections that only read, from 0 to 1. Under a lock that is no reader-writer lock they take it as others do.
    pub reads: f64,
    /// Lines that a section reads and writes, one after the other; each lock has as many as a section touches at most.
    pub lines: Quantity,
}

impl Workload for Sections {
    fn run(&self, frame: &Frame, machine: &Machine, lock: &Protection, options: Options) -> RunResult {
        let scale = if self.in_nanoseconds { machine.ghz } else { 1.0 };
        let instances = self.locks.iter().map(|kind| kind.instances).sum();
        frame::run(frame, machine, (lock, instances), options, |run| {
            let mut first = 0;
            let mut sum = 0.0;
            let kinds = self.locks.iter().map(|kind| {
                sum += kind.share;
                let lines = kind.lines.most() as usize;
                let set = Set {
                    kind: Kind { hold: kind.hold.times(scale), ..kind.clone() },
                    first,
                    up_to: sum,
                    data: (0..kind.instances).map(|_| Lines::place(run, lines)).collect(),
                };
                first += kind.instances;
                set
            });
            Profile { kinds: kinds.collect(), shares: sum, think: self.think.times(scale) }
        })
    }

    fn memory(&self) -> u64 {
        self.locks.iter().map(|kind| lines::memory(kind.instances as u64, kind.lines.most())).sum()
    }
}

/// The profile with its data.
struct Profile {
    kinds: Vec<Set>,
    /// The sum of all shares.
    shares: f64,
    /// In cycles.
    think: Quantity,
}

/// The locks of a kind, with their data.
struct Set {
    kind: Kind,
    /// The number of its first lock.
    first: usize,
    /// The sum of the shares up to this one.
    up_to: f64,
    data: Vec<Lines>,
}

impl Load for Profile {
    // Every update of a line is one of its own.
    const MAY_BE_CUT_SHORT: bool = true;

    fn think_time(&self) -> u64 {
        self.think.mean()
    }

    fn turn(&self, thread: &mut Thread) {
        let chosen = thread.random.fraction() * self.shares;
        // Sums of shares are rounded: the last kind takes what is above all.
        let set = self.kinds.iter().find(|set| chosen < set.up_to).or(self.kinds.last());
        let Some(Set { kind, first, data, .. }) = set else { return };
        let instance = thread.random.below(data.len() as u64) as usize;
        let lines = kind.lines.draw(&mut thread.random) as usize;
        let access = if kind.reads > 0.0 && thread.random.fraction() < kind.reads {
            Access::Read
        } else {
            Access::Write
        };
        thread.section(first + instance, access, |thread| {
            match access {
                Access::Read => data[instance].read(lines),
                Access::Write => data[instance].update(lines),
            }
            delay(kind.hold.draw(&mut thread.random));
        });
        thread.think(|random| self.think.draw(random));
    }

    fn check(&self) -> Result<(), String> {
        for Set { kind, data, .. } in &self.kinds {
            lines::check(data).map_err(|problem| format!("{}: {problem}", kind.name))?;
        }
        Ok(())
    }
}
