//! `pthread_rwlock_*`: the in-place futex lock or another of ours, or glibc's where processes share it or a policy says so.

pub(crate) mod table;

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_locks::rw::ReadRefused;
use lockwork_locks::wait::expired;
use lockwork_platform::{Clock, Deadline, Native};
use lockwork_profile::format::Kind as Record;

use self::table as rwtable;
use crate::abi::entrances::RWLOCK_OPERATIONS;
use crate::abi::entry::rwlock_entry;
use crate::abi::errno::{EAGAIN, EBUSY, EDEADLK, EINVAL, ETIMEDOUT};
use crate::abi::layout::{PREFER_WRITERS, RWLOCK_FUTEX, RWLOCK_GLIBC, RwLock};
use crate::abi::real;
use crate::abi::time::{self, Timespec};
use crate::layers::profile;
use crate::layers::{self, Access, Event, How};
use crate::life::counters::{self, Kind};
use crate::life::policy::Chosen;
use crate::life::{fork, start};

/// Whether glibc serves this lock. Decides that if it has not been done, for the code before the return address `caller`.
pub(crate) fn is_forwarded(lock: &RwLock, caller: usize) -> bool {
    if start::forwards_everything() {
        counters::uncounted();
        return true;
    }
    if lock.is_shared() {
        return true;
    }
    match lock.server.load(Relaxed) {
        0 => {
            let chosen =
                start::choose(core::ptr::from_ref(lock) as usize, caller, lockwork_policy::Kind::Rwlock);
            let server = server(chosen, lock.prefers_writers());
            rwtable::forget_ghosts(lock, server);
            let (server, first) = lock.decide(server);
            if first {
                count(chosen, server);
            }
            server == RWLOCK_GLIBC
        }
        server => server == RWLOCK_GLIBC,
    }
}

/// The server of a lock: the futex lock where the chosen one cannot keep readers behind waiting writers, as its attribute
/// asks.
fn server(chosen: Chosen, prefers_writers: bool) -> u32 {
    match chosen.tags.rwlock {
        RWLOCK_GLIBC => RWLOCK_GLIBC,
        server if prefers_writers && !rwtable::bars_readers(server) => RWLOCK_FUTEX,
        server => server,
    }
}

fn count(chosen: Chosen, server: u32) {
    chosen.count();
    if server == RWLOCK_GLIBC {
        counters::other(Kind::ForwardedRwLock);
    } else {
        counters::rwlock(server);
    }
}

/// Whether the calling thread is the writer.
fn is_writer(lock: &RwLock) -> bool {
    lock.writer.load(Relaxed) == Native::tid()
}

