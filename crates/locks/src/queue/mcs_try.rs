//! MCS-try: an MCS lock whose waiters unlink themselves when their deadline passes, so that they cost a release
//! nothing.
//!
//! Michael L. Scott and William N. Scherer III, "Scalable queue-based spin locks with timeout", PPoPP 2001; the idea of
//! a doubly linked queue, in which a leaver may have to wait for a neighbour's next few steps, is from there.
//! Deviations: where the paper's neighbours negotiate by tags in their pointers, each node has a latch, which a leaver
//! takes of its predecessor, itself and its successor, so that neighbours can be asleep; the node comes from the
//! platform's pool and travels in the token; a lock that is handed to a waiter on its way out is its own, after the
//! deadline.
//!
//! Properties: FIFO; 8 bytes a lock; one node of 64 bytes for the holder and for each waiter, and none for those who
//! gave up, which [`mcs`](super::mcs) leaves in the queue until a release comes by; O(1) remote references per
//! hand-off. Waiting: spin, stp, park, yield, aware. `try_lock` succeeds only on a free lock with no queue. A leaver
//! waits for a predecessor that has just been granted the lock and has not noticed yet. Avoid the spinning variant with
//! more threads than CPUs: a preempted waiter at the head of the queue stops everybody for its whole time slice.
//!
//! # State
//!
//! ```text
//! tail ──────────────────────────────┐         tail == null: unlocked
//! holder ─next→ waiter ─next→ … ─next→ last    word: see `wait`; `ABANDONED` = on its way out
//!        ←prev─        ←prev─   ←prev─         latch: 1 = taken
//! ```
//!
//! # Invariants
//!
//! - I1: the node at the head belongs to the holder; its word means nothing.
//! - I2: `tail` is null or the last node of the queue. A node leaves `tail` by a locker's swap, or by a CAS of its owner's
//!   to its predecessor, or, of a releaser's, to null.
//! - I3: `next` of a node that is not last is null only while the one behind it, or a leaver on behalf of that one, is
//!   about to write it. That thread keeps the node in the queue: its owner neither releases nor leaves before
//!   (`detach`).
//! - I4: `prev` of a waiter is its predecessor, for the thread that has the waiter's latch; the predecessor is not recycled
//!   then: to leave or to release, its owner needs that latch.
//! - I5: the thread that grants a waiter the lock has the latches of both its predecessor and the waiter. Its own passes to
//!   it with the lock, so that a grant is the granter's last access. A waiter that has taken its latch itself has not
//!   been granted the lock.
//! - I6: latches are waited for from the front of the queue to its end only; a thread that has one and wants that of its
//!   predecessor gives up both where that is taken. So there is no circle of waiting threads.
//!
//! # Ordering
//!
//! - E1: a release's CAS of `tail` to null (Release) → the swap or CAS of the next locker that finds null (Acquire): the
//!   critical section.
//! - E2: the locker's swap of `tail`, or a leaver's CAS of it to its predecessor (Release) → the swap of the next
//!   behind, or the CAS of the predecessor's owner (Acquire): the node's initialisation, and the leaver's last accesses
//!   to it.
//! - E3: the store of `next` (Release) → the load of the node's owner (Acquire): the one behind is initialised.
//! - E4: `wait::grant` → `WaitPolicy::wait`, or the leaver's look at its word: the critical section, on a hand-off.
//! - E5: the giving back of a latch (Release) → the taking of it (Acquire): `prev`, `next`, and all accesses to the node
//!   and to its predecessor's.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Native, Platform, PoolNode};

use super::node_lock::NodeLock;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{self, Behind, Owner, Patience, Wait, WaitPolicy};

