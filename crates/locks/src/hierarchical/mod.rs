//! Hierarchical locks: waiters of one NUMA node are served together, so that the lock and its data travel less.

pub mod ahmcs;
pub mod batched;
pub mod cna;
pub mod cohort;
pub mod combinations;
pub mod cst;
pub mod directory;
pub mod fc_mcs;
pub mod fissile;
pub mod hclh;
pub mod hmcs;
pub mod hticket;
pub mod part;
pub mod shfl;
pub mod tree;
