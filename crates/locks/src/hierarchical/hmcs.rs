//! HMCS: MCS queues at every level of the machine's hierarchy; the lock is handed over as near by as possible.
//!
//! Milind Chabbi, Michael Fagan and John Mellor-Crummey, "High performance locks for multi-level NUMA systems", PPoPP 2015.
//! The levels are those that [`Placement::place`](lockwork_platform::Placement::place) tells: the whole machine, its NUMA nodes where there are several,
//! and groups of cores that share their last-level cache where a node has several. Deviations: an acquisition first tries
//! the root's queue alone, which is all that an uncontended one needs; queues are released from below, because
//! the next holder may destroy the lock; waiters can give up at a deadline at every level; a domain's state is
//! made when a thread there first has to wait.
//!
//! Properties: FIFO within each queue; at every level up to `may-pass-local` hand-overs in a row before the domains
//! beside get their turn, so with three levels a node may keep the lock for about the square of that. 8 bytes a lock,
//! 64 more once it has been used, 64 for each node and each group of cores that has waited, and 64 for each 7 children
//! of a domain beyond the first 2; a node of 64 bytes for each waiter, and one a level for those at the head of a
//! queue. Waiting: spin, stp, park, yield, aware. `try_lock` looks at the root's queue only. With one level, on a
//! machine without a hierarchy, this is MCS.
//!
//! State, invariants and ordering: `tree`.

use lockwork_platform::{Native, Platform};

use super::tree::{Entry, Tree};
use crate::describe::{Citation, Descriptor, Family, Keeps, Order, Timed};
use crate::knobs;
use crate::wait::Spin;

/// What is known of HMCS.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "hmcs",
    family: Family::Hierarchical,
    order: Order::FifoByNode,
    order_note: "in every queue of the tree; at most `may-pass-local` hand-overs in a row within a part of the machine",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    keeps: Keeps::Parts,
    timed: Timed::GivesUp("in any of the queues"),
    citation: Citation {
        key: "chabbi15",
        text: "Chabbi, Fagan, Mellor-Crummey: High performance locks for multi-level NUMA systems. PPoPP 2015",
    },
    summary: "a tree of MCS queues: for the machine, each NUMA node, and each group of cores that shares a cache",
    properties: "Contended, the lock and its data stay near for up to `may-pass-local` hand-overs at every level. A lock that \
                 has been used has 64 bytes of state, and 64 for each part of the machine whose threads have waited for it.",
    deviations: "The first attempt is for the root alone; queues are released from below; waiters can give up at every \
                 level; a part's state is made when needed.",
    avoid: "One NUMA node: there it is MCS at best. hmcs-spin: more threads than CPUs.",
    knobs: knobs::HIERARCHICAL,
    ..Descriptor::MUTEX
};

/// Everybody enters at the bottom.
#[derive(Debug)]
pub struct Bottom;

impl<P: Platform> Entry<P> for Bottom {
    #[inline(always)]
    fn is_below(_: &P::U32) -> bool {
        true
    }
    #[inline(always)]
    fn entered(_: &P::U32, _: bool) {}
    #[inline(always)]
    fn left(_: &P::U32, _: bool) {}
}

/// The HMCS lock, waiting by `W`.
pub type Hmcs<P, W> = Tree<P, W, Bottom>;

const _: () = assert!(size_of::<Hmcs<Native, Spin>>() == DESCRIPTOR.bytes);