/// What is known of MCS-try.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "mcs-try",
    family: Family::Queue,
    order: Order::Fifo,
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: Timed::Leaves("the queue"),
    proofs: &[Proof::of(file!())],
    citation: Citation {
        key: "scott01",
        text: "Scott, Scherer: Scalable queue-based spin locks with timeout. PPoPP 2001",
    },
    summary: "an MCS queue, linked both ways, from which waiters unlink themselves at their deadline",
    properties: "As MCS; many short deadlines leave nothing behind for the release to skip.",
    deviations: "Leavers latch the nodes around them instead of negotiating with their owners.",
    avoid: "mcs-try-spin: more threads than CPUs (a preempted waiter stops everybody). mcs-try-stp: very short critical \
            sections with more threads than CPUs (every hand-off may have to wake a sleeper).",
    ..Descriptor::MUTEX
};

/// A queue node.
#[repr(C)]
pub struct TryNode<P: Platform> {
    /// The hand-off word of the node's owner; written by the owner and once by a releaser.
    word: P::Futex,
    /// 1 = taken, by the owner or by a neighbour's.
    latch: P::U32,
    /// Written before the node is in the queue.
    owner: Owner<P>,
    /// Nothing: with padding in it, compilers copy a new node by way of the stack, slowly.
    spare: P::U32,
    /// The successor; written by it, and by leavers.
    next: P::Ptr<TryNode<P>>,
    /// A waiter's predecessor; written by the owner, and by leavers that have the latch.
    prev: P::Ptr<TryNode<P>>,
}

impl<P: Platform> core::fmt::Debug for TryNode<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TryNode").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for TryNode<P> {
    fn new() -> Self {
        let null = || P::Ptr::new(ptr::null_mut());
        Self {
            word: P::Futex::new(wait::WAITING),
            latch: P::U32::new(0),
            owner: Owner::new(),
            spare: P::U32::new(0),
            next: null(),
            prev: null(),
        }
    }
}

impl<P: Platform> TryNode<P> {
    /// Takes the latch, if it is free.
    fn try_latch(&self) -> bool {
        // ORDER: Acquire is E5. Failure tells nothing.
        self.latch.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Takes the latch. I6: the caller has that of the predecessor, or none.
    fn latch(&self) {
        let mut patience = Patience::new::<P>();
        while !self.try_latch() {
            patience.pause::<P>();
        }
    }

    /// Gives the latch back.
    fn unlatch(&self) {
        self.latch.store(0, Release); // ORDER: E5.
    }

    /// Takes the latches of the predecessor and of this node, as its owner; nothing if the node has been granted the
    /// lock, and its latch.
    fn latch_both(&self) -> Option<NonNull<Self>> {
        let mut patience = Patience::new::<P>();
        loop {
            if self.try_latch() {
                let Some(pred) = NonNull::new(self.prev.load(Relaxed)) else {
                    unreachable!("I4: a waiter has a predecessor")
                };
                // SAFETY: I4: not recycled while we have our latch.
                if unsafe { pred.as_ref() }.try_latch() {
                    return Some(pred);
                }
                self.unlatch(); // I6.
            } else if self.word.load(Acquire) == wait::GRANTED {
                return None; // ORDER: E4.
            }
            patience.pause::<P>();
        }
    }
}

/// The MCS-try lock, waiting by `W`.
#[repr(transparent)]
pub struct McsTry<P: Platform, W> {
    /// The last node of the queue; written by every locker, by leavers at the end, and by a releaser that leaves the lock
    /// free.
    tail: P::Ptr<TryNode<P>>,
    policy: PhantomData<W>,
}

const _: () = assert!(size_of::<McsTry<Native, wait::Spin>>() == DESCRIPTOR.bytes);

impl<P: Platform, W> core::fmt::Debug for McsTry<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("McsTry").field("tail", &self.tail.load(Relaxed)).finish()
    }
}

impl<W> McsTry<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { tail: Native::null(), policy: PhantomData }
    }
}

