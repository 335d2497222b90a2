//! What simulated threads do.

mod distribution;
mod locks;
mod micro;

pub use distribution::Distribution;
pub use locks::{SimLock, build};
pub use micro::{Micro, MicroResult, Phases};
