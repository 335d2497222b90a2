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
pub struct Line<P: Platform> {
    /// A lock whose holder is the first of them, and whose waiters are the others.
    pub(super) queue: Mcs<P, SpinThenPark>,
    /// `NONE`, `APPROVED`, `TOP_PARKED` or `JOINED_PARKED`; of the first.
    pub(super) approved: P::Futex,
    /// Pauses between two looks at the number of active threads; only the first uses it.
    pub(super) next_check: P::U32,
}

impl<P: Platform> Debug for Line<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Line").field("approved", &self.approved.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for Line<P> {
    fn new() -> Self {
        Self { queue: RawLock::new(), approved: P::Futex::new(NONE), next_check: P::U32::new(1) }
    }
}

impl<P: Platform> Line<P> {
    /// Whether somebody is passive here.
    fn is_used(&self) -> bool {
        self.queue.is_locked()
    }

    /// Prepares it for another lock, when nobody is.
    pub(super) fn renew(&self) {
        self.approved.store(NONE, Relaxed);
        self.next_check.store(1, Relaxed);
    }

    /// In a child after `fork`: nobody is.
    pub(super) fn forget(&self) {
        self.queue.clear();
        self.approved.store(NONE, Relaxed);
    }
}

/// A passive set.
pub trait Passive<P: Platform>: Debug + Send + Sync + 'static {
    /// Whether threads of one node are preferred for a time.
    const BY_NODE: bool;
    /// Where passive threads line up.
    type Lines: Send + Sync + 'static;

    /// Nobody is passive.
    fn lines() -> Self::Lines;

    /// Where the calling thread lines up.
    fn own(lines: &Self::Lines) -> &Line<P>;

    /// Whether threads of this line may look whether there is room for them.
    fn are_eligible(lines: &Self::Lines, line: &Line<P>) -> bool;

    /// Calls `visit` with the lines in which somebody is, those first whose turn it is, until it has found something: with all of
    /// them, or with the eligible ones.
    fn find<R>(lines: &Self::Lines, all: bool, visit: impl FnMut(&Line<P>) -> Option<R>) -> Option<R>;

    /// Begins the turn of the next line, as the holder of the lock.
    fn begin_next_turn(lines: &Self::Lines);

    /// Calls `visit` with all lines.
    fn visit(lines: &Self::Lines, visit: impl FnMut(&Line<P>));

    /// Gives back what was made for the lines.
    ///
    /// # Safety
    ///
    /// Nobody uses the state.
    unsafe fn dispose(lines: &Self::Lines);
}

/// One line for all (`gcr`).
#[derive(Debug)]
pub struct Together;

impl<P: Platform> Passive<P> for Together {
    const BY_NODE: bool = false;
    type Lines = Line<P>;

    fn lines() -> Line<P> {
        PoolNode::new()
    }

    fn own(line: &Line<P>) -> &Line<P> {
        line
    }

    #[inline(always)]
    fn are_eligible(_line: &Line<P>, _same: &Line<P>) -> bool {
        true
    }

    fn find<R>(line: &Line<P>, _all: bool, mut visit: impl FnMut(&Line<P>) -> Option<R>) -> Option<R> {
        if line.is_used() { visit(line) } else { None }
    }

    fn begin_next_turn(_line: &Line<P>) {}

    fn visit(line: &Line<P>, mut visit: impl FnMut(&Line<P>)) {
        visit(line);
    }

    unsafe fn dispose(_line: &Line<P>) {}
}

/// A line for each NUMA node, the threads of one of which are preferred for a time (`gcr-numa`).
#[derive(Debug)]
pub struct ByNode;

/// Nodes whose lines are found without a detour.
const NEAR: usize = 2;

/// The lines of the nodes.
#[repr(C)]
pub struct NodeLines<P: Platform> {
    lines: Children<P, Line<P>, NEAR>,
    /// The node whose threads are preferred; written by the holder of the lock.
    preferred: P::U32,
}

impl<P: Platform> Debug for NodeLines<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NodeLines").field("preferred", &self.preferred.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> NodeLines<P> {
    pub(super) fn preferred(&self) -> usize {
        self.preferred.load(Relaxed) as usize
    }

    /// The line of a node, made if there is none yet. `None`: there is no memory.
    pub(super) fn line(&self, node: usize) -> Option<&Line<P>> {
        self.lines.state(node, |_| {})
    }

    /// The line of a node, if somebody is in it.
    fn used(&self, node: usize) -> Option<&Line<P>> {
        self.lines.get(node).filter(|line| line.is_used())
    }
}

impl<P: Platform> Passive<P> for ByNode {
    const BY_NODE: bool = true;
    type Lines = NodeLines<P>;

    fn lines() -> NodeLines<P> {
        NodeLines { lines: Children::new(), preferred: P::U32::new(0) }
    }

    fn own(lines: &NodeLines<P>) -> &Line<P> {
        loop {
            // Without memory the thread waits for that, as it would for the lock.
            match lines.line(P::domain()) {
                Some(line) => return line,
                None => P::yield_now(),
            }
        }
    }

    fn are_eligible(lines: &NodeLines<P>, line: &Line<P>) -> bool {
        lines.used(lines.preferred()).is_none_or(|preferred| ptr::eq(preferred, line))
    }

    fn find<R>(lines: &NodeLines<P>, all: bool, mut visit: impl FnMut(&Line<P>) -> Option<R>) -> Option<R> {
        let (first, nodes) = (lines.preferred(), P::domains());
        if !all && let Some(preferred) = lines.used(first) {
            return visit(preferred);
        }
        (0..nodes).find_map(|step| lines.used((first + step) % nodes).and_then(&mut visit))
    }

    fn begin_next_turn(lines: &NodeLines<P>) {
        let (last, nodes) = (lines.preferred(), P::domains());
        let mut next = (1..nodes).map(|step| (last + step) % nodes);
        if let Some(node) = next.find(|node| lines.used(*node).is_some()) {
            lines.preferred.store(node as u32, Relaxed);
        }
    }

    fn visit(lines: &NodeLines<P>, visit: impl FnMut(&Line<P>)) {
        lines.lines.visit(visit);
    }

    unsafe fn dispose(lines: &NodeLines<P>) {
        // SAFETY: the caller's contract; lines keep nothing while nobody is in them.
        unsafe { lines.lines.dispose(|_| {}) };
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Native;

    use super::*;

    #[test]
    fn only_the_queue_of_the_preferred_node_keeps_others_from_looking_for_room() {
        let lines: NodeLines<Native> = ByNode::lines();
        let [preferred, second, third] = [0, 1, 2].map(|node| lines.line(node).expect("memory"));
        let are_eligible = || [preferred, second, third].map(|line| ByNode::are_eligible(&lines, line));
        assert_eq!(lines.preferred(), 0);
        assert_eq!(are_eligible(), [true; 3], "nobody is passive");
        let passive = second.queue.lock();
        assert_eq!(are_eligible(), [true; 3], "nobody of the preferred node is passive");
        let first = preferred.queue.lock();
        assert_eq!(are_eligible(), [true, false, false]);
        // SAFETY: acquired above.
        unsafe { preferred.queue.unlock(first) };
        assert_eq!(are_eligible(), [true; 3]);
        // SAFETY: as above.
        unsafe { second.queue.unlock(passive) };
        // SAFETY: nobody uses the lines.
        unsafe { <ByNode as Passive<Native>>::dispose(&lines) };
    }
}
