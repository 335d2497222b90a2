//! Linux's rw_semaphore in user space: a readers' count, a list of sleepers in the order of their arrival, of which all
//! readers are let in together, one writer at a time that spins, and a hand-off to a writer that has slept for too long.
//!
//! David Howells, Alex Shi, Michel Lespinasse, Tim Chen, Davidlohr Bueso, Waiman Long, Peter Zijlstra and others, Linux
//! (`kernel/locking/rwsem.c`, `osq_lock.c`), as of version 6. Readers come in while nobody sleeps, and on a lock that
//! is free; further ones queue behind the sleepers. Writers queue (OSQ) for the right to spin, for at most 25 us while
//! readers have the lock, then sleep. If the first sleeper is a reader, a release lets in the readers (up to 256), wherever
//! they are in the list; otherwise it tells the first writer to try. A writer that is told in vain 4 ms after it went to
//! sleep sets HANDOFF, and the next release hands it the lock.
//!
//! Deviations:
//! - Whether the owner runs is not known in user space: writers spin for a context-switch round trip, and for up to twenty
//!   while there are CPUs to spare. Waiters may give up.
//! - A release is one step, after which the lock may be gone. So the last reader does not look at the list, but wakes the
//!   first of it, a writer, which sleeps on the count then. A writer that becomes the first behind readers is woken for that.
//! - All readers are let in with the first one, however many they are.
//! - A reader that added itself in vain beside a writer leaves it at that: the writer's release clears the count.
//! - A thread that is handed the lock has it at once, where Linux keeps others off it until it has taken it.
//! - A thread that may be a reader already comes in beside readers, whatever sleeps.
//!
//! Properties: 24 bytes a lock; 64 for each waiter, none for holders; 2^26 readers. Everybody changes one word.
//!
//! # State
//!
//! ```text
//! count:  readers (27 bits) │ WATCHED │ WAITERS │ GUARD: the list is being changed │ HANDOFF │ LOCKED: by a writer
//! last:   last sleeper (0 = none); list: see [`sleepers`](crate::blocking::linux). Readers' words: PARKED → GRANTED;
//!         writers': PARKED → GRANTED or WAITING (to try); WATCHING (asleep on the count) → WAITING; → PARKED or WATCHING
//! ```
//!
//! # Invariants
//!
//! - I1: a thread that adds a reader while LOCKED is clear, or sets LOCKED, holds the lock, for itself or for those that
//!   it is about to grant it to. With LOCKED set the readers' count means nothing; it is set anew when LOCKED goes. A reader
//!   that has added itself where it may not, with LOCKED clear, takes itself away: until then it is one, even for a child of
//!   `fork`, where it stays.
//! - I2: the list, WAITERS, WATCHED and HANDOFF are changed by the thread that set GUARD; WAITERS says that the list is not empty.
//!   While GUARD is set LOCKED stays: a release that would clear it waits. Readers wait for nobody.
//! - I3: a writer joins the list while it could not take the lock, a reader with LOCKED set or behind a sleeper. When LOCKED
//!   goes, or the first leaves while it is clear, readers at the head of the list are let in. So if LOCKED is clear the first
//!   is a writer.
//! - I4: HANDOFF is set by the first of the list, which alone takes a free lock then, and goes when that has the lock or
//!   leaves. A thread that may be a reader already finds readers if it is one, and comes in beside them. A writer's
//!   release that finds HANDOFF grants, unless the first watches.
//! - I5: a sleeper is recycled by its owner when it is out of the list: taken out by itself, or chosen, and then
//!   granted.
//! - I6: if LOCKED is clear the first of the list watches, with WATCHED set, or was told to try, and will: it takes the lock,
//!   sleeps with LOCKED set, until it is told again or granted the lock, or watches. The thread that makes it the first, or
//!   clears LOCKED, tells it. It takes the lock when it gives up.
//! - I7: a writer that watches tries when it finds the lock free: a thread that frees the lock wakes the sleepers of the
//!   count afterwards, whatever else the writer was told. It is not granted the lock: a writer that came before its HANDOFF and releases then tells it.
//!
//! # Ordering
//!
//! - E1: the step that releases (Release) → the one that acquires (Acquire), by way of read-modify-writes: the section.
//! - E2: the step that clears GUARD (Release) → the one that sets it (Acquire): the list, and what its members say.
//! - E3: the grant (E1 in [`wait`](crate::wait)) → the owner's load of its word: the sections before, and accesses to
//!   the sleeper.