/// An operation: `$name` is its entry, `$ours` serves it, and `$decide` does so for locks that are not known to be ours. The
/// entry jumps to what [`routes`] has at `$number`.
macro_rules! operation {
    ($(#[$doc:meta])* $name:ident, $number:expr, $ours:ident, $decide:ident($($argument:ident: $type:ty),*; $($unused:ty),*)) => {
        rwlock_entry! { $(#[$doc])* $name, $number }

        pub(crate) unsafe extern "C" fn $decide(
            lock: *mut RwLock,
            $($argument: $type,)*
            $(_: $unused,)*
            caller: usize,
        ) -> c_int {
            // SAFETY: the program's lock.
            if is_forwarded(unsafe { RwLock::at(lock) }, caller) {
                // SAFETY: the program's arguments.
                unsafe { real::$name(lock, $($argument),*) }
            } else {
                // SAFETY: as above.
                unsafe { $ours(lock, $($argument),*) }
            }
        }
    };
}

operation! {
    /// POSIX. A thread that has it for writing gets `EDEADLK`.
    pthread_rwlock_rdlock, 0, read, decide_and_read(; usize, usize)
}
operation! {
    /// POSIX.
    pthread_rwlock_tryrdlock, 1, try_read, decide_and_try_read(; usize, usize)
}
operation! {
    /// POSIX.
    pthread_rwlock_timedrdlock, 2, timed_read, decide_and_timed_read(time: *const Timespec; usize)
}
operation! {
    /// POSIX 2024.
    pthread_rwlock_clockrdlock, 3, clock_read, decide_and_clock_read(clock: c_int, time: *const Timespec;)
}
operation! {
    /// POSIX. A thread that has it for writing gets `EDEADLK`.
    pthread_rwlock_wrlock, 4, write, decide_and_write(; usize, usize)
}
operation! {
    /// POSIX.
    pthread_rwlock_trywrlock, 5, try_write, decide_and_try_write(; usize, usize)
}
operation! {
    /// POSIX.
    pthread_rwlock_timedwrlock, 6, timed_write, decide_and_timed_write(time: *const Timespec; usize)
}
operation! {
    /// POSIX 2024.
    pthread_rwlock_clockwrlock, 7, clock_write, decide_and_clock_write(clock: c_int, time: *const Timespec;)
}
operation! {
    /// POSIX.
    pthread_rwlock_unlock, 8, unlock, decide_and_unlock(; usize, usize)
}

/// Where the entries jump to without a profile: for ours, and for others.
pub(crate) const fn routes() -> [[AtomicPtr<()>; 2]; RWLOCK_OPERATIONS] {
    [
        route(read as *const (), decide_and_read as *const ()),
        route(try_read as *const (), decide_and_try_read as *const ()),
        route(timed_read as *const (), decide_and_timed_read as *const ()),
        route(clock_read as *const (), decide_and_clock_read as *const ()),
        route(write as *const (), decide_and_write as *const ()),
        route(try_write as *const (), decide_and_try_write as *const ()),
        route(timed_write as *const (), decide_and_timed_write as *const ()),
        route(clock_write as *const (), decide_and_clock_write as *const ()),
        route(unlock as *const (), decide_and_unlock as *const ()),
    ]
}

const fn route(ours: *const (), others: *const ()) -> [AtomicPtr<()>; 2] {
    [AtomicPtr::new(ours.cast_mut()), AtomicPtr::new(others.cast_mut())]
}

/// The operations as the entry points serve them without a profile: the lock, its arguments, and the return address.
pub(crate) mod unprofiled {
    pub(crate) use super::{
        decide_and_clock_read as clock_read, decide_and_clock_write as clock_write, decide_and_read as read,
        decide_and_timed_read as timed_read, decide_and_timed_write as timed_write,
        decide_and_try_read as try_read, decide_and_try_write as try_write, decide_and_unlock as unlock,
        decide_and_write as write, is_forwarded,
    };
}

/// `pthread_rwlockattr_t`, as glibc lays it out.
#[repr(C)]
struct Attributes {
    preference: c_int,
    shared: c_int,
}

/// POSIX. The code location that initialises a lock may decide who serves it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_rwlock_init(lock: *mut RwLock, attributes: *const c_void) -> c_int {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov rdx, qword ptr [rsp]", "jmp {}", sym initialise);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x2, x30", "b {}", sym initialise);
}

unsafe extern "C" fn initialise(lock: *mut RwLock, attributes: *const c_void, caller: usize) -> c_int {
    start::ensure();
    fork::purge_if_child();
    profile::renewed(Record::RwLock, lock as usize, caller);
    // SAFETY: null, or the program's attributes.
    let attr = unsafe { attributes.cast::<Attributes>().as_ref() };
    if attr.is_some_and(|attr| attr.shared != 0) || start::forwards_everything() {
        counters::other(Kind::ForwardedRwLock);
        // SAFETY: the program's arguments.
        return unsafe { real::pthread_rwlock_init(lock, attributes) };
    }
    let chosen = start::choose(lock as usize, caller, lockwork_policy::Kind::Rwlock);
    let preference = attr.map_or(0, |attr| attr.preference as u32);
    let server = server(chosen, preference == PREFER_WRITERS);
    count(chosen, server);
    if server == RWLOCK_GLIBC {
        // SAFETY: the program's arguments.
        let result = unsafe { real::pthread_rwlock_init(lock, attributes) };
        if result != 0 {
            return result;
        }
    } else {
        // SAFETY: the program's lock, which nobody uses before it is initialised; zero is a valid one.
        unsafe { lock.cast::<c_void>().write_bytes(0, size_of::<RwLock>()) };
        rwtable::forget_ghosts(lock, server);
    }
    // SAFETY: as above.
    let it = unsafe { RwLock::at(lock) };
    it.kind.store(preference, Relaxed);
    it.server.store(server, Relaxed);
    0
}

/// POSIX.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_rwlock_destroy(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    profile::renewed(Record::RwLock, lock as usize, 0);
    if start::forwards_everything() || it.is_shared() || it.server.load(Relaxed) == RWLOCK_GLIBC {
        // SAFETY: as above.
        return unsafe { real::pthread_rwlock_destroy(lock) };
    }
    if let Some(ops) = rwtable::ops(it.server.load(Relaxed)) {
        // SAFETY: the lock has this entry's server, and the program has no more use for it.
        unsafe { (ops.dispose)(it) };
    }
    // glibc checks nothing here and returns 0.
    0
}

unsafe extern "C" fn read(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    acquire_shared(unsafe { RwLock::at(lock) }, None)
}

/// Whether the calling thread may have this lock for reading, and must then not wait behind a writer, unless the
/// program asked for that.
#[inline(always)]
fn may_read_already(it: &RwLock) -> bool {
    Native::read_locks() != 0 && !it.prefers_writers()
}

/// Acquires for reading.
#[inline(always)]
fn acquire_shared(it: &RwLock, deadline: Option<Deadline>) -> c_int {
    if is_writer(it) {
        return EDEADLK;
    }
    let Some(ops) = rwtable::served(it.server.load(Relaxed)) else {
        return read_result(rwtable::futex(it).lock_shared(it.preference(), deadline));
    };
    let lock = if may_read_already(it) { ops.lock_shared_again } else { ops.lock_shared };
    // SAFETY: the lock has this entry's server.
    if !unsafe { lock(it, deadline) } {
        // Sooner than that there are too many readers.
        return if deadline.is_some_and(expired::<Native>) { ETIMEDOUT } else { EAGAIN };
    }
    Native::count_read_locks(1);
    0
}

unsafe extern "C" fn try_read(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    let result = layers::acquire(Event { access: Access::Read, how: How::Try }, || try_shared(it));
    if result == 0 && rwtable::served(it.server.load(Relaxed)).is_some() {
        Native::count_read_locks(1);
    }
    result
}

fn try_shared(it: &RwLock) -> c_int {
    let Some(ops) = rwtable::ops(it.server.load(Relaxed)) else {
        return match rwtable::futex(it).try_lock_shared(it.preference()) {
            Ok(()) => 0,
            Err(ReadRefused::Busy) => EBUSY,
            Err(ReadRefused::TooManyReaders) => EAGAIN,
        };
    };
    let at_once = Deadline { clock: Clock::Monotonic, ns: 0 };
    // SAFETY: the lock has this entry's server.
    let acquired = unsafe { (ops.try_lock_shared)(it) }
        // SAFETY: as above.
        || may_read_already(it) && unsafe { (ops.lock_shared_again)(it, Some(at_once)) };
    if acquired { 0 } else { EBUSY }
}

/// What a waiting acquisition for reading returns; busy can only mean that its deadline passed.
fn read_result(result: Result<(), ReadRefused>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(ReadRefused::Busy) => ETIMEDOUT,
        Err(ReadRefused::TooManyReaders) => EAGAIN,
    }
}

