//! `pthread_rwlock_*`: the in-place futex lock, or glibc's where processes share it.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;

use lockwork_locks::rw::{Preference, ReadRefused};
use lockwork_platform::{Clock, Native};

use super::time::{self, Timespec};
use super::{EAGAIN, EBUSY, EDEADLK, EINVAL, ETIMEDOUT};
use crate::counters::{self, Kind};
use crate::layout::RwLock;
use crate::{fork, real, start};

/// Whether glibc serves this lock.
fn is_forwarded(lock: &RwLock) -> bool {
    lock.is_shared() || start::forwards_everything()
}

fn preference(lock: &RwLock) -> Preference {
    if lock.prefers_writers() { Preference::Writers } else { Preference::Readers }
}

/// Whether the calling thread is the writer.
fn is_writer(lock: &RwLock) -> bool {
    lock.writer.load(Relaxed) == Native::tid()
}

/// `pthread_rwlockattr_t`, as glibc lays it out.
#[repr(C)]
struct Attributes {
    preference: c_int,
    shared: c_int,
}

/// POSIX.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_rwlock_init(lock: *mut RwLock, attributes: *const c_void) -> c_int {
    start::ensure();
    fork::purge_if_child();
    // SAFETY: null, or the program's attributes.
    let attr = unsafe { attributes.cast::<Attributes>().as_ref() };
    let forwarded = attr.is_some_and(|attr| attr.shared != 0) || start::forwards_everything();
    counters::other(if forwarded { Kind::ForwardedRwLock } else { Kind::RwLock });
    if forwarded {
        // SAFETY: the program's arguments.
        return unsafe { real::pthread_rwlock_init(lock, attributes) };
    }
    // SAFETY: the program's lock, which nobody uses before it is initialised; zero is a valid one.
    unsafe { lock.cast::<c_void>().write_bytes(0, size_of::<RwLock>()) };
    // SAFETY: as above.
    let it = unsafe { RwLock::at(lock) };
    it.preference.store(attr.map_or(0, |attr| attr.preference as u32), Relaxed);
    0
}

/// POSIX. `EBUSY` while it is locked.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_rwlock_destroy(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    if is_forwarded(unsafe { RwLock::at(lock) }) {
        // SAFETY: as above.
        return unsafe { real::pthread_rwlock_destroy(lock) };
    }
    // glibc checks nothing here and returns 0.
    0
}

/// POSIX. A thread that has it for writing gets `EDEADLK`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_rwlock_rdlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    if is_forwarded(it) {
        // SAFETY: as above.
        return unsafe { real::pthread_rwlock_rdlock(lock) };
    }
    if is_writer(it) {
        return EDEADLK;
    }
    read_result(it.lock.lock_shared(preference(it), None))
}

/// POSIX.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_rwlock_tryrdlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    if is_forwarded(it) {
        // SAFETY: as above.
        return unsafe { real::pthread_rwlock_tryrdlock(lock) };
    }
    match it.lock.try_lock_shared(preference(it)) {
        Ok(()) => 0,
        Err(ReadRefused::Busy) => EBUSY,
        Err(ReadRefused::TooManyReaders) => EAGAIN,
    }
}

/// What a waiting acquisition for reading returns; busy can only mean that its deadline passed.
fn read_result(result: Result<(), ReadRefused>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(ReadRefused::Busy) => ETIMEDOUT,
        Err(ReadRefused::TooManyReaders) => EAGAIN,
    }
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_timedrdlock(lock: *mut RwLock, time: *const Timespec) -> c_int {
    // SAFETY: the program's arguments.
    match unsafe { read_until(lock, Clock::Realtime, time) } {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real::pthread_rwlock_timedrdlock(lock, time) },
    }
}

/// POSIX 2024.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_clockrdlock(lock: *mut RwLock, id: c_int, time: *const Timespec) -> c_int {
    let Some(clock) = time::clock(id) else { return EINVAL };
    // SAFETY: the program's arguments.
    match unsafe { read_until(lock, clock, time) } {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real::pthread_rwlock_clockrdlock(lock, id, time) },
    }
}

/// Acquires for reading until a time; `None` if the lock is glibc's.
unsafe fn read_until(lock: *mut RwLock, clock: Clock, time: *const Timespec) -> Option<c_int> {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    if is_forwarded(it) {
        return None;
    }
    // SAFETY: the program's time. glibc refuses a bad one even where it would not wait.
    let Some(deadline) = (unsafe { time::deadline(clock, time) }) else { return Some(EINVAL) };
    if is_writer(it) {
        return Some(EDEADLK);
    }
    Some(read_result(it.lock.lock_shared(preference(it), Some(deadline))))
}

/// Notes the calling thread as the writer.
fn own(lock: &RwLock) -> c_int {
    lock.writer.store(Native::tid(), Relaxed);
    0
}

/// POSIX. A thread that has it for writing gets `EDEADLK`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_rwlock_wrlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    if is_forwarded(it) {
        // SAFETY: as above.
        return unsafe { real::pthread_rwlock_wrlock(lock) };
    }
    if is_writer(it) {
        return EDEADLK;
    }
    it.lock.lock_exclusive(None);
    own(it)
}

/// POSIX.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_rwlock_trywrlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    if is_forwarded(it) {
        // SAFETY: as above.
        return unsafe { real::pthread_rwlock_trywrlock(lock) };
    }
    if it.lock.try_lock_exclusive() { own(it) } else { EBUSY }
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_timedwrlock(lock: *mut RwLock, time: *const Timespec) -> c_int {
    // SAFETY: the program's arguments.
    match unsafe { write_until(lock, Clock::Realtime, time) } {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real::pthread_rwlock_timedwrlock(lock, time) },
    }
}

/// POSIX 2024.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_clockwrlock(lock: *mut RwLock, id: c_int, time: *const Timespec) -> c_int {
    let Some(clock) = time::clock(id) else { return EINVAL };
    // SAFETY: the program's arguments.
    match unsafe { write_until(lock, clock, time) } {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real::pthread_rwlock_clockwrlock(lock, id, time) },
    }
}

/// Acquires for writing until a time; `None` if the lock is glibc's.
unsafe fn write_until(lock: *mut RwLock, clock: Clock, time: *const Timespec) -> Option<c_int> {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    if is_forwarded(it) {
        return None;
    }
    // SAFETY: the program's time.
    let Some(deadline) = (unsafe { time::deadline(clock, time) }) else { return Some(EINVAL) };
    if is_writer(it) {
        return Some(EDEADLK);
    }
    Some(if it.lock.lock_exclusive(Some(deadline)) { own(it) } else { ETIMEDOUT })
}

/// POSIX.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_rwlock_unlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    if is_forwarded(it) {
        // SAFETY: as above.
        return unsafe { real::pthread_rwlock_unlock(lock) };
    }
    let preference = preference(it);
    if it.lock.is_write_locked() {
        it.writer.store(0, Relaxed);
        // SAFETY: the program holds the lock, and a lock held for writing is held by nobody else.
        unsafe { it.lock.unlock_exclusive(preference) };
    } else {
        // SAFETY: the program holds the lock, not for writing.
        unsafe { it.lock.unlock_shared(preference) };
    }
    0
}
