//! Time-slice extensions: a thread that holds a lock asks the kernel not to take its CPU away just now.
//!
//! Linux 7.0 reads a byte of the thread's own memory, in the area for restartable sequences that the C library
//! registers, when it is about to take the CPU away: if the byte says so, the thread may go on for some microseconds
//! more. It then finds a second byte set, and gives the CPU up by itself when it has released what it holds. Source:
//! the kernel's `Documentation/userspace-api/rseq.rst` and `include/uapi/linux/rseq.h`.
//!
//! | byte of `struct rseq` | written by | is |
//! |---|---|---|
//! | 28 | both | *request*: the thread wants to stay; cleared when that is granted, and whenever the thread is switched |
//! | 29 | the kernel | *granted*: the thread runs on borrowed time |
//!
//! Each thread has to be let take part (`prctl`), which is tried once, when it first holds a lock. Where the kernel has
//! no such thing, no area is registered, or a filter of system calls might object, holders ask for nothing.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicU8, Ordering, compiler_fence};

use crate::tls::ThreadBlock;
use crate::{arch, sys};

/// As much of `struct rseq` as matters here.
#[repr(C, align(32))]
#[derive(Debug, Default)]
struct Area {
    others: [u8; 28],
    request: AtomicU8,
    granted: AtomicU8,
}

/// What is asked of the kernel on behalf of the calling thread.
trait Kernel {
    /// Lets the thread take part; its area, if it may.
    fn admit() -> Option<*const Area>;
    /// Gives the CPU to whoever waits for it.
    fn give_up_cpu();
}

/// Linux.
struct Linux;

impl Kernel for Linux {
    fn admit() -> Option<*const Area> {
        let area = arch::rseq_area()?;
        // A filter that does not know the call by which the CPU is given up might end the process.
        (sys::is_unfiltered() && sys::admit_to_slice_extension()).then_some(area.cast())
    }

    fn give_up_cpu() {
        sys::slice_yield();
    }
}

/// What a thread has asked for. All zero is a thread that has not asked for anything.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Null before the thread is let take part, and if it is not.
    area: Cell<*const Area>,
    /// Locks that the thread holds.
    held: Cell<u32>,
    /// Whether the kernel was asked to let the thread take part.
    asked: Cell<bool>,
}

impl Slice {
    /// In a child after `fork`, whose thread is another one to the kernel.
    pub(crate) fn after_fork(&self) {
        self.asked.set(false);
    }

