//! The cells that algorithms are made of, as traits and as the native types.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

use crate::cpu::Deadline;
use crate::{Native, Platform, barrier, observe, sys};

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
    /// As [`AtomicCell::store`], of a word that others change by read-modify-writes meanwhile. Models do it as a swap: loom may
    /// order a plain store before a read-modify-write that has already happened.
    #[inline(always)]
    fn overwrite(&self, value: T, order: Ordering) {
        self.store(value, order);
    }
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

/// Words and fences: what a lock's state is made of.
///
/// # Safety
///
/// Algorithms rely on the atomics following the C++20 memory model, and on [`FutexCell`]'s compare-and-block being atomic
/// against wakes.
pub unsafe trait Cells: Sized {
    /// 32-bit atomic integer.
    type U32: AtomicInt<u32>;

    /// Pointer-sized atomic integer.
    type Usize: AtomicInt<usize>;

    /// Atomic pointer.
    type Ptr<T: 'static>: AtomicCell<*mut T>;

    /// 32-bit atomic integer on which threads can sleep.
    type Futex: FutexCell;

    /// Plain data whose accesses a lock orders.
    type Data<T: Copy + Send + 'static>: DataCell<T>;

    /// A memory fence.
    fn fence(order: Ordering);

    /// The frequent side of a store-load race whose rare side calls [`Cells::heavy_barrier`]: between a store and
    /// a load of the calling thread. One of the two threads sees the other's store.
    #[inline(always)]
    #[track_caller]
    fn light_barrier() {
        Self::fence(Ordering::SeqCst);
    }

    /// The rare side: a full barrier in every thread of the process. May cost microseconds.
    #[inline(always)]
    #[track_caller]
    fn heavy_barrier() {
        Self::fence(Ordering::SeqCst);
    }
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

/// A cell's initial value can be built in a `const` context, so that a lock can be a `static`.
///
/// Only native platforms have this: the cells of model checkers register themselves at run time.
pub trait ConstPlatform: Platform {
    /// A `U32` holding zero.
    const U32_ZERO: Self::U32;
    /// A `Usize` holding zero.
    const USIZE_ZERO: Self::Usize;
    /// A `Futex` holding zero.
    const FUTEX_ZERO: Self::Futex;
}

/// Makes the type `$futex`, whose one field is a `$word`, an integer cell that passes every access on to that field. What is
/// left to write is how threads sleep on it.
#[macro_export]
macro_rules! futex_of_word {
    ($futex:ty, $word:ty) => {
        impl $crate::AtomicCell<u32> for $futex {
            #[inline(always)]
            fn new(value: u32) -> Self {
                Self(<$word>::new(value))
            }
            #[inline(always)]
            fn load(&self, order: core::sync::atomic::Ordering) -> u32 {
                self.0.load(order)
            }
            #[inline(always)]
            fn store(&self, value: u32, order: core::sync::atomic::Ordering) {
                self.0.store(value, order);
            }
            #[inline(always)]
            fn overwrite(&self, value: u32, order: core::sync::atomic::Ordering) {
                self.0.overwrite(value, order);
            }
            #[inline(always)]
            fn swap(&self, value: u32, order: core::sync::atomic::Ordering) -> u32 {
                self.0.swap(value, order)
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: u32,
                new: u32,
                success: core::sync::atomic::Ordering,
                failure: core::sync::atomic::Ordering,
            ) -> Result<u32, u32> {
                self.0.compare_exchange(current, new, success, failure)
            }
        }

        impl $crate::AtomicInt<u32> for $futex {
            #[inline(always)]
            fn fetch_add(&self, value: u32, order: core::sync::atomic::Ordering) -> u32 {
                self.0.fetch_add(value, order)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: u32, order: core::sync::atomic::Ordering) -> u32 {
                self.0.fetch_sub(value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, value: u32, order: core::sync::atomic::Ordering) -> u32 {
                self.0.fetch_or(value, order)
            }
            #[inline(always)]
            fn fetch_and(&self, value: u32, order: core::sync::atomic::Ordering) -> u32 {
                self.0.fetch_and(value, order)
            }
        }
    };
}

/// A futex word of this process.
#[repr(transparent)]
#[derive(Debug)]
pub struct NativeFutex(AtomicU32);

futex_of_word!(NativeFutex, AtomicU32);

impl FutexCell for NativeFutex {
    fn wait(&self, expected: u32, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        match observe::sleeping(|| sys::futex_wait(self.0.as_ptr(), expected, deadline)) {
            sys::ETIMEDOUT => Err(TimedOut),
            _ => Ok(()),
        }
    }

    unsafe fn wake(this: *const Self, n: u32) {
        sys::futex_wake(this.cast(), n);
    }
}

/// Plain data in an `UnsafeCell`.
#[repr(transparent)]
#[derive(Debug)]
pub struct NativeData<T>(UnsafeCell<T>);

// SAFETY: `get` and `set` are unsafe, and their contracts exclude data races.
unsafe impl<T: Send> Sync for NativeData<T> {}

impl<T: Copy + Send> DataCell<T> for NativeData<T> {
    #[inline(always)]
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
    #[inline(always)]
    unsafe fn get(&self) -> T {
        // SAFETY: no concurrent write, by the caller's contract.
        unsafe { *self.0.get() }
    }
    #[inline(always)]
    unsafe fn set(&self, value: T) {
        // SAFETY: no concurrent access, by the caller's contract.
        unsafe { *self.0.get() = value };
    }
}

impl ConstPlatform for Native {
    const U32_ZERO: AtomicU32 = AtomicU32::new(0);
    const USIZE_ZERO: AtomicUsize = AtomicUsize::new(0);
    const FUTEX_ZERO: NativeFutex = NativeFutex(AtomicU32::new(0));
}

// SAFETY: the cells are the hardware's atomics, and the futex is Linux's.
unsafe impl Cells for Native {
    type U32 = AtomicU32;

    type Usize = AtomicUsize;
    type Ptr<T: 'static> = AtomicPtr<T>;

    type Futex = NativeFutex;
    type Data<T: Copy + Send + 'static> = NativeData<T>;

    #[inline(always)]
    fn fence(order: Ordering) {
        fence(order);
    }

    #[inline(always)]
    fn light_barrier() {
        barrier::light();
    }

    fn heavy_barrier() {
        barrier::heavy();
    }
}
