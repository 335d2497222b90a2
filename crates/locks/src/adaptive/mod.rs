//! Locks that choose for themselves how they are acquired and handed on.

pub mod auto;
pub(crate) mod rate;
