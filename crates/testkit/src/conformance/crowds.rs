//! More threads than CPUs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use super::{Shop, Traits};

const THREADS: usize = 8;

pub(super) fn a_crowd_excludes(traits: &Traits) {
    let mut shop = Shop::new(traits);
    let each = traits.operations(5_000);
    shop.watch(&traits.name, || {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..each).for_each(|_| shop.locked()));
            }
        });
    });
    shop.close((THREADS * each) as u64);
}

pub(super) fn a_crowd_that_tries_excludes(traits: &Traits) {
    let mut shop = Shop::new(traits);
    let each = traits.operations(5_000);
    let tried = AtomicU64::new(0);
    shop.watch(&traits.name, || {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (shop, tried) = (&shop, &tried);
                scope.spawn(move || {
                    for _ in 0..each {
                        if thread % 2 == 0 {
                            shop.locked();
                        } else {
                            let token = shop.lock.try_lock();
                            tried.fetch_add(u64::from(shop.finish(token)), Relaxed);
                        }
                    }
                });
            }
        });
    });
    shop.close((THREADS / 2 * each) as u64 + tried.into_inner());
}

pub(super) fn a_crowd_on_many_locks(traits: &Traits) {
    const LOCKS: usize = 64;
    let shops: Vec<Shop> = (0..LOCKS).map(|_| Shop::new(traits)).collect();
    let rounds = traits.operations(1_000);
    shops[0].watch(&traits.name, || {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let shops = &shops;
                scope.spawn(move || {
                    for round in 0..rounds {
                        // Every thread takes the locks in the same order, so no circle of waiters arises.
                        let first = (thread * 31 + round * 17) % (LOCKS - 1);
                        let outer = shops[first].lock.lock();
                        shops[first + 1].locked();
                        shops[first].finish(Some(outer));
                    }
                });
            }
        });
    });
    let mut sections = 0;
    for shop in &shops {
        assert!(!shop.lock.is_locked());
        sections += shop.sections();
    }
    assert_eq!(sections, (2 * THREADS * rounds) as u64);
}

/// Threads that only try get the lock sooner or later.
pub(super) fn tries_get_through(traits: &Traits) {
    let mut shop = Shop::new(traits);
    let each = traits.operations(500);
    shop.watch(&traits.name, || {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..each {
                        while !shop.finish(shop.lock.try_lock()) {
                            thread::yield_now();
                        }
                    }
                });
            }
        });
    });
    shop.close(3 * each as u64);
}
