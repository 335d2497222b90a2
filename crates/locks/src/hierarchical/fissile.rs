//! Fissile: a word for threads that find the lock free, and behind it a CNA queue for the others. Only the first of the queue
//! competes for the word, and after a while nobody may pass it.
//!
//! Dave Dice and Alex Kogan, "Fissile locks", NETYS 2020 (arXiv 2003.05025). Deviations: newcomers try the word once, where the
//! paper's spin on it for a moment; the first of the queue bears it for the time of a context-switch round trip that it is passed;
//! that it does no longer is a bit of the word, not a second one, so a release is an atomic operation; as `fissile-stp` waiters
//! sleep, and a release wakes the first of the queue.
//!
//! Properties: 16 bytes a lock; one node of 64 bytes for each waiter, none for the holder. An acquisition of a free lock is one
//! atomic operation; under contention sections stay on a NUMA node as under CNA. Waiting: spin, stp. `try_lock` succeeds on a free
//! lock, unless the first of the queue may not be passed. Avoid the spinning variant with more threads than CPUs.
//!
//! # State
//!
//! ```text
//! newcomers ─→ word ←─ first of the queue ←─ queue (CNA)
//! ```
//!
//! | bit of `word` | meaning                                                | who sets it, who clears it           |
//! |---------------|--------------------------------------------------------|--------------------------------------|
//! | `HELD`        | the lock is held                                       | its holder                           |
//! | `WAITED_FOR`  | nobody passes the first of the queue                   | that thread                          |
//! | `ASLEEP`      | the first of the queue sleeps, or is about to          | that thread; only with `WAITED_FOR`  |
//!
//! # Invariants
//!
//! - I1: the thread that set `HELD` in a word without it is the holder, and only the holder's release clears it.
//! - I2: only the holder of `queue` sets or clears `WAITED_FOR` and `ASLEEP`, and clears them before it releases the queue.
//! - I3: while `WAITED_FOR` is set only the holder of `queue` sets `HELD`. So a word with all three bits changes by the holder's
//!   release only, which sees `ASLEEP` and wakes the sleeper.
//!
//! # Ordering
//!
//! - E1: the operation that clears `HELD` (Release) → the CAS that sets it next (Acquire): the critical section. What the first of the
//!   queue does with the word in between are read-modify-writes.
//! - E2: that of one who takes the bits over from another (I2) is the queue's.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, Deadline, FutexCell, Native, Platform};

use super::cna::Cna;
use crate::api::RawLock;
use crate::competitive::poll_steadily;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::knobs::{self, Knobs};
use crate::wait::{Spin, SpinThenPark, Wait, WaitPolicy, poll_within};

/// What is known of Fissile.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "fissile",
    family: Family::Hierarchical,
    order: Order::LongTerm,
    order_note: "newcomers pass the first of the queue for as long as a context-switch round trip takes, which is in the order of cna",
    bytes: 16,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("in the queue"),
    proofs: &[Proof::of(file!())],
    citation: Citation { key: "dice20", text: "Dice, Kogan: Fissile locks. NETYS 2020" },
    summary: "a word for threads that find the lock free, and a CNA queue for the others, the first of which competes for the word",
    properties: "Uncontended it is a word, contended a CNA queue, whose first may be passed for a bounded time. The holder keeps \
                 no node.",
    deviations: "Newcomers try once; the first of the queue counts time, not attempts; waiters of fissile-stp sleep.",
    avoid: "Machines with one NUMA node and a thread for each CPU (two lines travel where MCS moves one). fissile-spin: more \
            threads than CPUs.",
    knobs: knobs::HIERARCHICAL,
    ..Descriptor::MUTEX
};

const HELD: u32 = 1;
/// The first of the queue may not be passed.
const WAITED_FOR: u32 = 2;
/// The first of the queue sleeps, or is about to.
const ASLEEP: u32 = 4;

/// How the first of the queue waits for the word, beside a policy for those behind it.
pub trait First<P: Platform>: WaitPolicy<P> {
    /// Whether it sleeps after a while.
    const SLEEPS: bool;
}

impl<P: Platform> First<P> for Spin {
    const SLEEPS: bool = false;
}

impl<P: Platform> First<P> for SpinThenPark {
    const SLEEPS: bool = true;
}

/// The Fissile lock, waiting by `W`.
#[repr(C)]
pub struct Fissile<P: Platform, W> {
    /// See the module. Read and written by newcomers, the holder and the first of the queue.
    word: P::Futex,
    /// Its holder is the first of those who wait.
    queue: Cna<P, W>,
}

const _: () = assert!(size_of::<Fissile<Native, Spin>>() == DESCRIPTOR.bytes);

