//! POSIX times and clocks.

use core::ffi::c_int;

use lockwork_platform::{Clock, Deadline};

/// `struct timespec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

impl Timespec {
    /// The beginning of 1970.
    pub(crate) const EPOCH: Self = Self { seconds: 0, nanoseconds: 0 };
}

/// The clock of a POSIX id, if waits can be timed on it.
pub(crate) fn clock(id: c_int) -> Option<Clock> {
    match id {
        0 => Some(Clock::Realtime),
        1 => Some(Clock::Monotonic),
        _ => None,
    }
}

/// Whether a time has negative seconds.
///
/// # Safety
///
/// `time` points to a `timespec`.
pub(crate) unsafe fn is_before_origin(time: *const Timespec) -> bool {
    // SAFETY: the caller's contract.
    unsafe { (*time).seconds < 0 }
}

/// The deadline at `time` on `clock`; `None` if the nanoseconds are out of range. A time before the
/// clock's origin is a deadline long past.
///
/// # Safety
///
/// `time` points to a `timespec`.
pub(crate) unsafe fn deadline(clock: Clock, time: *const Timespec) -> Option<Deadline> {
    // SAFETY: the caller's contract.
    let Timespec { seconds, nanoseconds } = unsafe { *time };
    if !(0..1_000_000_000).contains(&nanoseconds) {
        return None;
    }
    let ns = u64::try_from(seconds)
        .map_or(0, |seconds| seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds as u64));
    Some(Deadline { clock, ns })
}
