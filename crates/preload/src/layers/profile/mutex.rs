//! Mutexes. Every function here is called with the arguments of the entry point, the return address of the program's call and
//! the frame pointer there; some also with the leaf function that the entry point jumps to without a profile.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::Native;
use lockwork_profile::format::{Region, Thread};
use lockwork_profile::process;
use lockwork_profile::recorder::{Begun, Passing, Target};

use super::{MUTEX, call, known, known_thread, recording, region, settle};
use crate::abi::entry::with_call_and_leaf;
use crate::abi::errno::{EBUSY, EOWNERDEAD};
use crate::abi::layout::Mutex;
use crate::abi::real;
use crate::life::start;
use crate::serve::mutex::table::{Leaf, PASSTHROUGH_TAG};
use crate::serve::mutex::{LOCK, TRYLOCK, UNLOCK, lock_unprofiled, trylock_unprofiled, unlock_unprofiled};

with_call_and_leaf! {
    /// `pthread_mutex_lock` of a mutex without bookkeeping.
    enter_lock, LOCK, lock
}
with_call_and_leaf! {
    /// The same, where the lock is one of ours.
    enter_our_lock, LOCK, our_lock
}
with_call_and_leaf! {
    /// The same, where it is glibc's.
    enter_glibcs_lock, LOCK, glibcs_lock
}
with_call_and_leaf! {
    /// The same, where it is known how glibc's functions mark a mutex.
    enter_known_lock, LOCK, known_lock
}
with_call_and_leaf! {
    /// `pthread_mutex_trylock` of a mutex without bookkeeping.
    enter_trylock, TRYLOCK, trylock
}
with_call_and_leaf! {
    /// The same, where it is decided who serves the mutex.
    enter_decided_trylock, TRYLOCK, decided_trylock
}
with_call_and_leaf! {
    /// `pthread_mutex_unlock` of a mutex without bookkeeping.
    enter_unlock, UNLOCK, plain_unlock
}

with_call_and_leaf! {
    /// The same, where it is known how glibc's functions mark a mutex.
    enter_known_unlock, UNLOCK, known_unlock
}

/// Whether glibc serves it, as far as that is decided.
#[inline(always)]
fn is_glibcs(mutex: &Mutex) -> bool {
    start::forwards_everything() || mutex.is_glibcs()
}

/// The mutex as the recorder wants it.
#[inline(always)]
pub(super) fn target(address: usize) -> Target {
    // SAFETY: the program's mutex, which the calling thread operates on.
    let mutex = unsafe { Mutex::at(address as *mut Mutex) };
    let server = if is_glibcs(mutex) { 0 } else { mutex.tag() % PASSTHROUGH_TAG };
    Target { address, mode: MUTEX, server }
}

fn is_success(result: c_int) -> bool {
    matches!(result, 0 | EOWNERDEAD)
}

/// Notes an acquisition of a mutex without bookkeeping of which there is nothing to note but the call, as most are.
#[inline(always)]
fn passes(mutex: *mut Mutex, caller: usize, frame: usize) -> bool {
    known_thread().is_some_and(|thread| Region::passes(thread, mutex as usize, call(caller, frame)))
}

/// The same, noted when the thread has tried; `None`: there may be more to note.
#[inline(always)]
fn passing(mutex: *mut Mutex) -> Option<(&'static Thread, Passing<'static>)> {
    let thread = known_thread()?;
    Some((thread, Passing::of(thread, mutex as usize)?))
}

/// Nothing follows the lock's own operation, which is jumped to. It says itself when it waits.
unsafe extern "C" fn our_lock(mutex: *mut Mutex, caller: usize, frame: usize, leaf: Leaf) -> c_int {
    if !passes(mutex, caller, frame) {
        // SAFETY: the entry point's contract.
        return unsafe { lock(mutex, caller, frame) };
    }
    // SAFETY: as above.
    unsafe { leaf(mutex) }
}

/// glibc's own attempt is a call, behind which something is left to do. So a mutex that nobody has is taken as glibc's functions do
/// it, and the call is noted afterwards: the thread has the mutex for a moment longer, and its attempt, which waits until all that
/// was written before has reached the cache, comes sooner.
unsafe extern "C" fn known_lock(mutex: *mut Mutex, caller: usize, frame: usize) -> c_int {
    let Some((thread, passing)) = passing(mutex) else {
        // SAFETY: the entry point's contract.
        return unsafe { lock(mutex, caller, frame) };
    };
    // SAFETY: the program's mutex.
    let is_taken = unsafe { Mutex::at(mutex) }.take_as_glibc(thread.tid.load(Relaxed));
    passing.note(thread, mutex as usize, call(caller, frame));
    if is_taken {
        return 0;
    }
    // SAFETY: the entry point's contract.
    unsafe { wait_for_glibcs(mutex) }
}

unsafe extern "C" fn glibcs_lock(mutex: *mut Mutex, caller: usize, frame: usize) -> c_int {
    if !passes(mutex, caller, frame) {
        // SAFETY: the entry point's contract.
        return unsafe { lock(mutex, caller, frame) };
    }
    // SAFETY: as above.
    match unsafe { real::pthread_mutex_trylock(mutex) } {
        0 => 0,
        // SAFETY: as above.
        _ => unsafe { wait_for_glibcs(mutex) },
    }
}

#[cold]
unsafe fn wait_for_glibcs(mutex: *mut Mutex) -> c_int {
    let Some((region, thread)) = known() else {
        // SAFETY: the entry point's contract.
        return unsafe { real::pthread_mutex_lock(mutex) };
    };
    let target = target(mutex as usize);
    region.wait_begins(thread, target);
    // SAFETY: the entry point's contract.
    let result = unsafe { real::pthread_mutex_lock(mutex) };
    if is_success(result) {
        region.wait_ends(thread);
    } else {
        region.refused(thread, target);
    }
    result
}

