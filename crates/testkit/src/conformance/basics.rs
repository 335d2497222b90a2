//! What makes a lock, with one or two threads.

use std::collections::HashSet;
use std::thread;

use super::{Shop, Traits};
use crate::erased::Held;

pub(super) fn excludes(traits: &Traits) {
    const SECTIONS: usize = 20_000;
    let mut shop = Shop::new(traits);
    let each = traits.operations(SECTIONS);
    shop.watch(&traits.name, || {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..each).for_each(|_| shop.locked()));
            }
        });
    });
    shop.close(2 * each as u64);
}

pub(super) fn try_on_a_free_lock(traits: &Traits) {
    let mut shop = Shop::new(traits);
    for _ in 0..100 {
        let token = shop.lock.try_lock();
        assert!(shop.finish(token), "a free lock");
    }
    shop.close(100);
}

pub(super) fn try_on_a_held_lock(traits: &Traits) {
    let mut shop = Shop::new(traits);
    let token = shop.lock.lock();
    assert!(shop.lock.try_lock().is_none(), "held by this thread");
    thread::scope(|scope| {
        scope.spawn(|| assert!(shop.lock.try_lock().is_none(), "held by another thread"));
    });
    shop.finish(Some(token));
    shop.close(1);
}

pub(super) fn is_locked_tells(traits: &Traits) {
    let lock = (traits.new)();
    assert!(!lock.is_locked());
    for tries in [false, true] {
        let token = if tries { lock.try_lock().expect("a free lock") } else { lock.lock() };
        assert!(lock.is_locked());
        // SAFETY: the token of the acquisition above.
        unsafe { lock.unlock(token) };
        assert!(!lock.is_locked());
    }
}

pub(super) fn zeroed_memory_is_unlocked(traits: &Traits) {
    let lock = (traits.zeroed)();
    assert!(!lock.is_locked());
    for _ in 0..3 {
        let token = lock.lock();
        assert!(lock.is_locked());
        // SAFETY: the token of the acquisition above.
        unsafe { lock.unlock(token) };
    }
    let token = lock.try_lock().expect("an unlocked lock");
    // SAFETY: as above.
    unsafe { lock.unlock(token) };
}

/// As after `mem::forget` of a guard: what the lock kept outside itself may go to another lock.
pub(super) fn a_lock_that_ends_held_locks_no_other(traits: &Traits) {
    for _ in 0..4 {
        let lock = (traits.new)();
        assert!(lock.try_lock().is_some(), "a new lock");
    }
}

pub(super) fn locks_nest(traits: &Traits) {
    const DEPTH: usize = 20;
    let shops: Vec<Shop> = (0..DEPTH).map(|_| Shop::new(traits)).collect();
    let rounds = traits.operations(500);
    shops[0].watch(&traits.name, || {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let tokens: Vec<_> = shops.iter().map(|shop| shop.lock.lock()).collect();
                        for (shop, token) in shops.iter().zip(tokens).rev() {
                            shop.finish(Some(token));
                        }
                    }
                });
            }
        });
    });
    for mut shop in shops {
        shop.close(2 * rounds as u64);
    }
}

pub(super) fn locks_are_released_in_any_order(traits: &Traits) {
    const DEPTH: usize = 7;
    let shops: Vec<Shop> = (0..DEPTH).map(|_| Shop::new(traits)).collect();
    let rounds = traits.operations(500);
    shops[0].watch(&traits.name, || {
        thread::scope(|scope| {
            for stride in [1, 3] {
                let shops = &shops;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let mut tokens: Vec<_> = shops.iter().map(|shop| Some(shop.lock.lock())).collect();
                        // Coprime to the depth: every lock once.
                        for step in 0..DEPTH {
                            let index = (round + step * stride) % DEPTH;
                            shops[index].finish(tokens[index].take());
                        }
                    }
                });
            }
        });
    });
    for mut shop in shops {
        shop.close(2 * rounds as u64);
    }
}

pub(super) fn many_locks_are_held_at_once(traits: &Traits) {
    const LOCKS: usize = 10_000;
    let mut shops: Vec<Shop> = (0..LOCKS).map(|_| Shop::new(traits)).collect();
    for _ in 0..2 {
        let tokens: Vec<_> = shops.iter().map(|shop| shop.lock.lock()).collect();
        assert!(shops.iter().all(|shop| shop.lock.try_lock().is_none()));
        for (shop, token) in shops.iter().zip(tokens) {
            shop.finish(Some(token));
        }
    }
    shops.iter_mut().for_each(|shop| shop.close(2));
}

pub(super) fn another_thread_releases(traits: &Traits) {
    let mut shop = Shop::new(traits);
    let rounds = traits.operations(1_000);
    shop.watch(&traits.name, || {
        thread::scope(|scope| {
            // A rival keeps the queue busy.
            scope.spawn(|| (0..rounds).for_each(|_| shop.locked()));
            let (send, receive) = std::sync::mpsc::sync_channel(0);
            scope.spawn(|| {
                for held in receive {
                    let held: Held = held;
                    shop.finish(Some(held));
                }
            });
            for _ in 0..rounds {
                send.send(shop.lock.lock()).expect("the releaser listens");
            }
        });
    });
    shop.close(2 * rounds as u64);
}

pub(super) fn a_thread_ends_while_it_holds(traits: &Traits) {
    let mut shop = Shop::new(traits);
    shop.watch(&traits.name, || {
        for _ in 0..20 {
            let held = thread::scope(|scope| {
                scope.spawn(|| shop.lock.lock()).join().expect("a thread that locks and ends")
            });
            assert!(shop.lock.is_locked());
            assert!(shop.lock.try_lock().is_none());
            thread::scope(|scope| {
                let waiter = scope.spawn(|| shop.locked());
                thread::yield_now();
                shop.finish(Some(held));
                waiter.join().expect("the next in the queue");
            });
        }
    });
    shop.close(40);
}

/// The pool serves any number of acquisitions from a few nodes. (Model checkers count them exactly.)
pub(super) fn nodes_are_returned(traits: &Traits) {
    // What two threads keep for themselves and move at once.
    const FEW: usize = 500;
    let mut shop = Shop::new(traits);
    let each = traits.operations(20_000);
    let seen = shop.watch(&traits.name, || {
        let use_it = || -> HashSet<Held> {
            let once = |_| {
                let token = shop.lock.lock();
                shop.unlock(token);
                token
            };
            (0..each).map(once).collect()
        };
        thread::scope(|scope| {
            let other = scope.spawn(use_it);
            let mut seen = use_it();
            seen.extend(other.join().expect("a user of the lock"));
            seen
        })
    });
    assert!(seen.len() <= FEW, "{} different nodes for {each} acquisitions a thread", seen.len());
    shop.close(0);
}

/// POSIX leaves it undefined; glibc's locks bear it, and so programs have it.
pub(super) fn an_unlock_too_many_changes_nothing(traits: &Traits) {
    const ROUNDS: usize = 3;
    let mut shop = Shop::new(traits);
    let each = traits.operations(500);
    shop.watch(&traits.name, || {
        for _ in 0..ROUNDS {
            let token = shop.lock.lock();
            shop.finish(Some(token));
            // Its holder keeps nothing that could be released twice.
            shop.unlock(token);
            assert!(!shop.lock.is_locked(), "unlocked twice");
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| (0..each).for_each(|_| shop.locked()));
                }
            });
        }
    });
    shop.close((ROUNDS * (1 + 3 * each)) as u64);
}
