//! `pthread_cond_*`.
//!
//! A wait is a cancellation point; its entry points are in assembly (see `entry`). Conditions shared between processes are
//! glibc's, and those that a policy leaves to it and that are first waited on with a mutex of glibc's: its conditions
//! release and acquire mutexes by its own functions, whereas ours work with any mutex.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;

use lockwork_locks::cond::Outcome;
use lockwork_platform::{Clock, Deadline, Native};
use lockwork_profile::format::Kind as Record;

use super::cancel::{CANCELLED, Cancellation, make_reachable};
use super::mutex::{is_owner, lock_after_wait, unlock_checked, unlock_unprofiled};
use crate::abi::entry::cancellable_entry;
use crate::abi::errno::{EBUSY, EINVAL, EOWNERDEAD, EPERM, ETIMEDOUT};
use crate::abi::layout::{
    COND_GLIBC, COND_MONOTONIC, COND_OURS, COND_SHARED, COND_WANTS_GLIBC, CondVar, Mutex, MutexKind,
};
use crate::abi::real;
use crate::abi::time::{self, Timespec};
use crate::layers::profile;
use crate::life::counters::{self, Kind};
use crate::life::policy::Chosen;
use crate::life::{fork, start};

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

/// Whether glibc serves this condition, as far as that is decided. It is before any thread waits on it.
fn is_forwarded(cond: &CondVar) -> bool {
    cond.is_glibcs() || start::forwards_everything()
}

/// The side that is told of a signal.
enum Told {
    Glibc,
    Ours,
    /// It is not decided who serves the condition, so that nobody waits. A thread that comes to wait meanwhile may give it to glibc,
    /// whose memory a signal of ours must not touch. No wake-up is lost: a thread decides before it releases its mutex, so
    /// that a signal which must find it waiting finds the decision, too.
    Nobody,
}

impl Told {
    fn of(cond: &CondVar) -> Self {
        let flags = cond.flags().load(Relaxed);
        match flags & (COND_OURS | COND_SHARED | COND_GLIBC) {
            _ if start::forwards_everything() => Self::Glibc,
            0 => Self::Nobody,
            COND_OURS => Self::Ours,
            _ => Self::Glibc,
        }
    }
}

macro_rules! prepare {
    ($name:ident, $target:path) => {
        /// Where to jump instead: glibc's function for conditions that are glibc's, else 0.
        unsafe extern "C" fn $name(
            cond: *mut CondVar,
            mutex: *mut Mutex,
            caller: usize,
            frame: usize,
        ) -> usize {
            // SAFETY: the program's condition and mutex.
            let target = unsafe { $crate::serve::cond::instead(cond, mutex, caller, &$target) };
            $crate::layers::profile::cond::prepare(cond as usize, mutex, [caller, frame], target != 0);
            target
        }
    };
}

pub(super) use prepare;

/// Prepares a wait: see `prepare`.
///
/// # Safety
///
/// `cond` and `mutex` are the program's.
pub(super) unsafe fn instead(
    cond: *mut CondVar,
    mutex: *mut Mutex,
    caller: usize,
    target: &real::Target,
) -> usize {
    // SAFETY: the caller's contract.
    let cond = unsafe { CondVar::at(cond) };
    // SAFETY: as above.
    let mutex = unsafe { Mutex::at(mutex) };
    let everything = start::forwards_everything();
    if everything {
        counters::uncounted();
    } else if !decide(cond, mutex, caller) {
        make_reachable();
        return 0;
    } else if !mutex.is_glibcs() {
        return refuse as *const () as usize;
    }
    target.address()
}

/// What waiting on a condition of glibc's with a mutex of ours gives.
unsafe extern "C" fn refuse() -> c_int {
    EINVAL
}

