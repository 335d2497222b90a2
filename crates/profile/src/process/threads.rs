//! Where the calling thread records, and what it is told of its waits.
//!
//! A thread's place is a pointer of the platform's block for threads: null until it has used a lock while the process records,
//! [`NOT_RECORDED`] for a thread that ends, is about to get a place, or gets none, else its record in the file. Only the thread
//! itself writes to it, and in a child of `fork` the one thread there is.

use core::ptr;

use lockwork_platform::Native;
use lockwork_platform::observe::{self, Observer};
use syscalls::{Errno, Sysno, syscall};

use super::{asked, host, pid, region};
use crate::format::{Region, Thread};

/// In the place of a thread that is not recorded.
const NOT_RECORDED: *const () = ptr::without_provenance(1);

pub(super) static OBSERVER: Observer =
    Observer { wait_begins, wait_ends, sleeps, wakes, yields, thread_ends };

/// Where the calling thread records, if it has done so before: a place in the region, which there is then.
#[inline(always)]
#[must_use]
pub fn known_thread() -> Option<&'static Thread> {
    let place = observe::place();
    // SAFETY: set by `new_thread`, in the region, which is mapped for ever.
    (place.addr() > NOT_RECORDED.addr()).then(|| unsafe { &*place.cast::<Thread>() })
}

/// The same, and the region.
#[inline(always)]
#[must_use]
pub fn known() -> Option<(&'static Region, &'static Thread)> {
    let thread = known_thread()?;
    // A child of `fork` has none, and takes the places away; but a signal handler may fork right here.
    Some((region()?, thread))
}

/// Where the calling thread records; `None` while nothing is recorded.
#[inline(always)]
#[must_use]
pub fn recording() -> Option<(&'static Region, &'static Thread)> {
    let region = region().or_else(asked)?;
    if !region.is_enabled() {
        return None;
    }
    let thread = known_thread().or_else(|| new_thread(region))?;
    Some((region, thread))
}

#[cold]
fn new_thread(region: &'static Region) -> Option<&'static Thread> {
    if !observe::place().is_null() {
        return None;
    }
    // What follows may allocate, and the allocator may use a lock.
    observe::set_place(NOT_RECORDED);
    if !observe::will_hear_of_end() {
        return None;
    }
    let thread = region.enter_thread(Native::tid(), thread_exists)?;
    observe::set_place(ptr::from_ref(thread).cast());
    Some(thread)
}

/// Whether this process has a thread with this id.
#[must_use]
pub fn thread_exists(id: u32) -> bool {
    // SAFETY: no memory is involved, and signal 0 is none.
    unsafe { syscall!(Sysno::tgkill, pid(), id, 0) != Err(Errno::ESRCH) }
}

/// In a child of `fork`: the calling thread has no place yet.
pub(super) fn forget_place() {
    observe::set_place(ptr::null());
}

fn thread_ends() {
    let thread = known_thread();
    observe::set_place(NOT_RECORDED);
    if let Some(thread) = thread
        && let Some(region) = region()
    {
        region.leave_thread(thread);
    }
}

fn wait_begins(waiting_on: usize) {
    if let Some((region, thread)) = known()
        && let Some(host) = host()
        && let Some(target) = (host.target)(waiting_on, thread)
    {
        region.wait_begins(thread, target);
    }
}

fn wait_ends() {
    if let Some((region, thread)) = known() {
        region.wait_ends(thread);
    }
}

fn sleeps() {
    if let Some((region, thread)) = known() {
        region.wait_goes_on(thread);
        thread.parks();
    }
}

fn wakes() {
    if let Some(thread) = known_thread() {
        thread.unparks();
    }
}

fn yields() {
    if let Some((region, thread)) = known() {
        region.wait_goes_on(thread);
    }
}
