//! `auto-rw`: the reader-writer lock that needs no choosing, which `auto` names where a reader-writer lock is wanted.
//!
//! Our own, made of parts. On a machine with one NUMA node it is one word ([`futex`](super::futex), writers preferred). On others it
//! counts readers by node ([`by_node`](super::by_node), as CST's lock: Sanidhya Kashyap, Changwoo Min and Taesoo Kim, "Scalable
//! NUMA-aware blocking synchronization primitives", USENIX ATC 2017), around the CST-mutex for its writers. Up to [`BATCH`] of these
//! go one after the other, of whatever node: a writer that comes after others finds the readers barred already. Until a second
//! thread comes to the lock, the word that will name the counts is all there is (`by_node/alone.rs`). Around either
//! there is a bias that learns ([`bravo`](super::bravo)): where nobody writes for long, readers leave the lock alone. On two CPUs there is none.
//!
//! Properties: 24 bytes; used by several threads on a machine with several nodes, 192 more, 64 for each further node that reads, and the state of
//! the writers' lock, all of which goes to other locks when it is idle. Writers wait for the readers that are there, and for writers
//! that came before, and nobody else. Readers wait for a batch of writers; on one node for as long as writers wait.
//!
//! # State
//!
//! | machine       | bytes 0–11                 | 12–23 |
//! |---------------|----------------------------|-------|
//! | one node      | the word of `rw-futex`, and its two others | the bias |
//! | several nodes | 0–7: the name of the state; before a second thread comes, who has the lock | the bias at 8–19 |
//!
//! # Invariants
//!
//! - I1: how many nodes the machine has is found out once, and the first answer stays, right or, for lack of memory, wrong. So all
//!   threads take the same part.
//! - I2: what the part promises.
//!
//! # Ordering
//!
//! That of the parts.

use core::mem::ManuallyDrop;

use lockwork_platform::{Deadline, Native, Platform};

use super::RwFutexWriters;
use super::bravo::Bravo;
use super::by_node::{ByNode, Rule};
use crate::api::RawRwLock;
use crate::describe::{Citation, Descriptor, Family, Favour, Keeps, Order, Proof, Timed};
use crate::hierarchical::cst::Cst;

/// The locks whose models prove the bias that learns, and the lock that is one word until a second thread comes.
const LEARNED: &[&str] = &["auto-rw"];

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "auto-rw",
    family: Family::Adaptive,
    order: Order::WritersAs("cst-mutex"),
    order_note: "readers wait for a batch of writers, on one node until no writer is left",
    bytes: 24,
    bytes_per_waiter: 64,
    keeps: Keeps::Parts,
    timed: Timed::OfMode("as rw-futex on one node, else as cst-rwsem; polls while readers are visible"),
    proofs: &[
        Proof { source: "rw/bravo/learning.rs", by: LEARNED },
        Proof { source: "rw/by_node/alone.rs", by: LEARNED },
    ],
    citation: Citation {
        key: "kashyap17",
        text: "Kashyap, Min, Kim: Scalable NUMA-aware blocking synchronization primitives. USENIX ATC 2017",
    },
    summary: "one word on one NUMA node, else counts by node and batches of writers; a bias for readers where nobody writes for long",
    properties: "As rw-futex with writers preferred on machines with one node. On others readers of different nodes share no \
                 line that changes, and no line at all once nobody has written for some time.",
    deviations: "Our own, made of rw-futex, cst-rwsem and BRAVO's bias, which rests until a period without writes has passed.",
    avoid: "Where readers must get in among many writers on one node.",
    ..Descriptor::rwlock(
        Favour::Writers,
        "a thread that has read locks passes writers on one node, and else joins the readers that a writer waits for",
    )
};

/// Writers that get in one after the other before readers do.
pub const BATCH: u32 = 128;

/// The rule of the lock on several nodes.
#[derive(Debug)]
pub struct Batches;

impl Rule for Batches {
    const FAVOUR: Favour = Favour::Writers;
    const PARKS: bool = true;
    const BATCH: u32 = BATCH;
    const ALONE: bool = true;
}

type OneNode<P> = Bravo<P, RwFutexWriters<P>, true>;
type Nodes<P, R> = Bravo<P, ByNode<P, Cst<P>, R>, true>;

/// The lock that needs no choosing.
#[repr(C)]
pub union Auto<P: Platform, R: Rule = Batches> {
    one_node: ManuallyDrop<OneNode<P>>,
    nodes: ManuallyDrop<Nodes<P, R>>,
}

const _: () = assert!(size_of::<Auto<Native>>() == DESCRIPTOR.bytes);

/// Does something with the part that the machine asks for.
macro_rules! part {
    ($auto:expr, $lock:ident => $then:expr) => {
        if P::domains() == 1 {
            // SAFETY: I1: the part that was made.
            let $lock: &OneNode<P> = unsafe { &$auto.one_node };
            $then
        } else {
            // SAFETY: as above.
            let $lock: &Nodes<P, R> = unsafe { &$auto.nodes };
            $then
        }
    };
}

impl<P: Platform, R: Rule> core::fmt::Debug for Auto<P, R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        part!(self, lock => lock.fmt(f))
    }
}

impl<P: Platform, R: Rule> Drop for Auto<P, R> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

// SAFETY: I2.
unsafe impl<P: Platform, R: Rule> RawRwLock<P> for Auto<P, R> {
    fn new() -> Self {
        if P::domains() == 1 {
            Self { one_node: ManuallyDrop::new(Bravo::new()) }
        } else {
            Self { nodes: ManuallyDrop::new(Bravo::new()) }
        }
    }

    #[inline(always)]
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        part!(self, lock => lock.lock_shared(deadline))
    }

    #[inline]
    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        part!(self, lock => lock.lock_shared_again(deadline))
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        part!(self, lock => lock.try_lock_shared())
    }

    #[inline(always)]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller's contract.
        part!(self, lock => unsafe { lock.unlock_shared() });
    }

    #[inline(always)]
    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        part!(self, lock => lock.lock_exclusive(deadline))
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        part!(self, lock => lock.try_lock_exclusive())
    }

    #[inline(always)]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller's contract.
        part!(self, lock => unsafe { lock.unlock_exclusive() });
    }

    unsafe fn downgrade(&self) {
        // SAFETY: the caller's contract.
        part!(self, lock => unsafe { lock.downgrade() });
    }

    fn is_locked(&self) -> bool {
        part!(self, lock => lock.is_locked())
    }

    unsafe fn forget_waiters(&self) {
        // SAFETY: the caller's contract.
        part!(self, lock => unsafe { lock.forget_waiters() });
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        part!(self, lock => unsafe { lock.dispose() });
    }
}
