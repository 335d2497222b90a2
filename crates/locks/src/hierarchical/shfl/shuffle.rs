//! The queue of [`Shfl`](super::Shfl), and how a waiter sorts those behind it. Invariants and edges are those of the lock.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, DataCell, FutexCell, NODE_BYTES, Native, Platform, PoolNode};

use crate::wait::{ABANDONED, PARKED, WAITING};

/// Waiters that a shuffler wakes before they are first.
const AHEAD: u32 = 4;

/// Of a waiter's word: awake, and given the shuffler's role.
pub(super) const SHUFFLER: u32 = ABANDONED + 1;

/// In no batch.
pub(super) const ALONE: u32 = 0;

/// A queue node.
#[repr(C)]
pub(super) struct ShflNode<P: Platform> {
    /// The owner waits on it to be first; written by the owner, by shufflers and once by whoever makes it first.
    pub(super) word: P::Futex,
    /// The NUMA node of the owner; written before the queue node is published.
    pub(super) numa: P::U32,
    /// Its number in its batch, from 1. The shuffler's; the owner's when it is that, or first.
    pub(super) batch: P::Data<u32>,
    /// Whether it was given the shuffler's role, and has not noticed. As above.
    pub(super) chosen: P::Data<bool>,
    /// The one behind it.
    pub(super) next: P::Ptr<ShflNode<P>>,
}

impl<P: Platform> core::fmt::Debug for ShflNode<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ShflNode").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for ShflNode<P> {
    fn new() -> Self {
        Self {
            word: P::Futex::new(WAITING),
            numa: P::U32::new(0),
            batch: P::Data::new(ALONE),
            chosen: P::Data::new(false),
            next: P::Ptr::new(ptr::null_mut()),
        }
    }
}

const _: () = assert!(size_of::<ShflNode<Native>>() <= NODE_BYTES);

/// The one behind a node, if it has linked itself.
pub(super) fn linked<P: Platform>(node: NonNull<ShflNode<P>>) -> Option<NonNull<ShflNode<P>>> {
    // SAFETY: I3, I4: in the queue, and not before the caller. ORDER: E3.
    NonNull::new(unsafe { node.as_ref() }.next.load(Acquire))
}

fn set_next<P: Platform>(node: NonNull<ShflNode<P>>, next: Option<NonNull<ShflNode<P>>>) {
    let next = next.map_or(ptr::null_mut(), NonNull::as_ptr);
    // SAFETY: I3: in the queue, and its successor has linked itself. ORDER: E4, E5.
    unsafe { node.as_ref() }.next.store(next, Relaxed);
}

/// Moves the word of a waiter that waits to `to`, and wakes it if it slept.
fn rouse<P: Platform>(node: NonNull<ShflNode<P>>, to: u32) {
    // SAFETY: I3: behind the caller in the queue.
    let word = unsafe { &node.as_ref().word };
    let mut seen = word.load(Relaxed);
    while seen == WAITING || seen == PARKED {
        // ORDER: Release is E5.
        match word.compare_exchange(seen, to, Release, Relaxed) {
            Ok(WAITING) => return,
            // SAFETY: as above.
            Ok(_) => return unsafe { FutexCell::wake(ptr::from_ref(word), 1) },
            Err(now) => seen = now,
        }
    }
}

/// The shuffler's role.
pub(super) struct Shuffle<P: Platform> {
    /// Whose batch it is.
    numa: u32,
    /// Members of the batch.
    members: u32,
    /// Waiters that were woken.
    woken: u32,
    /// The last of the batch; equal to the shuffler's own if there is none behind it.
    last: NonNull<ShflNode<P>>,
    /// The last that was looked at.
    seen: NonNull<ShflNode<P>>,
}

