//! Which side passes the other, and which must not starve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use lockwork_platform::Clock;
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::shelf::Shelf;

use crate::soon;

pub(crate) fn readers_pass(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    assert!(shelf.lock.lock_shared(None));
    thread::scope(|scope| {
        scope.spawn(|| shelf.lock_and_write());
        shelf.until_waiting(1);
        for _ in 0..1_000 {
            assert!(shelf.lock.try_lock_shared());
            shelf.read();
            shelf.lock_and_read();
        }
        shelf.read();
    });
    assert_eq!(shelf.writes(), 1);
}

pub(crate) fn readers_wait_behind_a_waiting_writer(subject: RwSubject) {
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

pub(crate) fn a_writer_that_gives_up_lets_the_readers_behind_it_in(subject: RwSubject) {
    let mut patience_ns = 3_000_000;
    let mut rounds_behind_it = 0;
    for _ in 0..50 {
        let shelf = Shelf::new(subject.make());
        assert!(shelf.lock.lock_shared(None));
        let waited = thread::scope(|scope| {
            let gone = Arc::new(AtomicBool::new(false));
            let late = Arc::clone(&gone);
            let shelf = &shelf;
            scope.spawn(move || {
                assert!(!shelf.lock.lock_exclusive(Some(soon(Clock::Monotonic, patience_ns))));
                late.store(true, Relaxed);
            });
            let waited = loop {
                if !shelf.lock.try_lock_shared() {
                    break true;
                }
                shelf.read();
                if gone.load(Relaxed) {
                    break false;
                }
                thread::yield_now();
            };
            // We keep our first lock: only the writer's surrender can let this reader in.
            scope.spawn(move || shelf.lock_and_read());
            waited
        });
        if waited {
            rounds_behind_it += 1;
        } else {
            // This thread did not run while the writer waited.
            patience_ns = (2 * patience_ns).min(1_000_000_000);
        }
        shelf.read();
        assert_eq!(shelf.writes(), 0);
        shelf.lock_and_write();
    }
    assert!(rounds_behind_it > 0, "no reader was behind the writer");
}

/// Writers are promised the lock under their preference, however many readers come and go.
pub(crate) fn readers_do_not_starve_a_writer(subject: RwSubject) {
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
            shelf.lock_and_write();
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(shelf.writes(), 200);
}

/// Readers are promised the lock under a neutral one, however many writers come and go.
pub(crate) fn writers_do_not_starve_a_reader(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    shelf.lock_and_write();
                }
            });
        }
        for _ in 0..200 {
            shelf.lock_and_read();
        }
        stop.store(true, Relaxed);
    });
}
