//! Malthusian MCS (MCSCR): a release that finds more than one waiter puts one of them aside, so that few threads
//! circulate over the lock while the others stay out of the caches and off the CPUs.
//!
//! Dave Dice, "Malthusian Locks", EuroSys 2017, section 4. Deviations: the set of the passive threads is not in the lock
//! but in the holder's node, and is passed on with the lock, so that the lock stays one word; the eldest passive thread is
//! promoted at every `PERIOD`th hand-off in a row instead of at random; the node comes from the platform's pool and
//! travels in the token; waiters, passive ones too, can give up at a deadline, and are dropped at the latest with the next
//! promotion; the hand-off is a swap rather than a store, because the waiter may be asleep or gone.
//!
//! Properties: work-conserving; fair in the long term only; 8 bytes a lock; one node of 64 bytes for the holder and for
//! each waiter; O(1) remote references per hand-off. Waiting: spin, stp, park, yield, aware. `try_lock` succeeds only
//! on a free lock with no queue. With the parking policy passive threads sleep, and the few that circulate hand the
//! lock over awake.
//!
//! # State
//!
//! ```text
//! tail ──────────────────────────────┐         tail == null: unlocked
//! holder ─next→ waiter ─next→ … ─next→ last    word: see `wait`
//!   ├─newest→ passive ─next→ passive ─next→ passive      prev: the other way
//!   └─eldest───────────────────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - I1: the node at the head belongs to the holder; its word means nothing. The passive set, and `next` and `prev` of
//!   the nodes in it, are accessed by the holder only.
//! - I2: `tail` is null or the last node of the queue; a node is linked by its predecessor's `next` after it became
//!   `tail`, once, except that the holder may take its successor out or put a passive node behind its own.
//! - I3: a node's memory is recycled only by its owner after a grant's matching release, or by the releaser that found it
//!   abandoned, and its owner not on the way back; never while a predecessor may still link to it or a successor still
//!   looks for it.
//! - I4: only a node whose successor is linked is taken out of the queue; so nobody is about to write its `next`.
//! - I5: the passive set is empty whenever the lock is freed: whoever would free it admits a passive thread instead.
//!   So a passive thread waits for releases only, and there will be one.
//!
//! # Ordering
//!
//! - E1: a release's CAS of `tail` to null (Release) → the swap or CAS of the next locker that finds null (Acquire): the
//!   critical section.
//! - E2: the locker's swap of `tail` (Release), or the CAS that puts a passive node there → the swap of its successor
//!   (Acquire): the node's initialisation, or the clearing of its `next`, comes before the successor's write to `next`.
//! - E3: the store of `next` (Release) → the releaser's load (Acquire): the successor's node is initialised.
//! - E4: `wait::grant` → `WaitPolicy::wait`: the critical section, and the passive set, on a hand-off.
//! - E5: a waiter's abandonment → `wait::has_given_up` (E2 of `wait::word`): its accesses to its node come before the memory's
//!   re-use.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Native, Platform, PoolNode};

use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::queue::node_lock::NodeLock;
use crate::wait::{self, Behind, Grant, Owner, Returning, Wait, WaitPolicy, patiently};

/// What is known of the Malthusian lock.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "malth",
    family: Family::LoadControl,
    order: Order::LongTerm,
    order_note: "the eldest passive thread is served after 1000 hand-offs",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: Timed::GivesUp("in either set"),
    proofs: &[Proof::of(file!()), Proof { source: "wait/word.rs", by: &["malth-spin"] }],
    citation: Citation { key: "dice17", text: "Dice: Malthusian locks. EuroSys 2017" },
    summary: "an MCS queue whose releases put all waiters but one aside, and call them back when the queue runs dry",
    properties: "Few threads circulate, so caches stay warm and, parking, hand-offs are to threads that are awake. \
                 The holder keeps a 64-byte node.",
    deviations: "The passive set travels with the holder's node; the eldest is promoted at every 1000th hand-off in a \
                 row, not at random; waiters can give up at a deadline.",
    avoid: "Short-term fairness: a passive thread may wait for a thousand hand-offs for each of those before it. \
            malth-spin: more threads than CPUs (passive threads spin too).",
    ..Descriptor::MUTEX
};

