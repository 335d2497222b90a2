//! Queue locks that the waiters of a NUMA node enter together: they line up on their node first, and the first of them
//! puts all who have done so into the queue of the lock as a whole.
//!
//! What [`hclh`](super::hclh) and [`fc_mcs`](super::fc_mcs) share. How waiters line up, and with that the queue lock,
//! is the type of the nodes' states, [`Batch`].
//!
//! # State
//!
//! ```text
//! lock ─→ directory: queue lock, nodes ─→ node state: those who are not in the lock's queue yet
//! ```
//!
//! # Invariants
//!
//! - I1: the lock is held exactly while the queue lock is, by the same token.
//! - I2: a release touches neither directory nor states after it has released the lock.
//! - I3: the directory is the lock's while somebody holds the queue lock, or waits and is counted: it is taken back by a
//!   thread that acquires the queue lock and finds nobody counted. A thread that acquires the queue lock at once finds whose the
//!   directory is afterwards, and releases another lock's.
//!
//! # Ordering
//!
//! - E1: as E1 of `state` and of `directory`: the initialisation of the directory and of the states.
//! - E2: the edges of the queue lock: the critical section.

use core::fmt::{self, Debug, Formatter};

use lockwork_platform::{Deadline, Native, Platform};

use super::directory::{Directory, Node as Part, enter_part};
use crate::api::{RawLock, address};
use crate::queue::node_lock::NodeLock;
use crate::state::{Lazy, State};
use crate::wait::{Returning, Wait, endless};

/// The state of a NUMA node: those of its threads that are not in the lock's queue yet.
pub trait Batch<P: Platform>: Part<P, Self::Lock> + Debug {
    /// The lock as a whole.
    type Lock: NodeLock<Platform = P> + 'static;

    /// Lines up with `node`, and waits for `lock`. Returns whether that was granted; if the deadline was first, the
    /// node is no longer the caller's.
    ///
    /// # Safety
    ///
    /// `node` is the caller's and fresh.
    unsafe fn wait(&self, lock: &Self::Lock, node: Node<P, Self>, wait: &Wait) -> bool;

    /// Goes on waiting where the thread gave up, wherever its node is meanwhile: see [`NodeLock::come_back`].
    #[doc(hidden)]
    fn come_back(
        left: Node<P, Self>,
        returning: &mut Returning<P, <Self::Lock as NodeLock>::Node>,
        wait: &Wait,
    ) -> Option<Node<P, Self>>;

    /// Drops all who have lined up, who are ghosts, after `fork`.
    fn reset(&self);
}

/// A queue node of the lock, which is its token.
type Node<P, S> = <<S as Batch<P>>::Lock as RawLock<P>>::Token;

/// The lock as a whole, and the states of the nodes.
pub(super) type Nodes<P, S> = Directory<P, <S as Batch<P>>::Lock, S>;

/// A queue lock that is entered in batches, which line up in states `S`.
#[repr(transparent)]
pub struct Batched<P: Platform, S: Batch<P>> {
    directory: Lazy<P, Nodes<P, S>>,
}

impl<P: Platform, S: Batch<P>> Debug for Batched<P, S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched").field("directory", &self.directory).finish()
    }
}

impl<S: Batch<Native>> Batched<Native, S> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { directory: Lazy::unused() }
    }
}

impl<P: Platform, S: Batch<P>> Batched<P, S> {
    /// Lines up with `node`, which is the caller's, and waits.
    fn queue_up(&self, node: Node<P, S>, wait: &Wait) -> Option<Node<P, S>> {
        let (directory, state) = enter_part(&self.directory, P::domain());
        let Some(state) = state else {
            let granted = directory.root().queue_up(node, wait);
            directory.claim().leave(); // I3.
            return granted.then_some(node);
        };
        // SAFETY: the caller's node.
        let line_up = |wait: &Wait| unsafe { state.wait(directory.root(), node, wait) }.then_some(node);
        let root = directory.root();
        let granted = if wait.deadline.is_none() {
            line_up(wait)
        } else {
            Returning::run(address(root), wait, node, line_up, S::come_back)
        };
        // I3: the thread holds the lock, or has stopped waiting.
        state.users().leave(directory.claim());
        granted
    }

    /// [`Batched::queue_up`], as a lock that stands for itself.
    #[cold]
    fn acquire_slow(&self, node: Node<P, S>, deadline: Option<Deadline>) -> Option<Node<P, S>> {
        Wait::run::<P, _>(address(self), deadline, |wait| self.queue_up(node, wait))
    }

    #[inline(always)]
    fn acquire(&self, deadline: Option<Deadline>) -> Option<Node<P, S>> {
        let directory = self.directory.peek_bare_or_make();
        let node = P::alloc_node();
        if !directory.root().acquire_if_free(node) {
            return self.acquire_slow(node, deadline);
        }
        if self.directory.owns(directory) {
            return Some(node);
        }
        // I3: another lock's.
        // SAFETY: acquired above.
        unsafe { directory.root().unlock(node) };
        self.acquire_slow(P::alloc_node(), deadline)
    }
}

impl<P: Platform, S: Batch<P>> Drop for Batched<P, S> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

// SAFETY: the holder holds the queue lock (I1), whose edges order the sections (E2).
unsafe impl<P: Platform, S: Batch<P>> RawLock<P> for Batched<P, S> {
    type Token = Node<P, S>;

    fn new() -> Self {
        Self { directory: Lazy::new() }
    }

    #[inline(always)]
    fn lock(&self) -> Self::Token {
        endless(self.acquire(None))
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Token> {
        loop {
            let directory = self.directory.peek_bare_or_make();
            if let Some(token) = directory.root().try_lock() {
                if self.directory.owns(directory) {
                    return Some(token);
                }
                // I3: another lock's.
                // SAFETY: acquired above.
                unsafe { directory.root().unlock(token) };
            }
            if self.directory.settle() {
                return None;
            }
        }
    }

    fn lock_slow(&self, wait: &Wait) -> Option<Self::Token> {
        self.queue_up(P::alloc_node(), wait)
    }

    fn lock_with(&self, wait: &Wait) -> Option<Self::Token> {
        self.try_lock().or_else(|| self.lock_slow(wait))
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        self.acquire(Some(deadline))
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: Self::Token) {
        // SAFETY: the caller's contract.
        let directory = unsafe { self.directory.used_bare() };
        // SAFETY: the caller's contract: the token of the lock as a whole (I1).
        unsafe { directory.root().unlock(token) };
    }

    fn is_locked(&self) -> bool {
        self.directory.look(|directory| directory.root().is_locked()).unwrap_or(false)
    }

    unsafe fn forget_waiters(&self, holder: Option<Self::Token>) {
        let Some(directory) = self.directory.own() else { return };
        directory.claim().forget(0);
        directory.nodes.visit(|state| {
            state.reset();
            state.users().forget(0);
        });
        // SAFETY: the caller's contract.
        unsafe { directory.root().forget_waiters(holder) };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.directory.dispose() };
    }
}
