//! The locks of Lockwork for C and C++: the functions of `include/lockwork.h`, which documents them.
//!
//! Every object is 64 bytes, and all-zero memory is an unlocked one with the default lock. It begins with the address of
//! what serves it (`specs.rs`), null for the default; the lock itself lies behind that, as in glibc's types
//! (`lockwork_locks::inplace`). A delegate points to memory of its own.
//!
//! # Safety
//!
//! What every function asks of its caller is what POSIX asks: an object was initialised, and not copied; the thread that
//! unlocks has locked; nobody uses what is being initialised or destroyed, but for threads that are about to return from their last
//! use (`users.rs`). Pointers are valid or, where the header says so,
//! null.

pub mod cond;
pub mod delegate;
pub mod error;
mod fork;
pub mod mutex;
#[cfg(feature = "profile")]
mod recorded;
pub mod rwlock;
mod specs;
pub mod time;
mod tsan;
mod users;

use core::ffi::c_int;

/// The object is not the calling thread's.
const EPERM: c_int = 1;
/// Not permitted now: the object is in use.
const EBUSY: c_int = 16;
/// A null pointer, a spec that names no such lock, a time out of range.
const EINVAL: c_int = 22;
/// The call would wait for itself.
const EDEADLK: c_int = 35;
/// The delegate cannot do that.
const ENOTSUP: c_int = 95;
/// The deadline has passed.
const ETIMEDOUT: c_int = 110;
/// As many readers as the lock can count.
const EAGAIN: c_int = 11;
