//! The locks that count readers by node, and their rules.

use lockwork_platform::Native;

use super::{ByNode, Rule};
use crate::describe::{Citation, Descriptor, Family, Favour, Keeps, Kind, Order, Proof, RwFacts, Timed};
use crate::hierarchical::combinations::CTktTkt;
use crate::hierarchical::cst::Cst;

const CALCIU: Citation = Citation {
    key: "calciu13",
    text: "Calciu, Dice, Lev, Luchangco, Marathe, Shavit: NUMA-aware reader-writer locks. PPoPP 2013",
};

const KASHYAP: Citation = Citation {
    key: "kashyap17",
    text: "Kashyap, Min, Kim: Scalable NUMA-aware blocking synchronization primitives. USENIX ATC 2017",
};

/// The locks whose models prove the sources of all of them.
const RW_BY_NODE: &[&str] = &["cst-rwsem", "cst-rwsem-neutral", "c-rw-rp"];

/// C-RW-WP.
pub const C_RW_WP: Descriptor = Descriptor {
    name: "c-rw-wp",
    proofs: &[
        Proof { source: "rw/by_node.rs", by: RW_BY_NODE },
        Proof { source: "rw/by_node/shared.rs", by: RW_BY_NODE },
        Proof { source: "rw/by_node/slow.rs", by: RW_BY_NODE },
    ],
    family: Family::Hierarchical,
    order: Order::WritersAs("c-tkt-tkt"),
    order_note: "readers wait until no writer is left",
    bytes: 8,
    keeps: Keeps::Parts,
    timed: Timed::Polls(""),
    citation: CALCIU,
    summary: "readers count themselves on their node; writers take a cohort lock, bar all nodes and wait for the readers",
    properties: "Readers of different nodes share no line that changes; a writer changes one a node. Used, it has 320 bytes of \
                 state, and 64 for each further node whose threads read, and for each whose writers have waited.",
    deviations: "The bar is part of each node's count: readers need no fence. Writers hand the bars on with the lock.",
    avoid: "Many writes, more threads than CPUs, and where readers must get in.",
    ..Descriptor::rwlock(
        Favour::Writers,
        "a thread that has read locks joins the readers that a writer waits for",
    )
};

/// C-RW-RP.
pub const C_RW_RP: Descriptor = Descriptor {
    name: "c-rw-rp",
    kind: Kind::RwLock(RwFacts {
        favour: Favour::Readers,
        recursion: "readers join those that a writer waits for",
    }),
    order: Order::WritersAs("c-tkt-tkt"),
    order_note: "once no reader is left",
    deviations: "The bar is part of each node's count: readers need no fence. While a writer waits, readers share a count; \
                 nothing bounds its wait.",
    avoid: "Many writes, more threads than CPUs, and where writers must get in.",
    ..C_RW_WP
};

/// C-RW-NP.
pub const C_RW_NP: Descriptor = Descriptor {
    name: "c-rw-np",
    kind: Kind::RwLock(RwFacts {
        favour: Favour::Neutral,
        recursion: "a thread that has read locks joins the readers that a writer waits for",
    }),
    order: Order::WritersAs("c-tkt-tkt"),
    order_note: "and readers among them while a writer waits",
    deviations: "The bar is part of each node's count: readers need no fence, and go through the writers' lock only \
                 while one waits.",
    avoid: "Many writes, more threads than CPUs.",
    ..C_RW_WP
};

/// The lock of the kernel paper, writers preferred.
pub const CST_RWSEM: Descriptor = Descriptor {
    name: "cst-rwsem",
    kind: Kind::RwLock(RwFacts {
        favour: Favour::WritersOfNode,
        recursion: "a thread that has read locks joins the readers that a writer waits for",
    }),
    order: Order::WritersAs("cst-mutex"),
    order_note: "readers wait until no writer of the holder's node is awake and waits, or that node's turn is over",
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("in the writers' queue, or wakes at the deadline"),
    citation: KASHYAP,
    summary: "readers count themselves on their node and park there; writers queue, bar all nodes and wait for the readers",
    deviations: "The bar is part of each node's count: readers need no fence. A release lets readers in if no writer of its node \
                 is awake. A writer that waits for readers parks, too, and \
                 the last of them wakes it. Readers sleep on a word of their node: the \
                 writer wakes one, and that one the rest.",
    avoid: "Many writes.",
    ..C_RW_WP
};

/// The same, starving nobody.
pub const CST_RWSEM_NEUTRAL: Descriptor = Descriptor {
    name: "cst-rwsem-neutral",
    kind: Kind::RwLock(RwFacts {
        favour: Favour::Neutral,
        recursion: "a thread that has read locks joins the readers that a writer waits for",
    }),
    order: Order::WritersAs("cst-mutex"),
    order_note: "a reader that has slept behind two of them queues, too",
    deviations: "As cst-rwsem, and: every release lifts the bars; a reader that has slept behind two of them goes through the \
                 writers' lock.",
    avoid: "Many writes.",
    ..CST_RWSEM
};

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident: $descriptor:ident, $parks:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $rule;

        impl Rule for $rule {
            const FAVOUR: Favour = match $descriptor.rw().expect("a reader-writer lock").favour {
                // Which writers are handed the lock, the writers' lock says.
                Favour::WritersOfNode => Favour::Writers,
                favour => favour,
            };
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
