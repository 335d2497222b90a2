//! Which threads are passive, and which of them come first: the one difference between GCR and GCR-NUMA.
//!
//! The invariants are those of [`gcr`](super::gcr).

use core::fmt::Debug;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, Platform, PoolNode};

use crate::api::RawLock;
use crate::hierarchical::directory::Children;
use crate::queue::mcs::Mcs;
use crate::wait::SpinThenPark;

/// Nobody is admitted out of turn.
pub(super) const NONE: u32 = 0;
/// The first passive thread may join.
pub(super) const APPROVED: u32 = 1;
/// The first passive thread sleeps, or is about to, until it may join.
pub(super) const TOP_PARKED: u32 = 2;
/// The first passive thread has joined, and sleeps, or is about to, until an active one has left.
pub(super) const JOINED_PARKED: u32 = 3;

/// Passive threads that are admitted in the order in which they came.
#[repr(C)]
pub struct Queue<P: Platform> {
    /// A lock whose holder is the first of them, and whose waiters are the others.
    pub(super) first: Mcs<P, SpinThenPark>,
    /// `NONE`, `APPROVED`, `TOP_PARKED` or `JOINED_PARKED`; of the first.
    pub(super) approved: P::Futex,
    /// Pauses between two looks at the number of active threads; only the first uses it.
    pub(super) next_check: P::U32,
}

impl<P: Platform> Debug for Queue<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Queue").field("approved", &self.approved.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for Queue<P> {
    fn new() -> Self {
        Self { first: RawLock::new(), approved: P::Futex::new(NONE), next_check: P::U32::new(1) }
    }
}

impl<P: Platform> Queue<P> {
    /// Whether somebody is passive here.
    fn is_used(&self) -> bool {
        self.first.is_locked()
    }

    /// Prepares it for another lock, when nobody is.
    pub(super) fn renew(&self) {
        self.approved.store(NONE, Relaxed);
        self.next_check.store(1, Relaxed);
    }

    /// In a child after `fork`: nobody is.
    pub(super) fn forget(&self) {
        self.first.clear();
        self.approved.store(NONE, Relaxed);
    }
}

/// A passive set.
pub trait Passive<P: Platform>: Debug + Send + Sync + 'static {
    /// Whether threads of one node are preferred for a time.
    const BY_NODE: bool;
    /// Where passive threads line up.
    type Queues: Send + Sync + 'static;

    /// Nobody is passive.
    fn queues() -> Self::Queues;

    /// Where the calling thread lines up.
    fn own(queues: &Self::Queues) -> &Queue<P>;

    /// Whether threads of this queue may look whether there is room for them.
    fn are_eligible(queues: &Self::Queues, queue: &Queue<P>) -> bool;

    /// Calls `visit` with the queues in which somebody is, those first whose turn it is, until it has found something: with all of
    /// them, or with the eligible ones.
    fn find<R>(queues: &Self::Queues, all: bool, visit: impl FnMut(&Queue<P>) -> Option<R>) -> Option<R>;

    /// Begins the turn of the next queue, as the holder of the lock.
    fn begin_next_turn(queues: &Self::Queues);

    /// Calls `visit` with all queues.
    fn visit(queues: &Self::Queues, visit: impl FnMut(&Queue<P>));

    /// Gives back what was made for the queues.
    ///
    /// # Safety
    ///
    /// Nobody uses the state.
    unsafe fn dispose(queues: &Self::Queues);
}

/// One queue for all (`gcr`).
#[derive(Debug)]
pub struct Together;

impl<P: Platform> Passive<P> for Together {
    const BY_NODE: bool = false;
    type Queues = Queue<P>;

    fn queues() -> Queue<P> {
        PoolNode::new()
    }

    fn own(queue: &Queue<P>) -> &Queue<P> {
        queue
    }

    #[inline(always)]
    fn are_eligible(_queue: &Queue<P>, _same: &Queue<P>) -> bool {
        true
    }

    fn find<R>(queue: &Queue<P>, _all: bool, mut visit: impl FnMut(&Queue<P>) -> Option<R>) -> Option<R> {
        if queue.is_used() { visit(queue) } else { None }
    }

    fn begin_next_turn(_queue: &Queue<P>) {}

    fn visit(queue: &Queue<P>, mut visit: impl FnMut(&Queue<P>)) {
        visit(queue);
    }

