//! Mutexes whose holders ask the kernel for time-slice extensions (`LOCKWORK_TIME_SLICE`): leaf functions around those
//! of the lock itself. They are put in the columns of the table instead of those, so that who does not ask for
//! extensions pays nothing.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use lockwork_platform::slice;

use crate::layout::Mutex;
use crate::table::{self, Leaf, Ops};

static ON: AtomicBool = AtomicBool::new(false);

/// From now on, mutexes that get a tag are served so.
pub(crate) fn switch_on() {
    ON.store(true, Ordering::Relaxed);
}

/// To be called by who has acquired a mutex in another way than by a leaf function.
pub(crate) fn acquired() {
    if ON.load(Ordering::Relaxed) {
        slice::acquired();
    }
}

/// The functions for locking, trying to, and unlocking.
pub(crate) fn leaves(ops: &Ops) -> [Leaf; 3] {
    if ON.load(Ordering::Relaxed) { [lock, trylock, unlock] } else { [ops.lock, ops.trylock, ops.unlock] }
}

/// What serves this mutex, which has a tag.
unsafe fn ops(mutex: *mut Mutex) -> &'static Ops {
    // SAFETY: the caller's contract.
    let tag = unsafe { Mutex::at(mutex) }.tag();
    match table::ops(tag) {
        Some(ops) => ops,
        None => unreachable!("a mutex of glibc's has another leaf function"),
    }
}

unsafe extern "C" fn lock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    let ops = unsafe { ops(mutex) };
    // SAFETY: as above.
    let result = unsafe { (ops.lock)(mutex) };
    slice::acquired();
    result
}

unsafe extern "C" fn trylock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    let ops = unsafe { ops(mutex) };
    // SAFETY: as above.
    let result = unsafe { (ops.trylock)(mutex) };
    if result == 0 {
        slice::acquired();
    }
    result
}

unsafe extern "C" fn unlock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    let ops = unsafe { ops(mutex) };
    // SAFETY: as above.
    let result = unsafe { (ops.unlock)(mutex) };
    slice::released();
    result
}
