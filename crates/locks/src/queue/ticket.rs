//! Ticket lock: draw a number, and wait until it is served.
//!
//! David P. Reed and Rajendra K. Kanodia, "Synchronization with eventcounts and sequencers", CACM 22(2), 1979;
//! Mellor-Crummey and Scott, ACM TOCS 9(1), 1991, algorithm 2. As `ticket-ls` with that algorithm's proportional back-off
//! and the instructions of libslock: Tudor David, Rachid Guerraoui and Vasileios Trigonakis, "Everything you always wanted
//! to know about synchronization but were afraid to ask", SOSP 2013. Deviations: `ticket` has no proportional back-off; an
//! acquisition first tries to draw exactly the number that is being served, and stands in line with fetch-and-add only if
//! that fails (so `try_lock` is the uncontended path of `lock`); `ticket-ls` does not yield because of its distance, but,
//! as all spinning locks do here, after a while; a release does not prefetch what it has just written.
//!
//! Properties: FIFO; 8 bytes a lock, nothing a waiter. All waiters spin on one word, so every release costs each of
//! them a cache miss; with back-off only those who look just then. Waiting: spin. A drawn number cannot be given back,
//! so a timed acquisition polls `try_lock`: it stands in no line, and starves for as long as there is always somebody
//! in line. Avoid the lock with more threads than CPUs: a preempted waiter whose number comes up stops everybody for
//! its whole time slice.
//!
//! # State
//!
//! ```text
//! serving   next          next == serving: unlocked
//!    │        │           next - serving: the holder and the waiters
//!    7  8  9  10          7 holds the lock, 8 and 9 wait, 10 is the next to be drawn
//! ```
//!
//! Both count modulo 2^32. Only equality and the difference are ever looked at, so wrapping around is no event.
//!
//! # Invariants
//!
//! - I1: a number is drawn by one thread: `next` changes by atomic additions of 1 only.
//! - I2: the holder is the thread that drew the number in `serving`; only its release changes `serving`, by 1.
//! - I3: fewer than 2^32 numbers are drawn and not yet released (one a thread), so `next - serving` is exact.
//!
//! # Ordering
//!
//! - E1: `unlock`'s store of `serving` (Release) → the load of the thread that finds its number there
//!   (Acquire): the critical section. `next` publishes nothing: all its accesses are Relaxed.
//!
//! # Why `acquire_fast` is right
//!
//! It reads `serving` = s, moves `next` from s to s + 1, and reads `serving` again.
//!
//! - The CAS draws number s, whatever happened in between: it is an atomic addition of 1 (I1). From here on this is
//!   an ordinary ticket lock: the second read of `serving` (Acquire) says whether s is served (I2, E1).
//! - Without a wrap-around it always is. Numbers only grow, and `serving` ≤ `next`; when the CAS finds `next` = s,
//!   `serving`, which was s before, is squeezed to s. So the lock was free, and a failing CAS means that it was not.
//! - With a wrap-around (this thread stood still between the read and the CAS while others drew a multiple of 2^32
//!   numbers) the CAS may draw the last number of a line. The second read sees that, because by I3
//!   `serving` equals s only if it is s. There is no way to give the number back, so the thread waits for it,
//!   in `try_lock` too: in such a case exclusion matters more than not waiting.

use core::fmt::Debug;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, ConstPlatform, Native, Platform};

use crate::api::{RawLock, address};
use crate::competitive::backoff::Delay;
use crate::competitive::{self, poll};
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{Patience, Wait};

/// What is known of the ticket lock.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "ticket",
    family: Family::Queue,
    order: Order::Fifo,
    bytes: 8,
    timed: Timed::Polls("without a place in the queue"),
    proofs: &[Proof::of(file!())],
    citation: Citation {
        key: "reed79",
        text: "Reed, Kanodia: Synchronization with eventcounts and sequencers. CACM 22(2), 1979",
    },
    summary: "draw a number, and wait until it is served",
    properties: "FIFO without queue nodes. Every release costs every waiter a cache miss.",
    deviations: "No proportional back-off; the uncontended path draws by compare-and-swap.",
    avoid: "More threads than CPUs (a preempted waiter stops everybody), many waiters, and timed \
            acquisitions of a saturated lock (they may starve).",
    ..Descriptor::MUTEX
};

/// What is known of libslock's ticket lock.
pub const LIBSLOCK: Descriptor = Descriptor {
    name: "ticket-ls",
    citation: competitive::LIBSLOCK,
    summary: "draw a number, and look whether it is served, the less often the longer the line before it",
    properties: "FIFO without queue nodes. Those far back in the line disturb the holder little, and come late if it \
                 moves fast.",
    deviations: "The uncontended path draws by compare-and-swap; waiters yield after a while, near or far.",
    ..DESCRIPTOR
};

/// The longest delay of a timed acquisition between two attempts, in pauses. Short: it competes
/// with a queue for the instants when there is none.
const TIMED_DELAY: u32 = 64;

