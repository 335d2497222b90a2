//! `fork`: the child has one thread, and the queues of its locks are full of ghosts.
//!
//! A lock that the forking thread holds, and others wait for, would be handed to a ghost at its release in the child.
//! The registry of waiting threads says which locks those are: the child forgets their waiters, before any other
//! handler of the program runs. A page that reads as zero in the child tells even where no handler ran.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use lockwork_locks::wait::{WAITING_ON_COND, WAITING_ON_RWLOCK};
use lockwork_platform::{slots, sys};

use crate::layout::{CondVar, Mutex, RwLock};
use crate::{rwtable, table};

/// Says "this process" in a page that a child sees wiped; null where the kernel cannot do that.
static WITNESS: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

const PAGE: usize = 4096;
const THIS_PROCESS: u32 = 0x4c4f_434b;

type Handler = unsafe extern "C" fn();

unsafe extern "C" {
    fn __register_atfork(
        prepare: Option<Handler>,
        parent: Option<Handler>,
        child: Option<Handler>,
        library: *mut c_void,
    ) -> c_int;
    static __dso_handle: c_void;
}

/// Registers the handler, first of all.
pub(crate) fn install() {
    // SAFETY: a function of the right type; the handle is this library's, which is never unloaded.
    unsafe { __register_atfork(None, None, Some(child), (&raw const __dso_handle).cast_mut()) };
    let Some(page) = sys::map_pages(PAGE) else { return };
    // SAFETY: our own page, whose only content is the witness.
    if unsafe { sys::wipe_on_fork(page, PAGE) } {
        let witness = page.cast::<AtomicU32>();
        // SAFETY: fresh, zeroed, aligned.
        unsafe { witness.as_ref() }.store(THIS_PROCESS, Ordering::Relaxed);
        WITNESS.store(witness.as_ptr(), Ordering::Release);
    }
}

/// Forgets ghosts if this process is a child that no handler has run in (`_Fork`, `clone`).
#[inline]
pub(crate) fn purge_if_child() {
    // SAFETY: null or our page.
    if let Some(witness) = unsafe { WITNESS.load(Ordering::Acquire).as_ref() }
        && witness.load(Ordering::Relaxed) != THIS_PROCESS
    {
        purge();
    }
}

unsafe extern "C" fn child() {
    purge();
}

#[cold]
fn purge() {
    // SAFETY: null or our page.
    if let Some(witness) = unsafe { WITNESS.load(Ordering::Acquire).as_ref() } {
        witness.store(THIS_PROCESS, Ordering::Relaxed);
    }
    rwtable::forget_arrivals();
    slots::purge_ghosts(forget_waiters);
}

/// Forgets the waiters of what a ghost waited for.
fn forget_waiters(waiting_on: usize) {
    const KIND: usize = WAITING_ON_COND | WAITING_ON_RWLOCK;
    let address = waiting_on & !KIND;
    match waiting_on & KIND {
        WAITING_ON_COND => {
            // SAFETY: a thread of the parent waited on it, so it was alive, and so is the child's copy; nobody else runs.
            let cond = unsafe { CondVar::at(address as *mut CondVar) };
            // SAFETY: as above.
            unsafe { cond.cond.forget_waiters() };
        }
        WAITING_ON_RWLOCK => {
            // SAFETY: as above.
            let rwlock = unsafe { RwLock::at(address as *mut RwLock) };
            match rwtable::ops(rwlock.server.load(Ordering::Relaxed)) {
                // SAFETY: as above.
                None => unsafe { rwtable::futex(rwlock).forget_waiters() },
                // SAFETY: the lock has this entry's server, and nobody else runs.
                Some(ops) => unsafe { (ops.forget_waiters)(rwlock) },
            }
        }
        _ => {
            // SAFETY: as above.
            let mutex = unsafe { Mutex::at(address as *mut Mutex) };
            if let Some(ops) = table::ops(mutex.tag()) {
                // SAFETY: the mutex has this entry's tag, and nobody else runs.
                unsafe { (ops.forget_waiters)(mutex) };
            }
        }
    }
}
