//! Environment variables, as code in another's program may read them.

use core::ffi::{CStr, c_char};

use lockwork_config::Variable;

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// The value of a variable; `None` if it is not set, or set to nothing, or the program has rights that its caller has not. It is
/// there for as long as nobody changes the environment.
#[must_use]
pub fn variable(variable: &Variable) -> Option<&'static CStr> {
    // SAFETY: a terminated name.
    let value = unsafe { secure_getenv(variable.c_name.as_ptr()) };
    // SAFETY: null, or a terminated string, which the C library keeps.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }).filter(|value| !value.is_empty())
}
