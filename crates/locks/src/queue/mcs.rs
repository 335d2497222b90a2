//! MCS: a queue of waiters, each spinning on its own node; the release hands the lock to the successor.
//!
//! John M. Mellor-Crummey and Michael L. Scott, "Algorithms for scalable synchronization on shared-memory
//! multiprocessors", ACM TOCS 9(1), 1991, algorithm 5. Deviations: the node comes from the platform's pool and
//! travels in the token; waiters can give up at a deadline (the release skips them, in the way of the blocking-timeout
//! variant of Scott, PODC 2002), and go on with the node that they left if they come back before; the hand-off is a
//! swap rather than a store, because the waiter may be asleep or gone.
//!
//! Properties: FIFO; 8 bytes a lock; one node of 64 bytes for the holder and for each waiter; O(1) remote references
//! per hand-off. Waiting: spin, stp, park, yield, aware; as `mcs-ls` in the way of libslock (David, Guerraoui and
//! Trigonakis, SOSP 2013), asking for the line in writing before each look. `try_lock` succeeds only on a free lock
//! with no queue. Avoid the spinning variant with more threads than CPUs: a preempted waiter at the head of the queue
//! stops everybody for its whole time slice.
//!
//! # State
//!
//! ```text
//! tail ──────────────────────────────┐         tail == null: unlocked
//! holder ─next→ waiter ─next→ … ─next→ last    word: see `wait`
//! ```
//!
//! # Invariants
//!
//! - I1: the node at the head belongs to the holder; its word means nothing.
//! - I2: `tail` is null or the last node of the queue; a node is linked by its predecessor's `next` after it became
//!   `tail`, once.
//! - I3: a node's memory is recycled only by its owner after a grant's matching release, or by the releaser that was
//!   told it was abandoned; never while a predecessor may still link to it or a successor still looks for it. Until then
//!   an owner that gave up at a deadline can come back to it (I2 of `wait::word`), and is in its old place.
//!
//! # Ordering
//!
//! - E1: `unlock`'s CAS of `tail` to null (Release) → the swap or CAS of the next locker that finds null (Acquire): the
//!   critical section.
//! - E2: the locker's swap of `tail` (Release) → the swap of its successor (Acquire): the node's
//!   initialisation comes before the successor's write to `next`.
//! - E3: the store of `next` (Release) → the releaser's load (Acquire): the successor's node is initialised.
//! - E4: `wait::grant` → `WaitPolicy::wait`: the critical section, on a hand-off.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Native, Platform, PoolNode};

use super::node_lock::NodeLock;
use crate::competitive;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{self, Grant, Owner, Patience, Place, Returning, Wait, WaitPolicy};

/// What is known of MCS.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "mcs",
    family: Family::Queue,
    order: Order::Fifo,
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: Timed::GivesUp("in the queue"),
    proofs: &[
        Proof::of(file!()),
        Proof::of("wait/policy.rs"),
        Proof::of("wait/word.rs"),
        Proof {
            source: "wait/aware.rs",
            by: &[
                "mcs-aware",
                "mcs-aware, behind threads that run",
                "mcs-aware, behind threads that do not run",
                "mcs-aware, behind clocks that move on",
                "mcs-aware, behind clocks that stand still",
            ],
        },
        Proof { source: "wait/policy.rs", by: &["mcs-aware", "mcs-yield"] },
    ],
    citation: Citation {
        key: "mellor-crummey91",
        text: "Mellor-Crummey, Scott: Algorithms for scalable synchronization on shared-memory multiprocessors. \
               ACM TOCS 9(1), 1991",
    },
    summary: "a queue of waiters, each on a cache line of its own; the release hands the lock to the next",
    properties: "One remote reference per hand-off, however many wait. The holder keeps a 64-byte node.",
    deviations: "The node comes from a pool instead of the stack; waiters can give up at a deadline and are skipped.",
    avoid: "mcs-spin: more threads than CPUs (a preempted waiter stops everybody). mcs-stp: very short critical \
            sections with more threads than CPUs (every hand-off may have to wake a sleeper).",
    ..Descriptor::MUTEX
};

/// What is known of libslock's MCS.
pub const LIBSLOCK: Descriptor = Descriptor {
    name: "mcs-ls",
    citation: competitive::LIBSLOCK,
    summary: "a queue of waiters, each on a cache line of its own that it asks for in writing; the release hands the lock to \
              the next",
    avoid: "More threads than CPUs (a preempted waiter stops everybody).",
    ..DESCRIPTOR
};

/// A queue node.
#[repr(C)]
pub struct McsNode<P: Platform> {
    /// The hand-off word of the node's owner; written by the owner and once by its predecessor.
    word: P::Futex,
    /// Written before the node is in the queue, and by those of it and ahead of it that leave.
    owner: Owner<P>,
    /// The thread that the owner waits for; written by the owner, and by those ahead of it that leave the queue.
    ahead: Owner<P>,
    /// Makes the fields before it a whole number of words, which are written faster.
    spare: P::U32,
    /// The successor; written once, by the successor.
    next: P::Ptr<McsNode<P>>,
}

