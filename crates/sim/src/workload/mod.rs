//! What simulated threads do.

mod cells;
mod distribution;
mod frame;
mod lines;
mod lock_time;
mod locks;
mod map;
mod micro;
mod mix;
mod observed;
mod queue;
mod sections;
mod usage;

pub use distribution::Distribution;
pub use frame::{Frame, Phases};
pub use lock_time::LockTime;
pub use locks::{Protection, SimLock, build};
pub use map::{Map, Structure};
pub use micro::Micro;
pub use mix::Mix;
pub use observed::{PerSection, RunResult};
pub use queue::Queue;
pub use sections::{Kind, Quantity, Sections};
pub use usage::LockUse;

use crate::machine::Machine;
use crate::simulation::Options;

/// Bytes of simulated memory that the data of a workload can take. As much again is left for locks and their queue nodes.
pub const MEMORY: u64 = crate::memory::BYTES as u64 / 2;

/// What threads do with data that a lock guards. Every run ends with a look at the data: a lock that does not exclude
/// is caught.
pub trait Workload: std::fmt::Debug + Send + Sync {
    /// Runs it, with this many threads for this long, on a machine.
    #[must_use]
    fn run(&self, frame: &Frame, machine: &Machine, lock: &Protection, options: Options) -> RunResult;

    /// Bytes of simulated memory that its data take, roughly: [`MEMORY`] at most can be had.
    #[must_use]
    fn memory(&self) -> u64;
}
