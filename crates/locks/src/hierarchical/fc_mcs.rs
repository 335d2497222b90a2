//! FC-MCS: waiters of a NUMA node publish requests, which the first of them, the combiner, makes into one piece of an
//! MCS queue.
//!
//! Dave Dice, Virendra J. Marathe and Nir Shavit, "Flat-combining NUMA locks", SPAA 2011. Deviations: the requests of a
//! node are a stack of the queue nodes themselves, not a list of records that threads keep and that must be cleaned up;
//! the combiner is whoever publishes into the empty stack, so there is no combiner lock for others to poll, and waiters
//! can sleep; it looks once, after a moment, not several times; an acquisition first tries the lock as a whole. The
//! rest is that of [`mcs`](crate::queue::mcs): nodes come from a pool, waiters can give up at a deadline.
//!
//! Properties: 8 bytes a lock, 64 more once it has been used, 64 for each node that has waited, and another 64 for each
//! 7 nodes beyond the first 4; one node of 64 bytes for the holder and for each waiter. Requests that are combined are
//! served together, so no node can keep the others waiting for longer than it takes to serve the waiters it has.
//! Waiting: spin, stp, park, yield, aware. `try_lock` looks at the lock as a whole only.
//!
//! # State
//!
//! ```text
//! lock ─→ directory: MCS lock, nodes ─→ node state: newest
//!
//! tail of the lock ──────────────────────────────────┐
//! holder ─next→ a1 ─next→ a2 ─next→ b1 ─next→ … ─next→ last      a1, a2: combined by a1
//! newest of node a ─→ a5 ─next→ a4 ─next→ a3                     a3 is about to combine them
//! ```
//!
//! # Invariants
//!
//! - I1: queue nodes in the lock's queue obey the invariants of `mcs`; the owner of one that is not there yet touches only
//!   its word, and whoever makes it part of the queue only its `next`.
//! - I2: whoever finds a node's stack empty combines it, soon and without waiting for anybody, and is the eldest in it. So
//!   whoever has published will be in the lock's queue.
//!
//! # Ordering
//!
//! The directory and the states are those of [`batched`](super::batched), with its E1.
//!
//! - E1: the CAS that publishes a request (Release) → the combiner's swap of the stack (Acquire): the queue node's
//!   initialisation and its link.
//! - E2: the edges of `mcs`: the critical section, and the combiner's links.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, NODE_BYTES, Native, Platform, PoolNode};

use super::batched::{Batch, Batched, Nodes};
use super::directory::{Node, Users};
use crate::describe::{Citation, Descriptor, Family, Keeps, Order, Proof, Timed};
use crate::queue::mcs::{Mcs, McsNode};
use crate::wait::{Returning, Spin, Wait, WaitPolicy};

/// What is known of FC-MCS.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "fc-mcs",
    family: Family::Hierarchical,
    order: Order::FifoByBatch,
    order_note: "those whose requests are combined are served together",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    keeps: Keeps::Parts,
    timed: Timed::GivesUp("in the queue"),
    proofs: &[Proof { source: file!(), by: &["fc-mcs-stp", "fc-mcs-stp, splicing"] }],
    citation: Citation {
        key: "dice11fc",
        text: "Dice, Marathe, Shavit: Flat-combining NUMA locks. SPAA 2011",
    },
    summary: "an MCS queue to which the first waiter of a NUMA node adds the requests of all that wait there",
    properties: "Close to FIFO, and no node starves the others. 64 bytes more once used, and for each node that has \
                 waited. The holder keeps a 64-byte node.",
    deviations: "Requests are a stack of queue nodes instead of per-thread records, and whoever finds it empty is the \
                 combiner; the lock as a whole is tried first; waiters can give up at a deadline.",
    avoid: "Machines with one NUMA node; few waiters for each node (then it is MCS). fc-mcs-spin: more threads than CPUs.",
    ..Descriptor::MUTEX
};

