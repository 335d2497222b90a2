//! Lock cohorting: a lock for each NUMA node and one for all, made into a lock that stays on a node for a while.
//!
//! David Dice, Virendra J. Marathe and Nir Shavit, "Lock cohorting: a general technique for designing NUMA locks", PPoPP
//! 2012; ACM TOPC 1(2), 2015. A thread acquires the lock of its node, then the global one, unless it was handed that
//! too. The release hands both on to a thread of the same node, a bounded number of times in a row (`may-pass-local`, 64
//! unless a spec says otherwise). Deviations: an
//! acquisition first tries the global lock alone, which is all that an uncontended one needs; the node's lock is released
//! before the global one, not after it, because the next holder may destroy the lock; cohort detection and
//! hand-over are one step that finds a waiter who has not given up (the paper makes waiters announce that they give up);
//! the state of a node is made when a thread of that node first has to wait.
//!
//! Properties: 8 bytes a lock, 64 more once it has been used, 64 for each node that has waited, and another 64 for each
//! 7 nodes beyond the first 4. Fairness within a node is that of its lock, between nodes that of the global lock, with
//! up to `may-pass-local` hand-overs within a node in between. Waiting: as the parts do. `try_lock` looks at the global
//! lock only.
//!
//! # State
//!
//! ```text
//! lock ─→ directory: global lock, limit, nodes ─→ node state: lock of the node, tokens, passes left, `ours`
//!
//! token: address of the holder's node state, or (odd) the global lock's token: acquired directly
//! ```
//!
//! # Invariants
//!
//! - I1: the lock is held exactly while the global lock is. Its holder has either acquired that directly, or holds the lock
//!   of the node whose state its token points to.
//! - I2: everything in a node state but the lock belongs to the holder of that node's lock.
//! - I3: `ours` is set during a hand-over only: who acquires a node's lock and finds it set has been handed the global
//!   lock, by the token in the state. Only a thread that certainly takes over is handed it.
//! - I4: directory and states are published once and stay until `dispose`. A release touches none of them after
//!   it has released the global lock or handed it over.
//!
//! # Ordering
//!
//! - E1: as E1 of `lazy` and of `directory`: the initialisation of the directory and of the states.
//! - E2: hand-over and release of a node's lock → its next acquisition: the node's state, and the critical section if
//!   the global lock comes with it.
//! - E3: release of the global lock → its next acquisition: the critical section.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, DataCell, Deadline, NODE_BYTES, Native, Platform, PoolNode};

use super::combinations::COHORT;
use super::directory::Directory;
use super::lazy::{Lazy, State};
use super::part::{GlobalLock, LocalLock, Part};
use crate::api::{RawLock, Token};
use crate::knobs::BaseKnobs;
use crate::queue::mcs::Mcs;
use crate::wait::{Spin, endless, registered};

/// In a token: acquired directly, and the rest is the global lock's token.
const DIRECT: usize = 1;

/// The global lock, and the states of the nodes.
type Nodes<P, G, L> = Directory<P, G, NodeState<P, G, L>>;

/// Where the global lock is, and the token of who holds it.
type Global<'a, P, G, L> = (&'a Nodes<P, G, L>, <G as RawLock<P>>::Token);

/// The state of one node.
#[repr(C, align(64))]
pub struct NodeState<P: Platform, G: 'static, L: 'static> {
    /// The lock of the node's threads.
    local: L,
    /// The global lock is in here; set before the state is published.
    directory: P::Ptr<Nodes<P, G, L>>,
    /// The word of the holder's token of `local`.
    local_token: P::Data<usize>,
    /// The word of the node's token of the global lock.
    global_token: P::Data<usize>,
    /// Hand-overs that are left until the other nodes get their turn.
    passes: P::Data<u32>,
    /// Whether the global lock comes with `local`.
    ours: P::Data<bool>,
}

const _: () = {
    assert!(size_of::<CohortLock<Native, Mcs<Native, Spin>, Mcs<Native, Spin>>>() == COHORT.bytes);
    assert!(size_of::<NodeState<Native, Mcs<Native, Spin>, Mcs<Native, Spin>>>() == NODE_BYTES);
    assert!(size_of::<Nodes<Native, Mcs<Native, Spin>, Mcs<Native, Spin>>>() == NODE_BYTES);
};

