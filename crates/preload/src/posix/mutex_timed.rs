//! `pthread_mutex_timedlock` and `pthread_mutex_clocklock`.

use core::ffi::c_int;

use lockwork_platform::Clock;

use super::entry::with_caller;
use super::mutex::{decided, own, pthread_mutex_lock, pthread_mutex_trylock};
use super::time::{self, Timespec};
use super::{EBUSY, EDEADLK, EINVAL, ETIMEDOUT};
use crate::layout::{Mutex, MutexKind};
use crate::{real, slices, table};

with_caller! {
    /// POSIX.
    #[unsafe(no_mangle)]
    pthread_mutex_timedlock(mutex: *mut Mutex, time: *const Timespec), "rdx", "x2", timedlock_from
}
with_caller! {
    /// POSIX 2024; `std::timed_mutex` uses it.
    #[unsafe(no_mangle)]
    pthread_mutex_clocklock(mutex: *mut Mutex, clock: c_int, time: *const Timespec), "rcx", "x3", clocklock_from
}

unsafe extern "C" fn timedlock_from(mutex: *mut Mutex, time: *const Timespec, caller: usize) -> c_int {
    // SAFETY: the program's arguments.
    match unsafe { timed(mutex, Clock::Realtime, time, caller) } {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real::pthread_mutex_timedlock(mutex, time) },
    }
}

unsafe extern "C" fn clocklock_from(
    mutex: *mut Mutex,
    clock: c_int,
    time: *const Timespec,
    caller: usize,
) -> c_int {
    let Some(clock_to_use) = time::clock(clock) else { return EINVAL };
    // SAFETY: the program's arguments.
    match unsafe { timed(mutex, clock_to_use, time, caller) } {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real::pthread_mutex_clocklock(mutex, clock, time) },
    }
}

/// Acquires until a time; `None` if the mutex is glibc's. `caller` is the code location that uses it.
unsafe fn timed(mutex: *mut Mutex, clock: Clock, time: *const Timespec, caller: usize) -> Option<c_int> {
    // SAFETY: the program's mutex.
    let it = unsafe { Mutex::at(mutex) };
    if it.kind() == MutexKind::ErrorCheck && super::mutex::is_owner(it) {
        return Some(EDEADLK);
    }
    if it.kind() == MutexKind::Forwarded {
        return None;
    }
    decided(it, caller);
    // A mutex that is free is acquired whatever the time says, as POSIX has it.
    // SAFETY: as above.
    let result = unsafe { pthread_mutex_trylock(mutex) };
    if result != EBUSY {
        return Some(result);
    }
    let ops = table::ops(it.tag())?;
    // glibc looks at the sign of the seconds first, for mutexes alone.
    // SAFETY: the program's time.
    if unsafe { time::is_before_origin(time) } {
        return Some(ETIMEDOUT);
    }
    // SAFETY: as above.
    let Some(deadline) = (unsafe { time::deadline(clock, time) }) else { return Some(EINVAL) };
    if deadline.ns == u64::MAX {
        // Centuries ahead: the plain acquisition does the same and needs no clock.
        // SAFETY: as above.
        return Some(unsafe { pthread_mutex_lock(mutex) });
    }
    // SAFETY: the mutex has this entry's tag.
    if !unsafe { (ops.lock_until)(it, deadline) } {
        return Some(ETIMEDOUT);
    }
    slices::acquired();
    if it.kind() != MutexKind::Normal {
        own(it);
    }
    Some(0)
}
