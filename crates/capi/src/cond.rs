//! `lockwork_cond_*`.

use core::ffi::c_int;

use lockwork::profile;
use lockwork_locks::cond::{Cond, Outcome};
use lockwork_platform::{Deadline, Native};

use crate::mutex::{Mutex, lockwork_mutex_lock, lockwork_mutex_unlock};
use crate::time::{self, REALTIME, Timespec};
use crate::{EBUSY, EINVAL, ETIMEDOUT};

/// `lockwork_cond_t`.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct Condition(Cond<Native>, [u8; 64 - size_of::<Cond<Native>>()]);

const _: () = assert!(size_of::<Condition>() == 64);

impl Condition {
    /// Forgets the waiters of the condition at this address.
    ///
    /// # Safety
    ///
    /// There is one, and no other thread uses it.
    pub(crate) unsafe fn forget_waiters(address: usize) {
        // SAFETY: the caller's contract.
        let condition = unsafe { &*(address as *const Self) };
        // SAFETY: as above.
        unsafe { condition.0.forget_waiters() };
    }
}

/// Initialises a condition.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_cond_init(condition: *mut Condition) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { condition.write(Condition(Cond::new(), [0; _])) };
    0
}

unsafe fn wait(condition: *mut Condition, mutex: *mut Mutex, deadline: Option<Deadline>) -> c_int {
    let address = condition.addr();
    let operation = || {
        // SAFETY: the caller's mutex.
        unsafe { &*mutex }.operation()
    };
    let unlock = || {
        // SAFETY: the caller holds the mutex.
        let unlock = || _ = unsafe { lockwork_mutex_unlock(mutex) };
        profile::release_to_wait(address, operation(), unlock);
    };
    let relock = || {
        // SAFETY: the caller's mutex.
        let lock = || unsafe { lockwork_mutex_lock(mutex) };
        profile::acquire_after_wait(operation(), lock, |_| true)
    };
    // SAFETY: the caller's contract.
    let condition = unsafe { &(*condition).0 };
    match condition.wait(mutex.addr(), deadline, &(), unlock, relock).0 {
        Outcome::TimedOut => ETIMEDOUT,
        _ => 0,
    }
}

/// Releases the mutex, waits for a signal, and acquires the mutex again.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_cond_wait(condition: *mut Condition, mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { wait(condition, mutex, None) }
}

/// Waits until a time on `CLOCK_REALTIME` at most.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_cond_timedwait(
    condition: *mut Condition,
    mutex: *mut Mutex,
    time: *const Timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { lockwork_cond_clockwait(condition, mutex, REALTIME, time) }
}

/// Waits until a time on a clock at most.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_cond_clockwait(
    condition: *mut Condition,
    mutex: *mut Mutex,
    clock: c_int,
    time: *const Timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let Some(deadline) = (unsafe { time::deadline(clock, time) }) else { return EINVAL };
    // SAFETY: the caller's contract.
    unsafe { wait(condition, mutex, Some(deadline)) }
}

/// Wakes the thread that has waited longest.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_cond_signal(condition: *mut Condition) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { &*condition }.0.signal();
    0
}

/// Wakes all waiting threads.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_cond_broadcast(condition: *mut Condition) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { &*condition }.0.broadcast();
    0
}

/// Ends a condition on which nobody waits.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_cond_destroy(condition: *mut Condition) -> c_int {
    // SAFETY: the caller's contract.
    if unsafe { &*condition }.0.destroy() { 0 } else { EBUSY }
}