/// A queue node.
#[repr(C)]
pub struct MalthNode<P: Platform> {
    /// The hand-off word of the node's owner; written by the owner and once by a releaser.
    word: P::Futex,
    /// Written before the node is in the queue.
    owner: Owner<P>,
    /// Nothing: with padding in it, compilers copy a new node by way of the stack, slowly.
    spare: P::U32,
    /// The holder's: hand-offs in a row since the last promotion.
    handoffs: P::U32,
    /// The successor, written once by it; of a passive node the one that was put aside before it.
    next: P::Ptr<MalthNode<P>>,
    /// Of a passive node: the one that was put aside after it.
    prev: P::Ptr<MalthNode<P>>,
    /// The holder's: the passive node that was put aside last, and the one that was put aside first.
    newest: P::Ptr<MalthNode<P>>,
    eldest: P::Ptr<MalthNode<P>>,
}

impl<P: Platform> core::fmt::Debug for MalthNode<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MalthNode").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for MalthNode<P> {
    fn new() -> Self {
        let null = || P::Ptr::new(ptr::null_mut());
        let (word, handoffs) = (P::Futex::new(wait::WAITING), P::U32::new(0));
        Self {
            word,
            owner: Owner::new(),
            spare: P::U32::new(0),
            handoffs,
            next: null(),
            prev: null(),
            newest: null(),
            eldest: null(),
        }
    }
}

/// What goes from holder to holder.
struct Passive<P: Platform> {
    newest: *mut MalthNode<P>,
    eldest: *mut MalthNode<P>,
    handoffs: u32,
}

impl<P: Platform> Passive<P> {
    /// Takes the set out of the holder's node.
    fn of(holder: &MalthNode<P>) -> Self {
        Self {
            newest: holder.newest.load(Relaxed),
            eldest: holder.eldest.load(Relaxed),
            handoffs: holder.handoffs.load(Relaxed),
        }
    }

    /// Puts the set into the node of the next holder, which does not run yet. ORDER: E4 publishes it.
    fn pass_to(&self, next: &MalthNode<P>) {
        next.newest.store(self.newest, Relaxed);
        next.eldest.store(self.eldest, Relaxed);
        next.handoffs.store(self.handoffs, Relaxed);
    }

    fn push(&mut self, node: NonNull<MalthNode<P>>) {
        // SAFETY: I1: the caller holds the lock, and nodes in the set are not recycled by their owners.
        let fresh = unsafe { node.as_ref() };
        fresh.next.store(self.newest, Relaxed);
        fresh.prev.store(ptr::null_mut(), Relaxed);
        // SAFETY: as above.
        match unsafe { self.newest.as_ref() } {
            Some(second) => second.prev.store(node.as_ptr(), Relaxed),
            None => self.eldest = node.as_ptr(),
        }
        self.newest = node.as_ptr();
    }

    /// Takes a node out of the set.
    fn remove(&mut self, node: NonNull<MalthNode<P>>) {
        // SAFETY: I1, as in `push`.
        let node = unsafe { node.as_ref() };
        let (next, prev) = (node.next.load(Relaxed), node.prev.load(Relaxed));
        // SAFETY: I1: the neighbours are null or in the set.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.store(next, Relaxed),
            None => self.newest = next,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.store(prev, Relaxed),
            None => self.eldest = prev,
        }
    }

    /// Recycles the nodes of those who gave up.
    fn sweep(&mut self) {
        let mut candidate = self.newest;
        while let Some(node) = NonNull::new(candidate) {
            // SAFETY: I1: in the set.
            candidate = unsafe { node.as_ref() }.next.load(Relaxed);
            if gave_up(node) {
                self.remove(node);
                // SAFETY: I3: abandoned, and out of the set.
                unsafe { P::free_node(node) };
            }
        }
    }
}

/// Whether the owner of a node, which is in the queue or in the set, has given up. The node then is the caller's.
fn gave_up<P: Platform>(node: NonNull<MalthNode<P>>) -> bool {
    // SAFETY: I3: the caller holds the lock, and only a holder recycles or grants a waiting node. ORDER: E5.
    wait::has_given_up::<P>(unsafe { &node.as_ref().word })
}

/// The Malthusian lock, waiting by `W`; the eldest passive thread is promoted at every `PERIOD`th hand-off.
#[repr(transparent)]
pub struct Malth<P: Platform, W, const PERIOD: u32 = 1000> {
    /// The last node of the queue; written by every locker, and by a releaser that leaves no waiter in the queue.
    tail: P::Ptr<MalthNode<P>>,
    policy: PhantomData<W>,
}

