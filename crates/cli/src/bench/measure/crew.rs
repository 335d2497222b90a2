//! Threads that begin together and stop when the time is over.

use crate::bench::options::WARM_UP_PART;
use crate::terminal::say;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How far a run is. All threads ask for it all the time, and it changes twice.
#[derive(Debug, Default)]
pub(super) struct Course(AtomicU8);

impl Course {
    const WARM_UP: u8 = 0;
    const MEASURED: u8 = 1;
    const OVER: u8 = 2;

    // ORDER: Relaxed, here and below: a word that orders nothing; joining the threads orders their results.
    fn goes_on_to(&self, part: u8) {
        self.0.store(part, Ordering::Relaxed);
    }

    /// Whether what is done counts.
    #[inline(always)]
    pub(super) fn is_measured(&self) -> bool {
        self.0.load(Ordering::Relaxed) != Self::WARM_UP
    }

    /// Whether to stop.
    #[inline(always)]
    pub(super) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::OVER
    }
}

/// How long a run takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Before anything counts.
    warm_up: Duration,
    measured: Duration,
}

impl Times {
    /// So long that threads which outnumber the CPUs have all had one, where the time is some hundred milliseconds: as long as they
    /// come one by one, those that are there have the lock for themselves.
    pub(super) fn after_a_tenth(measured: Duration) -> Self {
        Self { warm_up: measured / WARM_UP_PART, measured }
    }

    /// Where a run's beginning is like the rest.
    pub(super) fn at_once(measured: Duration) -> Self {
        Self { warm_up: Duration::ZERO, measured }
    }
}

/// Runs `work(index, course)` in each of the threads, until the course is over. Returns what they returned, and the time from the end
/// of the warm-up until the last had stopped.
pub(super) fn crew<T: Send>(
    threads: u32,
    times: Times,
    work: impl Fn(u32, &Course) -> T + Sync,
) -> Result<(Vec<T>, Duration), String> {
    let ready = Barrier::new(threads as usize + 1);
    let course = Course::default();
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for index in 0..threads {
            let (ready, course, work) = (&ready, &course, &work);
            let run = move || {
                ready.wait();
                work(index, course)
            };
            match thread::Builder::new().spawn_scoped(scope, run) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    // The threads already started wait at the barrier and could not be joined.
                    say!("cannot start thread {} of {threads}: {error}", index + 1);
                    std::process::exit(1);
                }
            }
        }
        ready.wait();
        thread::sleep(times.warm_up);
        let start = Instant::now();
        course.goes_on_to(Course::MEASURED);
        thread::sleep(times.measured);
        course.goes_on_to(Course::OVER);
        let results: Result<Vec<T>, String> = handles
            .into_iter()
            .map(|handle| handle.join().map_err(|_| "a thread panicked".to_owned()))
            .collect();
        Ok((results?, start.elapsed()))
    })
}

/// Nanoseconds from `begin` to `end`, at least 1.
pub(super) fn nanos(begin: Instant, end: Instant) -> u64 {
    u64::try_from(end.duration_since(begin).as_nanos()).unwrap_or(u64::MAX).max(1)
}
