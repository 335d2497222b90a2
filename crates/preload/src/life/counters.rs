//! How many locks were served and forwarded, for the report. Counted where a lock is initialised or
//! first used, never on the paths that follow.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::serve::mutex::table::TAGS;
use crate::serve::rwlock::table::SERVERS;

/// What was counted.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    ForwardedMutex,
    Cond,
    ForwardedCond,
    ForwardedRwLock,
    SpinLock,
    ForwardedSpinLock,
}

const KINDS: usize = 6;

static MUTEXES: [AtomicU64; TAGS] = [const { AtomicU64::new(0) }; TAGS];
static RWLOCKS: [AtomicU64; SERVERS] = [const { AtomicU64::new(0) }; SERVERS];
static OTHERS: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];

/// Whether a lock was used without being counted, because all are glibc's.
static USED: AtomicBool = AtomicBool::new(false);

/// A lock is used that is glibc's, as all are.
pub(crate) fn uncounted() {
    if !USED.load(Ordering::Relaxed) {
        USED.store(true, Ordering::Relaxed);
    }
}

/// Whether any lock was served or forwarded.
pub(crate) fn any() -> bool {
    let is_counted = |count: &AtomicU64| count.load(Ordering::Relaxed) != 0;
    USED.load(Ordering::Relaxed) || MUTEXES.iter().chain(&RWLOCKS).chain(&OTHERS).any(is_counted)
}

/// A mutex was given this tag.
pub(crate) fn mutex(tag: u32) {
    MUTEXES[tag as usize % TAGS].fetch_add(1, Ordering::Relaxed);
}

/// A reader-writer lock was given this server.
pub(crate) fn rwlock(server: u32) {
    RWLOCKS[server as usize % SERVERS].fetch_add(1, Ordering::Relaxed);
}

/// Something else was seen for the first time.
pub(crate) fn other(kind: Kind) {
    OTHERS[kind as usize].fetch_add(1, Ordering::Relaxed);
}

/// Mutexes with this tag.
pub(crate) fn mutexes(tag: u32) -> u64 {
    MUTEXES[tag as usize % TAGS].load(Ordering::Relaxed)
}

/// Reader-writer locks with this server.
pub(crate) fn rwlocks(server: u32) -> u64 {
    RWLOCKS[server as usize % SERVERS].load(Ordering::Relaxed)
}

/// Others of this kind.
pub(crate) fn others(kind: Kind) -> u64 {
    OTHERS[kind as usize].load(Ordering::Relaxed)
}
