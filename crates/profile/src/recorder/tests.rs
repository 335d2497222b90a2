//! The recorder as a library calls it, on a region without a file.

use core::sync::atomic::Ordering::Relaxed;
use std::boxed::Box;

use super::clock::now;
use super::wait::SURE_WAITS;
use super::{Begun, Call, Target};
use crate::format::{HELD, Kind, Logged, Mode, PARKED, Region, Thread};

const CALL: Call = Call { caller: 1, frame: 0 };

/// A region that records, and where its only thread does so: a thread none of whose next acquisitions is a sample.
fn started() -> (Box<Region>, usize) {
    let region = Region::in_memory();
    region.start(1, b"test", 50_000, 1024, true);
    let thread = region.enter_thread(7, |_| true).unwrap();
    thread.countdown.store(1000, Relaxed);
    let place = region.threads.iter().position(|other| core::ptr::eq(other, thread)).unwrap();
    (region, place)
}

fn mutex(address: usize) -> Target {
    Target { address, mode: Mode::Mutex, server: 0 }
}

fn release(region: &Region, thread: &Thread, address: usize) {
    if !region.forgets(thread, address)
        && let Some(releasing) = region.before_release(thread, address, || 0)
    {
        region.after_release(thread, &releasing, CALL);
    }
}

#[test]
fn what_passes_is_held_until_it_is_forgotten() {
    let (region, place) = started();
    let thread = &region.threads[place];
    for address in [64, 128, 192] {
        assert!(Region::passes(thread, address, CALL));
    }
    // The one in the middle first, which is not the latest.
    assert!(!region.forgets(thread, 128));
    release(&region, thread, 128);
    let held = |place: usize| thread.held[place].address();
    assert_eq!((thread.held_count.load(Relaxed), held(0), held(1)), (2, 64, 192));
    assert!(region.forgets(thread, 192) && region.forgets(thread, 64));
    assert!(!region.forgets(thread, 64));
    assert_eq!(thread.countdown.load(Relaxed), 997);
    assert_eq!(region.header.locks.load(Relaxed), 0);
}

#[test]
fn a_sample_does_not_pass() {
    let (region, place) = started();
    let thread = &region.threads[place];
    thread.countdown.store(1, Relaxed);
    assert!(!Region::passes(thread, 64, CALL));
    assert_eq!(thread.held_count.load(Relaxed), 0);
    assert_eq!(region.about_to(thread, 64, Mode::Mutex, CALL, false), Begun::Followed);
    region.acquired(thread);
    assert!(!region.forgets(thread, 64));
    release(&region, thread, 64);
    let index = region.look_up(Kind::Mutex, 64) as usize;
    assert_eq!(region.locks[index].uncontended.load(Relaxed), 1);
    thread.countdown.store(1000, Relaxed);
    // The next acquisition ends a think time.
    assert!(!Region::passes(thread, 64, CALL));
    assert!(Region::passes(thread, 128, CALL));
}

#[test]
fn a_wait_of_what_passes_is_noted() {
    let (region, place) = started();
    let thread = &region.threads[place];
    assert!(Region::passes(thread, 64, CALL));
    region.wait_begins(thread, mutex(64));
    assert_eq!((thread.waiting_for.load(Relaxed), region.watchers(64).load(Relaxed)), (64, 1));
    region.wait_ends(thread);
    assert_eq!((thread.waiting_for.load(Relaxed), region.watchers(64).load(Relaxed)), (0, 0));
    // A second end is none: that of a wait on a condition, say.
    let since = thread.held[0].since.load(Relaxed);
    region.wait_ends(thread);
    assert_eq!(thread.held[0].since.load(Relaxed), since);
    assert!(!region.forgets(thread, 64));
    release(&region, thread, 64);
    let index = region.look_up(Kind::Mutex, 64) as usize;
    assert_eq!(region.locks[index].contended.load(Relaxed), 0);
    region.settle(thread);
    assert_eq!(region.locks[index].contended.load(Relaxed), 1);
    assert_eq!(thread.held_count.load(Relaxed), 0);
    // The place is as new.
    assert!(Region::passes(thread, 128, CALL) && region.forgets(thread, 128));
}

/// Waits for a lock of ours that were not watched: all are counted, and their releases are plain, but for those at which the
/// thread's own log is full.
#[test]
fn waits_that_end_soon_are_counted_without_being_watched() {
    let (region, place) = started();
    let thread = &region.threads[place];
    let [mine, others] = [64, 128].map(|address| Target { address, mode: Mode::Mutex, server: 3 });
    thread.waits.store(SURE_WAITS, Relaxed);
    let (mut plain, mut number) = (0_u64, 0_u64);
    for round in 0..1000_u64 {
        let target = if round % 10 == 9 { others } else { mine };
        // No sampled point is near.
        thread.wait_left_ns.store(u64::MAX, Relaxed);
        thread.countdown.store(1000, Relaxed);
        assert!(Region::passes(thread, target.address, CALL));
        region.wait_begins(thread, target);
        assert_eq!(region.watchers(target.address as u64).load(Relaxed), 0);
        region.wait_ends(thread);
        number += 1;
        if region.forgets(thread, target.address) {
            plain += 1;
        } else {
            release(&region, thread, target.address);
        }
        assert_eq!(thread.held_count.load(Relaxed), 0);
    }
    assert!(plain > number * 9 / 10, "{plain}");
    region.settle(thread);
    let lock = |target: Target| &region.locks[region.look_up(Kind::Mutex, target.address as u64) as usize];
    let contended = [mine, others].map(|target| lock(target).contended.load(Relaxed));
    assert_eq!(contended, [900, 100]);
    let in_histogram: u64 = lock(mine).wait.weights().sum();
    assert_eq!((in_histogram, lock(mine).uncontended.load(Relaxed)), (900, 0));
    assert_eq!(lock(mine).parts[PARKED].ns.load(Relaxed), 0);
    region.settle(thread);
    assert_eq!(lock(mine).contended.load(Relaxed), 900);
}

