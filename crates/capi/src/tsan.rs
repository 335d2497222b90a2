//! What ThreadSanitizer is told of programs that were compiled with it.
//!
//! This library is not instrumented: ThreadSanitizer sees neither its atomic operations nor its waits, and would call everything
//! that a lock protects a race. So functions say what happens before what, by the two functions of its runtime that are meant for
//! that (`sanitizer/tsan_interface.h`). In a program without the runtime both are null, and a call costs a load and a branch.
//!
//! | at | a release of | an acquisition of |
//! |---|---|---|
//! | a mutex's unlock | the mutex | |
//! | a mutex's lock | | the mutex |
//! | unlock by a writer, by a reader | the lock, the lock's second word | |
//! | lock for writing, for reading | | both words, the lock |
//! | a request: its caller | the request before, | the request after |
//! | a section: its executor | the request and the delegate after | the request and the delegate before |
//!
//! A condition needs nothing: what its waiters wait for is protected by the mutex, or changed by sections.

use core::arch::global_asm;
use core::ffi::c_void;

// Weak: stable Rust has no such imports.
global_asm!(
    ".weak __tsan_acquire",
    ".weak __tsan_release",
    ".pushsection .data.rel.ro.lockwork_tsan, \"aw\"",
    ".balign 8",
    ".globl lockwork_tsan",
    ".hidden lockwork_tsan",
    ".type lockwork_tsan, @object",
    ".size lockwork_tsan, 16",
    "lockwork_tsan:",
    ".quad __tsan_acquire",
    ".quad __tsan_release",
    ".popsection",
);

type Told = Option<unsafe extern "C" fn(*mut c_void)>;

unsafe extern "C" {
    #[link_name = "lockwork_tsan"]
    static FUNCTIONS: [Told; 2];
}

/// What was released at `place` before happens before what the calling thread does from here on.
#[inline(always)]
pub(crate) fn acquire<T>(place: *const T) {
    // SAFETY: written by the loader, before any code runs.
    tell(unsafe { FUNCTIONS[0] }, place);
}

/// What the calling thread has done happens before what follows an acquisition of `place`.
#[inline(always)]
pub(crate) fn release<T>(place: *const T) {
    // SAFETY: as in `acquire`.
    tell(unsafe { FUNCTIONS[1] }, place);
}

#[inline(always)]
fn tell<T>(function: Told, place: *const T) {
    #[cold]
    fn call(function: unsafe extern "C" fn(*mut c_void), place: *mut c_void) {
        // SAFETY: the runtime takes any address, which it does not access.
        unsafe { function(place) };
    }
    if let Some(function) = function {
        call(function, place.cast_mut().cast());
    }
}
