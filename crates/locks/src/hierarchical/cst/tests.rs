use lockwork_platform::{Clock, Deadline, Pool};

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
    assert!(tail(&lock) == DIRECTLY && lock.try_lock().is_none() && lock.state.own().is_none());
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
    assert!(lock.acquire(&Wait::until(Some(PAST))), "nobody else is here");
    assert_eq!(tail(&lock), BY_NODE);
    // SAFETY: locked above.
    unsafe { lock.unlock(()) };
    assert_eq!(tail(&lock), 0);
}

#[test]
fn sleepers_are_woken_by_the_number_that_was_set() {
    let lock = Cst::<Native>::unlocked();
    lock.configure(&Knobs { pass_limit: Some(7), wake: Some(3), ..Knobs::NONE });
    assert_eq!((lock.state.pass_limit(), lock.attention().most), (7, 3));
    lock.configure(&Knobs { pass_limit: None, wake: Some(65_535), ..Knobs::NONE });
    assert_eq!((lock.state.pass_limit(), lock.attention().most), (7, u32::MAX));
}

/// What the state says of a lock that two threads have contended for.
fn contended(lock: &Cst<Native>) -> Option<&Shared<Native>> {
    let () = lock.lock();
    assert!(lock.try_lock_until(PAST).is_none());
    // SAFETY: locked above.
    unsafe { lock.unlock(()) };
    lock.state.own()
}

#[test]
fn an_idle_lock_loses_its_state_and_none_in_use_is_lost() {
    let lock = Cst::<Native>::unlocked();
    let shared = contended(&lock).expect("made by the wait");
    assert!(shared.take_back(), "nobody uses it");
    assert!(lock.state.own().is_none());
    // SAFETY: nobody else knows of it.
    unsafe { Native::give_state(core::ptr::NonNull::from(shared)) };
    assert!(contended(&lock).is_some(), "made again");
    assert!(lock.acquire(&Wait::until(None)));
    let shared = lock.state.own().expect("held by way of a node");
    assert!(!shared.take_back(), "held by way of a node");
    assert!(lock.try_lock_until(PAST).is_none());
    // SAFETY: locked above.
    unsafe { lock.unlock(()) };
    assert!(shared.take_back(), "nobody holds the lock or waits");
}

#[test]
fn a_state_with_an_abandoned_node_in_the_global_queue_is_in_use() {
    let lock = Cst::<Native>::unlocked();
    let () = lock.lock();
    assert!(lock.try_lock_until(PAST).is_none());
    let shared = lock.state.own().expect("made by the wait");
    assert!(!shared.take_back(), "its queue has a node");
    // SAFETY: locked above.
    unsafe { lock.unlock(()) };
    assert_eq!(tail(&lock), 0);
    assert!(shared.take_back(), "its queue is empty");
}

#[test]
fn locks_that_are_dropped_without_having_been_destroyed_cost_nothing() {
    let mut before = 0;
    for round in 0..4 {
        for _ in 0..20_000 {
            let lock = core::mem::ManuallyDrop::new(Cst::<Native>::unlocked());
            assert!(contended(&lock).is_some());
        }
        let bytes = lockwork_platform::states::bytes_of::<Shared<Native>>();
        assert!(round == 0 || bytes == before, "{before} bytes grew to {bytes}");
        before = bytes;
    }
    assert!(before <= 512 * 1024, "{before} bytes");
}
