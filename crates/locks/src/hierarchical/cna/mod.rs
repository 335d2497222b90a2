//! CNA: an MCS queue whose releases prefer waiters of the holder's NUMA node; those of the others wait in a second queue,
//! which travels with the lock.
//!
//! Dave Dice and Alex Kogan, "Compact NUMA-aware locks", EuroSys 2019. Deviations: the second queue is brought back
//! after a fixed number of hand-offs that it waited for (`may-pass-local`), not when a coin says so; its ends are in
//! the holder's node, not its head in the holder's word and its tail in the head's node, because the word is the
//! hand-off protocol's; the node comes from the platform's pool and travels in the token; waiters can give up at a
//! deadline in either queue; the hand-off is a swap rather than a store, because the waiter may be asleep or gone. The
//! lock without a queue does not know the node of its holder, as in the paper: the releaser's counts.
//!
//! Properties: FIFO within a node, and among those who were passed over; 8 bytes a lock, however many nodes; one node
//! of 64 bytes for the holder and for each waiter; one queue node is read for each waiter that is passed over, once.
//! Waiting: spin, stp, park, yield, aware. `try_lock` succeeds only on a free lock with no queue.
//!
//! # State
//!
//! ```text
//! tail ──────────────────────────────┐         tail at most 65,535: unlocked, and the pass limit; 0 = the default
//! holder ─next→ waiter ─next→ … ─next→ last    word: see `wait`
//!   ├─first→ passed over ─next→ passed over        whose next means nothing
//!   └─last───────────────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - I1: the queue node at the head belongs to the holder; its word means nothing. The second queue is accessed by the
//!   holder only.
//! - I2: `tail` is a pass limit or the last queue node of the main queue; one is linked by its predecessor's `next`
//!   after it became `tail`, once, except that the holder may move nodes between the queues.
//! - I3: a queue node's memory is recycled only by its owner after a grant's matching release, or by the releaser that
//!   found it abandoned, and its owner not on the way back; never while a predecessor may still link to it or a successor
//!   still looks for it.
//! - I4: only a queue node whose successor is linked is taken out of the main queue; so nobody is about to write its
//!   `next`.
//! - I5: the second queue is empty whenever the lock is freed: a release that would free it makes it the main queue instead. The
//!   first in it waits for at most as many hand-offs as the pass limit says, and nobody is put before those who are in it.
//!
//! # Ordering
//!
//! - E1: a release's CAS of `tail` to the limit (Release) → the swap or CAS of the next locker that finds it (Acquire): the
//!   critical section. A change of the limit in between is a read-modify-write.
//! - E2: the locker's swap of `tail` (Release), or the CAS that puts the second queue there → the swap of its successor
//!   (Acquire): the queue node's initialisation, or the clearing of its `next`, comes before the successor's write to
//!   `next`.
//! - E3: the store of `next` (Release) → the releaser's load (Acquire): the successor's queue node is initialised.
//! - E4: `wait::grant` → `WaitPolicy::wait`: the critical section, and both queues, on a hand-off.
//! - E5: a waiter's abandonment → `wait::has_given_up` (E2 of `wait::word`): its accesses to its queue node come before the
//!   memory's re-use.

mod queue;

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use lockwork_platform::{AtomicCell, Native, Platform};

pub use self::queue::CnaNode;
use self::queue::{Aside, UNKNOWN, await_link, here, linked, set_next};
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::knobs::{self, Knobs, MOST_PASSES};
use crate::queue::node_lock::NodeLock;
use crate::wait::{self, Behind, Grant, Returning, Wait, WaitPolicy};

/// What is known of CNA.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "cna",
    family: Family::Hierarchical,
    order: Order::LongTerm,
    order_note: "a waiter on another node is passed over by at most 65535 hand-offs in a row",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: Timed::GivesUp("in either queue"),
    proofs: &[
        Proof::of(file!()),
        Proof::of("hierarchical/cna/queue.rs"),
        Proof { source: "wait/word.rs", by: &["cna-spin"] },
    ],
    citation: Citation { key: "dice19cna", text: "Dice, Kogan: Compact NUMA-aware locks. EuroSys 2019" },
    summary: "an MCS queue whose releases put waiters of other NUMA nodes aside, in a second queue that travels with the lock",
    properties: "One word, however many NUMA nodes. The lock stays on a node while somebody there waits. The holder keeps \
                 a 64-byte node.",
    deviations: "The second queue's turn comes after a number of hand-offs, not at random; waiters can give up at a deadline.",
    avoid: "Machines with one NUMA node (it is MCS there). cna-spin: more threads than CPUs.",
    knobs: knobs::HIERARCHICAL,
    ..Descriptor::MUTEX
};

/// The pass limit in the `tail` of an unlocked lock.
#[inline(always)]
fn limit_in<P: Platform>(tail: *mut CnaNode<P>) -> Option<u32> {
    (tail.addr() <= MOST_PASSES as usize).then(|| tail.addr() as u32)
}

