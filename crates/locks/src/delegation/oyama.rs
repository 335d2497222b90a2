//! Oyama's lock: requesters that find it busy leave their requests on a stack, which the thread that has it runs.
//!
//! Yoshihiro Oyama, Kenjiro Taura and Akinori Yonezawa, "Executing parallel programs with synchronization bottlenecks
//! efficiently", PDSIA 1999. Deviations: a batch of requests is run in the order of arrival; after [`COMBINED`] sections the
//! thread hands the rest, and its role, to the first requester of the rest, where the original serves for as long as
//! requests come; requesters wait by a policy, and may sleep.
//!
//! Properties: arrival order by batches; 8 bytes a delegate; one node of 64 bytes for each requester that finds it busy.
//! Uncontended, one compare-and-swap to begin and one to end. Requesters compete for the word, which the queues of
//! [`cc_synch`](super::cc_synch) avoid.
//!
//! # State
//!
//! | word    | meaning                                                      |
//! |---------|--------------------------------------------------------------|
//! | null    | idle                                                         |
//! | `BUSY`  | a thread combines; no requests wait                          |
//! | address | a thread combines; the newest request, linked to older ones |
//!
//! # Invariants
//!
//! - I1: one thread combines while the word is not null: the one that moved it from null, or the requester it handed the role to.
//! - I2: a request in the stack, or in a batch taken from it, stays until its combiner grants it.
//!
//! # Ordering
//!
//! - E1: the compare-and-swap to null (Release) → the one from null (Acquire): all sections run so far.
//! - E2: the compare-and-swap that pushes a request (Release) → the swap that takes the stack (Acquire): the requests and links.
//! - E3: the grant → the requester's wait: its section's effects, or all sections run so far and the rest of the batch.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Platform};

use super::request::{Granted, Request};
use super::{COMBINED, Delegate, Section, Stint};
use crate::describe::{Capabilities, Citation, Descriptor, Family, Kind, Order, Proof, Timed};
use crate::wait::WaitPolicy;

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "oyama",
    kind: Kind::Delegate,
    capabilities: Capabilities::COMBINER,
    family: Family::Combining,
    order: Order::FifoByBatch,
    order_note: "",
    bytes: 8,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("while its section has not begun"),
    proofs: &[Proof { source: file!(), by: &["oyama-spin", "oyama-stp", "oyama-stp, two"] }],
    citation: Citation {
        key: "oyama99",
        text: "Oyama, Taura, Yonezawa: Executing parallel programs with synchronization bottlenecks efficiently. PDSIA 1999",
    },
    summary: "requesters that find it busy leave their requests on a stack, which the thread that has it runs",
    properties: "uncontended, one compare-and-swap to begin and one to end; requesters compete for one word",
    deviations: "a batch runs in the order of arrival; the role goes on after 128 sections; requesters may sleep",
    avoid: "many requesters at once: they compete for the word, which cc-synch's queue avoids",
    ..Descriptor::MUTEX
};

/// A thread combines, and no requests wait.
fn busy<P: Platform>() -> *mut Request<P> {
    ptr::without_provenance_mut(1)
}

/// Oyama's delegate, whose requesters wait by `W` and whose combiner serves `MOST` requests at most.
#[repr(transparent)]
pub struct Oyama<P: Platform, W, const MOST: u32 = COMBINED> {
    /// See the table above. Written by every requester, and by the combiner.
    word: P::Ptr<Request<P>>,
    policy: PhantomData<W>,
}

impl<P: Platform, W, const MOST: u32> core::fmt::Debug for Oyama<P, W, MOST> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Oyama").field("word", &self.word.load(Relaxed)).finish()
    }
}

impl<P: Platform, W: WaitPolicy<P>, const MOST: u32> Oyama<P, W, MOST> {
    fn begin(&self) -> bool {
        // ORDER: Acquire is E1.
        self.word.compare_exchange(ptr::null_mut(), busy::<P>(), Acquire, Relaxed).is_ok()
    }

