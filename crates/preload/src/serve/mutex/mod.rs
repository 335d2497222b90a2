//! `pthread_mutex_*` without the timed operations.

pub(crate) mod table;
pub(crate) mod timed;

use core::ffi::c_int;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_locks::inplace::stays_locked;
use lockwork_platform::{Native, bookmarks};
use lockwork_profile::format::Kind as Record;

use self::table::PASSTHROUGH_TAG;
use crate::abi::entry::{mutex_entry, with_call_through, with_caller};
use crate::abi::errno::{EAGAIN, EBUSY, EDEADLK, EINVAL, EPERM};
use crate::abi::layout::{Mutex, MutexKind, attribute_kind, attribute_sort};
use crate::abi::real;
use crate::layers::profile;
use crate::life::counters::{self, Kind};
use crate::life::{fork, start};

/// Operations, by their places among the entry points' ways.
pub(crate) const LOCK: usize = 0;
pub(crate) const TRYLOCK: usize = 1;
pub(crate) const UNLOCK: usize = 2;

mutex_entry! {
    /// POSIX.
    pthread_mutex_lock, LOCK, lock_slow
}
mutex_entry! {
    /// POSIX.
    pthread_mutex_trylock, TRYLOCK, trylock_slow
}
mutex_entry! {
    /// POSIX.
    pthread_mutex_unlock, UNLOCK, unlock_slow
}

with_caller! {
    /// The leaf of undecided mutexes.
    first_use_lock(mutex: *mut Mutex), "rsi", "x1", decide_and_lock
}
with_caller! {
    /// The leaf of undecided mutexes.
    first_use_trylock(mutex: *mut Mutex), "rsi", "x1", decide_and_trylock
}
with_caller! {
    /// The leaf of undecided mutexes.
    first_use_unlock(mutex: *mut Mutex), "rsi", "x1", decide_and_unlock
}
with_call_through! {
    /// Kinds that need more than the lock.
    lock_slow, LOCK
}
with_call_through! {
    /// Kinds that need more than the lock.
    trylock_slow, TRYLOCK
}
with_call_through! {
    /// Kinds that need more than the lock.
    unlock_slow, UNLOCK
}

/// What serves kinds that need more than the lock, without a profile.
pub(crate) const fn checked() -> [AtomicPtr<()>; 3] {
    [
        AtomicPtr::new(lock_checked as *const () as *mut ()),
        AtomicPtr::new(trylock_checked as *const () as *mut ()),
        AtomicPtr::new(unlock_checked as *const () as *mut ()),
    ]
}

/// Acquires as the entry point does without a profile.
///
/// # Safety
///
/// As `pthread_mutex_lock`.
pub(crate) unsafe fn lock_unprofiled(mutex: *mut Mutex, caller: usize) -> c_int {
    // SAFETY: the program's mutex.
    match unsafe { Mutex::at(mutex) }.decided_leaf() {
        // SAFETY: as above.
        Some(tag) => unsafe { table::lock(mutex, tag) },
        // SAFETY: as above.
        None => unsafe { lock_checked(mutex, caller) },
    }
}

/// Tries as the entry point does without a profile.
///
/// # Safety
///
/// As `pthread_mutex_trylock`.
pub(crate) unsafe fn trylock_unprofiled(mutex: *mut Mutex, caller: usize) -> c_int {
    // SAFETY: the program's mutex.
    match unsafe { Mutex::at(mutex) }.decided_leaf() {
        // SAFETY: as above.
        Some(tag) => unsafe { table::trylock(mutex, tag) },
        // SAFETY: as above.
        None => unsafe { trylock_checked(mutex, caller) },
    }
}

/// Releases as the entry point does without a profile.
///
/// # Safety
///
/// As `pthread_mutex_unlock`.
pub(crate) unsafe fn unlock_unprofiled(mutex: *mut Mutex, caller: usize) -> c_int {
    // SAFETY: the program's mutex.
    match unsafe { Mutex::at(mutex) }.decided_leaf() {
        // SAFETY: as above.
        Some(tag) => unsafe { table::unlock(mutex, tag) },
        // SAFETY: as above.
        None => unsafe { unlock_checked(mutex, caller) },
    }
}

