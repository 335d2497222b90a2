//! `fork`: the child has one thread, and the queues of its locks are full of threads that do not exist there.
//!
//! A lock that the forking thread holds, and others wait for, would be handed to one of them at its release in the child. The
//! registry of waiting threads says which locks those are: the child forgets their waiters, before any handler of the program
//! runs that was registered later. A thread that releases a lock is not in the registry: the thread that forks waits for those.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_locks::registry::Spec;
use lockwork_locks::rw::bravo;
use lockwork_locks::wait::{WAITING_ON_COND, WAITING_ON_DELEGATE, WAITING_ON_RWLOCK};
use lockwork_platform::{Native, sys, waiters};

use crate::cond::Condition;
use crate::mutex::Mutex;
use crate::rwlock::RwLock;

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

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether this process is a child in which threads of the parent may be visible readers.
static HAS_GHOSTS: AtomicBool = AtomicBool::new(false);

/// Registers the handlers, if nobody has done so: called before the first object gets its lock.
pub(crate) fn install() {
    if !INSTALLED.swap(true, Relaxed) {
        // SAFETY: functions of the right type; where this is part of a library that is unloaded, the C library forgets them then.
        unsafe {
            __register_atfork(Some(prepare), Some(parent), Some(child), (&raw const __dso_handle).cast_mut())
        };
    }
}

unsafe extern "C" fn prepare() {
    waiters::before_fork();
}

unsafe extern "C" fn parent() {
    waiters::after_fork();
}

unsafe extern "C" fn child() {
    waiters::after_fork_in_child();
    if bravo::inherit_readers::<Native>() {
        HAS_GHOSTS.store(true, Relaxed);
    }
    waiters::purge_ghosts(forget_waiters);
}

/// Drops the parent's visible readers of the lock that is being made anew in the bytes that begin at this address, as a child may
/// with one that threads of the parent read.
pub(crate) fn forget_ghosts(lock: usize, spec: &Spec) {
    if HAS_GHOSTS.load(Relaxed) && spec.has_visible_readers() {
        bravo::forget_inherited::<Native>(lock);
    }
}

/// Forgets the waiters of what a thread of the parent waited for. A thread that left a wait by `siglongjmp` out of a signal
/// handler stays registered for a lock that the program may have unmapped since.
fn forget_waiters(waiting_on: usize) {
    const KIND: usize = WAITING_ON_DELEGATE;
    let address = waiting_on & !KIND;
    // A delegate that another thread executes is lost to the child. One that nobody executes has no waiters, but for `locked(L)` of a
    // lock that is free for a moment while threads queue: that is lost, too.
    if waiting_on & KIND == WAITING_ON_DELEGATE || !sys::is_mapped(address) {
        return;
    }
    // SAFETY, for all three: a thread of the parent waited for it, so it was alive, and so is the child's copy; nobody else
    // runs.
    match waiting_on & KIND {
        // SAFETY: as said above.
        WAITING_ON_COND => unsafe { Condition::forget_waiters(address) },
        // SAFETY: as said above.
        WAITING_ON_RWLOCK => unsafe { RwLock::forget_waiters(address) },
        // SAFETY: as said above.
        _ => unsafe { Mutex::forget_waiters(address) },
    }
}
