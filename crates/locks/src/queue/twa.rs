//! TWA: a ticket lock of which only the next in line watches the number that is served; those behind wait on words of an
//! array that all locks of the process share.
//!
//! Dave Dice and Alex Kogan, "TWA: ticket locks augmented with a waiting array", Euro-Par 2019, listing 1, with the
//! array of 4096 words and the threshold of 1. Deviations: those of [`ticket`](super::ticket), of which this is a way
//! of waiting: the uncontended acquisition draws by compare-and-swap, and a timed one polls, without a place in line.
//!
//! Properties: FIFO; 8 bytes a lock, nothing a waiter, 32 KiB a process. A release costs a cache miss of the next in line,
//! and one of the thread behind it, which is told to come and watch; waiters of other locks that hash to the same
//! word look up in vain. Every release writes to the array, also when nobody waits. Waiting: spin.
//!
//! # State
//!
//! ```text
//! serving 7, next 11:  7 holds the lock, 8 watches `serving`, 9 and 10 watch array[hash(lock, 9)], array[hash(lock, 10)]
//! ```
//!
//! # Invariants
//!
//! - I1: after a release has made `serving` n, it changes the word of n + 1. (The words only count up, in 64 bits.)
//! - I2: a thread waits for a change of its word only while `serving` did not tell it that it is near, when it looked
//!   there after it had read the word.
//!
//! # Ordering
//!
//! - E1: that of the ticket lock, on `serving`.
//! - E2: a release's addition to a word (Release) → the load of that word before `serving` is looked at (Acquire): the
//!   store of `serving`. So a waiter that read its word too late to see it change sees that it is near (I1, I2).

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, Native, Platform};

use super::ticket::{self, Serving, Ticket, TicketWait};
use crate::describe::{Citation, Descriptor, Proof};
use crate::wait::{Patience, Wait};

/// What is known of TWA.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "twa",
    proofs: &[Proof::of(file!())],
    citation: Citation {
        key: "dice19twa",
        text: "Dice, Kogan: TWA: ticket locks augmented with a waiting array. Euro-Par 2019",
    },
    summary: "a ticket lock; all but the next in line wait on words of an array that all locks share",
    properties: "FIFO without queue nodes. A release costs two waiters a cache miss, however many wait.",
    deviations: "The uncontended path draws by compare-and-swap.",
    avoid: "More threads than CPUs (a preempted waiter stops everybody), and timed acquisitions of a saturated lock \
            (they may starve).",
    ..ticket::DESCRIPTOR
};

/// The ticket lock with a waiting array.
pub type Twa<P> = Ticket<P, WaitingArray>;

const _: () = assert!(size_of::<Twa<Native>>() == DESCRIPTOR.bytes);

/// A waiter with at most so many before it watches `serving`.
const NEAR: u32 = 1;

/// Waiting on a word of the array until the number is nearly served.
#[derive(Debug)]
pub struct WaitingArray;

impl<P: Platform> TicketWait<P> for WaitingArray {
    fn wait(wait: &Wait, serving: &Serving<P>, number: u32) {
        let mut patience = Patience::among::<P>(wait.others);
        if serving.before(number) > NEAR {
            P::shared_word(wait.address, number, |word| {
                loop {
                    let seen = word.load(Acquire); // ORDER: E2.
                    if serving.before(number) <= NEAR {
                        return;
                    }
                    // I2. ORDER: Relaxed: what changed is read above.
                    while word.load(Relaxed) == seen {
                        patience.pause::<P>();
                    }
                }
            });
        }
        while serving.before(number) != 0 {
            patience.pause::<P>();
        }
    }

    #[inline(always)]
    fn announce(address: usize, number: u32) {
        // I1. ORDER: Release is E2.
        P::shared_word(address, number.wrapping_add(NEAR), |word| word.fetch_add(1, Release));
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::{Cells, SharedWords};
    extern crate std;

    use std::thread;

    use super::*;
    use crate::api::RawLock;
    use crate::limited::limited;

    #[test]
    fn releases_call_the_thread_that_is_next_but_one() {
        let lock = Twa::<Native>::unlocked();
        let address = (&raw const lock) as usize;
        let count = |number| Native::shared_word(address, number, |word| word.load(Relaxed));
        for number in 0..3 {
            let before = count(number + 2);
            let () = lock.lock();
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
            assert!(count(number + 2) > before);
        }
    }

    /// The numbers wrap around in front of, among and behind those that wait on words of the array.
    fn serves_a_line_across_the_wrap_around() {
        const WAITERS: u32 = 5;
        for start in (0..=WAITERS + 1).map(|before| 0_u32.wrapping_sub(before)) {
            let lock = Twa::<Native>::at(start, start);
            let () = lock.lock();
            let served = <Native as Cells>::U32::new(0);
            thread::scope(|scope| {
                for place in 0..WAITERS {
                    scope.spawn({
                        let (lock, served) = (&lock, &served);
                        move || {
                            let () = lock.lock();
                            assert_eq!(served.fetch_add(1, Relaxed), place, "the place in line");
                            // SAFETY: locked above.
                            unsafe { lock.unlock(()) };
                        }
                    });
                    // The place in line is the order in which they come.
                    while lock.line() != place + 1 {
                        thread::yield_now();
                    }
                }
                // SAFETY: locked above.
                unsafe { lock.unlock(()) };
            });
            assert_eq!(served.load(Relaxed), WAITERS);
            assert!(!lock.is_locked());
            assert_eq!(lock.served(), start.wrapping_add(WAITERS + 1));
        }
    }

    #[test]
    fn a_line_across_the_wrap_around_is_served_in_order() {
        limited(serves_a_line_across_the_wrap_around);
    }

    #[test]
    fn a_long_line_is_served() {
        let lock = Twa::<Native>::unlocked();
        let () = lock.lock();
        thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    let () = lock.lock();
                    // SAFETY: locked above.
                    unsafe { lock.unlock(()) };
                });
            }
            thread::sleep(core::time::Duration::from_millis(2));
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
        });
        assert!(!lock.is_locked());
    }
}
