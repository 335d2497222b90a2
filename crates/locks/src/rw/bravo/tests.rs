//! What the protocol of the bias owes to its callers, on the real machine.

extern crate std;

use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use lockwork_platform::{Cells, Cpu, Native, VisibleReaders, Waiters};

use super::learning::{DUE, WROTE};
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

/// What slots say of readers of a lock at this address.
fn slots_of(name: usize) -> usize {
    let names = |index: &usize| Native::visible_reader(*index, |slot| slot.load(Relaxed)) & ADDRESS == name;
    (0..Native::VISIBLE_READERS).filter(names).count()
}

#[test]
fn readers_end_with_their_lock() {
    let _table = table();
    let of = |lock: Lock, is_inside: bool| {
        assert!(lock.lock_shared(None));
        assert_eq!(lock.lock.is_locked(), is_inside);
        let name = lock.name();
        assert_eq!(slots_of(name), 1);
        // SAFETY: nobody will use it; its reader is forgotten.
        unsafe { lock.dispose() };
        assert_eq!(slots_of(name), 0);
    };
    of(biased(), false);
    of(Lock::new(), true);
}

/// A child inherits the readers of its parent's locks, until it makes such a lock anew; those that have come since stay.
#[test]
fn readers_of_a_parent_end_with_a_lock_that_is_made_anew() {
    let _table = table();
    for (lock, is_inside) in [(biased(), false), (Lock::new(), true)] {
        let other = biased();
        assert!(lock.lock_shared(None));
        assert_eq!(lock.lock.is_locked(), is_inside);
        forget_inherited::<Native>(lock.name());
        assert_eq!(slots_of(lock.name()), 1, "no fork");
        assert!(inherit_readers::<Native>());
        forget_inherited::<Native>(other.name());
        assert_eq!(slots_of(lock.name()), 1, "another lock");
        assert!(lock.lock_shared_again(None));
        // SAFETY: a reader.
        unsafe { lock.unlock_shared() };
        assert!(!lock.try_lock_exclusive(), "the first one still reads");
        forget_inherited::<Native>(lock.name());
        assert_eq!(slots_of(lock.name()), 0);
        assert!(!inherit_readers::<Native>());
        assert!(other.lock_shared(None));
        forget_inherited::<Native>(other.name());
        assert_eq!(slots_of(other.name()), 1, "it came after the fork");
        // SAFETY: a reader.
        unsafe { other.unlock_shared() };
        if is_inside {
            // SAFETY: the reader that was forgotten.
            unsafe { lock.lock.unlock_shared() };
        }
    }
}

type Learner = Bravo<Native, RwTtas<Native>, true>;

/// A lock whose bias is to be turned on.
fn due() -> Learner {
    let lock = Learner::new();
    lock.unnoted.store(DUE, Relaxed);
    lock
}

fn plan(lock: &Learner) -> (u32, u32) {
    (lock.bias.load(Relaxed), lock.unnoted.load(Relaxed))
}

fn is_noted(lock: &Learner) -> bool {
    lock.own_slot(|slot| slot.load(Relaxed)) & ADDRESS == lock.name()
}

/// Reads, and says whether the reader was noted or visible.
fn leaves_a_note(lock: &Learner) -> bool {
    assert!(lock.lock_shared(None));
    let noted = is_noted(lock);
    // SAFETY: a reader.
    unsafe { lock.unlock_shared() };
    assert!(!is_noted(lock));
    noted
}

#[test]
fn a_bias_that_learns_comes_on_when_it_is_due_and_rests_after_a_write() {
    let (_table, lock) = (table(), due());
    assert!(leaves_a_note(&lock), "counted by the lock inside");
    assert_eq!(plan(&lock), (ON, 0));
    assert!(leaves_a_note(&lock), "visible");
    assert!(lock.lock_exclusive(None));
    assert_eq!((plan(&lock).0, plan(&lock).1 & WROTE), (OFF, WROTE));
    // SAFETY: the writer.
    unsafe { lock.unlock_exclusive() };
    assert!(!leaves_a_note(&lock), "at rest");
    assert!(lock.try_lock_exclusive());
    // SAFETY: the writer.
    unsafe { lock.downgrade() };
    assert!(!is_noted(&lock));
    // SAFETY: a reader.
    unsafe { lock.unlock_shared() };
    assert!(!lock.is_locked());
}

