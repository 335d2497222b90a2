//! From a lock's tag to the code that serves it.
//!
//! Every choice of lock that a process uses has one entry; a mutex carries the entry's index. The entry points load
//! the tag and jump through one array per operation to leaf functions compiled for one algorithm each.
//! Index 0 decides at first use; indices without an entry forward to glibc.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use lockwork_locks::inplace::mutex::{self, Operations};
use lockwork_locks::knobs::Knobs;
use lockwork_locks::registry::{Choice, Spec, Wrapper};

use super::{LOCK, TRYLOCK, UNLOCK, first_use_lock, first_use_trylock, first_use_unlock};
use crate::abi::entrances::Column;
use crate::abi::layout::Mutex;
use crate::abi::real;
use crate::layers::{self, Access, Event, How, profile};
use crate::life::counters;

/// Number of tags. A tag is masked to this range, so that garbage does not become a wild jump.
pub(crate) const TAGS: usize = 64;

/// An operation on a decided mutex.
pub(crate) type Leaf = mutex::Leaf<Mutex>;

/// The code of one choice.
pub(crate) type Ops = Operations<Mutex>;

/// Leaf functions by tag, at first.
pub(crate) const fn first_leaves() -> [Column; 3] {
    [
        Column::new(first_use_lock as *const (), forward_lock as *const ()),
        Column::new(first_use_trylock as *const (), forward_trylock as *const ()),
        Column::new(first_use_unlock as *const (), forward_unlock as *const ()),
    ]
}

/// Leaf functions by operation and tag. Without a profile, the entry points jump to the same ones (`abi/entrances`).
pub(crate) static LEAVES: [Column; 3] = first_leaves();

/// Sets a leaf function.
fn set(operation: usize, tag: usize, leaf: *const ()) {
    let before = LEAVES[operation].0[tag].swap(leaf.cast_mut(), Ordering::Relaxed);
    profile::leaf_changes(operation, tag, [before, leaf.cast_mut()]);
}

unsafe extern "C" fn forward_lock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    unsafe { real::pthread_mutex_lock(mutex) }
}

unsafe extern "C" fn forward_trylock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    unsafe { real::pthread_mutex_trylock(mutex) }
}

unsafe extern "C" fn forward_unlock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    unsafe { real::pthread_mutex_unlock(mutex) }
}

/// One entry; written before its tag is given to any mutex, then constant.
struct Entry {
    ops: Option<Ops>,
    choice: Choice,
}

struct Entries(UnsafeCell<[Entry; TAGS]>);
// SAFETY: an entry is written by `add`, which only initialisation calls, before its tag is published.
unsafe impl Sync for Entries {}

static ENTRIES: Entries =
    Entries(UnsafeCell::new([const { Entry { ops: None, choice: Choice::Passthrough } }; TAGS]));
/// Entries in use; entry 0 stands for "undecided".
static COUNT: AtomicU32 = AtomicU32::new(1);

/// The tag of mutexes that a policy leaves to glibc.
pub(crate) const PASSTHROUGH_TAG: u32 = TAGS as u32 - 1;

/// Makes undecided mutexes glibc's, without a decision.
pub(crate) fn forward_undecided() {
    set(LOCK, 0, first_forward_lock as *const ());
    set(TRYLOCK, 0, first_forward_trylock as *const ());
    set(UNLOCK, 0, forward_unlock as *const ());
}

/// Takes itself out of the way of all later calls.
unsafe extern "C" fn first_forward_lock(mutex: *mut Mutex) -> c_int {
    counters::uncounted();
    set(LOCK, 0, forward_lock as *const ());
    // SAFETY: the entry point's contract.
    unsafe { forward_lock(mutex) }
}

/// As [`first_forward_lock`].
unsafe extern "C" fn first_forward_trylock(mutex: *mut Mutex) -> c_int {
    counters::uncounted();
    set(TRYLOCK, 0, forward_trylock as *const ());
    // SAFETY: the entry point's contract.
    unsafe { forward_trylock(mutex) }
}

/// Adds a choice, or finds the entry it already has. Only called by initialisation, which is
/// single-threaded by its own lock.
///
/// Returns the tag, or `None` if there are too many different choices.
pub(crate) fn add(choice: Choice) -> Option<u32> {
    let Choice::Lock(spec) = choice else { return Some(PASSTHROUGH_TAG) };
    let count = COUNT.load(Ordering::Relaxed);
    if let Some(tag) = (1..count).find(|&tag| self::choice(tag) == choice) {
        return Some(tag);
    }
    if count == PASSTHROUGH_TAG {
        return None;
    }
    let slot = count as usize;
    // SAFETY: no tag refers to this entry yet, and nobody else adds.
    let entry = unsafe { &mut (&mut *ENTRIES.0.get())[slot] };
    let ops = mutex::operations(spec);
    *entry = Entry { ops: Some(ops), choice };
    let leaves: [Leaf; 3] = if layers::any() {
        [layered::lock, layered::trylock, layered::unlock]
    } else {
        [ops.lock, ops.trylock, ops.unlock]
    };
    for (operation, leaf) in [LOCK, TRYLOCK, UNLOCK].into_iter().zip(leaves) {
        set(operation, slot, leaf as *const ());
    }
    COUNT.store(count + 1, Ordering::Relaxed); // ORDER: only the thread that starts the library reads it.
    Some(count)
}

