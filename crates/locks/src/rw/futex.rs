//! The futex reader-writer lock: one word of state, waiters asleep in the kernel, laid over a `pthread_rwlock_t`.
//!
//! An algorithm of our own, after Rust's standard library (`sys/sync/rwlock/futex.rs`: one state word, and a second
//! word for writers to sleep on) with glibc's contract (`pthread_rwlock_common.c`: which side passes the other).
//! Departures from the former: the preference of the caller's choosing, deadlines, an exact count of waiting writers,
//! readers that come by an addition, as in glibc, and go by one, and a release that touches the lock for the last time when
//! it frees it, so that the next holder may free its memory.
//!
//! Properties: 12 bytes, no memory per waiter, any number of waiters, 2^25 readers. Barging: a lock that was freed
//! goes to the thread that comes first, a sleeper or not. One atomic operation each to lock and to unlock when nobody waits.
//! Waiting: a short spin, then sleep. Avoid it where many cores only read: every reader writes the state word.
//!
//! # Preference
//!
//! - [`Preference::Readers`], as `PTHREAD_RWLOCK_PREFER_READER_NP` (glibc's default): readers pass waiting writers, so a
//!   reader may lock again whatever happens. A writer waits until no reader is left, which may be for ever.
//! - [`Preference::Writers`], as `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`: while a writer waits, new readers wait
//!   behind it, and a reader that locks again deadlocks with it. Readers wait until no writer is left.
//!
//! All users of one lock must name the same preference, after the first wait; but an attempt to read may name readers.
//!
//! # State
//!
//! | bits  | name              | meaning                                                                       |
//! |-------|-------------------|-------------------------------------------------------------------------------|
//! | 0–25  | `READERS`         | without `WRITER`: how many readers hold the lock                              |
//! | 26    | `WATCHED`         | a writer sleeps on the state word behind readers, is about to, or wakes up    |
//! | 27    | `LATE`            | writers sleep on the state word until `WAKING` ends                           |
//! | 28    | `WAKING`          | with `WRITER`: the holder is releasing, and about to change `turn`            |
//! | 29    | `READERS_WAITING` | readers sleep on the state word, or are about to                              |
//! | 30    | `WRITERS_WAITING` | writers sleep on `turn`, or are about to                                      |
//! | 31    | `WRITER`          | a writer holds the lock (or a reader, the last, that is about to wake a writer) |
//!
//! `turn` changes whenever a writer that sleeps on it is woken. `writers` counts the writers that are between their
//! registration and their acquisition or surrender.
//!
//! # Invariants
//!
//! - I1: a thread that adds a reader while `WRITER` is clear, or sets `WRITER` where there is no reader, holds the lock.
//!   Beside `WRITER` the readers' count means nothing: a reader that finds it leaves what it has added. Only the thread that set
//!   `WRITER` clears it, and the count with it.
//! - I2: a reader sleeps only while the state is as it found it, with `READERS_WAITING`; a thread that clears that bit
//!   wakes all sleepers of the state word.
//! - I3: while writers sleep on `turn`, `WRITERS_WAITING` is set, or one writer is awake (it will set the bit, watch, take the
//!   lock, or pass its wake on) or watches (I7), or a thread is about to wake one. Where readers are preferred, nobody
//!   turns the bit on while they hold the lock unless `WATCHED` is there.
//! - I4: nobody goes to sleep on a `turn` that changed while `WAKING` was set before that ends: the wake that follows
//!   would miss it. A writer that would do so sleeps on the state word instead (`LATE`).
//! - I5: releasing threads do not touch the lock after the operation that frees it, except by wakes.
//! - I6: with [`Preference::Readers`], a release that finds `READERS_WAITING` leaves the waking of writers to those
//!   readers: the last of them does it, or wakes a watcher. Hence a reader that gives up does not leave the bit behind.
//! - I7: `WATCHED` is set while readers hold the lock, by a writer, if readers are preferred, and goes when the last of them
//!   leaves, or else when a writer acquires the lock. The writer that set it sleeps only while the state is as it found it;
//!   the last reader wakes all sleepers of the state word, by address, as it has left already. A watcher that gives up
//!   clears the bit, and wakes the writer that set it, too.
//! - I8: a reader that leaves by a subtraction has looked at a state without `WRITERS_WAITING` while it held the lock. So if
//!   it is the last and finds the bit then, a writer watches, or has given up watching and is awake (I3). A reader that sees
//!   the bit, or where writers are preferred, compares and swaps: as the last it keeps the lock until it has told a writer,
//!   unless one watches.
//!
//! # Ordering
//!
//! - E1: the release of a writer, its downgrade, or its end of `WAKING` (Release) → the acquiring CAS or
//!   addition (Acquire): the critical section.
//! - E2: the release of a reader (Release) → the acquiring CAS of a writer (Acquire), through what other readers add and
//!   take away, RMWs that continue the release sequence: what the reader read.
//! - E3: the CAS that sets `WRITERS_WAITING` (Release) → the CAS that sets `WAKING`, the acquiring CAS of a registered
//!   writer, and the clearing of this bit or of `WATCHED` by one that gives up (Acquire): the registration in `writers`. It also
//!   orders the load of `turn` that comes before the bit ahead of the change of `turn` that comes after it, so
//!   that the change ends the sleep.

