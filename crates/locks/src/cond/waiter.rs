//! A waiter of a condition: its word, its links, and how it sleeps.
//!
//! States, invariants and ordering edges are those of [`cond`](super).

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Cancel, DataCell, Deadline, FutexCell, Platform, PoolNode};

// Distinct from the values of `wait::word`: a word that is not a waiter's is easily told in a debugger.
const WAITING: u32 = 16;
const PARKED: u32 = 17;
const KICKED: u32 = 18;
const CLAIMED: u32 = 19;
const CLAIMED_PARKED: u32 = 20;
const LEAVING: u32 = 21;
const GRANTED: u32 = 22;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// By a signal or a broadcast.
    Signalled,
    /// By the deadline; no signal was spent.
    TimedOut,
    /// By an interruption; no signal was spent.
    Interrupted,
}

/// How somebody else may end a wait without a signal (POSIX cancellation). `()` never interrupts.
pub trait Interruption<P: Platform> {
    /// Makes the word known to those who may [`kick`] it, or (null) takes it back, after which nobody kicks it any more.
    /// Ordered before the next call of `pending` for all threads.
    fn publish(&self, word: *const P::Futex);
    /// Whether the wait shall end.
    fn pending(&self) -> bool;
}

impl<P: Platform> Interruption<P> for () {
    fn publish(&self, _word: *const P::Futex) {}
    fn pending(&self) -> bool {
        false
    }
}

/// Makes the waiter with this word look for an interruption.
///
/// # Safety
///
/// `word` was published by [`Interruption::publish`], and has not been taken back: the wait goes on, or waits for the kick.
pub unsafe fn kick<P: Platform>(word: *const P::Futex) {
    // SAFETY: the caller's contract: the waiter's node is alive.
    let cell = unsafe { &*word };
    for state in [WAITING, PARKED, WAITING] {
        // ORDER: Relaxed: a thread that kicks reads and writes nothing else of the waiter's, which waits for the kick's end.
        if cell.compare_exchange(state, KICKED, Relaxed, Relaxed).is_ok() {
            // SAFETY: as above.
            unsafe { FutexCell::wake(word, 1) };
            return;
        }
    }
}

impl<P: Platform> Interruption<P> for Cancel<P> {
    fn publish(&self, word: *const P::Futex) {
        Self::publish(self, word);
    }

    fn pending(&self) -> bool {
        self.is_pending()
    }
}

/// A waiter.
#[repr(C)]
pub(super) struct Waiter<P: Platform> {
    pub(super) word: P::Futex,
    /// Whether the node is in the queue (I1).
    pub(super) linked: P::Data<bool>,
    pub(super) next: P::Data<Link<P>>,
    pub(super) prev: P::Data<Link<P>>,
    /// The waiter that this one wakes once it has its lock again.
    pub(super) chained: P::Data<Link<P>>,
    /// Under what the waiter is registered as waiting on the condition.
    pub(super) registration: P::Data<usize>,
    /// The lock this waiter takes afterwards.
    pub(super) lock: P::Data<usize>,
}

/// A pointer to a waiter, null for none.
pub(super) struct Link<P: Platform>(pub(super) *mut Waiter<P>);

impl<P: Platform> Clone for Link<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Link<P> {}

// SAFETY: waiters are made of cells that may be shared; I1 says which thread may follow the pointer, and when.
unsafe impl<P: Platform> Send for Link<P> {}

impl<P: Platform> Link<P> {
    pub(super) const NONE: Self = Self(ptr::null_mut());

    /// # Safety
    ///
    /// The node, if any, is alive while the reference is used.
    pub(super) unsafe fn get<'a>(self) -> Option<&'a Waiter<P>> {
        // SAFETY: the caller's contract.
        unsafe { self.0.as_ref() }
    }
}

impl<P: Platform> PoolNode<P> for Waiter<P> {
    fn new() -> Self {
        Self {
            word: P::Futex::new(WAITING),
            linked: P::Data::new(false),
            next: P::Data::new(Link::NONE),
            prev: P::Data::new(Link::NONE),
            chained: P::Data::new(Link::NONE),
            registration: P::Data::new(0),
            lock: P::Data::new(0),
        }
    }
}

impl<P: Platform> Waiter<P> {
    pub(super) fn link(&self) -> Link<P> {
        Link(ptr::from_ref(self).cast_mut())
    }

    /// Means a signal for this waiter; false if it is leaving. Under the guard.
    pub(super) fn claim(&self) -> bool {
        let mut seen = self.word.load(Relaxed);
        loop {
            let claimed = match seen {
                LEAVING => return false,
                PARKED => CLAIMED_PARKED,
                _ => CLAIMED,
            };
            // ORDER: Relaxed: the guard orders what claimers share, and the waiter waits for the grant.
            match self.word.compare_exchange(seen, claimed, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether the waiter gave up and has not left the queue yet.
    pub(super) fn is_leaving(&self) -> bool {
        self.word.load(Relaxed) == LEAVING
    }

    /// Ends the wait of a claimed waiter, which may recycle the node at once.
    pub(super) fn grant(&self) {
        let word = ptr::from_ref(&self.word);
        // ORDER: E1.
        if self.word.swap(GRANTED, Release) == CLAIMED_PARKED {
            // SAFETY: alive at the swap; a late wake is spurious.
            unsafe { FutexCell::wake(word, 1) };
        }
    }

    /// Waits for the grant, the deadline or an interruption.
    pub(super) fn sleep(&self, deadline: Option<Deadline>, interruption: &impl Interruption<P>) -> Outcome {
        let mut outcome = Outcome::Interrupted;
        loop {
            let state = self.word.load(Acquire); // ORDER: E1.
            let next = match state {
                GRANTED => return Outcome::Signalled,
                WAITING | KICKED if interruption.pending() => LEAVING,
                WAITING => PARKED,
                KICKED => WAITING,
                PARKED => match self.word.wait(PARKED, deadline) {
                    Ok(()) => continue,
                    Err(_) => {
                        outcome = Outcome::TimedOut;
                        LEAVING
                    }
                },
                CLAIMED => CLAIMED_PARKED,
                _ => {
                    // Claimed: the signal is ours, whatever the deadline says.
                    let _ = self.word.wait(CLAIMED_PARKED, None);
                    continue;
                }
            };
            // ORDER: Relaxed: a thread that leaves takes the guard next, and the other moves publish nothing. A failure means
            // that somebody else moved the word: look again.
            if self.word.compare_exchange(state, next, Relaxed, Relaxed).is_ok() && next == LEAVING {
                return outcome;
            }
        }
    }
}
