//! Threads on chosen CPUs.

use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this process may use.
pub(super) fn allowed() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Binds the calling thread.
fn bind(cpu: usize) -> Option<()> {
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).ok()
}

/// Runs `work` in a thread of its own on a CPU; `None` if the kernel does not let it.
pub(super) fn on_cpu<T: Send>(cpu: usize, work: impl FnOnce() -> T + Send) -> Option<T> {
    let run = || {
        bind(cpu)?;
        Some(work())
    };
    thread::scope(|scope| scope.spawn(run).join().ok()?)
}

/// Runs two threads on a CPU each, which may wait for each other: neither begins unless both can.
pub(super) fn pair<A: Send, B: Send>(
    one: (usize, impl FnOnce() -> A + Send),
    other: (usize, impl FnOnce() -> B + Send),
) -> Option<(A, B)> {
    let (one_cpu, one_work) = one;
    let (other_cpu, other_work) = other;
    // The CPUs that this process may use are taken to stay the same during a measurement.
    on_cpu(one_cpu, || ()).and(on_cpu(other_cpu, || ()))?;
    thread::scope(|scope| {
        let first = scope.spawn(|| on_cpu(one_cpu, one_work));
        let second = scope.spawn(|| on_cpu(other_cpu, other_work));
        Some((first.join().ok()??, second.join().ok()??))
    })
}