mod slow;

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, ConstPlatform, Deadline, FutexCell, Native, Platform};

use super::{Preference, ReadRefused};
use crate::describe::{Citation, Descriptor, Family, Favour, Order, Proof, Timed};

/// What is known of it, with readers preferred, as glibc does by default.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "rw-futex",
    family: Family::Blocking,
    order: Order::None,
    order_note: "readers pass waiting writers, or wait behind them as a program's attribute says",
    bytes: 12,
    timed: Timed::Sleeps,
    proofs: &[
        Proof { source: file!(), by: &["rw-futex", "rw-futex, writers preferred"] },
        Proof { source: "rw/futex/slow.rs", by: &["rw-futex", "rw-futex, writers preferred"] },
    ],
    citation: Citation {
        key: "rustrwlock22",
        text: "The Rust project: std::sys::sync::rwlock::futex, 2022; with the preferences of glibc's pthread_rwlock",
    },
    summary: "one word of state; waiters spin a little, then sleep in the kernel; glibc's two preferences",
    properties: "One atomic operation each to lock and unlock without waiters. Serves the preference that a \
                 pthread_rwlock_t asks for, by default readers.",
    deviations: "Deadlines, a count of waiting writers, and a release that never touches a freed lock.",
    avoid: "Many cores that mostly read: every reader writes the state word.",
    ..Descriptor::rwlock(
        Favour::Readers,
        "readers pass waiting writers; where writers are preferred, a reader that reads again passes them, too",
    )
};

/// A writer holds the lock.
const WRITER: u32 = 1 << 31;
/// Writers sleep on `turn`.
const WRITERS_WAITING: u32 = 1 << 30;
/// Readers sleep on the state word.
const READERS_WAITING: u32 = 1 << 29;
/// The holder is about to change `turn`.
const WAKING: u32 = 1 << 28;
/// Writers sleep on the state word.
const LATE: u32 = 1 << 27;
/// A writer sleeps on the state word behind readers.
const WATCHED: u32 = 1 << 26;
/// One reader.
const READER: u32 = 1;
/// The number of readers.
const READERS: u32 = WATCHED - 1;
/// A thread that finds this many readers adds no further one; there is room for those that looked before, one a thread.
const MOST_READERS: u32 = 1 << 25;

/// The lock, with the preference as an argument. All-zero memory is an unlocked one.
#[repr(C)]
pub struct RwState<P: Platform> {
    /// See the module's table. Readers, and [`LATE`] and [`WATCHED`] writers, sleep here.
    state: P::Futex,
    /// Changed by the thread that wakes a writer that sleeps here.
    turn: P::Futex,
    /// Registered writers. Changed by writers that wait, read by them and by releases with waiting writers.
    writers: P::U32,
}

const _: () = assert!(size_of::<RwState<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform> core::fmt::Debug for RwState<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let state = self.state.load(Relaxed);
        let is_writer = state & WRITER != 0;
        f.debug_struct("RwState")
            .field("readers", &if is_writer { 0 } else { state & READERS })
            .field("writer", &is_writer)
            .field("waiting_writers", &self.writers.load(Relaxed))
            .finish_non_exhaustive()
    }
}

/// Whether nobody holds a lock in this state.
fn is_free(state: u32) -> bool {
    state & (WRITER | READERS) == 0
}

/// Whether a new reader may hold a lock in this state.
fn admits_reader(state: u32, preference: Preference) -> bool {
    let barred_by = match preference {
        Preference::Readers => WRITER,
        Preference::Writers => WRITER | WRITERS_WAITING,
    };
    state & barred_by == 0
}

impl<P: ConstPlatform> RwState<P> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { state: P::FUTEX_ZERO, turn: P::FUTEX_ZERO, writers: P::U32_ZERO }
    }
}

impl<P: Platform> Default for RwState<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> RwState<P> {
    /// An unlocked lock.
    #[must_use]
    pub fn new() -> Self {
        Self { state: P::Futex::new(0), turn: P::Futex::new(0), writers: P::U32::new(0) }
    }

