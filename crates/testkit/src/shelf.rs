//! A reader-writer lock and what it guards, for tests on the real machine.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use lockwork_locks::wait::WAITING_ON_RWLOCK;
use lockwork_platform::{Native, Waiters};

use crate::erased::AnyRwLock;

/// A lock and what it protects: two counters that only writers change, both at once.
pub struct Shelf {
    /// The lock.
    pub lock: AnyRwLock<Native>,
    pair: UnsafeCell<(u64, u64)>,
    readers: AtomicUsize,
    writers: AtomicUsize,
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf")
            .field("readers", &self.readers)
            .field("writers", &self.writers)
            .finish_non_exhaustive()
    }
}

// SAFETY: the pair is written by the writer of the lock and read by its readers only.
unsafe impl Sync for Shelf {}

impl Shelf {
    /// With this lock, which is free.
    #[must_use]
    pub fn new(lock: AnyRwLock<Native>) -> Self {
        Self {
            lock,
            pair: UnsafeCell::new((0, 0)),
            readers: AtomicUsize::new(0),
            writers: AtomicUsize::new(0),
        }
    }

    /// As a reader: looks twice and leaves.
    pub fn read(&self) {
        self.readers.fetch_add(1, Relaxed);
        assert_eq!(self.writers.load(Relaxed), 0, "a reader beside a writer");
        // SAFETY: a reader may read.
        let (left, right) = unsafe { self.pair.get().read_volatile() };
        assert_eq!(left, right, "a reader saw half a write");
        self.readers.fetch_sub(1, Relaxed);
        // SAFETY: the caller is a reader.
        unsafe { self.lock.unlock_shared() };
    }

    /// As the writer: changes both counters and leaves.
    pub fn write(&self) {
        assert_eq!(self.writers.fetch_add(1, Relaxed), 0, "two writers");
        assert_eq!(self.readers.load(Relaxed), 0, "a writer beside a reader");
        // SAFETY: the writer may write.
        let pair = unsafe { &mut *self.pair.get() };
        pair.0 += 1;
        std::hint::spin_loop();
        pair.1 += 1;
        self.writers.fetch_sub(1, Relaxed);
        // SAFETY: the caller is the writer.
        unsafe { self.lock.unlock_exclusive() };
    }

    /// Acquires, and is a reader.
    pub fn lock_and_read(&self) {
        assert!(self.lock.lock_shared(None));
        self.read();
    }

    /// Acquires, and is the writer.
    pub fn lock_and_write(&self) {
        assert!(self.lock.lock_exclusive(None));
        self.write();
    }

    /// Waits until `n` threads say that they wait for the lock.
    pub fn until_waiting(&self, n: usize) {
        while Native::waiters_of(self.waiting_on()) != n {
            thread::yield_now();
        }
    }

    /// What a thread says that it waits for, when it waits for this lock.
    #[must_use]
    pub fn waiting_on(&self) -> usize {
        self.lock.address() | WAITING_ON_RWLOCK
    }

    /// The number of writes, which must be all over.
    pub fn writes(&self) -> u64 {
        assert!(self.lock.try_lock_exclusive(), "somebody left the lock locked");
        // SAFETY: we are the writer.
        let (writes, _) = unsafe { *self.pair.get() };
        // SAFETY: as above.
        unsafe { self.lock.unlock_exclusive() };
        writes
    }
}
