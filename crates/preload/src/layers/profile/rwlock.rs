//! Reader-writer locks: see [`super::mutex`].

use core::ffi::c_int;

use lockwork_platform::Clock;
use lockwork_profile::format::Mode;
use lockwork_profile::process;
use lockwork_profile::recorder::{Begun, Target};

use super::{call, recording, settle};
use crate::abi::entrances::RWLOCK_OPERATIONS;
use crate::abi::entry::with_call;
use crate::abi::errno::EBUSY;
use crate::abi::layout::{RWLOCK_GLIBC, RwLock};
use crate::abi::real;
use crate::abi::time::{self, Timespec};
use crate::serve::rwlock::unprofiled;

/// The lock as the recorder wants it.
pub(super) fn target(address: usize, mode: Mode) -> Target {
    use core::sync::atomic::Ordering::Relaxed;
    // SAFETY: the program's lock, which the calling thread operates on.
    let server = unsafe { RwLock::at(address as *mut RwLock) }.server.load(Relaxed);
    Target { address, mode, server: if server <= RWLOCK_GLIBC { 0 } else { server } }
}

macro_rules! waits {
    ($enter:ident, $function:ident, $mode:expr, $position:tt, ($($argument:ident: $type:ty),*), ($($unused:expr),*), $attempt:path) => {
        with_call! {
            /// The entry point goes here.
            $enter, 3, $function
        }

        unsafe extern "C" fn $function(
            lock: *mut RwLock,
            first: usize,
            second: usize,
            caller: usize,
            frame: usize,
        ) -> c_int {
            let _ = (first, second);
            waits!(@arguments $position first second $($argument: $type),*);
            // SAFETY: the program's arguments.
            let acquire = || unsafe { unprofiled::$function(lock, $($argument,)* $($unused,)* caller) };
            // glibc refuses times and clocks that are none whether the lock is free or not.
            let is_valid = waits!(@valid $position first second);
            // SAFETY: the program's lock.
            let attempt = || if is_valid { unsafe { $attempt(lock) } } else { acquire() };
            // SAFETY: as above.
            unsafe { waiting(lock, $mode, [caller, frame], acquire, attempt) }
        }
    };
    (@valid none $first:ident $second:ident) => {
        true
    };
    (@valid one $first:ident $second:ident) => {
        // SAFETY: the program's time.
        unsafe { time::deadline(Clock::Realtime, $first as *const Timespec) }.is_some()
    };
    (@valid two $first:ident $second:ident) => {
        time::clock($first as c_int).is_some_and(|clock| {
            // SAFETY: the program's time.
            unsafe { time::deadline(clock, $second as *const Timespec) }.is_some()
        })
    };
    (@arguments none $first:ident $second:ident) => {};
    (@arguments one $first:ident $second:ident $time:ident: $type:ty) => {
        let $time = $first as $type;
    };
    (@arguments two $first:ident $second:ident $clock:ident: $clock_type:ty, $time:ident: $type:ty) => {
        let $clock = $first as $clock_type;
        let $time = $second as $type;
    };
}

waits!(enter_read, read, Mode::Read, none, (), (0, 0), real::pthread_rwlock_tryrdlock);
waits!(enter_timed_read, timed_read, Mode::Read, one, (time: *const Timespec), (0), real::pthread_rwlock_tryrdlock);
waits!(enter_clock_read, clock_read, Mode::Read, two, (clock: c_int, time: *const Timespec), (), real::pthread_rwlock_tryrdlock);
waits!(enter_write, write, Mode::Write, none, (), (0, 0), real::pthread_rwlock_trywrlock);
waits!(enter_timed_write, timed_write, Mode::Write, one, (time: *const Timespec), (0), real::pthread_rwlock_trywrlock);
waits!(enter_clock_write, clock_write, Mode::Write, two, (clock: c_int, time: *const Timespec), (), real::pthread_rwlock_trywrlock);

/// Acquires by `acquire`, which may wait; a lock of glibc's by `attempt` first.
#[inline(always)]
unsafe fn waiting(
    lock: *mut RwLock,
    mode: Mode,
    [caller, frame]: [usize; 2],
    acquire: impl FnOnce() -> c_int,
    attempt: impl FnOnce() -> c_int,
) -> c_int {
    let Some((region, thread)) = recording() else { return acquire() };
    let address = lock as usize;
    if region.about_to(thread, address, mode, call(caller, frame), false) != Begun::Followed {
        return acquire();
    }
    let mut result = EBUSY;
    // SAFETY: the program's lock.
    if unprofiled::is_forwarded(unsafe { RwLock::at(lock) }, caller) {
        result = attempt();
        if result == EBUSY {
            region.wait_begins(thread, target(address, mode));
        }
    }
    if result == EBUSY {
        result = acquire();
    }
    settle(region, thread, target(address, mode), result == 0);
    result
}

macro_rules! tries {
    ($enter:ident, $function:ident, $mode:expr) => {
        with_call! {
            /// The entry point goes here.
            $enter, 3, $function
        }

        unsafe extern "C" fn $function(
            lock: *mut RwLock,
            _: usize,
            _: usize,
            caller: usize,
            frame: usize,
        ) -> c_int {
            // SAFETY: the program's lock.
            let attempt = || unsafe { unprofiled::$function(lock, 0, 0, caller) };
            let address = lock as usize;
            let call = call(caller, frame);
            process::acquire(
                (address, $mode),
                call,
                || target(address, $mode),
                attempt,
                |result| *result == 0,
            )
        }
    };
}

tries!(enter_try_read, try_read, Mode::Read);
tries!(enter_try_write, try_write, Mode::Write);

with_call! {
    /// The entry point goes here.
    enter_unlock, 3, unlock
}

unsafe extern "C" fn unlock(lock: *mut RwLock, _: usize, _: usize, caller: usize, frame: usize) -> c_int {
    // SAFETY: the program's lock.
    let release = || unsafe { unprofiled::unlock(lock, 0, 0, caller) };
    let address = lock as usize;
    process::release(address, call(caller, frame), || target(address, Mode::Read).server, release)
}

/// Where the entry points jump to, by operation: see `serve::rwlock::routes`.
pub(super) const ENTRANCES: [*const (); RWLOCK_OPERATIONS] = [
    enter_read as *const (),
    enter_try_read as *const (),
    enter_timed_read as *const (),
    enter_clock_read as *const (),
    enter_write as *const (),
    enter_try_write as *const (),
    enter_timed_write as *const (),
    enter_clock_write as *const (),
    enter_unlock as *const (),
];
