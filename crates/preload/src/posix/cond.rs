//! `pthread_cond_*`.
//!
//! A wait is a cancellation point; its entry points are in assembly (see `entry`). Conditions shared
//! between processes are glibc's.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_locks::cond::Outcome;
use lockwork_platform::{Clock, Deadline, Native};

use super::cancel::{CANCELLED, Cancellation, make_reachable};
use super::entry::cancellable_entry;
use super::mutex::{is_owner, lock_checked, pthread_mutex_lock, pthread_mutex_unlock, unlock_checked};
use super::time::{self, Timespec};
use super::{EBUSY, EINVAL, EPERM, ETIMEDOUT};
use crate::counters::{self, Kind};
use crate::layout::{COND_MONOTONIC, COND_SHARED, CondVar, Mutex, MutexKind};
use crate::table::PASSTHROUGH_TAG;
use crate::{fork, real, start};

cancellable_entry! {
    /// POSIX.
    pthread_cond_wait, prepare_wait, wait
}
cancellable_entry! {
    /// POSIX.
    pthread_cond_timedwait, prepare_timedwait, timedwait
}
cancellable_entry! {
    /// POSIX 2024; `std::condition_variable::wait_for` uses it.
    pthread_cond_clockwait, prepare_clockwait, clockwait
}

/// Whether glibc serves this condition.
fn is_forwarded(cond: &CondVar) -> bool {
    cond.is_shared() || start::forwards_everything()
}

macro_rules! prepare {
    ($name:ident, $symbol:literal) => {
        /// Where to jump instead: glibc's function for conditions that are glibc's, else 0.
        unsafe extern "C" fn $name(cond: *mut CondVar) -> usize {
            static REAL: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
            // SAFETY: the program's condition.
            unsafe { $crate::posix::cond::instead(cond, &REAL, $symbol) }
        }
    };
}

pub(super) use prepare;

/// Prepares a wait: see `prepare`.
///
/// # Safety
///
/// `cond` is the program's condition.
pub(super) unsafe fn instead(cond: *mut CondVar, known: &AtomicUsize, symbol: &CStr) -> usize {
    // SAFETY: the caller's contract.
    if !is_forwarded(unsafe { CondVar::at(cond) }) {
        make_reachable();
        return 0;
    }
    match known.load(Relaxed) {
        0 => {
            let address = real::address_of(symbol);
            known.store(address, Relaxed);
            address
        }
        address => address,
    }
}

prepare!(prepare_wait, c"pthread_cond_wait");
prepare!(prepare_timedwait, c"pthread_cond_timedwait");
prepare!(prepare_clockwait, c"pthread_cond_clockwait");

unsafe extern "C" fn wait(cond: *mut CondVar, mutex: *mut Mutex) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { wait_until(cond, mutex, None) }
}

unsafe extern "C" fn timedwait(cond: *mut CondVar, mutex: *mut Mutex, time: *const Timespec) -> c_int {
    // SAFETY: the program's condition.
    let monotonic = unsafe { CondVar::at(cond) }.flags.load(Relaxed) & COND_MONOTONIC != 0;
    let clock = if monotonic { Clock::Monotonic } else { Clock::Realtime };
    // SAFETY: the program's time.
    match unsafe { time::deadline(clock, time) } {
        // SAFETY: the program's arguments.
        Some(deadline) => unsafe { wait_until(cond, mutex, Some(deadline)) },
        None => EINVAL,
    }
}

unsafe extern "C" fn clockwait(cond: *mut CondVar, mutex: *mut Mutex, clock: c_int, time: *const Timespec) -> c_int {
    let Some(clock) = time::clock(clock) else { return EINVAL };
    // SAFETY: the program's time.
    match unsafe { time::deadline(clock, time) } {
        // SAFETY: the program's arguments.
        Some(deadline) => unsafe { wait_until(cond, mutex, Some(deadline)) },
        None => EINVAL,
    }
}

/// Whether the caller may wait with this mutex: kinds that check their owner must be its own.
fn may_wait_with(mutex: &Mutex) -> bool {
    match mutex.kind() {
        MutexKind::Normal => true,
        MutexKind::Recursive | MutexKind::ErrorCheck if mutex.tag() != PASSTHROUGH_TAG => is_owner(mutex),
        _ => !mutex.glibc_checks_owner() || mutex.glibc_owner() == Native::tid(),
    }
}

