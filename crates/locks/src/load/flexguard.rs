//! FlexGuard: waiters spin in a queue while the thread they wait for runs, and sleep in the kernel while it does not.
//!
//! Victor Laforet, Sanidhya Kashyap, Călin Iorgulescu, Julia Lawall and Jean-Pierre Lozi, "FlexGuard: fast mutual
//! exclusion independent of subscription", SOSP 2025. Deviations: a waiter goes by the thread that it waits for, which
//! the lock's word and the queue name, where the paper's go by the number of preempted holders of all locks, for which
//! its threads tell the kernel when they hold one; it sees that by CPU clocks (see `wait::Aware`); waiters can
//! give up at a deadline; a waiter that leaves the queue is skipped, where the paper's stays in it until its turn.
//!
//! Properties: nearly FIFO among those that spin, none otherwise: a running thread overtakes those being woken, which
//! is what keeps the lock busy with many more threads than CPUs; 16 bytes a lock; one node of 64 bytes for each waiter
//! that spins. Waiting: aware. `try_lock` succeeds on a free lock, whoever is on the way to it. Avoid it where threads
//! may not be overtaken.
//!
//! # State
//!
//! `word`: 0 = unlocked, else the holder's `Sched::scheduling_id`, and [`SLEEPERS`] if perhaps somebody sleeps on it.
//! `queue`: an MCS lock; its holder is the one waiter that polls `word`.
//!
//! # Invariants
//!
//! - I1: a thread that moved `word` from 0 to anything else is the holder, and only the holder's release moves it to 0.
//! - I2: a thread sleeps only on a value with [`SLEEPERS`], so whoever moves such a value to 0 has to wake one. A
//!   thread that has been woken answers for the others: it takes the lock with [`SLEEPERS`], sets it before it sleeps
//!   again, or, if it gives up, sets it in the holder's word or wakes another.
//!
//! # Ordering
//!
//! - E1: `unlock`'s swap to 0 (Release) → the next locker's CAS from 0 (Acquire): the critical section. [`SLEEPERS`] is
//!   set in between only in the holder's time, and overwritten by `unlock`.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, ConstPlatform, FutexCell, Native, Platform};

use crate::api::RawLock;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::queue::mcs::Mcs;
use crate::wait::{AwareOrLeave, Spun, Wait, spin_aware};

/// What is known of FlexGuard.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "flexguard",
    family: Family::LoadControl,
    order: Order::FifoAmongRunning,
    order_note: "none among those that sleep",
    bytes: 16,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("in the queue, or sleeps until the deadline"),
    proofs: &[
        Proof { source: file!(), by: &["flexguard", "flexguard, overloaded"] },
        Proof {
            source: "queue/mcs.rs",
            by: &["flexguard, overloaded", "flexguard, behind threads that do not run"],
        },
    ],
    citation: Citation {
        key: "laforet25",
        text: "Laforet, Kashyap, Iorgulescu, Lawall, Lozi: FlexGuard: fast mutual exclusion independent of subscription. SOSP 2025",
    },
    summary: "waiters spin in a queue while the thread they wait for runs, and sleep in the kernel while it does not",
    properties: "They see when that is by that thread's CPU clock, or are told by `lockwork monitor`, or else go by the \
                 load. A running thread overtakes sleepers.",
    deviations: "A waiter goes by the thread it waits for, not by how many holders of all locks are preempted.",
    avoid: "Wherever a waiter may not be overtaken.",
    ..Descriptor::MUTEX
};

/// Perhaps somebody sleeps on the word. Ids are smaller.
const SLEEPERS: u32 = 1 << 31;
const UNLOCKED: u32 = 0;

/// FlexGuard.
#[repr(C)]
pub struct FlexGuard<P: Platform> {
    /// Written by lockers, the holder, and waiters that go to sleep on it.
    word: P::Futex,
    /// Orders those that spin; held by the one that polls `word`.
    queue: Mcs<P, AwareOrLeave>,
}

const _: () = assert!(size_of::<FlexGuard<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform> core::fmt::Debug for FlexGuard<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FlexGuard").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl FlexGuard<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Native::FUTEX_ZERO, queue: Mcs::unlocked() }
    }
}

