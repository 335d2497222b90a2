//! What the POSIX and C11 locking functions do.

mod c11;
pub(crate) mod cancel;
pub(crate) mod cond;
pub(crate) mod mutex;
pub(crate) mod rwlock;
pub(crate) mod spin;
