//! MUTEXEE: spin for a while, then sleep; a release wakes nobody where a spinner is there to take the lock.
//!
//! Babak Falsafi, Rachid Guerraoui, Javier Picorel and Vasileios Trigonakis, "Unlocking energy", USENIX ATC 2016.
//! Deviations: the releaser of the paper watches the lock for some hundred cycles after it released it, to see whether a
//! spinner took it. A released POSIX mutex may be destroyed by its next holder, so the lock must not be read
//! then: spinners are counted in the word instead, and the release itself tells whether there is one. A spinner may not
//! leave a free lock. No mutex mode (short spinning where hand-offs mostly sleep), and no bound on the time that a
//! sleeper is overtaken.
//!
//! Properties: no fairness, and spinners go before sleepers; 4 bytes a lock, nothing a waiter. Waiting: spin-then-park.
//! Few wake-ups, and so few system calls and little energy, under contention. Avoid it where a sleeper may not starve.
//!
//! # State
//!
//! ```text
//! word:   sleepers (24 bits) | spinners (7 bits) | locked (1 bit)
//! ```
//!
//! # Invariants
//!
//! - I1: a thread that set the bit `locked` is the holder, and only the holder's release clears it.
//! - I2: every waiter is counted once, as a spinner or as a sleeper, and ends its count by the step that acquires the
//!   lock, or that gives up while the lock is locked: nobody who is counted leaves a free lock.
//! - I3: a release that finds a spinner wakes nobody (by I2 a spinner, or somebody faster, acquires and releases
//!   again); one that finds only sleepers wakes one of them, which by I2 passes that on.
//! - I4: a sleeper sleeps only while the word has not changed since the sleeper saw it locked and itself counted.
//!   So a release comes before its sleep and prevents it, or after it and finds its count.
//! - I5: the spinner for whose sake a release woke nobody may have lost its CPU, and then the lock is free while others
//!   sleep. So sleepers look at it now and then, one of them about every [`NAP_NS`].
//!
//! # Ordering
//!
//! - E1: `unlock`'s subtraction (Release) → the step of the next locker that finds the bit clear (Acquire): the critical
//!   section. Waiters' steps in between are read-modify-writes, which continue the release sequence.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{
    AtomicCell, AtomicInt, Clock, ConstPlatform, Deadline, FutexCell, Native, Platform, TimedOut,
};

use crate::api::RawLock;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{Wait, expired, poll_within};

/// About as often one of the sleepers looks whether the lock is free (ns).
const NAP_NS: u64 = 2_000_000;
/// However many sleep, each looks after so long (ns).
pub(crate) const LONGEST_NAP_NS: u64 = 1_000_000_000;

/// What is known of MUTEXEE.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "mutexee",
    family: Family::Blocking,
    order: Order::None,
    bytes: 4,
    timed: Timed::SpinsThenSleeps,
    proofs: &[Proof::of(file!())],
    citation: Citation {
        key: "falsafi16",
        text: "Falsafi, Guerraoui, Picorel, Trigonakis: Unlocking energy. USENIX ATC 2016",
    },
    summary: "waiters spin for a while, then sleep; a release wakes nobody if somebody spins",
    properties: "Few wake-ups under contention. Spinners go before sleepers.",
    deviations: "The word counts spinners, where the paper's releaser watches the released lock. No mutex mode.",
    avoid: "Wherever starvation matters: sleepers wait for as long as there are spinners. Where spinners lose their CPUs: the lock \
            is idle then until a sleeper looks by itself, as one does every 2 ms or so.",
    ..Descriptor::MUTEX
};

const LOCKED: u32 = 1;
/// One spinner in the word.
pub(crate) const SPINNER: u32 = 1 << 1;
const SPINNERS: u32 = 0x7f << 1;
/// One sleeper in the word.
pub(crate) const SLEEPER: u32 = 1 << 8;

