//! The registry of waiting threads: one cache line a thread, saying for what it waits.
//!
//! A thread takes a slot the first time it has to wait, and writes to it on contended paths only.
//! Three readers: GCR counts the waiters of a lock; the purge after `fork` finds every lock that has
//! ghosts in its queue; cancellation finds the futex of its target. Any number of threads: chunks are
//! added and never removed.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::sys;
use crate::tls::ThreadBlock;

/// One thread's entry.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Slot {
    /// `pthread_self()` of the owner; 0 = free.
    thread: AtomicUsize,
    /// Address of the lock or condition the owner waits for; 0 = none. Written by the owner.
    pub waiting_on: AtomicUsize,
    /// The futex word the owner sleeps on in a cancellable wait; null = none. Written by the owner.
    pub cancel_word: AtomicPtr<AtomicU32>,
    /// 1 = a cancellation request is pending for the owner. Set by the requester, cleared by the owner.
    pub cancel_pending: AtomicU32,
    /// 1 = the owner reads another thread's CPU clock. Written by the owner.
    pub(crate) reads_clock: AtomicU32,
    /// Position in the registry, from 0.
    index: AtomicU32,
}

unsafe extern "C" {
    fn pthread_self() -> usize;
}

const SLOTS_PER_CHUNK: usize = 63;

#[repr(C, align(4096))]
struct Chunk {
    next: AtomicPtr<Chunk>,
    /// Position of the first slot.
    base: AtomicU32,
    slots: [Slot; SLOTS_PER_CHUNK],
}

const _: () = assert!(size_of::<Chunk>() == 4096);

static FIRST: AtomicPtr<Chunk> = AtomicPtr::new(ptr::null_mut());

/// All slots, used and free.
fn all() -> impl Iterator<Item = &'static Slot> {
    let mut next = FIRST.load(Ordering::Acquire);
    core::iter::from_fn(move || {
        // SAFETY: a published chunk is initialised (zero is valid) and mapped for ever.
        let chunk: &'static Chunk = unsafe { next.as_ref() }?;
        next = chunk.next.load(Ordering::Acquire);
        Some(chunk)
    })
    .flat_map(|chunk| chunk.slots.iter())
}

/// The slot of the calling thread; `None` when the thread is ending or there is no memory.
#[inline]
#[must_use]
pub fn current() -> Option<&'static Slot> {
    let block = ThreadBlock::current();
    // SAFETY: a slot in a thread block belongs to that thread and is mapped for ever.
    match unsafe { block.slot.get().as_ref() } {
        Some(slot) => Some(slot),
        None => acquire(block),
    }
}

#[cold]
fn acquire(block: &ThreadBlock) -> Option<&'static Slot> {
    if !block.may_keep() {
        return None;
    }
    // Not the thread pointer: on aarch64 glibc's descriptor lies before it.
    // SAFETY: takes nothing and cannot fail.
    let me = unsafe { pthread_self() };
    let take = |slot: &&'static Slot| {
        slot.thread.load(Ordering::Relaxed) == 0
            && slot.thread.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let slot = loop {
        match all().find(take) {
            Some(slot) => break slot,
            None => add_chunk()?,
        }
    };
    slot.waiting_on.store(0, Ordering::Relaxed);
    slot.cancel_word.store(ptr::null_mut(), Ordering::Relaxed);
    slot.cancel_pending.store(0, Ordering::Relaxed);
    slot.reads_clock.store(0, Ordering::Relaxed);
    block.slot.set(slot);
    Some(slot)
}

fn add_chunk() -> Option<()> {
    let fresh = sys::map_pages(size_of::<Chunk>())?.cast::<Chunk>();
    // SAFETY: fresh zeroed pages of the right size and alignment are a valid chunk.
    let chunk: &'static Chunk = unsafe { fresh.as_ref() };
    let mut link = &FIRST;
    let mut base = 0;
    loop {
        chunk.base.store(base, Ordering::Relaxed);
        for (offset, slot) in chunk.slots.iter().enumerate() {
            slot.index.store(base + offset as u32, Ordering::Relaxed);
        }
        match link.compare_exchange(ptr::null_mut(), fresh.as_ptr(), Ordering::Release, Ordering::Acquire) {
            Ok(_) => return Some(()),
            Err(there) => {
                // SAFETY: a published chunk is mapped for ever.
                let last: &'static Chunk = unsafe { &*there };
                base = last.base.load(Ordering::Relaxed) + SLOTS_PER_CHUNK as u32;
                link = &last.next;
            }
        }
    }
}

/// Frees the slot of an ending thread.
pub(crate) fn release(block: &ThreadBlock) {
    let slot = block.slot.replace(ptr::null());
    // SAFETY: as in `current`.
    if let Some(slot) = unsafe { slot.as_ref() } {
        slot.free();
    }
}

impl Slot {
    /// Position of this slot in the registry, from 0: small numbers for programs with few threads.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed) as usize
    }

    fn free(&self) {
        self.waiting_on.store(0, Ordering::Relaxed);
        self.cancel_word.store(ptr::null_mut(), Ordering::Relaxed);
        self.thread.store(0, Ordering::Release);
    }
}

/// The slot of the live thread with this `pthread_t`, if it ever waited.
#[must_use]
pub fn of_thread(pthread: usize) -> Option<&'static Slot> {
    all().find(|slot| slot.thread.load(Ordering::Acquire) == pthread)
}

/// Whether a thread other than the caller reads a clock right now.
pub(crate) fn others_read_clocks() -> bool {
    let mine = ThreadBlock::current().slot.get();
    all().any(|slot| {
        !ptr::eq(slot, mine)
            && slot.reads_clock.load(Ordering::Acquire) != 0
            && slot.thread.load(Ordering::Relaxed) != 0
    })
}

/// How many threads say that they wait for the lock at `address`.
#[must_use]
pub fn waiters_of(address: usize) -> usize {
    all().filter(|slot| slot.waiting_on.load(Ordering::Relaxed) == address).count()
}

/// In a child after `fork`: calls `purge` with the address of everything that a thread of the
/// parent other than the forking one waited for (repeatedly where several did), then frees the slots of
/// those ghosts.
pub fn purge_ghosts(mut purge: impl FnMut(usize)) {
    let block = ThreadBlock::current();
    block.after_fork();
    let mine = block.slot.get();
    let ghosts = || all().filter(|slot| !ptr::eq(*slot, mine) && slot.thread.load(Ordering::Relaxed) != 0);
    for ghost in ghosts() {
        let address = ghost.waiting_on.load(Ordering::Relaxed);
        if address != 0 {
            purge(address);
        }
    }
    for ghost in ghosts() {
        ghost.free();
    }
}