impl<P: Platform, W: WaitPolicy<P>> McsTry<P, W> {
    /// Ends the queue before `node`, if nobody is behind it: at `end`, its predecessor or null.
    #[inline(always)]
    fn cut_off(&self, node: NonNull<TryNode<P>>, end: *mut TryNode<P>) -> bool {
        // ORDER: Release is E1 or E2. Acquire is E2: the waiter that left from behind `node` has done with it.
        self.tail.compare_exchange(node.as_ptr(), end, AcqRel, Relaxed).is_ok()
    }

    /// Ends the queue before `node`, or returns the node behind it.
    fn detach(&self, node: NonNull<TryNode<P>>, end: *mut TryNode<P>) -> Option<NonNull<TryNode<P>>> {
        let mut patience = Patience::new::<P>();
        loop {
            // SAFETY: the caller's own node. ORDER: E3.
            if let Some(succ) = NonNull::new(unsafe { node.as_ref() }.next.load(Acquire)) {
                return Some(succ);
            }
            if self.cut_off(node, end) {
                return None;
            }
            // I3: a thread is about to write `next`, or leaves.
            patience.pause::<P>();
        }
    }

    /// Takes `node` out of the queue, unless it is granted the lock first. Returns whether it is out, and recycled.
    fn leave(&self, node: NonNull<TryNode<P>>) -> bool {
        // SAFETY: ours.
        let mine = unsafe { node.as_ref() };
        let Some(pred) = mine.latch_both() else { return false };
        // SAFETY: I4, and we have its latch.
        let ahead = unsafe { pred.as_ref() };
        // ORDER: E3.
        if let Some(succ) = NonNull::new(mine.next.load(Acquire)) {
            Self::bridge(pred, succ);
            ahead.unlatch();
        } else {
            // Cleared before a thread can find `pred` at the end of the queue.
            ahead.next.store(ptr::null_mut(), Relaxed); // ORDER: E2 publishes it.
            ahead.unlatch();
            // I3: `pred` stays until we are out, or have written its `next` again.
            if let Some(succ) = self.detach(node, pred.as_ptr()) {
                Self::bridge(pred, succ);
            }
        }
        // SAFETY: nobody links to it any more; neighbours had its latch when they last did (I4).
        unsafe { P::free_node(node) };
        true
    }

    /// Makes neighbours of `pred` and `succ`, for the leaver between them, which has its own latch.
    fn bridge(pred: NonNull<TryNode<P>>, succ: NonNull<TryNode<P>>) {
        // SAFETY: initialised (E3), and it stays: to leave, it would need the leaver's latch.
        let behind = unsafe { succ.as_ref() };
        behind.latch();
        behind.prev.store(pred.as_ptr(), Relaxed); // ORDER: E5 publishes it.
        // SAFETY: it stays: the caller has its latch, or I3. ORDER: E3.
        unsafe { pred.as_ref() }.next.store(succ.as_ptr(), Release);
        behind.unlatch();
    }

    /// Hands the lock over, or frees it.
    #[cold]
    fn pass_on(&self, node: NonNull<TryNode<P>>) {
        // SAFETY: the head of the queue, and ours (I1).
        let head = unsafe { node.as_ref() };
        head.latch(); // Nobody leaves from behind it any more.
        if let Some(succ) = self.detach(node, ptr::null_mut()) {
            // SAFETY: initialised (E3), and it stays until we grant: to leave, it would need the latch of `node`.
            let next = unsafe { succ.as_ref() };
            next.latch();
            // I5. ORDER: E4. One on its way out finds that it has been granted the lock.
            let _ = wait::grant::<P>(&next.word);
        }
        // SAFETY: nobody links to it: I4 for the new holder, E2 for those who left.
        unsafe { P::free_node(node) };
    }
}

