//! Competitive spinning on one word: a waiter spins for as long as a context-switch round trip takes, then offers its CPU to
//! other threads before every look.
//!
//! Anna Karlin, Kai Li, Mark Manasse and Susan Owicki, "Empirical studies of competitive spinning for a shared-memory
//! multiprocessor", SOSP 1991: whatever the wait, to spin for the cost of a context switch first costs at most twice what the
//! best choice would have cost. Deviations: the second phase yields where the paper blocks; the spin is fixed (their "fixed
//! spin" of one context switch), not adapted to earlier waits.
//!
//! Properties: no fairness at all; 4 bytes a lock, nothing a waiter. Short waits cost no system call; a waiter of a long one
//! leaves its CPU to the holder, if that is what the holder needs. Waiters stay runnable: where other threads are ready, each
//! look waits for its turn on the run queue. Waiting: yield. Timed acquisition polls in the same way.
//!
//! State, invariants and ordering: see [`word`](super::word).

use lockwork_platform::{Deadline, Native, Platform};

use super::poll;
use super::word::{Contest, Word, WordLock};
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};

/// What is known of competitive spinning.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "two-phase",
    family: Family::Competitive,
    order: Order::None,
    bytes: 4,
    timed: Timed::Polls(""),
    proofs: &[Proof::of("competitive/word.rs")],
    citation: Citation {
        key: "karlin91",
        text: "Karlin, Li, Manasse, Owicki: Empirical studies of competitive spinning for a shared-memory multiprocessor. \
               SOSP 1991",
    },
    summary: "waiters spin on one word for the time of a context-switch round trip, then yield before every look",
    properties: "Short waits cost no system call, and long ones leave the CPU to the holder. Waiters stay runnable.",
    deviations: "The second phase yields instead of blocking; the length of the first is fixed.",
    avoid: "Long critical sections (waiters never sleep), and wherever starvation matters.",
    ..Descriptor::MUTEX
};

/// The lock.
pub type TwoPhase<P> = WordLock<P, InTwoPhases>;

const _: () = assert!(size_of::<TwoPhase<Native>>() == DESCRIPTOR.bytes);

/// Spinning, then yielding.
#[derive(Debug)]
pub struct InTwoPhases;

impl<P: Platform> Contest<P> for InTwoPhases {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;

    fn wait(word: &Word<P>, deadline: Option<Deadline>) -> bool {
        /// What a yield counts for between two looks at the clock.
        const YIELD: u32 = 16;
        let mut left = P::spin_budget();
        let relax = |most: u32| {
            if left == 0 {
                P::yield_now();
                return YIELD;
            }
            let paused = P::pause_within(left.min(most));
            left = left.saturating_sub(paused);
            paused
        };
        poll::<P>(deadline, || <Self as Contest<P>>::try_acquire(word), relax)
    }
}
