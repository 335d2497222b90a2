//! What the threads of a run did, and the figures of that.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use lockwork_stats::fairness::{jain_index, unfairness_factor};

use super::crew::{Course, nanos};
use super::{Figures, figure, histogram, merged};

/// What one thread did.
pub(super) struct Done {
    /// Before it was measured.
    before: u64,
    operations: u64,
    latency: Histogram<u64>,
}

impl Done {
    pub(super) fn nothing() -> Self {
        Self { before: 0, operations: 0, latency: histogram() }
    }

    /// Counts an operation that took so many nanoseconds, if the run is measured by now.
    pub(super) fn add(&mut self, course: &Course, latency: u64) {
        if !course.is_measured() {
            self.before += 1;
            return;
        }
        self.latency.saturating_record(latency);
        self.operations += 1;
    }

    /// Counts an operation from `begin` to now.
    pub(super) fn add_since(&mut self, course: &Course, begin: Instant) {
        self.add(course, nanos(begin, Instant::now()));
    }
}

/// The operations of all threads, with those before anything was measured.
pub(super) fn all_operations(done: &[Done]) -> u64 {
    done.iter().map(|done| done.before + done.operations).sum()
}

/// Throughput in operations a second, latency in ns, and how evenly the threads were served.
pub(super) fn figures(done: &[Done], wall: Duration) -> Figures {
    let counts: Vec<u64> = done.iter().map(|done| done.operations).collect();
    let operations = counts.iter().sum::<u64>() as f64;
    let latency = merged(done.iter().map(|done| &done.latency));
    let at = |quantile| latency.value_at_quantile(quantile) as f64;
    vec![
        figure("throughput", operations / wall.as_secs_f64()),
        figure("p50", at(0.5)),
        figure("p99", at(0.99)),
        figure("p99.9", at(0.999)),
        figure("max", latency.max() as f64),
        figure("unfairness", unfairness_factor(&counts)),
        figure("jain", jain_index(&counts)),
        figure("operations", operations),
        figure("fewest", counts.iter().copied().min().unwrap_or_default() as f64),
        figure("most", counts.iter().copied().max().unwrap_or_default() as f64),
    ]
}