    /// Acquires for reading.
    ///
    /// # Errors
    ///
    /// [`ReadRefused::Busy`]: the deadline passed. [`ReadRefused::TooManyReaders`].
    #[inline(always)]
    pub fn lock_shared(&self, preference: Preference, deadline: Option<Deadline>) -> Result<(), ReadRefused> {
        // A look first: what is added in vain keeps the writer from its fast release.
        let seen = self.state.load(Relaxed);
        if seen < MOST_READERS && self.add_reader().is_ok() {
            return Ok(());
        }
        self.lock_shared_slow(preference, deadline)
    }

    /// Acquires for reading if that needs no waiting.
    ///
    /// # Errors
    ///
    /// Why it would have to wait.
    #[inline]
    pub fn try_lock_shared(&self, preference: Preference) -> Result<(), ReadRefused> {
        self.try_shared_from(self.state.load(Relaxed), preference).map_err(|refused| refused.0)
    }

    /// Acquires for writing. Returns whether it did, which without a deadline is certain.
    #[inline(always)]
    pub fn lock_exclusive(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        // ORDER: E1, E2.
        self.state.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok()
            || self.lock_exclusive_slow(preference, deadline)
    }

    /// Acquires for writing if nobody holds the lock.
    #[inline]
    pub fn try_lock_exclusive(&self) -> bool {
        self.try_exclusive_from(self.state.load(Relaxed)).is_ok()
    }

    /// Releases one reader.
    ///
    /// # Safety
    ///
    /// The caller is a reader of this lock.
    #[inline(always)]
    pub unsafe fn unlock_shared(&self, preference: Preference) {
        self.unlock_shared_from(self.state.load(Relaxed), preference);
    }

    /// Releases the writer.
    ///
    /// # Safety
    ///
    /// The caller is the writer of this lock.
    #[inline(always)]
    pub unsafe fn unlock_exclusive(&self, preference: Preference) {
        // ORDER: Release is E1.
        if let Err(seen) = self.state.compare_exchange(WRITER, 0, Release, Relaxed) {
            self.unlock_exclusive_slow(seen, preference);
        }
    }

    /// Releases what the caller holds, for reading or writing.
    ///
    /// # Safety
    ///
    /// The caller is a reader or the writer of this lock.
    #[inline(always)]
    pub unsafe fn unlock(&self, preference: Preference) {
        // A reader's lock cannot become a writer's before the reader unlocks (I1), nor the other way round.
        let seen = self.state.load(Relaxed);
        if seen & WRITER != 0 {
            // SAFETY: not a reader, hence the writer.
            unsafe { self.unlock_exclusive(preference) };
        } else {
            self.unlock_shared_from(seen, preference);
        }
    }

