//! Turns critical sections of C programs into closures that a delegate runs.
//!
//! Delegation needs sections as closures; C programs have lock and unlock. The way is that of RCL's tool (Lozi et al., USENIX ATC
//! 2012, section 4): [`clang`] reads a file, [`flow`] says which locks may be held where, [`section`] finds each section's text, its
//! exits and the variables that it shares with the function around it, or why it must stay as it is, and [`rewrite`] writes the
//! closure. What stays takes and releases the delegate as a lock.

mod call;
mod clang;
mod classes;
mod database;
mod edit;
mod error;
mod flow;
mod locks;
mod project;
mod rewrite;
mod rule;
mod section;
mod source;
mod tree;
mod vocabulary;
mod ways;

pub use call::{Frame, Seen};
pub use error::Error;
pub use project::{Change, Choice, Finding, Mutex, Project};
#[doc(hidden)]
pub use rule::Rule;
pub use section::{Refusal, Section};
pub use vocabulary::Vocabulary;
