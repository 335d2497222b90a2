//! Tests of GLK.

use lockwork_platform::{Clock, Deadline, Sched as _};

use super::*;

const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

fn mode(lock: &Glk<Native>) -> usize {
    mode_of(lock.word.load(Relaxed))
}

/// As a holder.
fn change(lock: &Glk<Native>, mode: usize) {
    let (word, state) = lock.use_state(lock.word.load(Relaxed), true).expect("memory");
    lock.change(word, state, mode);
    state.claim.leave();
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
        change(&lock, next);
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
    let (word, owner) = {
        let lock = Glk::unlocked();
        let () = lock.lock();
        change(&lock, MCS);
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        let word = lock.word.load(Relaxed);
        assert!(lock.state(word).expect("made above").claim.is_for(lock.owner()));
        (word, lock.owner())
    };
    // SAFETY: a state stays one.
    let state = unsafe { &*word.map_addr(|address| address & !MODES) };
    assert!(!state.claim.is_for(owner));
}

#[test]
fn a_lock_that_ends_held_keeps_its_state() {
    for mode in [MCS, MUTEX] {
        let (word, owner) = {
            let lock = Glk::unlocked();
            let () = lock.lock();
            change(&lock, mode);
            (lock.word.load(Relaxed), lock.owner())
        };
        // SAFETY: a state stays one.
        let state = unsafe { &*word.map_addr(|address| address & !MODES) };
        assert!(state.claim.is_for(owner) && !state.take_back(), "locked by who will never release it");
    }
}

#[test]
fn the_mode_stays_while_the_lock_of_the_other_is_taken() {
    let lock = Glk::unlocked();
    let () = lock.lock();
    let (word, state) = lock.use_state(lock.word.load(Relaxed), true).expect("memory");
    assert!(state.mutex.try_lock().is_some());
    lock.change(word, state, MUTEX);
    state.claim.leave();
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

#[test]
fn a_copy_and_a_lock_whose_state_was_taken_begin_anew() {
    let lock = Glk::unlocked();
    for mode in [MCS, MUTEX] {
        let () = lock.lock();
        change(&lock, mode);
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        // SAFETY: a lock is plain words; the copy is not dropped.
        let copy = core::mem::ManuallyDrop::new(unsafe { ptr::read(&raw const lock) });
        assert_eq!(self::mode(&copy), mode);
        assert!(!copy.is_locked() && copy.try_lock().is_some() && copy.is_locked());
        assert_eq!(self::mode(&copy), TICKET);
        // SAFETY: locked above.
        unsafe { copy.unlock(()) };
        assert!(!lock.is_locked());
        let state = lock.state(lock.word.load(Relaxed)).expect("made above");
        assert!(state.take_back(), "nobody uses it");
        assert!(!lock.is_locked());
        let () = lock.lock();
        // In a crowd it goes on to the mutex at once.
        match self::mode(&lock) {
            TICKET => {}
            other => assert!(other == MUTEX && Native::is_overloaded(), "{other}"),
        }
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
    }
}