impl<P: Platform, G: 'static, L: 'static> core::fmt::Debug for NodeState<P, G, L> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NodeState").finish_non_exhaustive()
    }
}

impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> PoolNode<P> for NodeState<P, G, L> {
    fn new() -> Self {
        Self {
            local: L::new(),
            directory: P::Ptr::new(ptr::null_mut()),
            local_token: P::Data::new(0),
            global_token: P::Data::new(0),
            passes: P::Data::new(0),
            ours: P::Data::new(false),
        }
    }
}

impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> NodeState<P, G, L> {
    /// Acquires both locks, known as a waiter for `address`. Returns whether that was before the deadline.
    fn acquire(&self, directory: &Nodes<P, G, L>, address: usize, deadline: Option<Deadline>) -> bool {
        let Some(local) = self.local.acquire_for(address, deadline) else { return false };
        // SAFETY: I2, for all that follows.
        if unsafe { self.ours.get() } {
            // SAFETY: as above.
            unsafe { self.ours.set(false) };
        } else {
            let Some(token) = directory.root().acquire_for(address, deadline) else {
                // Nothing was handed to us, and nothing goes with the lock now: the next one tries itself.
                // SAFETY: acquired above.
                unsafe { self.local.unlock(local) };
                return false;
            };
            // SAFETY: as above.
            unsafe { self.global_token.set(token.into_word()) };
            // SAFETY: as above.
            unsafe { self.passes.set(directory.pass_limit().load(Relaxed)) };
        }
        // SAFETY: as above.
        unsafe { self.local_token.set(local.into_word()) };
        true
    }

    /// The holder's token of the node's lock.
    ///
    /// # Safety
    ///
    /// The lock is held by way of this state (I1), and nobody else accesses the state (I2).
    unsafe fn local_token(&self) -> L::Token {
        // SAFETY: the caller's contract.
        let word = unsafe { self.local_token.get() };
        // SAFETY: the holder's token, put there by `acquire`.
        unsafe { L::Token::from_word(word) }
    }

    /// The node's token of the global lock.
    ///
    /// # Safety
    ///
    /// As [`NodeState::local_token`].
    unsafe fn global_token(&self) -> G::Token {
        // SAFETY: the caller's contract.
        let word = unsafe { self.global_token.get() };
        // SAFETY: the token that the node acquired the global lock with, put there by `acquire`.
        unsafe { G::Token::from_word(word) }
    }

    /// Frees the node's lock, which only ghosts hold or wait for.
    fn clear(&self) {
        self.local.clear();
        // SAFETY: the caller says that nobody else runs.
        unsafe { self.ours.set(false) };
    }

    /// Hands the lock to another thread of the node, or releases the node's lock.
    ///
    /// # Errors
    ///
    /// Nobody took it: where the global lock is, which is still held, and the node's token of it.
    ///
    /// # Safety
    ///
    /// The lock is held by way of this state (I1).
    unsafe fn pass_on<'a>(&self) -> Result<(), Global<'a, P, G, L>> {
        // SAFETY: I2, for all that follows.
        let mut local = unsafe { self.local_token() };
        // SAFETY: as above.
        let passes = unsafe { self.passes.get() };
        if passes > 0 {
            // SAFETY: as above.
            unsafe { self.passes.set(passes - 1) };
            // SAFETY: as above.
            unsafe { self.ours.set(true) };
            // SAFETY: ours to hand over. ORDER: E2.
            match unsafe { self.local.hand_over(local) } {
                Ok(()) => return Ok(()), // I4.
                Err(kept) => local = kept,
            }
            // SAFETY: as above: nobody took it.
            unsafe { self.ours.set(false) };
        }
        // SAFETY: as above.
        let token = unsafe { self.global_token() };
        // SAFETY: I4: it stays while we hold the global lock. ORDER: E1 has published it.
        let directory = unsafe { &*self.directory.load(Relaxed) };
        // SAFETY: ours. ORDER: E2. From here on the state is not ours to look at.
        unsafe { self.local.unlock(local) };
        Err((directory, token))
    }

    /// Hands the lock to another thread of the node, or releases it.
    ///
    /// # Safety
    ///
    /// The lock is held by way of this state (I1).
    unsafe fn release(&self) {
        // SAFETY: the caller's contract.
        if let Err((directory, token)) = unsafe { self.pass_on() } {
            // SAFETY: ours. ORDER: E3. From here on there may be no lock (I4).
            unsafe { directory.root().unlock(token) };
        }
    }
}

