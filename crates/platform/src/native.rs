//! The real machine.

use core::sync::atomic::{AtomicPtr, Ordering};

use crate::cpu::{ROUND_TRIP_NS, SPIN_BUDGET, STRICT_SPIN};
use crate::pool::LOCKS_ARE_COPIED;
use crate::tls::ThreadBlock;
use crate::{barrier, tls};

/// Linux on the machine at hand.
#[derive(Clone, Copy, Debug)]
pub struct Native;

impl Native {
    /// The kernel's id of the calling thread (never 0), cached.
    #[inline(always)]
    #[must_use]
    pub fn tid() -> u32 {
        ThreadBlock::current().tid()
    }

    /// How many read locks the calling thread has, as told by [`Native::count_read_locks`].
    #[inline(always)]
    #[must_use]
    pub fn read_locks() -> u32 {
        ThreadBlock::current().read_locks.get()
    }

    /// Notes that the calling thread acquired (1) or released (−1) a read lock. A hint: a thread that releases what another
    /// acquired has none less than none.
    #[inline(always)]
    pub fn count_read_locks(difference: i32) {
        let count = &ThreadBlock::current().read_locks;
        count.set(count.get().saturating_add_signed(difference));
    }

    /// A null atomic pointer, for statics.
    #[must_use]
    pub const fn null<T>() -> AtomicPtr<T> {
        AtomicPtr::new(core::ptr::null_mut())
    }

    /// Makes spinning threads keep their CPU however long they spin, as the algorithms were published.
    pub fn set_strict_spin(strict: bool) {
        STRICT_SPIN.store(strict, Ordering::Relaxed);
    }

    /// Sets how long spin-then-park waiters spin before they sleep, in ns; about the round trip of a context switch is
    /// best. The default is 5,000. Values out of 100 to 1,000,000 are taken to the nearest end.
    pub fn set_spin_ns(ns: u64) {
        ROUND_TRIP_NS.store(ns.clamp(100, 1_000_000), Ordering::Relaxed);
        SPIN_BUDGET.store(0, Ordering::Relaxed);
    }

    /// Says that locks may be copied: see [`Pool::locks_are_copied`](crate::Pool::locks_are_copied).
    pub fn set_locks_are_copied() {
        LOCKS_ARE_COPIED.store(true, Ordering::Relaxed);
    }

    /// Prepares what is better prepared before other code runs: the exit handler's key, which needs no memory when it is
    /// among the first of the process, and the kernel's barrier, which is registered quickly while there is one thread.
    pub fn prepare() {
        tls::exit_key();
        barrier::prepare();
        // The CPUs of the process: later the first thread to ask may be one that is pinned to a part of them.
        let _ = <Self as crate::Sched>::parallelism();
    }
}