mod readers;
mod sleeping;
#[cfg(test)]
mod tests;

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{
    AtomicCell, AtomicInt, ConstPlatform, DataCell, Deadline, FutexCell, Native, Platform,
};

use crate::api::RawRwLock;
use crate::blocking::linux::sleepers::{self, Spinners, next, unlink, wake};
use crate::competitive::backoff::Delay;
use crate::describe::{Citation, Descriptor, Family, Favour, Order, Proof, Timed};
use crate::wait::{WAITING, WAITING_ON_RWLOCK, grant};

/// What is known of Linux's rw_semaphore.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "linux-rwsem",
    family: Family::Blocking,
    order: Order::BargingUntilHandoff,
    order_note: "sleepers are FIFO, all readers with the first; a newcomer passes them until the first has tried in vain for 4 ms",
    bytes: 24,
    bytes_per_waiter: 64,
    timed: Timed::SpinsThenSleeps,
    proofs: &[
        Proof { source: file!(), by: &["linux-rwsem"] },
        Proof { source: "rw/linux_rwsem/sleeping.rs", by: &["linux-rwsem"] },
    ],
    citation: Citation {
        key: "linux-rwsem",
        text: "Howells, Long, Zijlstra and others: Reader-writer semaphore. Linux, kernel/locking/rwsem.c",
    },
    summary: "readers share a count; one writer at a time spins, the others and all readers that must wait sleep in one list",
    properties: "What Linux uses inside, to compare with. A waiting reader takes 64 bytes, too.",
    deviations: "Writers spin while there are CPUs to spare, wherever the owner is. The first writer behind readers sleeps on the count, \
                 where the last of them wakes it without a look at the list.",
    avoid: "Many cores that mostly read: all change one word.",
    ..Descriptor::rwlock(Favour::Neutral, "a thread that has read locks comes in beside readers")
};

/// A writer has the lock.
const LOCKED: u32 = 1;
/// The first sleeper, a writer, is to be handed the lock.
const HANDOFF: u32 = 2;
/// The list is being changed.
const GUARD: u32 = 4;
/// The list is not empty.
const WAITERS: u32 = 8;
/// The first sleeper sleeps on the count.
const WATCHED: u32 = 16;
/// What the thread that set GUARD changes (I2).
const GUARDED: u32 = GUARD | HANDOFF | WAITERS | WATCHED;
/// One reader.
const READER: u32 = 32;
/// All readers.
const READERS: u32 = !(READER - 1);
/// There are 2^26 readers; no further one comes in. Those that looked before, one a thread, have room.
const FULL: u32 = 1 << 31;

/// In a writer's word: it sleeps on the count.
const WATCHING: u32 = 4;

/// A writer that was told in vain claims the lock when it has slept for so long.
const PATIENCE_NS: u64 = 4_000_000;

/// A thread that waits for the guard looks at it ever more rarely, until it lets this many context-switch round trips pass
/// between two looks: the thread that has set the guard has to change the same word.
const LONGEST_LOOK_AWAY: u32 = 8;

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

fn is_held(count: u32) -> bool {
    count & (READERS | LOCKED) != 0
}

/// Whether a reader comes in beside what is there, or on a free lock.
#[inline(always)]
fn is_open(count: u32) -> bool {
    count & (LOCKED | HANDOFF | FULL) == 0 && (count & WAITERS == 0 || count & READERS == 0)
}

/// Whether a thread comes in that may be a reader already: then there are readers.
#[inline(always)]
fn is_shared(count: u32) -> bool {
    count & LOCKED == 0 && (count & READERS != 0 || count & HANDOFF == 0)
}

/// Whether no writer has the lock, so that the readers' count is theirs.
#[inline(always)]
fn is_read(count: u32) -> bool {
    count & LOCKED == 0
}

/// The flags that only the thread with the guard changes, those in `flags`, as they are to be with `end` as the last of the list.
fn unguarded<P: Platform>(end: *mut Sleeper<P>, flags: u32) -> u32 {
    if end.is_null() { flags & !GUARDED } else { flags & !GUARD | WAITERS }
}

