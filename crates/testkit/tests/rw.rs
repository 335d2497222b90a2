//! What every reader-writer lock must do, on the real machine, for both preferences.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use lockwork_locks::RawRwLock;
use lockwork_locks::rw::{Preference, ReadRefused, RwFutex, RwFutexWriters, RwState};
use lockwork_platform::{Clock, Deadline, Native, Platform};
use lockwork_testkit::shelf::{Shelf, waiting_on};
use lockwork_testkit::watchdog::watchdog;

/// No test takes more than a few seconds, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A cheap random number, different for every thread and round.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed >> 8
}

fn soon(clock: Clock, ns: u64) -> Deadline {
    Deadline::after(clock, Native::now(clock), ns)
}

const CLOCKS: [Clock; 2] = [Clock::Realtime, Clock::Monotonic];

fn exclusion<L: RawRwLock<Native>>(threads: usize, rounds: u64) {
    let shelf = Shelf::<L>::new();
    thread::scope(|scope| {
        for number in 0..threads {
            let shelf = &shelf;
            scope.spawn(move || {
                for round in 0..rounds {
                    if number % 2 == 0 && round % 4 == 0 {
                        assert!(shelf.lock.lock_exclusive(None));
                        shelf.write();
                    } else {
                        assert!(shelf.lock.lock_shared(None));
                        shelf.read();
                    }
                }
            });
        }
    });
    assert_eq!(shelf.writes(), threads.div_ceil(2) as u64 * rounds.div_ceil(4));
}

fn readers_share<L: RawRwLock<Native>>() {
    let shelf = Shelf::<L>::new();
    let inside = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                assert!(shelf.lock.lock_shared(None));
                inside.wait();
                shelf.read();
            });
        }
    });
    assert_eq!(shelf.writes(), 0);
}

fn attempts<L: RawRwLock<Native>>() {
    let lock = L::new();
    assert!(lock.try_lock_shared());
    assert!(lock.try_lock_shared(), "readers share");
    assert!(!lock.try_lock_exclusive(), "readers exclude a writer");
    // SAFETY: one of the two readers.
    unsafe { lock.unlock_shared() };
    assert!(!lock.try_lock_exclusive(), "one reader excludes a writer");
    // SAFETY: the other one.
    unsafe { lock.unlock_shared() };
    assert!(lock.try_lock_exclusive());
    assert!(!lock.try_lock_exclusive(), "a writer excludes a writer");
    assert!(!lock.try_lock_shared(), "a writer excludes readers");
    // SAFETY: the writer.
    unsafe { lock.unlock_exclusive() };
    assert!(lock.try_lock_shared());
    // SAFETY: the reader.
    unsafe { lock.unlock_shared() };
}

fn zero_is_unlocked<L: RawRwLock<Native>>() {
    // SAFETY: all-zero memory is an unlocked lock.
    let lock = unsafe { MaybeUninit::<L>::zeroed().assume_init() };
    assert!(lock.try_lock_exclusive());
    assert!(size_of::<L>() <= 24, "it must fit before the fields that glibc keeps");
}

fn deadlines<L: RawRwLock<Native>>() {
    let shelf = Shelf::<L>::new();
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
        assert!(shelf.lock.lock_shared(Some(past)), "a writer that gave up is in nobody's way");
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

/// Threads that give up at random moments, among some that do not: nobody's wake may get lost with them.
fn hasty_crowd<L: RawRwLock<Native>>() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 2_000;
    let shelf = Shelf::<L>::new();
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
fn wake_chain<L: RawRwLock<Native>>() {
    const EACH: usize = 10;
    let shelf = Shelf::<L>::new();
    for by_writer in [true, false] {
        assert!(if by_writer { shelf.lock.lock_exclusive(None) } else { shelf.lock.lock_shared(None) });
        thread::scope(|scope| {
            for _ in 0..EACH {
                scope.spawn(|| {
                    assert!(shelf.lock.lock_exclusive(None));
                    shelf.write();
                });
                scope.spawn(|| {
                    assert!(shelf.lock.lock_shared(None));
                    shelf.read();
                });
            }
            if by_writer {
                shelf.until_waiting(2 * EACH);
                shelf.write();
            } else {
                // Readers come in, as far as they are preferred.
                while Native::waiters_of(waiting_on(&shelf.lock)) < EACH {
                    thread::yield_now();
                }
                shelf.read();
            }
        });
    }
    assert_eq!(shelf.writes(), 2 * EACH as u64 + 1);
}

/// In a child after `fork`, the waiters of the parent are nobody's concern.
fn fork_drops_waiters<L: RawRwLock<Native> + Forgetful>() {
    let shelf = Shelf::<L>::new();
    assert!(shelf.lock.lock_exclusive(None));
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(shelf.lock.lock_exclusive(None));
            shelf.write();
        });
        scope.spawn(|| {
            assert!(shelf.lock.lock_shared(None));
            shelf.read();
        });
        shelf.until_waiting(2);
        // Both sleep: nothing else changes the lock any more.
        thread::sleep(Duration::from_millis(20));
        // SAFETY: the child calls nothing but the lock and `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork failed");
        if child == 0 {
            // SAFETY: the child has one thread, which holds the lock.
            unsafe { shelf.lock.forget() };
            shelf.write();
            let far = Deadline { clock: Clock::Monotonic, ns: u64::MAX };
            let fine = shelf.lock.lock_shared(Some(far)) && {
                shelf.read();
                shelf.lock.lock_exclusive(Some(far))
            };
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!fine)) };
        }
        let mut status = 0;
        // SAFETY: our own child, and a writable status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child: status {status:#x}");
        shelf.write();
    });
    assert_eq!(shelf.writes(), 2);
}

