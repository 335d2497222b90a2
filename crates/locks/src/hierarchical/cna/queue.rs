//! The queues of [`Cna`](super::Cna). Invariants and edges are those of the lock.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use lockwork_platform::{AtomicCell, NODE_BYTES, Native, Platform, PoolNode};

use crate::knobs::MOST_PASSES;
use crate::wait::{self, Owner, patiently};

/// Hand-offs for which a waiter that was passed over waits at most, where no spec says otherwise: about what the paper's
/// coin makes of it.
const PASSES: u32 = MOST_PASSES;

/// No NUMA node: the owner of the queue node did not wait.
pub(super) const UNKNOWN: u32 = 0;

/// A queue node.
#[repr(C)]
pub struct CnaNode<P: Platform> {
    /// The hand-off word of the node's owner; written by the owner and once by a releaser.
    pub(super) word: P::Futex,
    /// Written before the queue node is published.
    pub(super) owner: Owner<P>,
    /// Nothing: with padding in it, compilers copy a new node by way of the stack, slowly.
    spare: P::U32,
    /// The NUMA node of the owner, plus 1; written before the queue node is published.
    pub(super) numa: P::U32,
    /// The successor in the queue it is in.
    pub(super) next: P::Ptr<CnaNode<P>>,
    /// The holder's: the ends of the second queue, the hand-offs that it has waited for, and the pass limit.
    pub(super) first: P::Ptr<CnaNode<P>>,
    pub(super) last: P::Ptr<CnaNode<P>>,
    passes: P::U32,
    pub(super) limit: P::U32,
}

impl<P: Platform> core::fmt::Debug for CnaNode<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CnaNode").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for CnaNode<P> {
    fn new() -> Self {
        let null = || P::Ptr::new(ptr::null_mut());
        Self {
            word: P::Futex::new(wait::WAITING),
            owner: Owner::new(),
            spare: P::U32::new(0),
            numa: P::U32::new(UNKNOWN),
            next: null(),
            first: null(),
            last: null(),
            passes: P::U32::new(0),
            limit: P::U32::new(0),
        }
    }
}

const _: () = assert!(size_of::<CnaNode<Native>>() <= NODE_BYTES);

/// The NUMA node of this thread, as it is kept.
pub(super) fn here<P: Platform>() -> u32 {
    P::domain() as u32 + 1
}

/// The first and the last of a queue.
pub(super) type Ends<P> = (NonNull<CnaNode<P>>, NonNull<CnaNode<P>>);

/// The waiters that were passed over, in the order of their arrival. It goes from holder to holder.
pub(super) struct Aside<P: Platform> {
    pub(super) ends: Option<Ends<P>>,
    /// Hand-offs since it was empty.
    pub(super) passes: u32,
    /// The lock's pass limit; 0 = the default.
    pub(super) limit: u32,
}

impl<P: Platform> Aside<P> {
    /// Takes the queue out of the holder's node.
    pub(super) fn of(holder: &CnaNode<P>) -> Self {
        let ends = NonNull::new(holder.first.load(Relaxed)).zip(NonNull::new(holder.last.load(Relaxed)));
        Self { ends, passes: holder.passes.load(Relaxed), limit: holder.limit.load(Relaxed) }
    }

    /// Puts the queue into the node of the next holder, which does not run yet. ORDER: E4 publishes it.
    pub(super) fn pass_to(&self, next: &CnaNode<P>) {
        next.limit.store(self.limit, Relaxed);
        if let Some((first, last)) = self.ends {
            next.first.store(first.as_ptr(), Relaxed);
            next.last.store(last.as_ptr(), Relaxed);
            next.passes.store(self.passes, Relaxed);
        }
    }

    /// Whether those in it have waited for long enough.
    pub(super) fn is_due(&self) -> bool {
        self.passes >= if self.limit == 0 { PASSES } else { self.limit }
    }

    /// Takes the whole queue.
    pub(super) fn take(&mut self) -> Option<Ends<P>> {
        self.passes = 0;
        self.ends.take()
    }

    /// Adds the waiters from `first` to `last`, which are out of the main queue.
    fn append(&mut self, first: NonNull<CnaNode<P>>, last: NonNull<CnaNode<P>>) {
        self.ends = match self.ends {
            None => Some((first, last)),
            Some((eldest, before)) => {
                set_next(before, first.as_ptr());
                Some((eldest, last))
            }
        };
    }

