//! The cohort locks that have names, named after their global lock and that of a node.

use super::cohort::{COHORT, CohortLock};
use crate::competitive::backoff::Backoff;
use crate::describe::{Descriptor, Order, Proof, Timed};
use crate::queue::{mcs::Mcs, ptl::Ptl, ticket::Ticket};

/// What is known of C-BO-MCS.
pub const C_BO_MCS: Descriptor = Descriptor {
    name: "c-bo-mcs",
    order: Order::FifoWithinNode,
    order_note: "none between nodes; at most `may-pass-local` hand-overs in a row within a node",
    timed: Timed::GivesUp("in the node's queue, polls the global lock"),
    summary: "an MCS queue for each NUMA node; their heads compete for a test-and-set lock with back-off",
    avoid: "One NUMA node: there it only costs. Wherever starvation matters: the global lock is unfair.",
    ..COHORT
};

/// What is known of C-TKT-TKT.
pub const C_TKT_TKT: Descriptor = Descriptor {
    name: "c-tkt-tkt",
    order: Order::FifoByNode,
    order_note: "at most `may-pass-local` hand-overs in a row within a node",
    bytes_per_waiter: 0,
    holder_node: false,
    timed: Timed::Polls("without a place in either queue"),
    summary: "a ticket lock for each NUMA node, and one for their first waiters",
    ..COHORT
};

/// What is known of C-PTL-TKT.
pub const C_PTL_TKT: Descriptor = Descriptor {
    name: "c-ptl-tkt",
    order: Order::FifoByNode,
    order_note: "at most `may-pass-local` hand-overs in a row within a node",
    bytes_per_waiter: 0,
    holder_node: false,
    timed: Timed::Polls("without a place in either queue"),
    summary: "a ticket lock for each NUMA node, and a partitioned one for their first waiters",
    properties: "Contended, the lock and its data stay on a node for up to `may-pass-local` hand-overs. A lock that has \
                 been used has 64 bytes of state, 64 for each node whose threads have waited for it, and 128 once two \
                 nodes have waited for a third.",
    ..COHORT
};

/// What is known of C-TKT-MCS.
pub const C_TKT_MCS: Descriptor = Descriptor {
    name: "c-tkt-mcs",
    proofs: &[Proof {
        source: "locks/src/state/mod.rs",
        by: &["c-tkt-mcs-stp", "c-tkt-mcs-stp(may-pass-local=1)"],
    }],
    order: Order::FifoByNode,
    order_note: "at most `may-pass-local` hand-overs in a row within a node",
    timed: Timed::GivesUp("in the node's queue, polls the global lock"),
    summary: "an MCS queue for each NUMA node; their heads draw tickets for a global lock",
    ..COHORT
};

/// What is known of C-MCS-MCS.
pub const C_MCS_MCS: Descriptor = Descriptor {
    name: "c-mcs-mcs",
    order: Order::FifoByNode,
    order_note: "at most `may-pass-local` hand-overs in a row within a node",
    summary: "an MCS queue for each NUMA node, and one of their heads",
    ..COHORT
};

/// The combinations there are: the global lock, that of a node, and the name of both.
pub const COMBINATIONS: &[(&str, &str, &str)] = &[
    ("backoff", "mcs-spin", "c-bo-mcs-spin"),
    ("backoff", "mcs-stp", "c-bo-mcs-stp"),
    ("ticket", "ticket", "c-tkt-tkt"),
    ("ticket-ls", "ticket-ls", "hticket-ls"),
    ("ptl", "ticket", "c-ptl-tkt"),
    ("ticket", "mcs-spin", "c-tkt-mcs-spin"),
    ("ticket", "mcs-stp", "c-tkt-mcs-stp"),
    ("mcs-spin", "mcs-spin", "c-mcs-mcs-spin"),
    ("mcs-stp", "mcs-stp", "c-mcs-mcs-stp"),
];

/// C-BO-MCS.
pub type CBoMcs<P, W> = CohortLock<P, Backoff<P>, Mcs<P, W>>;
/// C-TKT-TKT.
pub type CTktTkt<P> = CohortLock<P, Ticket<P>, Ticket<P>>;
/// C-PTL-TKT. Two slots: with more, the state for eight nodes would not fit 800 bytes.
pub type CPtlTkt<P> = CohortLock<P, Ptl<P, 2>, Ticket<P>>;
/// C-TKT-MCS.
pub type CTktMcs<P, W> = CohortLock<P, Ticket<P>, Mcs<P, W>>;
/// C-MCS-MCS.
pub type CMcsMcs<P, W> = CohortLock<P, Mcs<P, W>, Mcs<P, W>>;