fn entry(tag: u32) -> &'static Entry {
    // SAFETY: written before its tag was published, constant since.
    let entries = unsafe { &*ENTRIES.0.get() };
    &entries[tag as usize % TAGS]
}

/// The code of a decided mutex, beneath all layers; `None` if it is glibc's.
pub(crate) fn ops(tag: u32) -> Option<&'static Ops> {
    entry(tag).ops.as_ref()
}

/// What a tag stands for.
pub(crate) fn choice(tag: u32) -> Choice {
    entry(tag).choice
}

/// The settings of the restriction around the lock of a decided mutex.
pub(crate) fn knobs(tag: u32) -> &'static Knobs {
    match &entry(tag).choice {
        Choice::Lock(Spec { wrapper: Some(Wrapper { knobs, .. }), .. }) => knobs,
        _ => &Knobs::NONE,
    }
}

/// Tells the lock of a mutex the knobs of its spec.
///
/// # Safety
///
/// The mutex got this tag just now, and is otherwise as new, unless other threads already use it.
pub(crate) unsafe fn configure(mutex: &Mutex, tag: u32) {
    let entry = entry(tag);
    if let (Some(ops), Choice::Lock(Spec { knobs, .. })) = (&entry.ops, &entry.choice)
        && *knobs != Knobs::NONE
    {
        // SAFETY: the mutex has this entry's tag.
        unsafe { (ops.configure)(mutex, knobs) };
    }
}

/// Calls the leaf function of a decided mutex.
///
/// # Safety
///
/// As `pthread_mutex_lock`.
#[inline]
pub(crate) unsafe fn lock(mutex: *mut Mutex, tag: u32) -> c_int {
    // SAFETY: a column holds leaf functions only.
    unsafe { leaf(LOCK, tag)(mutex) }
}

/// Acquires a decided mutex for a thread that has waited on a condition.
///
/// # Safety
///
/// As `pthread_mutex_lock`.
pub(crate) unsafe fn reacquire(mutex: *mut Mutex, tag: u32) -> c_int {
    match ops(tag) {
        // SAFETY: the mutex has this choice's tag.
        Some(ops) => layers::acquire(event(How::AfterWait), || unsafe { (ops.lock)(mutex) }),
        // SAFETY: the caller's contract.
        None => unsafe { lock(mutex, tag) },
    }
}

/// See [`lock`].
///
/// # Safety
///
/// As `pthread_mutex_trylock`.
#[inline]
pub(crate) unsafe fn trylock(mutex: *mut Mutex, tag: u32) -> c_int {
    // SAFETY: a column holds leaf functions only.
    unsafe { leaf(TRYLOCK, tag)(mutex) }
}

/// See [`lock`].
///
/// # Safety
///
/// As `pthread_mutex_unlock`.
#[inline]
pub(crate) unsafe fn unlock(mutex: *mut Mutex, tag: u32) -> c_int {
    // SAFETY: a column holds leaf functions only.
    unsafe { leaf(UNLOCK, tag)(mutex) }
}

#[inline]
fn leaf(operation: usize, tag: u32) -> Leaf {
    let address = LEAVES[operation].0[tag as usize % TAGS].load(Ordering::Relaxed);
    // SAFETY: columns are filled with leaf functions at compile time and by `add`.
    unsafe { core::mem::transmute::<*mut (), Leaf>(address) }
}

/// Leaf functions that tell the layers what the lock's own ones do. They are in the columns instead of those if any layer is
/// on.
mod layered {
    use super::*;

    /// The lock's own operations.
    unsafe fn ops(mutex: *mut Mutex) -> &'static Ops {
        // SAFETY: the caller's contract.
        let tag = unsafe { Mutex::at(mutex) }.tag();
        match super::ops(tag) {
            Some(ops) => ops,
            None => unreachable!("a mutex of glibc's has another leaf function"),
        }
    }

    pub(super) unsafe extern "C" fn lock(mutex: *mut Mutex) -> c_int {
        // SAFETY: the entry point's contract.
        let ops = unsafe { ops(mutex) };
        // SAFETY: the mutex has this choice's tag.
        layers::acquire(event(How::Lock), || unsafe { (ops.lock)(mutex) })
    }

    pub(super) unsafe extern "C" fn trylock(mutex: *mut Mutex) -> c_int {
        // SAFETY: the entry point's contract.
        let ops = unsafe { ops(mutex) };
        // SAFETY: the mutex has this choice's tag.
        layers::acquire(event(How::Try), || unsafe { (ops.trylock)(mutex) })
    }

    pub(super) unsafe extern "C" fn unlock(mutex: *mut Mutex) -> c_int {
        // SAFETY: the entry point's contract.
        let ops = unsafe { ops(mutex) };
        // SAFETY: the mutex has this choice's tag.
        layers::release(Access::Mutex, || unsafe { (ops.unlock)(mutex) })
    }
}

/// What layers are told of an acquisition.
pub(crate) fn event(how: How) -> Event {
    Event { access: Access::Mutex, how }
}
