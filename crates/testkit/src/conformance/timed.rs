//! Deadlines. No test says how soon after its deadline a waiter gives up: machines are noisy.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use lockwork_platform::{Clock, Cpu, Deadline, Native, Waiters};

use super::shop::{A_WHILE, PASSED, in_ms};
use super::{Shop, Traits};

pub(super) fn a_passed_deadline_fails_on_a_held_lock(traits: &Traits) {
    let mut shop = Shop::new(traits);
    shop.watch(&traits.name, || {
        let token = shop.lock.lock();
        for deadline in [PASSED, Deadline { clock: Clock::Realtime, ns: 1 }, in_ms(0)] {
            assert!(shop.lock.try_lock_until(deadline).is_none());
        }
        shop.finish(Some(token));
    });
    shop.close(1);
}

pub(super) fn a_passed_deadline_succeeds_on_a_free_lock(traits: &Traits) {
    let mut shop = Shop::new(traits);
    for _ in 0..10 {
        let token = shop.lock.try_lock_until(PASSED);
        assert!(shop.finish(token), "POSIX: no time-out if the lock can be had at once");
    }
    shop.close(10);
}

pub(super) fn a_deadline_is_met_in_time(traits: &Traits) {
    let mut shop = Shop::new(traits);
    shop.watch(&traits.name, || {
        let token = shop.lock.lock();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| shop.finish(shop.lock.try_lock_until(in_ms(200_000))));
            thread::sleep(A_WHILE);
            shop.finish(Some(token));
            assert!(waiter.join().expect("a waiter"), "released long before the deadline");
        });
    });
    shop.close(2);
}

pub(super) fn waits_until_the_deadline(traits: &Traits) {
    let mut shop = Shop::new(traits);
    shop.watch(&traits.name, || {
        let token = shop.lock.lock();
        let deadline = in_ms(20);
        assert!(shop.lock.try_lock_until(deadline).is_none());
        assert!(Native::now(deadline.clock) >= deadline.ns, "gave up early");
        shop.finish(Some(token));
    });
    shop.close(1);
}

pub(super) fn the_wall_clock_is_a_clock_too(traits: &Traits) {
    let mut shop = Shop::new(traits);
    shop.watch(&traits.name, || {
        let token = shop.lock.lock();
        let deadline = Deadline::after(Clock::Realtime, Native::now(Clock::Realtime), 10_000_000);
        assert!(shop.lock.try_lock_until(deadline).is_none());
        assert!(Native::now(deadline.clock) >= deadline.ns, "gave up early");
        shop.finish(Some(token));
    });
    shop.close(1);
}

/// Waiters leave at the front, in the middle and at the end of the queue; the others are served all the same.
pub(super) fn those_behind_a_leaver_are_served(traits: &Traits) {
    const THREADS: usize = 7;
    for leaves in [|n: usize| n == 0, |n| n == 3, |n| n == THREADS - 1, |n| n % 2 == 0, |_| true] {
        // On a busy machine the first may leave before the last has come.
        let all_were_there =
            [5, 50, 500, 5_000].iter().any(|&ms| line_up_and_leave(traits, THREADS, leaves, ms));
        assert!(all_were_there, "{THREADS} threads never waited at once");
    }
}

/// Has threads wait, of which some leave after so many milliseconds. Whether all waited before any left.
fn line_up_and_leave(traits: &Traits, threads: usize, leaves: fn(usize) -> bool, ms: u64) -> bool {
    let mut shop = Shop::new(traits);
    let stayers = (0..threads).filter(|n| !leaves(*n)).count();
    let all_were_there = shop.watch(&traits.name, || {
        let token = shop.lock.lock();
        thread::scope(|scope| {
            let mut leavers = Vec::new();
            for number in 0..threads {
                let shop = &shop;
                let waiter = scope.spawn(move || {
                    shop.arriving.fetch_add(1, Relaxed);
                    if leaves(number) {
                        assert!(shop.lock.try_lock_until(in_ms(ms)).is_none(), "the lock is held until then");
                    } else {
                        shop.locked();
                    }
                });
                while shop.arriving.load(Relaxed) != number + 1 {
                    thread::yield_now();
                }
                if leaves(number) {
                    leavers.push(waiter);
                }
            }
            let all_wait = || Native::waiters_of(shop.lock.address()) == threads;
            let all_were_there = loop {
                if all_wait() {
                    break true;
                }
                if leavers.iter().any(|leaver| leaver.is_finished()) {
                    break false;
                }
                thread::yield_now();
            };
            for leaver in leavers {
                leaver.join().expect("a waiter that gives up");
            }
            shop.finish(Some(token));
            all_were_there
        })
    });
    shop.close(stayers as u64 + 1);
    all_were_there
}

pub(super) fn deadlines_race_with_releases(traits: &Traits) {
    let mut shop = Shop::new(traits);
    let rounds = traits.operations(2_000) as u64;
    let met = AtomicU64::new(0);
    shop.watch(&traits.name, || {
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..rounds {
                    // From "has passed" to "in 40 µs": around the length of the other's section.
                    let ns = round % 64 * 640;
                    let deadline = Deadline::after(Clock::Monotonic, Native::now(Clock::Monotonic), ns);
                    met.fetch_add(u64::from(shop.finish(shop.lock.try_lock_until(deadline))), Relaxed);
                }
            });
            for round in 0..rounds {
                let token = shop.lock.lock();
                Native::pause_n((round % 32) as u32 * 20);
                shop.finish(Some(token));
            }
        });
    });
    shop.close(rounds + met.into_inner());
}

pub(super) fn a_storm_of_deadlines(traits: &Traits) {
    const THREADS: usize = 8;
    let mut shop = Shop::new(traits);
    let rounds = traits.operations(1_000) as u64;
    let met = AtomicU64::new(0);
    shop.watch(&traits.name, || {
        thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let (shop, met) = (&shop, &met);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let ns = (thread * 7 + round) % 16 * 10_000;
                        let deadline = Deadline::after(Clock::Monotonic, Native::now(Clock::Monotonic), ns);
                        met.fetch_add(u64::from(shop.finish(shop.lock.try_lock_until(deadline))), Relaxed);
                    }
                });
            }
        });
    });
    shop.close(met.into_inner());
}