    /// The thread has acquired a lock.
    fn acquired<K: Kernel>(&self) {
        if !self.asked.get() {
            self.asked.set(true);
            self.area.set(K::admit().unwrap_or(ptr::null()));
        }
        // SAFETY: null, or the area, which is as old as the thread.
        let Some(area) = (unsafe { self.area.get().as_ref() }) else { return };
        self.held.set(self.held.get().saturating_add(1));
        // Again for each lock: a thread that slept meanwhile has lost its request.
        area.request.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// The thread has released a lock.
    fn released<K: Kernel>(&self) {
        // SAFETY: null, or the area, which is as old as the thread.
        let Some(area) = (unsafe { self.area.get().as_ref() }) else { return };
        // What another thread acquired is not counted here.
        let held = self.held.get().saturating_sub(1);
        self.held.set(held);
        if held > 0 {
            return;
        }
        compiler_fence(Ordering::SeqCst);
        area.request.store(0, Ordering::Relaxed);
        if area.granted.load(Ordering::Relaxed) != 0 {
            K::give_up_cpu();
        }
    }
}

/// Whether this kernel has time-slice extensions, and lets the calling thread take part.
#[must_use]
pub fn is_available() -> bool {
    arch::rseq_area().is_some() && sys::has_slice_extension()
}

/// Asks that the calling thread, which has acquired a lock, be not preempted for a little longer. Calls nest.
#[inline]
pub fn acquired() {
    ThreadBlock::current().slice.acquired::<Linux>();
}

/// The calling thread has released a lock for which it called [`acquired`]. With the last one it takes its wish back,
/// and gives the CPU up if it has been granted.
#[inline]
pub fn released() {
    ThreadBlock::current().slice.released::<Linux>();
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::thread_local;

    use super::*;

    thread_local! {
        static AREA: Area = Area::default();
        static YIELDS: Cell<u32> = const { Cell::new(0) };
        static ADMISSIONS: Cell<u32> = const { Cell::new(0) };
    }

    /// A kernel that grants as the tests say.
    struct Fake;

    impl Kernel for Fake {
        fn admit() -> Option<*const Area> {
            ADMISSIONS.set(ADMISSIONS.get() + 1);
            Some(AREA.with(ptr::from_ref))
        }

        fn give_up_cpu() {
            AREA.with(|area| {
                assert_eq!(area.request.load(Ordering::Relaxed), 0, "a wish that is kept");
                area.granted.store(0, Ordering::Relaxed);
            });
            YIELDS.set(YIELDS.get() + 1);
        }
    }

    /// A kernel without extensions.
    struct Old;

    impl Kernel for Old {
        fn admit() -> Option<*const Area> {
            ADMISSIONS.set(ADMISSIONS.get() + 1);
            None
        }

        fn give_up_cpu() {
            unreachable!("nothing was granted");
        }
    }

    fn fresh() -> Slice {
        Slice { area: Cell::new(ptr::null()), held: Cell::new(0), asked: Cell::new(false) }
    }

    fn requested() -> bool {
        AREA.with(|area| area.request.load(Ordering::Relaxed) != 0)
    }

    /// What the kernel does instead of taking the CPU away.
    fn grant() {
        AREA.with(|area| {
            assert_eq!(area.request.swap(0, Ordering::Relaxed), 1);
            area.granted.store(1, Ordering::Relaxed);
        });
    }

    #[test]
    fn the_bytes_are_where_the_kernel_has_them() {
        assert_eq!(core::mem::offset_of!(Area, request), 28);
        assert_eq!(core::mem::offset_of!(Area, granted), 29);
        assert_eq!((size_of::<Area>(), align_of::<Area>()), (32, 32));
    }

    #[test]
    fn a_holder_asks_and_takes_it_back() {
        let slice = fresh();
        for _ in 0..2 {
            slice.acquired::<Fake>();
            assert!(requested());
            slice.released::<Fake>();
            assert!(!requested());
        }
        assert_eq!((YIELDS.get(), ADMISSIONS.get()), (0, 1));
    }

    #[test]
    fn the_last_of_several_locks_counts() {
        let slice = fresh();
        slice.acquired::<Fake>();
        slice.acquired::<Fake>();
        slice.released::<Fake>();
        assert!(requested());
        slice.released::<Fake>();
        assert!(!requested());
    }

    #[test]
    fn borrowed_time_is_given_back_with_the_last_lock() {
        let slice = fresh();
        slice.acquired::<Fake>();
        slice.acquired::<Fake>();
        grant();
        slice.released::<Fake>();
        assert_eq!(YIELDS.get(), 0);
        slice.released::<Fake>();
        assert_eq!(YIELDS.get(), 1);
        slice.acquired::<Fake>();
        slice.released::<Fake>();
        assert_eq!(YIELDS.get(), 1);
    }

    #[test]
    fn who_slept_asks_again_with_the_next_lock() {
        let slice = fresh();
        slice.acquired::<Fake>();
        AREA.with(|area| area.request.store(0, Ordering::Relaxed));
        slice.acquired::<Fake>();
        assert!(requested());
        slice.released::<Fake>();
        slice.released::<Fake>();
        assert!(!requested());
    }

    #[test]
    fn what_others_acquired_does_not_count() {
        let slice = fresh();
        slice.acquired::<Fake>();
        slice.released::<Fake>();
        slice.released::<Fake>();
        slice.acquired::<Fake>();
        assert!(requested());
        slice.released::<Fake>();
        assert!(!requested());
    }

    #[test]
    fn an_old_kernel_is_asked_once() {
        let slice = fresh();
        for _ in 0..3 {
            slice.acquired::<Old>();
            slice.released::<Old>();
        }
        assert_eq!(ADMISSIONS.get(), 1);
    }

    #[test]
    fn this_kernel_says_whether_it_has_them() {
        // Either way the calls do no harm.
        acquired();
        acquired();
        released();
        released();
        let admitted = !ThreadBlock::current().slice.area.get().is_null();
        assert!(is_available() || !admitted);
    }
}
