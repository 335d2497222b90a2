//! What a thread does around its lock operations.
//!
//! ```text
//! about_to ─ (the lock's own operation; wait_begins, if it has to wait) ─ acquired | refused
//! passes   ─ (the same; wait_begins and wait_ends, if it has to wait)
//! before_release ─ (the lock's own operation) ─ after_release
//! forgets        ─ (the same)
//! ```
//!
//! An acquisition that does not wait and is not a sample costs no clock, no walk of the stack and no write to memory
//! that is shared. Of a release, one that nobody waits for: one look at a counter (`watchers`) that waiters write to.
//! Most acquisitions of mutexes are of this sort: `passes` and `forgets` note them before the lock's own operation,
//! which can then be jumped to, or behind it where that is one instruction.
//!
//! Within the section a thread reads the processor's counter of time if it waited or is a sample (`clock`), and before
//! it releases a lock that others wait for, and notes that in the lock's ring. Everything else is done while it waits
//! anyway, or after the release.
//!
//! What waiters write and holders read moves between their CPUs, which costs more than all else together where sections
//! are short. So a wait that ends soon writes to nothing that is shared: its thread keeps it in a log of its own
//! (`log`), and only waits that may be blamed on somebody are watched (`wait_begins`).
//!
//! | module | what it answers |
//! |---|---|
//! | `life` | when recording begins and ends: of the process, of its threads, and by the switch |
//! | `thread` | which locks a thread has, and what a signal handler on top of it may do |
//! | `acquire` | what is noted before a thread tries to get a lock, and what came of it |
//! | `wait` | when a wait begins and ends, and which waits are watched |
//! | `cond` | the same of conditions |
//! | `release` | what is noted before and after a release |
//! | `ring` | when a lock was released while somebody waited for it, and by whom |
//! | `blame` | whom a wait is blamed on, and what part of it was behind others |
//! | `section` | hold and think times |
//! | `log` | when waits are added to the figures of their locks |
//! | `clock` | what time it is, and was when a thread read the processor's counter |

mod acquire;
mod blame;
mod clock;
mod cond;
mod life;
mod log;
mod release;
mod ring;
mod section;
#[cfg(test)]
mod tests;
mod thread;
mod wait;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

pub use self::acquire::Passing;
pub use self::release::Releasing;
use crate::format::Mode;

/// The call of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its return address.
    pub caller: usize,
    /// The frame pointer of the code that made it, or whatever that keeps in that register.
    pub frame: usize,
}

/// The lock that an operation is on.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its address.
    pub address: usize,
    /// How it is acquired.
    pub mode: Mode,
    /// What serves it: 0 = glibc.
    pub server: u32,
}

/// What came of `about_to`(crate::format::Region::about_to).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The acquisition is followed.
    Followed,
    /// The thread has the lock already, or is busy: nothing is recorded.
    Ignored,
    /// The thread has it already, once more if this succeeds.
    Again,
}

/// Raises a maximum.
fn raise(maximum: &AtomicU64, value: u64) {
    if maximum.load(Relaxed) < value {
        maximum.fetch_max(value, Relaxed);
    }
}