    /// Pushes a request and waits, or begins to combine because the delegate became idle.
    #[cold]
    unsafe fn request(&self, section: Section) {
        let own = P::alloc_node::<Request<P>>();
        // SAFETY: ours until it is pushed, and alive until we free it below.
        let request = unsafe { own.as_ref() };
        // SAFETY: nobody knows of it.
        unsafe { request.note(section) };
        let mut rest = ptr::null_mut();
        let granted = loop {
            let word = self.word.load(Relaxed);
            if word.is_null() {
                if self.begin() {
                    break Granted::Combine;
                }
                continue;
            }
            // ORDER: pushed with the request.
            request.next.store(if word == busy::<P>() { ptr::null_mut() } else { word }, Relaxed);
            // ORDER: Release is E2.
            if self.word.compare_exchange(word, own.as_ptr(), Release, Relaxed).is_ok() {
                let granted = request.wait::<W>(ptr::from_ref(self).addr()); // ORDER: E3.
                rest = request.next.load(Relaxed); // ORDER: E3: the rest of the batch, linked by its combiner.
                break granted;
            }
        };
        if granted == Granted::Combine {
            let stint = Stint::of::<P>(MOST - 1);
            // SAFETY: I1: this thread combines, and nobody has run the section.
            unsafe { section.run() };
            self.combine(rest, stint);
        }
        // SAFETY: I2: granted, so ours again.
        unsafe { P::free_node(own) };
    }

    /// Runs the requests of `batch`, the eldest first, and those that come meanwhile. The caller combines and has run one
    /// section.
    fn combine(&self, mut batch: *mut Request<P>, mut stint: Stint) {
        loop {
            let Some(node) = NonNull::new(batch) else {
                // ORDER: Release is E1.
                if self.word.compare_exchange(busy::<P>(), ptr::null_mut(), Release, Relaxed).is_ok() {
                    return;
                }
                batch = reversed(self.word.swap(busy::<P>(), Acquire)); // ORDER: E2.
                continue;
            };
            // SAFETY: I2: not granted yet.
            let request = unsafe { node.as_ref() };
            if !stint.goes_on::<P>() {
                if stint.has_forked::<P>() && request.is_of_a_parent() {
                    batch = request.next.load(Relaxed); // ORDER: as below.
                    // SAFETY: I2: its requester is gone.
                    unsafe { P::free_node(node) };
                    continue;
                }
                // SAFETY: I1: unserved; its requester combines from now on, and finds the rest behind it. ORDER: E3.
                return unsafe { request.hand_over() };
            }
            batch = request.next.load(Relaxed); // ORDER: E2, or this thread's own.
            // SAFETY: I1: one thread combines, and runs each section once. Noted before the push (E2).
            unsafe { request.run() };
            // SAFETY: I2: nothing of it is touched from here on. ORDER: E3.
            unsafe { request.finish() };
        }
    }
}

/// Links a stack of requests, which the caller has taken, the other way round.
fn reversed<P: Platform>(mut stack: *mut Request<P>) -> *mut Request<P> {
    let mut batch = ptr::null_mut();
    // SAFETY: I2 of the stack's delegate: its requests stay until they are granted, which their combiner, the caller, has yet to
    // do.
    while let Some(request) = unsafe { stack.as_ref() } {
        let newest = stack;
        stack = request.next.load(Relaxed); // ORDER: E2.
        request.next.store(batch, Relaxed); // ORDER: read by this thread, or after a grant (E3).
        batch = newest;
    }
    batch
}

// SAFETY: I1: one thread at a time runs sections, each once; E1 and E3 order them, and E3 orders a requester behind its own.
unsafe impl<P: Platform, W: WaitPolicy<P>, const MOST: u32> Delegate<P> for Oyama<P, W, MOST> {
    fn new() -> Self {
        Self { word: P::Ptr::new(ptr::null_mut()), policy: PhantomData }
    }

    unsafe fn execute(&self, section: Section) {
        // SAFETY: the caller's contract.
        if !unsafe { self.try_execute(section) } {
            // SAFETY: as above.
            unsafe { self.request(section) };
        }
    }

    #[inline(always)]
    unsafe fn try_execute(&self, section: Section) -> bool {
        if !self.begin() {
            return false;
        }
        let stint = Stint::of::<P>(MOST - 1);
        // SAFETY: I1: this thread combines, and nobody has run the section.
        unsafe { section.run() };
        self.combine(ptr::null_mut(), stint);
        true
    }

    fn is_busy(&self) -> bool {
        !self.word.load(Relaxed).is_null()
    }
}
