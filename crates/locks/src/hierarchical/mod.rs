//! Hierarchical locks: waiters of one NUMA node are served together, so that the lock and its data travel less.

pub mod cohort;
pub mod combinations;
pub mod directory;
pub mod lazy;
pub mod part;
