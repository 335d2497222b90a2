//! The cells of a modelled machine: a checker's own words, with lifetimes checked and orderings
//! weakened on request.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::Ordering::{self, Relaxed};

use lockwork_platform::{AtomicCell, AtomicInt, Cpu, DataCell, Deadline, FutexCell, TimedOut};

use super::Model;
use super::engine::{Engine, RawCell, RawData, RawInt};
use super::sites::{Op, ordering};

/// An atomic word in the memory of a modelled machine.
#[repr(transparent)]
#[derive(Debug)]
pub struct Word<E, A> {
    raw: A,
    engine: PhantomData<E>,
}

impl<E: Engine, A> Word<E, A> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// What comes before every operation that only reads. Compiled once, not inlined into every lock.
    #[inline(never)]
    fn before_read(&self) {
        E::switch();
        E::machine(|machine| machine.touch(self.address()));
    }

    /// What comes before every operation that writes.
    #[inline(never)]
    fn before_write(&self) {
        E::switch();
        E::machine(|machine| {
            machine.touch(self.address());
            machine.progress();
        });
    }
}

// SAFETY: a checker's words are shared between its threads.
unsafe impl<E: Engine, A: Send> Send for Word<E, A> {}
// SAFETY: as above.
unsafe impl<E: Engine, A: Sync> Sync for Word<E, A> {}

impl<E: Engine, T: Copy, A: RawCell<T>> AtomicCell<T> for Word<E, A> {
    fn new(value: T) -> Self {
        Self { raw: A::new(value), engine: PhantomData }
    }

    #[track_caller]
    fn load(&self, order: Ordering) -> T {
        let order = ordering(Location::caller(), Op::Load, order);
        self.before_read();
        self.raw.load(order)
    }

    #[track_caller]
    fn store(&self, value: T, order: Ordering) {
        let order = ordering(Location::caller(), Op::Store, order);
        self.before_write();
        self.raw.store(value, order);
    }

    /// As a read-modify-write: loom may take a plain store for older than one that has come before it.
    #[track_caller]
    fn overwrite(&self, value: T, order: Ordering) {
        let order = ordering(Location::caller(), Op::Store, order);
        self.before_write();
        self.raw.swap(value, order);
    }

    #[track_caller]
    fn swap(&self, value: T, order: Ordering) -> T {
        let order = ordering(Location::caller(), Op::Rmw, order);
        self.before_write();
        self.raw.swap(value, order)
    }

    #[track_caller]
    fn compare_exchange(&self, current: T, new: T, success: Ordering, failure: Ordering) -> Result<T, T> {
        let success = ordering(Location::caller(), Op::Rmw, success);
        let failure = ordering(Location::caller(), Op::Failure, failure);
        self.before_read();
        let result = self.raw.compare_exchange(current, new, success, failure);
        if result.is_ok() {
            E::machine(super::machine::Machine::progress);
        }
        result
    }
}

/// Whether the running thread unwinds: it has failed the execution, or is not in the child of a modelled `fork`. What it counts
/// on its way out no longer matters, and must not let another thread run, whose panic would end the process.
fn has_failed() -> bool {
    std::thread::panicking()
}

impl<E: Engine, T: Copy, A: RawInt<T>> AtomicInt<T> for Word<E, A> {
    #[track_caller]
    fn fetch_add(&self, value: T, order: Ordering) -> T {
        let order = ordering(Location::caller(), Op::Rmw, order);
        if has_failed() {
            return value;
        }
        self.before_write();
        self.raw.fetch_add(value, order)
    }

    #[track_caller]
    fn fetch_sub(&self, value: T, order: Ordering) -> T {
        let order = ordering(Location::caller(), Op::Rmw, order);
        if has_failed() {
            return value;
        }
        self.before_write();
        self.raw.fetch_sub(value, order)
    }

    #[track_caller]
    fn fetch_or(&self, value: T, order: Ordering) -> T {
        let order = ordering(Location::caller(), Op::Rmw, order);
        self.before_write();
        self.raw.fetch_or(value, order)
    }

    #[track_caller]
    fn fetch_and(&self, value: T, order: Ordering) -> T {
        let order = ordering(Location::caller(), Op::Rmw, order);
        self.before_write();
        self.raw.fetch_and(value, order)
    }
}

impl<E: Engine> FutexCell for Word<E, E::U32> {
    /// Orders nothing: a waker does not happen before the sleeper it wakes.
    ///
    /// loom may take a plain store for older than a read-modify-write that it does not know of, so a word that is
    /// released by a plain store can raise a false alarm here ("stuck").
    #[track_caller]
    fn wait(&self, expected: u32, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        let address = self.address();
        let words = E::machine(|machine| {
            machine.touch(address);
            machine.words()
        });
        if deadline.is_some() {
            E::switch();
            words.clock().load(Relaxed);
        }
        let bucket = E::machine(|machine| machine.bucket_of(address));
        E::switch();
        words.bucket(bucket).fetch_add(1, Relaxed);
        E::switch();
        // A failing exchange reads the newest value, as the kernel does. No thread runs between it and `fall_asleep`.
        let seen = match self.raw.compare_exchange(!expected, !expected, Relaxed, Relaxed) {
            Ok(seen) | Err(seen) => seen,
        };
        if seen != expected {
            return Ok(());
        }
        if !E::machine(|machine| machine.fall_asleep(address, deadline.map(|deadline| deadline.ns))) {
            return Err(TimedOut);
        }
        loop {
            match E::machine(super::machine::Machine::woken) {
                Some(true) => return Ok(()),
                Some(false) => return Err(TimedOut),
                None if deadline.is_some() => Model::<E>::pause(),
                None => E::sleep(),
            }
        }
    }

    #[track_caller]
    unsafe fn wake(this: *const Self, n: u32) {
        let address = this as usize;
        let (words, bucket) = E::machine(|machine| (machine.words(), machine.bucket_of(address)));
        E::switch();
        words.bucket(bucket).fetch_add(1, Relaxed);
        for thread in E::machine(|machine| machine.wake(address, n)) {
            E::rouse(thread);
        }
    }
}

/// Plain data in the memory of a modelled machine.
#[derive(Debug)]
pub struct Plain<E, D> {
    raw: D,
    engine: PhantomData<E>,
}

// SAFETY: the checker reports concurrent accesses.
unsafe impl<E: Engine, D: Send> Send for Plain<E, D> {}
// SAFETY: as above.
unsafe impl<E: Engine, D: Sync> Sync for Plain<E, D> {}

impl<E: Engine, T: Copy, D: RawData<T>> DataCell<T> for Plain<E, D> {
    fn new(value: T) -> Self {
        Self { raw: D::new(value), engine: PhantomData }
    }

    #[track_caller]
    unsafe fn get(&self) -> T {
        E::machine(|machine| machine.touch(std::ptr::from_ref(self) as usize));
        self.raw.get()
    }

    #[track_caller]
    unsafe fn set(&self, value: T) {
        E::machine(|machine| machine.touch(std::ptr::from_ref(self) as usize));
        self.raw.set(value);
    }
}