/// The tag of this mutex. Decides it if that has not been done; `caller` is the code location that uses the mutex.
pub(super) fn decided(mutex: &Mutex, caller: usize) -> u32 {
    match mutex.tag() {
        0 => {
            let chosen = start::choose(core::ptr::from_ref(mutex) as usize, caller, mutex.sort());
            let (tag, first) = mutex.decide(chosen.tags.mutex);
            if first {
                chosen.count();
                counters::mutex(tag);
                is_new(mutex);
                // SAFETY: decided by this call.
                unsafe { table::configure(mutex, tag) };
            }
            tag
        }
        tag => tag,
    }
}

/// The memory may have been another mutex, which was held to its end while threads gave up waiting for it.
fn is_new(mutex: &Mutex) {
    bookmarks::forget(core::ptr::from_ref(mutex) as usize, size_of::<Mutex>());
}

/// Decides, and makes the kind one that takes the fast path where that is right.
fn settle(mutex: &Mutex, caller: usize) -> (MutexKind, u32) {
    let kind = mutex.kind();
    if kind == MutexKind::Forwarded || start::forwards_everything() {
        return (MutexKind::Forwarded, PASSTHROUGH_TAG);
    }
    let tag = decided(mutex, caller);
    if kind == MutexKind::Normal {
        mutex.settle_kind(kind);
    }
    (if tag == PASSTHROUGH_TAG { MutexKind::Forwarded } else { kind }, tag)
}

unsafe extern "C" fn decide_and_lock(mutex: *mut Mutex, caller: usize) -> c_int {
    // SAFETY: the program's mutex.
    let tag = decided(unsafe { Mutex::at(mutex) }, caller);
    // SAFETY: as above.
    unsafe { table::lock(mutex, tag) }
}

unsafe extern "C" fn decide_and_trylock(mutex: *mut Mutex, caller: usize) -> c_int {
    // SAFETY: the program's mutex.
    let tag = decided(unsafe { Mutex::at(mutex) }, caller);
    // SAFETY: as above.
    unsafe { table::trylock(mutex, tag) }
}

unsafe extern "C" fn decide_and_unlock(mutex: *mut Mutex, caller: usize) -> c_int {
    // SAFETY: the program's mutex.
    let tag = decided(unsafe { Mutex::at(mutex) }, caller);
    // SAFETY: as above.
    unsafe { table::unlock(mutex, tag) }
}

/// What acquiring a recursive or error-checking mutex by its owner gives.
fn reacquire(mutex: &Mutex, kind: MutexKind, if_owned: c_int) -> Option<c_int> {
    if mutex.owner.load(Relaxed) != Native::tid() {
        return None;
    }
    if kind == MutexKind::ErrorCheck {
        return Some(if_owned);
    }
    let depth = mutex.depth.load(Relaxed);
    if depth == u32::MAX {
        return Some(EAGAIN);
    }
    mutex.depth.store(depth + 1, Relaxed);
    Some(0)
}

pub(super) fn own(mutex: &Mutex) {
    mutex.owner.store(Native::tid(), Relaxed);
    mutex.depth.store(1, Relaxed);
}

unsafe extern "C" fn lock_checked(mutex: *mut Mutex, caller: usize) -> c_int {
    // SAFETY: the entry point's contract.
    unsafe { lock_checked_by(mutex, caller, table::lock) }
}

/// Acquires a mutex again for a thread that has waited on a condition with it.
///
/// # Safety
///
/// As `pthread_mutex_lock`.
pub(super) unsafe fn lock_after_wait(mutex: *mut Mutex) -> c_int {
    // SAFETY: the program's mutex.
    let it = unsafe { Mutex::at(mutex) };
    match it.kind() {
        // SAFETY: as above. It was locked before, so its tag is decided, and no code location matters.
        MutexKind::Normal => unsafe { table::reacquire(mutex, it.tag()) },
        // SAFETY: as above.
        _ => unsafe { lock_checked_by(mutex, 0, table::reacquire) },
    }
}

