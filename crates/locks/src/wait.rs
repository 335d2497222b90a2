//! How a thread waits for its turn: one futex word per waiter, one hand-off protocol for all
//! queue locks, and the waiting policy as a type parameter.
//!
//! # The word
//!
//! | value       | meaning                                              | who moves it there         |
//! |-------------|------------------------------------------------------|----------------------------|
//! | `WAITING`   | the owner of the word waits, awake                   | the owner, before publishing |
//! | `PARKED`    | the owner sleeps, or is about to                     | the owner                  |
//! | `GRANTED`   | what the owner waited for is the owner's             | the granter, once          |
//! | `ABANDONED` | the owner gave up at its deadline                    | the owner, finally         |
//!
//! # Invariants
//!
//! - I1: only the granter writes `GRANTED`, by [`grant`], and only once per wait.
//! - I2: `ABANDONED` is final: the owner never touches the word again; whoever calls [`grant`] on it is told so, and
//!   owns the word from then on.
//! - I3: a waiter that sleeps has moved the word to `PARKED` first, so a granter that finds anything else need not wake.
//!
//! # Ordering
//!
//! - E1: the swap in [`grant`] (Release) → the load or failed CAS of the waiter that sees `GRANTED` (Acquire):
//!   publishes everything the granter did before it granted.
//! - E2: the CAS to `ABANDONED` (Release) → the swap in [`grant`] that returns it (Acquire): the waiter's
//!   accesses to its node come before the granter's re-use of it.

mod aware;
mod room;

use core::fmt::Debug;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Deadline, FutexCell, Platform, TimedOut};

use crate::api::RawLock;

pub use aware::Aware;
pub(crate) use aware::{AwareOrLeave, Spun, spin_aware};
pub(crate) use room::{ROUND_TRIPS, spin_with_room};

/// The owner of the word waits, awake.
pub const WAITING: u32 = 0;
/// The owner of the word sleeps, or is about to.
pub const PARKED: u32 = 1;
/// What the owner waited for is the owner's.
pub const GRANTED: u32 = 2;
/// The owner gave up.
pub const ABANDONED: u32 = 3;

/// Added to the address of a condition in `Platform::set_waiting_on`, to tell it from a lock's.
pub const WAITING_ON_COND: usize = 1;
/// Added to the address of a reader-writer lock in `Platform::set_waiting_on`.
pub const WAITING_ON_RWLOCK: usize = 2;

/// Runs `wait` registered as a waiter for `address`; what was registered before is put back.
#[inline(always)]
pub(crate) fn registered<P: Platform, R>(address: usize, wait: impl FnOnce() -> R) -> R {
    let before = P::set_waiting_on(address);
    let result = wait();
    P::set_waiting_on(before);
    result
}

/// The part of [`Platform::thread_word`] that says how many threads may have to be woken before its thread.
const CROWD_SHIFT: u32 = 48;

/// The part of [`Platform::thread_word`] that is free for other uses.
pub(crate) const SCRATCH: u64 = (1 << CROWD_SHIFT) - 1;

/// Runs `wait` as one of a crowd of bounded size, in which at most `others` get the lock before this thread. Spin-then-park
/// then spins for as long as it takes to wake them all, one after the other.
///
/// Otherwise sleep is infectious: as soon as the others sleep, whoever joins them waits for longer than a wake-up
/// takes, goes to sleep for that reason, and is one more to be woken. Once all sleep, every hand-off wakes somebody for
/// ever.
pub(crate) fn in_crowd<P: Platform, R>(others: u32, wait: impl FnOnce() -> R) -> R {
    let before = P::thread_word();
    P::set_thread_word(before & SCRATCH | u64::from(others.min(u16::MAX.into())) << CROWD_SHIFT);
    let result = wait();
    P::set_thread_word(before);
    result
}

/// Pauses before a thread that waits by spin-then-park goes to sleep.
fn spins_before_sleep<P: Platform>() -> u32 {
    let others = (P::thread_word() >> CROWD_SHIFT) as u32;
    P::spin_budget().saturating_mul(others + 1)
}

/// What came of a wait without a deadline, for which there is no giving up.
#[inline(always)]
pub(crate) fn endless<T>(outcome: Option<T>) -> T {
    match outcome {
        Some(outcome) => outcome,
        None => unreachable!("a wait without a deadline ends with the lock"),
    }
}