const _: () = assert!(size_of::<Malth<Native, wait::Spin>>() == DESCRIPTOR.bytes);

impl<P: Platform, W, const PERIOD: u32> core::fmt::Debug for Malth<P, W, PERIOD> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Malth").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl<W, const PERIOD: u32> Malth<Native, W, PERIOD> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { tail: Native::null(), policy: PhantomData }
    }
}

impl<P: Platform, W: WaitPolicy<P>, const PERIOD: u32> Malth<P, W, PERIOD> {
    /// Frees the lock, if nobody is behind `node`.
    #[inline(always)]
    fn release_last(&self, node: NonNull<MalthNode<P>>) -> bool {
        // ORDER: Release is E1.
        if self.tail.compare_exchange(node.as_ptr(), ptr::null_mut(), Release, Relaxed).is_err() {
            return false;
        }
        // SAFETY: no longer in the queue, and without a successor (I2).
        unsafe { P::free_node(node) };
        true
    }

    /// Hands the lock over, or frees it, on behalf of `node`, skipping those who gave up.
    #[cold]
    fn pass_on(&self, mut node: NonNull<MalthNode<P>>) {
        // SAFETY: `node` is the head of the queue, and ours (I1).
        let mut passive = Passive::of(unsafe { node.as_ref() });
        passive.handoffs += 1;
        loop {
            let succ = if passive.handoffs >= PERIOD {
                passive.handoffs = 0;
                passive.sweep();
                self.admit(node, &mut passive, |passive| passive.eldest)
            } else {
                None
            };
            let Some(succ) = succ.or_else(|| self.successor(node, &mut passive)) else { return };
            // SAFETY: the successor's node is initialised (E3) and stays until we grant.
            let next = unsafe { succ.as_ref() };
            passive.pass_to(next);
            let outcome = wait::grant::<P>(&next.word); // ORDER: E4.
            // SAFETY: nobody links to or looks at the old head any more (I3).
            unsafe { P::free_node(node) };
            match outcome {
                Grant::Accepted => return,
                Grant::Abandoned => node = succ,
            }
        }
    }

    /// The successor of `node`, after a surplus waiter has been put aside. `None`: the lock is free.
    fn successor(
        &self,
        node: NonNull<MalthNode<P>>,
        passive: &mut Passive<P>,
    ) -> Option<NonNull<MalthNode<P>>> {
        // SAFETY: `node` is the head of the queue, and ours (I1, or abandoned to us).
        let head = unsafe { node.as_ref() };
        let Some(succ) = linked(head) else {
            if let Some(admitted) = self.admit(node, passive, |passive| passive.newest) {
                return Some(admitted);
            }
            // Somebody who swapped `tail` after we looked is about to link.
            return if self.release_last(node) { None } else { Some(await_link(head)) };
        };
        // SAFETY: initialised (E3), and I3: it waits, and we are the releaser.
        let Some(second) = linked(unsafe { succ.as_ref() }) else { return Some(succ) };
        // I4: its successor is linked.
        if gave_up(succ) {
            // SAFETY: I3: nobody links to it any more.
            unsafe { P::free_node(succ) };
        } else {
            passive.push(succ);
        }
        Some(second)
    }

    /// Moves a passive node to behind `node`, the head of the queue, if there is one.
    fn admit(
        &self,
        node: NonNull<MalthNode<P>>,
        passive: &mut Passive<P>,
        choose: impl FnOnce(&Passive<P>) -> *mut MalthNode<P>,
    ) -> Option<NonNull<MalthNode<P>>> {
        let admitted = NonNull::new(choose(passive))?;
        passive.remove(admitted);
        // SAFETY: I1: it was in the set.
        let fresh = unsafe { admitted.as_ref() };
        // SAFETY: the head of the queue, and ours (I1, or abandoned to us).
        let head = unsafe { node.as_ref() };
        let next = linked(head).or_else(|| {
            fresh.next.store(ptr::null_mut(), Relaxed);
            let (ours, its) = (node.as_ptr(), admitted.as_ptr());
            // ORDER: Release is E2.
            let was_last = self.tail.compare_exchange(ours, its, Release, Relaxed).is_ok();
            if was_last { None } else { Some(await_link(head)) }
        });
        if let Some(next) = next {
            fresh.next.store(next.as_ptr(), Relaxed);
        }
        Some(admitted)
    }
}

