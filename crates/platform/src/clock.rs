//! Clocks and absolute deadlines, as POSIX names them.

/// The clock of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Wall-clock time: jumps when an administrator sets it, and deadlines follow the jump.
    Realtime,
    /// Time since boot, never set back.
    Monotonic,
}

/// An absolute point in time at which a wait gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The clock it is measured on.
    pub clock: Clock,
    /// Nanoseconds since the clock's origin; saturated, so `u64::MAX` is "never" for all practical purposes.
    pub ns: u64,
}

impl Deadline {
    /// The deadline `ns` nanoseconds after `now` on `clock`.
    #[must_use]
    pub fn after(clock: Clock, now: u64, ns: u64) -> Self {
        Self { clock, ns: now.saturating_add(ns) }
    }
}
