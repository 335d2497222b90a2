//! The record of a lock, which all threads write to that use it: what it is, its figures, and its latest releases.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use super::{NAME, RING};
use crate::histogram::Histogram;

/// How a lock is held or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// A mutex.
    Mutex = 0,
    /// A reader-writer lock, to read.
    Read = 1,
    /// A reader-writer lock, to write.
    Write = 2,
    /// A condition is waited for.
    Cond = 3,
}

/// What kind of thing a record is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A mutex.
    #[default]
    Mutex = 0,
    /// A reader-writer lock.
    RwLock = 1,
    /// A condition.
    Cond = 2,
}

impl Mode {
    /// What is held or waited for in this way.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Mutex => Kind::Mutex,
            Self::Read | Self::Write => Kind::RwLock,
            Self::Cond => Kind::Cond,
        }
    }

    /// The mode with this number.
    #[must_use]
    pub fn of(number: u32) -> Self {
        match number {
            1 => Self::Read,
            2 => Self::Write,
            3 => Self::Cond,
            _ => Self::Mutex,
        }
    }
}

/// The record is free, or a thread writes its first words.
pub const FREE: u32 = 0;
/// It is of the lock at its address.
pub const LIVE: u32 = 1;
/// It was of a lock that is no more.
pub const RETIRED: u32 = 2;

/// A lock, or what was counted under a site.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Lock {
    /// What it is found by, 0 while it is free: the kind, and the address of the lock or of the site.
    pub key: AtomicU64,
    /// [`FREE`] to [`RETIRED`].
    pub state: AtomicU32,
    /// See [`Kind`].
    pub kind: AtomicU32,
    /// Its address; 0 = the record is a site's.
    pub address: AtomicU64,
    /// The code location that initialised it, 0 if none did; of a site's record, the site.
    pub site: AtomicU64,
    /// The code location that used it first, as far as that was seen.
    pub first_use: AtomicU64,
    /// What serves it: 0 = glibc, else an index of [`Region::servers`](super::Region::servers).
    pub server: AtomicU32,
    /// Fills the cache line: what is above is read at every wait, and what is below is written by many threads.
    pub unused: [AtomicU32; 5],
    /// Threads that wait for it, of those for which releases are noted.
    pub waiting: AtomicU32,
    /// The most that did.
    pub waiting_max: AtomicU32,
    /// How many threads had it after a wait for which releases were noted. Between two of these, releases by one thread from one
    /// place are one entry of `ring`.
    pub hand_overs: AtomicU32,
    /// The thread that acquired it last, as far as that was recorded.
    pub last_owner: AtomicU32,
    /// On which NUMA node.
    pub last_node: AtomicU32,
    /// Releases written to `ring`.
    pub releases: AtomicU32,
    /// Acquisitions that waited.
    pub contended: AtomicU64,
    /// Of those, to read.
    pub contended_reads: AtomicU64,
    /// Other acquisitions: the weights of samples.
    pub uncontended: AtomicU64,
    /// Of those, to read.
    pub uncontended_reads: AtomicU64,
    /// Variance of `uncontended`.
    pub uncontended_variance: AtomicU64,
    /// Time waited.
    pub wait_ns: AtomicU64,
    /// Of that, to read.
    pub wait_reads_ns: AtomicU64,
    /// The longest wait.
    pub wait_max_ns: AtomicU64,
    /// Time held: hold times times weights.
    pub hold_ns: AtomicU64,
    /// Variance of `hold_ns`, in µs².
    pub hold_variance_us2: AtomicU64,
    /// The longest that was seen.
    pub hold_max_ns: AtomicU64,
    /// Of `hold_ns`, what was not within a section of another lock.
    pub outer_hold_ns: AtomicU64,
    /// The same of `wait_ns`.
    pub outer_wait_ns: AtomicU64,
    /// Time between a release and the same thread's next acquisition: times weights.
    pub think_ns: AtomicU64,
    /// Weights of those.
    pub thinks: AtomicU64,
    /// Acquisitions by another thread than the last.
    pub owner_switches: AtomicU64,
    /// Those on another NUMA node.
    pub node_crossings: AtomicU64,
    /// Attempts that failed at once.
    pub tries_failed: AtomicU64,
    /// Attempts that were given up.
    pub timed_out: AtomicU64,
    /// What the program called it.
    pub name: [AtomicU8; NAME],
    /// Parts of waits, by [`PARKED`] and so on.
    pub parts: [Part; PARTS],
    /// Histogram of waits.
    pub wait: Histogram,
    /// Of hold times.
    pub hold: Histogram,
    /// Of think times.
    pub think: Histogram,
    /// The latest releases that somebody waited for.
    pub ring: [Release; RING],
}

/// Parts of a wait.
pub const PARTS: usize = 3;
/// The thread slept in the kernel.
pub const PARKED: usize = 0;
/// It was awake, and another waiter got the lock.
pub const QUEUED: usize = 1;
/// It was awake, and the next to get the lock.
pub const SPINNING: usize = 2;

/// A part of the waits for a lock.
#[repr(C)]
#[derive(Debug)]
pub struct Part {
    /// Their sum.
    pub ns: AtomicU64,
    /// How many waits had such a part of each order of magnitude: from 2ⁿ ns on.
    pub orders: [AtomicU32; 48],
}

impl Part {
    /// Adds the part of a wait that stands for `weight`.
    pub(crate) fn add(&self, ns: u64, weight: u32) {
        if ns != 0 {
            self.ns.fetch_add(ns * u64::from(weight), Relaxed);
            self.count(ns, weight);
        }
    }

    /// Adds to the counts alone.
    pub(crate) fn count(&self, ns: u64, weight: u32) {
        if ns != 0 {
            self.orders[(ns.ilog2() as usize).min(47)].fetch_add(weight, Relaxed);
        }
    }
}

/// A release of a lock that somebody waited for.
#[repr(C)]
#[derive(Debug)]
pub struct Release {
    /// 2n + 1 while the n-th release is written here, 2n + 2 when it is complete.
    pub turn: AtomicU64,
    /// When, by the processor's counter of time.
    pub at: AtomicU64,
    /// The stack that acquired the lock.
    pub acquired: AtomicU32,
    /// The stack that released it.
    pub released: AtomicU32,
    /// The thread.
    pub thread: AtomicU32,
    /// Its NUMA node.
    pub node: AtomicU32,
}
