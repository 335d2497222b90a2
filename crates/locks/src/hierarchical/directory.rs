//! What a lock keeps for each part of the machine, made when a thread that runs there first needs it.
//!
//! # State
//!
//! ```text
//! directory: root lock, pass limit, children ─→ state of a node
//!
//! children: near[N] ─→ states of the first N parts
//!              └─more─→ block: states of the next 7, more ─→ …
//! ```
//!
//! The directory, each state and each block take a cache line. A lock that few nodes use stays small: with 4 near nodes, 8
//! nodes take ten lines.
//!
//! # Invariants
//!
//! - I1: every pointer is null, or was published once and stays until the lock is disposed of.
//!
//! # Ordering
//!
//! - E1: the CAS in [`publish`] (Release) → the load or failed CAS that finds the pointer (Acquire): the
//!   initialisation of what it points to.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, NODE_BYTES, Native, Platform, PoolNode};

use super::lazy::State;
use crate::api::RawLock;
use crate::knobs::PASS_LIMIT;

/// Nodes whose states the directory itself points to.
const NEAR: usize = 4;
/// Parts whose states a block points to.
const FAR: usize = 7;

/// A lock that all nodes share, and where their states are.
#[repr(C, align(64))]
pub struct Directory<P: Platform, R: 'static, S: 'static> {
    root: R,
    /// The states of the nodes.
    pub(crate) nodes: Children<P, S, NEAR>,
    limit: P::U32,
    owner: P::U32,
}

impl<P: Platform, R: 'static, S: 'static> core::fmt::Debug for Directory<P, R, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

impl<P: Platform, R: RawLock<P> + 'static, S: 'static> PoolNode<P> for Directory<P, R, S> {
    fn new() -> Self {
        Self { root: R::new(), nodes: Children::new(), limit: P::U32::new(PASS_LIMIT), owner: P::U32::new(0) }
    }
}

impl<P: Platform, R: 'static, S: 'static> State<P> for Directory<P, R, S> {
    fn pass_limit(&self) -> &P::U32 {
        &self.limit
    }

    fn owner(&self) -> &P::U32 {
        &self.owner
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

/// Publishes something new in `cell`, prepared by `prepare`, unless another thread was faster. Returns what is there.
#[cold]
fn publish<P: Platform, T: PoolNode<P>>(cell: &P::Ptr<T>, prepare: impl FnOnce(&T)) -> &T {
    let fresh = P::alloc_node::<T>();
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
    unsafe { &*there }
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
    /// Where the state of a part is.
    fn cell(&self, part: usize) -> &P::Ptr<S> {
        let Some(mut index) = part.checked_sub(N) else { return &self.near[part] };
        let mut more = &self.more;
        loop {
            let block = published::<P, _>(more).unwrap_or_else(|| publish::<P, _>(more, |_| {}));
            if index < FAR {
                return &block.states[index];
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
            None => published::<P, _>(self.cell(part)),
        }
    }

    /// The state of a part, made and prepared if this is its first use.
    pub(crate) fn state(&self, part: usize, prepare: impl FnOnce(&S)) -> &S {
        let cell = self.cell(part);
        published::<P, _>(cell).unwrap_or_else(|| publish::<P, _>(cell, prepare))
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
        let state = |part| ptr::from_ref(children.state(part, |_| {}));
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
