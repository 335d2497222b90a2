//! What stands at the entry points in a library with the feature `profile`: the function of the same name that serves them
//! otherwise, followed by the recorder of `lockwork`.
//!
//! A profile wants to know which code of the program made the call. Only code in assembly knows that: it appends the return
//! address and the caller's frame pointer to the arguments, as the fifth and sixth: there are four at most.

use core::ffi::{c_char, c_int};

use lockwork::profile::{self, How, Operation, Place};

use crate::cond::{self, Condition};
use crate::mutex::{self, Mutex};
use crate::rwlock::{self, RwLock};
use crate::time::Timespec;

/// An exported function, and what follows it: its arguments, and the place of the call.
macro_rules! recorded {
    ($($name:ident = $follow:ident($($argument:ident: $type:ty),*; $($unused:ident),*) $body:expr;)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!(
                    "mov r8, qword ptr [rsp]",
                    "mov r9, rbp",
                    "jmp {follow}",
                    follow = sym $follow,
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!(
                    "mov x4, x30",
                    "mov x5, x29",
                    "b {follow}",
                    follow = sym $follow,
                );
            }

            // The place of the call is behind four.
            const _: () = assert!([$(stringify!($argument),)* $(stringify!($unused),)*].len() == 4);

            unsafe extern "C" fn $follow(
                $($argument: $type,)* $($unused: usize,)* caller: usize, frame: usize,
            ) -> c_int {
                $(let _ = $unused;)*
                ($body)(Place { caller, frame })
            }
        )*
    };
}

/// Acquires by `attempt`, which returns 0 if the thread then has the lock.
fn acquire(operation: Operation<'_>, place: Place, attempt: impl FnOnce() -> c_int) -> c_int {
    profile::acquire(operation, place, attempt, |result| *result == 0)
}

/// Initialises by `initialise`.
fn begins(lock: usize, how: How, place: Place, initialise: impl FnOnce() -> c_int) -> c_int {
    let result = initialise();
    if result == 0 {
        profile::begins(lock, how, place);
    }
    result
}

/// The mutex of a call.
unsafe fn of(mutex: *mut Mutex) -> Operation<'static> {
    // SAFETY: as the crate says.
    unsafe { &*mutex }.operation()
}

/// The reader-writer lock of a call.
unsafe fn of_rw(lock: *mut RwLock, how: How) -> Operation<'static> {
    // SAFETY: as the crate says.
    unsafe { &*lock }.operation(how)
}

recorded! {
    lockwork_mutex_init = mutex_init(it: *mut Mutex, spec: *const c_char; a, b) |place| {
        // SAFETY: the caller's contract.
        begins(it.addr(), How::Mutex, place, || unsafe { mutex::lockwork_mutex_init(it, spec) })
    };
    lockwork_mutex_lock = mutex_lock(it: *mut Mutex; a, b, c) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of(it) }, place, || unsafe { mutex::lockwork_mutex_lock(it) })
    };
    lockwork_mutex_trylock = mutex_trylock(it: *mut Mutex; a, b, c) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of(it) }, place, || unsafe { mutex::lockwork_mutex_trylock(it) })
    };
    lockwork_mutex_timedlock = mutex_timedlock(it: *mut Mutex, time: *const Timespec; a, b) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of(it) }, place, || unsafe { mutex::lockwork_mutex_timedlock(it, time) })
    };
    lockwork_mutex_clocklock = mutex_clocklock(it: *mut Mutex, clock: c_int, time: *const Timespec; a) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of(it) }, place, || unsafe { mutex::lockwork_mutex_clocklock(it, clock, time) })
    };
    lockwork_mutex_unlock = mutex_unlock(it: *mut Mutex; a, b, c) |place| {
        // SAFETY: the caller's contract.
        profile::release(unsafe { of(it) }, place, || unsafe { mutex::lockwork_mutex_unlock(it) })
    };
    lockwork_rwlock_init = rwlock_init(it: *mut RwLock, spec: *const c_char; a, b) |place| {
        // SAFETY: the caller's contract.
        begins(it.addr(), How::Write, place, || unsafe { rwlock::lockwork_rwlock_init(it, spec) })
    };
    lockwork_rwlock_rdlock = rwlock_rdlock(it: *mut RwLock; a, b, c) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of_rw(it, How::Read) }, place, || unsafe { rwlock::lockwork_rwlock_rdlock(it) })
    };
    lockwork_rwlock_tryrdlock = rwlock_tryrdlock(it: *mut RwLock; a, b, c) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of_rw(it, How::Read) }, place, || unsafe { rwlock::lockwork_rwlock_tryrdlock(it) })
    };
    lockwork_rwlock_timedrdlock = rwlock_timedrdlock(it: *mut RwLock, time: *const Timespec; a, b) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of_rw(it, How::Read) }, place, || unsafe { rwlock::lockwork_rwlock_timedrdlock(it, time) })
    };
    lockwork_rwlock_clockrdlock = rwlock_clockrdlock(it: *mut RwLock, clock: c_int, time: *const Timespec; a) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of_rw(it, How::Read) }, place, || unsafe { rwlock::lockwork_rwlock_clockrdlock(it, clock, time) })
    };
    lockwork_rwlock_wrlock = rwlock_wrlock(it: *mut RwLock; a, b, c) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of_rw(it, How::Write) }, place, || unsafe { rwlock::lockwork_rwlock_wrlock(it) })
    };
    lockwork_rwlock_trywrlock = rwlock_trywrlock(it: *mut RwLock; a, b, c) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of_rw(it, How::Write) }, place, || unsafe { rwlock::lockwork_rwlock_trywrlock(it) })
    };
    lockwork_rwlock_timedwrlock = rwlock_timedwrlock(it: *mut RwLock, time: *const Timespec; a, b) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of_rw(it, How::Write) }, place, || unsafe { rwlock::lockwork_rwlock_timedwrlock(it, time) })
    };
    lockwork_rwlock_clockwrlock = rwlock_clockwrlock(it: *mut RwLock, clock: c_int, time: *const Timespec; a) |place| {
        // SAFETY: the caller's contract.
        acquire(unsafe { of_rw(it, How::Write) }, place, || unsafe { rwlock::lockwork_rwlock_clockwrlock(it, clock, time) })
    };
    lockwork_rwlock_unlock = rwlock_unlock(it: *mut RwLock; a, b, c) |place| {
        // SAFETY: the caller's contract.
        profile::release(unsafe { of_rw(it, How::Read) }, place, || unsafe { rwlock::lockwork_rwlock_unlock(it) })
    };
    lockwork_cond_wait = cond_wait(it: *mut Condition, mutex: *mut Mutex; a, b) |place| {
        profile::wait_begins(place);
        // SAFETY: the caller's contract.
        unsafe { cond::lockwork_cond_wait(it, mutex) }
    };
    lockwork_cond_timedwait = cond_timedwait(it: *mut Condition, mutex: *mut Mutex, time: *const Timespec; a) |place| {
        profile::wait_begins(place);
        // SAFETY: the caller's contract.
        unsafe { cond::lockwork_cond_timedwait(it, mutex, time) }
    };
    lockwork_cond_clockwait = cond_clockwait(it: *mut Condition, mutex: *mut Mutex, clock: c_int, time: *const Timespec;) |place| {
        profile::wait_begins(place);
        // SAFETY: the caller's contract.
        unsafe { cond::lockwork_cond_clockwait(it, mutex, clock, time) }
    };
}