/// A lock made of the global lock `G` and a lock `L` for each node.
#[repr(transparent)]
pub struct CohortLock<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> {
    directory: Lazy<P, Nodes<P, G, L>>,
    parts: PhantomData<(G, L)>,
}

impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> core::fmt::Debug for CohortLock<P, G, L> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CohortLock").field("directory", &self.directory).finish()
    }
}

impl<G: GlobalLock<Native>, L: LocalLock<Native>> CohortLock<Native, G, L> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { directory: Lazy::unused(), parts: PhantomData }
    }
}

impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> CohortLock<P, G, L> {
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// Acquires the global lock alone, if it is free.
    #[inline(always)]
    fn acquire_directly(directory: &Nodes<P, G, L>, address: usize) -> Option<NonNull<NodeState<P, G, L>>> {
        let token = directory.root().attempt_for(address)?;
        // SAFETY: made from a pointer's word, or from no pointer at all; odd, so not zero.
        Some(unsafe { Token::from_word(token.into_word() | DIRECT) })
    }

    /// Acquires as one of the threads of this node.
    #[cold]
    fn acquire_in_turn(
        directory: &Nodes<P, G, L>,
        address: usize,
        deadline: Option<Deadline>,
    ) -> Option<NonNull<NodeState<P, G, L>>> {
        // From before the node's lock is acquired until the global one is: a child of `fork` must find every ghost.
        registered::<P, _>(address, || {
            let state = directory.nodes.state(P::node(), |state| {
                state.directory.store(ptr::from_ref(directory).cast_mut(), Relaxed);
            });
            state.acquire(directory, address, deadline).then_some(NonNull::from(state))
        })
    }

    #[inline(always)]
    fn acquire(&self, address: usize, deadline: Option<Deadline>) -> Option<NonNull<NodeState<P, G, L>>> {
        let directory = self.directory.get_or_make();
        Self::acquire_directly(directory, address)
            .or_else(|| Self::acquire_in_turn(directory, address, deadline))
    }
}

impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> Drop for CohortLock<P, G, L> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> Part<P> for CohortLock<P, G, L> {
    fn acquire_for(&self, address: usize, deadline: Option<Deadline>) -> Option<Self::Token> {
        self.acquire(address, deadline)
    }

    fn attempt_for(&self, address: usize) -> Option<Self::Token> {
        Self::acquire_directly(self.directory.get_or_make(), address)
    }

    fn clear(&self) {
        if let Some(directory) = self.directory.get() {
            directory.nodes.visit(NodeState::clear);
            directory.root().clear();
        }
    }
}

impl<P: Platform, G: GlobalLock<P> + LocalLock<P>, L: LocalLock<P>> LocalLock<P> for CohortLock<P, G, L> {
    unsafe fn hand_over(&self, token: Self::Token) -> Result<(), Self::Token> {
        let word = token.into_word();
        let (directory, token) = if word & DIRECT == 0 {
            // SAFETY: I4.
            let state = unsafe { token.as_ref() };
            // SAFETY: I1.
            match unsafe { state.pass_on() } {
                Ok(()) => return Ok(()),
                Err(kept) => kept,
            }
        } else {
            // SAFETY: the caller's contract.
            let directory = unsafe { self.directory.of_holder() };
            // SAFETY: I1: the global lock's token, without our mark.
            (directory, unsafe { G::Token::from_word(word & !DIRECT) })
        };
        // SAFETY: held, by this token. ORDER: E3.
        let outcome = unsafe { directory.root().hand_over(token) };
        // SAFETY: as in `acquire_directly`: who keeps the global lock has it as if acquired directly.
        outcome.map_err(|kept| unsafe { Token::from_word(kept.into_word() | DIRECT) })
    }
}

