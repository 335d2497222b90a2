//! Mutexes, reader-writer locks and condition variables over the lock algorithms of the literature, for Linux on x86_64 and
//! aarch64: the same code that `lockwork run` puts under a program nobody recompiled.
//!
//! ```
//! use lockwork::Mutex;
//! use std::thread;
//!
//! static HITS: Mutex<u64> = Mutex::new(0);
//!
//! thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| *HITS.lock() += 1);
//!     }
//! });
//! assert_eq!(*HITS.lock(), 4);
//! ```
//!
//! # Choosing a lock
//!
//! [`Mutex<T>`] uses [`DefaultLock`], made to hold up with more threads than CPUs. Any other lock is named by its type,
//! from [`locks`], or is your own implementation of [`RawLock`]:
//!
//! ```
//! use lockwork::Mutex;
//! use lockwork::locks::Ticket;
//!
//! static QUEUE: Mutex<Vec<u32>, Ticket> = Mutex::unlocked(Vec::new());
//!
//! QUEUE.lock().push(1);
//! ```
//!
//! or at run time, by the specs that the `lockwork` command takes:
//!
//! ```
//! use lockwork::DynMutex;
//!
//! # fn main() -> Result<(), lockwork::SpecError> {
//! let spec = std::env::var("QUEUE_LOCK").unwrap_or_else(|_| "gcr(mcs-stp)".into());
//! let queue = DynMutex::with_spec(&spec, vec![1, 2, 3])?;
//! queue.lock().push(4);
//! # Ok(())
//! # }
//! ```
//!
//! Which lock suits which program: `lockwork compare` measures it, `lockwork list` says what is known of each.
//!
//! # What is different from `std::sync`
//!
//! - No poisoning: a thread that panics with a guard unlocks on its way out, and others see the value as it was left.
//! - Guards may be sent to another thread, and dropped there, if the value may.
//! - [`Mutex::try_lock`] may fail while the lock is being released by somebody; it succeeds on a lock at rest.
//! - [`Mutex::try_lock_for`] and [`Mutex::try_lock_until`] give up in the queue, on every lock.
//! - No lock allocates memory when locked or unlocked; queue nodes come from a pool of pages that is never returned.
//!
//! Locking a mutex again that the thread holds deadlocks, as everywhere.
//!
//! # Features
//!
//! - `lock_api`: the traits of lock_api 0.5 (Rust 1.95), so that its wrappers work over every lock.
//! - `lock_api_0_4`: the same for lock_api 0.4, which most other crates use.
//! - `profile`: `lockwork profile` records, and `lockwork top` shows, what threads do with [`Mutex`], [`RwLock`] and [`Condvar`].
//!   Until one of them asks, that costs each operation a load and a branch. A lock that is called through `lock_api`, and a guard
//!   that another thread drops than the one that locked, are not followed; neither are delegates.

mod condvar;
mod delegated;
pub mod delegates;
mod dynamic;
mod last;
mod lock;
#[cfg(feature = "lock_api_0_4")]
mod lock_api_0_4;
#[cfg(feature = "lock_api")]
mod lock_api_0_5;
pub mod locks;
mod mutex;
#[doc(hidden)]
pub mod pace;
#[doc(hidden)]
pub mod profile;
mod rwlock;
pub mod servers;
mod threads;
mod time;
#[doc(hidden)]
pub mod wait_free;

/// What tells the waiters of aware locks whether the thread ahead of them runs: its CPU clock. Programs under
/// `lockwork run` see to it by themselves; others call [`allow`](cpu_time::allow) when they start, and
/// [`forbid`](cpu_time::forbid) before they add a filter of system calls, if ever.
pub mod cpu_time {
    pub use lockwork_platform::cpu_time::{Allowed, allow, allow_as_told, forbid, is_allowed};
}

/// What tells it to waiters that may not read such clocks: a `lockwork monitor`, if there is one. Programs under
/// `lockwork run` find it by themselves; others call [`attach`](monitor::attach) with [`SOCKET`](monitor::SOCKET) when
/// they start.
pub mod monitor {
    pub use lockwork_platform::monitor::{Attached, SOCKET, attach, attach_as_told, is_attached};
}

pub use condvar::{Condvar, Wakeup};
pub use delegated::{Condition, Delegated, Posted, RunError};
pub use dynamic::{DynLock, DynMutex, SpecError};
pub use lock::Lock;
#[cfg(feature = "lock_api_0_4")]
pub use lock_api_0_4::RawMutex as RawMutex04;
#[cfg(feature = "lock_api")]
pub use lock_api_0_5::{Held, RawMutex};
pub use locks::DefaultLock;
pub use lockwork_locks::{RawLock, RawRwLock};
pub use lockwork_platform::{Clock, Deadline, Native};
pub use mutex::{Mutex, MutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use wait_free::{Operation, WaitFree};
