//! What time it is, and what time it was when a thread read the processor's counter.
//!
//! A thread reads the time from the processor's counter, which takes half as long as the clock, or less: the end of a wait is read
//! within the section, where others wait for it. It looks at the clock once in a while ([`READ_EVERY_NS`]), so that the rate of
//! the counter, which is known since the recorder started, matters for short distances only. A holder keeps what the counter shows
//! at a release as it is; a thread that looks at the release turns that into time.
//!
//! Invariant: a thread reads the time so while it is `busy` alone. A signal handler that did so in the middle would change the reading
//! that the thread goes by.

use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{Clock, sys};

use crate::format::{Region, Thread};

/// For how long a thread goes by one look at the clock.
const READ_EVERY_NS: u64 = 1_000_000;
/// After what time since the recorder's start the counter's rate is known well enough for that.
const RATE_IS_KNOWN_AFTER_NS: u64 = 10_000_000;
/// By what share of it a rate since the start may differ from the one that was known before.
const DRIFT: f64 = 0.005;

/// The monotonic clock.
pub(super) fn now() -> u64 {
    sys::now(Clock::Monotonic)
}

/// What clock and counter show at one moment, and the counter's rate since the recorder started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    ns: u64,
    ticks: u64,
    ns_per_tick: f64,
}

impl Times {
    /// The time at which the counter showed this. It is right for times near this one: the rate is an estimate.
    pub(super) fn of(&self, ticks: u64) -> u64 {
        let ago = self.ticks.wrapping_sub(ticks) as i64;
        self.ns.saturating_add_signed((ago as f64 * -self.ns_per_tick) as i64)
    }
}

/// The parts of a nanosecond that [`Reading::tick`](crate::format::Reading::tick) counts.
const PARTS: f64 = (1_u64 << 32) as f64;

impl Region {
    /// What time it is, by the thread's latest look at the clock.
    #[inline]
    pub(super) fn now_of(&self, thread: &Thread) -> u64 {
        let reading = &thread.reading;
        let ago = sys::ticks().wrapping_sub(reading.ticks.load(Relaxed));
        // After a jump of the counter this is a large number.
        if ago >= reading.is_good_for.load(Relaxed) {
            return self.look_at_clock(thread).ns;
        }
        reading.ns.load(Relaxed) + ((ago * reading.tick.load(Relaxed)) >> 32)
    }

    /// What clock and counter showed when the thread looked last, unless that is too long ago.
    pub(super) fn times_of(&self, thread: &Thread) -> Times {
        let reading = &thread.reading;
        let ticks = reading.ticks.load(Relaxed);
        if sys::ticks().wrapping_sub(ticks) >= reading.is_good_for.load(Relaxed) {
            return self.look_at_clock(thread);
        }
        let ns_per_tick = reading.tick.load(Relaxed) as f64 / PARTS;
        Times { ns: reading.ns.load(Relaxed), ticks, ns_per_tick }
    }

    #[cold]
    fn look_at_clock(&self, thread: &Thread) -> Times {
        let (ns, ticks) = clock_and_counter();
        let (ns_per_tick, is_known) = self.rate(ns, ticks);
        let is_good_for = if is_known { (READ_EVERY_NS as f64 / ns_per_tick) as u64 } else { 0 };
        let reading = &thread.reading;
        reading.ns.store(ns, Relaxed);
        reading.ticks.store(ticks, Relaxed);
        reading.tick.store((ns_per_tick * PARTS) as u64, Relaxed);
        reading.is_good_for.store(is_good_for, Relaxed);
        Times { ns, ticks, ns_per_tick }
    }

    /// The counter's rate, and whether it is to be relied on. It is that since the start, better known the longer that was ago, unless
    /// it has changed: then the counter or the clock has jumped since, as where a machine sleeps or moves. The rate stays what it was
    /// then, and threads look at the clock every time.
    fn rate(&self, ns: u64, ticks: u64) -> (f64, bool) {
        let header = &self.header;
        let since_start = ns.saturating_sub(header.started_ns.load(Relaxed));
        let ticks_since_start = ticks.wrapping_sub(header.started_ticks.load(Relaxed)).max(1);
        let rate = since_start as f64 / ticks_since_start as f64;
        if since_start < RATE_IS_KNOWN_AFTER_NS {
            return (rate, false);
        }
        let known = header.tick.load(Relaxed) as f64 / PARTS;
        if known != 0.0 && (rate / known - 1.0).abs() > DRIFT {
            return (known, false);
        }
        header.tick.store((rate * PARTS) as u64, Relaxed);
        (rate, true)
    }
}

/// What both show at one moment. If the thread seems to have lost its CPU between the readings, it reads again.
pub(super) fn clock_and_counter() -> (u64, u64) {
    const LOOKS: usize = 4;
    const NARROW: u64 = 1_000;
    let mut narrowest = (u64::MAX, 0, 0);
    for _ in 0..LOOKS {
        let before = sys::ticks();
        let ns = now();
        let width = sys::ticks().wrapping_sub(before);
        if width < narrowest.0 {
            // The clock was read in the middle.
            narrowest = (width, ns, before.wrapping_add(width / 2));
        }
        if width <= NARROW {
            break;
        }
    }
    (narrowest.1, narrowest.2)
}
