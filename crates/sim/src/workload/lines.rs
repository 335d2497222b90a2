//! Shared cache lines that sections read and write, and how to see that an update was lost.

use std::cell::Cell;

use lockwork_platform::DataCell;

use super::cells::{get, set};
use crate::memory::LINE;
use crate::platform::Plain;
use crate::simulation::Simulation;

/// The lines that one lock guards.
#[derive(Clone, Copy)]
pub(super) struct Lines(&'static [Line]);

#[repr(align(64))]
struct Line {
    /// How often it was updated, as the threads see it.
    value: Plain<u64>,
    /// The same, as the host sees it, at no cost.
    updates: Cell<u64>,
}

impl Lines {
    /// Puts so many lines into a run's memory.
    pub(super) fn place(run: &mut Simulation, count: usize) -> Self {
        let line = |_| Line { value: Plain::new(0), updates: Cell::new(0) };
        Self(run.place_all("the shared data", (0..count.max(1)).map(line)))
    }

    /// Reads and writes the first `count` lines; which line is next depends on what was read, so the accesses do not
    /// overlap.
    pub(super) fn update(self, count: usize) {
        for Line { value, updates } in self.0.iter().take(count) {
            set(value, get(value) + 1);
            updates.set(updates.get() + 1);
        }
    }

    /// Reads the first `count` lines, one after the other.
    pub(super) fn read(self, count: usize) {
        for line in self.0.iter().take(count) {
            let _ = get(&line.value);
        }
    }

    /// Reads all lines. Returns whether all have been updated equally often, as they have outside of updates of all.
    pub(super) fn are_equal(self) -> bool {
        let mut values = self.0.iter().map(|line| get(&line.value));
        let first = values.next();
        // All are looked at, whatever the first ones say.
        values.filter(|value| Some(*value) != first).count() == 0
    }

    /// The updates that were lost, from outside the run.
    pub(super) fn lost(self) -> u64 {
        let lost = |line: &Line| line.updates.get().saturating_sub(line.value.peek());
        self.0.iter().map(lost).max().unwrap_or(0)
    }
}

/// Bytes of the lines of so many locks, each with a line of its own.
pub(super) fn memory(locks: u64, lines: u64) -> u64 {
    locks.saturating_mul(lines.max(1) + 1).saturating_mul(LINE as u64)
}

/// Looks at all lines of a run, from outside.
pub(super) fn check(all: &[Lines]) -> Result<(), String> {
    match all.iter().map(|lines| lines.lost()).sum() {
        0 => Ok(()),
        lost => Err(format!("{lost} updates were lost: the lock does not exclude")),
    }
}
