//! What a lock keeps for each part of the machine, made when a thread that runs there first needs it.
//!
//! # State
//!
//! ```text
//! directory: root lock, claim, children ─→ state of a node
//!
//! children: near[N] ─→ states of the first N parts
//!              └─more─→ block: states of the next 7, more ─→ …
//! ```
//!
//! Without memory for the state of a part its threads go to the root lock.
//!
//! The directory, each state and each block take a cache line. A lock that few nodes use stays small: with 4 near nodes, 8
//! nodes take ten lines.
//!
//! # Invariants
//!
//! - I1: every pointer is null, or was published once and stays: with the directory it goes to other locks (I1 of `state`).
//! - I2: whoever uses the state of a part uses the directory: of those, one is counted by the directory's claim, and each by the
//!   part. A thread that finds the part in use adds itself there only; the last one of it leaves both.
//!
//! # Ordering
//!
//! - E1: the CAS in [`publish`] (Release) → the load or failed CAS that finds the pointer (Acquire): the
//!   initialisation of what it points to.
//! - E2: the subtraction in [`Users::leave_all`] (Release) → the one that is the last (Acquire), which leaves the claim: what the users
//!   did (E1 of `claim`). A thread that another takes off has handed it the lock of the part before, directly or through others.
//! - E3: the addition of the first user of a part (Release) → that of another that finds it there (Acquire): that the state is in use.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, NODE_BYTES, Native, Platform, PoolNode, PooledState};

use crate::api::{RawLock, Token};
use crate::state::{Claimed, Lazy, State, take_back, take_free};
use crate::wait::Wait;

/// Nodes whose states the directory itself points to.
const NEAR: usize = 4;
/// Parts whose states a block points to.
const FAR: usize = 7;

/// The threads that use the state of a part, by their number.
#[derive(Debug)]
pub struct Users<'a, P: Platform>(pub(crate) &'a P::Usize);

impl<P: Platform> Users<'_, P> {
    /// Adds the calling thread, if there are others, unless some come or go at the same time. One attempt: those of many that come at
    /// once would fail over and over, and each time move the line. By way of the directory they need but one addition each.
    #[inline(always)]
    fn join(&self) -> bool {
        // The line is to come but once.
        P::prefetch_write(ptr::from_ref(self.0));
        let seen = self.0.load(Relaxed);
        // ORDER: Acquire is E3. A read-modify-write goes on with what the first one released.
        seen > 0 && self.0.compare_exchange(seen, seen + 1, Acquire, Relaxed).is_ok()
    }

    /// Adds the calling thread, which uses the directory. Returns whether there are others.
    fn add(&self) -> bool {
        self.0.fetch_add(1, AcqRel) > 0 // ORDER: E3, both ways.
    }

    /// Adds something that keeps the state as a user does, by a user.
    pub(crate) fn add_another(&self) {
        self.0.fetch_add(1, Relaxed); // ORDER: the caller's own addition has come before.
    }

    /// Takes a thread off the users of a part, and if it is the last off those of the state that the part belongs to.
    #[inline(always)]
    pub(crate) fn leave(&self, whole: &Claimed<P>) {
        self.leave_all(1, whole);
    }

    /// As [`Users::leave`], for so many threads, one at least, whose accesses have come before.
    #[inline(always)]
    pub(crate) fn leave_all(&self, threads: usize, whole: &Claimed<P>) {
        // ORDER: Release and Acquire are E2.
        if self.0.fetch_sub(threads, AcqRel) == threads {
            whole.leave();
        }
    }

    /// In a child after `fork`: leaves as many.
    pub(crate) fn forget(&self, users: usize) {
        self.0.store(users, Relaxed);
    }
}

/// A state that has states for the parts of the machine.
pub(crate) trait Whole<P: Platform>: State<P> {
    /// The state of a part.
    type Part: PoolNode<P>;

    /// The state of a part, if it has been made.
    fn find(&self, part: usize) -> Option<&Self::Part>;

    /// The state of a part, made if need be. `None`: there is no memory.
    fn make(&self, part: usize) -> Option<&Self::Part>;

    /// The count of threads that use the state of a part.
    fn users(part: &Self::Part) -> Users<'_, P>;
}

/// Adds the calling thread to the users of the lock's state, and of that of one of its parts, if there is memory for that.
pub(crate) fn enter_part<P: Platform, W: Whole<P>>(lazy: &Lazy<P, W>, part: usize) -> (&W, Option<&W::Part>) {
    if let Some(whole) = lazy.peek()
        && let Some(state) = whole.find(part)
        && W::users(state).join()
    {
        if lazy.owns(whole) {
            return (whole, Some(state));
        }
        W::users(state).leave(whole.claim());
    }
    let whole = lazy.enter();
    let state = whole.make(part);
    if let Some(state) = state
        && W::users(state).add()
    {
        whole.claim().leave(); // I2.
    }
    (whole, state)
}

