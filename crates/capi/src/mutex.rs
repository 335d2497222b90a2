//! `lockwork_mutex_*`.

use core::ffi::{c_char, c_int};
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork::profile::{self, How, Operation};
use lockwork_locks::inplace::mutex::{Operations, operations};
use lockwork_locks::inplace::{MutexLayout, MutexPlace, stays_locked};
use lockwork_locks::knobs::Knobs;
use lockwork_locks::registry::{DEFAULT, Spec, Wrapper};
use lockwork_platform::bookmarks;

use crate::specs::{self, Served, Server};
use crate::time::{self, REALTIME, Timespec};
use crate::{EBUSY, EINVAL, ETIMEDOUT, tsan};

/// `lockwork_mutex_t`.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct Mutex {
    /// What serves the mutex; null = the default, at its first use.
    server: AtomicPtr<MutexServer>,
    lock: [usize; 2],
    token: usize,
    state: usize,
    spare: [usize; 3],
}

const _: () = assert!(size_of::<Mutex>() == 64);

impl Mutex {
    /// The mutex for a profile.
    pub(crate) fn operation(&self) -> Operation<'static> {
        Operation { lock: ptr::from_ref(self).addr(), how: How::Mutex, name: &self.server().name }
    }
}

type MutexServer = Server<Spec, Operations<Mutex>>;

static SERVED: Served<Spec, Operations<Mutex>> = Served::none();

// SAFETY: the parts do not overlap, and only the lock touches them.
unsafe impl MutexPlace for Mutex {
    const LAYOUT: MutexLayout = MutexLayout {
        lock: core::mem::offset_of!(Mutex, lock),
        room: 2 * size_of::<usize>(),
        token: core::mem::offset_of!(Mutex, token),
        state: Some(core::mem::offset_of!(Mutex, state)),
    };

    fn knobs(&self) -> &Knobs {
        match &self.server().spec.wrapper {
            Some(Wrapper { knobs, .. }) => knobs,
            _ => &Knobs::NONE,
        }
    }
}

impl Mutex {
    #[inline(always)]
    fn server(&self) -> &'static MutexServer {
        // SAFETY: null, or what `SERVED` keeps for good. ORDER: published by its table's lock or by this very store.
        match unsafe { self.server.load(Acquire).as_ref() } {
            Some(server) => server,
            None => self.settle(),
        }
    }

    /// Forgets the waiters of the mutex whose lock is at this address.
    ///
    /// # Safety
    ///
    /// There is one, and no other thread uses it.
    pub(crate) unsafe fn forget_waiters(lock: usize) {
        // SAFETY: the caller's contract.
        let mutex = unsafe { &*((lock - Self::LAYOUT.lock) as *const Self) };
        // SAFETY: it serves this mutex; the caller's contract.
        unsafe { (mutex.server().operations.forget_waiters)(mutex) };
    }

    /// Gives a mutex that was initialised statically the default lock. Threads that come at once find the same.
    #[cold]
    fn settle(&self) -> &'static MutexServer {
        let server = served(default_spec());
        if self.server.swap(ptr::from_ref(server).cast_mut(), Release).is_null() {
            is_new(self);
        }
        server
    }
}

/// The memory may have been another mutex, which was held to its end while threads gave up waiting for it.
fn is_new(mutex: *const Mutex) {
    bookmarks::forget(mutex.addr(), size_of::<Mutex>());
}

fn default_spec() -> Spec {
    Spec::mutex(DEFAULT).unwrap_or_else(|error| unreachable!("the default lock is one of ours: {error}"))
}

fn served(spec: Spec) -> &'static MutexServer {
    SERVED.by(spec, |spec| {
        spec.prepare();
        operations(*spec)
    })
}

/// Tells of an acquisition, if the `outcome` is one, which it returns.
#[inline(always)]
fn acquired(mutex: *const Mutex, outcome: c_int) -> c_int {
    if outcome == 0 {
        tsan::acquire(mutex);
    }
    outcome
}

/// Initialises a mutex with the lock that `spec` describes, the default one where it is null.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_mutex_init(mutex: *mut Mutex, spec: *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    let Ok(spec) = (unsafe { specs::parse(spec, Spec::mutex) }) else { return EINVAL };
    let server = served(spec.unwrap_or_else(default_spec));
    let fresh = Mutex {
        server: AtomicPtr::new(ptr::from_ref(server).cast_mut()),
        lock: [0; 2],
        token: 0,
        state: 0,
        spare: [0; 3],
    };
    is_new(mutex);
    // SAFETY: the caller's contract.
    unsafe { mutex.write(fresh) };
    if server.spec.knobs != Knobs::NONE {
        // SAFETY: initialised, and served by this.
        let mutex = unsafe { &*mutex };
        // SAFETY: as above.
        unsafe { (server.operations.configure)(mutex, &server.spec.knobs) };
    }
    0
}

/// Acquires.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_mutex_lock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's contract.
    let server = unsafe { &*mutex }.server();
    // SAFETY: it serves this mutex.
    acquired(mutex, unsafe { (server.operations.lock)(mutex) })
}

/// Acquires if that needs no waiting.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_mutex_trylock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's contract.
    let server = unsafe { &*mutex }.server();
    // SAFETY: it serves this mutex.
    acquired(mutex, unsafe { (server.operations.trylock)(mutex) })
}

/// Releases.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_mutex_unlock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's contract.
    let server = unsafe { &*mutex }.server();
    tsan::release(mutex);
    // SAFETY: it serves this mutex.
    unsafe { (server.operations.unlock)(mutex) }
}

/// Acquires, or gives up at a time on `CLOCK_REALTIME`.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_mutex_timedlock(mutex: *mut Mutex, time: *const Timespec) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { lockwork_mutex_clocklock(mutex, REALTIME, time) }
}

/// Acquires, or gives up at a time on a clock.
///
/// # Safety
///
/// As the crate says.
#[cfg_attr(not(feature = "profile"), unsafe(no_mangle))]
pub unsafe extern "C" fn lockwork_mutex_clocklock(
    mutex: *mut Mutex,
    clock: c_int,
    time: *const Timespec,
) -> c_int {
    // A mutex that is free is acquired whatever the time says, as POSIX has it.
    // SAFETY: the caller's contract.
    if unsafe { lockwork_mutex_trylock(mutex) } == 0 {
        return 0;
    }
    // SAFETY: the caller's contract.
    let Some(deadline) = (unsafe { time::deadline(clock, time) }) else { return EINVAL };
    // SAFETY: the caller's contract.
    let mutex = unsafe { &*mutex };
    // SAFETY: it serves this mutex.
    let in_time = unsafe { (mutex.server().operations.lock_until)(mutex, deadline) };
    acquired(mutex, if in_time { 0 } else { ETIMEDOUT })
}

/// Gives back what the mutex holds outside of itself.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_mutex_destroy(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's contract.
    let mutex = unsafe { &*mutex };
    // SAFETY: null, or what `SERVED` keeps. ORDER: nobody else uses the mutex.
    let Some(server) = (unsafe { mutex.server.load(Relaxed).as_ref() }) else { return 0 };
    // SAFETY: it serves this mutex.
    if stays_locked(|| unsafe { (server.operations.is_locked)(mutex) }) {
        return EBUSY;
    }
    // SAFETY: as above, and nobody uses it.
    unsafe { (server.operations.dispose)(mutex) };
    profile::ends(ptr::from_ref(mutex).addr(), How::Mutex);
    0
}