/// The `tail` of an unlocked lock.
#[inline(always)]
fn unlocked<P: Platform>(limit: u32) -> *mut CnaNode<P> {
    ptr::without_provenance_mut(limit as usize)
}

/// The CNA lock, waiting by `W`.
#[repr(transparent)]
pub struct Cna<P: Platform, W> {
    /// The last node of the main queue; written by every locker, and by a releaser that leaves nobody in that queue.
    tail: P::Ptr<CnaNode<P>>,
    policy: PhantomData<W>,
}

const _: () = assert!(size_of::<Cna<Native, wait::Spin>>() == DESCRIPTOR.bytes);

impl<P: Platform, W> core::fmt::Debug for Cna<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cna").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl<W> Cna<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { tail: Native::null(), policy: PhantomData }
    }
}

impl<P: Platform, W: WaitPolicy<P>> Cna<P, W> {
    /// As [`Cna::acquire_fast`], for a lock with a limit of its own.
    #[cold]
    fn acquire_limited(&self, node: NonNull<CnaNode<P>>, limit: u32) -> bool {
        // SAFETY: ours, and not published.
        unsafe { node.as_ref() }.limit.store(limit, Relaxed);
        // ORDER: as above.
        self.tail.compare_exchange(unlocked(limit), node.as_ptr(), AcqRel, Relaxed).is_ok()
    }

    /// Frees the lock, if nobody is behind `node`.
    #[inline(always)]
    fn release_last(&self, node: NonNull<CnaNode<P>>, limit: u32) -> bool {
        // ORDER: Release is E1.
        if self.tail.compare_exchange(node.as_ptr(), unlocked(limit), Release, Relaxed).is_err() {
            return false;
        }
        // SAFETY: no longer in the queue, and without a successor (I2).
        unsafe { P::free_node(node) };
        true
    }

    /// Hands the lock over, or frees it, on behalf of `node`, skipping those who gave up.
    #[cold]
    fn pass_on(&self, mut node: NonNull<CnaNode<P>>) {
        // SAFETY: the head of the queue, and ours (I1).
        let holder = unsafe { node.as_ref() };
        let mut aside = Aside::of(holder);
        let numa = match holder.numa.load(Relaxed) {
            UNKNOWN => here::<P>(),
            numa => numa,
        };
        while let Some(succ) = self.successor(node, numa, &mut aside) {
            // SAFETY: the successor's node is initialised (E3) and stays until we grant.
            let next = unsafe { succ.as_ref() };
            aside.pass_to(next);
            let outcome = wait::grant::<P>(&next.word); // ORDER: E4.
            // SAFETY: nobody links to or looks at the old head any more (I3).
            unsafe { P::free_node(node) };
            match outcome {
                Grant::Accepted => return,
                Grant::Abandoned => node = succ,
            }
        }
    }

    /// The node that is next after `node`, the head of the main queue. `None`: the lock is free.
    fn successor(
        &self,
        node: NonNull<CnaNode<P>>,
        numa: u32,
        aside: &mut Aside<P>,
    ) -> Option<NonNull<CnaNode<P>>> {
        let next = match linked(node) {
            Some(next) => next,
            None => match aside.ends {
                None if self.release_last(node, aside.limit) => return None,
                Some((first, last)) if self.replace(node, last) => {
                    aside.take();
                    return Some(first);
                }
                // A thread that swapped `tail` after we looked is about to link.
                _ => await_link(node),
            },
        };
        let (near, next) = if aside.is_due() { (None, next) } else { aside.nearest(next, numa) };
        if near.is_some() {
            if aside.ends.is_some() {
                aside.passes += 1;
            }
            return near;
        }
        // I5: the turn of those who were passed over, before everybody else.
        match aside.take() {
            None => Some(next),
            Some((first, last)) => {
                set_next(last, next.as_ptr());
                Some(first)
            }
        }
    }

    /// Makes `last` the tail of the main queue, if that is empty but for `node`.
    fn replace(&self, node: NonNull<CnaNode<P>>, last: NonNull<CnaNode<P>>) -> bool {
        set_next(last, ptr::null_mut());
        // ORDER: Release is E2.
        self.tail.compare_exchange(node.as_ptr(), last.as_ptr(), Release, Relaxed).is_ok()
    }
}

