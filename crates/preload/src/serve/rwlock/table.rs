//! From a reader-writer lock's `server` word to the code that serves it.
//!
//! The futex lock has a server of its own, for it takes its preference from each lock. Every other reader-writer lock that
//! a process uses has one entry here.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lockwork_locks::inplace::RwPlace;
use lockwork_locks::inplace::rwlock::{self, Operations};
use lockwork_locks::registry::Spec;
use lockwork_locks::rw::{RwState, bravo};
use lockwork_platform::Native;

use crate::abi::layout::{RWLOCK_FUTEX, RWLOCK_GLIBC, RwLock};
use crate::layers;

/// Number of values of the `server` word. It is masked to this range, so that garbage does not become a wild jump.
pub(crate) const SERVERS: usize = 64;

/// The code of one lock.
pub(crate) type RwOps = Operations<RwLock>;

/// One entry; written before its value of `server` is given to any lock, then constant.
#[derive(Clone, Copy)]
struct Entry {
    /// The lock's own code.
    ops: Option<RwOps>,
    /// The code for the operations of the program, which tells the layers if any is on.
    served: Option<RwOps>,
    spec: Spec,
}

struct Entries(UnsafeCell<[Entry; SERVERS]>);
// SAFETY: an entry is written by `add`, which only initialisation calls, before its number is published.
unsafe impl Sync for Entries {}

static ENTRIES: Entries = Entries(UnsafeCell::new(
    [const { Entry { ops: None, served: None, spec: Spec::DEFAULT_RWLOCK } }; SERVERS],
));
/// Entries in use; those up to the futex lock's stand for what is not in the table.
static COUNT: AtomicU32 = AtomicU32::new(RWLOCK_FUTEX + 1);

/// Whether any of them has visible readers.
static BIASED: AtomicBool = AtomicBool::new(false);

/// Whether this process is a child in which threads of the parent may be visible readers.
static HAS_GHOSTS: AtomicBool = AtomicBool::new(false);

/// In a child after `fork`: drops the threads of the parent that were about to become visible readers, and marks the others.
pub(crate) fn inherit_readers() {
    if BIASED.load(Ordering::Relaxed) && bravo::inherit_readers::<Native>() {
        HAS_GHOSTS.store(true, Ordering::Relaxed);
    }
}

/// Drops the parent's visible readers of a lock that the program makes anew, as a child may with one that threads of the parent
/// read. Before anybody can see that this server has the lock.
pub(crate) fn forget_ghosts(lock: *const RwLock, server: u32) {
    if HAS_GHOSTS.load(Ordering::Relaxed) && server != RWLOCK_GLIBC && spec(server).has_visible_readers() {
        bravo::forget_inherited::<Native>(lock.addr());
    }
}

/// Adds a lock, or finds the entry it already has. Only called by initialisation, which is single-threaded by its own lock.
///
/// Returns the value of `server`, or `None` if there are too many different locks.
pub(crate) fn add(spec: Option<Spec>) -> Option<u32> {
    let Some(spec) = spec else { return Some(RWLOCK_GLIBC) };
    let count = COUNT.load(Ordering::Relaxed);
    if let Some(server) = (RWLOCK_FUTEX..count).find(|&server| self::spec(server) == spec) {
        return Some(server);
    }
    if count as usize == SERVERS {
        return None;
    }
    // SAFETY: no lock refers to this entry yet, and nobody else adds.
    let entry = unsafe { &mut (&mut *ENTRIES.0.get())[count as usize] };
    let ops = rwlock::operations(&spec);
    let served = if layers::any() { layered::around(ops) } else { ops };
    *entry = Entry { ops: Some(ops), served: Some(served), spec };
    COUNT.store(count + 1, Ordering::Relaxed); // ORDER: only the thread that starts the library reads it.
    if spec.has_visible_readers() {
        BIASED.store(true, Ordering::Relaxed);
    }
    Some(count)
}

fn entry(server: u32) -> &'static Entry {
    // SAFETY: written before its number was published, constant since.
    let entries = unsafe { &*ENTRIES.0.get() };
    &entries[server as usize % SERVERS]
}

/// The futex lock's operations tell the layers from here on. Only called by initialisation.
pub(crate) fn put_layers_around_futex() {
    // SAFETY: no lock refers to this entry yet, and nobody else adds.
    let entry = unsafe { &mut (&mut *ENTRIES.0.get())[RWLOCK_FUTEX as usize] };
    entry.served = Some(layered::around(layered::FUTEX));
}

