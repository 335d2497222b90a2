//! Functions by which a program gives its locks names. They do nothing in a process that is not profiled.

use core::ffi::{CStr, c_char, c_int, c_void};

use super::region_now;

/// Calls the lock at `lock`, a mutex, a reader-writer lock or a condition, by a name in profiles.
///
/// # Safety
///
/// The name is null, or a terminated string.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockwork_name(lock: *const c_void, name: *const c_char) {
    if !name.is_null()
        && let Some(region) = region_now()
    {
        // SAFETY: the caller's contract.
        region.name_lock(lock.addr(), unsafe { CStr::from_ptr(name) }.to_bytes());
    }
}

/// The same of Intel's instrumentation interface: what a program calls a lock that it is about to use. Programs that are linked
/// with that interface find the function through the variable `INTEL_LIBITTNOTIFY64`, which names a library.
///
/// # Safety
///
/// As [`lockwork_name`].
#[unsafe(no_mangle)]
unsafe extern "C" fn __itt_sync_create(
    lock: *const c_void,
    _kind: *const c_char,
    name: *const c_char,
    _attribute: c_int,
) {
    // SAFETY: the caller's contract.
    unsafe { lockwork_name(lock, name) };
}

/// As [`__itt_sync_create`], of a lock that has a name.
///
/// # Safety
///
/// As [`lockwork_name`].
#[unsafe(no_mangle)]
unsafe extern "C" fn __itt_sync_rename(lock: *const c_void, name: *const c_char) {
    // SAFETY: the caller's contract.
    unsafe { lockwork_name(lock, name) };
}
