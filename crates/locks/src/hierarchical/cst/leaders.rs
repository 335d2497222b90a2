//! The global queue of [`Cst`](super::Cst): who of the threads that hold the lock of a node comes first. Invariants and edges
//! are those of the lock.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, Platform};

use super::node::NodeState;
use super::queue::{Queue, Waiter, held};
use crate::state::Claimed;
use crate::wait::{self, GRANTED, Grant, Returning, Wait};

/// The queue of those who hold the lock of a node.
pub(crate) struct Leaders<'a, P: Platform> {
    pub(crate) queue: Queue<'a, P>,
    /// What the queue is known by to threads that come back to it.
    pub(crate) address: usize,
    /// The threads that use what all nodes share.
    pub(crate) claim: &'a Claimed<P>,
}

impl<P: Platform> Leaders<'_, P> {
    /// Lines up and waits, for the holder of the lock of the node `state`. What is queued for is held in way `way` then. Whether
    /// that was before the deadline.
    pub(crate) fn line_up(&self, state: &NodeState<P>, way: usize, wait: &Wait) -> bool {
        let node = P::alloc_node::<Waiter<P>>();
        if wait.deadline.is_none() {
            return self.wait(node, way, wait);
        }
        let line_up = |wait: &Wait| {
            // I8.
            // SAFETY: ours, and in no queue yet.
            unsafe { node.as_ref() }.of.store(ptr::from_ref(state).cast_mut(), Relaxed);
            state.users().add_another();
            self.wait(node, way, wait).then_some(())
        };
        let come_back = |left: NonNull<Waiter<P>>, returning: &mut Returning<_, _>, wait: &Wait| {
            // SAFETY: I3: ours again, until we have given up.
            let waiter = unsafe { left.as_ref() };
            // ORDER: E4 where it has been granted.
            let granted =
                returning.take_up(&waiter.word, wait).is_none_or(|wait| waiter.wait(&wait) == GRANTED);
            if granted {
                self.settle(left, way);
            }
            granted.then_some(())
        };
        Returning::run(self.address, wait, node, line_up, come_back).is_some()
    }

    /// Lines up with `node`, which is fresh. Whether it was granted what is queued for.
    fn wait(&self, node: NonNull<Waiter<P>>, way: usize, wait: &Wait) -> bool {
        // SAFETY: ours, until we have given up.
        let waiter = unsafe { node.as_ref() };
        let granted = self.queue.enter(node, || {}) || waiter.wait(wait) == GRANTED;
        if granted {
            self.settle(node, way);
        }
        granted
    }

    /// Takes the caller's `node` out of the queue, who has been granted what is queued for.
    fn settle(&self, node: NonNull<Waiter<P>>, way: usize) {
        // SAFETY: I3: the caller's. ORDER: Relaxed: its own.
        let of = unsafe { node.as_ref() }.of.load(Relaxed);
        self.queue.settle(node, way);
        self.leave(of);
    }

    /// Takes a node out of the users of a state that it kept, if it kept one (I8).
    fn leave(&self, of: *mut NodeState<P>) {
        // SAFETY: I8: null, or kept for the node.
        if let Some(state) = unsafe { of.as_ref() } {
            state.users().leave(self.claim);
        }
    }

    /// Hands what is queued for, which the caller holds in way `way`, to the next that has not given up. Whether there was one.
    /// After that it is not the caller's to look at. The caller is counted as a user of the state (I8).
    pub(crate) fn hand_on(&self, way: usize) -> bool {
        self.grant_first(self.queue.head(), held::<P>(way))
    }

    /// Hands what is queued for, which the caller holds in way `way`, to the next that has not given up, or frees it.
    pub(crate) fn release(&self, way: usize) {
        let head = loop {
            match self.queue.head() {
                None if self.queue.free(way) => return,
                None => {}
                head => break head,
            }
        };
        // Where all have given up it is free with the last of them: the state may be another lock's after that (I8).
        self.grant_first(head, ptr::null_mut());
    }

    /// Hands what is queued for to the first from `head` on that has not given up. Whether there was one; if not, what is queued
    /// for is `then` as soon as the last is taken out.
    fn grant_first(&self, mut head: Option<NonNull<Waiter<P>>>, then: *mut Waiter<P>) -> bool {
        while let Some(node) = head {
            // SAFETY: initialised (E3), and there until we have granted (I3). ORDER: E4.
            if wait::grant::<P>(&unsafe { node.as_ref() }.word) == Grant::Accepted {
                return true;
            }
            head = self.queue.take_out(node, then);
            // SAFETY: I3: abandoned. ORDER: Relaxed: E3.
            let of = unsafe { node.as_ref() }.of.load(Relaxed);
            // SAFETY: I3: abandoned, and taken out.
            unsafe { P::free_node(node) };
            self.leave(of);
        }
        false
    }
}
