//! `mtx_*` and `cnd_*` of C11. glibc's own versions call its internals, so all are replaced or none.

use core::ffi::c_int;

use lockwork_platform::Clock;

use super::cancel::CANCELLED;
use super::cond::{
    self, prepare, pthread_cond_broadcast, pthread_cond_destroy, pthread_cond_signal, wait_until,
};
use super::mutex::timed::timedlock_from_entry;
use super::mutex::{LOCK, TRYLOCK, UNLOCK, initialise_as, pthread_mutex_destroy};
use crate::abi::entrances::operate;
use crate::abi::entry::{cancellable_entry, with_call, with_caller};
use crate::abi::errno::{EBUSY, ETIMEDOUT};
use crate::abi::layout::{CondVar, Mutex, MutexKind};
use crate::abi::real;
use crate::abi::time::{self, Timespec};
use crate::life::start;

const THRD_SUCCESS: c_int = 0;
const THRD_BUSY: c_int = 1;
const THRD_ERROR: c_int = 2;
const THRD_TIMEDOUT: c_int = 4;

const MTX_RECURSIVE: c_int = 1;

/// C11's result for an errno.
fn result(errno: c_int) -> c_int {
    match errno {
        0 => THRD_SUCCESS,
        EBUSY => THRD_BUSY,
        ETIMEDOUT => THRD_TIMEDOUT,
        _ => THRD_ERROR,
    }
}

/// C11. Bit 0 of `kind` asks for a recursive mutex; every mutex is timed.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_init(mutex: *mut Mutex, kind: c_int) -> c_int {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov rdx, qword ptr [rsp]", "jmp {}", sym initialise);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x2, x30", "b {}", sym initialise);
}

unsafe extern "C" fn initialise(mutex: *mut Mutex, kind: c_int, caller: usize) -> c_int {
    start::ensure();
    // Plain 0, recursive 1, timed 2.
    let kind = match kind {
        0 | 2 => MutexKind::Normal,
        1 | 3 => MutexKind::Recursive,
        _ => return THRD_ERROR,
    };
    // glibc's `pthread_mutexattr_t` of the same type, for a mutex that a policy leaves to glibc.
    let attributes: u32 = if kind == MutexKind::Recursive { MTX_RECURSIVE as u32 } else { 0 };
    // SAFETY: the program's mutex.
    result(unsafe { initialise_as(mutex, kind, &raw const attributes, caller) })
}

/// C11.
#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_destroy(mutex: *mut Mutex) {
    // SAFETY: the program's mutex.
    unsafe { pthread_mutex_destroy(mutex) };
}

with_call! {
    /// C11.
    #[unsafe(no_mangle)]
    mtx_lock, 1, lock
}

unsafe extern "C" fn lock(mutex: *mut Mutex, caller: usize, frame: usize) -> c_int {
    // SAFETY: the program's mutex.
    result(unsafe { operate(LOCK, mutex, caller, frame) })
}

with_call! {
    /// C11.
    #[unsafe(no_mangle)]
    mtx_trylock, 1, trylock
}

unsafe extern "C" fn trylock(mutex: *mut Mutex, caller: usize, frame: usize) -> c_int {
    // SAFETY: the program's mutex.
    result(unsafe { operate(TRYLOCK, mutex, caller, frame) })
}

with_caller! {
    /// C11.
    #[unsafe(no_mangle)]
    mtx_timedlock(mutex: *mut Mutex, time: *const Timespec), "rdx", "x2", timedlock
}

unsafe extern "C" fn timedlock(mutex: *mut Mutex, time: *const Timespec, caller: usize) -> c_int {
    // SAFETY: the program's arguments.
    result(unsafe { timedlock_from_entry(mutex, time, caller) })
}

with_call! {
    /// C11.
    #[unsafe(no_mangle)]
    mtx_unlock, 1, unlock
}

unsafe extern "C" fn unlock(mutex: *mut Mutex, caller: usize, frame: usize) -> c_int {
    // SAFETY: the program's mutex.
    result(unsafe { operate(UNLOCK, mutex, caller, frame) })
}

/// C11.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_init(cond: *mut CondVar) -> c_int {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov rsi, qword ptr [rsp]", "jmp {}", sym initialise_cond);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x1, x30", "b {}", sym initialise_cond);
}

unsafe extern "C" fn initialise_cond(cond: *mut CondVar, caller: usize) -> c_int {
    // SAFETY: the program's condition; no attributes.
    result(unsafe { cond::initialise(cond, core::ptr::null(), caller) })
}

/// C11.
#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_destroy(cond: *mut CondVar) {
    // SAFETY: the program's condition.
    unsafe { pthread_cond_destroy(cond) };
}

/// C11.
#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_signal(cond: *mut CondVar) -> c_int {
    // SAFETY: the program's condition.
    result(unsafe { pthread_cond_signal(cond) })
}

/// C11.
#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_broadcast(cond: *mut CondVar) -> c_int {
    // SAFETY: the program's condition.
    result(unsafe { pthread_cond_broadcast(cond) })
}

cancellable_entry! {
    /// C11.
    cnd_wait, prepare_wait, wait
}
cancellable_entry! {
    /// C11.
    cnd_timedwait, prepare_timedwait, timedwait
}

prepare!(prepare_wait, real::CND_WAIT);
prepare!(prepare_timedwait, real::CND_TIMEDWAIT);

/// C11's result of a wait; a cancellation is the entry point's.
fn wait_result(errno: c_int) -> c_int {
    if errno == CANCELLED { CANCELLED } else { result(errno) }
}

unsafe extern "C" fn wait(cond: *mut CondVar, mutex: *mut Mutex) -> c_int {
    // SAFETY: the program's arguments.
    wait_result(unsafe { wait_until(cond, mutex, None) })
}

unsafe extern "C" fn timedwait(cond: *mut CondVar, mutex: *mut Mutex, time: *const Timespec) -> c_int {
    // SAFETY: the program's time.
    match unsafe { time::deadline(Clock::Realtime, time) } {
        // SAFETY: the program's arguments.
        Some(deadline) => wait_result(unsafe { wait_until(cond, mutex, Some(deadline)) }),
        None => THRD_ERROR,
    }
}