/// An attempt does not wait, so it is noted when it has succeeded.
unsafe extern "C" fn decided_trylock(mutex: *mut Mutex, caller: usize, frame: usize, leaf: Leaf) -> c_int {
    let address = mutex as usize;
    let Some((thread, passing)) = passing(mutex) else {
        // SAFETY: the entry point's contract.
        return unsafe { trylock(mutex, caller, frame) };
    };
    // SAFETY: the entry point's contract.
    let result = unsafe { leaf(mutex) };
    if result == 0 {
        passing.note(thread, address, call(caller, frame));
    } else if let Some(region) = region() {
        region.tried_in_vain(thread, target(address), caller);
    }
    result
}

/// A release of which there is nothing to note, as most are, jumps to the lock's own operation.
unsafe extern "C" fn plain_unlock(mutex: *mut Mutex, caller: usize, frame: usize, leaf: Leaf) -> c_int {
    if known().is_some_and(|(region, thread)| region.forgets(thread, mutex as usize)) {
        // SAFETY: the entry point's contract.
        return unsafe { leaf(mutex) };
    }
    // SAFETY: as above.
    unsafe { noted_unlock(mutex, caller, frame, leaf) }
}

/// The same of a mutex that [`known_lock`] takes, which is freed as glibc's function does it.
unsafe extern "C" fn known_unlock(mutex: *mut Mutex, caller: usize, frame: usize, leaf: Leaf) -> c_int {
    if !known().is_some_and(|(region, thread)| region.forgets(thread, mutex as usize)) {
        // SAFETY: the entry point's contract.
        return unsafe { noted_unlock(mutex, caller, frame, leaf) };
    }
    // SAFETY: the program's mutex.
    unsafe { Mutex::at(mutex) }.free_as_glibc();
    0
}

/// A release of which there may be something to note.
#[cold]
unsafe extern "C" fn noted_unlock(mutex: *mut Mutex, caller: usize, frame: usize, leaf: Leaf) -> c_int {
    let repeats =
        |(region, thread): (&Region, &Thread)| region.repeats(thread, mutex as usize, call(caller, frame));
    if known().is_some_and(repeats) {
        // SAFETY: the entry point's contract.
        return unsafe { leaf(mutex) };
    }
    // SAFETY: as above.
    unsafe { unlock(mutex, caller, frame) }
}

pub(crate) unsafe extern "C" fn lock(mutex: *mut Mutex, caller: usize, frame: usize) -> c_int {
    // SAFETY: the entry point's contract.
    let acquire = || unsafe { lock_unprofiled(mutex, caller) };
    // SAFETY: as above.
    unsafe { waiting(mutex, caller, frame, acquire) }
}

/// `pthread_mutex_timedlock` and the like, by `acquire`.
///
/// # Safety
///
/// As the function.
pub(crate) unsafe fn timed(mutex: *mut Mutex, caller: usize, acquire: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { waiting(mutex, caller, 0, acquire) }
}

/// Acquires by `acquire`, which may wait.
#[inline(always)]
unsafe fn waiting(mutex: *mut Mutex, caller: usize, frame: usize, acquire: impl FnOnce() -> c_int) -> c_int {
    let Some((region, thread)) = recording() else { return acquire() };
    // SAFETY: the program's mutex.
    let it = unsafe { Mutex::at(mutex) };
    let address = mutex as usize;
    match region.about_to(thread, address, MUTEX, call(caller, frame), it.may_recurse()) {
        Begun::Ignored => acquire(),
        Begun::Again => {
            let result = acquire();
            if result != 0 {
                region.not_again(thread, address);
            }
            result
        }
        Begun::Followed => {
            let mut result = EBUSY;
            if is_glibcs(it) && it.is_robust() {
                // glibc's attempt on a mutex that cannot be recovered leaves it locked.
                if it.robust_owner().is_some_and(|owner| owner != Native::tid()) {
                    region.wait_begins(thread, target(address));
                }
            } else if is_glibcs(it) {
                // SAFETY: the entry point's contract.
                result = unsafe { trylock_unprofiled(mutex, caller) };
                if result == EBUSY {
                    region.wait_begins(thread, target(address));
                }
            }
            if result == EBUSY {
                result = acquire();
            }
            if is_success(result) {
                region.acquired(thread);
            } else {
                region.refused(thread, target(address));
            }
            result
        }
    }
}

pub(crate) unsafe extern "C" fn trylock(mutex: *mut Mutex, caller: usize, frame: usize) -> c_int {
    // SAFETY: the entry point's contract.
    let attempt = || unsafe { trylock_unprofiled(mutex, caller) };
    let Some((region, thread)) = recording() else { return attempt() };
    let address = mutex as usize;
    // SAFETY: the program's mutex.
    let may_recurse = unsafe { Mutex::at(mutex) }.may_recurse();
    let begun = region.about_to(thread, address, MUTEX, call(caller, frame), may_recurse);
    let result = attempt();
    match begun {
        Begun::Ignored => {}
        Begun::Again if result != 0 => region.not_again(thread, address),
        Begun::Again => {}
        Begun::Followed => settle(region, thread, target(address), is_success(result)),
    }
    result
}

pub(crate) unsafe extern "C" fn unlock(mutex: *mut Mutex, caller: usize, frame: usize) -> c_int {
    // SAFETY: the entry point's contract.
    let release = || unsafe { unlock_unprofiled(mutex, caller) };
    let address = mutex as usize;
    process::release(address, call(caller, frame), || target(address).server, release)
}
