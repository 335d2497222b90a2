//! What time it is, and what time it was when a thread read the processor's counter.
//!
//! Waits are timed by the monotonic clock. Releases are timed by the processor's counter, which takes a third of the time to
//! read: the holder reads it within its section. A thread that looks at a release turns its count into time.

use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{Clock, sys};

use crate::format::Region;

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
    /// The time at which the counter showed this. It is right for the recent past: the rate is an estimate.
    pub(super) fn of(&self, ticks: u64) -> u64 {
        let ago = self.ticks.wrapping_sub(ticks) as i64;
        self.ns.saturating_sub((ago.max(0) as f64 * self.ns_per_tick) as u64)
    }
}

impl Region {
    /// Reads both.
    pub(super) fn times(&self) -> Times {
        let before = sys::ticks();
        let ns = now();
        // The clock was read in the middle.
        let ticks = before.wrapping_add(sys::ticks().wrapping_sub(before) / 2);
        let since_start = ns.saturating_sub(self.header.started_ns.load(Relaxed));
        let ticks_since_start = ticks.wrapping_sub(self.header.started_ticks.load(Relaxed)).max(1);
        Times { ns, ticks, ns_per_tick: since_start as f64 / ticks_since_start as f64 }
    }
}
