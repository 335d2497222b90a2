//! The cohort locks of the catalogue, named after their global lock and that of a node.

use super::cohort::CohortLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::competitive::backoff::Backoff;
use crate::queue::{mcs::Mcs, ptl::Ptl, ticket::Ticket};

/// What all of them have in common.
pub(super) const COHORT: Algorithm = Algorithm {
    name: "cohort",
    family: Family::Hierarchical,
    fairness: "FIFO within a node and between nodes; at most `may-pass-local` hand-overs in a row within a node",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: "gives up in either queue",
    citation: Citation {
        key: "dice12",
        text: "Dice, Marathe, Shavit: Lock cohorting: a general technique for designing NUMA locks. PPoPP 2012; \
               ACM TOPC 1(2), 2015",
    },
    summary: "",
    properties: "Contended, the lock and its data stay on a node for up to `may-pass-local` hand-overs. A lock that has \
                 been used has 64 bytes of state, and 64 for each node whose threads have waited for it.",
    deviations: "The first attempt is for the global lock alone; the node's lock is released before the global one; \
                 waiters who give up are passed over instead of announcing it; a node's state is made when needed.",
    avoid: "One NUMA node: there it only costs. Spinning parts: more threads than CPUs.",
};

/// What is known of C-BO-MCS.
pub const C_BO_MCS: Algorithm = Algorithm {
    name: "c-bo-mcs",
    fairness: "within a node in turn, between nodes none; at most `may-pass-local` hand-overs in a row within a node",
    timed: "gives up in the node's queue, polls the global lock",
    summary: "an MCS queue for each NUMA node; their heads compete for a test-and-set lock with back-off",
    avoid: "One NUMA node: there it only costs. Wherever starvation matters: the global lock is unfair.",
    ..COHORT
};

/// What is known of C-TKT-TKT.
pub const C_TKT_TKT: Algorithm = Algorithm {
    name: "c-tkt-tkt",
    fairness: "in turn within a node and between nodes; at most `may-pass-local` hand-overs in a row within a node",
    bytes_per_waiter: 0,
    holder_node: false,
    timed: "polls, without a place in either queue",
    summary: "a ticket lock for each NUMA node, and one for their first waiters",
    ..COHORT
};

/// What is known of C-PTL-TKT.
pub const C_PTL_TKT: Algorithm = Algorithm {
    name: "c-ptl-tkt",
    fairness: "in turn within a node and between nodes; at most `may-pass-local` hand-overs in a row within a node",
    bytes_per_waiter: 0,
    holder_node: false,
    timed: "polls, without a place in either queue",
    summary: "a ticket lock for each NUMA node, and a partitioned one for their first waiters",
    properties: "Contended, the lock and its data stay on a node for up to `may-pass-local` hand-overs. A lock that has \
                 been used has 64 bytes of state, 64 for each node whose threads have waited for it, and 128 once two \
                 nodes have waited for a third.",
    ..COHORT
};

/// What is known of C-TKT-MCS.
pub const C_TKT_MCS: Algorithm = Algorithm {
    name: "c-tkt-mcs",
    fairness: "in turn within a node and between nodes; at most `may-pass-local` hand-overs in a row within a node",
    timed: "gives up in the node's queue, polls the global lock",
    summary: "an MCS queue for each NUMA node; their heads draw tickets for a global lock",
    ..COHORT
};

/// What is known of C-MCS-MCS.
pub const C_MCS_MCS: Algorithm = Algorithm {
    name: "c-mcs-mcs",
    fairness: "in turn within a node and between nodes; at most `may-pass-local` hand-overs in a row within a node",
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