/// Pauses before requests are combined, for others to publish theirs.
const COMBINING: u32 = 16;

/// The requests of a node.
#[repr(C, align(64))]
pub struct Requests<P: Platform, W> {
    /// The newest of the requests that are not in the lock's queue yet, linked to those before it.
    newest: P::Ptr<McsNode<P>>,
    users: P::Usize,
    policy: PhantomData<W>,
}

impl<P: Platform, W> core::fmt::Debug for Requests<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Requests").field("newest", &self.newest.load(Relaxed)).finish()
    }
}

impl<P: Platform, W: WaitPolicy<P>> PoolNode<P> for Requests<P, W> {
    fn new() -> Self {
        Self { newest: P::Ptr::new(ptr::null_mut()), users: P::Usize::new(0), policy: PhantomData }
    }
}

impl<P: Platform, W: WaitPolicy<P>> Node<P, Mcs<P, W>> for Requests<P, W> {
    #[inline(always)]
    fn users(&self) -> Users<'_, P> {
        Users(&self.users)
    }
}

/// Links a queue node that is not in the lock's queue. Returns what it was linked to.
fn relink<P: Platform>(node: NonNull<McsNode<P>>, next: *mut McsNode<P>) -> *mut McsNode<P> {
    // SAFETY: I1: its owner waits, or has given it up to the queue that it will be in.
    let link = unsafe { node.as_ref() }.link();
    // ORDER: Relaxed: E1 and E2 publish it.
    let before = link.load(Relaxed);
    link.store(next, Relaxed);
    before
}

impl<P: Platform, W> Requests<P, W> {
    /// Publishes a request. Returns whether its owner is the combiner.
    fn publish(&self, node: NonNull<McsNode<P>>) -> bool {
        let mut newest = self.newest.load(Relaxed);
        loop {
            relink(node, newest);
            // ORDER: Release is E1.
            match self.newest.compare_exchange(newest, node.as_ptr(), Release, Relaxed) {
                Ok(before) => return before.is_null(),
                Err(now) => newest = now,
            }
        }
    }

    /// Takes all requests, and links them in the order of their publication. Returns the last.
    fn combine(&self) -> NonNull<McsNode<P>> {
        // ORDER: Acquire is E1. A thread that finds null learns nothing from it.
        let Some(last) = NonNull::new(self.newest.swap(ptr::null_mut(), Acquire)) else {
            unreachable!("I2: nobody else takes them")
        };
        let (mut node, mut behind) = (last, ptr::null_mut());
        while let Some(before) = NonNull::new(relink(node, behind)) {
            behind = node.as_ptr();
            node = before;
        }
        last
    }
}

impl<P: Platform, W: WaitPolicy<P>> Batch<P> for Requests<P, W> {
    type Lock = Mcs<P, W>;

    unsafe fn wait(&self, lock: &Mcs<P, W>, node: NonNull<McsNode<P>>, wait: &Wait) -> bool {
        if !self.publish(node) {
            return Mcs::<P, W>::wait_with(node, wait);
        }
        P::pause_n(COMBINING);
        lock.append(node, self.combine(), wait)
    }

    fn come_back(
        left: NonNull<McsNode<P>>,
        returning: &mut Returning<P, McsNode<P>>,
        wait: &Wait,
    ) -> Option<NonNull<McsNode<P>>> {
        Mcs::<P, W>::wait_again(left, returning, wait)
    }

    fn reset(&self) {
        self.newest.store(ptr::null_mut(), Relaxed);
    }
}

/// The FC-MCS lock, waiting by `W`.
pub type FcMcs<P, W> = Batched<P, Requests<P, W>>;

const _: () = {
    assert!(size_of::<FcMcs<Native, Spin>>() == DESCRIPTOR.bytes);
    assert!(size_of::<Nodes<Native, Requests<Native, Spin>>>() == NODE_BYTES);
    assert!(size_of::<Requests<Native, Spin>>() == NODE_BYTES);
};
