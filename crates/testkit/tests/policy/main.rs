//! `LOCKWORK_POLICY`: which locks of a program a rule finds, what it does to them, and what is refused.
//!
//! The programs (`crates/testkit/policy`) are compiled in the ways that change what can be known of them: with and
//! without exported symbols, at a fixed address or anywhere, stripped, with calls of different lengths, in libraries.
//! What a rule decided is read from the report of `LOCKWORK_VERBOSE`, so these tests cover that, too.

#[path = "../common/mod.rs"]
mod common;
mod harness;
mod kinds;
mod places;
mod refused;
mod report;
mod safety;
