//! Hierarchical ticket lock: a ticket lock for each NUMA node, and one for all; both wait in proportion to the line.
//!
//! Tudor David, Rachid Guerraoui and Vasileios Trigonakis, "Everything you always wanted to know about synchronization
//! but were afraid to ask", SOSP 2013; libslock's `htlock`, LiTL's `htlockepfl`. It is C-TKT-TKT but for how its
//! threads wait, and so it is a [`CohortLock`] here, of two `ticket-ls`. Deviations: libslock gives a node that gets
//! the lock a batch of 128 tickets, and those who find none left poll until the next batch; here they stand in line,
//! and the hand-overs are counted (`may-pass-local`, 64 unless a spec says otherwise). A lock from `try_lock` is
//! released as any other, and any thread may release. The rest is that of [`cohort`](super::cohort): first the global
//! lock alone is tried, a node's state is made when needed, and so on.
//!
//! Properties: those of C-TKT-TKT; waiters far back in a line disturb the holder little, and come late if it moves
//! fast. Waiting: spin. A timed acquisition polls, without a place in either line. `try_lock` looks at the global lock
//! only.
//!
//! State, invariants and ordering: `cohort` and `ticket`.

use lockwork_platform::Native;

use super::cohort::CohortLock;
use super::combinations::C_TKT_TKT;
use crate::competitive;
use crate::describe::Descriptor;
use crate::queue::ticket::{Proportional, Ticket};

/// What is known of libslock's hierarchical ticket lock.
pub const LIBSLOCK: Descriptor = Descriptor {
    name: "hticket-ls",
    citation: competitive::LIBSLOCK,
    summary: "a ticket lock for each NUMA node, and one for their first waiters, who look the less often the longer the line",
    deviations: "A cohort lock of ticket-ls: those who come when a node has had its share stand in line instead of polling. The \
                 first attempt is for the global lock alone; a node's state is made when needed.",
    ..C_TKT_TKT
};

/// The hierarchical ticket lock.
pub type HTicket<P> = CohortLock<P, Ticket<P, Proportional>, Ticket<P, Proportional>>;

const _: () = assert!(size_of::<HTicket<Native>>() == LIBSLOCK.bytes);