/// A lock that can be told of a `fork`.
trait Forgetful {
    /// # Safety
    ///
    /// As [`RwState::forget_waiters`].
    unsafe fn forget(&self);
}

impl<const PREFER_WRITERS: bool> Forgetful for RwFutex<Native, PREFER_WRITERS> {
    unsafe fn forget(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.state().forget_waiters() };
    }
}

macro_rules! suite {
    ($($module:ident: $lock:ty;)*) => {$(
        mod $module {
            use super::*;

            fn watched(test: impl FnOnce()) {
                watchdog(LIMIT, || stringify!($module).to_owned(), test);
            }

            #[test]
            fn writers_exclude_everybody() {
                watched(|| exclusion::<$lock>(4, 20_000));
            }
            #[test]
            fn writers_exclude_everybody_with_many_threads() {
                watched(|| exclusion::<$lock>(64, 500));
            }
            #[test]
            fn readers_share() {
                watched(super::readers_share::<$lock>);
            }
            #[test]
            fn attempts() {
                watched(super::attempts::<$lock>);
            }
            #[test]
            fn zero_is_unlocked() {
                watched(super::zero_is_unlocked::<$lock>);
            }
            #[test]
            fn deadlines() {
                watched(super::deadlines::<$lock>);
            }
            #[test]
            fn hasty_crowd() {
                watched(super::hasty_crowd::<$lock>);
            }
            #[test]
            fn wake_chain() {
                watched(super::wake_chain::<$lock>);
            }
            #[test]
            fn fork_drops_waiters() {
                watched(super::fork_drops_waiters::<$lock>);
            }
        }
    )*};
}

suite! {
    prefer_readers: RwFutex<Native>;
    prefer_writers: RwFutexWriters<Native>;
}

#[test]
fn a_reader_locks_again_while_a_writer_waits_if_readers_are_preferred() {
    watchdog(LIMIT, String::new, || {
        let shelf = Shelf::<RwFutex<Native>>::new();
        assert!(shelf.lock.lock_shared(None));
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(shelf.lock.lock_exclusive(None));
                shelf.write();
            });
            shelf.until_waiting(1);
            for _ in 0..1_000 {
                assert!(shelf.lock.try_lock_shared());
                shelf.read();
                assert!(shelf.lock.lock_shared(None));
                shelf.read();
            }
            shelf.read();
        });
        assert_eq!(shelf.writes(), 1);
    });
}

#[test]
fn readers_wait_behind_a_waiting_writer_if_writers_are_preferred() {
    watchdog(LIMIT, String::new, || {
        let shelf = Shelf::<RwFutexWriters<Native>>::new();
        assert!(shelf.lock.lock_shared(None));
        let order = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(shelf.lock.lock_exclusive(None));
                assert_eq!(order.fetch_add(1, Relaxed), 0, "the reader passed the writer");
                shelf.write();
            });
            while shelf.lock.try_lock_shared() {
                shelf.read();
                thread::yield_now();
            }
            assert!(
                !shelf.lock.lock_shared(Some(soon(Clock::Monotonic, 1_000_000))),
                "EBUSY, then ETIMEDOUT"
            );
            scope.spawn(|| {
                assert!(shelf.lock.lock_shared(None));
                assert_eq!(order.fetch_add(1, Relaxed), 1, "the reader passed the writer");
                shelf.read();
            });
            shelf.until_waiting(2);
            shelf.read();
        });
        assert_eq!(shelf.writes(), 1);
    });
}

#[test]
fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    watchdog(LIMIT, String::new, || {
        for _ in 0..50 {
            let shelf = Shelf::<RwFutexWriters<Native>>::new();
            assert!(shelf.lock.lock_shared(None));
            thread::scope(|scope| {
                let gone = Arc::new(AtomicBool::new(false));
                let late = Arc::clone(&gone);
                let shelf = &shelf;
                scope.spawn(move || {
                    assert!(!shelf.lock.lock_exclusive(Some(soon(Clock::Monotonic, 3_000_000))));
                    late.store(true, Relaxed);
                });
                while shelf.lock.try_lock_shared() && !gone.load(Relaxed) {
                    shelf.read();
                    thread::yield_now();
                }
                // We keep our first lock: only the writer's surrender can let this reader in.
                scope.spawn(move || {
                    assert!(shelf.lock.lock_shared(None));
                    shelf.read();
                });
            });
            shelf.read();
        }
    });
}

/// Writers are promised the lock under their preference, however many readers come and go.
#[test]
fn readers_do_not_starve_a_preferred_writer() {
    watchdog(LIMIT, String::new, || {
        let shelf = Shelf::<RwFutexWriters<Native>>::new();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    while !stop.load(Relaxed) {
                        assert!(shelf.lock.lock_shared(None));
                        thread::yield_now();
                        shelf.read();
                    }
                });
            }
            for _ in 0..200 {
                assert!(shelf.lock.lock_exclusive(None));
                shelf.write();
            }
            stop.store(true, Relaxed);
        });
        assert_eq!(shelf.writes(), 200);
    });
}

#[test]
fn the_preference_can_be_an_argument() {
    let lock = RwState::<Native>::new();
    assert_eq!(lock.lock_shared(Preference::Readers, None), Ok(()));
    assert!(lock.is_locked() && !lock.is_write_locked());
    // SAFETY: a reader.
    unsafe { lock.unlock(Preference::Readers) };
    assert!(lock.lock_exclusive(None));
    assert!(lock.is_locked() && lock.is_write_locked());
    assert_eq!(lock.try_lock_shared(Preference::Writers), Err(ReadRefused::Busy));
    // SAFETY: the writer.
    unsafe { lock.unlock(Preference::Writers) };
    assert!(!lock.is_locked());
}