/// The MUTEXEE lock.
#[repr(transparent)]
pub struct Mutexee<P: Platform> {
    /// Written by lockers, waiters and the holder; waiters sleep on it.
    word: P::Futex,
}

const _: () = assert!(size_of::<Mutexee<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform> core::fmt::Debug for Mutexee<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mutexee").field("word", &self.word.load(Relaxed)).finish()
    }
}

impl Mutexee<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Native::FUTEX_ZERO }
    }
}

impl<P: Platform> Mutexee<P> {
    #[inline(always)]
    pub(crate) fn acquire_fast(&self) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok()
    }

    /// Acquires a free lock, for a caller counted as `mine`.
    pub(crate) fn try_acquire(&self, mine: u32) -> bool {
        let mut seen = self.word.load(Relaxed);
        while seen & LOCKED == 0 {
            // ORDER: Acquire is E1. Failure tells only what to try next.
            match self.word.compare_exchange(seen, seen - mine + LOCKED, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Acquires a free lock, or, while it is locked, is counted as `then` instead of `mine` (I2).
    pub(crate) fn take_or_become(&self, mine: u32, then: u32) -> bool {
        while !self.try_acquire(mine) {
            let seen = self.word.load(Relaxed);
            // ORDER: Relaxed: the count publishes nothing.
            if seen & LOCKED != 0
                && self.word.compare_exchange(seen, seen - mine + then, Relaxed, Relaxed).is_ok()
            {
                return false;
            }
        }
        true
    }

    /// Counts the caller as a spinner of a locked lock, if there is room.
    pub(crate) fn becomes_spinner(&self) -> bool {
        let mut seen = self.word.load(Relaxed);
        while seen & SPINNERS != SPINNERS {
            // ORDER: Relaxed: the count publishes nothing.
            match self.word.compare_exchange(seen, seen + SPINNER, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    fn spin_then_sleep(&self, deadline: Option<Deadline>) -> bool {
        let mut mine = 0;
        if self.becomes_spinner() {
            mine = SPINNER;
            if poll_within::<P, _>(P::spin_budget(), || self.try_acquire(mine).then_some(())).is_some() {
                return true;
            }
        }
        self.take_or_become(mine, SLEEPER) || self.sleep(deadline)
    }

    /// How many are counted as sleepers.
    pub(crate) fn sleepers(&self) -> u32 {
        self.word.load(Relaxed) / SLEEPER
    }

    /// Sleeps if the lock is locked, for a caller that is counted as a sleeper, until something happens (I4).
    pub(crate) fn doze(&self, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        let seen = self.word.load(Relaxed);
        if seen & LOCKED == 0 { Ok(()) } else { self.word.wait(seen, deadline) }
    }

    /// When a nap of `ns` from now on ends, or the deadline comes. With as many sleepers a nap is as many times as long:
    /// thousands that wake every few milliseconds only to sleep again would be a load of their own.
    pub(crate) fn end_of_nap(&self, ns: u64, deadline: Option<Deadline>) -> Deadline {
        let ns = ns.saturating_mul(self.sleepers().max(1).into()).min(LONGEST_NAP_NS);
        let clock = deadline.map_or(Clock::Monotonic, |deadline| deadline.clock);
        let end = P::now(clock).saturating_add(ns);
        Deadline { clock, ns: deadline.map_or(end, |deadline| end.min(deadline.ns)) }
    }

    fn sleep(&self, deadline: Option<Deadline>) -> bool {
        while !self.try_acquire(SLEEPER) {
            // I5.
            let nap = self.end_of_nap(NAP_NS, deadline);
            if self.doze(Some(nap)).is_err() && deadline.is_some_and(expired::<P>) {
                // I2: the wake-up may have been ours, so a free lock is not left.
                return self.take_or_become(SLEEPER, 0);
            }
        }
        true
    }

    /// Takes back the release of a lock that was not locked, which POSIX leaves undefined. Until then it seems locked, to be counted
    /// in and out of as always, since all counts are added and subtracted.
    #[cold]
    fn take_back(&self) {
        let before = self.word.fetch_add(LOCKED, Relaxed).wrapping_add(LOCKED);
        // As in a release: one that found it locked may sleep.
        if before >= SLEEPER && before & SPINNERS == 0 {
            Self::wake_one(&raw const self.word);
        }
    }

    /// Wakes one sleeper. The lock itself may be gone: its next owner could have released and freed it.
    #[cold]
    fn wake_one(word: *const P::Futex) {
        // SAFETY: the word was alive at the step that released it; a wake that comes too late is spurious.
        unsafe { FutexCell::wake(word, 1) };
    }
}

// SAFETY: I1 gives exclusion, and E1 orders the sections.
unsafe impl<P: Platform> RawLock<P> for Mutexee<P> {
    type Token = ();

    fn new() -> Self {
        Self { word: P::Futex::new(0) }
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        self.acquire_fast().then_some(())
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.try_acquire(0).then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.spin_then_sleep(wait.deadline).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        let word = ptr::from_ref(&self.word);
        // ORDER: Release is E1.
        let before = self.word.fetch_sub(LOCKED, Release);
        if before == LOCKED {
            return;
        }
        if before & LOCKED == 0 {
            return self.take_back();
        }
        // I3.
        if before >= SLEEPER && before & SPINNERS == 0 {
            Self::wake_one(word);
        }
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        self.word.store(self.word.load(Relaxed) & LOCKED, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(lock: &Mutexee<Native>) -> u32 {
        lock.word.load(Relaxed)
    }

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: atomics are valid whatever their bits.
        let lock: Mutexee<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        assert!(lock.try_lock().is_some());
        assert!(lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(word(&lock), 0);
    }

    #[test]
    fn a_waiter_that_gives_up_leaves_no_count() {
        let lock = Mutexee::unlocked();
        let () = lock.lock();
        assert!(lock.try_lock_until(Deadline { clock: Clock::Monotonic, ns: 0 }).is_none());
        assert_eq!(word(&lock), LOCKED);
    }

    #[test]
    fn an_unlock_too_many_changes_nothing() {
        let lock = Mutexee::unlocked();
        // Also in the moment in which those that wait have yet to take the lock that was released.
        for before in [0, SLEEPER, 2 * SPINNER, 3 * SLEEPER + SPINNERS] {
            lock.word.store(before, Relaxed);
            // SAFETY: not locked, but nobody else uses this lock.
            unsafe { lock.unlock(()) };
            assert_eq!(word(&lock), before);
        }
    }

    #[test]
    fn too_many_spinners_do_not_overflow_their_count() {
        let lock = Mutexee::unlocked();
        lock.word.store(LOCKED | SPINNERS, Relaxed);
        assert!(lock.try_lock_until(Deadline { clock: Clock::Monotonic, ns: 0 }).is_none());
        assert_eq!(word(&lock), LOCKED | SPINNERS);
    }

    #[test]
    fn a_spinner_that_lost_its_cpu_does_not_leave_the_lock_to_nobody() {
        extern crate std;

        let lock = Mutexee::unlocked();
        // Counted, and never to be seen again.
        lock.word.store(LOCKED + SPINNER, Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| lock.lock());
            while lock.sleepers() == 0 {
                std::thread::yield_now();
            }
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
        });
        assert_eq!(word(&lock), LOCKED + SPINNER);
    }

    #[test]
    fn who_gives_up_takes_a_lock_that_has_become_free() {
        let lock = Mutexee::unlocked();
        lock.word.store(SLEEPER, Relaxed);
        assert!(lock.take_or_become(SLEEPER, 0));
        assert_eq!(word(&lock), LOCKED);
    }

    #[test]
    fn forgetting_waiters_keeps_the_lock_locked() {
        let lock = Mutexee::unlocked();
        lock.word.store(LOCKED + 3 * SLEEPER + 2 * SPINNER, Relaxed);
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(Some(())) };
        assert_eq!(word(&lock), LOCKED);
    }
}