/// Whether glibc serves this condition. Decides that if it has not been done.
fn decide(cond: &CondVar, mutex: &Mutex, caller: usize) -> bool {
    let flags = cond.flags().load(Relaxed);
    if flags & (COND_OURS | COND_SHARED | COND_GLIBC) != 0 {
        return cond.is_glibcs();
    }
    let chosen = (flags & COND_WANTS_GLIBC == 0)
        .then(|| start::choose(core::ptr::from_ref(cond) as usize, caller, lockwork_policy::Kind::Cond));
    // One that a policy left to glibc when it was initialised, or does now.
    let wants_glibc = chosen.is_none_or(Chosen::leaves_condition);
    let decision = if wants_glibc && mutex.is_glibcs() { COND_GLIBC } else { COND_OURS };
    let decided = flags & !COND_WANTS_GLIBC | decision;
    if cond.flags().compare_exchange(flags, decided, Relaxed, Relaxed).is_err() {
        return cond.is_glibcs();
    }
    if let Some(chosen) = chosen {
        chosen.count();
    }
    counters::other(if decision == COND_GLIBC { Kind::ForwardedCond } else { Kind::Cond });
    decision == COND_GLIBC
}

prepare!(prepare_wait, real::COND_WAIT);
prepare!(prepare_timedwait, real::COND_TIMEDWAIT);
prepare!(prepare_clockwait, real::COND_CLOCKWAIT);

unsafe extern "C" fn wait(cond: *mut CondVar, mutex: *mut Mutex) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { wait_until(cond, mutex, None) }
}

unsafe extern "C" fn timedwait(cond: *mut CondVar, mutex: *mut Mutex, time: *const Timespec) -> c_int {
    // SAFETY: the program's condition.
    let monotonic = unsafe { CondVar::at(cond) }.flags().load(Relaxed) & COND_MONOTONIC != 0;
    let clock = if monotonic { Clock::Monotonic } else { Clock::Realtime };
    // SAFETY: the program's time.
    match unsafe { time::deadline(clock, time) } {
        // SAFETY: the program's arguments.
        Some(deadline) => unsafe { wait_until(cond, mutex, Some(deadline)) },
        None => EINVAL,
    }
}

unsafe extern "C" fn clockwait(
    cond: *mut CondVar,
    mutex: *mut Mutex,
    clock: c_int,
    time: *const Timespec,
) -> c_int {
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
        _ if mutex.is_glibcs() => !mutex.glibc_checks_owner() || mutex.glibc_owner() == Native::tid(),
        MutexKind::Recursive | MutexKind::ErrorCheck => is_owner(mutex),
        _ => true,
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
    let user = ConditionUser::of(it);
    let (outcome, result) = condition.cond.wait(
        mutex as usize,
        deadline,
        &Cancellation::of_this_thread(),
        || {
            // SAFETY: the caller holds the mutex.
            unsafe { user.begin() };
            profile::cond::release(cond as usize, mutex, || {
                // SAFETY: as above.
                unsafe { unlock(mutex) };
            });
        },
        || {
            // SAFETY: the program's mutex, released above.
            let result = profile::cond::acquire(mutex, || unsafe { lock_after_wait(mutex) });
            // SAFETY: what the acquisition gave.
            unsafe { user.end(result) };
            result
        },
    );
    match outcome {
        _ if result != 0 => result,
        Outcome::Signalled => 0,
        Outcome::TimedOut => ETIMEDOUT,
        Outcome::Interrupted => CANCELLED,
    }
}

/// A waiter counts as a user of its mutex from before the release until it has the mutex again, so that
/// `pthread_mutex_destroy` refuses in between.
#[derive(Clone, Copy)]
enum ConditionUser<'a> {
    /// The count is ours.
    Own(&'a Mutex),
    /// The count is glibc's, which changes under the mutex.
    Glibc(&'a Mutex),
}

impl<'a> ConditionUser<'a> {
    fn of(mutex: &'a Mutex) -> Self {
        if mutex.is_glibcs() { Self::Glibc(mutex) } else { Self::Own(mutex) }
    }

    /// # Safety
    ///
    /// The calling thread holds the mutex.
    unsafe fn begin(self) {
        match self {
            Self::Own(mutex) => _ = mutex.waiters.fetch_add(1, Relaxed),
            // SAFETY: the caller's contract.
            Self::Glibc(mutex) => unsafe { mutex.count_glibc_user(1) },
        }
    }

    /// # Safety
    ///
    /// `result` is what the calling thread got from acquiring the mutex again.
    unsafe fn end(self, result: c_int) {
        match self {
            Self::Own(mutex) => _ = mutex.waiters.fetch_sub(1, Relaxed),
            // A mutex that could not be acquired (`ENOTRECOVERABLE`) keeps the count: nobody can use it any more.
            // SAFETY: the calling thread holds the mutex.
            Self::Glibc(mutex) if matches!(result, 0 | EOWNERDEAD) => unsafe { mutex.count_glibc_user(-1) },
            Self::Glibc(_) => {}
        }
    }
}

unsafe fn unlock(mutex: *mut Mutex) {
    // SAFETY: the caller's contract.
    match unsafe { Mutex::at(mutex) }.kind() {
        // SAFETY: as above. The mutex was locked, so its server is decided, and no code location matters.
        MutexKind::Normal => unsafe { unlock_unprofiled(mutex, 0) },
        // SAFETY: as above.
        _ => unsafe { unlock_checked(mutex, 0) },
    };
}

/// POSIX. The code location that initialises a condition may decide who serves it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_init(cond: *mut CondVar, attributes: *const u32) -> c_int {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov rdx, qword ptr [rsp]", "jmp {}", sym initialise);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x2, x30", "b {}", sym initialise);
}

