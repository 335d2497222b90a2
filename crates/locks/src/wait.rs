//! How a thread waits for its turn: what a slow path is told ([`Wait`]), the word that it is granted its turn on ([`word`]),
//! and the waiting policy as a type parameter ([`policy`]).

mod aware;
mod context;
pub mod policy;
mod returning;
mod room;
pub mod word;

use lockwork_platform::{Deadline, Platform};

pub use aware::Aware;
pub(crate) use aware::{AwareOrLeave, Spun, spin_aware};
pub(crate) use context::{Registered, endless};
pub use context::{WAITING_ON_COND, WAITING_ON_DELEGATE, WAITING_ON_RWLOCK, Wait};
pub(crate) use policy::{Behind, Owner, SpinForWriting, park_among};
pub use policy::{Park, Place, Spin, SpinThenPark, WaitPolicy, Yield};
pub use returning::Returning;
pub(crate) use room::{ROUND_TRIPS, spin_with_room};
pub use word::{ABANDONED, GRANTED, Grant, PARKED, WAITING, grant};
pub(crate) use word::{abandon, claim, give_up, has_given_up, is_abandoned, is_left, take_up};

/// The pauses of a thread that spins. On a machine whose CPUs are all busy, the thread it waits for may need this very CPU:
/// after about twenty context-switch round trips, or one in a crowd of bounded size, every pause yields instead, unless the
/// process asked for strict spinning.
#[derive(Debug)]
pub(crate) struct Patience {
    left: u32,
}

impl Patience {
    const ROUND_TRIPS: u32 = 20;

    pub(crate) fn new<P: Platform>() -> Self {
        Self::of::<P>(Self::ROUND_TRIPS)
    }

    /// Of a thread that waits among `others`: where those are so few that each should soon have had the lock, one that has not
    /// is likely to be without a CPU.
    pub(crate) fn among<P: Platform>(others: u32) -> Self {
        Self::of::<P>(if others == 0 { Self::ROUND_TRIPS } else { 1 })
    }

    /// Of a requester that waits for a server, or a server for requests: on a busy machine the other one is likely to be without a
    /// CPU, so it yields early. Yields cost less than sleeps do, of which a server would have to end each by a system call.
    pub(crate) fn brief<P: Platform>() -> Self {
        Self { left: pauses_before_sleep::<P>() / 4 }
    }

    fn of<P: Platform>(round_trips: u32) -> Self {
        let left = if P::strict_spin() { u32::MAX } else { P::spin_budget().saturating_mul(round_trips) };
        Self { left }
    }

    /// Whether the next pause yields.
    pub(crate) fn yields(&self) -> bool {
        self.left == 0
    }

    /// Pauses once, or yields. Returns what that is worth in pauses.
    pub(crate) fn pause<P: Platform>(&mut self) -> u32 {
        self.pause_within::<P>(u32::MAX)
    }

    /// As [`Patience::pause`], by a caller that does something else after `most` such rounds.
    pub(crate) fn pause_within<P: Platform>(&mut self, most: u32) -> u32 {
        self.pause_by::<P>(|left| P::pause_within(left.min(most)))
    }

    /// Pauses `n` times, or yields. Returns what that is worth in pauses.
    pub(crate) fn pause_n<P: Platform>(&mut self, n: u32) -> u32 {
        self.pause_by::<P>(|_| {
            P::pause_n(n);
            n
        })
    }

    /// Pauses, or yields. `pause` is told how many pauses are left, and returns how many it took.
    fn pause_by<P: Platform>(&mut self, pause: impl FnOnce(u32) -> u32) -> u32 {
        /// A yield costs about as much as this many pauses.
        const YIELD: u32 = 16;
        if self.yields() {
            P::yield_now();
            return YIELD;
        }
        let paused = pause(self.left);
        self.left = self.left.saturating_sub(paused);
        paused
    }
}

/// What `look` finds, when somebody is known to be on the way to put it there.
pub(crate) fn patiently<P: Platform, R>(mut look: impl FnMut() -> Option<R>) -> R {
    let mut patience = Patience::new::<P>();
    loop {
        if let Some(found) = look() {
            return found;
        }
        patience.pause::<P>();
    }
}

/// Pauses that a waiter of a delegate makes before it sleeps: a context switch's worth, or, where waits are to be as
/// published, as many as it takes.
#[inline(always)]
pub(crate) fn pauses_before_sleep<P: Platform>() -> u32 {
    if P::strict_spin() { u32::MAX } else { P::spin_budget() }
}

/// A thread that wants to sleep on a word which changes so often that every sleep ends at once. After some of these it offers its
/// CPU to the others each time: those that change the word may need it.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    ends: u32,
}

impl Awake {
    /// A sleep has ended, and what it was for has not come.
    pub(crate) fn again<P: Platform>(&mut self) {
        const SOME: u32 = 4;
        if self.ends < SOME {
            self.ends += 1;
        } else {
            P::yield_now();
        }
    }
}

/// Whether the deadline has passed.
#[must_use]
pub fn expired<P: Platform>(deadline: Deadline) -> bool {
    P::now(deadline.clock) >= deadline.ns
}

/// Repeats `attempt`, with pauses in between, until it has a result, at most `budget` times.
#[inline]
pub(crate) fn poll_within<P: Platform, R>(budget: u32, mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
    let mut left = budget;
    while left > 0 {
        if let Some(result) = attempt() {
            return Some(result);
        }
        left = left.saturating_sub(P::pause_within(left));
    }
    None
}
