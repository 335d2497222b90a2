//! The waiting policies: how a thread waits on a word for its turn.
//!
//! The states of the word, the invariants and the ordering edges are those of [`word`](super::word).

use core::fmt::Debug;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use lockwork_platform::{AtomicCell, Platform, TimedOut};

use super::word::{GRANTED, abandon, park};
use super::{Patience, Wait, expired, poll_within};

/// How to wait. A type, so that every lock is compiled for its policy.
pub trait WaitPolicy<P: Platform>: Debug + Send + Sync + 'static {
    /// The policy's name as it appears in lock names: `spin`, `stp`, `park`, `yield`, `aware`.
    const NAME: &'static str;

    /// Whether waiters look at the thread ahead of them, which then has to note its scheduling id.
    const LOOKS_AHEAD: bool = false;

    /// Waits until `word` is [`GRANTED`], or abandons it at the deadline.
    ///
    /// # Errors
    ///
    /// [`TimedOut`]: the word is [`ABANDONED`], and belongs to the granter.
    fn wait(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut>;

    /// [`WaitPolicy::wait`] at a place in a queue. A waiter that gives up awake leaves it to those behind.
    ///
    /// # Errors
    ///
    /// As [`WaitPolicy::wait`].
    fn wait_at(word: &P::Futex, place: &impl Place, wait: &Wait) -> Result<(), TimedOut> {
        let _ = place;
        Self::wait(word, wait)
    }
}

/// A waiter's place in a queue, for those who look ahead.
pub trait Place {
    /// The [`Sched::scheduling_id`](lockwork_platform::Sched::scheduling_id) of the thread that is expected to grant; 0 = somebody.
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

/// The thread that waits or holds with a queue node, for waiters behind it that look ahead.
#[derive(Debug)]
pub struct Owner<P: Platform>(P::U32);

impl<P: Platform> Owner<P> {
    /// No thread known yet.
    pub(crate) fn new() -> Self {
        Self(P::U32::new(0))
    }

    /// Notes the calling thread, before its node is in the queue, where those who wait by `W` want to know.
    #[inline(always)]
    pub(crate) fn note<W: WaitPolicy<P>>(&self) {
        self.note_as::<W>(P::scheduling_id);
    }

    /// As [`Owner::note`], of a calling thread that is known by what `id` says.
    #[inline(always)]
    pub(crate) fn note_as<W: WaitPolicy<P>>(&self, id: impl FnOnce() -> u32) {
        if W::LOOKS_AHEAD {
            self.0.store(id(), Relaxed); // ORDER: what publishes the node publishes it.
        }
    }

    /// Notes another thread.
    #[inline(always)]
    pub(crate) fn set(&self, other: u32) {
        self.0.store(other, Relaxed); // ORDER: a hint.
    }

    /// The thread that it is, where waiters by `W` want to know, else 0.
    #[inline(always)]
    pub(crate) fn get<W: WaitPolicy<P>>(&self) -> u32 {
        if W::LOOKS_AHEAD { self.who() } else { 0 }
    }

    /// The thread that it is, if that has been noted.
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
fn spin_on<P: Platform>(word: &P::Futex, wait: &Wait, prepare: impl Fn()) -> Result<(), TimedOut> {
    /// Pauses between two looks at the clock, which costs about as much as one of them.
    const CLOCK_INTERVAL: u32 = 16;
    let Some(deadline) = wait.deadline else {
        let mut patience = Patience::among::<P>(wait.others);
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
            return abandon::<P>(word, wait);
        }
    }
    Ok(())
}

impl<P: Platform> WaitPolicy<P> for Spin {
    const NAME: &'static str = "spin";

    fn wait(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut> {
        spin_on::<P>(word, wait, || {})
    }
}

impl<P: Platform> WaitPolicy<P> for SpinForWriting {
    const NAME: &'static str = "spin";

    fn wait(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut> {
        spin_on::<P>(word, wait, || P::prefetch_write(ptr::from_ref(word)))
    }
}

impl<P: Platform> WaitPolicy<P> for Yield {
    const NAME: &'static str = "yield";

    fn wait(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut> {
        // ORDER: E1.
        while word.load(Acquire) != GRANTED {
            if wait.is_over::<P>() {
                return abandon::<P>(word, wait);
            }
            P::yield_now();
        }
        Ok(())
    }
}

impl<P: Platform> WaitPolicy<P> for Park {
    const NAME: &'static str = "park";

    fn wait(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut> {
        park::<P>(word, wait)
    }
}

impl<P: Platform> WaitPolicy<P> for SpinThenPark {
    const NAME: &'static str = "stp";

    fn wait(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut> {
        if spin::<P>(word, P::spin_budget(), || {}) { Ok(()) } else { park_among::<P>(word, wait) }
    }
}

/// Sleeps until granted, or abandons the word at the deadline. In a crowd of bounded size ([`Wait::among`]) a waiter spins before for
/// as long as it takes to wake the others one after the other.
pub(crate) fn park_among<P: Platform>(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut> {
    /// Parts of a budget after each of which a waiter gives way.
    const PARTS: u32 = 4;
    let budget = P::spin_budget();
    // One of the others may need this very CPU, and would have the lock wait for it until this thread sleeps. A longer spin would
    // be late for its deadline.
    let parts = if wait.deadline.is_some() { 0 } else { wait.others.saturating_mul(PARTS) };
    let outlasts = (0..parts).any(|_| {
        P::yield_now();
        spin::<P>(word, budget / PARTS, || {})
    });
    if outlasts { Ok(()) } else { park::<P>(word, wait) }
}
