//! Deadlines of the standard library as deadlines of a lock.

use std::time::{Duration, Instant};

use lockwork_platform::{Clock, Cpu, Deadline, Native};

/// The deadline `timeout` from now.
pub(crate) fn after(timeout: Duration) -> Deadline {
    let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    Deadline::after(Clock::Monotonic, Native::now(Clock::Monotonic), ns)
}

/// The deadline at `instant`. `Instant` does not show its number: it is measured from now.
pub(crate) fn at(instant: Instant) -> Deadline {
    after(instant.saturating_duration_since(Instant::now()))
}