unsafe extern "C" fn timed_read(lock: *mut RwLock, time: *const Timespec) -> c_int {
    // SAFETY: the program's time.
    let deadline = unsafe { time::deadline(Clock::Realtime, time) };
    // SAFETY: the program's lock.
    read_until(unsafe { RwLock::at(lock) }, deadline)
}

unsafe extern "C" fn clock_read(lock: *mut RwLock, clock: c_int, time: *const Timespec) -> c_int {
    // SAFETY: the program's time.
    let deadline = time::clock(clock).and_then(|clock| unsafe { time::deadline(clock, time) });
    // SAFETY: the program's lock.
    read_until(unsafe { RwLock::at(lock) }, deadline)
}

/// Acquires for reading until a deadline; there is none where the program's clock or time was bad, which glibc refuses
/// even where it would not wait.
fn read_until(it: &RwLock, deadline: Option<Deadline>) -> c_int {
    deadline.map_or(EINVAL, |deadline| acquire_shared(it, Some(deadline)))
}

/// Notes the calling thread as the writer.
fn own(lock: &RwLock) -> c_int {
    lock.writer.store(Native::tid(), Relaxed);
    0
}

unsafe extern "C" fn write(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    acquire_exclusive(unsafe { RwLock::at(lock) }, None)
}