/// As [`enter_part`], of a part without which the caller cannot wait: without memory for its state it waits for that, as it would
/// for the lock. `None`: the deadline was first.
pub(crate) fn enter_part_or_wait<'a, P: Platform, W: Whole<P>>(
    lazy: &'a Lazy<P, W>,
    part: usize,
    wait: &Wait,
) -> Option<(&'a W, &'a W::Part)> {
    loop {
        match enter_part(lazy, part) {
            (whole, Some(state)) => return Some((whole, state)),
            (whole, None) => whole.claim().leave(),
        }
        if wait.is_over::<P>() {
            return None;
        }
        P::yield_now();
    }
}

/// A lock that all nodes share, and where their states are.
#[repr(C, align(64))]
pub struct Directory<P: Platform, R: 'static, S: 'static> {
    root: R,
    /// The states of the nodes.
    pub(crate) nodes: Children<P, S, NEAR>,
    claim: Claimed<P>,
}

impl<P: Platform, R: 'static, S: 'static> core::fmt::Debug for Directory<P, R, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

/// The state of a part that a [`Directory`] with the root lock `R` leads to.
pub trait Node<P: Platform, R: 'static>: PoolNode<P> {
    /// Gives back what the state points to.
    ///
    /// # Safety
    ///
    /// Nobody uses it, or will.
    unsafe fn clear(&self) {}

    /// Sets the state up, which belongs to this directory.
    #[doc(hidden)]
    fn belong(&self, directory: &Directory<P, R, Self>) {
        let _ = directory;
    }

    /// The count of threads that use it.
    #[doc(hidden)]
    fn users(&self) -> Users<'_, P>;
}

impl<P: Platform, R: RawLock<P> + 'static, S: Node<P, R>> PoolNode<P> for Directory<P, R, S> {
    fn new() -> Self {
        Self { root: R::new(), nodes: Children::new(), claim: Claimed::new() }
    }
}

impl<P: Platform, R: RawLock<P> + 'static, S: Node<P, R>> PooledState<P> for Directory<P, R, S> {
    fn take_back(&self) -> bool {
        take_back(self)
    }

    fn take_free(&self) -> bool {
        take_free(self)
    }

    fn close(&self) -> Option<usize> {
        self.root.try_lock().map(Token::into_word)
    }

    fn open(&self, word: usize) {
        // SAFETY: made of a token by `close`.
        let token = unsafe { R::Token::from_word(word) };
        // SAFETY: of the acquisition there.
        unsafe { self.root.unlock(token) };
    }

    unsafe fn clear(&self) {
        // SAFETY: the caller's contract.
        let clear = |state: &S| unsafe { state.clear() };
        // SAFETY: as above.
        unsafe { self.nodes.dispose(clear) };
        // SAFETY: as above.
        unsafe { self.root.dispose() };
    }
}

impl<P: Platform, R: RawLock<P> + 'static, S: Node<P, R>> State<P> for Directory<P, R, S> {
    fn claim(&self) -> &Claimed<P> {
        &self.claim
    }
}

impl<P: Platform, R: RawLock<P> + 'static, S: Node<P, R>> Whole<P> for Directory<P, R, S> {
    type Part = S;

    #[inline(always)]
    fn find(&self, part: usize) -> Option<&S> {
        self.nodes.get(part)
    }

    fn make(&self, part: usize) -> Option<&S> {
        self.nodes.state(part, |state| state.belong(self))
    }

    #[inline(always)]
    fn users(part: &S) -> Users<'_, P> {
        part.users()
    }
}

impl<P: Platform, R: 'static, S: 'static> Directory<P, R, S> {
    /// The lock that all nodes share.
    #[inline(always)]
    pub(crate) fn root(&self) -> &R {
        &self.root
    }
}

/// Where the states of the parts of something are.
#[repr(C)]
pub(crate) struct Children<P: Platform, S: 'static, const N: usize> {
    near: [P::Ptr<S>; N],
    more: P::Ptr<Block<P, S>>,
}

/// Where the states of further parts are.
#[repr(C, align(64))]
pub(crate) struct Block<P: Platform, S: 'static> {
    states: [P::Ptr<S>; FAR],
    more: P::Ptr<Block<P, S>>,
}

const _: () = assert!(size_of::<Block<Native, u8>>() == NODE_BYTES);

/// What `cell` points to, if it was published.
#[inline(always)]
fn published<P: Platform, T: 'static>(cell: &P::Ptr<T>) -> Option<&T> {
    // SAFETY: I1. ORDER: E1.
    unsafe { cell.load(Acquire).as_ref() }
}

