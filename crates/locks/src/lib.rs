//! Lock algorithms of the literature, each written once, generic over
//! [`Platform`](lockwork_platform::Platform): the same source runs natively, under model checkers and in simulation.
//!
//! Every algorithm implements [`RawLock`]. All-zero memory is a valid unlocked lock of every kind, so a
//! lock can be laid over a statically initialised `pthread_mutex_t`. No lock path allocates from the heap: queue nodes
//! come from the platform's pool.
#![no_std]

pub mod adaptive;
pub mod api;
pub mod biased;
pub mod blocking;
pub mod competitive;
pub mod cond;
pub mod delegation;
pub mod describe;
pub mod hierarchical;
pub mod inplace;
pub mod knobs;
#[cfg(test)]
mod limited;
pub mod load;
pub mod queue;
pub mod registry;
pub mod restrict;
pub mod rw;
pub mod state;
pub mod wait;

pub use api::{RawLock, RawRwLock};
