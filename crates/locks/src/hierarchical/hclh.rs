//! HCLH: waiters of a NUMA node line up in a queue of the node, which the first of them splices into the queue of the lock
//! as a whole.
//!
//! Victor Luchangco, Dan Nussbaum and Nir Shavit, "A hierarchical CLH queue lock", Euro-Par 2006. Deviations: whoever
//! splices a node's queue leaves that empty, so that the next one to come knows that it is the first; the paper leaves
//! the last queue node where it was, marked as spliced, and so reads queue nodes that may be in use again. An
//! acquisition first tries the lock as a whole. The rest is that of [`clh`](crate::queue::clh): nodes come from a pool,
//! waiters can give up at a deadline.
//!
//! Properties: 8 bytes a lock, 64 more once it has been used, 64 for each node that has waited, and another 64 for each 7
//! nodes beyond the first 4; one node of 64 bytes for the holder and for each waiter. Those who are spliced together are
//! served together, so no node can keep the others waiting for longer than it takes to serve the waiters it has. Waiting:
//! spin, stp, park, yield, aware. `try_lock` looks at the lock as a whole only.
//!
//! # State
//!
//! ```text
//! lock ─→ directory: CLH lock, nodes ─→ node state: tail
//!
//! tail of the lock ────────────────────────────────────────┐
//! holder ←waits─ a1 ←waits─ a2 ←waits─ b1 ←waits─ … ←waits─ last      a1, a2: spliced by a1
//! tail of node a ──────────┐
//!                a3 ←waits─ a4                                        a3 is about to splice them
//! ```
//!
//! # Invariants
//!
//! - I1: those in the lock's queue obey the invariants of `clh`. In a node's queue, too, whoever swaps a queue node out
//!   of the tail, and nobody else, waits on its word.
//! - I2: whoever finds a node's queue empty splices it, soon and without waiting for anybody. So whoever waits in it
//!   will be in the lock's queue, right behind the one whose word it waits on.
//!
//! # Ordering
//!
//! The directory and the states are those of [`batched`](super::batched), with its E1.
//!
//! - E1: the newcomer's swap of a node's tail (Release) → the swap of its successor, or of whoever splices the queue
//!   (Acquire): the queue node's initialisation, which E2 of `clh` passes on.
//! - E2: the edges of `clh`: the critical section.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use lockwork_platform::{AtomicCell, NODE_BYTES, Native, Platform, PoolNode};

use super::batched::{Batch, Batched, Nodes};
use super::directory::{Node, Users};
use crate::describe::{Citation, Descriptor, Family, Keeps, Order, Proof, Timed};
use crate::queue::clh::{Clh, ClhNode};
use crate::wait::{Returning, Spin, Wait, WaitPolicy};

/// What is known of HCLH.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "hclh",
    family: Family::Hierarchical,
    order: Order::FifoByBatch,
    order_note: "those who line up on a node at the same time are served together",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    keeps: Keeps::Parts,
    timed: Timed::GivesUp("in the queue"),
    proofs: &[Proof { source: file!(), by: &["hclh-stp", "hclh-stp, splicing"] }],
    citation: Citation {
        key: "luchangco06",
        text: "Luchangco, Nussbaum, Shavit: A hierarchical CLH queue lock. Euro-Par 2006",
    },
    summary: "a CLH queue to which the first waiter of a NUMA node adds all that have lined up there",
    properties: "Close to FIFO, and no node starves the others. 64 bytes more once used, and for each node that has \
                 waited. The holder keeps a 64-byte node.",
    deviations: "A spliced queue is left empty instead of marked; the lock as a whole is tried first; waiters can give up \
                 at a deadline.",
    avoid: "Machines with one NUMA node; few waiters for each node (then it is CLH). hclh-spin: more threads than CPUs.",
    ..Descriptor::MUTEX
};

/// Pauses before a queue is spliced, for others to line up in it.
const COMBINING: u32 = 16;

/// The queue of a node.
#[repr(C, align(64))]
pub struct Queue<P: Platform, W> {
    /// The last of those who are not in the lock's queue yet.
    tail: P::Ptr<ClhNode<P>>,
    users: P::Usize,
    policy: PhantomData<W>,
}

impl<P: Platform, W> core::fmt::Debug for Queue<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Queue").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl<P: Platform, W: WaitPolicy<P>> PoolNode<P> for Queue<P, W> {
    fn new() -> Self {
        Self { tail: P::Ptr::new(ptr::null_mut()), users: P::Usize::new(0), policy: PhantomData }
    }
}

impl<P: Platform, W: WaitPolicy<P>> Node<P, Clh<P, W>> for Queue<P, W> {
    #[inline(always)]
    fn users(&self) -> Users<'_, P> {
        Users(&self.users)
    }
}

impl<P: Platform, W: WaitPolicy<P>> Batch<P> for Queue<P, W> {
    type Lock = Clh<P, W>;

    unsafe fn wait(&self, lock: &Clh<P, W>, node: NonNull<ClhNode<P>>, wait: &Wait) -> bool {
        // ORDER: E1.
        if let Some(pred) = NonNull::new(self.tail.swap(node.as_ptr(), AcqRel)) {
            return Clh::<P, W>::wait_behind(pred, node, wait);
        }
        P::pause_n(COMBINING);
        // ORDER: Acquire is E1. A thread that finds null learns nothing from it.
        match NonNull::new(self.tail.swap(ptr::null_mut(), Acquire)) {
            Some(last) => lock.append(node, last, wait),
            None => unreachable!("I2: nobody else empties the queue"),
        }
    }

    fn come_back(
        left: NonNull<ClhNode<P>>,
        returning: &mut Returning<P, ClhNode<P>>,
        wait: &Wait,
    ) -> Option<NonNull<ClhNode<P>>> {
        Clh::<P, W>::wait_again(left, returning, wait)
    }

    fn reset(&self) {
        self.tail.store(ptr::null_mut(), Relaxed);
    }
}

/// The HCLH lock, waiting by `W`.
pub type Hclh<P, W> = Batched<P, Queue<P, W>>;

const _: () = {
    assert!(size_of::<Hclh<Native, Spin>>() == DESCRIPTOR.bytes);
    assert!(size_of::<Nodes<Native, Queue<Native, Spin>>>() == NODE_BYTES);
    assert!(size_of::<Queue<Native, Spin>>() == NODE_BYTES);
};