/// Acquires a mutex of any kind; `lock` does so with one that the calling thread does not have.
unsafe fn lock_checked_by(
    mutex: *mut Mutex,
    caller: usize,
    lock: unsafe fn(*mut Mutex, u32) -> c_int,
) -> c_int {
    // SAFETY: the program's mutex.
    let it = unsafe { Mutex::at(mutex) };
    let (kind, tag) = settle(it, caller);
    match kind {
        // SAFETY: as above.
        MutexKind::Forwarded => unsafe { real::pthread_mutex_lock(mutex) },
        // SAFETY: as above.
        MutexKind::Normal => unsafe { lock(mutex, tag) },
        MutexKind::Recursive | MutexKind::ErrorCheck => {
            if let Some(result) = reacquire(it, kind, EDEADLK) {
                return result;
            }
            // SAFETY: as above.
            unsafe { lock(mutex, tag) };
            own(it);
            0
        }
    }
}

unsafe extern "C" fn trylock_checked(mutex: *mut Mutex, caller: usize) -> c_int {
    // SAFETY: the program's mutex.
    let it = unsafe { Mutex::at(mutex) };
    let (kind, tag) = settle(it, caller);
    match kind {
        // SAFETY: as above.
        MutexKind::Forwarded => unsafe { real::pthread_mutex_trylock(mutex) },
        // SAFETY: as above.
        MutexKind::Normal => unsafe { table::trylock(mutex, tag) },
        MutexKind::Recursive | MutexKind::ErrorCheck => {
            if let Some(result) = reacquire(it, kind, EBUSY) {
                return result;
            }
            // SAFETY: as above.
            let result = unsafe { table::trylock(mutex, tag) };
            if result == 0 {
                own(it);
            }
            result
        }
    }
}

/// Whether the calling thread may unlock, for kinds that check.
pub(super) fn is_owner(mutex: &Mutex) -> bool {
    mutex.owner.load(Relaxed) == Native::tid()
}

pub(crate) unsafe extern "C" fn unlock_checked(mutex: *mut Mutex, caller: usize) -> c_int {
    // SAFETY: the program's mutex.
    let it = unsafe { Mutex::at(mutex) };
    let (kind, tag) = settle(it, caller);
    match kind {
        // SAFETY: as above.
        MutexKind::Forwarded => unsafe { real::pthread_mutex_unlock(mutex) },
        // SAFETY: as above.
        MutexKind::Normal => unsafe { table::unlock(mutex, tag) },
        MutexKind::Recursive | MutexKind::ErrorCheck => {
            if !is_owner(it) {
                return EPERM;
            }
            let depth = it.depth.load(Relaxed);
            if depth > 1 {
                it.depth.store(depth - 1, Relaxed);
                return 0;
            }
            it.owner.store(0, Relaxed);
            it.depth.store(0, Relaxed);
            // SAFETY: as above.
            unsafe { table::unlock(mutex, tag) }
        }
    }
}

/// POSIX. The code location that initialises a mutex may decide who serves it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_init(mutex: *mut Mutex, attributes: *const u32) -> c_int {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov rdx, qword ptr [rsp]", "jmp {}", sym initialise);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x2, x30", "b {}", sym initialise);
}

unsafe extern "C" fn initialise(mutex: *mut Mutex, attributes: *const u32, caller: usize) -> c_int {
    start::ensure();
    // SAFETY: the program's attributes.
    let kind = unsafe { attribute_kind(attributes) };
    // SAFETY: as above.
    unsafe { initialise_as(mutex, kind, attributes, caller) }
}

