//! Linux's rw_semaphore in user space: one word with the readers' count, a list of sleepers in the order of their
//! arrival, of which all readers are let in together, one writer at a time that spins, and a hand-off to a writer that
//! has slept for too long.
//!
//! David Howells, Alex Shi, Michel Lespinasse, Tim Chen, Davidlohr Bueso, Waiman Long, Peter Zijlstra and others, Linux
//! (`kernel/locking/rwsem.c`, `osq_lock.c`), as of version 6. Readers come in while nobody sleeps, and on a lock that
//! is free; further ones queue behind who sleeps. Writers queue (OSQ) for the right to spin, then sleep. Who releases
//! lets in the readers (up to 256), if the first sleeper is one, wherever they are in the list; otherwise it tells the
//! first writer to try. A writer that is told in vain 4 ms after it went to sleep sets HANDOFF, and the next release
//! hands it the lock.
//!
//! Deviations:
//! - Whether the owner runs is not known in user space: writers spin for a context-switch round trip. Waiters may give up.
//! - Count, flags, guard and list are one word, changed by CAS, so a release is one step, after which the lock may be
//!   gone. Linux adds a reader before it knows whether it may come in. There are at most 65,279 readers, and a batch;
//!   others sleep until all have left.
//! - The last reader becomes a writer before it hands on, so that nobody joins it meanwhile. Who is handed the lock has
//!   it then, where Linux keeps others off it until it has taken it.
//! - A thread that may be a reader already comes in beside readers, whoever sleeps.
//!
//! Properties: 16 bytes a lock; 64 for each sleeper, none for holders. Everybody changes one word.
//!
//! # State
//!
//! ```text
//! word:   readers (16 bits) │ last sleeper (0 = none) │ GUARD: the list is being changed │ HANDOFF │ LOCKED: by a writer
//! list:   see [`sleepers`](crate::blocking::linux). Readers' words: PARKED → GRANTED;
//!         writers': PARKED → WAITING (to try) → PARKED, or after HANDOFF → GRANTED
//! ```
//!
//! # Invariants
//!
//! - I1: who adds a reader or sets LOCKED holds the lock, for itself or for those that it is about to grant it to.
//! - I2: the list is accessed by who set GUARD. While that is set, a lock that is held stays so: a release that would
//!   free it waits.
//! - I3: a writer joins the list while the lock is held, a reader with LOCKED set, behind a sleeper, or since there are
//!   too many readers. So if LOCKED is clear, the first is a writer, or there are too many readers; and if the lock is
//!   free, it has been told to try. It does, or takes the lock when it gives up: nobody who was told to try leaves a
//!   free lock.
//! - I4: HANDOFF is set by the first of the list, under the guard, on a lock that is held, and goes when that is handed
//!   the lock or leaves. So the sleep that follows ends by a grant.
//! - I5: a sleeper is recycled by its owner when it is out of the list: taken out by itself, or chosen, and then
//!   granted after the guard was released.
//!
//! # Ordering
//!
//! - E1: the step that releases (Release) → the CAS that acquires (Acquire), by way of CASes: the section. The last
//!   reader acquires those of the others when it becomes a writer.
//! - E2: the guard's (E1 in [`sleepers`](crate::blocking::linux)): the list, and what its members say of themselves.
//! - E3: the grant (E1 in [`wait`](crate::wait)) → the owner's load of its word: the sections before, and accesses to
//!   the sleeper.

mod readers;
#[cfg(test)]
mod tests;

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Clock, DataCell, Deadline, Native, Platform, TimedOut};

use super::catalogue::{Favour, RwAlgorithm};
use crate::api::RawRwLock;
use crate::blocking::linux::sleepers::{
    self, GUARD, Line, Spinners, append, has, last, linger, next, unlink, wake,
};
use crate::catalogue::Citation;
use crate::wait::{GRANTED, PARKED, Patience, WAITING, WAITING_ON_RWLOCK, grant, registered};

