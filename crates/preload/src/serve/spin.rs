//! `pthread_spin_*`: test-and-test-and-set on the one word there is, giving up the CPU after a while.
//!
//! The values are glibc's, so that a lock may be used by code that has glibc's functions inlined or bound otherwise,
//! and by other processes. Where glibc is to serve spin locks, it therefore does no more than wait for them.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{Cpu, Native};

use crate::abi::errno::EBUSY;
use crate::abi::real;
use crate::life::counters::{self, Kind};
use crate::life::{policy, start};

/// What the report calls the algorithm.
pub(crate) const NAME: &str = "ttas-yield";

#[cfg(target_arch = "x86_64")]
const FREE: u32 = 1;
#[cfg(target_arch = "x86_64")]
const LOCKED: u32 = 0;
#[cfg(target_arch = "aarch64")]
const FREE: u32 = 0;
#[cfg(target_arch = "aarch64")]
const LOCKED: u32 = 1;

/// The lock at an address of the program.
unsafe fn at<'a>(lock: *mut u32) -> &'a AtomicU32 {
    // SAFETY: the program's `pthread_spinlock_t`, an aligned word that only lock operations access.
    unsafe { AtomicU32::from_ptr(lock) }
}

fn is_forwarded() -> bool {
    start::forwards_everything() || policy::forwards_spin_locks()
}

fn attempt(lock: &AtomicU32) -> bool {
    // glibc's x86_64 lock decrements, so that its waiters leave other values than 0 behind.
    lock.load(Relaxed) == FREE && lock.compare_exchange(FREE, LOCKED, Acquire, Relaxed).is_ok()
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_init(lock: *mut u32, _shared: c_int) -> c_int {
    start::ensure();
    let chosen = start::choose(lock as usize, 0, lockwork_policy::Kind::Spin);
    chosen.count();
    counters::other(if is_forwarded() { Kind::ForwardedSpinLock } else { Kind::SpinLock });
    // SAFETY: the program's lock.
    unsafe { at(lock) }.store(FREE, Relaxed);
    0
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_destroy(_lock: *mut u32) -> c_int {
    0
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_lock(lock: *mut u32) -> c_int {
    // SAFETY: the program's lock.
    let it = unsafe { at(lock) };
    if attempt(it) {
        return 0;
    }
    // SAFETY: as above.
    if is_forwarded() { unsafe { real::pthread_spin_lock(lock) } } else { wait(it) }
}

#[cold]
fn wait(lock: &AtomicU32) -> c_int {
    loop {
        for _ in 0..Native::spin_budget() {
            if attempt(lock) {
                return 0;
            }
            Native::pause();
        }
        // The holder may be waiting for this CPU.
        Native::yield_now();
    }
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_trylock(lock: *mut u32) -> c_int {
    // SAFETY: the program's lock.
    if attempt(unsafe { at(lock) }) { 0 } else { EBUSY }
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_unlock(lock: *mut u32) -> c_int {
    // SAFETY: the program's lock.
    unsafe { at(lock) }.store(FREE, Release);
    0
}