/// Initialises a mutex of this kind; `attributes` are for glibc where it serves the mutex.
///
/// # Safety
///
/// As `pthread_mutex_init`.
pub(super) unsafe fn initialise_as(
    mutex: *mut Mutex,
    kind: MutexKind,
    attributes: *const u32,
    caller: usize,
) -> c_int {
    fork::purge_if_child();
    profile::renewed(Record::Mutex, mutex as usize, caller);
    let forwarded = kind == MutexKind::Forwarded;
    let tag = if forwarded {
        PASSTHROUGH_TAG
    } else {
        // SAFETY: the caller's contract.
        let sort = unsafe { attribute_sort(attributes) };
        let chosen = start::choose(mutex as usize, caller, sort);
        chosen.count();
        chosen.tags.mutex
    };
    if tag == PASSTHROUGH_TAG {
        counters::other(Kind::ForwardedMutex);
        // SAFETY: the caller's contract.
        let result = unsafe { real::pthread_mutex_init(mutex, attributes) };
        if result == 0 && !forwarded && !start::forwards_everything() {
            // SAFETY: as above.
            unsafe { Mutex::at(mutex) }.settle_forwarded(kind, tag);
        }
        return result;
    }
    counters::mutex(tag);
    // SAFETY: the caller's contract.
    let mutex = unsafe { Mutex::at(mutex) };
    is_new(mutex);
    mutex.initialise(kind, tag);
    // SAFETY: initialised with this tag.
    unsafe { table::configure(mutex, tag) };
    0
}

/// POSIX. `EBUSY` while the mutex is locked or a condition wait will take it again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_destroy(mutex: *mut Mutex) -> c_int {
    fork::purge_if_child();
    // SAFETY: the program's mutex.
    let result = unsafe { destroy(mutex) };
    if result == 0 {
        profile::renewed(Record::Mutex, mutex as usize, 0);
    }
    result
}

unsafe fn destroy(mutex: *mut Mutex) -> c_int {
    // SAFETY: the program's mutex.
    let it = unsafe { Mutex::at(mutex) };
    if it.kind() == MutexKind::Forwarded {
        // SAFETY: as above.
        return unsafe { real::pthread_mutex_destroy(mutex) };
    }
    match table::ops(it.tag()) {
        Some(ops) => {
            // SAFETY: the mutex has this entry's tag.
            let locked = stays_locked(|| unsafe { (ops.is_locked)(it) });
            if locked || it.waiters.load(Relaxed) != 0 {
                return EBUSY;
            }
            // SAFETY: unlocked, and by the program's promise not used any more.
            unsafe { (ops.dispose)(it) };
            it.mark_destroyed();
            0
        }
        None if it.tag() == 0 && !start::forwards_everything() => {
            // Never used.
            it.mark_destroyed();
            0
        }
        // SAFETY: as above.
        None => unsafe { real::pthread_mutex_destroy(mutex) },
    }
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_consistent(mutex: *mut Mutex) -> c_int {
    // SAFETY: the program's mutex.
    if unsafe { Mutex::at(mutex) }.kind() != MutexKind::Forwarded {
        return EINVAL;
    }
    // SAFETY: as above.
    unsafe { real::pthread_mutex_consistent(mutex) }
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_getprioceiling(mutex: *const Mutex, ceiling: *mut c_int) -> c_int {
    // SAFETY: the program's mutex.
    if unsafe { Mutex::at(mutex.cast_mut()) }.kind() != MutexKind::Forwarded {
        return EINVAL;
    }
    // SAFETY: as above.
    unsafe { real::pthread_mutex_getprioceiling(mutex, ceiling) }
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_setprioceiling(
    mutex: *mut Mutex,
    ceiling: c_int,
    old: *mut c_int,
) -> c_int {
    // SAFETY: the program's mutex.
    if unsafe { Mutex::at(mutex) }.kind() != MutexKind::Forwarded {
        return EINVAL;
    }
    // SAFETY: as above.
    unsafe { real::pthread_mutex_setprioceiling(mutex, ceiling, old) }
}
