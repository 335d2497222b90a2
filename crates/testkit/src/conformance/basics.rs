//! One or two threads: what a lock is.

use std::collections::HashSet;
use std::mem::{MaybeUninit, needs_drop};
use std::thread;

use lockwork_locks::RawLock;
use lockwork_locks::api::Token;
use lockwork_platform::Native;

use super::{Shop, Traits};

/// A token on its way to another thread, as the word it can be stored as.
struct Parcel(usize);

impl Parcel {
    fn wrap(token: impl Token) -> Self {
        Self(token.into_word())
    }

    fn unwrap<T: Token>(self) -> T {
        // SAFETY: wrapped from a token of the same lock.
        unsafe { T::from_word(self.0) }
    }
}

pub(super) fn excludes<L: RawLock<Native>>(traits: &Traits) {
    const SECTIONS: usize = 20_000;
    let mut shop = Shop::<L>::new();
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

pub(super) fn try_on_a_free_lock<L: RawLock<Native>>(_: &Traits) {
    let mut shop = Shop::<L>::new();
    for _ in 0..100 {
        let token = shop.lock.try_lock();
        assert!(shop.finish(token), "a free lock");
    }
    shop.close(100);
}

pub(super) fn try_on_a_held_lock<L: RawLock<Native>>(_: &Traits) {
    let mut shop = Shop::<L>::new();
    let token = shop.lock.lock();
    assert!(shop.lock.try_lock().is_none(), "held by this thread");
    thread::scope(|scope| {
        scope.spawn(|| assert!(shop.lock.try_lock().is_none(), "held by another thread"));
    });
    shop.finish(Some(token));
    shop.close(1);
}

pub(super) fn is_locked_tells<L: RawLock<Native>>(_: &Traits) {
    let lock = L::new();
    assert!(!lock.is_locked());
    for acquire in [L::lock, |lock: &L| lock.try_lock().expect("a free lock")] {
        let token = acquire(&lock);
        assert!(lock.is_locked());
        // SAFETY: the token of the acquisition above.
        unsafe { lock.unlock(token) };
        assert!(!lock.is_locked());
    }
}

pub(super) fn zeroed_memory_is_unlocked<L: RawLock<Native>>(_: &Traits) {
    let memory = MaybeUninit::<L>::zeroed();
    // SAFETY: `RawLock`: all-zero memory is an unlocked lock.
    let lock = unsafe { memory.assume_init() };
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

pub(super) fn locks_nest<L: RawLock<Native>>(traits: &Traits) {
    const DEPTH: usize = 20;
    let shops: Vec<Shop<L>> = (0..DEPTH).map(|_| Shop::new()).collect();
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

pub(super) fn locks_are_released_in_any_order<L: RawLock<Native>>(traits: &Traits) {
    const DEPTH: usize = 7;
    let shops: Vec<Shop<L>> = (0..DEPTH).map(|_| Shop::new()).collect();
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

pub(super) fn many_locks_are_held_at_once<L: RawLock<Native>>(_: &Traits) {
    const LOCKS: usize = 10_000;
    let mut shops: Vec<Shop<L>> = (0..LOCKS).map(|_| Shop::new()).collect();
    for _ in 0..2 {
        let tokens: Vec<_> = shops.iter().map(|shop| shop.lock.lock()).collect();
        assert!(shops.iter().all(|shop| shop.lock.try_lock().is_none()));
        for (shop, token) in shops.iter().zip(tokens) {
            shop.finish(Some(token));
        }
    }
    shops.iter_mut().for_each(|shop| shop.close(2));
}

pub(super) fn another_thread_releases<L: RawLock<Native>>(traits: &Traits) {
    let mut shop = Shop::<L>::new();
    let rounds = traits.operations(1_000);
    shop.watch(&traits.name, || {
        thread::scope(|scope| {
            // A rival keeps the queue busy.
            scope.spawn(|| (0..rounds).for_each(|_| shop.locked()));
            let (send, receive) = std::sync::mpsc::sync_channel(0);
            scope.spawn(|| {
                for parcel in receive {
                    let parcel: Parcel = parcel;
                    shop.finish(Some(parcel.unwrap()));
                }
            });
            for _ in 0..rounds {
                send.send(Parcel::wrap(shop.lock.lock())).expect("the releaser listens");
            }
        });
    });
    shop.close(2 * rounds as u64);
}

pub(super) fn a_thread_ends_while_it_holds<L: RawLock<Native>>(traits: &Traits) {
    let mut shop = Shop::<L>::new();
    shop.watch(&traits.name, || {
        for _ in 0..20 {
            let parcel = thread::scope(|scope| {
                scope.spawn(|| Parcel::wrap(shop.lock.lock())).join().expect("a thread that locks and ends")
            });
            assert!(shop.lock.is_locked());
            assert!(shop.lock.try_lock().is_none());
            thread::scope(|scope| {
                let waiter = scope.spawn(|| shop.locked());
                thread::yield_now();
                shop.finish(Some(parcel.unwrap()));
                waiter.join().expect("the next in the queue");
            });
        }
    });
    shop.close(40);
}

/// The pool serves any number of acquisitions from a few nodes. (Model checkers count them exactly.)
pub(super) fn nodes_are_returned<L: RawLock<Native>>(traits: &Traits) {
    // What two threads keep for themselves and move at once.
    const FEW: usize = 500;
    if !<L::Token as Token>::STORED {
        return;
    }
    let shop = Shop::<L>::new();
    let each = traits.operations(20_000);
    let seen = shop.watch(&traits.name, || {
        let use_it = || -> HashSet<usize> {
            let once = |_| {
                let token = shop.lock.lock();
                shop.unlock(token);
                token.into_word()
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
    assert!(!needs_drop::<L::Token>());
    assert!(seen.len() <= FEW, "{} different nodes for {each} acquisitions a thread", seen.len());
}
