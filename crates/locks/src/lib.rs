//! Lock algorithms of the literature, each written once, generic over
//! [`Platform`](lockwork_platform::Platform): the same source runs natively, under model checkers and in simulation.
//!
//! Every algorithm implements [`RawLock`]. All-zero memory is a valid unlocked lock of every kind, so a
//! lock can be laid over a statically initialised `pthread_mutex_t`. No lock path allocates from the heap: queue nodes
//! come from the platform's pool.
#![no_std]

pub mod api;
pub mod biased;
pub mod blocking;
pub mod catalogue;
pub mod competitive;
pub mod cond;
pub mod dispatch;
pub mod erased;
pub mod hierarchical;
pub mod knobs;
pub mod load;
pub mod queue;
pub mod restrict;
pub mod rw;
pub mod spec;
pub mod wait;

pub use api::{RawLock, RawRwLock};
