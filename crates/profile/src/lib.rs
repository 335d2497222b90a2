//! Which locks a program waits for, at whose hands, and for how long.
//!
//! The [`recorder`] writes to tables of fixed size in a mapped file ([`format`]), which outlives `_exit` and SIGKILL and can be read
//! while the program runs. It allocates nothing and takes no lock. It stands at the entry points of the preload library and, with their
//! feature `profile`, of the Rust and the C library; what all three share of a process that is recorded is in [`process`], and how one
//! that runs is asked to be in [`board`]. The crate `lockwork-profile-reader` turns a file into plain figures.
//!
//! What is measured, and how:
//!
//! | figure | of |
//! |---|---|
//! | contended acquisitions, time waited, its histogram | every acquisition that had to wait |
//! | other acquisitions and their hold times; think times | a sample by count: the first 64 of a thread all, then one in 2, 4, … 1024 |
//! | hold times after a wait, what part of it was behind others, how many waited at once | waits that are watched: those in which the thread gave up its CPU, the first 64 of a thread, and one in 16 of the others |
//! | blame: who waited for whom | waits that are watched, sampled in proportion to their length |
//!
//! Each sample has a weight, the inverse of the probability that it was drawn, which is what makes sums unbiased. The sum of
//! `weight · (weight − 1)` over a sample estimates the variance of its count; the reader's intervals come from that.
//!
//! A wait is blamed on those that released the lock while it lasted: the time from one release to the next belongs to the
//! later releaser, the time from the last release to the end of the wait to the last releaser. So the blame for a wait adds
//! up to the wait.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod board;
pub mod format;
pub mod histogram;
mod locks;
mod maps;
pub mod process;
pub mod recorder;
mod sampling;
mod stacks;