/// Publishes something new in `cell`, prepared by `prepare`, unless another thread was faster. Returns what is there; `None`: there
/// is no memory.
#[cold]
fn publish<P: Platform, T: PoolNode<P>>(cell: &P::Ptr<T>, prepare: impl FnOnce(&T)) -> Option<&T> {
    let fresh = P::try_alloc_node::<T>()?;
    // SAFETY: nobody else knows of it yet.
    prepare(unsafe { fresh.as_ref() });
    // ORDER: Release on success and Acquire on failure are E1.
    let there = match cell.compare_exchange(ptr::null_mut(), fresh.as_ptr(), Release, Acquire) {
        Ok(_) => fresh.as_ptr(),
        Err(there) => {
            // SAFETY: never published.
            unsafe { P::free_node(fresh) };
            there
        }
    };
    // SAFETY: I1: published, by this thread or another.
    Some(unsafe { &*there })
}

fn nulls<P: Platform, T: 'static, const N: usize>() -> [P::Ptr<T>; N] {
    core::array::from_fn(|_| P::Ptr::new(ptr::null_mut()))
}

impl<P: Platform, S: 'static> PoolNode<P> for Block<P, S> {
    fn new() -> Self {
        Self { states: nulls::<P, _, FAR>(), more: P::Ptr::new(ptr::null_mut()) }
    }
}

impl<P: Platform, S: 'static, const N: usize> Children<P, S, N> {
    pub(crate) fn new() -> Self {
        Self { near: nulls::<P, _, N>(), more: P::Ptr::new(ptr::null_mut()) }
    }
}

impl<P: Platform, S: PoolNode<P>, const N: usize> Children<P, S, N> {
    /// Where the state of a part is. `None`: there is no memory for that.
    fn cell(&self, part: usize) -> Option<&P::Ptr<S>> {
        self.walk(part, |more| published::<P, _>(more).or_else(|| publish::<P, _>(more, |_| {})))
    }

    /// The same, by way of the blocks that `find` finds.
    fn walk<'a>(
        &'a self,
        part: usize,
        find: impl Fn(&'a P::Ptr<Block<P, S>>) -> Option<&'a Block<P, S>>,
    ) -> Option<&'a P::Ptr<S>> {
        let Some(mut index) = part.checked_sub(N) else { return Some(&self.near[part]) };
        let mut more = &self.more;
        loop {
            let block = find(more)?;
            if index < FAR {
                return Some(&block.states[index]);
            }
            index -= FAR;
            more = &block.more;
        }
    }

    /// The state of a part, if it has been made.
    #[inline(always)]
    pub(crate) fn get(&self, part: usize) -> Option<&S> {
        match self.near.get(part) {
            Some(cell) => published::<P, _>(cell),
            None => self.walk(part, published::<P, _>).and_then(published::<P, _>),
        }
    }

    /// The state of a part, made and prepared if this is its first use. `None`: there is no memory.
    pub(crate) fn state(&self, part: usize, prepare: impl FnOnce(&S)) -> Option<&S> {
        let cell = self.cell(part)?;
        published::<P, _>(cell).or_else(|| publish::<P, _>(cell, prepare))
    }

    /// Calls `visit` with where every state is or will be.
    fn visit_cells(&self, mut visit: impl FnMut(&P::Ptr<S>)) {
        self.near.iter().for_each(&mut visit);
        let mut more = &self.more;
        while let Some(block) = published::<P, _>(more) {
            block.states.iter().for_each(&mut visit);
            more = &block.more;
        }
    }

    /// Calls `visit` with every state.
    pub(crate) fn visit(&self, mut visit: impl FnMut(&S)) {
        self.visit_cells(|cell| {
            if let Some(state) = published::<P, _>(cell) {
                visit(state);
            }
        });
    }

    /// Gives the states back, each once `clear` has given back what it points to.
    ///
    /// # Safety
    ///
    /// Nobody uses the lock.
    pub(crate) unsafe fn dispose(&self, mut clear: impl FnMut(&S)) {
        self.visit_cells(|cell| {
            if let Some(state) = NonNull::new(cell.swap(ptr::null_mut(), Relaxed)) {
                // SAFETY: the lock's until it is freed below.
                clear(unsafe { state.as_ref() });
                // SAFETY: unlinked, and nobody else knows of it.
                unsafe { P::free_node(state) };
            }
        });
        let mut more = self.more.swap(ptr::null_mut(), Relaxed);
        while let Some(block) = NonNull::new(more) {
            // SAFETY: the lock's until it is freed below.
            more = unsafe { block.as_ref() }.more.load(Relaxed);
            // SAFETY: unlinked, and nobody else knows of it.
            unsafe { P::free_node(block) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Unit;

    impl PoolNode<Native> for Unit {
        fn new() -> Self {
            Self
        }
    }

    #[test]
    fn every_part_has_a_state_of_its_own() {
        let children = Children::<Native, Unit, 2>::new();
        let state = |part| ptr::from_ref(children.state(part, |_| {}).expect("memory"));
        for part in 0..64 {
            assert!((0..part).all(|other| state(other) != state(part)), "{part}");
        }
        let mut states = 0;
        children.visit(|_| states += 1);
        assert_eq!(states, 64);
        // SAFETY: nobody else knows of it.
        unsafe { children.dispose(|_| states -= 1) };
        children.visit(|_| states += 1);
        assert_eq!(states, 0);
    }
}