#[test]
fn a_bias_that_learns_does_not_come_on_beside_a_reader_that_is_not_noted() {
    let (_table, lock) = (table(), Learner::new());
    assert!(lock.lock_shared(None));
    lock.unnoted.store(DUE, Relaxed);
    assert!(!leaves_a_note(&lock));
    assert_eq!(plan(&lock), (OFF, 0), "the next attempt comes later");
    // SAFETY: a reader.
    unsafe { lock.unlock_shared() };
    assert!(!lock.is_locked());
}

#[test]
fn a_write_puts_off_a_bias_that_is_due() {
    let (_table, lock) = (table(), due());
    assert!(lock.try_lock_exclusive());
    // SAFETY: the writer.
    unsafe { lock.unlock_exclusive() };
    assert_eq!(plan(&lock), (OFF, WROTE));
    assert!(!leaves_a_note(&lock));
}

#[test]
fn a_thread_that_was_about_to_turn_a_bias_on_is_forgotten() {
    let (_table, lock) = (table(), due());
    lock.bias.store(BEGINNING, Relaxed);
    assert!(lock.try_lock_exclusive(), "it has not got the lock");
    // SAFETY: nobody else uses the lock.
    unsafe { lock.forget_waiters() };
    assert!(lock.is_locked() && plan(&lock).0 == OFF);
    // SAFETY: the writer.
    unsafe { lock.unlock_exclusive() };
    assert!(!leaves_a_note(&lock));
}

#[test]
fn an_attempt_does_not_fail_by_a_reader_that_turns_the_bias_on() {
    for comes_on in [true, false] {
        let (_table, lock) = (table(), Learner::new());
        lock.bias.store(BEGINNING, Relaxed);
        assert!(lock.lock.try_lock_exclusive());
        thread::scope(|scope| {
            let attempt = scope.spawn(|| lock.try_lock_shared());
            // It has found that, probably.
            thread::sleep(Duration::from_millis(20));
            // In the order of `take_for_a_moment`.
            if comes_on {
                lock.bias.store(ON, Relaxed);
            }
            // SAFETY: the writer.
            unsafe { lock.lock.unlock_exclusive() };
            if !comes_on {
                lock.bias.store(OFF, Relaxed);
            }
            assert!(attempt.join().expect("no panic"), "nobody writes");
        });
        // SAFETY: a reader.
        unsafe { lock.unlock_shared() };
    }
}

#[test]
fn an_attempt_fails_by_a_writer() {
    let (_table, lock) = (table(), due());
    assert!(lock.lock_exclusive(None));
    assert!(!lock.try_lock_shared());
    // SAFETY: the writer.
    unsafe { lock.unlock_exclusive() };
}

#[test]
fn a_thread_that_turns_the_bias_on_is_known_to_wait() {
    let (_table, lock) = (table(), Learner::new());
    let mut looks = 0;
    // Otherwise it would come on at once.
    assert!(lock.lock.lock_shared(None));
    for _ in 0..10_000 {
        lock.unnoted.store(DUE, Relaxed);
        thread::scope(|scope| {
            let reader = scope.spawn(|| leaves_a_note(&lock));
            while !reader.is_finished() {
                let before = lock.bias.load(Acquire);
                let waiters = Native::waiters_of(lock.address());
                Native::fence(Acquire);
                if before == BEGINNING && lock.bias.load(Relaxed) == BEGINNING {
                    assert_eq!(waiters, 1, "a child of fork is to find the thread");
                    looks += 1;
                }
            }
        });
        if looks > 10 {
            return;
        }
    }
    panic!("nobody was seen to turn it on");
}
