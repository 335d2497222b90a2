//! glibc's own functions, looked up behind ours when they are first needed.

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::errno::ETIMEDOUT;
use crate::abi::layout::{CondVar, Mutex, RwLock};
use crate::abi::time::Timespec;
use crate::life::policy::modules;
use crate::life::report;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;

/// The address of glibc's function, 0 if it has none of that name.
fn look_up(name: &CStr) -> usize {
    // `dlsym` starts its search behind the library that its return address lies in: these calls must not become tail
    // calls, hence the use of each result.
    let mut address = core::ptr::null_mut();
    if name.to_bytes().starts_with(b"pthread_cond_") {
        // x86_64 has two generations of conditions; a plain lookup may find the older.
        type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
        // SAFETY: glibc's function, which has this type.
        let dlvsym: Dlvsym = unsafe { core::mem::transmute(DLVSYM.address()) };
        // SAFETY: terminated strings.
        address = unsafe { dlvsym(RTLD_NEXT, name.as_ptr(), c"GLIBC_2.3.2".as_ptr()) };
    }
    if address.is_null() {
        // SAFETY: a terminated string.
        address = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) };
    }
    // Not a tail call.
    core::hint::black_box(address) as usize
}

/// The address of a function that every glibc has.
fn find(name: &CStr) -> usize {
    match look_up(name) {
        0 => report::missing(name),
        address => address,
    }
}

/// The address of a function that newer versions of glibc have.
pub(crate) fn find_optional(name: &CStr) -> Option<usize> {
    Some(look_up(name)).filter(|&address| address != 0)
}

macro_rules! real {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// Where glibc's functions are, 0 where not looked up yet.
        #[allow(non_upper_case_globals, reason = "named after the functions")]
        mod address {
            $(pub(super) static $name: super::AtomicUsize = super::AtomicUsize::new(0);)*
        }

        /// Looks the functions up that are called.
        fn prepare_called() {
            $(address::$name.store(look_up(name_of!($name)), Ordering::Relaxed);)*
        }

        $(
            /// glibc's function of this name.
            ///
            /// # Safety
            ///
            /// As glibc documents it.
            #[allow(non_snake_case, reason = "named after the functions")]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                let mut address = address::$name.load(Ordering::Relaxed);
                if address == 0 {
                    address = find(name_of!($name));
                    address::$name.store(address, Ordering::Relaxed);
                }
                // SAFETY: the address of a function with this signature.
                let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { core::mem::transmute(address) };
                // SAFETY: the caller's contract.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

/// The name of a function as a terminated string.
macro_rules! name_of {
    ($name:ident) => {
        const {
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("no inner nul"),
            }
        }
    };
}

real! {
    pthread_mutex_init(mutex: *mut Mutex, attributes: *const u32) -> c_int;
    pthread_mutex_destroy(mutex: *mut Mutex) -> c_int;
    pthread_mutex_lock(mutex: *mut Mutex) -> c_int;
    pthread_mutex_trylock(mutex: *mut Mutex) -> c_int;
    pthread_mutex_timedlock(mutex: *mut Mutex, time: *const Timespec) -> c_int;
    pthread_mutex_clocklock(mutex: *mut Mutex, clock: c_int, time: *const Timespec) -> c_int;
    pthread_mutex_unlock(mutex: *mut Mutex) -> c_int;
    pthread_mutex_consistent(mutex: *mut Mutex) -> c_int;
    pthread_mutex_getprioceiling(mutex: *const Mutex, ceiling: *mut c_int) -> c_int;
    pthread_mutex_setprioceiling(mutex: *mut Mutex, ceiling: c_int, old: *mut c_int) -> c_int;
    pthread_cond_init(cond: *mut CondVar, attributes: *const u32) -> c_int;
    pthread_cond_destroy(cond: *mut CondVar) -> c_int;
    pthread_cond_signal(cond: *mut CondVar) -> c_int;
    pthread_cond_broadcast(cond: *mut CondVar) -> c_int;
    pthread_rwlock_init(lock: *mut RwLock, attributes: *const c_void) -> c_int;
    pthread_rwlock_destroy(lock: *mut RwLock) -> c_int;
    pthread_rwlock_rdlock(lock: *mut RwLock) -> c_int;
    pthread_rwlock_tryrdlock(lock: *mut RwLock) -> c_int;
    pthread_rwlock_timedrdlock(lock: *mut RwLock, time: *const Timespec) -> c_int;
    pthread_rwlock_clockrdlock(lock: *mut RwLock, clock: c_int, time: *const Timespec) -> c_int;
    pthread_rwlock_wrlock(lock: *mut RwLock) -> c_int;
    pthread_rwlock_trywrlock(lock: *mut RwLock) -> c_int;
    pthread_rwlock_timedwrlock(lock: *mut RwLock, time: *const Timespec) -> c_int;
    pthread_rwlock_clockwrlock(lock: *mut RwLock, clock: c_int, time: *const Timespec) -> c_int;
    pthread_rwlock_unlock(lock: *mut RwLock) -> c_int;
    pthread_spin_lock(lock: *mut u32) -> c_int;
    pthread_cancel(thread: usize) -> c_int;
    prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int;
    syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;
    _Fork() -> c_int;
}

/// A function of glibc's that is jumped to rather than called.
pub(crate) struct Target {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Target {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    /// Where the function is.
    pub(crate) fn address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => {
                let address = find(self.name);
                self.address.store(address, Ordering::Relaxed);
                address
            }
            address => address,
        }
    }
}

