//! An uncontended lock and unlock, in a process with a second thread: glibc takes short cuts in a process with one.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lockwork_stats::median;

use super::crew::nanos;
use super::locks::{Job, Kind};
use super::{Figures, figure};

/// Pairs between two readings of the clock, which thus cost a thousandth of what they measure.
const BATCH: u64 = 1000;

/// The benchmark.
pub(super) struct Pair {
    /// How long to measure.
    pub(super) time: Duration,
}

impl Job for Pair {
    fn run(&self, kind: &dyn Kind) -> Result<Figures, String> {
        let pairs = kind.pairs();
        let (end, ended) = mpsc::channel::<()>();
        // Sleeps until the other end of its channel is dropped.
        let second = thread::spawn(move || ended.recv().is_err());
        let mut batches = Vec::new();
        let start = Instant::now();
        while batches.is_empty() || start.elapsed() < self.time {
            batches.push(batch(&pairs));
        }
        drop(end);
        second.join().map_err(|_| "the second thread panicked".to_owned())?;
        let pairs = batches.len() as f64 * BATCH as f64;
        // The median leaves out batches in which another process had the CPU.
        let pair = median(&batches).ok_or("no batch ended in the time")?;
        Ok(vec![figure("pair", pair), figure("pairs", pairs)])
    }
}

/// Nanoseconds a pair.
fn batch(pairs: &dyn Fn(u64)) -> f64 {
    let begin = Instant::now();
    pairs(BATCH);
    nanos(begin, Instant::now()) as f64 / BATCH as f64
}
