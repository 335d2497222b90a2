//! Tests of GLK.

use lockwork_platform::Clock;

use super::*;

const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

fn mode(lock: &Glk<Native>) -> usize {
    mode_of(lock.word.load(Relaxed))
}

#[test]
fn zeroed_memory_is_an_unlocked_lock() {
    // SAFETY: atomics are valid whatever their bits.
    let lock: Glk<Native> = unsafe { core::mem::zeroed() };
    assert!(!lock.is_locked());
    assert!(lock.try_lock().is_some());
    assert!(lock.is_locked());
    assert!(lock.try_lock().is_none());
    // SAFETY: locked above.
    unsafe { lock.unlock(()) };
    assert!(!lock.is_locked());
}

#[test]
fn every_mode_locks_and_leads_to_every_other() {
    let lock = Glk::unlocked();
    for next in [MCS, MUTEX, TICKET, MUTEX, MCS, TICKET] {
        let () = lock.lock();
        lock.change(lock.word.load(Relaxed), next);
        assert_eq!(mode(&lock), next);
        assert!(lock.is_locked());
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock_until(PAST).is_none());
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(Some(())) };
        assert!(lock.is_locked());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert!(!lock.is_locked());
        assert!(lock.try_lock().is_some());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
    }
    // SAFETY: nobody uses the lock any more.
    unsafe { lock.dispose() };
    assert_eq!(lock.word.load(Relaxed), ptr::null_mut());
}

#[test]
fn an_uncontended_lock_keeps_no_state() {
    let lock = Glk::unlocked();
    for _ in 0..1000 {
        let () = lock.lock();
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
    }
    assert_eq!(lock.word.load(Relaxed), ptr::null_mut());
}

#[test]
fn a_dropped_lock_gives_its_state_back() {
    let state_of_another = || {
        let lock = Glk::unlocked();
        let () = lock.lock();
        let (_, state) = lock.with_state(lock.word.load(Relaxed));
        let address = ptr::from_ref(state).addr();
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        address
    };
    // What was freed last is used first.
    assert_eq!(state_of_another(), state_of_another());
}

#[test]
fn the_mode_stays_while_the_lock_of_the_other_is_taken() {
    let lock = Glk::unlocked();
    let () = lock.lock();
    let (word, state) = lock.with_state(lock.word.load(Relaxed));
    assert!(state.mutex.try_lock().is_some());
    lock.change(word, MUTEX);
    assert_eq!(mode(&lock), TICKET);
    // SAFETY: locked above.
    unsafe { state.mutex.unlock(()) };
    // SAFETY: as above.
    unsafe { lock.unlock(()) };
    // SAFETY: nobody uses the lock any more.
    unsafe { lock.dispose() };
}

#[test]
fn queues_decide() {
    let better = Glk::<Native>::better;
    assert_eq!(better(TICKET, 95, false), TICKET);
    assert_eq!(better(TICKET, 96, false), MCS);
    assert_eq!(better(MCS, 32, false), MCS);
    assert_eq!(better(MCS, 31, false), TICKET);
    assert_eq!(better(MUTEX, 95, false), TICKET);
    assert_eq!(better(MUTEX, 96, false), MCS);
    assert_eq!(better(MCS, 1, true), MUTEX);
    assert_eq!(better(MUTEX, 0, true), TICKET);
}
