//! H-Synch: a queue of requests for each NUMA node, whose heads take turns by a lock.
//!
//! Panagiota Fatourou and Nikolaos D. Kallimanis, "Revisiting the combining synchronization technique", PPoPP 2012, section 4.
//! Deviations: the lock of the heads is [`Mcs`] where the paper has CLH; the rest as for [`CcSynch`], which the queues are.
//!
//! Properties: FIFO by node; a pointer and a lock, 16 bytes, at rest; the queues of [`NODES`] nodes, a line each, from the first
//! request on. A combiner serves the requests of its node, [`COMBINED`] at most, so that the data of the sections stays there;
//! combiners are served in the order of arrival.
//!
//! # State
//!
//! ```text
//! queues ─→ [ queue of node 0 | queue of node 1 | … ]      each as in cc_synch
//! heads: the lock that a combiner of a node holds while it runs sections
//! ```
//!
//! # Invariants
//!
//! - I1: sections are run by a thread that combines in the queue of its node, or none, and holds `heads`.
//! - I2: the queues are published once, and removed by `dispose` only.
//!
//! # Ordering
//!
//! - E1: `heads` orders the sections of combiners. The edges of `cc_synch` order requesters and their combiner.
//! - E2: the compare-and-swap of `queues` (Release) → the loads of it (Acquire): the queues.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Platform, PoolNode};

use super::cc_synch::CcSynch;
use super::{COMBINED, Delegate, Section, lock_inside, unlock_inside};
use crate::api::RawLock;
use crate::describe::{Capabilities, Citation, Descriptor, Family, Kind, Order, Proof, Timed};
use crate::queue::mcs::Mcs;
use crate::wait::WaitPolicy;

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "h-synch",
    kind: Kind::Delegate,
    capabilities: Capabilities::COMBINER,
    family: Family::Combining,
    order: Order::FifoByNode,
    bytes: 16,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("while its section has not begun"),
    proofs: &[Proof { source: file!(), by: &["h-synch-stp"] }],
    citation: Citation {
        key: "fatourou12",
        text: "Fatourou, Kallimanis: Revisiting the combining synchronization technique. PPoPP 2012",
    },
    summary: "a cc-synch queue for each NUMA node, whose combiners take turns",
    properties: "the data of sections stays on a node for 128 requests at most",
    deviations: "combiners take turns by an MCS lock instead of CLH; otherwise as cc-synch",
    avoid: "machines with one node: cc-synch does the same with one lock less",
    ..Descriptor::MUTEX
};

/// Queues; the nodes of larger machines share them.
const NODES: usize = 8;

/// A queue on a line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
struct Queue<P: Platform, W: WaitPolicy<P>, const MOST: u32>(CcSynch<P, W, MOST>);

/// The queues of all nodes.
#[repr(C)]
#[derive(Debug)]
pub struct Queues<P: Platform, W: WaitPolicy<P>, const MOST: u32>([Queue<P, W, MOST>; NODES]);

impl<P: Platform, W: WaitPolicy<P>, const MOST: u32> PoolNode<P> for Queues<P, W, MOST> {
    fn new() -> Self {
        Self(core::array::from_fn(|_| Queue(CcSynch::new())))
    }
}

/// The H-Synch delegate, whose requesters wait by `W` and whose combiners serve `MOST` requests at most.
#[repr(C)]
#[derive(Debug)]
pub struct HSynch<P: Platform, W: WaitPolicy<P>, const MOST: u32 = COMBINED> {
    queues: P::Ptr<Queues<P, W, MOST>>,
    heads: Mcs<P, W>,
}

/// The turn of a combiner.
struct Turn<'a, P: Platform, W: WaitPolicy<P>> {
    heads: &'a Mcs<P, W>,
    token: <Mcs<P, W> as RawLock<P>>::Token,
    /// Of the process in which it began.
    generation: u32,
}

impl<P: Platform, W: WaitPolicy<P>> Drop for Turn<'_, P, W> {
    fn drop(&mut self) {
        // SAFETY: acquired by its maker, and released here only.
        unsafe { unlock_inside(self.heads, self.token, self.generation) };
    }
}

impl<P: Platform, W: WaitPolicy<P>, const MOST: u32> HSynch<P, W, MOST> {
    fn turn(&self) -> Turn<'_, P, W> {
        Turn { heads: &self.heads, token: lock_inside(&self.heads), generation: P::generation() }
    }

    /// The queue of the calling thread's node.
    #[inline(always)]
    fn queue(&self) -> &CcSynch<P, W, MOST> {
        // SAFETY: I2. ORDER: E2.
        let queues = match unsafe { self.queues.load(Acquire).as_ref() } {
            Some(queues) => queues,
            None => self.make(),
        };
        let node = if P::domains() > 1 { P::domain() % NODES } else { 0 };
        &queues.0[node].0
    }

    #[cold]
    fn make(&self) -> &Queues<P, W, MOST> {
        let fresh = P::alloc_node::<Queues<P, W, MOST>>();
        // ORDER: E2, both ways.
        let there = match self.queues.compare_exchange(ptr::null_mut(), fresh.as_ptr(), Release, Acquire) {
            Ok(_) => fresh.as_ptr(),
            Err(there) => {
                // SAFETY: nobody knows of it.
                unsafe { P::free_node(fresh) };
                there
            }
        };
        // SAFETY: I2.
        unsafe { &*there }
    }
}

// SAFETY: I1: one thread at a time holds `heads`; each queue runs a section once, and E1 orders those of different queues.
unsafe impl<P: Platform, W: WaitPolicy<P>, const MOST: u32> Delegate<P> for HSynch<P, W, MOST> {
    fn new() -> Self {
        Self { queues: P::Ptr::new(ptr::null_mut()), heads: Mcs::new() }
    }

    unsafe fn execute(&self, section: Section) {
        // SAFETY: the caller's contract.
        unsafe { self.queue().execute_in(section, || self.turn()) };
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        let Some(token) = self.heads.try_lock() else { return false };
        let _turn = Turn { heads: &self.heads, token, generation: P::generation() };
        // SAFETY: I1.
        unsafe { section.run() };
        true
    }

    fn is_busy(&self) -> bool {
        self.heads.is_locked()
    }

    unsafe fn dispose(&self) {
        // ORDER: the caller's exclusion.
        if let Some(queues) = NonNull::new(self.queues.swap(ptr::null_mut(), Relaxed)) {
            // SAFETY: the caller's contract.
            unsafe { P::free_node(queues) };
        }
    }
}