impl<P: Platform> FlexGuard<P> {
    /// Takes a free lock by writing `mark`.
    #[inline(always)]
    fn acquire_fast(&self, mark: u32) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.word.compare_exchange(UNLOCKED, mark, Acquire, Relaxed).is_ok()
    }

    /// Spins and sleeps until the lock is acquired or the deadline has passed.
    fn acquire_slow(&self, wait: &Wait) -> bool {
        let me = P::scheduling_id();
        let mut mark = me;
        loop {
            if self.spins(mark, wait) {
                return true;
            }
            if wait.is_over::<P>() {
                if mark != me {
                    self.answer_for_sleepers();
                }
                return false;
            }
            let seen = self.word.load(Relaxed);
            let asleep = seen | SLEEPERS;
            let free = seen == UNLOCKED;
            // I2. ORDER: Relaxed: within the holder's time.
            if !free && (seen == asleep || self.word.compare_exchange(seen, asleep, Relaxed, Relaxed).is_ok())
            {
                if self.word.wait(asleep, wait.deadline).is_err() {
                    return false; // Nobody has woken us since we have set the bit.
                }
                mark = me | SLEEPERS;
            }
            if self.acquire_fast(mark) {
                return true;
            }
        }
    }

    /// Spins as long as it makes sense, in the queue and then at its head. Whether the lock was acquired.
    fn spins(&self, mark: u32, wait: &Wait) -> bool {
        if P::running(self.holder()) == Some(false) {
            P::want_watch();
            return false;
        }
        // While the one that polls is off its CPU, every release may wake a thread that lines up behind it and gives up again.
        let Some(node) = self.queue.lock_with(&wait.for_now()) else { return false };
        let polls = || self.word.load(Relaxed) == UNLOCKED && self.acquire_fast(mark);
        let spun = spin_aware::<P>(|| self.holder(), wait.deadline, polls);
        // SAFETY: acquired above.
        unsafe { self.queue.unlock(node) };
        spun == Spun::Done
    }

    /// The scheduling id of the holder; 0 = unlocked.
    fn holder(&self) -> u32 {
        self.word.load(Relaxed) & !SLEEPERS
    }

    /// Sees to it that a sleeper is woken, in place of one that was and gives up (I2).
    fn answer_for_sleepers(&self) {
        loop {
            let seen = self.word.load(Relaxed);
            if seen == UNLOCKED {
                return Self::wake_one(&raw const self.word);
            }
            // ORDER: Relaxed: within the holder's time.
            if self.word.compare_exchange(seen, seen | SLEEPERS, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Wakes one sleeper. The lock itself may be gone: its next owner could have released and freed it.
    #[cold]
    fn wake_one(word: *const P::Futex) {
        // SAFETY: the word was alive at the swap that released it; a wake that comes too late is spurious.
        unsafe { FutexCell::wake(word, 1) };
    }
}

// SAFETY: I1 gives exclusion, and E1 orders the sections.
unsafe impl<P: Platform> RawLock<P> for FlexGuard<P> {
    type Token = ();

    fn new() -> Self {
        Self { word: P::Futex::new(UNLOCKED), queue: RawLock::new() }
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        self.acquire_fast(P::scheduling_id()).then_some(())
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        // Read first: a failing CAS would take the line from the holder.
        (self.word.load(Relaxed) == UNLOCKED && self.acquire_fast(P::scheduling_id())).then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.acquire_slow(wait).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        let word = ptr::from_ref(&self.word);
        // ORDER: Release is E1.
        if self.word.swap(UNLOCKED, Release) & SLEEPERS != 0 {
            Self::wake_one(word);
        }
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != UNLOCKED
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        self.queue.clear();
        self.word.store(self.holder(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use lockwork_platform::{Clock, Deadline};

    use super::*;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: atomics are valid whatever their bits.
        let lock: FlexGuard<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        let () = lock.lock();
        assert_eq!(lock.holder(), Native::tid());
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock_until(PAST).is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert!(!lock.is_locked());
        assert!(!lock.queue.is_locked());
    }

    #[test]
    fn who_comes_again_and_again_behind_one_that_does_not_run_leaves_one_node() {
        let lock = FlexGuard::<Native>::unlocked();
        let () = lock.lock();
        // The one that polls the word: this thread, which sleeps in `join`.
        let poller = lock.queue.lock();
        let comes_again = || {
            let wait = Wait::until(None);
            (0..20).all(|_| !lock.spins(Native::tid(), &wait))
        };
        std::thread::scope(|scope| assert!(scope.spawn(comes_again).join().expect("it does not panic")));
        let mut left = 0;
        let mut last = poller;
        // SAFETY: nodes stay until this thread, whose is the first, leaves.
        while let Some(next) = ptr::NonNull::new(unsafe { last.as_ref() }.link().load(Acquire)) {
            last = next;
            left += 1;
        }
        assert_eq!(left, 1, "nodes behind the one that polls");
        // SAFETY: locked above.
        unsafe { lock.queue.unlock(poller) };
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert!(!lock.is_locked() && !lock.queue.is_locked());
    }

    #[test]
    fn who_was_woken_and_gives_up_answers_for_the_others() {
        let lock = FlexGuard::<Native>::unlocked();
        let () = lock.lock();
        lock.answer_for_sleepers();
        assert_eq!(lock.word.load(Relaxed), Native::tid() | SLEEPERS);
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(Some(())) };
        assert_eq!(lock.word.load(Relaxed), Native::tid());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        lock.answer_for_sleepers();
        assert!(!lock.is_locked());
    }
}
