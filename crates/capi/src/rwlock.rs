//! `lockwork_rwlock_*`.

use core::ffi::{c_char, c_int};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

#[cfg(feature = "profile")]
use lockwork::profile::Operation;
use lockwork::profile::{self, How};
use lockwork_locks::inplace::rwlock::{Operations, operations};
use lockwork_locks::inplace::{RwPlace, stays_locked};
use lockwork_locks::registry::Spec;

use crate::specs::{self, Served, Server};
use crate::time::{self, REALTIME, Timespec};
use crate::{EAGAIN, EBUSY, EINVAL, ETIMEDOUT, fork, tsan};

/// Bytes for the lock.
const ROOM: usize = 40;

/// `lockwork_rwlock_t`.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct RwLock {
    /// What serves the lock; null = the default, at its first use.
    server: AtomicPtr<RwServer>,
    lock: [usize; ROOM / size_of::<usize>()],
    /// 1 = a writer has the lock. Written by the writer: an unlock does not say which side it is.
    is_written: AtomicU32,
    spare: [u32; 3],
}

const _: () = assert!(size_of::<RwLock>() == 64);

type RwServer = Server<Spec, Operations<RwLock>>;

static SERVED: Served<Spec, Operations<RwLock>> = Served::none();

// SAFETY: nothing but the lock touches these bytes.
unsafe impl RwPlace for RwLock {
    const LOCK: usize = core::mem::offset_of!(RwLock, lock);
    const ROOM: usize = ROOM;
}

impl RwLock {
    #[inline(always)]
    fn server(&self) -> &'static RwServer {
        // SAFETY: null, or what `SERVED` keeps for good.
        match unsafe { self.server.load(Acquire).as_ref() } {
            Some(server) => server,
            None => self.settle(),
        }
    }

    #[inline(always)]
    fn operations(&self) -> &'static Operations<RwLock> {
        &self.server().operations
    }

    /// The lock for a profile.
    #[cfg(feature = "profile")]
    pub(crate) fn operation(&self, how: How) -> Operation<'static> {
        Operation { lock: ptr::from_ref(self).addr(), how, name: &self.server().name }
    }

    /// Forgets the waiters of the lock whose bytes begin at this address.
    ///
    /// # Safety
    ///
    /// There is one, and no other thread uses it.
    pub(crate) unsafe fn forget_waiters(lock: usize) {
        // SAFETY: the caller's contract.
        let lock = unsafe { &*((lock - Self::LOCK) as *const Self) };
        // SAFETY: it serves this lock; the caller's contract.
        unsafe { (lock.operations().forget_waiters)(lock) };
    }

    /// Gives a lock that was initialised statically the default one. Threads that come at once find the same.
    #[cold]
    fn settle(&self) -> &'static RwServer {
        let server = served(Spec::DEFAULT_RWLOCK);
        fork::forget_ghosts(ptr::from_ref(self).addr() + Self::LOCK, &server.spec);
        self.server.store(ptr::from_ref(server).cast_mut(), Release);
        server
    }

    /// What readers release for ThreadSanitizer, and writers acquire: readers are not ordered among themselves.
    fn readers(&self) -> *const usize {
        &raw const self.lock[0]
    }

    /// Tells of a reader, if it has `acquired`; what its function returns, `otherwise` if it has not.
    fn reads(&self, acquired: bool, otherwise: c_int) -> c_int {
        if !acquired {
            return otherwise;
        }
        tsan::acquire(self);
        0
    }

    /// Notes the writer, if it has `acquired`; what its function returns, `otherwise` if it has not.
    fn wrote(&self, acquired: bool, otherwise: c_int) -> c_int {
        if !acquired {
            return otherwise;
        }
        tsan::acquire(self);
        tsan::acquire(self.readers());
        self.is_written.store(1, Relaxed); // ORDER: read by this writer only, or by readers, after it has released.
        0
    }
}

fn served(spec: Spec) -> &'static RwServer {
    SERVED.by(spec, |spec| {
        spec.prepare();
        operations(spec)
    })
}

/// Initialises a lock with what `spec` describes, the default one where it is null.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_rwlock_init(lock: *mut RwLock, spec: *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    let Ok(spec) = (unsafe { specs::parse(spec, Spec::rwlock) }) else { return EINVAL };
    let server = served(spec.unwrap_or(Spec::DEFAULT_RWLOCK));
    let fresh = RwLock {
        server: AtomicPtr::new(ptr::from_ref(server).cast_mut()),
        lock: [0; _],
        is_written: AtomicU32::new(0),
        spare: [0; 3],
    };
    // SAFETY: the caller's contract.
    unsafe { lock.write(fresh) };
    fork::forget_ghosts(lock.addr() + RwLock::LOCK, &server.spec);
    0
}