#[inline(always)]
fn acquire_exclusive(it: &RwLock, deadline: Option<Deadline>) -> c_int {
    if is_writer(it) {
        return EDEADLK;
    }
    let acquired = match rwtable::served(it.server.load(Relaxed)) {
        None => rwtable::futex(it).lock_exclusive(it.preference(), deadline),
        // SAFETY: the lock has this entry's server.
        Some(ops) => unsafe { (ops.lock_exclusive)(it, deadline) },
    };
    if acquired { own(it) } else { ETIMEDOUT }
}

unsafe extern "C" fn try_write(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    let acquired = layers::acquire(Event { access: Access::Write, how: How::Try }, || {
        match rwtable::ops(it.server.load(Relaxed)) {
            None => rwtable::futex(it).try_lock_exclusive(),
            // SAFETY: the lock has this entry's server.
            Some(ops) => unsafe { (ops.try_lock_exclusive)(it) },
        }
    });
    if acquired { own(it) } else { EBUSY }
}

unsafe extern "C" fn timed_write(lock: *mut RwLock, time: *const Timespec) -> c_int {
    // SAFETY: the program's time.
    let deadline = unsafe { time::deadline(Clock::Realtime, time) };
    // SAFETY: the program's lock.
    write_until(unsafe { RwLock::at(lock) }, deadline)
}

unsafe extern "C" fn clock_write(lock: *mut RwLock, clock: c_int, time: *const Timespec) -> c_int {
    // SAFETY: the program's time.
    let deadline = time::clock(clock).and_then(|clock| unsafe { time::deadline(clock, time) });
    // SAFETY: the program's lock.
    write_until(unsafe { RwLock::at(lock) }, deadline)
}

/// Acquires for writing until a deadline; see [`read_until`].
fn write_until(it: &RwLock, deadline: Option<Deadline>) -> c_int {
    deadline.map_or(EINVAL, |deadline| acquire_exclusive(it, Some(deadline)))
}

unsafe extern "C" fn unlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the program's lock.
    let it = unsafe { RwLock::at(lock) };
    // A holder sees a writer here only if it is the writer: writers note themselves while they have it.
    let is_write_locked = it.writer.load(Relaxed) != 0;
    if is_write_locked {
        it.writer.store(0, Relaxed);
    }
    let Some(ops) = rwtable::served(it.server.load(Relaxed)) else {
        let (futex, preference) = (rwtable::futex(it), it.preference());
        if is_write_locked {
            // SAFETY: the program holds the lock, and a lock held for writing is held by nobody else.
            unsafe { futex.unlock_exclusive(preference) };
        } else {
            // SAFETY: the program holds the lock, not for writing.
            unsafe { futex.unlock_shared(preference) };
        }
        return 0;
    };
    if is_write_locked {
        // SAFETY: as above, and the lock has this entry's server.
        unsafe { (ops.unlock_exclusive)(it) };
    } else {
        Native::count_read_locks(-1);
        // SAFETY: as above.
        unsafe { (ops.unlock_shared)(it) };
    }
    0
}
