//! Concurrency restriction: wrappers that decide how many threads may compete for a lock.

pub mod gcr;
mod knobs;
pub mod passive;
mod restriction;