    unsafe fn dispose(_queue: &Queue<P>) {}
}

/// A queue for each NUMA node, the threads of one of which are preferred for a time (`gcr-numa`).
#[derive(Debug)]
pub struct ByNode;

/// Nodes whose queues are found without a detour.
const NEAR: usize = 2;

/// The queues of the nodes.
#[repr(C)]
pub struct NodeQueues<P: Platform> {
    queues: Children<P, Queue<P>, NEAR>,
    /// The node whose threads are preferred; written by the holder of the lock.
    preferred: P::U32,
}

impl<P: Platform> Debug for NodeQueues<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NodeQueues").field("preferred", &self.preferred.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> NodeQueues<P> {
    pub(super) fn preferred(&self) -> usize {
        self.preferred.load(Relaxed) as usize
    }

    /// The queue of a node, made if there is none yet. `None`: there is no memory.
    pub(super) fn queue(&self, node: usize) -> Option<&Queue<P>> {
        self.queues.state(node, |_| {})
    }

    /// The queue of a node, if somebody is in it.
    fn used(&self, node: usize) -> Option<&Queue<P>> {
        self.queues.get(node).filter(|queue| queue.is_used())
    }
}

impl<P: Platform> Passive<P> for ByNode {
    const BY_NODE: bool = true;
    type Queues = NodeQueues<P>;

    fn queues() -> NodeQueues<P> {
        NodeQueues { queues: Children::new(), preferred: P::U32::new(0) }
    }

    fn own(queues: &NodeQueues<P>) -> &Queue<P> {
        loop {
            // Without memory the thread waits for that, as it would for the lock.
            match queues.queue(P::domain()) {
                Some(queue) => return queue,
                None => P::yield_now(),
            }
        }
    }

    fn are_eligible(queues: &NodeQueues<P>, queue: &Queue<P>) -> bool {
        queues.used(queues.preferred()).is_none_or(|preferred| ptr::eq(preferred, queue))
    }

    fn find<R>(
        queues: &NodeQueues<P>,
        all: bool,
        mut visit: impl FnMut(&Queue<P>) -> Option<R>,
    ) -> Option<R> {
        let (first, nodes) = (queues.preferred(), P::domains());
        if !all && let Some(preferred) = queues.used(first) {
            return visit(preferred);
        }
        (0..nodes).find_map(|step| queues.used((first + step) % nodes).and_then(&mut visit))
    }

    fn begin_next_turn(queues: &NodeQueues<P>) {
        let (last, nodes) = (queues.preferred(), P::domains());
        let mut next = (1..nodes).map(|step| (last + step) % nodes);
        if let Some(node) = next.find(|node| queues.used(*node).is_some()) {
            queues.preferred.store(node as u32, Relaxed);
        }
    }

    fn visit(queues: &NodeQueues<P>, visit: impl FnMut(&Queue<P>)) {
        queues.queues.visit(visit);
    }

    unsafe fn dispose(queues: &NodeQueues<P>) {
        // SAFETY: the caller's contract; queues keep nothing while nobody is in them.
        unsafe { queues.queues.dispose(|_| {}) };
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Native;

    use super::*;

    #[test]
    fn only_the_queue_of_the_preferred_node_keeps_others_from_looking_for_room() {
        let queues: NodeQueues<Native> = ByNode::queues();
        let [preferred, second, third] = [0, 1, 2].map(|node| queues.queue(node).expect("memory"));
        let are_eligible = || [preferred, second, third].map(|queue| ByNode::are_eligible(&queues, queue));
        assert_eq!(queues.preferred(), 0);
        assert_eq!(are_eligible(), [true; 3], "nobody is passive");
        let passive = second.first.lock();
        assert_eq!(are_eligible(), [true; 3], "nobody of the preferred node is passive");
        let first = preferred.first.lock();
        assert_eq!(are_eligible(), [true, false, false]);
        // SAFETY: acquired above.
        unsafe { preferred.first.unlock(first) };
        assert_eq!(are_eligible(), [true; 3]);
        // SAFETY: as above.
        unsafe { second.first.unlock(passive) };
        // SAFETY: nobody uses the queues.
        unsafe { <ByNode as Passive<Native>>::dispose(&queues) };
    }
}
