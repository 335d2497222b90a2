//! `fork`: the child has one thread, and the queues of its locks are full of ghosts.
//!
//! A lock that the forking thread holds, and others wait for, would be handed to a ghost at its release in the child.
//! The registry of waiting threads says which locks those are: the child forgets their waiters, before any other
//! handler of the program runs. A page that reads as zero in the child tells even where no handler ran.
//!
//! A thread that releases a lock is not in the registry, since the lock may be gone before it is done: the thread that forks
//! waits for those.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use lockwork_locks::wait::{WAITING_ON_COND, WAITING_ON_RWLOCK};
use lockwork_platform::published::Published;
use lockwork_platform::{Native, sys, waiters};

use crate::abi::layout::{CondVar, Mutex, RwLock};
use crate::abi::real;
use crate::layers::profile;
use crate::serve::{mutex, rwlock};

/// Says "this process" in a page that a child sees wiped; nothing where the kernel cannot do that.
static WITNESS: Published<Native, AtomicU32> = Published::nothing();

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

/// Registers the handlers, first of all.
pub(crate) fn install() {
    // SAFETY: functions of the right type; the handle is this library's, which is never unloaded.
    unsafe {
        __register_atfork(Some(prepare), Some(parent), Some(child), (&raw const __dso_handle).cast_mut())
    };
    let Some(page) = sys::map_pages(PAGE) else { return };
    // SAFETY: our own page, whose only content is the witness.
    if unsafe { sys::wipe_on_fork(page, PAGE) } {
        let witness = page.cast::<AtomicU32>();
        // SAFETY: fresh, zeroed, aligned.
        unsafe { witness.as_ref() }.store(THIS_PROCESS, Ordering::Relaxed);
        // SAFETY: initialised; the page is not unmapped once it is published.
        if unsafe { WITNESS.first(witness) }.is_err() {
            // SAFETY: nobody has seen it: there is one already.
            unsafe { sys::unmap_pages(page, PAGE) };
        }
    }
}

/// Forgets ghosts if this process is a child that no handler has run in: by `clone`.
#[inline]
pub(crate) fn purge_if_child() {
    if let Some(witness) = WITNESS.get()
        && witness.load(Ordering::Relaxed) != THIS_PROCESS
    {
        purge();
    }
}

/// The last handler before the fork, but for those that were registered before ours.
unsafe extern "C" fn prepare() {
    waiters::before_fork();
}

/// The first handler after it.
unsafe extern "C" fn parent() {
    waiters::after_fork();
}

unsafe extern "C" fn child() {
    waiters::after_fork_in_child();
    purge();
}

/// glibc, since 2.34: `fork` for signal handlers, which runs no handlers. Ours run all the same, as they do where a signal
/// handler calls `fork`: a child that did without would take threads of its own for the parent's when it notices.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "named after the function")]
unsafe extern "C" fn _Fork() -> c_int {
    waiters::before_fork();
    // SAFETY: takes nothing.
    let process = unsafe { real::_Fork() };
    if process == 0 {
        waiters::after_fork_in_child();
        purge();
    } else {
        waiters::after_fork();
    }
    process
}

#[cold]
fn purge() {
    if let Some(witness) = WITNESS.get() {
        witness.store(THIS_PROCESS, Ordering::Relaxed);
    }
    profile::after_fork_in_child();
    rwlock::table::inherit_readers();
    waiters::purge_ghosts(forget_waiters);
}

/// Forgets the waiters of what a ghost waited for. A thread that left a wait by `siglongjmp` out of a signal handler stays
/// registered for a lock that the program may have unmapped since.
fn forget_waiters(waiting_on: usize) {
    const KIND: usize = WAITING_ON_COND | WAITING_ON_RWLOCK;
    let address = waiting_on & !KIND;
    if !sys::is_mapped(address) {
        return;
    }
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
            match rwlock::table::ops(rwlock.server.load(Ordering::Relaxed)) {
                // SAFETY: as above.
                None => unsafe { rwlock::table::futex(rwlock).forget_waiters() },
                // SAFETY: the lock has this entry's server, and nobody else runs.
                Some(ops) => unsafe { (ops.forget_waiters)(rwlock) },
            }
        }
        _ => {
            // SAFETY: as above.
            let mutex = unsafe { Mutex::at(address as *mut Mutex) };
            if let Some(ops) = mutex::table::ops(mutex.tag()) {
                // SAFETY: the mutex has this entry's tag, and nobody else runs.
                unsafe { (ops.forget_waiters)(mutex) };
            }
        }
    }
}