/// How to wait. A type, so that every lock is compiled for its policy.
pub trait WaitPolicy<P: Platform>: Debug + Send + Sync + 'static {
    /// The policy's name as it appears in lock names: `spin`, `stp`, `park`, `yield`, `aware`.
    const NAME: &'static str;

    /// Whether waiters look at who is ahead of them, which then has to say who it is.
    const LOOKS_AHEAD: bool = false;

    /// Waits until `word` is [`GRANTED`], or abandons it at the deadline.
    ///
    /// # Errors
    ///
    /// [`TimedOut`]: the word is [`ABANDONED`], and belongs to the granter.
    fn wait(word: &P::Futex, deadline: Option<Deadline>) -> Result<(), TimedOut>;

    /// [`WaitPolicy::wait`] at a place in a queue. A waiter that gives up awake leaves it to those behind.
    ///
    /// # Errors
    ///
    /// As [`WaitPolicy::wait`].
    fn wait_at(word: &P::Futex, place: &impl Place, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        let _ = place;
        Self::wait(word, deadline)
    }
}

/// A waiter's place in a queue, for those who look ahead.
pub trait Place {
    /// The [`Platform::scheduling_id`] of the thread that is expected to grant; 0 = somebody.
    fn ahead(&self) -> u32;

    /// The waiter, which has not given up yet, is about to: those behind it are to look at whom it looked at.
    fn leave(&self);

    /// The waiter, which was about to give up, has been granted what it waited for.
    fn stay(&self);
}

/// Behind a thread that was the one ahead when the waiter came.
pub(crate) struct Behind<'own, P: Platform> {
    ahead: u32,
    own: &'own Owner<P>,
}

impl<'own, P: Platform> Behind<'own, P> {
    pub(crate) fn new(ahead: u32, own: &'own Owner<P>) -> Self {
        Self { ahead, own }
    }
}

impl<P: Platform> Place for Behind<'_, P> {
    fn ahead(&self) -> u32 {
        self.ahead
    }

    fn leave(&self) {
        self.own.set(self.ahead);
    }

    fn stay(&self) {
        self.own.set(P::scheduling_id());
    }
}

/// Who waits or holds with a queue node, for those behind it who look ahead.
#[derive(Debug)]
pub struct Owner<P: Platform>(P::U32);

impl<P: Platform> Owner<P> {
    /// Somebody.
    pub(crate) fn new() -> Self {
        Self(P::U32::new(0))
    }

    /// Notes the calling thread, before its node is in the queue, where those who wait by `W` want to know.
    #[inline(always)]
    pub(crate) fn note<W: WaitPolicy<P>>(&self) {
        if W::LOOKS_AHEAD {
            self.0.store(P::scheduling_id(), Relaxed); // ORDER: what publishes the node publishes it.
        }
    }

    /// Notes another thread.
    #[inline(always)]
    pub(crate) fn set(&self, other: u32) {
        self.0.store(other, Relaxed); // ORDER: a hint.
    }

    /// Who it is, where those who wait by `W` want to know, else 0.
    #[inline(always)]
    pub(crate) fn get<W: WaitPolicy<P>>(&self) -> u32 {
        if W::LOOKS_AHEAD { self.who() } else { 0 }
    }

