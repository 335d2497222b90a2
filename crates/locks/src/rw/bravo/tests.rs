//! What the protocol of the bias owes to its callers, on the real machine.

extern crate std;

use std::sync::{Mutex, MutexGuard};

use lockwork_platform::{Cpu, Native};

use super::*;
use crate::rw::ttas::RwTtas;

const PAST: Option<Deadline> = Some(Deadline { clock: Clock::Monotonic, ns: 0 });

type Lock = Bravo<Native, RwTtas<Native>>;

/// Nobody else's slots.
fn table() -> MutexGuard<'static, ()> {
    static TABLE: Mutex<()> = Mutex::new(());
    TABLE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn read(lock: &Lock) {
    assert!(lock.lock_shared(None));
    // SAFETY: a reader.
    unsafe { lock.unlock_shared() };
}

/// A lock whose bias is on.
fn biased() -> Lock {
    let lock = Lock::new();
    read(&lock);
    assert_eq!(bias(&lock), ON);
    lock
}

fn bias(lock: &Lock) -> u32 {
    lock.bias.load(Relaxed)
}

#[test]
fn the_bias_comes_back_after_a_writer_that_gave_up_waiting_for_visible_readers() {
    let (_table, lock) = (table(), biased());
    assert!(lock.lock_shared(None));
    assert_eq!(lock.unnoted.load(Relaxed), 0, "visible");
    assert!(!lock.try_lock_exclusive());
    assert_eq!(bias(&lock), ON);
    assert!(!lock.lock_exclusive(PAST));
    // SAFETY: a reader.
    unsafe { lock.unlock_shared() };
    read(&lock);
    assert_eq!(bias(&lock), ON);
}

#[test]
fn the_bias_comes_back_after_a_writer_that_gave_up_waiting_for_the_lock_inside() {
    let (_table, lock) = (table(), biased());
    assert!(lock.lock.lock_shared(None));
    assert!(!lock.lock_exclusive(PAST));
    // SAFETY: a reader of the lock inside.
    unsafe { lock.lock.unlock_shared() };
    read(&lock);
    assert_eq!(bias(&lock), ON);
    assert!(lock.lock_exclusive(PAST));
    assert_eq!(bias(&lock), OFF);
}

#[test]
fn a_time_long_ago_inhibits_nothing() {
    for (until, now, inhibited) in [
        (0, 5, false),
        (100, 99, true),
        (100, 100, false),
        (100, 101, false),
        (5, u32::MAX - 2, true),
        (100, 100 + (1 << 31), false),
        (100, 105 + (1 << 31), false),
        (100, 99_u32.wrapping_sub(LONGEST_INHIBITION), true),
        (100, 99_u32.wrapping_sub(2 * LONGEST_INHIBITION), false),
    ] {
        assert_eq!(is_inhibited(until, || now), inhibited, "{until} {now}");
    }
    assert_eq!(inhibited_until(1 << 20, 3 << 20), (3 << 10) + 9 * (2 << 10));
    assert_eq!(inhibited_until(0, 1 << 60), LONGEST_INHIBITION);
}

#[test]
fn the_bias_comes_back_however_long_nobody_read() {
    let (_table, lock) = (table(), Lock::new());
    let now = units(Native::now(Clock::Monotonic));
    lock.inhibited.store(now.wrapping_add(1 << 31).wrapping_sub(1 << 20).max(1), Relaxed);
    read(&lock);
    assert_eq!(bias(&lock), ON);
}

#[test]
fn a_full_slot_takes_no_further_reader() {
    let (_table, lock) = (table(), biased());
    assert!(lock.lock_shared(None));
    let full = lock.name() | usize::MAX & !(MORE - 1);
    lock.own_slot(|slot| slot.store(full, Relaxed));
    assert!(lock.lock_shared_again(None));
    assert_eq!((lock.own_slot(|slot| slot.load(Relaxed)), lock.unnoted.load(Relaxed)), (full, 1));
    lock.own_slot(|slot| slot.store(0, Relaxed));
}

#[test]
fn a_writer_that_has_yet_to_revoke_does_not_outlive_a_fork() {
    for visible in [true, false] {
        let (_table, lock) = (table(), biased());
        if visible {
            assert!(lock.lock_shared(None));
        }
        assert!(lock.lock.try_lock_exclusive());
        lock.stop();
        // SAFETY: nobody else uses the lock.
        unsafe { lock.forget_waiters() };
        if visible {
            assert!(!lock.try_lock_exclusive());
            // SAFETY: a reader.
            unsafe { lock.unlock_shared() };
        }
        assert!(lock.try_lock_exclusive());
    }
}
