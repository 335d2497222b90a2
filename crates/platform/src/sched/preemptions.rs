//! Whether this process competes for its CPUs: with other tenants of the machine, within its quota, or with itself where its
//! threads are bound to too few CPUs.
//!
//! A thread that competes is preempted at the end of each time slice. One system call says how often that happened to the
//! threads of this process, and how long they ran meanwhile. All the time between two looks counts, so a sample misses
//! nothing. Sleepers are not preempted: a process that waits asleep because it was preempted finds out by spinning
//! for a sample, every [`LASTS_NS`], whether it still would be.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cpu::Clock;
use crate::sys::{self, Usage};

/// How long a sample is at least: a dozen time slices. In 30 ms what the kernel does by itself looked like competition, in up to one
/// of eight samples of two threads on two idle CPUs, and each time for as long as [`LASTS_NS`].
const SAMPLE_NS: u64 = 100_000_000;
/// A sample that began longer ago says little of the present.
const STALE_NS: u64 = 500_000_000;
/// For how long a process counts as one that competes after it was seen to.
const LASTS_NS: u64 = 3_000_000_000;
/// A thread that is preempted so often, once in so many ns of CPU time, competes. A time slice is 3 ms on most machines, and 12 where
/// two threads share one of many CPUs under Linux before 6.6; what the kernel does by itself preempts a thread some ten to twenty
/// times a second, often in bursts.
const SLICE_NS: u64 = 16_000_000;
/// Fewer preemptions in a sample may be chance. So a thread that runs alone and shares its CPU by slices of more than 8 ms is not
/// seen.
const FEWEST: u64 = 6;

/// When the current sample began, by the monotonic clock; 0 = there is none.
static BEGAN: AtomicU64 = AtomicU64::new(0);
/// What the process had used then.
static CPU_NS: AtomicU64 = AtomicU64::new(0);
static PREEMPTED: AtomicU64 = AtomicU64::new(0);
/// Until when the process counts as one that competes.
static UNTIL: AtomicU64 = AtomicU64::new(0);

/// Whether threads of this process often lose their CPU to others.
pub(super) fn are_frequent() -> bool {
    let now = sys::now(Clock::Monotonic);
    if now < UNTIL.load(Relaxed) {
        return true;
    }
    let began = BEGAN.load(Relaxed);
    // The figures are hints: a thread that is preempted between these accesses spoils one sample and nothing else.
    if now.saturating_sub(began) >= SAMPLE_NS && BEGAN.compare_exchange(began, now, Relaxed, Relaxed).is_ok()
    {
        look(now, now - began);
    }
    now < UNTIL.load(Relaxed)
}

/// Ends the sample that is `age` ns old, and begins another one.
#[cold]
fn look(now: u64, age: u64) {
    let usage = sys::usage();
    let before = Usage {
        cpu_ns: CPU_NS.swap(usage.cpu_ns, Relaxed),
        preempted: PREEMPTED.swap(usage.preempted, Relaxed),
    };
    if age <= STALE_NS && competes(before, usage) {
        UNTIL.store(now.saturating_add(LASTS_NS), Relaxed);
    }
}

fn competes(before: Usage, after: Usage) -> bool {
    let preempted = after.preempted.saturating_sub(before.preempted);
    let ran = after.cpu_ns.saturating_sub(before.cpu_ns);
    preempted >= FEWEST && ran / preempted <= SLICE_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cpu_ms: u64, preempted: u64) -> Usage {
        Usage { cpu_ns: cpu_ms * 1_000_000, preempted }
    }

    #[test]
    fn slices_that_end_early_tell_of_competitors() {
        assert!(competes(usage(500, 70), usage(530, 80)), "a slice of 3 ms");
        assert!(competes(usage(0, 0), usage(200, 16)), "slices of 12 ms on two CPUs");
        assert!(!competes(usage(0, 0), usage(60, 5)), "a burst");
        assert!(!competes(usage(0, 0), usage(200, 9)), "what the kernel does by itself");
        assert!(!competes(usage(500, 70), usage(530, 70)));
    }

    #[test]
    fn the_kernel_counts_what_this_process_uses() {
        let before = sys::usage();
        while sys::usage().cpu_ns == before.cpu_ns {
            core::hint::spin_loop();
        }
        assert!(sys::usage().preempted >= before.preempted);
    }
}
