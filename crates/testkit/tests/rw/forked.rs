//! A child after `fork`, in which one thread of the parent's is left.

use std::thread;
use std::time::Duration;

use lockwork_platform::{Clock, Deadline};
use lockwork_testkit::child::in_a_child;
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::shelf::Shelf;

const FAR: Option<Deadline> = Some(Deadline { clock: Clock::Monotonic, ns: u64::MAX });

/// Runs `child`, which says whether all is well, in a child.
fn fork(child: impl FnOnce() -> bool) {
    assert!(in_a_child(child), "the child could not use the lock, or hung");
}

/// The child of a writer forgets the parent's waiters.
pub(crate) fn of_a_writer(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    assert!(shelf.lock.lock_exclusive(None));
    thread::scope(|scope| {
        scope.spawn(|| shelf.lock_and_write());
        scope.spawn(|| shelf.lock_and_read());
        shelf.until_waiting(2);
        // Both sleep: nothing else changes the lock any more.
        thread::sleep(Duration::from_millis(20));
        fork(|| {
            // SAFETY: the child has one thread, which holds the lock.
            unsafe { shelf.lock.forget_waiters() };
            shelf.write();
            shelf.lock.lock_shared(FAR) && {
                shelf.read();
                shelf.lock.lock_exclusive(FAR)
            }
        });
        shelf.write();
    });
    assert_eq!(shelf.writes(), 2);
}

/// As above, for a reader that forks, and a lock that has been read before: readers of a
/// biased lock are visible then.
pub(crate) fn of_a_reader(subject: RwSubject) {
    let shelf = Shelf::new(subject.make());
    shelf.lock_and_read();
    assert!(shelf.lock.lock_shared(None));
    thread::scope(|scope| {
        scope.spawn(|| shelf.lock_and_write());
        shelf.until_waiting(1);
        thread::sleep(Duration::from_millis(20));
        fork(|| {
            // SAFETY: the child has one thread, which holds the lock.
            unsafe { shelf.lock.forget_waiters() };
            let is_kept = !shelf.lock.try_lock_exclusive() && shelf.lock.lock_shared_again(FAR);
            shelf.read();
            shelf.read();
            is_kept && shelf.lock.lock_exclusive(FAR)
        });
        shelf.read();
    });
    assert_eq!(shelf.writes(), 1);
}
