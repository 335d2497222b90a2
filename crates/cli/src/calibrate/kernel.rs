//! What the clock, the pause instruction and the kernel cost, in nanoseconds.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use lockwork_platform::sys::{futex_wait, futex_wake};

use super::median;
use super::threads::{on_cpu, pair};

/// Nanoseconds of one of many, the median of some batches.
fn each(batches: usize, batch: u32, work: impl Fn()) -> f64 {
    let times: Vec<f64> = (0..batches)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..batch {
                work();
            }
            start.elapsed().as_nanos() as f64 / f64::from(batch)
        })
        .collect();
    median(&times)
}

/// Cycles of a nanosecond: of the time-stamp counter where there is one, else of the fastest frequency that the kernel
/// names.
pub(super) fn ghz() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every processor of this architecture has the instruction.
        let counter = || unsafe { core::arch::x86_64::_rdtsc() };
        let sample = || {
            let (start, begin) = (Instant::now(), counter());
            thread::sleep(Duration::from_millis(10));
            let (cycles, time) = (counter().wrapping_sub(begin), start.elapsed());
            cycles as f64 / time.as_nanos() as f64
        };
        Some(median(&[(); 5].map(|()| sample())))
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let file = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
        let khz: f64 = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
        Some(khz / 1e6)
    }
}

/// The hint that a thread spins.
pub(super) fn pause(cpu: usize) -> Option<f64> {
    on_cpu(cpu, || each(21, 1000, std::hint::spin_loop))
}

/// In and out of the kernel with nothing done there: a futex that nobody waits for.
pub(super) fn system_call(cpu: usize) -> Option<f64> {
    on_cpu(cpu, || {
        let word = AtomicU32::new(0);
        each(21, 500, || {
            futex_wake(word.as_ptr(), 1);
        })
    })
}

/// What a wake costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wake {
    /// The waker, system call included.
    pub(super) call: f64,
    /// From the beginning of the call until the sleeper is back from its own.
    pub(super) awake: f64,
}

/// Wakes of a sleeper on another CPU that has been `asleep` for so long, while that CPU has nothing else to do, or, `busy`, has a
/// thread that computes.
pub(super) fn wakes(
    waker: usize,
    sleeper: usize,
    rounds: u32,
    asleep: Duration,
    busy: bool,
) -> Option<Vec<Wake>> {
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let (word, back, done) = (AtomicU32::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let sleeps = || {
        for round in 0..rounds {
            while word.load(SeqCst) == round {
                futex_wait(word.as_ptr(), round, None);
            }
            back.store(now(), SeqCst);
        }
    };
    let computes = || {
        while !done.load(SeqCst) {
            std::hint::spin_loop();
        }
    };
    let wakes = || {
        let mut seen = Vec::new();
        for round in 0..rounds {
            // It sleeps by then; if it did not, nobody is woken, and the round does not count.
            let since = Instant::now();
            while since.elapsed() < asleep {
                std::hint::spin_loop();
            }
            back.store(0, SeqCst);
            word.store(round + 1, SeqCst);
            let begin = now();
            let woken = futex_wake(word.as_ptr(), 1);
            let end = now();
            let awake = loop {
                match back.load(SeqCst) {
                    0 => std::hint::spin_loop(),
                    time => break time.saturating_sub(begin),
                }
            };
            if woken == 1 {
                seen.push(Wake { call: (end - begin) as f64, awake: awake as f64 });
            }
        }
        seen
    };
    thread::scope(|scope| {
        if busy {
            scope.spawn(|| on_cpu(sleeper, computes));
        }
        let seen = pair((waker, wakes), (sleeper, sleeps));
        done.store(true, SeqCst);
        seen.map(|(seen, ())| seen)
    })
}

/// From one thread to another on a CPU: two that yield to each other, less what the yields cost that found nobody.
/// `None` if the kernel did not switch.
pub(super) fn context_switch(cpu: usize) -> Option<f64> {
    const YIELDS: u32 = 2000;
    let alone = on_cpu(cpu, || each(21, 100, thread::yield_now))?;
    let done = AtomicBool::new(false);
    let yields = || {
        let (before, start) = (switches(), Instant::now());
        for _ in 0..YIELDS {
            thread::yield_now();
        }
        let time = start.elapsed().as_nanos() as f64;
        done.store(true, SeqCst);
        (time, switches().saturating_sub(before))
    };
    let other = || {
        while !done.load(SeqCst) {
            thread::yield_now();
        }
    };
    let ((time, away), ()) = pair((cpu, yields), (cpu, other))?;
    // For each switch away from it there was one back to it, and a yield of the other's.
    let switched = away as f64;
    (away > u64::from(YIELDS / 10))
        .then(|| (time - (f64::from(YIELDS) + switched) * alone) / (2.0 * switched))
        .filter(|ns| *ns > 0.0)
}

/// How often the calling thread has lost its CPU.
fn switches() -> u64 {
    // SAFETY: all zeroes are a value of this plain type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: valid for writes.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

/// How long a thread runs while another waits for its CPU: the times for which two that only compute see nothing of the
/// other. In the order of their lengths; empty if nobody was preempted in time.
pub(super) fn slices(cpu: usize, time: Duration) -> Option<Vec<f64>> {
    /// Shorter gaps are interrupts.
    const GAP: Duration = Duration::from_micros(300);
    let begin = Instant::now();
    let run = || {
        let mut gaps = Vec::new();
        let mut last = Instant::now();
        while begin.elapsed() < time {
            let now = Instant::now();
            if now - last > GAP {
                gaps.push((now - last).as_nanos() as f64);
            }
            last = now;
        }
        gaps
    };
    let (mut gaps, others) = pair((cpu, run), (cpu, run))?;
    gaps.extend(others);
    gaps.sort_by(f64::total_cmp);
    Some(gaps)
}