impl<P: Platform, W> core::fmt::Debug for Fissile<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Fissile").field("word", &self.word.load(Relaxed)).field("queue", &self.queue).finish()
    }
}

impl<P: Platform, W: First<P>> Fissile<P, W> {
    /// Acquires for the first of the queue if the lock is not held, and clears that one's bits.
    fn take(&self) -> bool {
        let seen = self.word.load(Relaxed);
        // ORDER: Acquire is E1. It fails where a newcomer was faster.
        seen & HELD == 0 && self.word.compare_exchange(seen, HELD, Acquire, Relaxed).is_ok()
    }

    /// Acquires, as the first of the queue. Returns false at the deadline.
    fn take_in_time(&self, deadline: Option<Deadline>) -> bool {
        let take_soon = || poll_within::<P, _>(P::spin_budget(), || self.take().then_some(())).is_some();
        if take_soon() {
            return true;
        }
        self.word.fetch_or(WAITED_FOR, Relaxed); // I2.
        let taken = if W::SLEEPS {
            deadline.is_none() && take_soon() || self.sleep_until_taken(deadline)
        } else {
            poll_steadily::<P>(deadline, || self.take())
        };
        taken || self.take_or_give_up()
    }

    /// Acquires, if the lock has been left to the first of the queue, or clears that one's bits.
    fn take_or_give_up(&self) -> bool {
        loop {
            let seen = self.word.load(Relaxed);
            if seen & HELD == 0 {
                return self.take(); // I3.
            }
            if self.word.compare_exchange(seen, HELD, Relaxed, Relaxed).is_ok() {
                return false; // I2.
            }
        }
    }

    fn sleep_until_taken(&self, deadline: Option<Deadline>) -> bool {
        self.word.fetch_or(ASLEEP, Relaxed); // I3: from now on a release wakes us.
        while !self.take() {
            if self.word.wait(HELD | WAITED_FOR | ASLEEP, deadline).is_err() {
                return false;
            }
        }
        true
    }

    /// Releases a lock whose word says more than that it is held.
    #[cold]
    fn release_to_first(&self) {
        let word = ptr::from_ref(&self.word);
        // ORDER: Release is E1.
        let seen = self.word.fetch_and(!HELD, Release);
        if W::SLEEPS && seen & ASLEEP != 0 {
            // SAFETY: the word was alive at the release. The lock may be gone by now: the next holder could have released and
            // freed it, and the wake is spurious then.
            unsafe { FutexCell::wake(word, 1) };
        }
    }
}

// SAFETY: I1 gives exclusion, and E1 orders the sections.
unsafe impl<P: Platform, W: First<P>> RawLock<P> for Fissile<P, W> {
    type Token = ();

    fn new() -> Self {
        Self { word: P::Futex::new(0), queue: RawLock::new() }
    }

    fn configure(&self, knobs: &Knobs) {
        self.queue.configure(knobs);
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        // Read first: a failing CAS would take the line from the holder.
        if self.word.load(Relaxed) == 0 { self.lock_fast() } else { None }
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        // ORDER: Acquire is E1.
        self.word.compare_exchange(0, HELD, Acquire, Relaxed).is_ok().then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        let first = self.queue.lock_with(wait)?;
        let taken = self.take_in_time(wait.deadline);
        // SAFETY: acquired above.
        unsafe { self.queue.unlock(first) };
        taken.then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // ORDER: Release is E1.
        if self.word.compare_exchange(HELD, 0, Release, Relaxed).is_err() {
            self.release_to_first();
        }
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != 0 || self.queue.is_locked()
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        self.word.fetch_and(HELD, Relaxed);
        if self.queue.is_locked() {
            // Its pass limit went with the ghosts. SAFETY: the caller's contract.
            unsafe { self.queue.dispose() };
        }
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.queue.dispose() };
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Clock;

    use super::*;

    fn check<W: First<Native>>() {
        // SAFETY: atomics are valid whatever their bits.
        let lock: Fissile<Native, W> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        let () = lock.lock();
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock_until(Deadline { clock: Clock::Monotonic, ns: 0 }).is_none());
        assert_eq!(lock.word.load(Relaxed), HELD, "one that gave up leaves nothing");
        assert!(!lock.queue.is_locked());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert!(!lock.is_locked());
    }

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        check::<Spin>();
        check::<SpinThenPark>();
    }

    #[test]
    fn nobody_passes_the_first_of_the_queue_that_has_waited() {
        let lock: Fissile<Native, Spin> = RawLock::new();
        lock.word.store(WAITED_FOR, Relaxed);
        assert!(lock.try_lock().is_none());
        assert!(lock.lock_fast().is_none());
        assert!(lock.take());
        assert_eq!(lock.word.load(Relaxed), HELD);
        // SAFETY: taken above.
        unsafe { lock.unlock(()) };
    }
}
