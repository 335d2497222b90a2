//! glibc's own functions, looked up behind ours when they are first needed.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::layout::{CondVar, Mutex, RwLock};
use crate::posix::time::Timespec;
use crate::report;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;

/// The address of glibc's function, 0 if it has none of that name.
fn look_up(name: &CStr) -> usize {
    // `dlsym` starts its search behind the library that its return address lies in: these calls must not become tail
    // calls, hence the use of each result.
    let mut address = core::ptr::null_mut();
    if name.to_bytes().starts_with(b"pthread_cond_") {
        // x86_64 has two generations of conditions; a plain lookup may find the older.
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
        $(
            /// glibc's function of this name.
            ///
            /// # Safety
            ///
            /// As glibc documents it.
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                static ADDRESS: AtomicUsize = AtomicUsize::new(0);
                let mut address = ADDRESS.load(Ordering::Relaxed);
                if address == 0 {
                    const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("no inner nul"),
                    };
                    address = find(NAME);
                    ADDRESS.store(address, Ordering::Relaxed);
                }
                // SAFETY: `find` returned the address of a function with this signature, or did not return.
                let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { core::mem::transmute(address) };
                // SAFETY: the caller's contract.
                unsafe { function($($argument),*) }
            }
        )*
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
}

/// The address of a function that is jumped to rather than called.
pub(crate) fn address_of(name: &CStr) -> usize {
    find(name)
}
