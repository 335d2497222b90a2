use lockwork_platform::Clock;

use super::*;

const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

fn tail(lock: &Cst<Native>) -> usize {
    lock.tail.load(Relaxed).addr()
}

#[test]
fn a_free_lock_is_taken_without_state() {
    // SAFETY: null pointers are valid atomic pointers.
    let lock: Cst<Native> = unsafe { core::mem::zeroed() };
    let () = lock.lock();
    assert!(tail(&lock) == DIRECTLY && lock.try_lock().is_none() && lock.state.get().is_none());
    // SAFETY: locked above.
    unsafe { lock.unlock(()) };
    assert!(!lock.is_locked());
}

#[test]
fn who_gives_up_leaves_the_lock_of_its_node_free() {
    let lock = Cst::unlocked();
    let () = lock.lock();
    for _ in 0..3 {
        assert!(lock.try_lock_until(PAST).is_none());
    }
    // SAFETY: locked above.
    unsafe { lock.unlock(()) };
    assert_eq!(tail(&lock), 0);
    assert!(lock.acquire(lock.address(), Some(PAST)), "nobody else is here");
    assert_eq!(tail(&lock), BY_NODE);
    // SAFETY: locked above.
    unsafe { lock.unlock(()) };
    assert_eq!(tail(&lock), 0);
}

#[test]
fn sleepers_are_woken_by_the_number_that_was_set() {
    let lock = Cst::<Native>::unlocked();
    lock.configure(&BaseKnobs { pass_limit: Some(7), wake: Some(3) });
    let shared = lock.state.get_or_make();
    assert_eq!((shared.limit.load(Relaxed), shared.attention(1).most), (7, 3));
}