    /// Who it is, if anybody has noted that.
    pub(crate) fn who(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// Spinning: the fastest hand-off when every thread has a CPU of its own, and a collapse when not. See [`Patience`].
#[derive(Debug)]
pub struct Spin;

/// As [`Spin`], asking for the word's cache line in writing before every look, so that the hand-off is followed by no
/// second transfer (libslock's way).
#[derive(Debug)]
pub struct SpinForWriting;

/// Spinning for about the time of a context-switch round trip, then sleeping (`stp`).
#[derive(Debug)]
pub struct SpinThenPark;

/// Sleeping at once (`park`): for long critical sections, where spinning is waste.
#[derive(Debug)]
pub struct Park;

/// Offering the CPU to other threads before every look (`yield`): for hosts with many more threads than CPUs
/// and sections too short to sleep for.
#[derive(Debug)]
pub struct Yield;

/// The pauses of a thread that spins. On a machine whose CPUs are all busy, the thread it waits for may need this very CPU:
/// after about twenty context-switch round trips every pause yields instead, unless the process asked for strict spinning.
#[derive(Debug)]
pub(crate) struct Patience {
    left: u32,
}

impl Patience {
    const ROUND_TRIPS: u32 = 20;

    pub(crate) fn new<P: Platform>() -> Self {
        let left =
            if P::strict_spin() { u32::MAX } else { P::spin_budget().saturating_mul(Self::ROUND_TRIPS) };
        Self { left }
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
        if self.left == 0 {
            P::yield_now();
            return YIELD;
        }
        let paused = pause(self.left);
        self.left = self.left.saturating_sub(paused);
        paused
    }
}

/// Waits until nobody has `lock`, which nobody acquires any more.
pub(crate) fn until_released<P: Platform, L: RawLock<P>>(lock: &L) {
    let mut patience = Patience::new::<P>();
    while lock.is_locked() {
        patience.pause::<P>();
    }
}

/// What became of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The waiter has it.
    Accepted,
    /// The waiter had given up; the word (and its node) belongs to the granter now.
    Abandoned,
}

/// Grants the word's owner what it waits for, and wakes it if it sleeps. After `Accepted` the
/// caller must not touch the word's memory: the owner may have recycled it.
pub fn grant<P: Platform>(word: &P::Futex) -> Grant {
    let address = ptr::from_ref(word);
    // ORDER: Release is E1. Acquire is E2. One RMW decides between grant, sleep and abandonment.
    match word.swap(GRANTED, AcqRel) {
        ABANDONED => Grant::Abandoned,
        PARKED => {
            // SAFETY: the word was alive at the swap; a wake that comes late hits recycled pool memory and is spurious.
            unsafe { FutexCell::wake(address, 1) };
            Grant::Accepted
        }
        _ => Grant::Accepted,
    }
}

/// Gives up waiting, unless the grant came first.
pub(crate) fn abandon<P: Platform>(word: &P::Futex) -> Result<(), TimedOut> {
    let mut seen = word.load(Relaxed);
    loop {
        if seen == GRANTED {
            // ORDER: the load that saw GRANTED may have been relaxed: E1.
            word.load(Acquire);
            return Ok(());
        }
        // ORDER: Release is E2. A failure needs nothing: the load above follows a grant.
        match word.compare_exchange(seen, ABANDONED, Release, Relaxed) {
            Ok(_) => return Err(TimedOut),
            Err(now) => seen = now,
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

/// Spins until granted, for at most `budget` pauses, with `prepare` before every look. Returns whether it was granted.
fn spin<P: Platform>(word: &P::Futex, budget: u32, prepare: impl Fn()) -> bool {
    let looks = || {
        prepare();
        // ORDER: E1.
        (word.load(Acquire) == GRANTED).then_some(())
    };
    poll_within::<P, _>(budget, looks).is_some() || word.load(Acquire) == GRANTED
}

/// Spins until granted, with `prepare` before every look, or abandons the word at the deadline.
fn spin_on<P: Platform>(
    word: &P::Futex,
    deadline: Option<Deadline>,
    prepare: impl Fn(),
) -> Result<(), TimedOut> {
    /// Pauses between two looks at the clock, which costs about as much as one of them.
    const CLOCK_INTERVAL: u32 = 16;
    let Some(deadline) = deadline else {
        let mut patience = Patience::new::<P>();
        prepare();
        // ORDER: E1.
        while word.load(Acquire) != GRANTED {
            patience.pause::<P>();
            prepare();
        }
        return Ok(());
    };
    while !spin::<P>(word, CLOCK_INTERVAL, &prepare) {
        if expired::<P>(deadline) {
            return abandon::<P>(word);
        }
    }
    Ok(())
}

impl<P: Platform> WaitPolicy<P> for Spin {
    const NAME: &'static str = "spin";

    fn wait(word: &P::Futex, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        spin_on::<P>(word, deadline, || {})
    }
}

impl<P: Platform> WaitPolicy<P> for SpinForWriting {
    const NAME: &'static str = "spin";

    fn wait(word: &P::Futex, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        spin_on::<P>(word, deadline, || P::prefetch_write(ptr::from_ref(word)))
    }
}

impl<P: Platform> WaitPolicy<P> for Yield {
    const NAME: &'static str = "yield";

    fn wait(word: &P::Futex, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        // ORDER: E1.
        while word.load(Acquire) != GRANTED {
            if deadline.is_some_and(expired::<P>) {
                return abandon::<P>(word);
            }
            P::yield_now();
        }
        Ok(())
    }
}

impl<P: Platform> WaitPolicy<P> for Park {
    const NAME: &'static str = "park";

    fn wait(word: &P::Futex, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        park::<P>(word, deadline)
    }
}

impl<P: Platform> WaitPolicy<P> for SpinThenPark {
    const NAME: &'static str = "stp";

    fn wait(word: &P::Futex, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        // A longer spin would be late for its deadline.
        let budget = if deadline.is_some() { P::spin_budget() } else { spins_before_sleep::<P>() };
        if spin::<P>(word, budget, || {}) { Ok(()) } else { park::<P>(word, deadline) }
    }
}

/// Sleeps until granted, or abandons the word at the deadline.
fn park<P: Platform>(word: &P::Futex, deadline: Option<Deadline>) -> Result<(), TimedOut> {
    // ORDER: Acquire on failure is E1. Success publishes nothing: the granter reads only the state.
    if word.compare_exchange(WAITING, PARKED, Relaxed, Acquire).is_err() {
        return Ok(()); // I1: only a grant can have come in between.
    }
    // I3: from here on the granter wakes us. ORDER: the Acquire loads are E1.
    while word.load(Acquire) != GRANTED {
        if word.wait(PARKED, deadline).is_err() {
            return abandon::<P>(word);
        }
    }
    Ok(())
}