    /// The first waiter from `next` on whose NUMA node is `numa`, those before it being put aside. Also, which is first
    /// in the main queue if there is none.
    pub(super) fn nearest(
        &mut self,
        mut next: NonNull<CnaNode<P>>,
        numa: u32,
    ) -> (Option<NonNull<CnaNode<P>>>, NonNull<CnaNode<P>>) {
        let mut passed: Option<NonNull<CnaNode<P>>> = None;
        let mut candidate = next;
        loop {
            // SAFETY: initialised (E3), and I3: it waits, and we are the releaser. ORDER: as above.
            if unsafe { candidate.as_ref() }.numa.load(Relaxed) == numa {
                if let Some(last) = passed {
                    self.append(next, last);
                }
                return (Some(candidate), next);
            }
            // I4: the last in the queue cannot be taken out of it.
            let Some(after) = linked(candidate) else { return (None, next) };
            if gave_up(candidate) {
                match passed {
                    Some(before) => set_next(before, after.as_ptr()),
                    None => next = after,
                }
                // SAFETY: I3: nobody links to it any more.
                unsafe { P::free_node(candidate) };
            } else {
                passed = Some(candidate);
            }
            candidate = after;
        }
    }
}

/// Links a node whose successor is the holder's to say (I4).
pub(super) fn set_next<P: Platform>(node: NonNull<CnaNode<P>>, next: *mut CnaNode<P>) {
    // SAFETY: I1, I3: in a queue, and the caller is the holder. ORDER: E4, or E2 where it becomes the tail.
    unsafe { node.as_ref() }.next.store(next, Relaxed);
}

/// The successor of a node in either queue, if it has linked itself.
pub(super) fn linked<P: Platform>(node: NonNull<CnaNode<P>>) -> Option<NonNull<CnaNode<P>>> {
    // SAFETY: I3: in a queue or the head of one, and the caller is the holder. ORDER: E3.
    NonNull::new(unsafe { node.as_ref() }.next.load(Acquire))
}

/// The successor of a node, when a thread is known to be about to link itself.
pub(super) fn await_link<P: Platform>(node: NonNull<CnaNode<P>>) -> NonNull<CnaNode<P>> {
    patiently::<P, _>(|| linked(node))
}

/// Whether the owner of a waiting node has given up. The node then is the caller's.
fn gave_up<P: Platform>(node: NonNull<CnaNode<P>>) -> bool {
    // SAFETY: I3: the caller holds the lock, and only a holder recycles or grants a waiting node. ORDER: E5.
    wait::has_given_up::<P>(unsafe { &node.as_ref().word })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use lockwork_platform::Pool;

    pub(in super::super) type Node = NonNull<CnaNode<Native>>;

    /// A queue of waiters of these NUMA nodes.
    pub(in super::super) fn queue<const N: usize>(numa: [u32; N]) -> [Node; N] {
        let nodes = numa.map(|numa| {
            let node = Native::alloc_node::<CnaNode<Native>>();
            // SAFETY: allocated above.
            unsafe { node.as_ref() }.numa.store(numa, Relaxed);
            node
        });
        nodes.windows(2).for_each(|pair| set_next(pair[0], pair[1].as_ptr()));
        nodes
    }

    pub(in super::super) fn chain(first: Node) -> impl Iterator<Item = Node> {
        core::iter::successors(Some(first), |node| linked(*node))
    }

    pub(in super::super) fn free(nodes: &[Node]) {
        // SAFETY: allocated by `queue`, and used no more.
        nodes.iter().for_each(|node| unsafe { Native::free_node(*node) });
    }

    #[test]
    fn those_of_other_nodes_are_put_aside_in_their_order() {
        let nodes = queue([2, 3, 1, 2, 1, 1]);
        let mut aside = Aside { ends: None, passes: 0, limit: 1 };
        assert_eq!(aside.nearest(nodes[0], 1), (Some(nodes[2]), nodes[0]));
        assert_eq!(aside.nearest(nodes[3], 1), (Some(nodes[4]), nodes[3]));
        assert_eq!(aside.nearest(nodes[5], 1), (Some(nodes[5]), nodes[5]));
        assert_eq!(aside.ends, Some((nodes[0], nodes[3])));
        assert!(chain(nodes[0]).take(3).eq([nodes[0], nodes[1], nodes[3]]));
        free(&nodes);
    }

    #[test]
    fn where_nobody_is_near_nobody_is_put_aside_and_the_dead_are_dropped() {
        let nodes = queue([2, 3, 2, 4]);
        for dead in [0, 2] {
            // SAFETY: allocated by `queue`.
            unsafe { nodes[dead].as_ref() }.word.store(wait::ABANDONED, Relaxed);
        }
        let mut aside = Aside { ends: None, passes: 0, limit: 1 };
        assert_eq!(aside.nearest(nodes[0], 1), (None, nodes[1]));
        assert!(aside.ends.is_none());
        assert!(chain(nodes[1]).eq([nodes[1], nodes[3]]));
        free(&[nodes[1], nodes[3]]);
    }
}