pub(crate) static DLVSYM: Target = Target::new(c"dlvsym");
pub(crate) static COND_WAIT: Target = Target::new(c"pthread_cond_wait");
pub(crate) static COND_TIMEDWAIT: Target = Target::new(c"pthread_cond_timedwait");
pub(crate) static COND_CLOCKWAIT: Target = Target::new(c"pthread_cond_clockwait");
pub(crate) static CND_WAIT: Target = Target::new(c"cnd_wait");
pub(crate) static CND_TIMEDWAIT: Target = Target::new(c"cnd_timedwait");

/// Looks all functions up. Done at start: the loader's lock, which a lookup takes, may be held by a thread that runs a
/// constructor, and that constructor may want a lock the program holds while it first needs one of these.
pub(crate) fn prepare() {
    for target in [&DLVSYM, &COND_WAIT, &COND_TIMEDWAIT, &COND_CLOCKWAIT, &CND_WAIT, &CND_TIMEDWAIT] {
        target.address.store(look_up(target.name), Ordering::Relaxed);
    }
    prepare_called();
    modules::prepare();
    // SAFETY: a condition of nobody else's, and attributes.
    CondVar::find_flags(|cond, attributes| unsafe { pthread_cond_init(cond, attributes) });
}

/// Whether a thread may take a mutex without bookkeeping by itself, as glibc's functions would (`Mutex::take_as_glibc`): they are
/// the ones that calls behind ours lead to, and they do that in the way that is known. Another library that wraps them, as that of
/// a checker of races, has to see each call.
pub(crate) fn mutexes_are_known() -> bool {
    let [lock, unlock, ceiling] = [
        &address::pthread_mutex_lock,
        &address::pthread_mutex_unlock,
        &address::pthread_mutex_getprioceiling,
    ]
    .map(|address| address.load(Ordering::Relaxed));
    // A library that wrapped the last of them, too, would be taken for glibc: there is little in it to wrap.
    let are_glibcs =
        modules::range(ceiling).is_some_and(|glibc| glibc.contains(&lock) && glibc.contains(&unlock));
    // SAFETY: a mutex of nobody else's.
    are_glibcs
        && Mutex::is_marked_as_known(
            |it| unsafe { pthread_mutex_lock(it) },
            |it| unsafe { pthread_mutex_timedlock(it, &Timespec::EPOCH) == ETIMEDOUT },
            |it| unsafe { pthread_mutex_unlock(it) },
        )
}

/// The address of a function that is jumped to once only.
pub(crate) fn address_of(name: &CStr) -> usize {
    find(name)
}
