//! Test-and-test-and-set with exponential back-off: waiters look at the word less and less often.
//!
//! Thomas E. Anderson, "The performance of spin lock alternatives for shared-memory multiprocessors", IEEE TPDS 1(1),
//! 1990; Mellor-Crummey and Scott, ACM TOCS 9(1), 1991, algorithm 1. Deviations: waiters read before they try; the
//! delay is bounded by the cost of a context-switch round trip, as measured on the machine, rather than by a
//! constant; its jitter comes from the CPU number instead of a random generator.
//!
//! Properties: no fairness, and the longer a thread has waited, the smaller its chance (up to the bound); 4 bytes a
//! lock, nothing a waiter. The line is left alone for most of the time, so the holder is hardly disturbed. Waiting:
//! spin. Timed acquisition polls, and may overshoot its deadline by one delay.
//!
//! State, invariants and ordering: see [`word`](super::word).

use lockwork_platform::{Deadline, Native, Platform};

use super::poll;
use super::word::{Contest, Word, WordLock};
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::Patience;

/// What is known of test-and-set with back-off.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "backoff",
    family: Family::Competitive,
    order: Order::None,
    bytes: 4,
    timed: Timed::Polls(""),
    proofs: &[Proof::of(file!()), Proof::of("competitive/word.rs")],
    citation: Citation {
        key: "anderson90",
        text: "Anderson: The performance of spin lock alternatives for shared-memory multiprocessors. \
               IEEE TPDS 1(1), 1990",
    },
    summary: "waiters read one word less and less often, and try to change it when it says \"unlocked\"",
    properties: "Disturbs the holder little, however many wait. The lock may lie idle while all waiters look away.",
    deviations: "Reads before it tries; the longest delay is about a context-switch round trip.",
    avoid: "Wherever latency or starvation matters: newcomers overtake those who have waited long.",
    ..Descriptor::MUTEX
};

/// Bounded exponential back-off.
#[derive(Debug)]
pub(crate) struct Delay {
    /// The next delay is more than half of this and at most this, in pauses.
    limit: u32,
    /// `limit` grows up to here.
    bound: u32,
    /// State of the jitter.
    jitter: u32,
    patience: Patience,
}

impl Delay {
    /// The first delay, in pauses: short against a short critical section.
    const FIRST: u32 = 4;

    /// Delays that grow up to `bound` pauses. Waiters on different CPUs get different delays, or those
    /// that started together would stay together; waiters on one CPU do not run together anyway.
    pub(crate) fn new<P: Platform>(bound: u32) -> Self {
        let bound = bound.max(1);
        // Knuth's multiplicative hash, so that neighbours differ in their high bits too.
        let jitter = (P::cpu() as u32).wrapping_add(1).wrapping_mul(0x9E37_79B9);
        Self { limit: Self::FIRST.min(bound), bound, jitter, patience: Patience::new::<P>() }
    }

    /// Begins again, with another bound.
    pub(crate) fn restart(&mut self, bound: u32) {
        self.bound = bound.max(1);
        self.limit = Self::FIRST.min(self.bound);
    }

    /// The next delay in pauses, at least 1.
    fn next(&mut self) -> u32 {
        // A linear congruential generator (Numerical Recipes); its high bits are the good ones.
        self.jitter = self.jitter.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let half = self.limit / 2;
        let pauses = half + 1 + (self.jitter >> 16) % (self.limit - half);
        self.limit = self.limit.saturating_mul(2).min(self.bound);
        pauses
    }

    /// Waits for the next delay; returns it in pauses.
    pub(crate) fn pause<P: Platform>(&mut self) -> u32 {
        let pauses = self.next();
        self.patience.pause_n::<P>(pauses)
    }
}

/// The test-and-set lock with exponential back-off.
pub type Backoff<P> = WordLock<P, LessAndLess>;

const _: () = assert!(size_of::<Backoff<Native>>() == DESCRIPTOR.bytes);

/// Looking less and less often.
#[derive(Debug)]
pub struct LessAndLess;

impl<P: Platform> Contest<P> for LessAndLess {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;

    fn wait(word: &Word<P>, deadline: Option<Deadline>) -> bool {
        let mut delay = Delay::new::<P>(P::spin_budget());
        poll::<P>(deadline, || <Self as Contest<P>>::try_acquire(word), |_| delay.pause::<P>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_their_bound_and_stay_there() {
        let mut delay = Delay::new::<Native>(100);
        let mut limit = Delay::FIRST;
        for _ in 0..1000 {
            let pauses = delay.next();
            assert!((limit / 2 + 1..=limit).contains(&pauses), "{pauses} of {limit}");
            limit = (limit * 2).min(100);
        }
    }

    #[test]
    fn any_bound_gives_a_delay() {
        for bound in [0, 1, 2, 3, u32::MAX] {
            let mut delay = Delay::new::<Native>(bound);
            for _ in 0..100 {
                assert!((1..=bound.max(1)).contains(&delay.next()));
            }
        }
    }
}
