//! The chain of layers between the entry points and the locks.
//!
//! Every acquisition and release of a lock that we serve goes through [`acquire`] and [`release`] if any layer is on: plain,
//! tried, timed, after a wait on a condition; of mutexes and of reader-writer locks. The tables of `serve` then hold functions
//! that do so in the place of the locks' own, so that a process without layers runs none of this on its fast paths. A new
//! layer is one more row of [`CHAIN`].
//!
//! The profile ([`profile`]) stands before the chain, at the entry points themselves: it wants the caller's stack, and follows
//! glibc's locks, too.
//!
//! Not in the chain: locks that glibc serves, spin locks (one word, no table), and a recursive mutex that its owner has
//! already.
//!
//! Layers are switched on by initialisation, before any lock is served, and for good.

pub(crate) mod counts;
pub(crate) mod profile;
mod slices;

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What a thread wants of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Mutex,
    Read,
    Write,
}

/// How a thread acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It waits as long as it takes.
    Lock,
    /// It does not wait.
    Try,
    /// It waits until a time.
    Timed,
    /// It has waited on a condition, and takes its mutex again.
    AfterWait,
}

/// An acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) access: Access,
    pub(crate) how: How,
}

/// Something that wants to know of acquisitions and releases.
trait Layer: Sync {
    /// The calling thread has got the lock.
    fn acquired(&self, event: Event);
    /// The calling thread has not got it: it was held, or the time passed.
    fn refused(&self, _event: Event) {}
    /// The calling thread has released a lock.
    fn released(&self, _access: Access) {}
}

/// All layers, that which is nearest to the lock first.
const CHAIN: [&dyn Layer; 2] = [&slices::Slices, &counts::Counts];

/// A place in [`CHAIN`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Name {
    /// Holders ask the kernel for time-slice extensions (`LOCKWORK_TIME_SLICE`).
    Slices = 0,
    /// The report says how locks were acquired (`LOCKWORK_COUNT`).
    Counts = 1,
}

/// A bit for each layer that is on.
static ON: AtomicU32 = AtomicU32::new(0);

/// Locks that are served from here on are so through this layer, too.
pub(crate) fn switch_on(layer: Name) {
    ON.fetch_or(1 << layer as u32, Relaxed);
}

/// Whether any layer is on.
#[inline]
pub(crate) fn any() -> bool {
    ON.load(Relaxed) != 0
}

/// Whether this layer is on.
pub(crate) fn is_on(layer: Name) -> bool {
    ON.load(Relaxed) & 1 << layer as u32 != 0
}

fn each(tell: impl Fn(&dyn Layer)) {
    let on = ON.load(Relaxed);
    for (index, layer) in CHAIN.iter().enumerate() {
        if on & 1 << index != 0 {
            tell(*layer);
        }
    }
}

/// What an attempt to acquire returns.
pub(crate) trait Outcome: Copy {
    /// Whether the lock was acquired.
    fn is_success(self) -> bool;
}

impl Outcome for c_int {
    fn is_success(self) -> bool {
        self == 0
    }
}

impl Outcome for bool {
    fn is_success(self) -> bool {
        self
    }
}

/// Acquires by `operation`, and tells the layers.
#[inline]
pub(crate) fn acquire<R: Outcome>(event: Event, operation: impl FnOnce() -> R) -> R {
    let result = operation();
    if any() {
        if result.is_success() {
            each(|layer| layer.acquired(event));
        } else {
            each(|layer| layer.refused(event));
        }
    }
    result
}

/// Releases by `operation`, and tells the layers.
#[inline]
pub(crate) fn release<R>(access: Access, operation: impl FnOnce() -> R) -> R {
    let result = operation();
    if any() {
        each(|layer| layer.released(access));
    }
    result
}
