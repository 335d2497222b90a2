//! The cells that algorithms are made of, as traits and as the native types.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::clock::Deadline;

/// A wait ended because its deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

/// One atomic word.
pub trait AtomicCell<T: Copy>: Send + Sync {
    /// A cell holding `value`.
    fn new(value: T) -> Self;
    /// Reads the value.
    fn load(&self, order: Ordering) -> T;
    /// Writes the value.
    fn store(&self, value: T, order: Ordering);
    /// Writes `value`, returns what was there.
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Writes `new` if `current` is there.
    ///
    /// # Errors
    ///
    /// What was there instead of `current`.
    fn compare_exchange(&self, current: T, new: T, success: Ordering, failure: Ordering) -> Result<T, T>;
}

/// An atomic integer. Arithmetic wraps.
pub trait AtomicInt<T: Copy>: AtomicCell<T> {
    /// Adds, returns what was there.
    fn fetch_add(&self, value: T, order: Ordering) -> T;
    /// Subtracts, returns what was there.
    fn fetch_sub(&self, value: T, order: Ordering) -> T;
    /// Sets bits, returns what was there.
    fn fetch_or(&self, value: T, order: Ordering) -> T;
    /// Keeps only the bits in `value`, returns what was there.
    fn fetch_and(&self, value: T, order: Ordering) -> T;
}

/// A 32-bit atomic integer on which threads can sleep (Linux's private futex).
pub trait FutexCell: AtomicInt<u32> {
    /// Sleeps while the cell holds `expected`, until a wake or the deadline. May return early for
    /// no reason: callers re-read the cell. Not a synchronising operation by itself.
    ///
    /// # Errors
    ///
    /// [`TimedOut`] if the deadline passed.
    fn wait(&self, expected: u32, deadline: Option<Deadline>) -> Result<(), TimedOut>;

    /// Wakes at most `n` sleepers.
    ///
    /// # Safety
    ///
    /// `this` points to a cell that is alive, or that was: waking is often the last thing a releasing thread does,
    /// when the next owner may already have freed the lock. Implementations do not access the memory,
    /// or (model checkers) keep cells alive for the whole execution. A wake that hits a stranger's cell is spurious and
    /// every sleeper re-checks.
    unsafe fn wake(this: *const Self, n: u32);
}

/// Plain data whose accesses are ordered by a lock or by a hand-off.
pub trait DataCell<T: Copy>: Send + Sync {
    /// A cell holding `value`.
    fn new(value: T) -> Self;
    /// Reads the value.
    ///
    /// # Safety
    ///
    /// No write is concurrent with this read.
    unsafe fn get(&self) -> T;
    /// Writes the value.
    ///
    /// # Safety
    ///
    /// No other access is concurrent with this write.
    unsafe fn set(&self, value: T);
}

macro_rules! native_cell {
    ($cell:ty, $value:ty $(, $generic:ident)?) => {
        impl$(<$generic: 'static>)? AtomicCell<$value> for $cell {
            #[inline(always)]
            fn new(value: $value) -> Self {
                <$cell>::new(value)
            }
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                self.load(order)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }
            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.swap(value, order)
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }
        }
    };
}

macro_rules! native_int {
    ($cell:ty, $value:ty) => {
        native_cell!($cell, $value);
        impl AtomicInt<$value> for $cell {
            #[inline(always)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.fetch_add(value, order)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.fetch_sub(value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.fetch_or(value, order)
            }
            #[inline(always)]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.fetch_and(value, order)
            }
        }
    };
}

native_int!(AtomicU32, u32);
native_int!(AtomicUsize, usize);
native_cell!(AtomicPtr<T>, *mut T, T);