/// What is known of Linux's rw_semaphore.
pub const ALGORITHM: RwAlgorithm = RwAlgorithm {
    name: "linux-rwsem",
    favour: Favour::Neutral,
    waiting: "stp",
    by_node: false,
    fairness: "FIFO, all readers with the first one; arriving writers pass sleepers for at most 4 ms",
    bytes: 16,
    bytes_per_waiter: 64,
    timed: "writers spin; then sleeps until the deadline",
    recursion: "a thread that has read locks comes in beside readers",
    citation: Citation {
        key: "linux-rwsem",
        text: "Howells, Long, Zijlstra and others: Reader-writer semaphore. Linux, kernel/locking/rwsem.c",
    },
    summary: "readers share a count; one writer at a time spins, the others and all readers that must wait sleep in one list",
    properties: "What Linux uses inside, to compare with. A waiting reader takes 64 bytes, too.",
    deviations: "Writers spin for a fixed time, wherever the owner is. Count, flags, guard and list are one word, changed by CAS; \
                 at most 65,279 readers come in by themselves.",
    avoid: "Many cores that mostly read: all change one word.",
};

/// A writer has the lock.
const LOCKED: usize = 1;
/// The first sleeper, a writer, is to be handed the lock.
const HANDOFF: usize = 2;
/// One reader.
const READER: usize = 1 << READERS_SHIFT;
const READERS_SHIFT: u32 = 48;

/// Readers that are let in together.
const MOST_WOKEN: usize = 256;
/// While there are as many readers, no more come in but one batch.
const MOST_READERS: usize = u16::MAX as usize - MOST_WOKEN;

/// A writer that was told in vain claims the lock when it has slept for so long.
const PATIENCE_NS: u64 = 4_000_000;

const _: () = assert!(usize::BITS == 64, "a pointer leaves room for a count");

/// What a sleeper says of itself.
#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    reads: bool,
    /// When a writer claims the lock.
    claims_at: u64,
    /// It is out of the list, and about to be granted.
    is_chosen: bool,
}

type Sleeper<P> = sleepers::Sleeper<P, Wish>;

/// A value of the lock's word, or the last of a list.
type Tagged<P> = *mut Sleeper<P>;

fn readers<P: Platform>(word: Tagged<P>) -> usize {
    word.addr() >> READERS_SHIFT
}

fn is_held<P: Platform>(word: Tagged<P>) -> bool {
    has(word, LOCKED) || readers::<P>(word) != 0
}

/// Whether a reader comes in beside what is there, or on a free lock.
#[inline(always)]
fn is_open<P: Platform>(word: Tagged<P>) -> bool {
    last(word).is_null() || readers::<P>(word) == 0
}

/// Linux's rw_semaphore.
#[repr(C)]
pub struct LinuxRwsem<P: Platform> {
    /// Written by everybody.
    word: Line<P, Wish>,
    spinners: Spinners<P>,
}

const _: () = assert!(size_of::<LinuxRwsem<Native>>() == ALGORITHM.bytes);

impl<P: Platform> core::fmt::Debug for LinuxRwsem<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LinuxRwsem").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl LinuxRwsem<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Line::unlocked(), spinners: Spinners::unlocked() }
    }
}

impl<P: Platform> LinuxRwsem<P> {
    const HELD: Tagged<P> = ptr::without_provenance_mut(LOCKED);

    fn address(&self) -> usize {
        ptr::from_ref(self) as usize | WAITING_ON_RWLOCK
    }