impl<P: Platform> Shuffle<P> {
    pub(super) fn new(own: NonNull<ShflNode<P>>) -> Self {
        // SAFETY: the caller's own.
        let node = unsafe { own.as_ref() };
        // SAFETY: I3: the caller has the role (E4, E5).
        let members = unsafe { node.batch.get() }.max(1);
        // SAFETY: as above.
        unsafe { node.batch.set(members) };
        // SAFETY: as above.
        unsafe { node.chosen.set(false) };
        Self { numa: node.numa.load(Relaxed), members, woken: 0, last: own, seen: own }
    }

    /// Looks at one more waiter, and moves it to the end of the batch if it is of the node. Whether there was one.
    pub(super) fn step(&mut self, limit: u32) -> bool {
        if self.members > limit {
            return false;
        }
        let Some(candidate) = linked(self.seen) else { return false };
        // SAFETY: I3: behind us.
        let node = unsafe { candidate.as_ref() };
        if node.numa.load(Relaxed) != self.numa {
            self.seen = candidate;
            return true;
        }
        if self.seen == self.last {
            self.seen = candidate;
        } else {
            // I2: the last of the queue stays.
            let after = linked(candidate);
            if after.is_none() {
                return false;
            }
            set_next(self.seen, after);
            set_next(candidate, linked(self.last));
            set_next(self.last, Some(candidate));
        }
        self.last = candidate;
        self.members += 1;
        // SAFETY: I3: we have the role.
        unsafe { node.batch.set(self.members) };
        if self.woken < AHEAD && node.word.load(Relaxed) == PARKED {
            self.woken += 1;
            rouse(candidate, WAITING);
        }
        true
    }

    /// Passes the role on to the last of the batch, if that is not `own`.
    pub(super) fn pass_on(self, own: NonNull<ShflNode<P>>) {
        if self.last != own {
            // SAFETY: I3: behind us.
            let last = unsafe { self.last.as_ref() };
            // SAFETY: I3: we have the role. ORDER: E4 or E5.
            unsafe { last.chosen.set(true) };
            rouse(self.last, SHUFFLER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BATCH;
    use super::*;
    use lockwork_platform::Pool;

    type Node = NonNull<ShflNode<Native>>;

    /// A queue of waiters of these NUMA nodes.
    fn queue<const N: usize>(numa: [u32; N]) -> [Node; N] {
        let nodes = numa.map(|numa| {
            let node = Native::alloc_node::<ShflNode<Native>>();
            // SAFETY: allocated above.
            unsafe { node.as_ref() }.numa.store(numa, Relaxed);
            node
        });
        nodes.windows(2).for_each(|pair| set_next(pair[0], Some(pair[1])));
        nodes
    }

    fn chain(first: Node) -> impl Iterator<Item = Node> {
        core::iter::successors(Some(first), |node| linked(*node))
    }

    fn free(nodes: &[Node]) {
        // SAFETY: allocated by `queue`, and used no more.
        nodes.iter().for_each(|node| unsafe { Native::free_node(*node) });
    }

    #[test]
    fn shuffling_brings_a_node_together_and_leaves_the_last_where_it_is() {
        let nodes = queue([1, 1, 2, 3, 1, 2, 1, 1]);
        let mut shuffle = Shuffle::new(nodes[0]);
        while shuffle.step(BATCH) {}
        let order = [0, 1, 4, 6, 2, 3, 5, 7].map(|index| nodes[index]);
        assert!(chain(nodes[0]).eq(order));
        assert_eq!((shuffle.last, shuffle.members), (nodes[6], 4));
        shuffle.pass_on(nodes[0]);
        // SAFETY: allocated by `queue`.
        assert_eq!(unsafe { nodes[6].as_ref() }.word.load(Relaxed), SHUFFLER);
        free(&nodes);
    }

    #[test]
    fn a_batch_has_its_limit() {
        let nodes = queue([1, 2, 1, 1, 1, 2]);
        let mut shuffle = Shuffle::new(nodes[0]);
        while shuffle.step(2) {}
        let order = [0, 2, 3, 1, 4, 5].map(|index| nodes[index]);
        assert!(chain(nodes[0]).eq(order));
        free(&nodes);
    }
}
