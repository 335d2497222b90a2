//! DSM-Synch: a queue of requests, each of which waits on a node of its own; the head serves those behind it.
//!
//! Panagiota Fatourou and Nikolaos D. Kallimanis, "Revisiting the combining synchronization technique", PPoPP 2012,
//! algorithm 2. Deviations: nodes come from the platform's pool, one for each request instead of two for each thread and
//! delegate; requesters wait by a policy, and may sleep; a served request is granted as soon as its successor is known.
//!
//! Properties: FIFO; 8 bytes a delegate; one node of 64 bytes for each requester. One swap for each request. A requester waits
//! on memory that it brought, which matters where the home of a line does. The combiner serves [`COMBINED`] requests at
//! most, its own included.
//!
//! # State
//!
//! ```text
//! tail ──────────────────────────────────┐      tail == null: idle
//! combiner ─next→ n2 ─next→ … ─next→ last
//! ```
//!
//! # Invariants
//!
//! - I1: `tail` is null or the last node of the queue; a node is linked by its predecessor's `next`, once.
//! - I2: at most one thread combines: the one whose swap returned null, or the one that is granted an unserved node.
//! - I3: a requester owns its node again once it is granted it, or leaves the queue as its combiner. The combiner knows the
//!   node's successor before that, or that there is none, and touches nothing of the node afterwards.
//!
//! # Ordering
//!
//! - E1: the compare-and-swap of `tail` to null (Release) → the swap that finds null (Acquire): all sections run so far.
//! - E2: the store of `next` (Release) → the combiner's load (Acquire): the successor's request, and what came before it.
//! - E3: the grant → the requester's wait: its section's effects, or, for the next combiner, all sections run so far.
//! - E4: the swap of `tail` (Release) → the swap of the successor (Acquire): the node's initialisation.

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
    name: "dsm-synch",
    kind: Kind::Delegate,
    capabilities: Capabilities::COMBINER,
    family: Family::Combining,
    order: Order::Fifo,
    order_note: "",
    bytes: 8,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("while its section has not begun"),
    proofs: &[Proof { source: file!(), by: &["dsm-synch-spin", "dsm-synch-stp", "dsm-synch-stp, two"] }],
    citation: Citation {
        key: "fatourou12",
        text: "Fatourou, Kallimanis: Revisiting the combining synchronization technique. PPoPP 2012",
    },
    summary: "a queue of requests as cc-synch, each of which waits on a node of its own",
    properties: "one swap for a request; a requester waits on memory that it brought; a combiner serves 128 requests at most",
    deviations: "one node for a request instead of two; nodes come from a pool; requesters may sleep",
    avoid: "machines on which the home of a line does not matter: cc-synch",
    ..Descriptor::MUTEX
};

/// The DSM-Synch delegate, whose requesters wait by `W` and whose combiner serves `MOST` requests at most.
#[repr(transparent)]
pub struct DsmSynch<P: Platform, W, const MOST: u32 = COMBINED> {
    /// The last request; null while idle. Written by every requester, and by a combiner that leaves the delegate idle.
    tail: P::Ptr<Request<P>>,
    policy: PhantomData<W>,
}