impl<P: Platform> core::fmt::Debug for McsNode<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("McsNode").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for McsNode<P> {
    fn new() -> Self {
        Self {
            word: P::Futex::new(wait::WAITING),
            owner: Owner::new(),
            ahead: Owner::new(),
            spare: P::U32::new(0),
            next: P::Ptr::new(ptr::null_mut()),
        }
    }
}

impl<P: Platform> McsNode<P> {
    /// The link, for a combiner that puts together what [`Mcs::append`] appends.
    pub(crate) fn link(&self) -> &P::Ptr<Self> {
        &self.next
    }
}

impl<P: Platform> Place for McsNode<P> {
    fn ahead(&self) -> u32 {
        self.ahead.who()
    }

    /// The waiters behind us may have looked at us for long. One that links itself just then, or whose predecessor leaves at
    /// the same time, is not told: it may spin for as long as aware waiters do at most.
    fn leave(&self) {
        self.tell(self.ahead());
    }

    fn stay(&self) {
        self.tell(P::scheduling_id());
    }
}

impl<P: Platform> McsNode<P> {
    /// Has those behind us look at another thread. Ours to call until we have given up, or have released the lock.
    fn tell(&self, ahead: u32) {
        /// Nodes of waiters that left, which are told, too. Waiters beyond may look at the wrong thread.
        const FAR: u32 = 64;
        self.owner.set(ahead);
        let mut node = self;
        for _ in 0..FAR {
            // SAFETY: I3, since a releaser passes nodes in the order of the queue, and ours only when we have given up or, having
            // been granted the lock, release it. ORDER: E3.
            let Some(next) = (unsafe { node.next.load(Acquire).as_ref() }) else { break };
            next.ahead.set(ahead);
            if !wait::is_abandoned(next.word.load(Relaxed)) {
                break;
            }
            // A thread that lines up behind it looks at the one that its owner went by.
            next.owner.set(ahead);
            node = next;
        }
    }
}

/// The MCS lock, waiting by `W`.
#[repr(transparent)]
pub struct Mcs<P: Platform, W> {
    /// The last node of the queue; written by every locker, and by a releaser that leaves the lock free.
    tail: P::Ptr<McsNode<P>>,
    policy: PhantomData<W>,
}

impl<P: Platform, W> core::fmt::Debug for Mcs<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mcs").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl<W> Mcs<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { tail: Native::null(), policy: PhantomData }
    }
}

impl<P: Platform, W: WaitPolicy<P>> Mcs<P, W> {
    /// Puts the waiters from `node` to `last`, which are linked, into the queue, and waits with `node`. Returns whether it was
    /// granted the lock.
    #[inline]
    pub(crate) fn append(&self, node: NonNull<McsNode<P>>, last: NonNull<McsNode<P>>, wait: &Wait) -> bool {
        // ORDER: Release is E2 (and the initialisation of our node); Acquire is E1 and E2.
        let Some(pred) = NonNull::new(self.tail.swap(last.as_ptr(), AcqRel)) else {
            return true; // Released since our first attempt.
        };
        // SAFETY: I3: `pred` is not recycled before it has found us as its successor.
        let pred = unsafe { pred.as_ref() };
        // SAFETY: our node lives until it is granted or abandoned, and `wait_at` returns then.
        let ours = unsafe { node.as_ref() };
        if W::LOOKS_AHEAD {
            ours.ahead.set(pred.owner.who());
        }
        pred.next.store(node.as_ptr(), Release); // ORDER: E3.
        W::wait_at(&ours.word, ours, wait).is_ok()
    }

    /// Waits with `node`, which is in the queue or soon will be. Returns whether it was granted the lock.
    pub(crate) fn wait_with(node: NonNull<McsNode<P>>, wait: &Wait) -> bool {
        // SAFETY: our node lives until it is granted or abandoned, and `wait` returns then.
        W::wait(&unsafe { node.as_ref() }.word, wait).is_ok()
    }

    /// As [`Mcs::wait_with`], with the node in which the thread gave up.
    pub(crate) fn wait_again(
        node: NonNull<McsNode<P>>,
        returning: &mut Returning<P, McsNode<P>>,
        wait: &Wait,
    ) -> Option<NonNull<McsNode<P>>> {
        // SAFETY: I3: ours again, until it is granted or abandoned. ORDER: E4 where it has been granted.
        let waits = returning.take_up(&unsafe { node.as_ref() }.word, wait);
        let granted = waits.is_none_or(|wait| Self::wait_with(node, &wait));
        granted.then_some(node)
    }

