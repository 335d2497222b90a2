//! Why an `EINVAL`: a sentence for each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the reason of an error for [`lockwork_error`].
pub(crate) fn set(reason: &str) {
    // A reason that quotes a spec with a zero byte cannot come about: specs are C strings.
    LAST.with_borrow_mut(|last| *last = CString::new(reason).unwrap_or_default());
}

/// Why the calling thread's last call that returned `EINVAL` did; empty if none has.
#[unsafe(no_mangle)]
pub extern "C" fn lockwork_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}
