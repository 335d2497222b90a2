//! What checks Lockwork's locks.
//!
//! - [`model`] and [`engines`]: loom and shuttle as ordinary [`Platform`](lockwork_platform::Platform)s, so that they
//!   run the very source that runs natively; [`model::sites`] weakens its orderings one by one.
//! - [`portable`]: a platform of nothing but the standard library, for Miri.
//! - [`erased`]: locks without their types, so that none of what follows is compiled once a lock.
//! - [`scenarios`]: the plays that both model checkers perform, for any lock.
//! - [`exploration`]: what runs them, and says how far.
//! - [`rw`]: reader-writer locks, and their plays in [`rw_plays`].
//! - [`sources`]: the files that ask for orderings, and the models that prove each; [`exceptions`]: what none proves.
//! - [`shelf`]: a reader-writer lock and what it guards.
//! - [`conformance`]: what every lock must do, on the real machine.
//! - [`child`]: a child of `fork` that ends.
//! - [`watchdog`] and [`crash`]: which test hangs or crashes, and where.

#![allow(clippy::missing_panics_doc, reason = "checks panic when they fail: that is what they are for")]

pub mod child;
pub mod conformance;
pub mod crash;
#[cfg(feature = "models")]
pub mod engines;
pub mod erased;
#[cfg(feature = "models")]
pub mod exceptions;
#[cfg(feature = "models")]
pub mod exploration;
#[cfg(feature = "models")]
pub mod largest;
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
#[cfg(feature = "models")]
pub mod sources;
mod stderr;
pub mod watchdog;

use lockwork_locks::describe::Waiting;
use lockwork_locks::registry::{Entry, LOCKS};

/// Whether a lock stands for its algorithm where only that matters, as to wrappers: one that spins, as a rule, and one
/// that spins and then parks. Other waiting policies change how long a waiter takes to see that it was granted the
/// lock.
#[must_use]
pub fn is_typical(lock: &Entry) -> bool {
    let first = LOCKS.iter().find(|other| other.descriptor.name == lock.descriptor.name);
    lock.waiting == Waiting::SpinThenPark || first == Some(lock)
}