/// Linux's rw_semaphore.
#[repr(C)]
pub struct LinuxRwsem<P: Platform> {
    /// Written by everybody.
    count: P::Futex,
    /// The last of the list. Belongs to the thread that set GUARD.
    last: P::Ptr<Sleeper<P>>,
    spinners: Spinners<P>,
}

const _: () = assert!(size_of::<LinuxRwsem<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform> core::fmt::Debug for LinuxRwsem<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LinuxRwsem").field("count", &self.count.load(Relaxed)).finish_non_exhaustive()
    }
}

impl LinuxRwsem<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { count: Native::FUTEX_ZERO, last: Native::null(), spinners: Spinners::unlocked() }
    }
}

impl<P: Platform> LinuxRwsem<P> {
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize | WAITING_ON_RWLOCK
    }

    /// Adds a reader if that is how readers come in.
    #[inline(always)]
    fn enter(&self, admits: impl Fn(u32) -> bool) -> bool {
        if !admits(self.count.load(Relaxed)) {
            return false;
        }
        // ORDER: Acquire is E1.
        let before = self.count.fetch_add(READER, Acquire);
        if admits(before) {
            return true;
        }
        if is_read(before) {
            // SAFETY: I1: it is a reader like any other.
            unsafe { self.unlock_shared() };
        }
        false
    }

    /// Takes the lock for writing if it is free, and not about to be handed to another thread.
    fn take(&self, is_first: bool) -> bool {
        let others = if is_first { 0 } else { HANDOFF };
        let mut seen = self.count.load(Relaxed);
        while seen & (READERS | LOCKED | others) == 0 {
            // ORDER: Acquire is E1. Failure tells only what to try next.
            match self.count.compare_exchange(seen, seen | LOCKED, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Sets GUARD. Returns the last of the list.
    fn guard(&self) -> *mut Sleeper<P> {
        let mut delay = Delay::new::<P>(P::spin_budget().saturating_mul(LONGEST_LOOK_AWAY));
        loop {
            if self.count.load(Relaxed) & GUARD == 0 {
                // ORDER: Acquire is E2.
                let before = self.count.fetch_or(GUARD, Acquire);
                if before & GUARD == 0 {
                    let end = self.last.load(Relaxed);
                    debug_assert_eq!(end.is_null(), before & WAITERS == 0, "I2");
                    return end;
                }
            }
            delay.pause::<P>();
        }
    }

    /// Clears GUARD, with `end` as the last of the list, and otherwise changes the flags that are the guard's; those of an
    /// empty list go.
    fn unguard(&self, end: *mut Sleeper<P>, change: impl Fn(u32) -> u32) {
        self.last.store(end, Relaxed);
        let before = self.count.load(Relaxed) & GUARDED;
        // By an addition, as I2 says what is there: readers that come and go would make an exchange fail for ever.
        // ORDER: Release is E2.
        self.count.fetch_add(unguarded(end, change(before)).wrapping_sub(before), Release);
    }

    /// Clears LOCKED and GUARD, as the writer, with `end` as the last of the list, and adds so many readers. What the count
    /// was.
    fn release(&self, end: *mut Sleeper<P>, readers: u32) -> u32 {
        self.last.store(end, Relaxed);
        let mut seen = self.count.load(Relaxed);
        loop {
            // I1: only readers that came in vain are lost.
            let released = unguarded(end, seen & GUARDED) + readers * READER;
            // ORDER: Release is E1 and E2.
            match self.count.compare_exchange(seen, released, Release, Relaxed) {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        }
    }

    /// Tells the first of the list that ends with `end`, a writer, to try: what its word was, and where that is.
    fn tell_first(end: *mut Sleeper<P>) -> (u32, *const P::Futex) {
        // SAFETY: I2.
        let first = unsafe { next(end) };
        // SAFETY: I5: in the list.
        let word = &unsafe { &*first }.word;
        // I7. ORDER: Relaxed: it is to try, and may fail.
        (word.swap(WAITING, Relaxed), ptr::from_ref(word))
    }

    /// Releases as the writer of a lock that may have sleepers.
    #[cold]
    fn unlock_exclusive_slow(&self) {
        // In one piece for those who fork: a child must not find the guard set, or half of the readers let in.
        P::in_steps(|| self.hand_on(self.guard(), 0));
    }

    /// Releases with LOCKED and the guard set, or leaves a reader in its place.
    fn hand_on(&self, end: *mut Sleeper<P>, reader: u32) {
        if reader != 0 || end.is_null() || Self::begins_with_reader(end) {
            let readers = Self::readers_first(end) + reader;
            return Self::let_in(end, |rest| _ = self.release(rest, readers));
        }
        // I7.
        if self.count.load(Relaxed) & (HANDOFF | WATCHED) == HANDOFF {
            return self.grant_first(end);
        }
        let count = ptr::from_ref(&self.count);
        let (before, address) = Self::tell_first(end);
        // From here on there may be no lock, and no sleeper.
        if self.release(end, 0) & WATCHED == 0 {
            wake::<P>(before, address);
        } else {
            // SAFETY: alive under the guard; a wake that comes late is spurious. I7.
            unsafe { FutexCell::wake(count, 1) };
        }
    }

    /// Lets the readers in that the list which ends with `end` begins with, if it does, and tells the writer that is the
    /// first then. `unguard`, told the last of the list, adds the readers, unless they have been, and clears the guard.
    fn let_in(end: *mut Sleeper<P>, unguard: impl FnOnce(*mut Sleeper<P>)) {
        let (rest, chosen) = Self::choose(end);
        let told = (!rest.is_null()).then(|| Self::tell_first(rest));
        unguard(rest);
        // From here on there may be no lock, and no sleeper but those that are chosen.
        if let Some((before, address)) = told {
            wake::<P>(before, address);
        }
        Self::grant_all(chosen);
    }

    /// Hands the lock, with the guard set, to the first of the list that ends with `end`.
    fn grant_first(&self, end: *mut Sleeper<P>) {
        // SAFETY: I2: a writer.
        let first = unsafe { next(end) };
        // SAFETY: I5: in the list.
        let Sleeper::<P> { word, wish, .. } = unsafe { &*first };
        // SAFETY: I2.
        let said = unsafe { wish.get() };
        // SAFETY: I2.
        unsafe { wish.set(Wish { is_chosen: true, ..said }) };
        // SAFETY: I2: in the list.
        let rest = unsafe { unlink(end, first) };
        self.unguard(rest, |flags| flags & !HANDOFF);
        grant::<P>(word);
    }
}

// SAFETY: I1 excludes writers against everybody; E1 and E3 order the sections.
unsafe impl<P: Platform> RawRwLock<P> for LinuxRwsem<P> {
    fn new() -> Self {
        Self { count: P::Futex::new(0), last: P::Ptr::new(ptr::null_mut()), spinners: Spinners::new() }
    }

    #[inline]
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        self.enter(is_open) || self.read_slow(deadline, false)
    }

    #[inline]
    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        self.enter(|count| is_shared(count) && count & FULL == 0) || self.read_slow(deadline, true)
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.enter(is_open)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        let count = ptr::from_ref(&self.count);
        // ORDER: Release is E1. From here on there may be no lock.
        let before = self.count.fetch_sub(READER, Release);
        if before & (READERS | WATCHED) == READER | WATCHED {
            // SAFETY: a wake that comes late is spurious. I7.
            unsafe { FutexCell::wake(count, 1) };
        }
    }

    #[inline]
    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.count.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok() || self.write_slow(deadline)
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.take(false)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // ORDER: Release is E1. From here on there may be no lock.
        if self.count.compare_exchange(LOCKED, 0, Release, Relaxed).is_err() {
            self.unlock_exclusive_slow();
        }
    }

    unsafe fn downgrade(&self) {
        P::in_steps(|| self.hand_on(self.guard(), 1));
    }

    fn is_locked(&self) -> bool {
        is_held(self.count.load(Relaxed))
    }

    unsafe fn forget_waiters(&self) {
        let seen = self.count.load(Relaxed);
        // I1.
        self.count.store(if seen & LOCKED != 0 { LOCKED } else { seen & READERS }, Relaxed);
        self.last.store(ptr::null_mut(), Relaxed);
        self.spinners.clear();
    }
}