/// The number that is served.
#[repr(transparent)]
pub struct Serving<P: Platform> {
    /// Written by the holder, read by waiters.
    number: P::U32,
}

impl<P: Platform> Debug for Serving<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        Debug::fmt(&self.number.load(Relaxed), f)
    }
}

impl<P: Platform> Serving<P> {
    /// How many are served before `number` is; 0 = it is, and the lock is the caller's if it drew it.
    #[inline(always)]
    pub(crate) fn before(&self, number: u32) -> u32 {
        // ORDER: E1.
        number.wrapping_sub(self.number.load(Acquire))
    }
}

/// How those in line wait.
pub trait TicketWait<P: Platform>: Debug + Send + Sync + 'static {
    /// Waits until `number` is served, for the lock and among those that `wait` says.
    fn wait(wait: &Wait, serving: &Serving<P>, number: u32);

    /// The lock that was at `address` serves `number`. It may be gone.
    #[inline(always)]
    fn announce(address: usize, number: u32) {
        let _ = (address, number);
    }
}

/// Looking all the time.
#[derive(Debug)]
pub struct Watching;

impl<P: Platform> TicketWait<P> for Watching {
    fn wait(wait: &Wait, serving: &Serving<P>, number: u32) {
        let mut patience = Patience::among::<P>(wait.others);
        while serving.before(number) != 0 {
            patience.pause::<P>();
        }
    }
}

/// Looking after pauses in proportion to the length of the line, with the cache line asked for in writing.
#[derive(Debug)]
pub struct Proportional;

impl<P: Platform> TicketWait<P> for Proportional {
    fn wait(wait: &Wait, serving: &Serving<P>, number: u32) {
        /// Pauses for each of those before, if there are several: libslock's 512 cycles. Next in line is a quarter.
        const EACH: u32 = 4;
        let mut patience = Patience::among::<P>(wait.others);
        loop {
            P::prefetch_write(ptr::from_ref(serving));
            match serving.before(number) {
                0 => return,
                1 => patience.pause::<P>(),
                distance => patience.pause_n::<P>(distance.saturating_mul(EACH).min(P::spin_budget())),
            };
        }
    }
}

/// The ticket lock, whose waiters wait by `W`.
#[repr(C)]
pub struct Ticket<P: Platform, W = Watching> {
    /// The number that is drawn next; written by lockers.
    next: P::U32,
    /// The number that is served; written by the holder, read by waiters.
    serving: Serving<P>,
    policy: PhantomData<W>,
}

const _: () = assert!(size_of::<Ticket<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform, W> Debug for Ticket<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (next, serving) = (self.next.load(Relaxed), &self.serving);
        f.debug_struct("Ticket").field("next", &next).field("serving", serving).finish()
    }
}

impl<W> Ticket<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        let serving = Serving { number: Native::U32_ZERO };
        Self { next: Native::U32_ZERO, serving, policy: PhantomData }
    }
}

impl<P: Platform, W: TicketWait<P>> Ticket<P, W> {
    /// Draws `served`, if that is the next number, and so acquires the lock if `served` was read from `serving`.
    /// See the module's documentation. Waits, if it must, for `address`: this lock, or one that it is a part of.
    #[inline(always)]
    fn acquire_fast(&self, address: usize, served: u32) -> bool {
        if self.next.compare_exchange(served, served.wrapping_add(1), Relaxed, Relaxed).is_err() {
            return false;
        }
        if self.serving.before(served) != 0 {
            self.wait_endlessly(address, served);
        }
        true
    }

    /// One call, so that the fast path needs no stack.
    #[cold]
    #[inline(never)]
    fn wait_endlessly(&self, address: usize, number: u32) {
        Wait::run::<P, _>(address, None, |wait| self.wait_for(wait, number));
    }

    /// What is served, without an order.
    pub(crate) fn served(&self) -> u32 {
        self.serving.number.load(Relaxed)
    }

    /// As [`RawLock::try_lock`], for `address`.
    #[inline(always)]
    pub(crate) fn try_lock_for(&self, address: usize) -> bool {
        // ORDER: Relaxed: `acquire_fast` reads again.
        let served = self.served();
        // Read first: a failing CAS would take the line from the holder.
        self.next.load(Relaxed) == served && self.acquire_fast(address, served)
    }

    #[cold]
    fn wait_for(&self, wait: &Wait, number: u32) {
        W::wait(&Wait { address: address(self), ..*wait }, &self.serving, number);
    }

    /// Draws a number and waits for it; with a deadline, only one that is served. Whether the lock was acquired.
    fn line_up(&self, wait: &Wait) -> bool {
        if wait.deadline.is_none() {
            self.wait_for(wait, self.next.fetch_add(1, Relaxed));
            return true;
        }
        let mut delay = Delay::new::<P>(TIMED_DELAY);
        poll::<P>(wait.deadline, || self.try_lock_for(wait.address), |_| delay.pause::<P>())
    }

