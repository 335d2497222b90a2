//! CC-Synch: requests are a queue, and the thread at its head serves those behind it.
//!
//! Panagiota Fatourou and Nikolaos D. Kallimanis, "Revisiting the combining synchronization technique", PPoPP 2012,
//! algorithm 1. Deviations: an idle delegate keeps no node (the paper's dummy), so its word is zero; the queue empties by a
//! compare-and-swap, as in MCS; nodes come from the platform's pool instead of being kept for each thread and delegate;
//! requesters wait by a policy, and may sleep.
//!
//! Properties: FIFO; 8 bytes a delegate; one node of 64 bytes for each requester and one for the combiner. One swap for each
//! request, and one line transfer between requester and combiner in each direction. The combiner serves [`COMBINED`]
//! requests at most, its own included, or for a tenth of a millisecond, and then hands the role to the next requester.
//!
//! # State
//!
//! ```text
//! tail ─────────────────────────────────────────┐      tail == null: idle
//! n1 (served) ─next→ n2 (requested) ─next→ … ─next→ last     nobody's request is in `last` yet
//! ```
//!
//! A requester brings the node that becomes `last`, and writes its request into the node that was `last`.
//!
//! # Invariants
//!
//! - I1: `tail` is null, or the one node of the queue into which no requester writes its request yet.
//! - I2: a node's request is written by the thread whose swap returned the node, before that thread links its successor.
//! - I3: at most one thread combines: the one whose swap returned null, or the one that is granted an unserved node.
//! - I4: a requester owns its node again once it is granted it; the combiner reads the node's link before that, and nothing
//!   afterwards.
//!
//! # Ordering
//!
//! - E1: the compare-and-swap of `tail` to null (Release) → the swap that finds null (Acquire): all sections run so far.
//! - E2: the store of `next` (Release) → the combiner's load (Acquire): the request, and what the requester did before.
//! - E3: the grant → the requester's wait: its section's effects, or, for the next combiner, all sections run so far.
//! - E4: the swap of `tail` (Release) → the swap that returns the node (Acquire): the node's initialisation.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Platform};

use super::request::{Granted, Request, forget_rest};
use super::{COMBINED, Delegate, Section, Stint};
use crate::describe::{Capabilities, Citation, Descriptor, Family, Kind, Order, Proof, Timed};
use crate::wait::{Patience, WaitPolicy};

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "cc-synch",
    kind: Kind::Delegate,
    capabilities: Capabilities::COMBINER,
    family: Family::Combining,
    order: Order::Fifo,
    order_note: "",
    bytes: 8,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("while its section has not begun"),
    proofs: &[
        Proof { source: file!(), by: &["cc-synch-spin", "cc-synch-stp", "cc-synch-stp, two", "h-synch-stp"] },
        Proof { source: "delegation/request.rs", by: &["cc-synch-stp"] },
    ],
    citation: Citation {
        key: "fatourou12",
        text: "Fatourou, Kallimanis: Revisiting the combining synchronization technique. PPoPP 2012",
    },
    summary: "requests are a queue, and the thread at its head serves those behind it",
    properties: "one swap for a request, and one line transfer each way; a combiner serves 128 requests at most",
    deviations: "an idle delegate keeps no node; nodes come from a pool; requesters may sleep",
    avoid: "machines on which the home of a line matters more than its transfers: dsm-synch",
    ..Descriptor::MUTEX
};

/// The CC-Synch delegate, whose requesters wait by `W` and whose combiner serves `MOST` requests at most.
#[repr(transparent)]
pub struct CcSynch<P: Platform, W, const MOST: u32 = COMBINED> {
    /// Where the next requester writes its request; null while idle. Written by every requester, and by a combiner that
    /// leaves the delegate idle.
    tail: P::Ptr<Request<P>>,
    policy: PhantomData<W>,
}

