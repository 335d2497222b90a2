//! The registry of waiting threads: one cache line a thread, saying for what it waits.
//!
//! A thread takes a slot the first time it has to wait, and writes to it on contended paths only.
//! Three readers: GCR counts the waiters of a lock; the purge after `fork` finds every lock that has
//! ghosts in its queue; cancellation finds the futex of its target (`cancel`). Any number of threads: chunks are
//! added and never removed.
//!
//! A slot names a lock only while its thread waits for it, when nobody frees that. A thread that releases a lock in several
//! steps is not registered: `fork` waits for it (`steps`).

mod cancel;
mod generation;
mod owner;
mod steps;
#[cfg(test)]
mod tests;

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

pub use self::cancel::Cancel;
pub use self::generation::new_generation;
pub use self::owner::Owner;
pub use self::steps::Steps;
use crate::published::Published;
use crate::tls::ThreadBlock;
use crate::{Clock, Native, NativeFutex, observe, sys};

/// One thread's entry.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Slot {
    /// The thread whose entry this is.
    owner: Owner<Native>,
    /// Address of the lock or condition the owner waits for; 0 = none. Written by the owner, and for a waiter of a condition
    /// by the thread that signals it.
    waiting_on: AtomicUsize,
    /// How others end a cancellable wait of the owner.
    pub cancel: Cancel<Native>,
    /// How many releases the owner is in that `fork` waits for. Written by the owner.
    steps: AtomicU32,
    /// 1 = the owner reads another thread's CPU clock. Written by the owner.
    pub(crate) reads_clock: AtomicU32,
    /// Position in the registry, from 0.
    index: AtomicU32,
    /// The first of the owner's bookmarks; 0 = none. They go to the slot's next owner.
    pub(crate) bookmarks: AtomicU32,
}

unsafe extern "C" {
    fn pthread_self() -> usize;
}

const SLOTS_PER_CHUNK: usize = 63;

#[repr(C, align(4096))]
struct Chunk {
    next: Published<Native, Chunk>,
    /// Position of the first slot.
    base: AtomicU32,
    slots: [Slot; SLOTS_PER_CHUNK],
}

const _: () = assert!(size_of::<Chunk>() == 4096);

static FIRST: Published<Native, Chunk> = Published::nothing();

/// All slots, used and free.
fn all() -> impl Iterator<Item = &'static Slot> {
    core::iter::successors(FIRST.get(), |chunk| chunk.next.get()).flat_map(|chunk| chunk.slots.iter())
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
    let slot = loop {
        match all().find(|slot| slot.owner.take(me)) {
            Some(slot) => break slot,
            None => add_chunk()?,
        }
    };
    slot.waiting_on.store(0, Ordering::Relaxed);
    slot.cancel.reset();
    slot.steps.store(0, Ordering::Relaxed);
    slot.reads_clock.store(0, Ordering::Relaxed);
    block.slot.set(slot);
    Some(slot)
}

/// A chunk for when the kernel has no memory: threads without slots could take no state back.
struct Reserve(UnsafeCell<MaybeUninit<Chunk>>);

// SAFETY: handed out once.
unsafe impl Sync for Reserve {}

fn reserve() -> Option<NonNull<Chunk>> {
    static RESERVE: Reserve = Reserve(UnsafeCell::new(MaybeUninit::zeroed()));
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    if IS_TAKEN.swap(true, Ordering::Relaxed) { None } else { NonNull::new(RESERVE.0.get().cast()) }
}

fn add_chunk() -> Option<()> {
    let fresh = sys::map_pages(size_of::<Chunk>()).map(NonNull::cast).or_else(reserve)?;
    // SAFETY: fresh zeroed memory of the right size and alignment is a valid chunk.
    let chunk: &'static Chunk = unsafe { fresh.as_ref() };
    let mut link = &FIRST;
    let mut base = 0;
    loop {
        chunk.base.store(base, Ordering::Relaxed);
        for (offset, slot) in chunk.slots.iter().enumerate() {
            slot.index.store(base + offset as u32, Ordering::Relaxed);
        }
        // SAFETY: initialised (zero is valid), and mapped for ever.
        match unsafe { link.first(fresh) } {
            Ok(_) => return Some(()),
            Err(last) => {
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
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed) as usize
    }

    /// The number of the thread whose slot it is.
    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.index.load(Ordering::Relaxed) + 1
    }

    fn free(&self) {
        self.waiting_on.store(0, Ordering::Relaxed);
        self.steps.store(0, Ordering::Relaxed);
        // The next owner gets no request that was meant for this one.
        self.owner.free(|| self.cancel.settle());
    }
}

