//! A request on its way from the requester to the combiner and back.
//!
//! # Invariants
//!
//! - R1: `section` and `next` are written by one thread, before the combiner can find them.
//! - R2: `served` is written by the combiner, before the one grant of the wait; the requester reads both afterwards.
//! - R3: after the grant the combiner touches nothing of the request, whose memory is the requester's.
//!
//! # Ordering
//!
//! - R-E1: [`Request::finish`] or [`Request::hand_over`] → [`Request::wait`]: all sections that the combiner has run.
//! - R-E2: [`forget_rest`] does what E1 and E4 of [`cc_synch`](super::cc_synch) and [`dsm_synch`](super::dsm_synch) say of their
//!   `tail`.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, DataCell, Platform, PoolNode};

use super::{Generation, Section};
use crate::wait::{self, Spin, WAITING_ON_DELEGATE, Wait, WaitPolicy, endless};

/// A place for one request: a queue node.
#[repr(C)]
pub(super) struct Request<P: Platform> {
    /// The hand-off word.
    word: P::Futex,
    /// Whether the section has run; if not, the requester that is granted the request is to combine.
    served: P::Data<bool>,
    /// The request behind this one, or the place of one to come.
    pub(super) next: P::Ptr<Request<P>>,
    section: P::Data<Option<Section>>,
    /// Of the thread that took the node from the pool, then of the requester.
    generation: Generation<P>,
}

impl<P: Platform> core::fmt::Debug for Request<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Request").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for Request<P> {
    fn new() -> Self {
        Self {
            word: P::Futex::new(wait::WAITING),
            served: P::Data::new(false),
            next: P::Ptr::new(ptr::null_mut()),
            section: P::Data::new(None),
            generation: Generation::this(),
        }
    }
}

/// What a requester is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granted {
    /// Its section has run.
    Served,
    /// It is the combiner; its section has not run.
    Combine,
}

impl<P: Platform> Request<P> {
    /// Notes what is to be run.
    ///
    /// # Safety
    ///
    /// The request is the caller's, and no combiner can find it yet (R1).
    #[inline(always)]
    pub(super) unsafe fn note(&self, section: Section) {
        // SAFETY: R1.
        unsafe { self.section.set(Some(section)) };
        self.generation.note();
    }

    /// Whether its requester, or the thread that took the node from the pool and has not requested yet, was a thread of a parent:
    /// one that is gone. By the thread that combined when it forked.
    pub(super) fn is_of_a_parent(&self) -> bool {
        !self.generation.is_this()
    }

    /// Runs the section.
    ///
    /// # Safety
    ///
    /// The caller combines, has found the request by an Acquire load that follows [`Request::note`], and calls this once.
    #[inline(always)]
    pub(super) unsafe fn run(&self) {
        // SAFETY: R1: written before the combiner found it.
        if let Some(section) = unsafe { self.section.get() } {
            // SAFETY: the caller's contract; the requester waits for the grant.
            unsafe { section.run() };
        }
    }

    /// Tells the requester that its section has run.
    ///
    /// # Safety
    ///
    /// The caller combines, has called [`Request::run`], and does not touch the request again (R3).
    #[inline(always)]
    pub(super) unsafe fn finish(&self) {
        // SAFETY: R2: read after the grant only.
        unsafe { self.served.set(true) };
        wait::grant::<P>(&self.word); // ORDER: R-E1.
    }

    /// Makes the requester, which may be yet to come, the combiner.
    ///
    /// # Safety
    ///
    /// The caller combines, and neither runs another section nor touches the request again (R3).
    #[inline(always)]
    pub(super) unsafe fn hand_over(&self) {
        wait::grant::<P>(&self.word); // ORDER: R-E1.
    }

    /// Waits for the delegate at this address until the section has run, or is the caller's to run.
    #[inline(always)]
    pub(super) fn wait<W: WaitPolicy<P>>(&self, delegate: usize) -> Granted {
        Wait::run::<P, _>(delegate | WAITING_ON_DELEGATE, None, |wait| {
            // As published, nobody sleeps.
            let granted = if P::strict_spin() {
                <Spin as WaitPolicy<P>>::wait(&self.word, wait)
            } else {
                W::wait(&self.word, wait)
            };
            endless(granted.ok())
        }); // ORDER: R-E1.
        // SAFETY: R2: the combiner wrote it before the grant.
        if unsafe { self.served.get() } { Granted::Served } else { Granted::Combine }
    }
}

/// In a child that a section has forked: leaves a delegate whose queue ends at `tail` idle, if the last requester is gone, and so
/// all that are behind a node that was to be linked. By the thread that combines.
pub(super) fn forget_rest<P: Platform>(tail: &P::Ptr<Request<P>>) -> bool {
    let last = tail.load(Acquire); // ORDER: R-E2.
    // SAFETY: in the queue, which nobody else takes it out of.
    unsafe { last.as_ref() }.is_some_and(Request::is_of_a_parent)
        // ORDER: R-E2.
        && tail.compare_exchange(last, ptr::null_mut(), Release, Relaxed).is_ok()
}
