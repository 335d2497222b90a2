//! One run, from its commands to its record.

mod child;
mod energy;
mod host;
mod pin;
pub mod process;
mod run;

pub use energy::{POWER, POWERCAP, Rapl};
pub(crate) use host::Host;
pub(crate) use run::{Bench, is_program};
