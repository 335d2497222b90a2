//! What checks Lockwork's locks.
//!
//! - [`model`] and [`engines`]: loom and shuttle as ordinary [`Platform`](lockwork_platform::Platform)s, so that they run the
//!   very source that runs natively; [`model::sites`] weakens its orderings one by one.
//! - [`portable`]: a platform of nothing but the standard library, for Miri.
//! - [`erased`]: locks without their types, so that none of what follows is compiled once a lock.
//! - [`scenarios`]: the plays that both model checkers perform, for any lock.
//! - [`exploration`]: what runs them, and says how far.
//! - [`rw`]: reader-writer locks, and their plays in [`rw_plays`].
//! - [`shelf`]: a reader-writer lock and what it guards.
//! - [`conformance`]: what every lock must do, on the real machine.

#![allow(clippy::missing_panics_doc, reason = "checks panic when they fail: that is what they are for")]

pub mod conformance;
#[cfg(feature = "models")]
pub mod engines;
pub mod erased;
#[cfg(feature = "models")]
pub mod exploration;
#[cfg(feature = "models")]
pub mod model;
#[cfg(feature = "models")]
pub mod mutation;
pub mod portable;
pub mod rw;
#[cfg(feature = "models")]
pub mod rw_plays;
#[cfg(feature = "models")]
pub mod scenarios;
pub mod shelf;
pub mod watchdog;
