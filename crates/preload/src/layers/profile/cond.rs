//! Waits on conditions: the mutex is released before, and acquired after, and both are charged to the code that waits.
//!
//! glibc's conditions release and acquire a mutex of glibc's by its own functions. Such a wait is taken as one: the time
//! until the thread has the mutex again is time waited for the condition.

use core::ffi::c_int;

use lockwork_profile::process;
use lockwork_profile::recorder::Begun;

use super::mutex::target;
use super::{MUTEX, call, is_loaded, known, recording};
use crate::abi::errno::EOWNERDEAD;
use crate::abi::layout::Mutex;

/// A wait on the condition at `cond` is about to begin, by the code before the return address `caller` with this frame
/// pointer. `is_glibcs`: by glibc's function.
pub(crate) fn prepare(cond: usize, mutex: *mut Mutex, [caller, frame]: [usize; 2], is_glibcs: bool) {
    if !is_loaded() {
        return;
    }
    let Some((region, thread)) = recording() else { return };
    let call = call(caller, frame);
    thread.keep_call(call);
    if is_glibcs {
        if let Some(releasing) = region.before_release(thread, mutex as usize, || 0) {
            region.after_release(thread, &releasing, call);
        }
        region.cond_wait_begins(thread, cond, call);
    }
}

/// After a wait by glibc's function, which returned this. Called by the entry point.
pub(crate) unsafe extern "C" fn after_glibcs_wait(mutex: *mut Mutex, result: c_int) -> c_int {
    if let Some((region, thread)) = known() {
        region.cond_wait_ends(thread);
    }
    if let Some((region, thread)) = recording()
        && region.about_to(thread, mutex as usize, MUTEX, thread.kept_call(), false) == Begun::Followed
    {
        region.acquired(thread);
    }
    result
}

/// Releases the mutex of a wait on the condition of ours at `cond`.
pub(crate) fn release(cond: usize, mutex: *mut Mutex, release: impl FnOnce()) {
    let address = mutex as usize;
    process::release_to_wait(cond, address, || target(address).server, release);
}

/// Acquires it again.
pub(crate) fn acquire(mutex: *mut Mutex, acquire: impl FnOnce() -> c_int) -> c_int {
    let address = mutex as usize;
    process::acquire_after_wait(
        address,
        || target(address),
        acquire,
        |result| matches!(*result, 0 | EOWNERDEAD),
    )
}
