//! From a reader-writer lock's `server` word to the code that serves it.
//!
//! The futex lock has a server of its own, for it takes its preference from each lock. Every other reader-writer lock that
//! a process uses has one entry here.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lockwork_locks::RawRwLock;
use lockwork_locks::rw::catalogue::{RwAlgorithm, RwSpec, RwVisitor};
use lockwork_locks::rw::{RwState, bravo};
use lockwork_platform::{Deadline, Native};

use crate::layout::{RWLOCK_FUTEX, RWLOCK_GLIBC, RwLock};

/// Number of values of the `server` word. It is masked to this range, so that garbage does not become a wild jump.
pub(crate) const SERVERS: usize = 64;

/// The code of one lock.
#[derive(Clone, Copy)]
pub(crate) struct RwOps {
    pub(crate) lock_shared: unsafe fn(&RwLock, Option<Deadline>) -> bool,
    /// By a thread that may be a reader of this lock.
    pub(crate) lock_shared_again: unsafe fn(&RwLock, Option<Deadline>) -> bool,
    pub(crate) try_lock_shared: unsafe fn(&RwLock) -> bool,
    pub(crate) unlock_shared: unsafe fn(&RwLock),
    pub(crate) lock_exclusive: unsafe fn(&RwLock, Option<Deadline>) -> bool,
    pub(crate) try_lock_exclusive: unsafe fn(&RwLock) -> bool,
    pub(crate) unlock_exclusive: unsafe fn(&RwLock),
    pub(crate) forget_waiters: unsafe fn(&RwLock),
    pub(crate) dispose: unsafe fn(&RwLock),
}

/// One entry; written before its value of `server` is given to any lock, then constant.
#[derive(Clone, Copy)]
struct Entry {
    ops: Option<RwOps>,
    spec: RwSpec,
}

struct Entries(UnsafeCell<[Entry; SERVERS]>);
// SAFETY: an entry is written by `add`, which only initialisation calls, before its number is published.
unsafe impl Sync for Entries {}

static ENTRIES: Entries =
    Entries(UnsafeCell::new([const { Entry { ops: None, spec: RwSpec::DEFAULT } }; SERVERS]));
/// Entries in use; those up to the futex lock's stand for what is not in the table.
static COUNT: AtomicU32 = AtomicU32::new(RWLOCK_FUTEX + 1);

/// Whether any of them has visible readers.
static BIASED: AtomicBool = AtomicBool::new(false);

/// In a child after `fork`: nobody is about to become a visible reader any more.
pub(crate) fn forget_arrivals() {
    if BIASED.load(Ordering::Relaxed) {
        bravo::forget_arrivals::<Native>();
    }
}

/// Adds a lock, or finds the entry it already has. Only called by initialisation, which is single-threaded by its own lock.
///
/// Returns the value of `server`, or `None` if there are too many different locks.
pub(crate) fn add(spec: Option<RwSpec>) -> Option<u32> {
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
    *entry = Entry { ops: Some(spec.dispatch(Build)), spec };
    COUNT.store(count + 1, Ordering::Release);
    if spec.bravo {
        BIASED.store(true, Ordering::Relaxed);
    }
    Some(count)
}

fn entry(server: u32) -> &'static Entry {
    // SAFETY: written before its number was published, constant since.
    let entries = unsafe { &*ENTRIES.0.get() };
    &entries[server as usize % SERVERS]
}

/// The code of a decided lock; `None` for glibc's and the futex lock's.
#[inline(always)]
pub(crate) fn ops(server: u32) -> Option<&'static RwOps> {
    entry(server).ops.as_ref()
}

/// The lock that a value of `server` stands for, unless that is glibc's.
pub(crate) fn spec(server: u32) -> RwSpec {
    entry(server).spec
}

/// What is known of that lock.
pub(crate) fn algorithm(server: u32) -> &'static RwAlgorithm {
    spec(server).algorithm()
}

/// The futex lock in a lock that it serves.
#[inline(always)]
pub(crate) fn futex(lock: &RwLock) -> &RwState<Native> {
    const { assert!(size_of::<RwState<Native>>() <= size_of_val_of_lock()) };
    // SAFETY: all-zero memory is an unlocked lock made of atomic words, and a lock keeps its server until it is destroyed.
    unsafe { &*(&raw const lock.lock).cast::<RwState<Native>>() }
}

/// Bytes for a lock in glibc's type.
const fn size_of_val_of_lock() -> usize {
    core::mem::offset_of!(RwLock, writer)
}

/// The lock `L` in a lock that it serves.
unsafe fn inner<L: RawRwLock<Native>>(lock: &RwLock) -> &L {
    // SAFETY: as in `futex`; `Build` has seen that it fits.
    unsafe { &*(&raw const lock.lock).cast::<L>() }
}

/// Builds the operations of a lock.
struct Build;

impl RwVisitor<Native> for Build {
    type Output = RwOps;

    fn visit<L: RawRwLock<Native> + 'static>(self) -> RwOps {
        // The parser of specs refuses a bias around larger ones.
        assert!(size_of::<L>() <= size_of_val_of_lock() && align_of::<L>() <= 8, "no room for the lock");
        RwOps {
            lock_shared: lock_shared::<L>,
            lock_shared_again: lock_shared_again::<L>,
            try_lock_shared: try_lock_shared::<L>,
            unlock_shared: unlock_shared::<L>,
            lock_exclusive: lock_exclusive::<L>,
            try_lock_exclusive: try_lock_exclusive::<L>,
            unlock_exclusive: unlock_exclusive::<L>,
            forget_waiters: forget_waiters::<L>,
            dispose: dispose::<L>,
        }
    }
}

/// Functions over a lock that `L` serves, as the caller of each promises together with what the operation itself asks for.
macro_rules! operations {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?, $body:expr;)*) => {$(
        unsafe fn $name<L: RawRwLock<Native>>(lock: &RwLock, $($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller's contract.
            let lock = unsafe { inner::<L>(lock) };
            let operation: fn(&L, $($type),*) $(-> $result)? = $body;
            operation(lock, $($argument),*)
        }
    )*};
}

operations! {
    lock_shared(deadline: Option<Deadline>) -> bool, L::lock_shared;
    lock_shared_again(deadline: Option<Deadline>) -> bool, L::lock_shared_again;
    try_lock_shared() -> bool, L::try_lock_shared;
    // SAFETY: the caller's contract: a reader.
    unlock_shared(), |lock| unsafe { lock.unlock_shared() };
    lock_exclusive(deadline: Option<Deadline>) -> bool, L::lock_exclusive;
    try_lock_exclusive() -> bool, L::try_lock_exclusive;
    // SAFETY: the caller's contract: the writer.
    unlock_exclusive(), |lock| unsafe { lock.unlock_exclusive() };
    // SAFETY: the caller's contract: nobody else runs.
    forget_waiters(), |lock| unsafe { lock.forget_waiters() };
    // SAFETY: the caller's contract: nobody uses the lock.
    dispose(), |lock| unsafe { lock.dispose() };
}
