//! `pthread_mutex_timedlock` and `pthread_mutex_clocklock`.

use core::ffi::c_int;

use lockwork_platform::Clock;

use super::table::{self, Ops};
use super::{decided, own, reacquire};
use crate::abi::entry::with_caller;
use crate::abi::errno::{EBUSY, EDEADLK, EINVAL, ETIMEDOUT};
use crate::abi::layout::{Mutex, MutexKind};
use crate::abi::real;
use crate::abi::time::{self, Timespec};
use crate::layers::profile::{self, mutex as profiled};
use crate::layers::{self, How};

with_caller! {
    /// POSIX.
    #[unsafe(no_mangle)]
    pthread_mutex_timedlock(mutex: *mut Mutex, time: *const Timespec), "rdx", "x2", timedlock_from_entry
}
with_caller! {
    /// POSIX 2024; `std::timed_mutex` uses it.
    #[unsafe(no_mangle)]
    pthread_mutex_clocklock(mutex: *mut Mutex, clock: c_int, time: *const Timespec), "rcx", "x3", clocklock_from_entry
}

pub(in crate::serve) unsafe extern "C" fn timedlock_from_entry(
    mutex: *mut Mutex,
    time: *const Timespec,
    caller: usize,
) -> c_int {
    // SAFETY: the program's arguments.
    let lock = || unsafe { timedlock_from(mutex, time, caller) };
    // SAFETY: as above.
    if profile::is_loaded() { unsafe { profiled::timed(mutex, caller, lock) } } else { lock() }
}

unsafe extern "C" fn clocklock_from_entry(
    mutex: *mut Mutex,
    clock: c_int,
    time: *const Timespec,
    caller: usize,
) -> c_int {
    // SAFETY: the program's arguments.
    let lock = || unsafe { clocklock_from(mutex, clock, time, caller) };
    // A clock that there is not is refused whether the mutex is free or not.
    let is_profiled = profile::is_loaded() && time::clock(clock).is_some();
    // SAFETY: as above.
    if is_profiled { unsafe { profiled::timed(mutex, caller, lock) } } else { lock() }
}

unsafe fn timedlock_from(mutex: *mut Mutex, time: *const Timespec, caller: usize) -> c_int {
    // SAFETY: the program's arguments.
    match unsafe { timed(mutex, Clock::Realtime, time, caller) } {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real::pthread_mutex_timedlock(mutex, time) },
    }
}

unsafe fn clocklock_from(mutex: *mut Mutex, clock: c_int, time: *const Timespec, caller: usize) -> c_int {
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
    let kind = it.kind();
    if kind == MutexKind::Forwarded {
        return None;
    }
    let ops = table::ops(decided(it, caller))?;
    if kind != MutexKind::Normal
        && let Some(result) = reacquire(it, kind, EDEADLK)
    {
        return Some(result);
    }
    // SAFETY: the mutex has this entry's tag, and the time is the program's.
    let result = layers::acquire(table::event(How::Timed), || unsafe { acquire(mutex, ops, clock, time) });
    if result == 0 && kind != MutexKind::Normal {
        own(it);
    }
    Some(result)
}

/// Acquires a mutex that these operations serve, until a time.
unsafe fn acquire(mutex: *mut Mutex, ops: &Ops, clock: Clock, time: *const Timespec) -> c_int {
    // A mutex that is free is acquired whatever the time says, as POSIX has it.
    // SAFETY: the caller's contract.
    let result = unsafe { (ops.trylock)(mutex) };
    if result != EBUSY {
        return result;
    }
    // glibc looks at the sign of the seconds first, for mutexes alone.
    // SAFETY: the program's time.
    if unsafe { time::is_before_origin(time) } {
        return ETIMEDOUT;
    }
    // SAFETY: as above.
    let Some(deadline) = (unsafe { time::deadline(clock, time) }) else { return EINVAL };
    if deadline.ns == u64::MAX {
        // Centuries ahead: the plain acquisition does the same and needs no clock.
        // SAFETY: the caller's contract.
        return unsafe { (ops.lock)(mutex) };
    }
    // SAFETY: the program's mutex.
    let it = unsafe { Mutex::at(mutex) };
    // SAFETY: the caller's contract.
    if unsafe { (ops.lock_until)(it, deadline) } { 0 } else { ETIMEDOUT }
}