/// Acquires for reading.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_rwlock_rdlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { &*lock };
    // SAFETY: it serves this lock.
    let acquired = unsafe { (lock.operations().lock_shared)(lock, None) };
    lock.reads(acquired, EAGAIN)
}

/// Acquires for reading if that needs no waiting.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_rwlock_tryrdlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { &*lock };
    // SAFETY: it serves this lock.
    let acquired = unsafe { (lock.operations().try_lock_shared)(lock) };
    lock.reads(acquired, EBUSY)
}

/// Acquires for reading, or gives up at a time on `CLOCK_REALTIME`.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_rwlock_timedrdlock(lock: *mut RwLock, time: *const Timespec) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { lockwork_rwlock_clockrdlock(lock, REALTIME, time) }
}

/// Acquires for reading, or gives up at a time on a clock.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_rwlock_clockrdlock(
    lock: *mut RwLock,
    clock: c_int,
    time: *const Timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { &*lock };
    // SAFETY: it serves this lock.
    if unsafe { (lock.operations().try_lock_shared)(lock) } {
        return lock.reads(true, 0);
    }
    // SAFETY: the caller's contract.
    let Some(deadline) = (unsafe { time::deadline(clock, time) }) else { return EINVAL };
    // SAFETY: it serves this lock.
    let acquired = unsafe { (lock.operations().lock_shared)(lock, Some(deadline)) };
    lock.reads(acquired, ETIMEDOUT)
}

/// Acquires for writing.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_rwlock_wrlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { &*lock };
    // SAFETY: it serves this lock.
    let acquired = unsafe { (lock.operations().lock_exclusive)(lock, None) };
    lock.wrote(acquired, EAGAIN)
}

/// Acquires for writing if that needs no waiting.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_rwlock_trywrlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { &*lock };
    // SAFETY: it serves this lock.
    let acquired = unsafe { (lock.operations().try_lock_exclusive)(lock) };
    lock.wrote(acquired, EBUSY)
}

/// Acquires for writing, or gives up at a time on `CLOCK_REALTIME`.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_rwlock_timedwrlock(lock: *mut RwLock, time: *const Timespec) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { lockwork_rwlock_clockwrlock(lock, REALTIME, time) }
}

/// Acquires for writing, or gives up at a time on a clock.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_rwlock_clockwrlock(
    lock: *mut RwLock,
    clock: c_int,
    time: *const Timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    if unsafe { lockwork_rwlock_trywrlock(lock) } == 0 {
        return 0;
    }
    // SAFETY: the caller's contract.
    let Some(deadline) = (unsafe { time::deadline(clock, time) }) else { return EINVAL };
    // SAFETY: the caller's contract.
    let lock = unsafe { &*lock };
    // SAFETY: it serves this lock.
    let acquired = unsafe { (lock.operations().lock_exclusive)(lock, Some(deadline)) };
    lock.wrote(acquired, ETIMEDOUT)
}

/// Releases what the calling thread has, for reading or writing.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_rwlock_unlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { &*lock };
    let operations = lock.operations();
    // Beside the caller there is no holder of the other side. ORDER: the caller's own store, or one before its acquisition.
    if lock.is_written.load(Relaxed) == 1 {
        lock.is_written.store(0, Relaxed);
        tsan::release(lock);
        // SAFETY: the caller is the writer.
        unsafe { (operations.unlock_exclusive)(lock) };
    } else {
        tsan::release(lock.readers());
        // SAFETY: the caller is a reader.
        unsafe { (operations.unlock_shared)(lock) };
    }
    0
}

/// Gives back what the lock holds outside of itself.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_rwlock_destroy(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's contract.
    let lock = unsafe { &*lock };
    // SAFETY: null, or what `SERVED` keeps. ORDER: nobody else uses the lock.
    let Some(server) = (unsafe { lock.server.load(Relaxed).as_ref() }) else { return 0 };
    // SAFETY: it serves this lock.
    if stays_locked(|| !unsafe { (server.operations.try_lock_exclusive)(lock) }) {
        return EBUSY;
    }
    // SAFETY: acquired above.
    unsafe { (server.operations.unlock_exclusive)(lock) };
    // SAFETY: nobody uses it.
    unsafe { (server.operations.dispose)(lock) };
    profile::ends(ptr::from_ref(lock).addr(), How::Write);
    0
}
