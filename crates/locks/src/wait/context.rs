//! What a slow path knows of the wait it is for. It is passed down from the lock that the program called to the locks and
//! queues that this one is made of.
//!
//! [`Registered`] is where a thread starts and stops waiting, for a lock ([`Wait::run`]) or on a condition: what has to know of
//! waits (the registry for `fork`, a profiler) is told there.

use core::num::NonZeroU32;

use lockwork_platform::{Clock, Deadline, Platform};

use super::expired;

/// Added to the address of a condition in [`Wait::address`], to tell it from a lock's.
pub const WAITING_ON_COND: usize = 1;
/// Added to the address of a reader-writer lock in [`Wait::address`].
pub const WAITING_ON_RWLOCK: usize = 2;
/// Added to the address of a delegate, or of a lock inside of one, in [`Wait::address`]: both bits, neither kind.
pub const WAITING_ON_DELEGATE: usize = WAITING_ON_COND | WAITING_ON_RWLOCK;

/// The calling thread as a waiter.
///
/// From before the thread is in a queue until it has the lock, or is in none: a child of `fork` must find every lock and every
/// condition that has a ghost in its queue.
#[derive(Debug)]
#[must_use = "a wait that has begun has to end"]
pub(crate) struct Registered {
    /// What was registered before: a signal handler may wait while its thread does.
    before: usize,
}

impl Registered {
    /// The thread starts to wait for what is at `address`.
    #[inline(always)]
    pub(crate) fn begin<P: Platform>(address: usize) -> Self {
        Self { before: P::set_waiting_on(address) }
    }

    /// The thread waits no longer; it is registered again for what it waited for before.
    #[inline(always)]
    pub(crate) fn end<P: Platform>(self) {
        P::set_waiting_on(self.before);
    }
}

/// One wait of the calling thread, for the lock that the program called, whatever that is made of.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// What the thread is registered as waiting for.
    pub address: usize,
    /// How many threads may have to be woken before this one is: 0, unless the lock is one that bounds them.
    pub others: u32,
    /// When to give up; `None` = never.
    pub deadline: Option<Deadline>,
    /// The bookmark by which the thread finds again what it gives up; `None` = it does not.
    pub(crate) bookmark: Option<NonZeroU32>,
}

impl Wait {
    /// Runs the slow path `wait` with the calling thread registered as a waiter for `address`.
    #[inline(always)]
    pub fn run<P: Platform, R>(
        address: usize,
        deadline: Option<Deadline>,
        wait: impl FnOnce(&Self) -> R,
    ) -> R {
        let registered = Registered::begin::<P>(address);
        let result = wait(&Self { address, others: 0, deadline, bookmark: None });
        registered.end::<P>();
        result
    }

    /// The same wait as one of a crowd of bounded size, in which at most `others` get the lock before this thread.
    /// Spin-then-park then spins for as long as it takes to wake them all, one after the other.
    ///
    /// Otherwise sleep is infectious: as soon as the others sleep, a thread that joins them waits for longer than a
    /// wake-up takes, goes to sleep for that reason, and is one more to be woken. When all sleep, every hand-off wakes
    /// somebody for ever.
    #[must_use]
    pub(crate) fn among(&self, others: u32) -> Self {
        Self { others, ..*self }
    }

    /// The same wait in a queue that the thread may leave for another reason than its deadline: with one that never comes where it
    /// has none, so that it is known to give up, and, when it comes again, goes on in its old place instead of leaving a
    /// node there each time.
    #[must_use]
    pub(crate) fn for_now(&self) -> Self {
        const NEVER: Deadline = Deadline { clock: Clock::Monotonic, ns: u64::MAX };
        Self { deadline: self.deadline.or(Some(NEVER)), ..*self }
    }

    /// A wait of no lock in particular.
    #[cfg(test)]
    pub(crate) const fn until(deadline: Option<Deadline>) -> Self {
        Self { address: 0, others: 0, deadline, bookmark: None }
    }

    /// Whether it is time to give up.
    #[inline]
    pub(crate) fn is_over<P: Platform>(&self) -> bool {
        self.deadline.is_some_and(expired::<P>)
    }
}

/// What came of a wait without a deadline, for which there is no giving up.
#[inline(always)]
pub(crate) fn endless<T>(outcome: Option<T>) -> T {
    match outcome {
        Some(outcome) => outcome,
        None => unreachable!("a wait without a deadline ends with the lock"),
    }
}
