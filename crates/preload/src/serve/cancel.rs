//! `pthread_cancel`, so that it reaches threads that wait on our conditions.
//!
//! glibc notes the request and, for a thread in one of its own cancellable calls, interrupts it. A thread
//! asleep in one of our waits is not in such a call: after glibc has noted the request we mark the target's slot
//! and kick it out of its sleep. It leaves the queue, takes its mutex again, and acts on the request in the entry
//! point, where no Rust frame is on the stack.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;

use lockwork_locks::cond::{self, Interruption};
use lockwork_platform::waiters::{self, Slot};
use lockwork_platform::{Native, NativeFutex};

use crate::abi::real;

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
    if let Some(slot) = waiters::current() {
        // A mark of an earlier request: the entry point's test acts on it now, or glibc will not act on it any more, as in
        // a clean-up handler. A request from here on marks again.
        slot.cancel.forget();
    }
    fence(SeqCst);
}

/// A thread ignores cancellation requests.
const DISABLE: c_int = 1;

/// Runs `action` with the calling thread's cancellation disabled. What the state was before.
fn uncancelled(action: impl FnOnce()) -> c_int {
    let mut old = 0;
    // SAFETY: the state is put back below.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut old) };
    action();
    // SAFETY: the state that there was.
    unsafe { pthread_setcancelstate(old, ptr::null_mut()) };
    old
}

/// Whether the calling thread has cancellation enabled.
fn is_enabled() -> bool {
    uncancelled(|| {}) != DISABLE
}

/// The interruption of a wait by the calling thread's cancellation.
pub(super) struct Cancellation(Option<&'static Slot>);

impl Cancellation {
    /// That of the calling thread.
    pub(super) fn of_this_thread() -> Self {
        Self(waiters::current())
    }
}

impl Interruption<Native> for Cancellation {
    fn publish(&self, word: *const NativeFutex) {
        if let Some(slot) = self.0 {
            slot.cancel.publish(word);
        }
    }

    fn pending(&self) -> bool {
        // A thread that has cancellation disabled ignores the mark, and acts on the request at a later wait's entry.
        self.0.is_some_and(|slot| slot.cancel.is_pending()) && is_enabled()
    }
}

/// POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cancel(thread: usize) -> c_int {
    // SAFETY: the program's thread.
    let result = unsafe { real::pthread_cancel(thread) };
    if result == 0 {
        fence(SeqCst);
        // The target waits for a canceller that has begun: none may vanish in the middle of it, cancelled itself.
        uncancelled(|| {
            // SAFETY: published by a wait, which does not end before the kick has.
            waiters::cancel(thread, |word| unsafe { cond::kick::<Native>(word) });
        });
    }
    result
}
