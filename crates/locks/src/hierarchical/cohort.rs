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
//! - I3: `ours` is set during a hand-over only: a thread that acquires a node's lock and finds it set has been handed the global
//!   lock, by the token in the state. Only a thread that certainly takes over is handed it.
//! - I4: a release touches neither directory nor states after it has released the global lock or handed it over.
//! - I5: the directory is the lock's while somebody holds the global lock, or waits and is counted: it is taken back by a
//!   thread that acquires the global lock and finds nobody counted. A thread that acquires the global lock directly finds whose
//!   the directory is afterwards, and releases another lock's at once.
//!
//! # Ordering
//!
//! - E1: as E1 of `state` and of `directory`: the initialisation of the directory and of the states.
//! - E2: hand-over and release of a node's lock → its next acquisition: the node's state, and the critical section if
//!   the global lock comes with it.
//! - E3: release of the global lock → its next acquisition: the critical section.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, DataCell, NODE_BYTES, Native, Platform, PoolNode};

use super::directory::{Directory, Node, Users, enter_part};
use super::part::{GlobalLock, LocalLock, Part};
use crate::api::{RawLock, Token, address};
use crate::describe::{Citation, Descriptor, Family, Keeps, Order, Timed};
use crate::knobs::{self, Knobs};
use crate::queue::mcs::Mcs;
use crate::state::{Lazy, State};
use crate::wait::{Spin, Wait};

/// In a token: acquired directly, and the rest is the global lock's token.
const DIRECT: usize = 1;

/// What is known of all cohort locks.
pub(super) const COHORT: Descriptor = Descriptor {
    name: "cohort",
    family: Family::Hierarchical,
    order: Order::FifoByNode,
    order_note: "at most `may-pass-local` hand-overs in a row within a node",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: true,
    keeps: Keeps::Parts,
    timed: Timed::GivesUp("in either queue"),
    citation: Citation {
        key: "dice12",
        text: "Dice, Marathe, Shavit: Lock cohorting: a general technique for designing NUMA locks. PPoPP 2012; \
               ACM TOPC 1(2), 2015",
    },
    summary: "",
    properties: "Contended, the lock and its data stay on a node for up to `may-pass-local` hand-overs. A lock that has \
                 been used has 64 bytes of state, and 64 for each node whose threads have waited for it.",
    deviations: "The first attempt is for the global lock alone; the node's lock is released before the global one; \
                 waiters who give up are passed over instead of announcing it; a node's state is made when needed.",
    avoid: "One NUMA node: there it only costs. Spinning parts: more threads than CPUs.",
    knobs: knobs::HIERARCHICAL,
    ..Descriptor::MUTEX
};

/// The global lock, and the states of the nodes.
type Nodes<P, G, L> = Directory<P, G, NodeState<P, G, L>>;

/// Where the global lock is, and its holder's token.
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
    /// Threads that wait (I5).
    users: P::Usize,
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
            users: P::Usize::new(0),
        }
    }
}

impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> Node<P, G> for NodeState<P, G, L> {
    fn belong(&self, directory: &Nodes<P, G, L>) {
        self.directory.store(ptr::from_ref(directory).cast_mut(), Relaxed);
    }

    #[inline(always)]
    fn users(&self) -> Users<'_, P> {
        Users(&self.users)
    }

    unsafe fn clear(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.local.dispose() };
    }
}

impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> NodeState<P, G, L> {
    /// Acquires both locks, for `passes` hand-overs. Returns whether that was before the deadline.
    fn acquire(&self, directory: &Nodes<P, G, L>, passes: u32, wait: &Wait) -> bool {
        let Some(local) = self.local.lock_with(wait) else { return false };
        // SAFETY: I2, for all that follows.
        if unsafe { self.ours.get() } {
            // SAFETY: as above.
            unsafe { self.ours.set(false) };
        } else {
            let Some(token) = directory.root().lock_with(wait) else {
                // Nothing was handed to us, and nothing goes with the lock now: the next one tries itself.
                // SAFETY: acquired above.
                unsafe { self.local.unlock(local) };
                return false;
            };
            // SAFETY: as above.
            unsafe { self.global_token.set(token.into_word()) };
            // SAFETY: as above.
            unsafe { self.passes.set(passes) };
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
    fn reset(&self) {
        self.local.clear();
        // SAFETY: the caller says that nobody else runs.
        unsafe { self.ours.set(false) };
        self.users().forget(0);
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
    /// Acquires the global lock alone, if it is free. May fail where the lock is free and has no state of its own.
    #[inline(always)]
    fn acquire_fast(&self, address: usize) -> Option<NonNull<NodeState<P, G, L>>> {
        let directory = self.directory.peek_or_make();
        let token = directory.root().lock_fast_for(address)?;
        if !self.directory.owns(directory) {
            // I5: another lock's.
            // SAFETY: acquired above.
            unsafe { directory.root().unlock(token) };
            return None;
        }
        Some(Self::direct(token))
    }

    /// The token of a holder that has acquired the global lock directly, by this token.
    #[inline(always)]
    fn direct(token: G::Token) -> NonNull<NodeState<P, G, L>> {
        // SAFETY: made from a pointer's word, or from no pointer at all; odd, so not zero.
        unsafe { Token::from_word(token.into_word() | DIRECT) }
    }

    /// Acquires as one of the threads of this node.
    fn acquire_slow(&self, wait: &Wait) -> Option<NonNull<NodeState<P, G, L>>> {
        let (directory, state) = enter_part(&self.directory, P::domain());
        let Some(state) = state else {
            let token = directory.root().lock_with(wait);
            directory.claim().leave(); // I5.
            return token.map(Self::direct);
        };
        let acquired = state.acquire(directory, self.directory.pass_limit(), wait);
        // I5: the thread holds the lock, or has stopped waiting.
        state.users().leave(directory.claim());
        acquired.then_some(NonNull::from(state))
    }
}

impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> Drop for CohortLock<P, G, L> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> Part<P> for CohortLock<P, G, L> {
    fn lock_fast_for(&self, address: usize) -> Option<Self::Token> {
        self.acquire_fast(address)
    }

    fn clear(&self) {
        if let Some(directory) = self.directory.own() {
            directory.nodes.visit(NodeState::reset);
            directory.root().clear();
            directory.claim().forget(0);
        }
    }
}

impl<P: Platform, G: GlobalLock<P> + LocalLock<P>, L: LocalLock<P>> LocalLock<P> for CohortLock<P, G, L> {
    unsafe fn hand_over(&self, token: Self::Token) -> Result<(), Self::Token> {
        let word = token.into_word();
        let (directory, token) = if word & DIRECT == 0 {
            // SAFETY: I5.
            let state = unsafe { token.as_ref() };
            // SAFETY: I1.
            match unsafe { state.pass_on() } {
                Ok(()) => return Ok(()),
                Err(kept) => kept,
            }
        } else {
            // SAFETY: the caller's contract.
            let directory = unsafe { self.directory.used() };
            // SAFETY: I1: the global lock's token, without our mark.
            (directory, unsafe { G::Token::from_word(word & !DIRECT) })
        };
        // SAFETY: held, by this token. ORDER: E3.
        let outcome = unsafe { directory.root().hand_over(token) };
        // SAFETY: as in `acquire_fast`: a thread that keeps the global lock has it as if it had acquired it directly.
        outcome.map_err(|kept| unsafe { Token::from_word(kept.into_word() | DIRECT) })
    }
}

// SAFETY: the holder holds the global lock (I1, I3), and E2 and E3 order the sections.
unsafe impl<P: Platform, G: GlobalLock<P>, L: LocalLock<P>> RawLock<P> for CohortLock<P, G, L> {
    type Token = NonNull<NodeState<P, G, L>>;

    fn new() -> Self {
        Self { directory: Lazy::new(), parts: PhantomData }
    }

    fn configure(&self, knobs: &Knobs) {
        self.directory.configure(knobs);
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<Self::Token> {
        loop {
            if let Some(token) = self.acquire_fast(address(self)) {
                return Some(token);
            }
            if self.directory.settle() {
                return None;
            }
        }
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<Self::Token> {
        self.acquire_fast(address(self))
    }

    fn lock_slow(&self, wait: &Wait) -> Option<Self::Token> {
        self.acquire_slow(wait)
    }

    fn lock_with(&self, wait: &Wait) -> Option<Self::Token> {
        self.acquire_fast(wait.address).or_else(|| self.acquire_slow(wait))
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: Self::Token) {
        let word = token.into_word();
        if word & DIRECT == 0 {
            // SAFETY: I5.
            let state = unsafe { token.as_ref() };
            // SAFETY: I1.
            return unsafe { state.release() };
        }
        // SAFETY: the caller's contract.
        let directory = unsafe { self.directory.used() };
        // SAFETY: I1: the global lock's token, without our mark.
        let token = unsafe { G::Token::from_word(word & !DIRECT) };
        // SAFETY: held, by this token. ORDER: E3.
        unsafe { directory.root().unlock(token) };
    }

    fn is_locked(&self) -> bool {
        self.directory.look(|directory| directory.root().is_locked()).unwrap_or(false)
    }

    unsafe fn forget_waiters(&self, holder: Option<Self::Token>) {
        let Some(directory) = self.directory.own() else { return };
        directory.claim().forget(0);
        let locked = directory.root().is_locked();
        let Some(holder) = holder.filter(|_| locked) else {
            // Without the holder's token a lock that is locked stays as it is.
            if !locked {
                directory.nodes.visit(NodeState::reset);
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
                state.users().forget(0);
            } else {
                state.reset();
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
        // SAFETY: the caller's contract.
        unsafe { self.directory.dispose() };
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Placement;
    extern crate std;

    use super::super::directory::Whole;
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
    fn a_lock_that_was_moved_is_as_one_that_nobody_has_waited_for() {
        let lock = Lock::unlocked();
        lock.configure(&Knobs { pass_limit: Some(7), ..Knobs::NONE });
        let token = lock.lock();
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        assert!(lock.directory.own().is_some());
        let moved = std::boxed::Box::new(lock);
        assert!(moved.directory.own().is_none() && !moved.is_locked());
        assert_eq!(moved.directory.pass_limit(), 7);
        let token = moved.try_lock().expect("a free lock");
        assert!(moved.is_locked());
        // SAFETY: locked above.
        unsafe { moved.unlock(token) };
    }

    #[test]
    fn a_release_without_waiters_gives_the_node_up() {
        let lock = Lock::unlocked();
        let token = lock.acquire_slow(&Wait::until(None)).expect("a free lock");
        assert!(lock.is_locked() && lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(token) };
        let directory = lock.directory.own().expect("made by the acquisition");
        assert!(!lock.is_locked() && !directory.make(Native::domain()).expect("made").local.is_locked());
    }
}