    /// Hands the lock over, or frees it, on behalf of `node`, skipping those who gave up.
    #[cold]
    fn pass_on(&self, mut node: NonNull<McsNode<P>>) {
        // SAFETY: `node` is the head of the queue, and ours (I1, or abandoned to us).
        while let Err(last) = unsafe { self.grant_next(node) } {
            // ORDER: Release is E1.
            if self.tail.compare_exchange(last.as_ptr(), ptr::null_mut(), Release, Relaxed).is_ok() {
                // SAFETY: no longer in the queue, and without a successor (I2).
                unsafe { P::free_node(last) };
                return;
            }
            // A thread swapped `tail` after we looked, and is about to link.
            let mut patience = Patience::new::<P>();
            // SAFETY: ours, as above. ORDER: Relaxed: `grant_next` reads again.
            while unsafe { last.as_ref() }.next.load(Relaxed).is_null() {
                patience.pause::<P>();
            }
            node = last;
        }
    }

    /// Hands the lock to the first waiter that has linked itself and not given up, or returns the last node that gave up,
    /// or `node`: it is the head of the queue now, and the caller's.
    ///
    /// # Safety
    ///
    /// `node` is the head of the queue, and the caller's.
    pub(crate) unsafe fn grant_next(&self, mut node: NonNull<McsNode<P>>) -> Result<(), NonNull<McsNode<P>>> {
        loop {
            // SAFETY: the caller's contract, or abandoned to us. ORDER: E3.
            let Some(succ) = NonNull::new(unsafe { node.as_ref() }.next.load(Acquire)) else {
                return Err(node);
            };
            // SAFETY: the successor's node is initialised (E3) and stays until we grant.
            let outcome = wait::grant::<P>(&unsafe { succ.as_ref() }.word); // ORDER: E4.
            // SAFETY: nobody links to or looks at the old head any more (I3).
            unsafe { P::free_node(node) };
            match outcome {
                Grant::Accepted => return Ok(()),
                Grant::Abandoned => node = succ,
            }
        }
    }
}

impl<P: Platform, W> Mcs<P, W> {
    /// Whether a thread lines up behind the holder, whose token this is.
    pub(crate) fn is_waited_for(&self, token: NonNull<McsNode<P>>) -> bool {
        self.tail.load(Relaxed) != token.as_ptr()
    }

    /// Empties the queue of a lock that no living thread holds or waits for, after `fork`.
    pub(crate) fn clear(&self) {
        self.tail.store(ptr::null_mut(), Relaxed);
    }
}

// SAFETY: at most one node is at the head (I1, I2), and E1 and E4 order the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>> NodeLock for Mcs<P, W> {
    type Platform = P;
    type Node = McsNode<P>;

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
        self.append(node, node, wait)
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
        if let Some(wait) = returning.take_up(&ours.word, wait) {
            if W::LOOKS_AHEAD {
                ours.stay();
            }
            W::wait_at(&ours.word, ours, &wait).ok()?;
        }
        Some(node)
    }

    #[inline(always)]
    unsafe fn release(&self, node: NonNull<Self::Node>) {
        // SAFETY: the holder's node (I1). ORDER: Relaxed: `pass_on` reads it again.
        let alone = unsafe { node.as_ref() }.next.load(Relaxed).is_null();
        // ORDER: Release is E1.
        if alone && self.tail.compare_exchange(node.as_ptr(), ptr::null_mut(), Release, Relaxed).is_ok() {
            // SAFETY: no longer in the queue, and without a successor (I2).
            unsafe { P::free_node(node) };
        } else {
            self.pass_on(node);
        }
    }

    fn is_held(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }

    unsafe fn keep_only(&self, node: NonNull<Self::Node>) {
        // SAFETY: the holder's node is in the queue, and nobody else runs.
        unsafe { node.as_ref() }.next.store(ptr::null_mut(), Relaxed);
        self.tail.store(node.as_ptr(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::ABANDONED;
    use lockwork_platform::Sched;

    #[test]
    fn those_behind_are_told_who_is_ahead_when_a_waiter_leaves() {
        let nodes: [McsNode<Native>; 4] = core::array::from_fn(|_| PoolNode::new());
        for [node, next] in nodes.array_windows() {
            node.next.store(ptr::from_ref(next).cast_mut(), Relaxed);
        }
        for (id, node) in (1..).zip(&nodes) {
            node.owner.set(id);
            node.ahead.set(id - 1);
        }
        // Its owner has left already, and went by the first.
        nodes[1].owner.set(1);
        nodes[1].word.store(ABANDONED, Relaxed);
        nodes[0].leave();
        assert_eq!([1, 2, 3].map(|behind: usize| nodes[behind].ahead.who()), [0, 0, 3]);
        assert_eq!(nodes.each_ref().map(|node| node.owner.who()), [0, 0, 3, 4]);
        nodes[0].stay();
        let me = Native::scheduling_id();
        assert_eq!([1, 2, 3].map(|behind: usize| nodes[behind].ahead.who()), [me, me, 3]);
        assert_eq!(nodes.each_ref().map(|node| node.owner.who()), [me, me, 3, 4]);
    }
}