// SAFETY: at most one node is at the head (I1, I2), and E1 and E4 order the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>> NodeLock for Cna<P, W> {
    type Platform = P;
    type Node = CnaNode<P>;

    fn empty() -> Self {
        Self { tail: P::Ptr::new(unlocked(0)), policy: PhantomData }
    }

    /// A lock that is held meanwhile keeps its limit.
    fn take_knobs(&self, knobs: &Knobs) {
        let free = self.tail.load(Relaxed);
        if let (Some(_), Some(limit)) = (limit_in(free), knobs.pass_limit) {
            // ORDER: Relaxed: nothing is published, and a read-modify-write does not end E1.
            let _ = self.tail.compare_exchange(free, unlocked(limit.clamp(1, MOST_PASSES)), Relaxed, Relaxed);
        }
    }

    #[inline(always)]
    fn note(node: NonNull<Self::Node>, id: impl FnOnce() -> u32) {
        // SAFETY: the caller's, and fresh.
        unsafe { node.as_ref() }.owner.note_as::<W>(id);
    }

    #[inline(always)]
    fn acquire_fast(&self, node: NonNull<Self::Node>) -> bool {
        // ORDER: Release is E2 (and the initialisation of our node), Acquire is E1.
        match self.tail.compare_exchange(unlocked(0), node.as_ptr(), AcqRel, Relaxed) {
            Ok(_) => true,
            Err(seen) => limit_in(seen).is_some_and(|limit| self.acquire_limited(node, limit)),
        }
    }

    fn queue_up(&self, node: NonNull<Self::Node>, wait: &Wait) -> bool {
        // SAFETY: ours, and not published.
        let ours = unsafe { node.as_ref() };
        ours.numa.store(here::<P>(), Relaxed);
        // ORDER: Release is E2 (and the initialisation of our node); Acquire is E1 and E2.
        let pred = self.tail.swap(node.as_ptr(), AcqRel);
        if let Some(limit) = limit_in(pred) {
            ours.limit.store(limit, Relaxed);
            return true; // Released since our first attempt.
        }
        // SAFETY: I3: `pred` is not recycled before it has found us as its successor.
        let pred = unsafe { &*pred };
        let ahead = pred.owner.get::<W>();
        pred.next.store(node.as_ptr(), Release); // ORDER: E3.
        W::wait_at(&ours.word, &Behind::new(ahead, &ours.owner), wait).is_ok()
    }

    const RETURNS: bool = true;

    fn come_back(
        &self,
        node: NonNull<Self::Node>,
        returning: &mut Returning<P, Self::Node>,
        wait: &Wait,
    ) -> Option<NonNull<Self::Node>> {
        // SAFETY: I3: ours again, until it is granted or abandoned.
        let ours = unsafe { node.as_ref() };
        // ORDER: E4 where it has been granted.
        returning.go_on::<W>(&ours.word, &ours.owner, wait)?;
        Some(node)
    }

    #[inline(always)]
    unsafe fn release(&self, node: NonNull<Self::Node>) {
        // SAFETY: the holder's node (I1).
        let holder = unsafe { node.as_ref() };
        // ORDER: Relaxed: `pass_on` reads `next` again; the second queue is the holder's.
        let alone = holder.next.load(Relaxed).is_null() && holder.first.load(Relaxed).is_null();
        if !alone || !self.release_last(node, holder.limit.load(Relaxed)) {
            self.pass_on(node);
        }
    }

    fn is_held(&self) -> bool {
        limit_in(self.tail.load(Relaxed)).is_none()
    }

    unsafe fn keep_only(&self, node: NonNull<Self::Node>) {
        // SAFETY: the holder's node is in the queue, and nobody else runs.
        let holder = unsafe { node.as_ref() };
        holder.next.store(ptr::null_mut(), Relaxed);
        holder.first.store(ptr::null_mut(), Relaxed);
        holder.last.store(ptr::null_mut(), Relaxed);
        self.tail.store(node.as_ptr(), Relaxed);
    }

    unsafe fn reset(&self) {
        self.tail.store(unlocked(0), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::queue::tests::{chain, free, queue};
    use super::*;
    use crate::api::RawLock;
    use crate::wait::Spin;

    type Lock = Cna<Native, Spin>;

    #[test]
    fn the_limit_comes_back_when_the_lock_is_free() {
        let lock = Lock::unlocked();
        lock.configure(&Knobs { pass_limit: Some(3), ..Knobs::NONE });
        assert!(!lock.is_locked());
        let token = lock.lock();
        lock.configure(&Knobs { pass_limit: Some(4), ..Knobs::NONE });
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert_eq!(limit_in(lock.tail.load(Relaxed)), Some(3));
    }

    #[test]
    fn those_aside_come_first_when_the_limit_is_reached() {
        let nodes = queue([1, 2, 1, 1, 2]);
        let lock = Lock::unlocked();
        lock.tail.store(nodes[4].as_ptr(), Relaxed);
        let mut aside = Aside { ends: None, passes: 0, limit: 1 };
        assert_eq!(lock.successor(nodes[0], 1, &mut aside), Some(nodes[2]));
        assert_eq!(lock.successor(nodes[2], 1, &mut aside), Some(nodes[1]));
        assert!(aside.ends.is_none());
        assert!(chain(nodes[1]).eq([nodes[1], nodes[3], nodes[4]]));
        free(&nodes);
    }
}
