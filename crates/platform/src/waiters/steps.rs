//! What a `fork` must not find half done: releases that take more than one step.
//!
//! A child of `fork` forgets the waiters of every lock that a thread of the parent waited for: those threads do not exist in
//! the child, but the locks do, since nobody frees a lock that somebody waits for. For a thread that releases a lock the
//! registry is no help: it may be registered for a lock that has been freed, as soon as the step that lets others in is
//! done. So it does not register, and a thread that is about to fork waits for the others to be done with their releases.
//!
//! # Invariants
//!
//! - I1: while `forking` is not 0 no thread is in the steps of a release, but one that runs in the forking thread itself, or
//!   that ran out of patience: a thread that was about to begin waits, having changed nothing, and a forking thread waits for
//!   those that have begun. (Out of patience: the forking thread may wait for a lock that this one is about to release, as a
//!   handler of `pthread_atfork` does. The forking thread has more patience: those that have begun may not run for a while.)
//! - I2: a mark without `UNSETTLED` has been there since before a look that found no fork, so every fork since then waits for it; but
//!   that of a thread that ran out of patience. So a handler that settles its own release settles the one that it interrupted.
//!
//! # Ordering
//!
//! - E1: a thread marks itself and then reads `forking`; a forking thread writes `forking` and then reads the marks; a light
//!   barrier on the one side and a heavy one on the other. One of the two sees the other.
//! - E2: the end of a mark (Release) → the forking thread's look at it (Acquire): the steps.
//! - E3: the end of a fork (Release) → the look at `forking` that finds none (Acquire): what the forking thread looked at.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{AtomicCell, AtomicInt, Cells};

/// Of a mark: the thread has yet to look whether a thread forks.
const UNSETTLED: u32 = 1 << 31;

/// How many threads of the process are about to fork.
#[derive(Debug)]
pub struct Steps<P: Cells> {
    pub(super) forking: P::U32,
}

impl<P: Cells> Steps<P> {
    /// Nobody forks.
    #[must_use]
    pub fn new() -> Self {
        Self { forking: P::U32::new(0) }
    }

    /// Begins a release. `mine` is the calling thread's mark: how many releases it is in, more than one if a signal handler
    /// interrupted one. `waits` waits for a moment, or says that there has been enough of that.
    #[inline]
    pub fn begin(&self, mine: &P::U32, mut waits: impl FnMut() -> bool) {
        let outer = mine.load(Relaxed); // The caller's own.
        if outer != 0 && outer & UNSETTLED == 0 {
            // A forking thread waits for the outer one.
            return mine.store(outer + 1, Relaxed);
        }
        // There is none, or a handler has interrupted it in the lines below, where it has changed nothing yet either.
        let settled = (outer & !UNSETTLED) + 1;
        loop {
            mine.store(settled | UNSETTLED, Relaxed);
            P::light_barrier(); // ORDER: E1.
            // ORDER: E3.
            if self.forking.load(Acquire) == 0 {
                return mine.store(settled, Relaxed); // I2.
            }
            mine.store(0, Relaxed); // ORDER: Relaxed: nothing has been changed yet.
            // ORDER: Relaxed: looked at again.
            while self.forking.load(Relaxed) != 0 {
                if !waits() {
                    mine.store(outer + 1, Relaxed);
                    P::light_barrier(); // ORDER: E1, for `is_forking`.
                    return;
                }
            }
        }
    }

    /// Ends a release.
    #[inline]
    pub fn end(&self, mine: &P::U32) {
        mine.store(mine.load(Relaxed) - 1, Release); // ORDER: E2.
    }

    /// Whether a thread with this mark is in a release.
    pub fn is_marked(mark: &P::U32) -> bool {
        mark.load(Acquire) != 0 // ORDER: E2.
    }

    /// Called by a thread that is about to fork. `others` says whether another thread [is marked](Steps::is_marked); `waits` is as
    /// in [`Steps::begin`].
    pub fn before_fork(&self, others: impl Fn() -> bool, mut waits: impl FnMut() -> bool) {
        self.forking.fetch_add(1, Relaxed);
        P::heavy_barrier(); // ORDER: E1.
        while others() && waits() {}
    }

    /// Called by the thread that has forked, in the parent.
    pub fn after_fork(&self) {
        self.forking.fetch_sub(1, Release); // ORDER: E3.
    }

    /// Whether a thread is about to fork, for one in a release. If not, those that come later wait for it.
    pub fn is_forking(&self) -> bool {
        // ORDER: Acquire is E3: a fork that is seen to be over was over before what the caller does now.
        self.forking.load(Acquire) != 0
    }

    /// Called in the child, whose thread is in so many forks: a signal handler may have forked during them.
    pub(super) fn in_child(&self, forks: u32) {
        self.forking.store(forks, Relaxed);
    }
}

impl<P: Cells> Default for Steps<P> {
    fn default() -> Self {
        Self::new()
    }
}
