//! What a run amounts to, as text and as JSON.

use crate::options::{Extent, Options};
use crate::run::RunResult;
use hdrhistogram::Histogram;
use lockwork_stats::fairness::{jain_index, unfairness_factor};
use serde::Serialize;
use std::fmt;

/// The figures of one run. Times are in the unit that the field names.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    threads: u32,
    operations: u64,
    wall_seconds: f64,
    ops_per_second: f64,
    latency_us: Latency,
    /// Only of a timed run: otherwise every thread does the same number of operations.
    fairness: Option<Fairness>,
}

/// Percentiles of an operation's time in microseconds, waiting for the lock included.
#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    #[serde(rename = "p99.9")]
    p999: f64,
    max: f64,
}

/// How evenly the threads got to do operations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Fairness {
    /// Share of the operations done by the busier half of the threads: 0.5 is fair, 1 is not.
    unfairness_factor: f64,
    /// (sum x)² / (n · sum x²): 1 is fair, 1/n is one thread doing everything.
    jain_index: f64,
}

impl Report {
    /// The figures of `result`, a run with `options`.
    pub(crate) fn new(options: &Options, result: &RunResult) -> Self {
        let counts: Vec<u64> = result.threads.iter().map(|t| t.operations).collect();
        let operations: u64 = counts.iter().sum();
        let wall_seconds = result.wall.as_secs_f64();
        let mut latency = Histogram::new(3).expect("three digits are allowed");
        for thread in &result.threads {
            latency.add(&thread.latency).expect("an automatic histogram resizes");
        }
        Self {
            threads: options.threads,
            operations,
            wall_seconds,
            ops_per_second: operations as f64 / wall_seconds,
            latency_us: Latency::of(&latency),
            fairness: matches!(options.extent(), Extent::Time(_)).then(|| Fairness::of(&counts)),
        }
    }
}

impl Latency {
    fn of(nanos: &Histogram<u64>) -> Self {
        let at = |quantile| nanos.value_at_quantile(quantile) as f64 / 1000.0;
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: nanos.max() as f64 / 1000.0 }
    }
}

impl Fairness {
    fn of(counts: &[u64]) -> Self {
        Self { unfairness_factor: unfairness_factor(counts), jain_index: jain_index(counts) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latency { p50, p99, p999, max } = self.latency_us;
        writeln!(f, "threads: {}", self.threads)?;
        writeln!(f, "operations: {}", self.operations)?;
        writeln!(f, "wall: {:.3} s", self.wall_seconds)?;
        writeln!(f, "ops/sec: {:.0}", self.ops_per_second)?;
        write!(f, "latency (us): P50: {p50:.2} P99: {p99:.2} P99.9: {p999:.2} max: {max:.2}")?;
        if let Some(Fairness { unfairness_factor, jain_index }) = self.fairness {
            write!(f, "\nunfairness: {unfairness_factor:.3}\nJain index: {jain_index:.3}")?;
        }
        Ok(())
    }
}