impl<P: Platform, W, const MOST: u32> core::fmt::Debug for CcSynch<P, W, MOST> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CcSynch").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl<P: Platform, W: WaitPolicy<P>, const MOST: u32> CcSynch<P, W, MOST> {
    /// Runs the section, here or in another thread. While this thread combines it keeps what `enter` returns.
    #[inline(always)]
    pub(super) unsafe fn execute_in<G>(&self, section: Section, enter: impl Fn() -> G) {
        let last = P::alloc_node();
        // ORDER: Acquire is E1 and E4, Release is E4.
        match NonNull::new(self.tail.swap(last.as_ptr(), AcqRel)) {
            // SAFETY: the caller's contract.
            Some(own) => unsafe { self.request(section, own, last, enter) },
            None => {
                let _entered = enter();
                let stint = Stint::of::<P>(MOST - 1);
                // SAFETY: I3: this thread combines, and its section has not been run.
                unsafe { section.run() };
                self.combine(last, stint);
            }
        }
    }

    /// Writes the request into `own`, links `last` behind it, and waits until the section has run, or runs it and combines.
    #[cold]
    unsafe fn request<G>(
        &self,
        section: Section,
        own: NonNull<Request<P>>,
        last: NonNull<Request<P>>,
        enter: impl Fn() -> G,
    ) {
        // SAFETY: I2, I4: ours to write to, and alive until we free it below.
        let request = unsafe { own.as_ref() };
        // SAFETY: I2: the combiner reads it once it finds the link.
        unsafe { request.note(section) };
        request.next.store(last.as_ptr(), Release); // ORDER: E2.
        // ORDER: E3.
        if request.wait::<W>(ptr::from_ref(self).addr()) == Granted::Combine {
            let _entered = enter();
            let stint = Stint::of::<P>(MOST - 1);
            // SAFETY: I3: this thread combines, and nobody has run the section.
            unsafe { section.run() };
            self.combine(last, stint);
        }
        // SAFETY: I4: ours again.
        unsafe { P::free_node(own) };
    }

    /// Serves the requests from `node` on, then leaves the delegate idle or makes another requester the combiner. The caller
    /// combines, and has run one section.
    fn combine(&self, mut node: NonNull<Request<P>>, mut stint: Stint) {
        loop {
            // SAFETY: I1, I4: the node is in the queue and has not been granted.
            let request = unsafe { node.as_ref() };
            let next = NonNull::new(request.next.load(Acquire)); // ORDER: E2.
            if next.is_none() && self.leave_idle(node) {
                return;
            }
            let Some(next) = next.filter(|_| stint.goes_on::<P>()) else {
                if stint.has_forked::<P>() {
                    return self.leave_in_child(node);
                }
                // SAFETY: I3: unserved; its requester, which is there or about to be, combines from now on.
                return unsafe { request.hand_over() }; // ORDER: E3.
            };
            // SAFETY: I2, I3: noted before the link (E2); one thread combines, and serves each node once.
            unsafe { request.run() };
            // SAFETY: I4: its successor is known, and nothing of it is touched from here on. ORDER: E3.
            unsafe { request.finish() };
            node = next;
        }
    }

    /// Ends to combine, from `node` on, in a child that a section has forked: drops the requests of threads that are gone.
    #[cold]
    fn leave_in_child(&self, mut node: NonNull<Request<P>>) {
        let mut patience = Patience::new::<P>();
        loop {
            // SAFETY: I1, I4: the node is in the queue and has not been granted.
            let request = unsafe { node.as_ref() };
            let behind = NonNull::new(request.next.load(Acquire)); // ORDER: E2.
            match behind {
                Some(next) if request.is_of_a_parent() => {
                    // SAFETY: I4: its requester is gone, and its successor is known.
                    unsafe { P::free_node(node) };
                    node = next;
                }
                // SAFETY: I3: unserved; its requester combines from now on.
                Some(_) => return unsafe { request.hand_over() }, // ORDER: E3.
                None if self.leave_idle(node) || forget_rest::<P>(&self.tail) => return,
                // A thread that the section has started is about to link.
                None => _ = patience.pause::<P>(),
            }
        }
    }

    /// Takes the last node out of the queue, unless a requester has been given it.
    fn leave_idle(&self, node: NonNull<Request<P>>) -> bool {
        // ORDER: Release is E1.
        let is_idle = self.tail.load(Relaxed) == node.as_ptr()
            && self.tail.compare_exchange(node.as_ptr(), ptr::null_mut(), Release, Relaxed).is_ok();
        if is_idle {
            // SAFETY: I1: no requester has it, and none can get it any more.
            unsafe { P::free_node(node) };
        }
        is_idle
    }
}

// SAFETY: I3: one thread at a time runs sections, each once (I2); E1 and E3 order them, and E3 orders a requester behind its own.
unsafe impl<P: Platform, W: WaitPolicy<P>, const MOST: u32> Delegate<P> for CcSynch<P, W, MOST> {
    fn new() -> Self {
        Self { tail: P::Ptr::new(ptr::null_mut()), policy: PhantomData }
    }

    unsafe fn execute(&self, section: Section) {
        // SAFETY: the caller's contract.
        unsafe { self.execute_in(section, || ()) };
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        if !self.tail.load(Relaxed).is_null() {
            return false;
        }
        let last = P::alloc_node::<Request<P>>();
        // ORDER: Acquire is E1, Release is E4.
        if self.tail.compare_exchange(ptr::null_mut(), last.as_ptr(), AcqRel, Relaxed).is_err() {
            // SAFETY: nobody knows of it.
            unsafe { P::free_node(last) };
            return false;
        }
        let stint = Stint::of::<P>(MOST - 1);
        // SAFETY: I3: this thread combines, and its section has not been run.
        unsafe { section.run() };
        self.combine(last, stint);
        true
    }

    fn is_busy(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }
}