    /// Adds a reader if there is no writer, and if that is how readers come in.
    #[inline(always)]
    fn enter(&self, admits: impl Fn(Tagged<P>) -> bool) -> bool {
        let mut seen = self.word.load(Relaxed);
        while !has(seen, LOCKED) && readers::<P>(seen) < MOST_READERS && admits(seen) {
            // ORDER: Acquire is E1. Failure tells only what to try next.
            match self.word.compare_exchange(seen, seen.map_addr(|addr| addr + READER), Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes the lock for writing if it is free.
    fn take(&self) -> bool {
        let mut seen = self.word.load(Relaxed);
        while !is_held::<P>(seen) {
            // ORDER: Acquire is E1. Failure tells only what to try next.
            match self.word.compare_exchange(seen, seen.map_addr(|addr| addr | LOCKED), Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    #[cold]
    fn read_slow(&self, deadline: Option<Deadline>, again: bool) -> bool {
        // From before it is in the list: a child of `fork` must be able to find every ghost.
        registered::<P, _>(self.address(), || {
            let end = self.word.guard();
            if self.enter(|seen| again || last(seen).is_null()) {
                self.unguard(end);
                return true;
            }
            self.sleep(end, Wish { reads: true, ..Wish::default() }, deadline)
        })
    }

    #[cold]
    fn write_slow(&self, deadline: Option<Deadline>) -> bool {
        // As above.
        registered::<P, _>(self.address(), || {
            if self.spinners.spin(self.address(), || self.take()) {
                return true;
            }
            let claims_at = P::now(Clock::Monotonic) + PATIENCE_NS;
            let end = self.word.guard();
            if self.take() {
                self.unguard(end);
                return true;
            }
            self.sleep(end, Wish { claims_at, ..Wish::default() }, deadline)
        })
    }

    /// Clears GUARD. `end` is the last of the list now.
    fn unguard(&self, end: Tagged<P>) {
        self.word.unguard(end, |own| own);
    }

    /// Sleeps behind `end`, with the guard set, which it clears. Whether the lock was acquired before the deadline.
    fn sleep(&self, end: Tagged<P>, wish: Wish, deadline: Option<Deadline>) -> bool {
        let node = P::alloc_node::<Sleeper<P>>();
        // SAFETY: I5: ours, until it is freed below.
        let sleeper = unsafe { node.as_ref() };
        // SAFETY: nobody else knows of it yet.
        unsafe { sleeper.wish.set(wish) };
        // SAFETY: I2; and the node is ours.
        unsafe { append(end, node.as_ptr()) };
        self.unguard(node.as_ptr()); // I2, I3: still held.
        let acquired = loop {
            match sleeper.sleep(deadline) {
                Ok(GRANTED) => break true,
                Ok(_) if self.retry(node, sleeper) => break true,
                Ok(_) => {}
                Err(TimedOut) => break self.leave(node, sleeper),
            }
        };
        // SAFETY: I5: out of the list.
        unsafe { P::free_node(node) };
        acquired
    }

    /// Tries to take the lock, as a writer that is the first of the list and was told to. If that is in vain it sleeps on.
    fn retry(&self, node: NonNull<Sleeper<P>>, sleeper: &Sleeper<P>) -> bool {
        let end = self.word.guard();
        if self.take() {
            // SAFETY: I2: in the list.
            let end = unsafe { unlink(end, node.as_ptr()) };
            self.unguard(end);
            return true;
        }
        // SAFETY: I2.
        if P::now(Clock::Monotonic) < unsafe { sleeper.wish.get() }.claims_at {
            // Before it can be told again. ORDER: Relaxed: E2.
            sleeper.word.store(PARKED, Relaxed);
            self.unguard(end);
        } else {
            self.word.unguard(end, |own| own | HANDOFF);
            // I4: to be granted. ORDER: Relaxed: what comes of it is read again.
            linger::<P>(&sleeper.word);
            let _ = sleeper.word.compare_exchange(WAITING, PARKED, Relaxed, Relaxed);
        }
        false
    }

    /// Leaves the list at the deadline, unless it was chosen, or is a writer and the lock free. Whether it was acquired.
    fn leave(&self, node: NonNull<Sleeper<P>>, sleeper: &Sleeper<P>) -> bool {
        let end = self.word.guard();
        // SAFETY: I2.
        let wish = unsafe { sleeper.wish.get() };
        if wish.is_chosen {
            self.unguard(end);
            // I5: the grant is certain.
            return sleeper.sleep(None) == Ok(GRANTED);
        }
        // I3.
        let acquired = !wish.reads && self.take();
        // SAFETY: I2: not empty, as `node` is in it.
        let is_first = unsafe { next(end) } == node.as_ptr();
        // SAFETY: I2: in the list.
        let end = unsafe { unlink(end, node.as_ptr()) };
        if !is_first || has(self.word.load(Relaxed), LOCKED) {
            // I4: the flag is the first one's.
            let clear = if is_first { HANDOFF } else { 0 };
            self.word.unguard(end, |own| own & !clear);
            return acquired;
        }
        // Readers that slept behind a writer may come in beside those that are there (I3).
        self.let_readers_in(end, |own| own & !HANDOFF);
        false
    }

    /// Ends with the guard, which it clears, and `change`s the lock's own bits. If the first of the list is a reader,
    /// and readers may come in after that, they do. Whether it is one.
    fn let_readers_in(&self, end: Tagged<P>, change: impl Fn(usize) -> usize) -> bool {
        let (rest, chosen, count) = if readers::<P>(self.word.load(Relaxed)) > MOST_READERS {
            (end, ptr::null_mut(), 0)
        } else {
            Self::choose(end)
        };
        self.word.unguard(rest, |own| change(own) + count * READER);
        Self::grant_all(chosen);
        count != 0
    }

    /// Releases as the last reader of a lock for which somebody sleeps, perhaps. Whether it was the last.
    #[cold]
    fn unlock_last(&self) -> bool {
        // A child of a reader that forks must find that the guard is a ghost's.
        registered::<P, _>(self.address(), || {
            let mut patience = Patience::new::<P>();
            loop {
                let seen = self.word.load(Relaxed);
                if readers::<P>(seen) != 1 {
                    return false; // Somebody has come in beside us.
                }
                let alone = seen.map_addr(|addr| addr - READER + (LOCKED | GUARD));
                // ORDER: Acquire is E1, as the other readers' sections are ours to hand on, and E2.
                if !has(seen, GUARD) && self.word.compare_exchange(seen, alone, Acquire, Relaxed).is_ok() {
                    self.hand_on(last(seen), 0);
                    return true;
                }
                patience.pause::<P>();
            }
        })
    }

    /// Releases as the writer of a lock for which somebody sleeps, perhaps.
    #[cold]
    fn unlock_exclusive_slow(&self) {
        self.hand_on(self.word.guard(), 0);
    }

    /// Releases with LOCKED and the guard set, or leaves a reader in its place.
    fn hand_on(&self, end: Tagged<P>, reader: usize) {
        let change = |own| own - LOCKED + reader;
        if end.is_null() || Self::begins_with_reader(end) || reader != 0 {
            self.let_readers_in(end, change);
            return;
        }
        // SAFETY: I2: a writer.
        let first = unsafe { next(end) };
        // SAFETY: I5: in the list.
        let sleeper = unsafe { &*first };
        if has(self.word.load(Relaxed), HANDOFF) {
            // SAFETY: I2.
            let wish = unsafe { sleeper.wish.get() };
            // SAFETY: I2.
            unsafe { sleeper.wish.set(Wish { is_chosen: true, ..wish }) };
            // SAFETY: I2: in the list.
            let rest = unsafe { unlink(end, first) };
            self.word.unguard(rest, |own| own & !HANDOFF);
            grant::<P>(&sleeper.word);
            return;
        }
        let address = ptr::from_ref(&sleeper.word);
        // I3. ORDER: Relaxed: it is to try, and may fail.
        let before = sleeper.word.swap(WAITING, Relaxed);
        // From here on there may be no lock, and no sleeper.
        self.word.unguard(end, change);
        wake::<P>(before, address);
    }
}

// SAFETY: I1 excludes writers against everybody; E1 and E3 order the sections.
unsafe impl<P: Platform> RawRwLock<P> for LinuxRwsem<P> {
    fn new() -> Self {
        Self { word: Line::new(), spinners: Spinners::new() }
    }

    #[inline]
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        self.enter(is_open::<P>) || self.read_slow(deadline, false)
    }

    #[inline]
    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        self.enter(|_| true) || self.read_slow(deadline, true)
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.enter(is_open::<P>)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        loop {
            let mut seen = self.word.load(Relaxed);
            while readers::<P>(seen) > 1 || seen.addr() == READER {
                let left = seen.map_addr(|addr| addr - READER);
                // ORDER: Release is E1. From here on there may be no lock.
                match self.word.compare_exchange(seen, left, Release, Relaxed) {
                    Ok(_) => return,
                    Err(now) => seen = now,
                }
            }
            if self.unlock_last() {
                return;
            }
        }
    }

    #[inline]
    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.word.compare_exchange(ptr::null_mut(), Self::HELD, Acquire, Relaxed).is_ok()
            || self.write_slow(deadline)
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.take()
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // ORDER: Release is E1. From here on there may be no lock.
        if self.word.compare_exchange(Self::HELD, ptr::null_mut(), Release, Relaxed).is_err() {
            self.unlock_exclusive_slow();
        }
    }

    unsafe fn downgrade(&self) {
        self.hand_on(self.word.guard(), READER);
    }

    fn is_locked(&self) -> bool {
        is_held::<P>(self.word.load(Relaxed))
    }

    unsafe fn forget_waiters(&self) {
        let seen = self.word.load(Relaxed);
        self.word.store(
            ptr::without_provenance_mut(seen.addr() & (LOCKED | usize::MAX << READERS_SHIFT)),
            Relaxed,
        );
        self.spinners.clear();
    }
}
