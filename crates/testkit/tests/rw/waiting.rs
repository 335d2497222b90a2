//! Waits that end, by a deadline or by a release.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use lockwork_platform::{Clock, Cpu, Deadline, Native, Waiters};
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::shelf::Shelf;

use crate::{random, soon};

const CLOCKS: [Clock; 2] = [Clock::Realtime, Clock::Monotonic];

pub(crate) fn deadlines(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    for clock in CLOCKS {
        let past = Deadline { clock, ns: 0 };
        assert!(shelf.lock.lock_exclusive(Some(past)), "a free lock is taken, however late it is");
        let deadline = soon(clock, 2_000_000);
        for late in [past, deadline] {
            assert!(!shelf.lock.lock_shared(Some(late)));
            assert!(!shelf.lock.lock_exclusive(Some(late)));
        }
        assert!(Native::now(clock) >= deadline.ns, "gave up before the deadline");
        shelf.write();
        assert!(shelf.lock.lock_shared(Some(past)));
        assert!(shelf.lock.lock_shared(Some(past)), "a writer that gave up still keeps readers off");
        shelf.read();
        assert!(!shelf.lock.lock_exclusive(Some(soon(clock, 1_000_000))));
        shelf.read();
        thread::scope(|scope| {
            assert!(shelf.lock.lock_exclusive(None));
            let far = soon(clock, 3_600_000_000_000);
            let shelf = &shelf;
            scope.spawn(move || {
                assert!(shelf.lock.lock_shared(Some(far)));
                shelf.read();
            });
            scope.spawn(move || {
                assert!(shelf.lock.lock_exclusive(Some(far)));
                shelf.write();
            });
            shelf.until_waiting(2);
            shelf.write();
        });
    }
    assert_eq!(shelf.writes(), 6);
}

/// Threads that give up at random moments, among some that do not: no other thread's wake-up may get lost with them.
pub(crate) fn hasty_crowd(subject: RwSubject) {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 1_000;
    let shelf = Shelf::new(subject.make());
    let expected = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (shelf, expected) = (&shelf, &expected);
            scope.spawn(move || {
                let mut seed = 0x9e37_79b9 * (number + 1);
                for _ in 0..ROUNDS {
                    let dice = random(&mut seed);
                    let clock = CLOCKS[(dice & 1) as usize];
                    let hasty = dice & 6 != 0;
                    let deadline = hasty.then(|| soon(clock, dice >> 8 & 0xffff));
                    if dice & 8 == 0 {
                        let acquired = shelf.lock.lock_exclusive(deadline);
                        assert!(acquired || hasty);
                        if acquired {
                            expected.fetch_add(1, Relaxed);
                            if dice & 0x30 == 0 {
                                thread::yield_now();
                            }
                            shelf.write();
                        }
                    } else {
                        let acquired = shelf.lock.lock_shared(deadline);
                        assert!(acquired || hasty);
                        if acquired {
                            if dice & 0x30 == 0 {
                                thread::yield_now();
                            }
                            shelf.read();
                        }
                    }
                }
            });
        }
    });
    assert_eq!(shelf.writes(), expected.into_inner() as u64);
}

/// Everybody waits; one release sets off the rest.
pub(crate) fn wake_chain(subject: RwSubject) {
    const EACH: usize = 10;
    let shelf = Shelf::new(subject.make());
    for by_writer in [true, false] {
        assert!(if by_writer { shelf.lock.lock_exclusive(None) } else { shelf.lock.lock_shared(None) });
        thread::scope(|scope| {
            for _ in 0..EACH {
                scope.spawn(|| shelf.lock_and_write());
                scope.spawn(|| shelf.lock_and_read());
            }
            if by_writer {
                shelf.until_waiting(2 * EACH);
                shelf.write();
            } else {
                // Readers come in, as far as they are preferred.
                while Native::waiters_of(shelf.waiting_on()) < EACH {
                    thread::yield_now();
                }
                shelf.read();
            }
        });
    }
    assert_eq!(shelf.writes(), 2 * EACH as u64 + 1);
}
