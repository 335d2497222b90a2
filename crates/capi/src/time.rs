//! POSIX times as deadlines.

use core::ffi::c_int;

use lockwork_platform::{Clock, Deadline};

use crate::error;

/// `struct timespec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// `CLOCK_REALTIME`.
pub(crate) const REALTIME: c_int = 0;
/// `CLOCK_MONOTONIC`.
const MONOTONIC: c_int = 1;

/// The deadline at `time` on the clock `id`; `None` after the reason has been kept.
///
/// # Safety
///
/// `time` is null or points to a `timespec`.
pub(crate) unsafe fn deadline(id: c_int, time: *const Timespec) -> Option<Deadline> {
    let clock = match id {
        REALTIME => Clock::Realtime,
        MONOTONIC => Clock::Monotonic,
        _ => {
            error::set("waits are timed on CLOCK_REALTIME or CLOCK_MONOTONIC");
            return None;
        }
    };
    // SAFETY: the caller's contract.
    let Some(&Timespec { seconds, nanoseconds }) = (unsafe { time.as_ref() }) else {
        error::set("the time is a null pointer");
        return None;
    };
    if !(0..1_000_000_000).contains(&nanoseconds) {
        error::set("tv_nsec is not between 0 and 999,999,999");
        return None;
    }
    // A time before the clock's origin is a deadline long past.
    let ns = u64::try_from(seconds)
        .map_or(0, |seconds| seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds as u64));
    Some(Deadline { clock, ns })
}
