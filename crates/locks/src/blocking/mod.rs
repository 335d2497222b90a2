//! Blocking locks: waiters sleep in the kernel.

pub mod adaptive;
pub mod futex;
pub mod linux;
pub mod mutexee;
