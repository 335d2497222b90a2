//! Ending another thread's wait: the protocol between a thread in a cancellable wait and those that ask it to end.
//!
//! The owner publishes the word that it sleeps on, and looks at the mark before each sleep. A requester sets the mark and
//! kicks the word. The word is in a pool node, which the owner recycles after its wait: so it waits for those that may be
//! about to kick.
//!
//! # Invariants
//!
//! - I1: a requester counts itself in `kickers` before it reads `word`, and out after its kick. The owner clears `word` before
//!   it reads `kickers`, and does not recycle the node, nor leave this record to another thread, before that is 0.
//!
//! # Ordering
//!
//! - E1: two store-load races, decided by sequentially consistent fences between the store and the load: `kickers` and `word`
//!   (I1), or the record's owner; `pending` and `word` (an owner that does not see the mark is kicked). Of two threads one sees what
//!   the other wrote.
//! - E3: the swap that publishes a word (Release) → the load of a requester (Acquire): the node's initialisation.
//! - E2: the decrement of `kickers` (Release) → the owner's load of 0 (Acquire): the kick comes before the node's next life.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::{AtomicCell, AtomicInt, Cells, Cpu};

/// What others need to end a thread's wait.
#[derive(Debug)]
#[repr(C)]
pub struct Cancel<P: Cells<Futex: 'static>> {
    /// The word the owner sleeps on in a cancellable wait; null = none. Written by the owner.
    word: P::Ptr<P::Futex>,
    /// 1 = a request is pending for the owner. Set by requesters, cleared by the owner.
    pending: P::U32,
    /// Requesters that may be about to kick (I1).
    kickers: P::U32,
}

impl<P: Cells<Futex: 'static> + Cpu> Cancel<P> {
    /// Of a thread that is in no cancellable wait.
    #[must_use]
    pub fn new() -> Self {
        Self { word: P::Ptr::new(ptr::null_mut()), pending: P::U32::new(0), kickers: P::U32::new(0) }
    }

    /// The owner begins a wait on `word`, or (null) is about to recycle the word of its wait.
    pub fn publish(&self, word: *const P::Futex) {
        self.word.swap(word.cast_mut(), Release); // ORDER: E3. The fence that follows is E1.
        if word.is_null() {
            self.settle();
        }
    }

    /// Waits, as the owner, for those that may be about to kick.
    pub(super) fn settle(&self) {
        P::fence(SeqCst); // ORDER: E1.
        // ORDER: E2.
        while self.kickers.load(Acquire) != 0 {
            P::yield_now();
        }
    }

    /// Whether a request is pending, for the owner.
    pub fn is_pending(&self) -> bool {
        P::fence(SeqCst); // ORDER: E1.
        self.pending.load(Relaxed) != 0
    }

    /// Forgets a request, as the owner.
    pub fn forget(&self) {
        self.pending.store(0, Relaxed); // ORDER: Relaxed: the owner looks at it next, or a request comes that sets it again.
    }

    /// Asks the owner to end its wait, if that `is_it`: the record may have gone over to another thread. `kick` makes the
    /// waiter with a word look at the mark.
    pub fn request(&self, is_it: impl FnOnce() -> bool, kick: impl FnOnce(*const P::Futex)) {
        self.kickers.fetch_add(1, Relaxed);
        P::fence(SeqCst); // ORDER: E1.
        if is_it() {
            self.pending.store(1, Relaxed);
            P::fence(SeqCst); // ORDER: E1.
            let word = self.word.load(Acquire); // ORDER: E3.
            if !word.is_null() {
                kick(word);
            }
        }
        self.kickers.fetch_sub(1, Release); // ORDER: E2.
    }

    /// In a child after `fork`: forgets requesters, which do not exist here.
    pub(super) fn after_fork(&self) {
        self.kickers.store(0, Relaxed);
    }

    /// As new but for the requesters that still count themselves in, for the record's next owner.
    pub(super) fn reset(&self) {
        self.word.store(ptr::null_mut(), Relaxed);
        self.pending.store(0, Relaxed);
    }
}

impl<P: Cells<Futex: 'static> + Cpu> Default for Cancel<P> {
    fn default() -> Self {
        Self::new()
    }
}