/// Waits; the mutex is held again afterwards, whatever the result.
pub(super) unsafe fn wait_until(cond: *mut CondVar, mutex: *mut Mutex, deadline: Option<Deadline>) -> c_int {
    // SAFETY: the program's condition.
    let condition = unsafe { CondVar::at(cond) };
    // SAFETY: the program's mutex.
    let it = unsafe { Mutex::at(mutex) };
    if !may_wait_with(it) {
        return EPERM;
    }
    fork::purge_if_child();
    let ours = it.kind() != MutexKind::Forwarded;
    if ours {
        it.waiters.fetch_add(1, Relaxed);
    }
    let (outcome, result) = condition.cond.wait(
        mutex as usize,
        deadline,
        &Cancellation::of_this_thread(),
        // SAFETY: the caller holds the mutex.
        || unsafe {
            unlock(mutex);
        },
        // SAFETY: the program's mutex, released above.
        || unsafe { relock(mutex) },
    );
    if ours {
        it.waiters.fetch_sub(1, Relaxed);
    }
    match outcome {
        _ if result != 0 => result,
        Outcome::Signalled => 0,
        Outcome::TimedOut => ETIMEDOUT,
        Outcome::Interrupted => CANCELLED,
    }
}

unsafe fn unlock(mutex: *mut Mutex) {
    // SAFETY: the caller's contract.
    match unsafe { Mutex::at(mutex) }.kind() {
        // SAFETY: as above.
        MutexKind::Normal => unsafe { pthread_mutex_unlock(mutex) },
        // SAFETY: as above. The mutex was locked, so who serves it is decided, and no code location matters.
        _ => unsafe { unlock_checked(mutex, 0) },
    };
}

unsafe fn relock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { Mutex::at(mutex) }.kind() {
        // SAFETY: as above.
        MutexKind::Normal => unsafe { pthread_mutex_lock(mutex) },
        // SAFETY: as above.
        _ => unsafe { lock_checked(mutex, 0) },
    }
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_init(cond: *mut CondVar, attributes: *const u32) -> c_int {
    start::ensure();
    fork::purge_if_child();
    // glibc's `pthread_condattr_t`: bit 0 = process-shared, bits from 1 = clock.
    // SAFETY: null, or the program's attributes.
    let attributes_bits = unsafe { attributes.as_ref() }.copied().unwrap_or(0);
    let flags = attributes_bits & (COND_SHARED | COND_MONOTONIC);
    let forwarded = flags & COND_SHARED != 0 || start::forwards_everything();
    counters::other(if forwarded { Kind::ForwardedCond } else { Kind::Cond });
    if forwarded {
        // SAFETY: the program's arguments.
        return unsafe { real::pthread_cond_init(cond, attributes) };
    }
    // SAFETY: the program's condition, which nobody uses before it is initialised; zero is a valid one.
    unsafe { cond.cast::<c_void>().write_bytes(0, size_of::<CondVar>()) };
    // SAFETY: as above.
    unsafe { CondVar::at(cond) }.flags.store(flags, Relaxed);
    0
}

/// POSIX. `EBUSY` while somebody waits, where glibc would block for ever.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_cond_destroy(cond: *mut CondVar) -> c_int {
    // SAFETY: the program's condition.
    let it = unsafe { CondVar::at(cond) };
    fork::purge_if_child();
    if is_forwarded(it) {
        // SAFETY: as above.
        return unsafe { real::pthread_cond_destroy(cond) };
    }
    if it.cond.destroy() { 0 } else { EBUSY }
}

/// POSIX.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_cond_signal(cond: *mut CondVar) -> c_int {
    // SAFETY: the program's condition.
    let it = unsafe { CondVar::at(cond) };
    if is_forwarded(it) {
        // SAFETY: as above.
        return unsafe { real::pthread_cond_signal(cond) };
    }
    fork::purge_if_child();
    it.cond.signal();
    0
}

/// POSIX.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_cond_broadcast(cond: *mut CondVar) -> c_int {
    // SAFETY: the program's condition.
    let it = unsafe { CondVar::at(cond) };
    if is_forwarded(it) {
        // SAFETY: as above.
        return unsafe { real::pthread_cond_broadcast(cond) };
    }
    fork::purge_if_child();
    it.cond.broadcast();
    0
}