/// The successor of a node, if it has linked itself.
fn linked<P: Platform>(node: &MalthNode<P>) -> Option<NonNull<MalthNode<P>>> {
    NonNull::new(node.next.load(Acquire)) // ORDER: E3.
}

/// The successor of a node, when somebody is known to be about to link itself.
fn await_link<P: Platform>(node: &MalthNode<P>) -> NonNull<MalthNode<P>> {
    patiently::<P, _>(|| linked(node))
}

// SAFETY: at most one node is at the head (I1, I2), and E1 and E4 order the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>, const PERIOD: u32> NodeLock for Malth<P, W, PERIOD> {
    type Platform = P;
    type Node = MalthNode<P>;

    fn empty() -> Self {
        Self { tail: P::Ptr::new(ptr::null_mut()), policy: PhantomData }
    }

    #[inline(always)]
    fn note(node: NonNull<Self::Node>, id: impl FnOnce() -> u32) {
        // SAFETY: the caller's, and fresh.
        unsafe { node.as_ref() }.owner.note_as::<W>(id);
    }

    #[inline(always)]
    fn acquire_fast(&self, node: NonNull<Self::Node>) -> bool {
        // ORDER: Release is E2 (and the initialisation of our node), Acquire is E1.
        self.tail.compare_exchange(ptr::null_mut(), node.as_ptr(), AcqRel, Relaxed).is_ok()
    }

    fn queue_up(&self, node: NonNull<Self::Node>, wait: &Wait) -> bool {
        // ORDER: Release is E2 (and the initialisation of our node); Acquire is E1 and E2.
        let Some(pred) = NonNull::new(self.tail.swap(node.as_ptr(), AcqRel)) else {
            return true; // Released since our first attempt.
        };
        // SAFETY: I3: `pred` is not recycled before it has found us as its successor.
        let pred = unsafe { pred.as_ref() };
        let ahead = pred.owner.get::<W>();
        pred.next.store(node.as_ptr(), Release); // ORDER: E3.
        // SAFETY: our node lives until it is granted or abandoned, and `wait_at` returns then.
        let ours = unsafe { node.as_ref() };
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
        // ORDER: Relaxed: `pass_on` reads `next` again; the set is the holder's.
        let alone = holder.next.load(Relaxed).is_null() && holder.newest.load(Relaxed).is_null();
        if !alone || !self.release_last(node) {
            self.pass_on(node);
        }
    }

    fn is_held(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }

    unsafe fn keep_only(&self, node: NonNull<Self::Node>) {
        // SAFETY: the holder's node is in the queue, and nobody else runs.
        let holder = unsafe { node.as_ref() };
        holder.next.store(ptr::null_mut(), Relaxed);
        holder.newest.store(ptr::null_mut(), Relaxed);
        holder.eldest.store(ptr::null_mut(), Relaxed);
        self.tail.store(node.as_ptr(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::{Clock, Deadline, Pool};

    use super::*;
    use crate::api::RawLock;
    use crate::wait::Spin;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    #[test]
    fn those_who_gave_up_are_dropped_wherever_they_are() {
        for give_up in 0..5 {
            let lock = Malth::<Native, Spin>::unlocked();
            let token = lock.lock();
            for _ in 0..give_up {
                assert!(lock.try_lock_until(PAST).is_none());
            }
            // SAFETY: locked above.
            unsafe { lock.unlock(token) };
            assert!(!lock.is_locked());
        }
    }

    #[test]
    fn a_sweep_takes_the_dead_out_of_the_set_and_keeps_the_order_of_the_others() {
        let mut passive = Passive::<Native> { newest: ptr::null_mut(), eldest: ptr::null_mut(), handoffs: 0 };
        let nodes: [_; 5] = core::array::from_fn(|_| Native::alloc_node::<MalthNode<Native>>());
        nodes.iter().for_each(|node| passive.push(*node));
        for dead in [0, 2, 4] {
            // SAFETY: allocated above, and nobody else's.
            unsafe { nodes[dead].as_ref() }.word.store(wait::ABANDONED, Relaxed);
        }
        passive.sweep();
        assert_eq!((passive.newest, passive.eldest), (nodes[3].as_ptr(), nodes[1].as_ptr()));
        for node in [nodes[1], nodes[3]] {
            passive.remove(node);
            // SAFETY: out of the set.
            unsafe { Native::free_node(node) };
        }
        assert!(passive.newest.is_null() && passive.eldest.is_null());
    }
}