/// Asks the live thread with this `pthread_t` to end its cancellable wait, if it is in one or will be: marks it, and calls
/// `kick` with the word that it sleeps on.
pub fn cancel(pthread: usize, kick: impl FnOnce(*const NativeFutex)) {
    let is_it = |slot: &Slot| slot.owner.is(pthread);
    if let Some(slot) = all().find(|slot| is_it(slot)) {
        // A handler that forks would leave a child in which this thread takes itself off requesters that were forgotten.
        sys::without_signals(|| slot.cancel.request(|| is_it(slot), kick));
    }
}

/// Releases in steps, of all threads.
static STEPS: Steps<Native> = Steps { forking: AtomicU32::new(0) };

/// Waits for a moment, as often as it takes the time of a long `fork`. Not for longer: the thread that forks may be in a handler that
/// waits for what the calling one is about to release.
fn patience_with_fork() -> impl FnMut() -> bool {
    const NS: u64 = 100_000_000;
    let mut since = None;
    move || {
        let now = sys::now(Clock::Monotonic);
        sys::sched_yield();
        now.saturating_sub(*since.get_or_insert(now)) < NS
    }
}

/// Waits for a moment, as often as it takes until a thread in the middle of a release has run again, even in a crowd. It ends because
/// such a thread may have been interrupted by a handler that waits for the one that forks.
fn patience_with_releases() -> impl FnMut() -> bool {
    const NS: u64 = 5_000_000_000;
    /// For so long at first without sleeping: most releases take no longer.
    const YIELDING_NS: u64 = 100_000;
    const NAP_NS: u64 = 200_000;
    let mut since = None;
    move || {
        let now = sys::now(Clock::Monotonic);
        let waited = now.saturating_sub(*since.get_or_insert(now));
        if waited < YIELDING_NS {
            sys::sched_yield()
        } else {
            sys::sleep_ns(NAP_NS)
        }
        waited < NS
    }
}

/// Called by a thread that is about to fork, after all handlers of the program have run: waits until no other thread is in
/// the middle of a release, for some seconds at most, and keeps them from beginning one. A fork that never comes to [`after_fork`]
/// delays each by a tenth of a second.
///
/// Between this and [`after_fork`] a signal handler may fork as well, and its child go on with this fork. So each thread
/// knows how many it is in, which changes together with their sum over all threads.
pub fn before_fork() {
    let block = ThreadBlock::current();
    let mine = block.slot.get();
    let others = || all().any(|slot| !ptr::eq(slot, mine) && Steps::<Native>::is_marked(&slot.steps));
    sys::without_signals(|| {
        block.forks.set(block.forks.get() + 1);
        STEPS.before_fork(others, patience_with_releases());
    });
}

/// Called by the thread that has forked, in the parent.
pub fn after_fork() {
    let block = ThreadBlock::current();
    sys::without_signals(|| {
        block.forks.set(block.forks.get().saturating_sub(1));
        STEPS.after_fork();
    });
}

/// Called by the thread that has forked, in the child, before [`purge_ghosts`].
pub fn after_fork_in_child() {
    let block = ThreadBlock::current();
    block.forks.set(block.forks.get().saturating_sub(1));
}

/// Whether a thread that forks waits for the calling one, which has begun a release ([`Waiters::in_steps`]), and none that
/// has not waited for it is about to.
pub(crate) fn is_waited_for_by_forks() -> bool {
    let slot = ThreadBlock::current().slot.get();
    // SAFETY: a slot in a thread block belongs to that thread and is mapped for ever.
    unsafe { slot.as_ref() }.is_some_and(|slot| slot.steps.load(Ordering::Relaxed) != 0)
        && !STEPS.is_forking()
}