// SAFETY: the holder holds the global lock (I1, I3), and E2 and E3 order the sections.
unsafe impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> RawLock<P> for CohortLock<P, G, L> {
    type Token = NonNull<NodeState<P, G, L>>;

    fn new() -> Self {
        Self { directory: Lazy::new(), parts: PhantomData }
    }

    fn configure(&self, knobs: &BaseKnobs) {
        self.directory.configure(knobs);
    }

    #[inline(always)]
    fn lock(&self) -> Self::Token {
        endless(self.acquire(self.address(), None))
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Token> {
        Self::acquire_directly(self.directory.get_or_make(), self.address())
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        self.acquire(self.address(), Some(deadline))
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: Self::Token) {
        let word = token.into_word();
        if word & DIRECT == 0 {
            // SAFETY: I4.
            let state = unsafe { token.as_ref() };
            // SAFETY: I1.
            return unsafe { state.release() };
        }
        // SAFETY: the caller's contract.
        let directory = unsafe { self.directory.of_holder() };
        // SAFETY: I1: the global lock's token, without our mark.
        let token = unsafe { G::Token::from_word(word & !DIRECT) };
        // SAFETY: held, by this token. ORDER: E3.
        unsafe { directory.root().unlock(token) };
    }

    fn is_locked(&self) -> bool {
        self.directory.get().is_some_and(|directory| directory.root().is_locked())
    }

    unsafe fn forget_waiters(&self, holder: Option<Self::Token>) {
        let Some(directory) = self.directory.get() else { return };
        let locked = directory.root().is_locked();
        let Some(holder) = holder.filter(|_| locked) else {
            // Without the holder's token a lock that is locked stays as it is.
            if !locked {
                directory.nodes.visit(NodeState::clear);
            }
            return;
        };
        let word = holder.into_word();
        // SAFETY: I1, I4.
        let held_by = if word & DIRECT == 0 { Some(unsafe { holder.as_ref() }) } else { None };
        directory.nodes.visit(|state| {
            if held_by.is_some_and(|holder| ptr::eq(state, holder)) {
                // SAFETY: nobody else runs.
                let token = unsafe { state.local_token() };
                // SAFETY: as above.
                unsafe { state.local.forget_waiters(Some(token)) };
            } else {
                state.clear();
            }
        });
        let token = match held_by {
            // SAFETY: nobody else runs.
            Some(state) => unsafe { state.global_token() },
            // SAFETY: I1: the global lock's token, without our mark.
            None => unsafe { G::Token::from_word(word & !DIRECT) },
        };
        // SAFETY: nobody else runs.
        unsafe { directory.root().forget_waiters(Some(token)) };
    }

    unsafe fn dispose(&self) {
        let clear_state = |state: &NodeState<P, G, L>| {
            // SAFETY: the caller's contract.
            unsafe { state.local.dispose() };
        };
        let clear = |directory: &Nodes<P, G, L>| {
            // SAFETY: as above.
            unsafe { directory.nodes.dispose(clear_state) };
            // SAFETY: as above.
            unsafe { directory.root().dispose() };
        };
        // SAFETY: as above.
        unsafe { self.directory.dispose(clear) };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::queue::ticket::Ticket;

    type Lock = CohortLock<Native, Ticket<Native>, Mcs<Native, Spin>>;

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: a null pointer is a valid atomic pointer.
        let lock: Lock = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        let token = lock.lock();
        assert!(lock.is_locked() && lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(!lock.is_locked());
    }

    #[test]
    fn a_lock_that_was_moved_keeps_its_state() {
        let lock = Lock::unlocked();
        let token = lock.lock();
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        let state = ptr::from_ref(lock.directory.get_or_make());
        let moved = std::boxed::Box::new(lock);
        assert!(ptr::eq(moved.directory.get_or_make(), state) && !moved.is_locked());
    }

    #[test]
    fn a_release_without_waiters_gives_the_node_up() {
        let lock = Lock::unlocked();
        let token =
            Lock::acquire_in_turn(lock.directory.get_or_make(), lock.address(), None).expect("a free lock");
        assert!(lock.is_locked() && lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(
            !lock.is_locked()
                && !lock.directory.get_or_make().nodes.state(Native::node(), |_| {}).local.is_locked()
        );
    }
}
