//! Bytes of a lock beside those of another, measured on real locks: the simulation counts none.

use lockwork_footprint::Footprint;
use lockwork_locks::registry::Spec;

/// NUMA nodes of the machine that the locks are measured for.
const NODES: usize = 8;

/// A lock that has state for the nodes that use it, beside one that has it for all nodes from the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) lock: &'static str,
    /// Whether threads of all nodes have used the lock; else those of one.
    pub(super) everywhere: bool,
    pub(super) than: Than,
}

/// The lock that has all from the start.
#[derive(Debug, Clone, Copy)]
pub(super) enum Than {
    /// One of so many bytes.
    Bytes(usize),
    /// One of ours, as large as it is once all nodes have used it.
    Lock(&'static str),
}

impl Memory {
    /// Bytes of the lock, and of the other one.
    ///
    /// # Panics
    ///
    /// If there is no such lock, which a test excludes.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let measure = |lock| match Spec::mutex(lock) {
            Ok(spec) => Footprint::measure(spec, NODES),
            Err(error) => panic!("{lock}: {error}"),
        };
        let own = measure(self.lock);
        let other = match self.than {
            Than::Bytes(bytes) => bytes,
            Than::Lock(lock) => measure(lock).all_nodes,
        };
        (if self.everywhere { own.all_nodes } else { own.one_node }, other)
    }
}
