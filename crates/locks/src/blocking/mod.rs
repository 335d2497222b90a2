//! Blocking locks: waiters sleep in the kernel.

pub mod futex;
pub mod mutexee;