/// A wait in which the thread sleeps is watched from then on, and split into what it slept and the rest.
#[test]
fn a_wait_that_goes_on_is_watched() {
    let (region, place) = started();
    let thread = &region.threads[place];
    thread.waits.store(SURE_WAITS, Relaxed);
    thread.wait_left_ns.store(u64::MAX, Relaxed);
    assert!(Region::passes(thread, 64, CALL));
    region.wait_begins(thread, Target { address: 64, mode: Mode::Mutex, server: 3 });
    assert_eq!(region.watchers(64).load(Relaxed), 0);
    region.wait_goes_on(thread);
    region.wait_goes_on(thread);
    assert_eq!(region.watchers(64).load(Relaxed), 1);
    assert_ne!(thread.waiting_stack.load(Relaxed), 0);
    thread.parks();
    std::thread::sleep(core::time::Duration::from_millis(2));
    thread.unparks();
    region.wait_ends(thread);
    assert_eq!(region.watchers(64).load(Relaxed), 0);
    region.wait_goes_on(thread);
    assert_eq!(region.watchers(64).load(Relaxed), 0);
    release(&region, thread, 64);
    region.settle(thread);
    let lock = &region.locks[region.look_up(Kind::Mutex, 64) as usize];
    let [waited, parked] = [&lock.wait_ns, &lock.parts[PARKED].ns].map(|ns| ns.load(Relaxed));
    assert!(parked >= 1_000_000 && parked <= waited, "{parked} of {waited}");
    assert_eq!((lock.contended.load(Relaxed), lock.waiting.load(Relaxed)), (1, 0));
    assert_eq!(lock.waiting_max.load(Relaxed), 1);
}

/// What a thread that ended without a word kept for itself is not lost.
#[test]
fn the_next_of_a_place_settles_for_the_one_before() {
    let (region, place) = started();
    let thread = &region.threads[place];
    let index = region.record(Kind::Mutex, 64, 0, 3);
    let wait = Logged { lock: index, mode: Mode::Mutex, is_outer: true, is_parked: false, ns: 700 };
    assert!(Region::log(thread, wait, 300));
    for other in region.threads.iter().filter(|other| other.tid.load(Relaxed) == 0) {
        other.tid.store(9, Relaxed);
    }
    let next = region.enter_thread(8, |tid| tid != 7).unwrap();
    assert!(core::ptr::eq(next, thread));
    let lock = &region.locks[index as usize];
    let figures = [&lock.contended, &lock.wait_ns, &lock.outer_wait_ns, &lock.parts[PARKED].ns];
    assert_eq!(figures.map(|figure| figure.load(Relaxed)), [1, 700, 700, 300]);
    assert_eq!(next.logged.load(Relaxed), 0);
}

/// A wait on a condition during which the recorder was off is not charged, and its thread does not wait for ever.
#[test]
fn a_wait_across_a_switch_is_none() {
    let (region, place) = started();
    let thread = &region.threads[place];
    let figures = || {
        region.settle(thread);
        let lock = &region.locks[region.look_up(Kind::Cond, 64) as usize];
        (lock.contended.load(Relaxed), lock.waiting.load(Relaxed), thread.waiting_for.load(Relaxed))
    };
    region.cond_wait_begins(thread, 64, CALL);
    assert_eq!(figures(), (0, 1, 64));
    region.switch(false);
    region.switch(true);
    region.cond_wait_ends(thread);
    assert_eq!(figures(), (0, 0, 0));
    // As every operation does that follows.
    assert_eq!(region.about_to(thread, 8, Mode::Mutex, CALL, false), Begun::Followed);
    region.acquired(thread);
    region.cond_wait_begins(thread, 64, CALL);
    region.switch(false);
    region.cond_wait_ends(thread);
    assert_eq!(figures(), (0, 0, 0));
    region.switch(true);
    assert_eq!(region.about_to(thread, 8, Mode::Mutex, CALL, false), Begun::Followed);
    region.cond_wait_begins(thread, 64, CALL);
    region.cond_wait_ends(thread);
    assert_eq!(figures(), (1, 0, 0));
}