/// The code for the operations of the program on a decided lock; `None` for glibc's, and for the futex lock's without layers.
#[inline(always)]
pub(crate) fn served(server: u32) -> Option<&'static RwOps> {
    entry(server).served.as_ref()
}

/// The code of a decided lock, beneath all layers; `None` for glibc's and the futex lock's.
#[inline(always)]
pub(crate) fn ops(server: u32) -> Option<&'static RwOps> {
    entry(server).ops.as_ref()
}

/// The lock that a value of `server` stands for, unless that is glibc's.
pub(crate) fn spec(server: u32) -> Spec {
    entry(server).spec
}

/// Whether new readers wait behind waiting writers in that lock.
pub(crate) fn bars_readers(server: u32) -> bool {
    spec(server).rw().is_some_and(|facts| facts.bars_readers())
}

/// The futex lock in a lock that it serves.
#[inline(always)]
pub(crate) fn futex(lock: &RwLock) -> &RwState<Native> {
    const { assert!(size_of::<RwState<Native>>() <= RwLock::ROOM) };
    // SAFETY: the caller has seen that the futex lock serves this one, and a lock keeps its server until it is destroyed.
    unsafe { rwlock::inner::<RwLock, RwState<Native>>(lock) }
}

/// Operations that tell the layers what the lock's own ones do. Those that do not wait are told of by `super`, which may try
/// in two ways.
mod layered {
    use lockwork_platform::Deadline;

    use super::*;
    use crate::layers::{Access, Event, How};

    /// The same operations, and the layers are told.
    pub(super) fn around(ops: RwOps) -> RwOps {
        RwOps { lock_shared, lock_shared_again, unlock_shared, lock_exclusive, unlock_exclusive, ..ops }
    }

    /// The futex lock's.
    pub(super) const FUTEX: RwOps = RwOps {
        lock_shared: futex_lock_shared,
        lock_shared_again: futex_lock_shared,
        try_lock_shared: |lock| futex(lock).try_lock_shared(lock.preference()).is_ok(),
        // SAFETY: the caller's contract.
        unlock_shared: |lock| unsafe { futex(lock).unlock_shared(lock.preference()) },
        lock_exclusive: |lock, deadline| futex(lock).lock_exclusive(lock.preference(), deadline),
        try_lock_exclusive: |lock| futex(lock).try_lock_exclusive(),
        // SAFETY: the caller's contract.
        unlock_exclusive: |lock| unsafe { futex(lock).unlock_exclusive(lock.preference()) },
        // SAFETY: the caller's contract.
        forget_waiters: |lock| unsafe { futex(lock).forget_waiters() },
        dispose: |_| {},
    };

    unsafe fn futex_lock_shared(lock: &RwLock, deadline: Option<Deadline>) -> bool {
        futex(lock).lock_shared(lock.preference(), deadline).is_ok()
    }

    /// The lock's own operations.
    fn bare(lock: &RwLock) -> &'static RwOps {
        ops(lock.server.load(Ordering::Relaxed)).unwrap_or(&FUTEX)
    }

    fn event(access: Access, deadline: Option<Deadline>) -> Event {
        Event { access, how: if deadline.is_some() { How::Timed } else { How::Lock } }
    }

    unsafe fn lock_shared(lock: &RwLock, deadline: Option<Deadline>) -> bool {
        // SAFETY: the caller's contract.
        layers::acquire(event(Access::Read, deadline), || unsafe { (bare(lock).lock_shared)(lock, deadline) })
    }

    unsafe fn lock_shared_again(lock: &RwLock, deadline: Option<Deadline>) -> bool {
        let again = bare(lock).lock_shared_again;
        // SAFETY: the caller's contract.
        layers::acquire(event(Access::Read, deadline), || unsafe { again(lock, deadline) })
    }

    unsafe fn unlock_shared(lock: &RwLock) {
        // SAFETY: the caller's contract.
        layers::release(Access::Read, || unsafe { (bare(lock).unlock_shared)(lock) });
    }

    unsafe fn lock_exclusive(lock: &RwLock, deadline: Option<Deadline>) -> bool {
        // SAFETY: the caller's contract.
        layers::acquire(event(Access::Write, deadline), || unsafe {
            (bare(lock).lock_exclusive)(lock, deadline)
        })
    }

    unsafe fn unlock_exclusive(lock: &RwLock) {
        // SAFETY: the caller's contract.
        layers::release(Access::Write, || unsafe { (bare(lock).unlock_exclusive)(lock) });
    }
}
