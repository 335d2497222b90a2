//! What a lock algorithm needs of the machine, and nothing else.
//!
//! Every algorithm of `lockwork-locks` is written once, against the trait [`Platform`]. [`Native`] is
//! the real machine (Linux on x86_64 or aarch64, `no_std`); model checkers and simulators are further
//! implementations of the same trait, so that what is checked is what runs.
//!
//! Dependencies point one way: platform ← locks ← everything else.
#![no_std]

mod arch;
pub mod barrier;
pub mod batches;
pub mod bookmarks;
mod cells;
mod cpu;
pub mod environment;
mod native;
pub mod nodes;
pub mod observe;
mod pool;
pub mod published;
pub mod sched;
pub mod slice;
mod special;
pub mod states;
pub mod sys;
mod tls;
pub mod topology;
pub mod waiters;

pub use bookmarks::Bookmarks;
pub use cells::{
    AtomicCell, AtomicInt, Cells, ConstPlatform, DataCell, FutexCell, NativeData, NativeFutex, TimedOut,
};
pub use cpu::{Clock, Cpu, Deadline};
pub use native::Native;
pub use nodes::NODE_BYTES;
pub use pool::{Pool, PoolNode, PooledState};
pub use sched::{LastSeen, Sched, cpu_time, monitor};
pub use special::{LoadControl, SharedWords, VisibleReaders};
pub use topology::Placement;
pub use waiters::{Cancel, Waiters};

use core::fmt::Debug;

/// The machine as every lock sees it, in layers; then what one lock alone asks for.
pub trait Platform:
    Cells
    + Cpu
    + Placement
    + Sched
    + Pool
    + Waiters
    + SharedWords
    + VisibleReaders
    + LoadControl
    + Bookmarks
    + Sized
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<P> Platform for P where
    P: Cells
        + Cpu
        + Placement
        + Sched
        + Pool
        + Waiters
        + SharedWords
        + VisibleReaders
        + LoadControl
        + Bookmarks
        + Sized
        + Debug
        + Send
        + Sync
        + 'static
{
}
