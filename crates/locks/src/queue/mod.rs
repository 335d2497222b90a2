//! Queue locks: every waiter waits on a word of its own, and is served in the order of arrival or nearly so.

pub mod alock;
pub mod clh;
pub mod hemlock;
pub mod k42;
pub mod mcs;
pub mod mcs_timepub;
pub mod mcs_try;
pub(crate) mod node_lock;
pub mod ptl;
pub mod reciprocating;
pub mod ticket;
pub mod twa;
