use lockwork_platform::{Clock, Deadline};

use super::*;

extern crate std;

const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

fn lock() -> Auto<Native> {
    // SAFETY: zeros are valid for every field.
    unsafe { core::mem::zeroed() }
}

fn word(lock: &Auto<Native>) -> u32 {
    lock.word.load(Relaxed)
}

/// Acquires by way of a node, as a thread that found the lock held.
fn acquire(lock: &Auto<Native>) {
    assert!(lock.lines_up(&Wait::until(Some(PAST)), false), "nobody else is here");
    assert_eq!(word(lock), LOCKED | BY_NODE);
}

fn unlock(lock: &Auto<Native>) {
    // SAFETY: the callers' locks are locked.
    unsafe { lock.unlock(()) };
    assert_eq!(word(lock), UNLOCKED);
}

fn way(lock: &Auto<Native>) -> Option<Way> {
    lock.state.own().map(|shared| shared.regime.way())
}

#[test]
fn a_free_lock_is_taken_without_state() {
    let lock = lock();
    let () = lock.lock();
    assert!(word(&lock) == LOCKED && lock.try_lock().is_none() && lock.state.own().is_none());
    unlock(&lock);
}

#[test]
fn a_thread_that_gives_up_takes_its_marks_along() {
    let lock = lock();
    let () = lock.lock();
    for _ in 0..3 {
        assert!(lock.try_lock_until(PAST).is_none());
        assert_eq!(word(&lock), LOCKED);
    }
    unlock(&lock);
    acquire(&lock);
    assert!(lock.try_lock_until(PAST).is_none());
    unlock(&lock);
}

#[test]
fn a_reserved_lock_is_for_the_first_leader_only() {
    let lock = lock();
    lock.word.store(LOCKED | RESERVED, Relaxed);
    lock.release_slow();
    assert!(!lock.is_locked() && lock.try_lock().is_none());
    acquire(&lock);
    unlock(&lock);
}

#[test]
fn every_way_can_be_pinned_to() {
    for (pin, pinned) in [(1, Way::ByNode), (2, Way::OneQueue), (3, Way::Barging)] {
        let lock = lock();
        lock.configure(&Knobs { pin: Some(pin), pass_limit: Some(7), ..Knobs::NONE });
        for _ in 0..3 {
            acquire(&lock);
            assert_eq!(way(&lock), Some(pinned));
            unlock(&lock);
        }
        assert_eq!(lock.state.pass_limit(), 7);
    }
}

#[test]
fn releases_are_counted() {
    let lock = lock();
    acquire(&lock);
    let counts = || {
        let mut by_node = 0_u32;
        let shared = lock.state.own().expect("a thread has lined up");
        // SAFETY: nobody else uses the lock.
        shared.nodes.visit(|state| by_node = by_node.wrapping_add(unsafe { state.counts() }.0));
        // SAFETY: as above.
        (unsafe { lock.releases.get() }, by_node)
    };
    // The state, and what was counted there, may have been another lock's.
    let (_, before) = counts();
    unlock(&lock);
    let () = lock.lock();
    unlock(&lock);
    assert_eq!(counts(), (1, before.wrapping_add(1)));
}

#[test]
fn a_first_leader_naps_until_one_has_had_the_lock() {
    let lock = lock();
    let () = lock.lock();
    assert!(lock.try_lock_until(PAST).is_none());
    let serves = || {
        let shared = lock.state.own().expect("a thread has lined up");
        // SAFETY: nobody else uses the lock.
        !unsafe { shared.of_leaders.serving.get() }.0.is_null()
    };
    assert!(!serves());
    let mut ran_out = 0;
    assert!(
        lock.naps(&mut ran_out, &Wait::until(None)),
        "it is over soon, although nobody releases the lock"
    );
    assert_eq!(ran_out, 1);
    assert_eq!(word(&lock), LOCKED | SLEEPER);
    unlock(&lock);
    acquire(&lock);
    unlock(&lock);
    assert!(serves());
}

#[test]
fn a_thread_that_finds_it_held_takes_it_once_it_is_free() {
    let lock = lock();
    let () = lock.lock();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let () = lock.lock();
            unlock(&lock);
        });
        std::thread::sleep(core::time::Duration::from_millis(1));
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        other.join().expect("no panic");
    });
    assert_eq!(word(&lock), UNLOCKED);
}

#[test]
fn forgetting_waiters_keeps_the_holder() {
    let lock = lock();
    acquire(&lock);
    lock.word.fetch_or(SLEEPER | RESERVED, Relaxed);
    // SAFETY: nobody else uses the lock.
    unsafe { lock.forget_waiters(Some(())) };
    assert_eq!(word(&lock), LOCKED | BY_NODE);
    unlock(&lock);
    acquire(&lock);
    unlock(&lock);
    lock.word.store(LOCKED | SLEEPER, Relaxed);
    // SAFETY: as above.
    unsafe { lock.forget_waiters(Some(())) };
    assert_eq!(word(&lock), LOCKED);
    unlock(&lock);
}

#[test]
fn a_lock_that_changes_its_way_all_the_time_excludes() {
    const THREADS: usize = 4;
    const SECTIONS: usize = 500;
    let lock = <Auto<Native, 2, true> as RawLock<Native>>::new();
    let count = <Native as lockwork_platform::Cells>::Data::new(0_usize);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..SECTIONS {
                    let () = lock.lock();
                    // SAFETY: locked.
                    let before = unsafe { count.get() };
                    // SAFETY: as above.
                    unsafe { count.set(before + 1) };
                    // SAFETY: locked above.
                    unsafe { lock.unlock(()) };
                }
            });
        }
    });
    // SAFETY: all threads have ended.
    assert_eq!(unsafe { count.get() }, THREADS * SECTIONS);
}
