//! The CPU under the calling thread: pauses and yields; and clocks and absolute deadlines, as POSIX names them.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::{Native, arch, observe, sys};

/// The clock of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Wall-clock time: jumps when an administrator sets it, and deadlines follow the jump.
    Realtime,
    /// Time since boot, never set back.
    Monotonic,
}

/// An absolute point in time at which a wait gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The clock it is measured on.
    pub clock: Clock,
    /// Nanoseconds since the clock's origin; saturated, so `u64::MAX` is "never" for all practical purposes.
    pub ns: u64,
}

impl Deadline {
    /// The deadline `ns` nanoseconds after `now` on `clock`.
    #[must_use]
    pub fn after(clock: Clock, now: u64, ns: u64) -> Self {
        Self { clock, ns: now.saturating_add(ns) }
    }
}

/// The CPU under the calling thread, and the clock.
pub trait Cpu: Sized {
    /// Tells the core that this thread polls. If nothing that the caller loaded since its last pause
    /// has changed, another iteration of its loop does the same as the last one (a simulator sleeps on
    /// this promise, a model checker switches threads on it).
    fn pause();

    /// As [`Cpu::pause`], by a caller that would go round its loop at most `most` times more, this time included, if
    /// nothing changed. Returns how many times it may take itself to have gone round (a simulator skips those that
    /// are all the same).
    #[inline(always)]
    fn pause_within(most: u32) -> u32 {
        let _ = most;
        Self::pause();
        1
    }

    /// At most `n` pauses in a row, for back-off. Unlike [`Cpu::pause`] it promises nothing
    /// about the caller's next iteration.
    fn pause_n(n: u32);

    /// Asks for the cache line at `address`, to write to it soon. A hint: any address will do.
    #[inline(always)]
    fn prefetch_write<T>(address: *const T) {
        let _ = address;
    }

    /// Says which cache lines are about to be read, one after the other, with nothing in between that depends on them. A
    /// processor that executes out of order finds that out itself; a simulated one does not.
    #[inline(always)]
    fn look_ahead<T>(addresses: impl Iterator<Item = *const T>) {
        let _ = addresses;
    }

    /// Gives the rest of the time slice to another runnable thread.
    fn yield_now();

    /// How many [`Cpu::pause`]s cost about as much as a context-switch round trip: the spinning
    /// part of spin-then-park.
    fn spin_budget() -> u32;

    /// What a context-switch round trip costs, in ns.
    fn round_trip_ns() -> u64 {
        ROUND_TRIP_NS.load(Ordering::Relaxed)
    }

    /// Whether spinning threads keep their CPU however long they spin. If not, they yield it now and then after a while.
    fn strict_spin() -> bool {
        false
    }

    /// The time on `clock`, in nanoseconds since its origin.
    fn now(clock: Clock) -> u64;
}

/// Pauses that cost about a context-switch round trip; 0 = not measured yet.
pub(crate) static SPIN_BUDGET: AtomicU32 = AtomicU32::new(0);
/// What a context-switch round trip costs, in ns; as given, the value is that of servers of the last decade.
pub(crate) static ROUND_TRIP_NS: AtomicU64 = AtomicU64::new(5_000);

/// Whether spinning threads never yield.
pub(crate) static STRICT_SPIN: AtomicBool = AtomicBool::new(false);

/// Measures the pause instruction, which takes 4 to 140 cycles depending on the processor.
#[cold]
fn measure_spin_budget() -> u32 {
    const PAUSES: u32 = 64;
    let start = sys::now(Clock::Monotonic);
    for _ in 0..PAUSES {
        core::hint::spin_loop();
    }
    let spent = sys::now(Clock::Monotonic).saturating_sub(start).max(1);
    let budget =
        (u64::from(PAUSES) * ROUND_TRIP_NS.load(Ordering::Relaxed) / spent).clamp(1, 1_000_000) as u32;
    SPIN_BUDGET.store(budget, Ordering::Relaxed);
    budget
}

impl Cpu for Native {
    #[inline(always)]
    fn pause() {
        core::hint::spin_loop();
    }

    #[inline]
    fn pause_n(n: u32) {
        for _ in 0..n {
            core::hint::spin_loop();
        }
    }

    #[inline(always)]
    fn prefetch_write<T>(address: *const T) {
        arch::prefetch_write(address.cast());
    }

    fn yield_now() {
        observe::yields();
        sys::sched_yield();
    }

    #[inline]
    fn spin_budget() -> u32 {
        match SPIN_BUDGET.load(Ordering::Relaxed) {
            0 => measure_spin_budget(),
            budget => budget,
        }
    }

    #[inline]
    fn strict_spin() -> bool {
        STRICT_SPIN.load(Ordering::Relaxed)
    }

    fn now(clock: Clock) -> u64 {
        sys::now(clock)
    }
}
