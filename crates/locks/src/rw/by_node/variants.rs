//! The locks that count readers by node, as the catalogue has them.

use lockwork_platform::Native;

use super::{ByNode, Rule};
use crate::catalogue::Citation;
use crate::hierarchical::combinations::CTktTkt;
use crate::hierarchical::cst::Cst;
use crate::rw::catalogue::{Favour, RwAlgorithm};

const CALCIU: Citation = Citation {
    key: "calciu13",
    text: "Calciu, Dice, Lev, Luchangco, Marathe, Shavit: NUMA-aware reader-writer locks. PPoPP 2013",
};

const KASHYAP: Citation = Citation {
    key: "kashyap17",
    text: "Kashyap, Min, Kim: Scalable NUMA-aware blocking synchronization primitives. USENIX ATC 2017",
};

/// C-RW-WP.
pub const C_RW_WP: RwAlgorithm = RwAlgorithm {
    name: "c-rw-wp",
    favour: Favour::Writers,
    waiting: "spin",
    by_node: true,
    fairness: "writers as in c-tkt-tkt; readers wait until no writer is left",
    bytes: 8,
    bytes_per_waiter: 0,
    timed: "polls",
    recursion: "a thread that has read locks joins the readers that a writer waits for",
    citation: CALCIU,
    summary: "readers count themselves on their node; writers take a cohort lock, bar all nodes and wait for the readers",
    properties: "Readers of different nodes share no line that changes; a writer changes one a node. Used, it has 320 bytes of \
                 state, and 64 for each further node whose threads read, and for each whose writers have waited.",
    deviations: "The bar is part of each node's count: readers need no fence. Writers hand the bars on with the lock.",
    avoid: "Many writes, more threads than CPUs, and where readers must get in.",
};

/// C-RW-RP.
pub const C_RW_RP: RwAlgorithm = RwAlgorithm {
    name: "c-rw-rp",
    favour: Favour::Readers,
    fairness: "writers as in c-tkt-tkt, once no reader is left",
    recursion: "readers join those that a writer waits for",
    deviations: "The bar is part of each node's count: readers need no fence. While a writer waits, readers share a count; \
                 nothing bounds its wait.",
    avoid: "Many writes, more threads than CPUs, and where writers must get in.",
    ..C_RW_WP
};

/// C-RW-NP.
pub const C_RW_NP: RwAlgorithm = RwAlgorithm {
    name: "c-rw-np",
    favour: Favour::Neutral,
    fairness: "readers and writers as in c-tkt-tkt, where a writer waits",
    deviations: "The bar is part of each node's count: readers need no fence, and go through the writers' lock only \
                 while one waits.",
    avoid: "Many writes, more threads than CPUs.",
    ..C_RW_WP
};

/// The lock of the kernel paper, writers preferred.
pub const CST_RWSEM: RwAlgorithm = RwAlgorithm {
    name: "cst-rwsem",
    waiting: "stp",
    fairness: "writers as in cst-mutex; readers wait until no writer is awake and waits",
    bytes_per_waiter: 64,
    timed: "gives up in the writers' queue, or wakes at the deadline",
    citation: KASHYAP,
    summary: "readers count themselves on their node and park there; writers queue, bar all nodes and wait for the readers",
    deviations: "The bar is part of each node's count: readers need no fence. A release lets readers in if no writer of its node \
                 is awake. A writer that waits for readers parks, too, and \
                 the last of them wakes it. Readers sleep on a word of their node: the \
                 writer wakes one, and that one the rest.",
    avoid: "Many writes, and where readers must get in.",
    ..C_RW_WP
};

/// The same, starving nobody.
pub const CST_RWSEM_NEUTRAL: RwAlgorithm = RwAlgorithm {
    name: "cst-rwsem-neutral",
    favour: Favour::Neutral,
    fairness: "writers as in cst-mutex; a reader that has slept behind two of them queues, too",
    deviations: "As cst-rwsem, and: every release lifts the bars; a reader that has slept behind two of them goes through the \
                 writers' lock.",
    avoid: "Many writes.",
    ..CST_RWSEM
};

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident: $algorithm:ident, $parks:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $rule;

        impl Rule for $rule {
            const FAVOUR: Favour = $algorithm.favour;
            const PARKS: bool = $parks;
        }
    )*};
}

rules! {
    /// Of [`CRwWp`].
    WritersSpinning: C_RW_WP, false;
    /// Of [`CRwRp`].
    ReadersSpinning: C_RW_RP, false;
    /// Of [`CRwNp`].
    NeutralSpinning: C_RW_NP, false;
    /// Of [`CstRwsem`].
    WritersParking: CST_RWSEM, true;
    /// Of [`CstRwsemNeutral`].
    NeutralParking: CST_RWSEM_NEUTRAL, true;
}

/// C-RW-WP.
pub type CRwWp<P> = ByNode<P, CTktTkt<P>, WritersSpinning>;
/// C-RW-RP.
pub type CRwRp<P> = ByNode<P, CTktTkt<P>, ReadersSpinning>;
/// C-RW-NP.
pub type CRwNp<P> = ByNode<P, CTktTkt<P>, NeutralSpinning>;
/// CST's reader-writer lock, writers preferred.
pub type CstRwsem<P> = ByNode<P, Cst<P>, WritersParking>;
/// The same, starving nobody.
pub type CstRwsemNeutral<P> = ByNode<P, Cst<P>, NeutralParking>;

const _: () = assert!(size_of::<CRwWp<Native>>() == C_RW_WP.bytes);

/// The state of a lock is what its properties say.
const _: () = assert!(
    size_of::<super::Shared<Native, CTktTkt<Native>>>() == 192
        && size_of::<super::Shared<Native, Cst<Native>>>() == 192
);
