//! The POSIX and C11 locking API, as the program calls it.
//!
//! Symbols are exported without a version: the dynamic linker then binds callers of every version to them.

mod aliases;
mod c11;
mod cancel;
mod cond;
mod dlopen;
mod dlvsym;
mod entry;
mod filters;
pub(crate) mod mutex;
mod mutex_timed;
mod rwlock;
mod spin;
pub(crate) mod time;

use core::ffi::c_int;

pub(crate) const EPERM: c_int = 1;
pub(crate) const EAGAIN: c_int = 11;
pub(crate) const EBUSY: c_int = 16;
pub(crate) const EINVAL: c_int = 22;
pub(crate) const EDEADLK: c_int = 35;
pub(crate) const ETIMEDOUT: c_int = 110;
