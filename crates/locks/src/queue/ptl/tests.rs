extern crate std;

use std::thread;

use super::*;

/// The largest number.
const LARGEST: u32 = u32::MAX / DRAW;

fn at(next: u32, serving: u32) -> Ptl<Native> {
    let lock = Ptl::unlocked();
    lock.next.store(next.wrapping_mul(DRAW), Relaxed);
    lock.serving.store(serving.wrapping_mul(DRAW), Relaxed);
    lock
}

fn state(lock: &Ptl<Native>) -> (u32, u32) {
    (lock.next.load(Relaxed) / DRAW, lock.serving.load(Relaxed) / DRAW)
}

#[test]
fn zeroed_memory_is_an_unlocked_lock() {
    // SAFETY: atomics are valid whatever their bits, and so is a null pointer.
    let lock: Ptl<Native> = unsafe { core::mem::zeroed() };
    assert!(!lock.is_locked());
    assert!(lock.try_lock().is_some());
    assert!(lock.is_locked() && lock.try_lock().is_none());
    // SAFETY: locked above.
    unsafe { lock.unlock(()) };
    assert_eq!(state(&lock), (1, 1));
}

#[test]
fn numbers_wrap_around() {
    let lock = at(LARGEST, LARGEST);
    for served in [0, 1, 2] {
        let () = lock.lock();
        assert!(lock.is_locked() && lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(state(&lock), (served, served));
    }
}

#[test]
fn a_crowd_across_the_wrap_around_is_served_on_slots() {
    let lock = at(LARGEST - 10, LARGEST - 10);
    let mut count = 0_u32;
    let counter = (&raw mut count).expose_provenance();
    let () = lock.lock();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let () = lock.lock();
                    let counter = ptr::with_exposed_provenance_mut::<u32>(counter);
                    // SAFETY: the lock excludes the other threads.
                    unsafe { *counter += 1 };
                    // SAFETY: locked above.
                    unsafe { lock.unlock(()) };
                }
            });
        }
        while state(&lock).0 != LARGEST - 6 {
            thread::yield_now();
        }
        assert!(!lock.slots.load(Relaxed).is_null());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
    });
    assert_eq!((count, state(&lock)), (60, (50, 50)));
    assert!(!lock.is_locked() && lock.slots.load(Relaxed).is_null());
}

#[test]
fn forgetting_waiters_keeps_the_lock_locked() {
    let lock = at(2, LARGEST);
    // SAFETY: nobody else uses this lock.
    unsafe { lock.forget_waiters(Some(())) };
    assert_eq!(state(&lock), (0, LARGEST));
    // SAFETY: the holder releases.
    unsafe { lock.unlock(()) };
    assert_eq!(state(&lock), (0, 0));
}

#[test]
fn slots_go_with_the_last_in_line() {
    let lock = at(0, 0);
    let () = lock.lock();
    lock.next.fetch_add(DRAW, Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(lock.partition());
            // SAFETY: acquired above.
            unsafe { lock.unlock(()) };
        });
        while lock.next.load(Relaxed) & PARTITIONED == 0 {
            thread::yield_now();
        }
        assert!(!lock.slots.load(Relaxed).is_null() && lock.is_locked() && lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        lock.wait_for(DRAW);
        // SAFETY: the second number is ours.
        unsafe { lock.unlock(()) };
    });
    assert!(lock.slots.load(Relaxed).is_null());
    assert_eq!(state(&lock), (3, 3));
}
