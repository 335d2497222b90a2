//! The life of a process: its start, its choice of locks, its children, and what it says at its end.

pub(crate) mod counters;
mod filters;
pub(crate) mod fork;
mod output;
pub(crate) mod policy;
pub(crate) mod report;
pub(crate) mod start;