// SAFETY: at most one node is at the head (I1, I2), and E1 and E4 order the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>> NodeLock for McsTry<P, W> {
    type Platform = P;
    type Node = TryNode<P>;

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
        // SAFETY: ours.
        let mine = unsafe { node.as_ref() };
        mine.prev.store(pred.as_ptr(), Relaxed); // ORDER: E3 publishes it.
        // SAFETY: I3: `pred` stays until it has found us as its successor.
        let before = unsafe { pred.as_ref() };
        let ahead = before.owner.get::<W>();
        before.next.store(node.as_ptr(), Release); // ORDER: E3.
        if W::wait_at(&mine.word, &Behind::new(ahead, &mine.owner), wait).is_err() && self.leave(node) {
            return false;
        }
        mine.unlatch(); // I5.
        true
    }

    #[inline(always)]
    unsafe fn release(&self, node: NonNull<Self::Node>) {
        // SAFETY: the holder's node (I1). ORDER: Relaxed: `pass_on` reads it again.
        let alone = unsafe { node.as_ref() }.next.load(Relaxed).is_null();
        if alone && self.cut_off(node, ptr::null_mut()) {
            // SAFETY: no longer in the queue, and nobody is behind it (E2).
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
        let holder = unsafe { node.as_ref() };
        holder.next.store(ptr::null_mut(), Relaxed);
        holder.latch.store(0, Relaxed);
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
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: a null pointer is a valid atomic pointer.
        let lock: McsTry<Native, Spin> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        let Some(token) = lock.try_lock() else { panic!("free") };
        assert!(lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(!lock.is_locked());
    }

    #[test]
    fn who_gives_up_leaves_nothing_behind() {
        let lock = McsTry::<Native, Spin>::unlocked();
        let token = lock.lock();
        for _ in 0..3 {
            assert!(lock.try_lock_until(PAST).is_none());
            assert_eq!(lock.tail.load(Relaxed), token.as_ptr());
        }
        // SAFETY: the holder's node.
        assert!(unsafe { token.as_ref() }.next.load(Relaxed).is_null());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(!lock.is_locked());
    }

    #[test]
    fn a_leaver_bridges_its_neighbours() {
        let lock = McsTry::<Native, Spin>::unlocked();
        let nodes: [_; 3] = core::array::from_fn(|_| Native::alloc_node::<TryNode<Native>>());
        // SAFETY: allocated above.
        let node = |index: usize| unsafe { nodes[index].as_ref() };
        for index in 1..3 {
            node(index).prev.store(nodes[index - 1].as_ptr(), Relaxed);
            node(index - 1).next.store(nodes[index].as_ptr(), Relaxed);
        }
        lock.tail.store(nodes[2].as_ptr(), Relaxed);
        assert!(lock.leave(nodes[1]));
        assert_eq!(node(0).next.load(Relaxed), nodes[2].as_ptr());
        assert_eq!(node(2).prev.load(Relaxed), nodes[0].as_ptr());
        assert!(lock.leave(nodes[2]));
        assert_eq!(lock.tail.load(Relaxed), nodes[0].as_ptr());
        // SAFETY: the head, which holds the lock.
        unsafe { lock.unlock(nodes[0]) };
        assert!(!lock.is_locked());
    }

    #[test]
    fn a_lock_that_comes_late_is_kept() {
        let lock = McsTry::<Native, Spin>::unlocked();
        let (head, waiter) = (lock.lock(), Native::alloc_node::<TryNode<Native>>());
        // SAFETY: allocated above.
        let mine = unsafe { waiter.as_ref() };
        mine.prev.store(head.as_ptr(), Relaxed);
        mine.word.store(wait::ABANDONED, Relaxed);
        lock.tail.store(waiter.as_ptr(), Relaxed);
        // SAFETY: locked above.
        unsafe { head.as_ref() }.next.store(waiter.as_ptr(), Relaxed);
        // SAFETY: locked above.
        unsafe { lock.unlock(head) };
        assert!(!lock.leave(waiter));
        mine.unlatch();
        // SAFETY: granted above.
        unsafe { lock.unlock(waiter) };
        assert!(!lock.is_locked());
    }
}