/// Whether a thread other than the caller reads a clock right now.
pub(crate) fn others_read_clocks() -> bool {
    let mine = ThreadBlock::current().slot.get();
    all().any(|slot| {
        !ptr::eq(slot, mine) && slot.reads_clock.load(Ordering::Acquire) != 0 && slot.owner.is_taken()
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
    STEPS.in_child(u32::from(block.forks.get()));
    let mine = block.slot.get();
    let ghosts = || all().filter(|slot| !ptr::eq(*slot, mine) && slot.owner.is_taken());
    for ghost in ghosts() {
        let address = ghost.waiting_on.load(Ordering::Relaxed);
        if address != 0 {
            purge(address);
        }
    }
    all().for_each(|slot| {
        slot.cancel.after_fork();
        // The nodes they name may be in no queue any more.
        slot.bookmarks.store(0, Ordering::Relaxed);
    });
    for ghost in ghosts() {
        ghost.free();
    }
}

/// The registry of waiting threads.
pub trait Waiters: Sized {
    /// Says that this thread is about to wait for the lock at `address`, or (0) that it no longer
    /// waits, and returns what it said before. Read by [`Waiters::waiters_of`] and by the purge after `fork`. Written on
    /// contended paths only. There is one place for it: a lock made of locks registers for the whole, and its parts put
    /// back what they found.
    fn set_waiting_on(address: usize) -> usize;

    /// Runs a release that takes more than one step, of which a `fork` of another thread must not find a half. It must not
    /// wait for a lock that a program holds.
    #[inline(always)]
    fn in_steps<R>(release: impl FnOnce() -> R) -> R {
        release()
    }

    /// What the calling thread's registration as a waiter is known by, for [`Waiters::end_waiting_on`]; 0 = none.
    fn registration() -> usize {
        0
    }

    /// Ends the registration of another thread, if it is still for `address`.
    ///
    /// # Safety
    ///
    /// `registration` is 0 or was made by a live thread.
    unsafe fn end_waiting_on(registration: usize, address: usize) {
        let _ = (registration, address);
    }

    /// An estimate of how many threads wait for the lock at `address`, this one included.
    fn waiters_of(address: usize) -> usize;

    /// How many forks lie between the first process and this one. What a thread leaves for others to act on carries it: in a
    /// child the thread may be gone.
    #[inline(always)]
    fn generation() -> u32 {
        0
    }

    /// Whether the thread of this number ([`Sched::thread_id`](crate::Sched::thread_id)) that lived in `generation` lives in this
    /// one.
    fn lives_since(thread: u32, generation: u32) -> bool {
        let _ = (thread, generation);
        true
    }
}

impl Waiters for Native {
    #[inline]
    fn set_waiting_on(address: usize) -> usize {
        if address == 0 {
            observe::wait_ends();
        } else {
            observe::wait_begins(address);
        }
        current().map_or(0, |slot| {
            // Two accesses: only the owner's own signal handlers come between, and they put back what they found.
            let before = slot.waiting_on.load(Ordering::Relaxed);
            slot.waiting_on.store(address, Ordering::Relaxed);
            before
        })
    }

    #[inline]
    fn in_steps<R>(release: impl FnOnce() -> R) -> R {
        let slot = current();
        if let Some(slot) = slot {
            STEPS.begin(&slot.steps, patience_with_fork());
        }
        let result = release();
        if let Some(slot) = slot {
            STEPS.end(&slot.steps);
        }
        result
    }

    fn registration() -> usize {
        current().map_or(0, |slot| ptr::from_ref(slot) as usize)
    }

    unsafe fn end_waiting_on(registration: usize, address: usize) {
        // SAFETY: null or a slot, which is mapped for ever.
        if let Some(slot) = unsafe { (registration as *const Slot).as_ref() } {
            // ORDER: Relaxed: what the caller releases next, to whoever may free what was waited for, comes after this.
            let _ = slot.waiting_on.compare_exchange(address, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn waiters_of(address: usize) -> usize {
        waiters_of(address)
    }

    #[inline(always)]
    fn generation() -> u32 {
        generation::now()
    }

    fn lives_since(thread: u32, generation: u32) -> bool {
        generation::lives_since(thread, generation)
    }
}
