//! `pthread_cancel`, so that it reaches threads that wait on our conditions.
//!
//! glibc notes the request and, for a thread in one of its own cancellable calls, interrupts it. A thread
//! asleep in one of our waits is not in such a call: after glibc has noted the request we mark the target's slot
//! and kick it out of its sleep. It leaves the queue, takes its mutex again, and acts on the request in the entry
//! point, where no Rust frame is on the stack.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, fence};

use lockwork_locks::cond::{self, Interruption};
use lockwork_platform::slots::{self, Slot};
use lockwork_platform::{Native, NativeFutex};

use crate::real;

/// What a wait returns to its entry point when the thread shall act on a cancellation request. Not an errno.
pub(crate) const CANCELLED: c_int = 999;

unsafe extern "C" {
    #[link_name = "pthread_testcancel"]
    pub(crate) fn testcancel();
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Makes sure that a canceller finds this thread, before the entry point tests for a request made earlier:
/// whoever makes one later finds the slot.
pub(crate) fn make_reachable() {
    if let Some(slot) = slots::current() {
        // A mark of an earlier request: the entry point's test acts on it now, or glibc will not act on it any more, as in
        // a clean-up handler. A request from here on marks again.
        slot.cancel_pending.store(0, SeqCst);
    }
    fence(SeqCst);
}

/// Whether the calling thread has cancellation enabled.
fn is_enabled() -> bool {
    const DISABLE: c_int = 1;
    let mut old = 0;
    // SAFETY: the state is put back at once; a deferred request is not acted upon here.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut old) };
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(old, ptr::null_mut()) };
    old != DISABLE
}

/// The interruption of a wait by the calling thread's cancellation.
pub(super) struct Cancellation(Option<&'static Slot>);

impl Cancellation {
    /// That of the calling thread.
    pub(super) fn of_this_thread() -> Self {
        Self(slots::current())
    }
}

impl Interruption<Native> for Cancellation {
    fn publish(&self, word: *const NativeFutex) {
        if let Some(slot) = self.0 {
            // ORDER: SeqCst, with `pending` and against `pthread_cancel`: one of both sees the other.
            slot.cancel_word.store(word.cast_mut().cast::<AtomicU32>(), SeqCst);
        }
    }

    fn pending(&self) -> bool {
        // A thread that has cancellation disabled ignores the mark, and acts on the request at a later wait's entry.
        self.0.is_some_and(|slot| slot.cancel_pending.load(SeqCst) != 0) && is_enabled()
    }
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cancel(thread: usize) -> c_int {
    // SAFETY: the program's thread.
    let result = unsafe { real::pthread_cancel(thread) };
    if result == 0 {
        fence(SeqCst);
        if let Some(slot) = slots::of_thread(thread) {
            slot.cancel_pending.store(1, SeqCst);
            let word = slot.cancel_word.load(SeqCst);
            if !word.is_null() {
                // SAFETY: published by a wait, hence pool memory.
                unsafe { cond::kick::<Native>(word.cast::<NativeFutex>()) };
            }
        }
    }
    result
}