/// Initialises a condition; `caller` is the return address of the call.
///
/// # Safety
///
/// As `pthread_cond_init`.
pub(crate) unsafe extern "C" fn initialise(
    cond: *mut CondVar,
    attributes: *const u32,
    caller: usize,
) -> c_int {
    start::ensure();
    fork::purge_if_child();
    profile::renewed(Record::Cond, cond as usize, caller);
    // glibc's `pthread_condattr_t`: bit 0 = process-shared, bits from 1 = clock.
    // SAFETY: null, or the program's attributes.
    let attributes_bits = unsafe { attributes.as_ref() }.copied().unwrap_or(0);
    let flags = attributes_bits & (COND_SHARED | COND_MONOTONIC);
    if flags & COND_SHARED != 0 || start::forwards_everything() {
        counters::other(Kind::ForwardedCond);
        // SAFETY: the program's arguments.
        return unsafe { real::pthread_cond_init(cond, attributes) };
    }
    let chosen = start::choose(cond as usize, caller, lockwork_policy::Kind::Cond);
    chosen.count();
    let decision = if chosen.leaves_condition() {
        COND_WANTS_GLIBC
    } else {
        counters::other(Kind::Cond);
        COND_OURS
    };
    // SAFETY: the program's condition, which nobody uses before it is initialised; zero is a valid one.
    unsafe { cond.cast::<c_void>().write_bytes(0, size_of::<CondVar>()) };
    // SAFETY: as above.
    unsafe { CondVar::at(cond) }.flags().store(flags | decision, Relaxed);
    0
}

/// POSIX. `EBUSY` while somebody waits, where glibc would block for ever.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_cond_destroy(cond: *mut CondVar) -> c_int {
    // SAFETY: the program's condition.
    let it = unsafe { CondVar::at(cond) };
    fork::purge_if_child();
    let result = if is_forwarded(it) {
        // glibc waits until the word that this is in counts no waiter.
        it.flags().fetch_and(!COND_GLIBC, Relaxed);
        // SAFETY: as above.
        unsafe { real::pthread_cond_destroy(cond) }
    } else if it.cond.destroy() {
        0
    } else {
        EBUSY
    };
    if result == 0 {
        profile::renewed(Record::Cond, cond as usize, 0);
    }
    result
}

/// POSIX.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_cond_signal(cond: *mut CondVar) -> c_int {
    // SAFETY: the program's condition.
    let it = unsafe { CondVar::at(cond) };
    match Told::of(it) {
        // SAFETY: as above.
        Told::Glibc => return unsafe { real::pthread_cond_signal(cond) },
        Told::Ours => {
            fork::purge_if_child();
            it.cond.signal();
        }
        Told::Nobody => {}
    }
    0
}

/// POSIX.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_cond_broadcast(cond: *mut CondVar) -> c_int {
    // SAFETY: the program's condition.
    let it = unsafe { CondVar::at(cond) };
    match Told::of(it) {
        // SAFETY: as above.
        Told::Glibc => return unsafe { real::pthread_cond_broadcast(cond) },
        Told::Ours => {
            fork::purge_if_child();
            it.cond.broadcast();
        }
        Told::Nobody => {}
    }
    0
}
