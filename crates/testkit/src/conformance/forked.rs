//! `fork`: the child has the lock's memory, but not the threads that wait for it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use lockwork_locks::registry::erased::ErasedLock;
use lockwork_platform::{Native, waiters};

use super::shop::{A_WHILE, PASSED};
use super::{Shop, Traits};
use crate::child::in_a_child;

/// Uses a lock that only this thread knows.
fn works(lock: &dyn ErasedLock<Native>) -> bool {
    (0..100).all(|_| {
        let token = lock.lock();
        let excluded = lock.try_lock().is_none() && lock.try_lock_until(PASSED).is_none();
        // SAFETY: the token of the acquisition above.
        unsafe { lock.unlock(token) };
        excluded && !lock.is_locked()
    })
}

/// The thread that forks holds the lock; others wait, some of them give up.
pub(super) fn a_child_forgets_the_waiters(traits: &Traits) {
    const WAITERS: usize = 4;
    let mut shop = Shop::new(traits);
    shop.watch(&traits.name, || {
        let token = shop.lock.lock();
        thread::scope(|scope| {
            for _ in 0..WAITERS {
                scope.spawn(|| {
                    shop.arriving.fetch_add(1, Relaxed);
                    shop.locked();
                });
            }
            while shop.arriving.load(Relaxed) != WAITERS {
                thread::yield_now();
            }
            assert!(shop.lock.try_lock_until(PASSED).is_none());
            thread::sleep(A_WHILE);
            let done = in_a_child(|| {
                waiters::purge_ghosts(|_| {});
                // SAFETY: no other thread exists in the child.
                unsafe { shop.lock.forget_waiters(Some(token)) };
                let held = shop.lock.is_locked() && shop.lock.try_lock().is_none();
                // SAFETY: held by the thread that forked, which is this one.
                unsafe { shop.lock.unlock(token) };
                held && works(&*shop.lock)
            });
            assert!(done, "the child could not use the lock");
            shop.finish(Some(token));
        });
    });
    shop.close(WAITERS as u64 + 1);
}

/// A lock that nobody holds when a thread forks stays free, whatever its queue has been through.
pub(super) fn a_child_of_a_waiter_takes_over(traits: &Traits) {
    let mut shop = Shop::new(traits);
    let over = AtomicBool::new(false);
    shop.watch(&traits.name, || {
        let token = shop.lock.lock();
        thread::scope(|scope| {
            // Leaves its marks in the queue.
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    let _ = shop.finish(shop.lock.try_lock_until(PASSED));
                }
            });
            thread::sleep(A_WHILE);
            shop.unlock(token);
            over.store(true, Relaxed);
        });
        let done = in_a_child(|| {
            waiters::purge_ghosts(|_| {});
            // SAFETY: no other thread exists in the child.
            unsafe { shop.lock.forget_waiters(None) };
            works(&*shop.lock)
        });
        assert!(done, "the child could not use the lock");
    });
    let sections = shop.sections();
    shop.close(sections);
}
