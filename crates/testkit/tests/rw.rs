//! What every reader-writer lock must do, on the real machine: one test for each lock and property.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use lockwork_locks::rw::catalogue::Favour;
use lockwork_locks::rw::{Preference, ReadRefused, RwState};
use lockwork_platform::{Clock, Deadline, Native, Platform};
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::shelf::Shelf;
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

fn exclusion(subject: RwSubject, threads: usize, rounds: u64) {
    let shelf = Shelf::new(subject.make());
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

fn readers_share(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
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

fn attempts(subject: RwSubject) {
    let lock = subject.make::<Native>();
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

fn zero_is_unlocked(subject: RwSubject) {
    let lock = subject.zeroed::<Native>();
    assert!(!lock.is_locked());
    assert!(lock.try_lock_exclusive());
    assert!(lock.is_locked());
    // SAFETY: the writer.
    unsafe { lock.unlock_exclusive() };
    assert!(subject.size::<Native>() <= 24, "it must fit before the fields that glibc keeps");
}

/// What a lock keeps outside itself it gives back, and makes anew.
fn disposal(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    for _ in 0..3 {
        assert!(shelf.lock.lock_shared(None));
        shelf.read();
        assert!(shelf.lock.lock_exclusive(None));
        shelf.write();
        // SAFETY: unlocked, and nobody else uses it.
        unsafe { shelf.lock.dispose() };
        assert!(!shelf.lock.is_locked());
    }
    assert_eq!(shelf.writes(), 3);
}

/// Readers that wait come in beside a writer that is one of them now; writers do not.
fn downgrade(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    let inside = Barrier::new(2);
    for _ in 0..20 {
        assert!(shelf.lock.lock_exclusive(None));
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(shelf.lock.lock_shared(None));
                inside.wait();
                shelf.read();
            });
            shelf.until_waiting(1);
            // SAFETY: the writer.
            unsafe { shelf.lock.downgrade() };
            inside.wait();
            assert!(!shelf.lock.try_lock_exclusive(), "a reader is left");
            shelf.read();
        });
    }
    assert_eq!(shelf.writes(), 0);
}

/// A thread that reads reads again, though a writer waits for it.
fn recursion(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    for round in 0..20 {
        assert!(shelf.lock.lock_shared(None));
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(shelf.lock.lock_exclusive(None));
                shelf.write();
            });
            if round % 2 == 0 {
                shelf.until_waiting(1);
            }
            for _ in 0..100 {
                assert!(shelf.lock.lock_shared_again(None));
                shelf.read();
            }
            shelf.read();
        });
    }
    assert_eq!(shelf.writes(), 20);
}

/// Readers release what others acquired, on whatever node they are.
fn release_elsewhere(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(4);
        let shelf = &shelf;
        scope.spawn(move || {
            for () in receiver {
                shelf.read();
            }
        });
        for round in 0..2_000 {
            assert!(shelf.lock.lock_shared(None));
            sender.send(()).expect("the other thread reads");
            if round % 8 == 0 {
                assert!(shelf.lock.lock_exclusive(None));
                shelf.write();
            }
        }
    });
    assert_eq!(shelf.writes(), 250);
}

fn deadlines(subject: RwSubject) {
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
fn hasty_crowd(subject: RwSubject) {
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
fn wake_chain(subject: RwSubject) {
    const EACH: usize = 10;
    let shelf = Shelf::new(subject.make());
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
                while Native::waiters_of(shelf.waiting_on()) < EACH {
                    thread::yield_now();
                }
                shelf.read();
            }
        });
    }
    assert_eq!(shelf.writes(), 2 * EACH as u64 + 1);
}

/// In a child after `fork`, the waiters of the parent are nobody's concern.
fn fork_drops_waiters(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
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
            unsafe { shelf.lock.forget_waiters() };
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

fn readers_pass(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
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
}

fn readers_wait_behind_a_waiting_writer(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
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
        assert!(!shelf.lock.lock_shared(Some(soon(Clock::Monotonic, 1_000_000))), "EBUSY, then ETIMEDOUT");
        scope.spawn(|| {
            assert!(shelf.lock.lock_shared(None));
            assert_eq!(order.fetch_add(1, Relaxed), 1, "the reader passed the writer");
            shelf.read();
        });
        shelf.until_waiting(2);
        shelf.read();
    });
    assert_eq!(shelf.writes(), 1);
}

fn a_writer_that_gives_up_lets_the_readers_behind_it_in(subject: RwSubject) {
    for _ in 0..50 {
        let shelf = Shelf::new(subject.make());
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
}

/// Writers are promised the lock under their preference, however many readers come and go.
fn readers_do_not_starve_a_writer(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
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
}

/// Readers are promised the lock under a neutral one, however many writers come and go.
fn writers_do_not_starve_a_reader(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    assert!(shelf.lock.lock_exclusive(None));
                    shelf.write();
                }
            });
        }
        for _ in 0..200 {
            assert!(shelf.lock.lock_shared(None));
            shelf.read();
        }
        stop.store(true, Relaxed);
    });
}

/// Of `rw-futex`.
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

type Check = (&'static str, fn(RwSubject), fn(RwSubject) -> bool);

fn always(_: RwSubject) -> bool {
    true
}

fn favours(subject: RwSubject) -> Favour {
    subject.favour()
}

const CHECKS: &[Check] = &[
    ("writers_exclude_everybody", |subject| exclusion(subject, 4, 10_000), always),
    (
        "writers_exclude_everybody_with_many_threads",
        |subject| if subject.spins() { exclusion(subject, 8, 500) } else { exclusion(subject, 64, 300) },
        always,
    ),
    ("readers_share", readers_share, always),
    ("attempts", attempts, always),
    ("zero_is_unlocked", zero_is_unlocked, always),
    ("disposal", disposal, always),
    ("deadlines", deadlines, always),
    ("hasty_crowd", hasty_crowd, always),
    ("wake_chain", wake_chain, always),
    ("fork_drops_waiters", fork_drops_waiters, always),
    ("downgrade", downgrade, always),
    ("recursion", recursion, always),
    ("release_elsewhere", release_elsewhere, always),
    ("readers_pass_a_waiting_writer", readers_pass, |subject| favours(subject) == Favour::Readers),
    ("readers_wait_behind_a_waiting_writer", readers_wait_behind_a_waiting_writer, |subject| {
        favours(subject) != Favour::Readers
    }),
    (
        "a_writer_that_gives_up_lets_the_readers_behind_it_in",
        a_writer_that_gives_up_lets_the_readers_behind_it_in,
        |subject| favours(subject) != Favour::Readers,
    ),
    ("readers_do_not_starve_a_writer", readers_do_not_starve_a_writer, |subject| {
        favours(subject) != Favour::Readers
    }),
    ("writers_do_not_starve_a_reader", writers_do_not_starve_a_reader, |subject| {
        favours(subject) != Favour::Writers
    }),
];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = RwSubject::all()
        .flat_map(|subject| {
            let checks = CHECKS.iter().filter(move |(_, _, applies)| applies(subject));
            checks.map(move |(name, check, _)| {
                let name = format!("{subject}::{name}");
                Trial::test(name.clone(), move || {
                    watchdog(LIMIT, || name.clone(), || check(subject));
                    Ok(())
                })
            })
        })
        .collect();
    trials.push(Trial::test("rw-futex::the_preference_can_be_an_argument", || {
        the_preference_can_be_an_argument();
        Ok(())
    }));
    libtest_mimic::run(&arguments, trials).exit();
}