    /// Makes the writer a reader.
    ///
    /// # Safety
    ///
    /// The caller is the writer of this lock.
    pub unsafe fn downgrade(&self, preference: Preference) {
        let mut seen = self.state.load(Relaxed);
        loop {
            // Readers stay behind waiting writers that are preferred: the last reader's release wakes them (I3).
            let barred = preference == Preference::Writers && seen & WRITERS_WAITING != 0;
            let kept = if barred { WRITERS_WAITING | READERS_WAITING } else { WRITERS_WAITING };
            // ORDER: Release is E1.
            match self.state.compare_exchange(seen, seen & kept | READER, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        if seen & READERS_WAITING != 0 && !(preference == Preference::Writers && seen & WRITERS_WAITING != 0)
        {
            // I2. SAFETY: the caller reads the lock, so the cell is alive.
            unsafe { FutexCell::wake(&raw const self.state, u32::MAX) };
        }
    }

    /// Whether a reader or a writer holds the lock.
    #[inline]
    #[must_use]
    pub fn is_locked(&self) -> bool {
        !is_free(self.state.load(Relaxed))
    }

    /// Whether a writer holds the lock.
    #[inline(always)]
    #[must_use]
    pub fn is_write_locked(&self) -> bool {
        self.state.load(Relaxed) & WRITER != 0
    }

    /// In a child after `fork`: drops all waiters, who do not exist here, and ends a release that
    /// another thread had begun. Holders stay: the forking thread may be one, and readers have no names.
    ///
    /// # Safety
    ///
    /// No other thread exists, or none uses this lock.
    pub unsafe fn forget_waiters(&self) {
        let state = self.state.load(Relaxed);
        let held = match state & (WRITER | WAKING) {
            0 => state & READERS,
            WRITER => WRITER,
            _ => 0,
        };
        self.state.store(held, Relaxed);
        self.writers.store(0, Relaxed);
    }

    /// Adds a reader, if the state that was seen admits one; otherwise says why not, and the state that does not.
    #[inline]
    fn try_shared_from(&self, seen: u32, preference: Preference) -> Result<(), (ReadRefused, u32)> {
        if !admits_reader(seen, preference) {
            return Err((ReadRefused::Busy, seen));
        }
        if seen & READERS >= MOST_READERS {
            return Err((ReadRefused::TooManyReaders, seen));
        }
        self.add_reader().map_err(|now| (ReadRefused::Busy, now))
    }

    /// Adds a reader, which has come in if there is no writer, even where it ought to wait behind one that has begun to
    /// since its look; otherwise the state that shows the writer. By an addition: of many readers that compare and swap at
    /// once, one succeeds.
    #[inline(always)]
    fn add_reader(&self) -> Result<(), u32> {
        // ORDER: E1.
        let before = self.state.fetch_add(READER, Acquire);
        if before & WRITER == 0 { Ok(()) } else { Err(before + READER) }
    }

    /// Becomes the writer if nobody holds the lock, leaving the waiting bits as they are; otherwise
    /// returns the state that shows the holder.
    #[inline]
    fn try_exclusive_from(&self, mut seen: u32) -> Result<(), u32> {
        while is_free(seen) {
            // ORDER: E1, E2.
            match self.state.compare_exchange(seen, seen & !WATCHED | WRITER, Acquire, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }

    /// Releases one reader, which last saw this state.
    #[inline(always)]
    fn unlock_shared_from(&self, seen: u32, preference: Preference) {
        // I8; and the last before a watcher spares those that come while that wakes up.
        let is_watched_last = seen & (READERS | WATCHED) == READER | WATCHED;
        if preference == Preference::Writers || seen & WRITERS_WAITING != 0 || is_watched_last {
            return self.unlock_shared_slow(seen, preference);
        }
        let state = &raw const self.state;
        // ORDER: Release is E2. From here on there may be no lock.
        let before = self.state.fetch_sub(READER, Release);
        if before & (READERS | WATCHED) == READER | WATCHED {
            // I7. SAFETY: alive before the subtraction; a wake that comes late is spurious.
            unsafe { FutexCell::wake(state, u32::MAX) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_largest_number_of_readers() {
        let lock = RwState::<Native>::new();
        lock.state.store(MOST_READERS - 1, Relaxed);
        for preference in [Preference::Readers, Preference::Writers] {
            assert_eq!(lock.lock_shared(preference, None), Ok(()));
            assert_eq!(lock.try_lock_shared(preference), Err(ReadRefused::TooManyReaders));
            assert_eq!(lock.lock_shared(preference, None), Err(ReadRefused::TooManyReaders));
            assert!(!lock.try_lock_exclusive());
            // SAFETY: the reader above.
            unsafe { lock.unlock_shared(preference) };
            assert_eq!(lock.state.load(Relaxed), MOST_READERS - 1);
        }
    }

    #[test]
    fn what_readers_add_in_vain_goes_with_the_writer() {
        for preference in [Preference::Readers, Preference::Writers] {
            let lock = RwState::<Native>::new();
            for end in [RwState::unlock_exclusive, RwState::downgrade] {
                assert!(lock.try_lock_exclusive());
                assert_eq!(lock.add_reader(), Err(WRITER | READER));
                assert_eq!(lock.try_lock_shared(preference), Err(ReadRefused::Busy));
                assert!(!lock.try_lock_exclusive() && lock.is_write_locked());
                // SAFETY: the writer above.
                unsafe { end(&lock, preference) };
                let readers = lock.state.load(Relaxed);
                if readers != 0 {
                    assert_eq!(readers, READER);
                    // SAFETY: downgraded above.
                    unsafe { lock.unlock_shared(preference) };
                }
            }
            assert!(!lock.is_locked());
        }
    }

    #[test]
    fn a_fork_in_the_middle_of_a_release_leaves_the_lock_free() {
        let lock = RwState::<Native>::new();
        lock.state.store(WRITER | WAKING | LATE | WRITERS_WAITING | READERS_WAITING, Relaxed);
        lock.writers.store(2, Relaxed);
        // SAFETY: no other thread has the lock.
        unsafe { lock.forget_waiters() };
        assert!(!lock.is_locked());
        for (state, left) in [(3 | WRITERS_WAITING, 3), (WRITER | READERS_WAITING | 3, WRITER)] {
            lock.state.store(state, Relaxed);
            // SAFETY: as above.
            unsafe { lock.forget_waiters() };
            assert_eq!(lock.state.load(Relaxed), left);
        }
    }
}