impl<P: Platform, W, const MOST: u32> core::fmt::Debug for DsmSynch<P, W, MOST> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DsmSynch").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl<P: Platform, W: WaitPolicy<P>, const MOST: u32> DsmSynch<P, W, MOST> {
    /// Runs the section of `own`, the caller's, and serves those behind it, then leaves the delegate idle or makes another
    /// requester the combiner. `own` is out of the queue afterwards.
    fn combine(&self, own: NonNull<Request<P>>) {
        let mut node = own;
        let mut stint = Stint::of::<P>(MOST - 1);
        loop {
            // SAFETY: I3: in the queue, and not granted.
            let request = unsafe { node.as_ref() };
            // SAFETY: I2: one thread combines, and runs each section once. Noted before the link (E2), or by this thread.
            unsafe { request.run() };
            let next = self.behind(node, &stint);
            if node != own {
                // SAFETY: I3: what is behind it is known, and nothing of it is touched from here on. ORDER: E3.
                unsafe { request.finish() };
            }
            let Some(next) = next else { return };
            if stint.has_forked::<P>() {
                return self.leave_in_child(next, &stint);
            }
            if !stint.goes_on::<P>() {
                // SAFETY: I3: in the queue, and not granted.
                let next = unsafe { next.as_ref() };
                // SAFETY: I2: unserved; its requester combines from now on. ORDER: E3.
                return unsafe { next.hand_over() };
            }
            node = next;
        }
    }

    /// Ends to combine, from `node` on, in a child that a section has forked: drops the requests of threads that are gone.
    #[cold]
    fn leave_in_child(&self, mut node: NonNull<Request<P>>, stint: &Stint) {
        loop {
            // SAFETY: I3: in the queue, and not granted.
            let request = unsafe { node.as_ref() };
            if !request.is_of_a_parent() {
                // SAFETY: I2: unserved; its requester combines from now on. ORDER: E3.
                return unsafe { request.hand_over() };
            }
            let next = self.behind(node, stint);
            // SAFETY: I3: its requester is gone, and what is behind it is known.
            unsafe { P::free_node(node) };
            let Some(next) = next else { return };
            node = next;
        }
    }

    /// The request behind `node`; if there is none, the delegate is idle.
    fn behind(&self, node: NonNull<Request<P>>, stint: &Stint) -> Option<NonNull<Request<P>>> {
        // SAFETY: I3: in the queue, and not granted.
        let link = &unsafe { node.as_ref() }.next;
        let mut patience = Patience::new::<P>();
        loop {
            let next = NonNull::new(link.load(Acquire)); // ORDER: E2.
            if next.is_some() {
                return next;
            }
            // ORDER: Release is E1.
            if self.tail.load(Relaxed) == node.as_ptr()
                && self.tail.compare_exchange(node.as_ptr(), ptr::null_mut(), Release, Relaxed).is_ok()
            {
                return None;
            }
            if stint.has_forked::<P>() && forget_rest::<P>(&self.tail) {
                return None;
            }
            patience.pause::<P>(); // A requester has swapped `tail`, and is about to link.
        }
    }
}

// SAFETY: I2: one thread at a time runs sections, each once; E1 and E3 order them, and E3 orders a requester behind its own.
unsafe impl<P: Platform, W: WaitPolicy<P>, const MOST: u32> Delegate<P> for DsmSynch<P, W, MOST> {
    fn new() -> Self {
        Self { tail: P::Ptr::new(ptr::null_mut()), policy: PhantomData }
    }

    unsafe fn execute(&self, section: Section) {
        let own = P::alloc_node::<Request<P>>();
        // SAFETY: ours until it is in the queue, and alive until we free it below.
        let request = unsafe { own.as_ref() };
        // SAFETY: nobody knows of it.
        unsafe { request.note(section) };
        // ORDER: Acquire is E1 and E4, Release is E4.
        let pred = self.tail.swap(own.as_ptr(), AcqRel);
        // SAFETY: I3: `pred` stays until its combiner has found us behind it.
        let granted = match unsafe { pred.as_ref() } {
            None => Granted::Combine,
            Some(pred) => {
                pred.next.store(own.as_ptr(), Release); // ORDER: E2.
                request.wait::<W>(ptr::from_ref(self).addr()) // ORDER: E3.
            }
        };
        if granted == Granted::Combine {
            self.combine(own);
        }
        // SAFETY: I3: ours again.
        unsafe { P::free_node(own) };
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        if !self.tail.load(Relaxed).is_null() {
            return false;
        }
        let own = P::alloc_node::<Request<P>>();
        // SAFETY: ours until it is in the queue, and alive until we free it below.
        let request = unsafe { own.as_ref() };
        // SAFETY: nobody knows of it.
        unsafe { request.note(section) };
        // ORDER: Acquire is E1, Release is E4.
        let is_ours = self.tail.compare_exchange(ptr::null_mut(), own.as_ptr(), AcqRel, Relaxed).is_ok();
        if is_ours {
            self.combine(own);
        }
        // SAFETY: I3: never in the queue, or out of it.
        unsafe { P::free_node(own) };
        is_ours
    }

    fn is_busy(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }
}
