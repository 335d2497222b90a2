//! The order in which waiters get the lock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use super::shop::A_WHILE;
use super::{Shop, Traits};

/// Waiters that arrive one after another get the lock in that order, where the lock promises it.
pub(super) fn arrivals_are_served_in_order(traits: &Traits) {
    const THREADS: usize = 6;
    let mut shop = Shop::new(traits);
    let served = Mutex::new(Vec::new());
    shop.watch(&traits.name, || {
        let token = shop.lock.lock();
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (shop, served) = (&shop, &served);
                scope.spawn(move || {
                    shop.arriving.fetch_add(1, Relaxed);
                    let token = shop.lock.lock();
                    served.lock().expect("nobody panics here").push(number);
                    shop.unlock(token);
                });
                while shop.arriving.load(Relaxed) != number + 1 {
                    thread::yield_now();
                }
                // It has announced itself; now let it get into the queue.
                thread::sleep(A_WHILE);
            }
            shop.unlock(token);
        });
    });
    assert_eq!(*served.lock().expect("nobody panicked"), (0..THREADS).collect::<Vec<_>>());
    shop.close(0);
}

/// A thread that locks once among threads that lock all the time is served.
pub(super) fn nobody_starves(traits: &Traits) {
    let mut shop = Shop::new(traits);
    let rounds = if traits.spins { 3 } else { 30 };
    let over = AtomicBool::new(false);
    let served = AtomicUsize::new(0);
    shop.watch(&traits.name, || {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        shop.locked();
                    }
                });
            }
            for _ in 0..rounds {
                shop.locked();
                served.fetch_add(1, Relaxed);
            }
            over.store(true, Relaxed);
        });
    });
    assert_eq!(served.into_inner(), rounds);
    let sections = shop.sections();
    shop.close(sections);
}
