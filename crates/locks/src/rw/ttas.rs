//! `rw-ttas`: one word, which waiters read, and try to change only when it lets them in.
//!
//! Folklore: the reader-writer spin lock of textbooks and kernels. See John M. Mellor-Crummey and Michael L. Scott,
//! "Scalable reader-writer synchronization for shared-memory multiprocessors", PPoPP 1991, section 2, which counts readers
//! above a writer's bit. Deviations: readers look before they add themselves; a thread that waits for long yields its CPU.
//!
//! Properties: 4 bytes, nothing a waiter, 2^30 readers. Readers pass waiting writers, which starve while readers overlap.
//! Every operation changes the one word. Waiting: spin. Timed acquisition polls.
//!
//! # State
//!
//! | bits | meaning                                          |
//! |------|--------------------------------------------------|
//! | 0–30 | without `WRITER`: how many readers hold the lock |
//! | 31   | `WRITER`: a writer holds the lock                |
//!
//! # Invariants
//!
//! - I1: `WRITER` is set where the word is 0. A thread that adds a reader while it is clear holds the lock; what is added
//!   beside it means nothing, and goes with `WRITER`.
//! - I2: the operation that releases is the last that touches the lock.
//!
//! # Ordering
//!
//! - E1: the release of a writer, or its downgrade (Release) → the acquiring CAS or addition (Acquire): the critical
//!   section.
//! - E2: the release of a reader (Release) → the acquiring CAS of a writer (Acquire), through what other readers add and
//!   take away, RMWs that continue the release sequence: what the reader read.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, ConstPlatform, Deadline, Native, Platform};

use crate::api::RawRwLock;
use crate::competitive::poll_steadily;
use crate::describe::{Citation, Descriptor, Family, Favour, Order, Proof, Timed};
use crate::wait::{WAITING_ON_RWLOCK, Wait};

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "rw-ttas",
    family: Family::Competitive,
    order: Order::None,
    order_note: "readers pass waiting writers",
    bytes: 4,
    timed: Timed::Polls(""),
    proofs: &[Proof { source: file!(), by: &["rw-ttas"] }],
    citation: Citation {
        key: "mellorcrummey91rw",
        text: "Mellor-Crummey, Scott: Scalable reader-writer synchronization for shared-memory multiprocessors. PPoPP 1991",
    },
    summary: "waiters read one word, and try to change it only when it lets them in",
    properties: "The smallest of all. Every reader writes the word, and waits for its cache line.",
    deviations: "Readers look before they add themselves.",
    avoid: "Many readers, more threads than CPUs, and wherever writers must get in.",
    ..Descriptor::rwlock(Favour::Readers, "readers do not look at waiting writers")
};

/// A writer holds the lock.
const WRITER: u32 = 1 << 31;
/// A thread that finds this many readers adds no further one; there is room for those that looked before, one a thread.
const MOST_READERS: u32 = 1 << 30;

/// The lock.
#[repr(transparent)]
pub struct RwTtas<P: Platform> {
    /// See the module's table.
    word: P::U32,
}

const _: () = assert!(size_of::<RwTtas<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform> core::fmt::Debug for RwTtas<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let word = self.word.load(Relaxed);
        let is_writer = word & WRITER != 0;
        let readers = if is_writer { 0 } else { word };
        f.debug_struct("RwTtas").field("readers", &readers).field("writer", &is_writer).finish()
    }
}

impl<P: ConstPlatform> RwTtas<P> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: P::U32_ZERO }
    }
}

impl<P: Platform> RwTtas<P> {
    fn wait(&self, deadline: Option<Deadline>, attempt: impl FnMut() -> bool) -> bool {
        Wait::run::<P, _>(ptr::from_ref(self) as usize | WAITING_ON_RWLOCK, deadline, |wait| {
            poll_steadily::<P>(wait.deadline, attempt)
        })
    }

    /// Waits to read; not where there are the largest number of readers already: those may all be the calling thread's.
    fn read_slow(&self, deadline: Option<Deadline>) -> bool {
        let mut acquired = false;
        let is_over = || {
            acquired = self.try_lock_shared();
            acquired || (MOST_READERS..WRITER).contains(&self.word.load(Relaxed))
        };
        self.wait(deadline, is_over);
        acquired
    }
}

// SAFETY: I1 excludes writers against everybody; E1 and E2 order the critical sections.
unsafe impl<P: Platform> RawRwLock<P> for RwTtas<P> {
    fn new() -> Self {
        Self { word: P::U32::new(0) }
    }

    #[inline]
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        self.try_lock_shared() || self.read_slow(deadline)
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        // ORDER: E1.
        self.word.load(Relaxed) < MOST_READERS && self.word.fetch_add(1, Acquire) & WRITER == 0
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // ORDER: Release is E2.
        self.word.fetch_sub(1, Release);
    }

    #[inline]
    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        self.try_lock_exclusive() || self.wait(deadline, || self.try_lock_exclusive())
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        // ORDER: E1, E2.
        self.word.load(Relaxed) == 0 && self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // ORDER: Release is E1.
        self.word.swap(0, Release);
    }

    unsafe fn downgrade(&self) {
        // ORDER: Release is E1.
        self.word.swap(1, Release);
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    unsafe fn forget_waiters(&self) {
        // Waiters leave no trace in the lock but what goes with the writer (I1).
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_largest_number_of_readers() {
        let lock = RwTtas::<Native>::unlocked();
        lock.word.store(MOST_READERS - 1, Relaxed);
        assert!(lock.lock_shared(None));
        for refused in [lock.lock_shared(None), lock.lock_shared_again(None), lock.try_lock_shared()] {
            assert!(!refused);
        }
        assert_eq!(lock.word.load(Relaxed), MOST_READERS);
        // SAFETY: one of the readers.
        unsafe { lock.unlock_shared() };
        assert!(lock.lock_shared(None));
    }
}