/// Releases in a row are one entry of the ring, until a thread has had the lock that waited for it.
#[test]
fn releases_in_a_row_are_one() {
    let (region, place) = started();
    let thread = &region.threads[place];
    let lock = &region.locks[region.record(Kind::Mutex, 64, 0, 0) as usize];
    region.watchers(64).store(1, Relaxed);
    let pass = |call: Call| {
        assert!(Region::passes(thread, 64, CALL) && !region.forgets(thread, 64));
        let repeats = region.repeats(thread, 64, call);
        if !repeats {
            let releasing = region.before_release(thread, 64, || 0).unwrap();
            region.after_release(thread, &releasing, call);
        }
        (repeats, lock.releases.load(Relaxed), thread.held_count.load(Relaxed))
    };
    assert_eq!(pass(CALL), (false, 1, 0));
    let at = lock.ring[0].at.load(Relaxed);
    assert_eq!([pass(CALL), pass(CALL)], [(true, 1, 0); 2]);
    assert!(lock.ring[0].at.load(Relaxed) > at);
    lock.hand_overs.store(1, Relaxed);
    assert_eq!([pass(CALL), pass(CALL)], [(false, 2, 0), (true, 2, 0)]);
    // From elsewhere; and after a release by another thread.
    assert_eq!(pass(Call { caller: 2, frame: 0 }), (false, 3, 0));
    lock.releases.store(4, Relaxed);
    assert_eq!(pass(Call { caller: 2, frame: 0 }), (false, 5, 0));
}

#[test]
fn a_release_that_somebody_waits_for_is_noted() {
    let (region, place) = started();
    let thread = &region.threads[place];
    assert!(Region::passes(thread, 64, CALL));
    region.watchers(64).store(1, Relaxed);
    assert!(!region.forgets(thread, 64));
    // Nobody noted that lock yet, so that there is no ring for it.
    release(&region, thread, 64);
    assert_eq!(thread.held_count.load(Relaxed), 0);
}

#[test]
fn nothing_passes_when_the_list_is_full_or_out_of_date() {
    let (region, place) = started();
    let thread = &region.threads[place];
    for number in 0..HELD {
        assert!(Region::passes(thread, 64 + 64 * number, CALL));
    }
    assert!(!Region::passes(thread, 8, CALL));
    region.switch(false);
    region.switch(true);
    thread.held_count.store(0, Relaxed);
    assert!(!Region::passes(thread, 8, CALL));
    assert_eq!(region.about_to(thread, 8, Mode::Mutex, CALL, false), Begun::Followed);
}

const TOLERANCE_NS: u64 = 20_000;

/// The thread reads the time as the clock has it. What that showed before and after.
fn reads_the_clock(region: &Region, thread: &Thread) -> (u64, u64) {
    let before = now();
    let time = region.now_of(thread);
    let after = now();
    assert!(
        time + TOLERANCE_NS >= before && time <= after + TOLERANCE_NS,
        "{time} between {before} and {after}"
    );
    (before, after)
}

/// The time that a thread reads from the processor's counter is the clock's, before and after that is trusted.
#[test]
fn the_time_of_a_thread_is_that_of_the_clock() {
    let (region, place) = started();
    let thread = &region.threads[place];
    let begin = now();
    let (mut looks, mut readings) = (0_u64, 0_u64);
    while now() - begin < 30_000_000 {
        let reading = thread.reading.ticks.load(Relaxed);
        let (before, after) = reads_the_clock(&region, thread);
        if before - begin > 12_000_000 {
            readings += 1;
            looks += u64::from(thread.reading.ticks.load(Relaxed) != reading);
        }
        let times = region.times_of(thread);
        let at = times.of(lockwork_platform::sys::ticks());
        assert!(at + TOLERANCE_NS >= after && at <= now() + TOLERANCE_NS, "{at} after {after}");
    }
    // From 10 ms on a thread looks at the clock a thousand times a second.
    assert!(looks <= 25 && readings > looks, "{looks} looks, {readings} readings");
    assert_ne!(thread.reading.is_good_for.load(Relaxed), 0);
}

/// A machine that slept, or moved to another host.
#[test]
fn a_counter_that_has_jumped_is_relied_on_no_more() {
    const AN_HOUR_OF_TICKS: u64 = 3_600 * 2_000_000_000;
    for ahead in [AN_HOUR_OF_TICKS, AN_HOUR_OF_TICKS.wrapping_neg()] {
        let (region, place) = started();
        let thread = &region.threads[place];
        let begin = now();
        // The thread may lose its CPU for longer than the rate takes to be known.
        let rate = loop {
            region.now_of(thread);
            match region.header.tick.load(Relaxed) {
                0 => assert!(
                    now() - begin < 10_000_000_000,
                    "the counter's rate is not known after ten seconds"
                ),
                rate => break rate,
            }
        };
        // As if the counter had jumped by so much since.
        region.header.started_ticks.fetch_sub(ahead, Relaxed);
        thread.reading.ticks.fetch_sub(ahead, Relaxed);
        for _ in 0..3 {
            reads_the_clock(&region, thread);
            assert_eq!(thread.reading.is_good_for.load(Relaxed), 0);
            assert_eq!(thread.reading.tick.load(Relaxed), rate);
        }
    }
}
