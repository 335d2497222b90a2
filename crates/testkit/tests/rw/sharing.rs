//! Which holders share a lock.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use lockwork_locks::rw::{Preference, ReadRefused, RwState};
use lockwork_platform::Native;
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::shelf::Shelf;

pub(crate) fn exclusion(subject: RwSubject, threads: usize, rounds: u64) {
    let shelf = Shelf::new(subject.make());
    thread::scope(|scope| {
        for number in 0..threads {
            let shelf = &shelf;
            scope.spawn(move || {
                for round in 0..rounds {
                    if number % 2 == 0 && round % 4 == 0 {
                        shelf.lock_and_write();
                    } else {
                        shelf.lock_and_read();
                    }
                }
            });
        }
    });
    assert_eq!(shelf.writes(), threads.div_ceil(2) as u64 * rounds.div_ceil(4));
}

pub(crate) fn readers_share(subject: RwSubject) {
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

pub(crate) fn attempts(subject: RwSubject) {
    let lock = subject.make();
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

/// While a thread reads, no attempt to write succeeds, and so none makes an attempt to read fail.
pub(crate) fn attempts_to_write_do_not_hinder_attempts_to_read(subject: RwSubject) {
    const ROUNDS: usize = 20_000;
    let shelf = Shelf::new(subject.make());
    // A bias comes with readers.
    (0..2).for_each(|_| shelf.lock_and_read());
    assert!(shelf.lock.lock_shared(None));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                assert!(!shelf.lock.try_lock_exclusive(), "beside a reader");
            }
        });
        let failed = (0..ROUNDS)
            .filter(|_| {
                let reads = shelf.lock.try_lock_shared();
                if reads {
                    shelf.read();
                }
                !reads
            })
            .count();
        over.store(true, Relaxed);
        assert_eq!(failed, 0, "of {ROUNDS} attempts, beside readers only");
    });
    shelf.read();
    shelf.lock_and_write();
}

pub(crate) fn zero_is_unlocked(subject: RwSubject) {
    let lock = subject.zeroed();
    assert!(!lock.is_locked());
    assert!(lock.try_lock_exclusive());
    assert!(lock.is_locked());
    // SAFETY: the writer.
    unsafe { lock.unlock_exclusive() };
    assert!(subject.size() <= 24, "it must fit before the fields that glibc keeps");
}

/// What a lock keeps outside itself it gives back, and makes anew.
pub(crate) fn disposal(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    for _ in 0..3 {
        shelf.lock_and_read();
        shelf.lock_and_write();
        // SAFETY: unlocked, and nobody else uses it.
        unsafe { shelf.lock.dispose() };
        assert!(!shelf.lock.is_locked());
    }
    assert_eq!(shelf.writes(), 3);
}

/// As after `mem::forget` of a guard: what the lock kept outside itself may go to another lock, or to one at its address.
pub(crate) fn a_lock_that_ends_held_locks_no_other(subject: RwSubject) {
    for reads in [true, false] {
        for _ in 0..4 {
            let lock = subject.zeroed();
            // Of the second a biased lock knows by its slot in the table.
            for _ in 0..2 {
                assert!(lock.try_lock_shared(), "a new lock");
                // SAFETY: the reader.
                unsafe { lock.unlock_shared() };
            }
            assert!(lock.try_lock_exclusive(), "a free lock");
            drop(lock);
            let lock = subject.zeroed();
            assert!(lock.try_lock_shared(), "a new lock");
            // SAFETY: the reader.
            unsafe { lock.unlock_shared() };
            assert!(if reads { lock.try_lock_shared() } else { lock.try_lock_exclusive() }, "a free lock");
        }
    }
}

/// Readers that wait come in beside a writer that is one of them now; writers do not.
pub(crate) fn downgrade(subject: RwSubject) {
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
pub(crate) fn recursion(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    for round in 0..20 {
        assert!(shelf.lock.lock_shared(None));
        thread::scope(|scope| {
            scope.spawn(|| shelf.lock_and_write());
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
pub(crate) fn release_elsewhere(subject: RwSubject) {
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
                shelf.lock_and_write();
            }
        }
    });
    assert_eq!(shelf.writes(), 250);
}

/// Of `rw-futex`.
pub(crate) fn the_preference_can_be_an_argument() {
    let lock = RwState::<Native>::new();
    assert_eq!(lock.lock_shared(Preference::Readers, None), Ok(()));
    assert!(lock.is_locked() && !lock.is_write_locked());
    // SAFETY: a reader.
    unsafe { lock.unlock(Preference::Readers) };
    assert!(lock.lock_exclusive(Preference::Readers, None));
    assert!(lock.is_locked() && lock.is_write_locked());
    assert_eq!(lock.try_lock_shared(Preference::Writers), Err(ReadRefused::Busy));
    // SAFETY: the writer.
    unsafe { lock.unlock(Preference::Writers) };
    assert!(!lock.is_locked());
}
