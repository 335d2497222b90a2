//! What a run counts.

use serde::Serialize;

use crate::machine::Distance;

/// Cache lines moved, by how far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Transfers {
    /// Within a core, or an upgrade of the only copy.
    pub same: u64,
    /// Within a last-level cache.
    pub llc: u64,
    /// Within a node, its memory included.
    pub node: u64,
    /// Between nodes.
    pub remote: u64,
}

impl Transfers {
    pub(crate) fn count(&mut self, distance: Distance) {
        match distance {
            Distance::Same => self.same += 1,
            Distance::Llc => self.llc += 1,
            Distance::Node => self.node += 1,
            Distance::Hops(_) => self.remote += 1,
        }
    }

    /// Lines that came from another core or from memory.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.llc + self.node + self.remote
    }
}

/// What all threads together did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Operations on cells: loads, stores, read-modify-writes.
    pub operations: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Read-modify-writes.
    pub atomics: u64,
    /// Cycles spent polling.
    pub spun: u64,
    /// Switches from one thread to another on a CPU.
    pub context_switches: u64,
    /// Those of them that were to another process.
    pub process_switches: u64,
    /// Threads that lost their CPU at the end of a slice.
    pub preemptions: u64,
    /// Sleeps on futexes.
    pub parks: u64,
    /// Sleepers woken.
    pub wakes: u64,
    /// Threads that came to another core.
    pub migrations: u64,
}
