//! The simulated machine: the locks of Lockwork, the very same code, on NUMA machines one does not own.
//!
//! [`Sim`] is a [`Platform`](lockwork_platform::Platform). A [`Machine`] says what the hardware and the operating
//! system cost; a [`Simulation`] runs threads on it, deterministically: a seed determines every event.
//!
//! The model is good for orderings, crossovers and collapses, not for cycle counts: an in-order core with a store
//! buffer in total store order, caches without capacity, a directory that moves one copy of a line at a time, run
//! queues with time slices.

mod engine;
mod file;
pub mod machine;
mod memory;
mod platform;
pub mod probe;
mod random;
mod simulation;
mod stacks;
mod toml;
pub mod validate;
mod wheel;
pub mod workload;

pub use engine::stats::{Counts, Transfers};
pub use engine::trace::Step;
pub use engine::{End, ProcessId};
pub use file::FileError;
pub use machine::Machine;
pub use platform::{Plain, Sim, Word};
pub use random::Random;
pub use simulation::{Options, Outcome, Simulation, begin_trace, delay, end_trace, note, now};
pub use stacks::most_threads;
