//! FC-MCS: waiters of a NUMA node publish requests, which the first of them, the combiner, makes into one piece of an
//! MCS queue.
//!
//! Dave Dice, Virendra J. Marathe and Nir Shavit, "Flat-combining NUMA locks", SPAA 2011. Deviations: the requests of a node
//! are a stack of the queue nodes themselves, not a list of records that threads keep and that must be cleaned up; the combiner is
//! whoever publishes into the empty stack, so there is no combiner lock for others to poll, and waiters can sleep; it
//! looks once, after a moment, not several times; an acquisition first tries the lock as a whole. The rest is that of
//! [`mcs`](crate::queue::mcs): nodes come from a pool, waiters can give up at a deadline.
//!
//! Properties: 8 bytes a lock, 64 more once it has been used, 64 for each node that has waited, and another 64 for each 7 nodes
//! beyond the first 4; one node of 64 bytes for the holder and for each waiter. Requests that are combined are served
//! together, so no node can keep the others waiting for longer than it takes to serve the waiters it has. Waiting: spin, stp.
//! `try_lock` looks at the lock as a whole only.
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
//! - I3: directory and states stay until `dispose`. A release touches none of them after it has released the lock.
//!
//! # Ordering
//!
//! - E1: as E1 of `lazy` and of `directory`: the initialisation of the directory and of the states.
//! - E2: the CAS that publishes a request (Release) → the combiner's swap of the stack (Acquire): the queue node's
//!   initialisation and its link.
//! - E3: the edges of `mcs`: the critical section, and the combiner's links.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Deadline, NODE_BYTES, Native, Platform, PoolNode};

use super::directory::Directory;
use super::lazy::Lazy;
use crate::api::RawLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::queue::mcs::{Mcs, McsNode};
use crate::wait::{Spin, WaitPolicy, registered};

/// What is known of FC-MCS.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "fc-mcs",
    family: Family::Hierarchical,
    fairness: "batches in FIFO order: those whose requests are combined are served together",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: "gives up in the queue",
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
};

/// Pauses before requests are combined, for others to publish theirs.
const COMBINING: u32 = 16;

/// The requests of a node.
#[repr(C, align(64))]
pub struct Requests<P: Platform> {
    /// The newest of the requests that are not in the lock's queue yet, linked to those before it.
    newest: P::Ptr<McsNode<P>>,
}

impl<P: Platform> core::fmt::Debug for Requests<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Requests").field("newest", &self.newest.load(Relaxed)).finish()
    }
}

impl<P: Platform> PoolNode<P> for Requests<P> {
    fn new() -> Self {
        Self { newest: P::Ptr::new(ptr::null_mut()) }
    }
}

/// Links a queue node that is not in the lock's queue. Returns what it was linked to.
fn relink<P: Platform>(node: NonNull<McsNode<P>>, next: *mut McsNode<P>) -> *mut McsNode<P> {
    // SAFETY: I1: its owner waits, or has given it up to the queue that it will be in.
    let link = unsafe { node.as_ref() }.link();
    // ORDER: Relaxed: E2 and E3 publish it.
    let before = link.load(Relaxed);
    link.store(next, Relaxed);
    before
}

impl<P: Platform> Requests<P> {
    /// Publishes a request. Returns whether its owner is the combiner.
    fn publish(&self, node: NonNull<McsNode<P>>) -> bool {
        let mut newest = self.newest.load(Relaxed);
        loop {
            relink(node, newest);
            // ORDER: Release is E2.
            match self.newest.compare_exchange(newest, node.as_ptr(), Release, Relaxed) {
                Ok(before) => return before.is_null(),
                Err(now) => newest = now,
            }
        }
    }

    /// Takes all requests, and links them in the order of their publication. Returns the last.
    fn combine(&self) -> NonNull<McsNode<P>> {
        // ORDER: Acquire is E2. Whoever finds null learns nothing from it.
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

    /// Publishes a request, and waits for `lock`. Returns whether that was granted before the deadline.
    fn wait<W: WaitPolicy<P>>(
        &self,
        lock: &Mcs<P, W>,
        node: NonNull<McsNode<P>>,
        deadline: Option<Deadline>,
    ) -> bool {
        if !self.publish(node) {
            return Mcs::<P, W>::wait_with(node, deadline);
        }
        P::pause_n(COMBINING);
        lock.append(node, self.combine(), deadline)
    }
}

/// The lock as a whole, and the requests of the nodes.
type Nodes<P, W> = Directory<P, Mcs<P, W>, Requests<P>>;

const _: () = {
    assert!(size_of::<FcMcs<Native, Spin>>() == ALGORITHM.bytes);
    assert!(size_of::<Nodes<Native, Spin>>() == NODE_BYTES);
    assert!(size_of::<Requests<Native>>() == NODE_BYTES);
};

/// The FC-MCS lock, waiting by `W`.
#[repr(transparent)]
pub struct FcMcs<P: Platform, W: WaitPolicy<P>> {
    directory: Lazy<P, Nodes<P, W>>,
}

impl<P: Platform, W: WaitPolicy<P>> core::fmt::Debug for FcMcs<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FcMcs").field("directory", &self.directory).finish()
    }
}

impl<W: WaitPolicy<Native>> FcMcs<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { directory: Lazy::unused() }
    }
}

impl<P: Platform, W: WaitPolicy<P>> FcMcs<P, W> {
    /// Publishes a request and waits.
    #[cold]
    fn request(
        &self,
        directory: &Nodes<P, W>,
        node: NonNull<McsNode<P>>,
        deadline: Option<Deadline>,
    ) -> Option<NonNull<McsNode<P>>> {
        // From before it is published: a child of `fork` must be able to find every node of a ghost.
        let granted = registered::<P, _>(ptr::from_ref(self) as usize, || {
            directory.nodes.state(P::node(), |_| {}).wait(directory.root(), node, deadline)
        });
        granted.then_some(node)
    }

    #[inline(always)]
    fn acquire(&self, deadline: Option<Deadline>) -> Option<NonNull<McsNode<P>>> {
        let directory = self.directory.get_or_make();
        let node = P::alloc_node();
        if directory.root().acquire_at_once(node) {
            return Some(node);
        }
        self.request(directory, node, deadline)
    }
}

impl<P: Platform, W: WaitPolicy<P>> Drop for FcMcs<P, W> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

// SAFETY: the holder holds the MCS lock (I1, I2), whose edges order the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>> RawLock<P> for FcMcs<P, W> {
    type Token = NonNull<McsNode<P>>;

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
        directory.nodes.visit(|requests| requests.newest.store(ptr::null_mut(), Relaxed));
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
