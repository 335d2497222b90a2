//! What simulated threads do.

mod locks;
mod micro;

pub use locks::{SimLock, build};
pub use micro::{Micro, MicroResult};
