//! How many locks were served and forwarded, for the report. Counted where a lock is initialised or
//! first used, never on the paths that follow.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::table::TAGS;

/// What was counted.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    ForwardedMutex,
    Cond,
    ForwardedCond,
    RwLock,
    ForwardedRwLock,
    SpinLock,
}

const KINDS: usize = 6;

static MUTEXES: [AtomicU64; TAGS] = [const { AtomicU64::new(0) }; TAGS];
static OTHERS: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];

/// A mutex was given this tag.
pub(crate) fn mutex(tag: u32) {
    MUTEXES[tag as usize % TAGS].fetch_add(1, Ordering::Relaxed);
}

/// Something else was seen for the first time.
pub(crate) fn other(kind: Kind) {
    OTHERS[kind as usize].fetch_add(1, Ordering::Relaxed);
}

/// Mutexes with this tag.
pub(crate) fn mutexes(tag: u32) -> u64 {
    MUTEXES[tag as usize % TAGS].load(Ordering::Relaxed)
}

/// Others of this kind.
pub(crate) fn others(kind: Kind) -> u64 {
    OTHERS[kind as usize].load(Ordering::Relaxed)
}