    /// How many wait behind the holder, who is the caller.
    pub(crate) fn line(&self) -> u32 {
        self.next.load(Relaxed).wrapping_sub(self.served()).wrapping_sub(1)
    }

    /// Whether somebody waits behind the holder, who is the caller.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.line() > 0
    }

    /// Frees a lock that no living thread holds or waits for, after `fork`.
    pub(crate) fn reset(&self) {
        self.next.store(self.served(), Relaxed);
    }
}

// SAFETY: I1 to I3 give exclusion, and E1 orders the sections.
unsafe impl<P: Platform, W: TicketWait<P>> RawLock<P> for Ticket<P, W> {
    type Token = ();

    fn new() -> Self {
        let serving = Serving { number: P::U32::new(0) };
        Self { next: P::U32::new(0), serving, policy: PhantomData }
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        // ORDER: Relaxed: `acquire_fast` reads again.
        self.acquire_fast(address(self), self.served()).then_some(())
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.try_lock_for(address(self)).then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.line_up(wait).then_some(())
    }

    fn lock_with(&self, wait: &Wait) -> Option<()> {
        self.lock_slow(wait)
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // ORDER: Relaxed: only the holder writes it (I2). Release is E1.
        let next = self.served().wrapping_add(1);
        let address = address(self);
        self.serving.number.store(next, Release);
        W::announce(address, next);
    }

    fn is_locked(&self) -> bool {
        self.next.load(Relaxed) != self.served()
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        if self.is_locked() {
            self.next.store(self.served().wrapping_add(1), Relaxed);
        }
    }
}

#[cfg(test)]
impl<W> Ticket<Native, W> {
    /// A lock that serves one number, and has another to be drawn next.
    pub(super) fn at(serving: u32, next: u32) -> Self {
        let lock = Self::unlocked();
        lock.serving.number.store(serving, Relaxed);
        lock.next.store(next, Relaxed);
        lock
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::thread;

    use lockwork_platform::{Clock, Deadline};

    use super::*;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    fn at(serving: u32, next: u32) -> Ticket<Native> {
        Ticket::at(serving, next)
    }

    fn state(lock: &Ticket<Native>) -> (u32, u32) {
        (lock.served(), lock.next.load(Relaxed))
    }

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: atomics are valid whatever their bits.
        let lock: Ticket<Native> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        assert!(lock.try_lock().is_some());
        assert!(lock.is_locked());
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock_until(PAST).is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(state(&lock), (1, 1));
    }

    #[test]
    fn numbers_wrap_around() {
        let lock = at(u32::MAX - 1, u32::MAX - 1);
        for served in [u32::MAX, 0, 1] {
            let () = lock.lock();
            assert!(lock.is_locked());
            assert!(lock.try_lock().is_none());
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
            assert_eq!(state(&lock), (served, served));
        }
    }

    #[test]
    fn a_queue_across_the_wrap_around_is_not_a_free_lock() {
        let lock = at(u32::MAX, 1);
        assert!(lock.is_locked());
        assert!(lock.try_lock().is_none());
        assert!(!lock.acquire_fast(address(&lock), u32::MAX));
    }

    #[test]
    fn waiters_are_served_across_the_wrap_around() {
        let lock = at(u32::MAX - 1, u32::MAX - 1);
        let mut count = 0_u32;
        let counter = (&raw mut count).expose_provenance();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let () = lock.lock();
                        let counter = core::ptr::with_exposed_provenance_mut::<u32>(counter);
                        // SAFETY: the lock excludes the other thread.
                        unsafe { *counter += 1 };
                        // SAFETY: locked above.
                        unsafe { lock.unlock(()) };
                    }
                });
            }
        });
        assert_eq!(count, 100);
        assert_eq!(state(&lock), (98, 98));
    }

    #[test]
    fn a_number_drawn_after_a_whole_round_waits_for_its_turn() {
        // 6 holds the lock. A thread that read `serving` = 7 exactly 2^32 numbers ago goes on now.
        let lock = at(6, 7);
        thread::scope(|scope| {
            let late = scope.spawn(|| lock.acquire_fast(address(&lock), 7));
            while lock.next.load(Relaxed) != 8 {
                thread::yield_now();
            }
            thread::sleep(core::time::Duration::from_millis(2));
            assert!(!late.is_finished());
            // SAFETY: 6 holds the lock.
            unsafe { lock.unlock(()) };
            assert!(late.join().is_ok_and(|drawn| drawn));
        });
        assert_eq!(state(&lock), (7, 8));
    }

    #[test]
    fn forgetting_waiters_keeps_the_lock_locked() {
        let lock = at(u32::MAX, 3);
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(Some(())) };
        assert_eq!(state(&lock), (u32::MAX, 0));
        // SAFETY: the holder releases.
        unsafe { lock.unlock(()) };
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(None) };
        assert_eq!(state(&lock), (0, 0));
    }
}
