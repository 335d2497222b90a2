//! Phase-fair locks whose numbers of arrivals, departures, turns and tickets wrap around.

extern crate std;

use core::sync::atomic::Ordering::Relaxed;
use std::thread;

use lockwork_platform::{Cells, Native};

use crate::api::RawRwLock;
use crate::limited::limited;
use crate::rw::pf_q::PfQ;
use crate::rw::pf_t::PfT;
use crate::wait::{Spin, SpinThenPark, WaitPolicy};

type Count = <Native as Cells>::Usize;

/// A lock that can be put into the state after so many readers and so many turns of writers.
trait Aged: RawRwLock<Native> {
    fn aged(arrivals: u32, turns: u32) -> Self;
}

impl Aged for PfT<Native> {
    fn aged(arrivals: u32, turns: u32) -> Self {
        PfT::aged(arrivals, turns)
    }
}

impl<W: WaitPolicy<Native>> Aged for PfQ<Native, W> {
    fn aged(arrivals: u32, turns: u32) -> Self {
        PfQ::aged(arrivals, turns)
    }
}

/// Shortly before the end of: arrivals, the turns that the word counts, tickets, and of several at once.
const AGES: [(u32, u32); 4] =
    [(u32::MAX - 3, 5), (7, (1 << 31) - 3), (u32::MAX - 3, u32::MAX - 2), (u32::MAX - 3, (1 << 31) - 3)];

/// A reader, a writer and another reader take turns, alone.
fn takes_turns<L: Aged>(arrivals: u32, turns: u32) {
    let lock = L::aged(arrivals, turns);
    for _ in 0..8 {
        assert!(!lock.is_locked());
        assert!(lock.lock_shared(None));
        assert!(lock.is_locked() && !lock.try_lock_exclusive() && lock.try_lock_shared());
        for _ in 0..2 {
            // SAFETY: read-locked twice above.
            unsafe { lock.unlock_shared() };
        }
        assert!(lock.lock_exclusive(None));
        assert!(lock.is_locked() && !lock.try_lock_exclusive() && !lock.try_lock_shared());
        // SAFETY: write-locked above.
        unsafe { lock.unlock_exclusive() };
    }
    assert!(!lock.is_locked());
}

/// A writer waits for two readers, one of which reads again beside it.
fn lets_guests_in<L: Aged>(arrivals: u32, turns: u32) {
    let lock = L::aged(arrivals, turns);
    for _ in 0..4 {
        let left = Count::new(0);
        assert!(lock.lock_shared(None) && lock.lock_shared(None));
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                assert!(lock.lock_exclusive(None));
                assert_eq!(left.load(Relaxed), 3, "readers that left before the writer came in");
                // SAFETY: write-locked above.
                unsafe { lock.unlock_exclusive() };
            });
            while lock.try_lock_shared() {
                // SAFETY: read-locked above.
                unsafe { lock.unlock_shared() };
                thread::yield_now();
            }
            assert!(lock.lock_shared_again(None), "beside the writer that waits");
            for _ in 0..3 {
                left.fetch_add(1, Relaxed);
                // SAFETY: read-locked three times above.
                unsafe { lock.unlock_shared() };
            }
            writer.join().expect("the writer");
        });
        assert!(!lock.is_locked());
    }
}

/// Readers and writers compete.
fn excludes<L: Aged>(arrivals: u32, turns: u32) {
    const ROUNDS: usize = 60;
    let lock = L::aged(arrivals, turns);
    let (first, second) = (Count::new(0), Count::new(0));
    thread::scope(|scope| {
        for number in 0..4 {
            let (lock, first, second) = (&lock, &first, &second);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if (round + number) % 4 == 0 {
                        assert!(lock.lock_exclusive(None));
                        let count = first.load(Relaxed);
                        first.store(count + 1, Relaxed);
                        thread::yield_now();
                        second.store(count + 1, Relaxed);
                        // SAFETY: write-locked above.
                        unsafe { lock.unlock_exclusive() };
                    } else {
                        assert!(lock.lock_shared(None));
                        assert_eq!(first.load(Relaxed), second.load(Relaxed), "a writer is in");
                        // SAFETY: read-locked above.
                        unsafe { lock.unlock_shared() };
                    }
                }
            });
        }
    });
    assert_eq!(second.load(Relaxed), ROUNDS);
    assert!(!lock.is_locked());
}

fn across<L: Aged>() {
    for (arrivals, turns) in AGES {
        takes_turns::<L>(arrivals, turns);
        lets_guests_in::<L>(arrivals, turns);
        excludes::<L>(arrivals, turns);
    }
}

#[test]
fn pf_t_across_the_wrap_around() {
    limited(across::<PfT<Native>>);
}

#[test]
fn pf_q_across_the_wrap_around() {
    limited(across::<PfQ<Native, Spin>>);
    limited(across::<PfQ<Native, SpinThenPark>>);
}
