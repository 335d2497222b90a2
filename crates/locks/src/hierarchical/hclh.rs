//! HCLH: waiters of a NUMA node line up in a queue of the node, which the first of them splices into the queue of the lock
//! as a whole.
//!
//! Victor Luchangco, Dan Nussbaum and Nir Shavit, "A hierarchical CLH queue lock", Euro-Par 2006. Deviations: whoever
//! splices a node's queue leaves that empty, so that the next one to come knows that it is the first; the paper leaves the last
//! queue node where it was, marked as spliced, and so reads queue nodes that may be in use again. An acquisition first tries
//! the lock as a whole. The rest is that of [`clh`](crate::queue::clh): nodes come from a pool, waiters can give up at a deadline.
//!
//! Properties: 8 bytes a lock, 64 more once it has been used, 64 for each node that has waited, and another 64 for each 7 nodes
//! beyond the first 4; one node of 64 bytes for the holder and for each waiter. Those who are spliced together are served
//! together, so no node can keep the others waiting for longer than it takes to serve the waiters it has. Waiting: spin, stp.
//! `try_lock` looks at the lock as a whole only.
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
//! - I1: those in the lock's queue obey the invariants of `clh`. In a node's queue, too, whoever swaps a queue node out of the
//!   tail, and nobody else, waits on its word.
//! - I2: whoever finds a node's queue empty splices it, soon and without waiting for anybody. So whoever waits in it will be in the
//!   lock's queue, right behind the one whose word it waits on.
//! - I3: directory and states stay until `dispose`. A release touches none of them after it has released the lock.
//!
//! # Ordering
//!
//! - E1: as E1 of `lazy` and of `directory`: the initialisation of the directory and of the states.
//! - E2: the newcomer's swap of a node's tail (Release) → the swap of its successor, or of whoever splices the queue
//!   (Acquire): the queue node's initialisation, which E2 of `clh` passes on.
//! - E3: the edges of `clh`: the critical section.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use lockwork_platform::{AtomicCell, Deadline, NODE_BYTES, Native, Platform, PoolNode};

use super::directory::Directory;
use super::lazy::Lazy;
use crate::api::RawLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::queue::clh::{Clh, ClhNode};
use crate::wait::{Spin, WaitPolicy, registered};

/// What is known of HCLH.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "hclh",
    family: Family::Hierarchical,
    fairness: "batches in FIFO order: those who line up on a node at the same time are served together",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: "gives up in the queue",
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
};

/// Pauses before a queue is spliced, for others to line up in it.
const COMBINING: u32 = 16;

/// The queue of a node.
#[repr(C, align(64))]
pub struct Queue<P: Platform> {
    /// The last of those who are not in the lock's queue yet.
    tail: P::Ptr<ClhNode<P>>,
}

impl<P: Platform> core::fmt::Debug for Queue<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Queue").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl<P: Platform> PoolNode<P> for Queue<P> {
    fn new() -> Self {
        Self { tail: P::Ptr::new(ptr::null_mut()) }
    }
}

impl<P: Platform> Queue<P> {
    /// Lines up, and waits for `lock`. Returns whether that was granted before the deadline.
    fn wait<W: WaitPolicy<P>>(
        &self,
        lock: &Clh<P, W>,
        node: NonNull<ClhNode<P>>,
        deadline: Option<Deadline>,
    ) -> bool {
        // ORDER: E2.
        if let Some(pred) = NonNull::new(self.tail.swap(node.as_ptr(), AcqRel)) {
            return Clh::<P, W>::wait_behind(pred, node, deadline);
        }
        P::pause_n(COMBINING);
        // ORDER: Acquire is E2. Whoever finds null learns nothing from it.
        match NonNull::new(self.tail.swap(ptr::null_mut(), Acquire)) {
            Some(last) => lock.append(node, last, deadline),
            None => unreachable!("I2: nobody else empties the queue"),
        }
    }
}

/// The lock as a whole, and the queues of the nodes.
type Nodes<P, W> = Directory<P, Clh<P, W>, Queue<P>>;

const _: () = {
    assert!(size_of::<Hclh<Native, Spin>>() == ALGORITHM.bytes);
    assert!(size_of::<Nodes<Native, Spin>>() == NODE_BYTES);
    assert!(size_of::<Queue<Native>>() == NODE_BYTES);
};

/// The HCLH lock, waiting by `W`.
#[repr(transparent)]
pub struct Hclh<P: Platform, W: WaitPolicy<P>> {
    directory: Lazy<P, Nodes<P, W>>,
}

impl<P: Platform, W: WaitPolicy<P>> core::fmt::Debug for Hclh<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Hclh").field("directory", &self.directory).finish()
    }
}

impl<W: WaitPolicy<Native>> Hclh<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { directory: Lazy::unused() }
    }
}

impl<P: Platform, W: WaitPolicy<P>> Hclh<P, W> {
    /// Lines up and waits.
    #[cold]
    fn queue_up(
        &self,
        directory: &Nodes<P, W>,
        node: NonNull<ClhNode<P>>,
        deadline: Option<Deadline>,
    ) -> Option<NonNull<ClhNode<P>>> {
        // From before the swap: a child of `fork` must be able to find every node of a ghost.
        let granted = registered::<P, _>(ptr::from_ref(self) as usize, || {
            directory.nodes.state(P::node(), |_| {}).wait(directory.root(), node, deadline)
        });
        granted.then_some(node)
    }

    #[inline(always)]
    fn acquire(&self, deadline: Option<Deadline>) -> Option<NonNull<ClhNode<P>>> {
        let directory = self.directory.get_or_make();
        let node = P::alloc_node();
        if directory.root().acquire_at_once(node) {
            return Some(node);
        }
        self.queue_up(directory, node, deadline)
    }
}

impl<P: Platform, W: WaitPolicy<P>> Drop for Hclh<P, W> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

// SAFETY: the holder holds the CLH lock (I1, I2), whose edges order the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>> RawLock<P> for Hclh<P, W> {
    type Token = NonNull<ClhNode<P>>;

    fn new() -> Self {
        Self { directory: Lazy::new() }
    }

    #[inline(always)]
    fn lock(&self) -> Self::Token {
        match self.acquire(None) {
            Some(token) => token,
            None => unreachable!("a wait without a deadline ends with the lock"),
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Token> {
        self.directory.get_or_make().root().try_lock()
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        self.acquire(Some(deadline))
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: Self::Token) {
        // SAFETY: the caller's contract.
        let directory = unsafe { self.directory.of_holder() };
        // SAFETY: the caller's contract: the token of the lock as a whole.
        unsafe { directory.root().unlock(token) };
    }

    fn is_locked(&self) -> bool {
        self.directory.get().is_some_and(|directory| directory.root().is_locked())
    }

    unsafe fn forget_waiters(&self, holder: Option<Self::Token>) {
        let Some(directory) = self.directory.get() else { return };
        directory.nodes.visit(|queue| queue.tail.store(ptr::null_mut(), Relaxed));
        // SAFETY: the caller's contract.
        unsafe { directory.root().forget_waiters(holder) };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        let clear = |directory: &Nodes<P, W>| unsafe { directory.nodes.dispose(|_| {}) };
        // SAFETY: the caller's contract.
        unsafe { self.directory.dispose(clear) };
    }
}
