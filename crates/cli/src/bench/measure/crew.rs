//! Threads that begin together and stop when the time is over.

use crate::terminal::say;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs `work(index, stop)` in each of the threads; `stop` becomes true after `time`. Returns what they returned, and the
/// time from the common start until the last had stopped.
pub(super) fn crew<T: Send>(
    threads: u32,
    time: Duration,
    work: impl Fn(u32, &AtomicBool) -> T + Sync,
) -> Result<(Vec<T>, Duration), String> {
    let ready = Barrier::new(threads as usize + 1);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for index in 0..threads {
            let (ready, stop, work) = (&ready, &stop, &work);
            let run = move || {
                ready.wait();
                work(index, stop)
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
        let start = Instant::now();
        thread::sleep(time);
        // ORDER: Relaxed: a flag that orders nothing; joining the threads orders their results.
        stop.store(true, Ordering::Relaxed);
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

/// Whether to stop.
#[inline(always)]
pub(super) fn stopped(stop: &AtomicBool) -> bool {
    // ORDER: Relaxed, as above.
    stop.load(Ordering::Relaxed)
}
