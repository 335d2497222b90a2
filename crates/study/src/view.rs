//! A study seen through one metric: means, levels of contention, and the thesis's definitions on them.

use std::collections::BTreeMap;

use lockwork_stats::coverage::{AgainstBest, share_covered};
use lockwork_stats::{Tolerance, mean, relative_deviation};

use crate::data::{Run, Study, Variant};

/// What is looked at. Higher is better in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Metric {
    /// Operations a second.
    #[default]
    Throughput,
    /// Throughput per power, operations a joule.
    Efficiency,
    /// The inverse of the 99th percentile of the response time.
    TailLatency,
}

impl Metric {
    /// As titles say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput",
            Metric::Efficiency => "energy efficiency (TPP)",
            Metric::TailLatency => "tail latency (inverse of the 99th percentile)",
        }
    }

    fn of(self, run: &Run) -> Option<f64> {
        match self {
            Metric::Throughput => Some(run.throughput),
            Metric::Efficiency => run.efficiency,
            Metric::TailLatency => Some(1.0 / run.p99?),
        }
    }

    /// The mean of the runs; `None` if one lacks the value. The mean of latencies is taken before it is inverted.
    fn mean(self, runs: &[Run]) -> Option<f64> {
        let values: Option<Vec<f64>> = runs.iter().map(|run| self.of(run)).collect();
        let values = values?;
        match self {
            Metric::TailLatency => {
                let latencies: Vec<f64> = values.iter().map(|value| 1.0 / value).collect();
                Some(1.0 / mean(&latencies)?)
            }
            _ => mean(&values),
        }
    }
}

/// A level of contention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The fewest nodes of the study.
    One,
    /// The most nodes that the application ran on.
    Max,
    /// For each lock, the count of nodes at which it does best.
    Opt,
}

impl Level {
    /// All, in the thesis's order.
    pub const ALL: [Level; 3] = [Level::One, Level::Max, Level::Opt];

    /// As tables say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::One => "one node",
            Level::Max => "max nodes",
            Level::Opt => "opt nodes",
        }
    }
}

/// An application is lock-sensitive above this relative standard deviation of the locks at max nodes (section 4.2.1).
pub(crate) const SENSITIVE: f64 = 0.10;

/// A lock is harmful above this gain of the best lock over it (Table 4.10).
pub(crate) const HARMFUL: f64 = 0.15;

/// A study seen through one metric.
#[derive(Debug)]
pub struct View<'a> {
    /// What is seen.
    pub study: &'a Study,
    /// Through which metric.
    pub metric: Metric,
    /// By application: the value of every lock, by nodes.
    values: Vec<BTreeMap<u32, Vec<Option<f64>>>>,
    /// The fewest nodes that any application ran on.
    fewest: Option<u32>,
}

impl<'a> View<'a> {
    /// Of the interposed runs.
    #[must_use]
    pub fn new(study: &'a Study, metric: Metric) -> Self {
        Self::of_variant(study, metric, Variant::Interposed)
    }

    /// Of the runs of one variant.
    #[must_use]
    pub fn of_variant(study: &'a Study, metric: Metric, variant: Variant) -> Self {
        let mut values = vec![BTreeMap::new(); study.applications.len()];
        for (key, runs) in study.runs.iter().filter(|(key, _)| key.variant == variant) {
            if let Some(mean) = metric.mean(runs) {
                let row: &mut Vec<Option<f64>> =
                    values[key.application].entry(key.nodes).or_insert_with(|| vec![None; study.locks.len()]);
                row[key.lock] = Some(mean);
            }
        }
        let fewest = values.iter().filter_map(|rows| rows.keys().next().copied()).min();
        View { study, metric, values, fewest }
    }

    /// The counts of nodes that an application ran on, ascending.
    pub fn nodes(&self, application: usize) -> impl DoubleEndedIterator<Item = u32> {
        self.values[application].keys().copied()
    }

    /// The counts of nodes that any application ran on, ascending.
    #[must_use]
    pub fn all_nodes(&self) -> Vec<u32> {
        let mut nodes: Vec<u32> = self.values.iter().flat_map(|rows| rows.keys().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The value of a lock at a count of nodes.
    #[must_use]
    pub fn value(&self, application: usize, nodes: u32, lock: usize) -> Option<f64> {
        self.values[application].get(&nodes)?[lock]
    }

    /// The count of nodes at which a lock does best (the fewest, of equals), with its value there.
    #[must_use]
    pub fn optimum(&self, application: usize, lock: usize) -> Option<(u32, f64)> {
        let values = self.values[application].iter().filter_map(|(&nodes, row)| Some((nodes, row[lock]?)));
        values.reduce(|best, next| if next.1 > best.1 { next } else { best })
    }

    /// The value of a lock at a level of contention.
    #[must_use]
    pub fn at(&self, application: usize, level: Level, lock: usize) -> Option<f64> {
        match level {
            Level::One => self.value(application, self.fewest?, lock),
            Level::Max => self.value(application, self.nodes(application).next_back()?, lock),
            Level::Opt => self.optimum(application, lock).map(|(_, value)| value),
        }
    }

    /// The values of all locks at a level; absent where a lock was not measured.
    #[must_use]
    pub fn row(&self, application: usize, level: Level) -> Vec<Option<f64>> {
        (0..self.study.locks.len()).map(|lock| self.at(application, level, lock)).collect()
    }

    /// The relative standard deviation of the locks' values at a level.
    #[must_use]
    pub fn deviation(&self, application: usize, level: Level) -> Option<f64> {
        let values: Vec<f64> = self.row(application, level).into_iter().flatten().collect();
        relative_deviation(&values)
    }

    /// The applications with any value, by their places.
    #[must_use]
    pub fn tested(&self) -> Vec<usize> {
        (0..self.values.len()).filter(|&application| !self.values[application].is_empty()).collect()
    }

    /// The lock-sensitive applications, by their places.
    #[must_use]
    pub fn sensitive(&self) -> Vec<usize> {
        let mut tested = self.tested();
        tested.retain(|&application| {
            self.deviation(application, Level::Max).is_some_and(|deviation| deviation > SENSITIVE)
        });
        tested
    }

    /// Of `applications`, those that a lock was measured with at a level, and its value and the best lock's there.
    pub fn against_best(
        &self,
        applications: &[usize],
        level: Level,
        lock: usize,
    ) -> impl Iterator<Item = (f64, f64)> {
        applications.iter().filter_map(move |&application| {
            let row = self.row(application, level);
            Some((row[lock]?, best(&row)?))
        })
    }

    /// The share of `applications` that a lock covers at a level: those where the best lock is not better than it.
    #[must_use]
    pub fn coverage(&self, applications: &[usize], level: Level, lock: usize) -> Option<f64> {
        let cells = self.against_best(applications, level, lock);
        share_covered(cells.map(|(value, best)| AgainstBest { value, best }), Tolerance::FIVE_PERCENT)
    }

    /// The share of `applications` that a lock harms at a level.
    #[must_use]
    pub fn harm(&self, applications: &[usize], level: Level, lock: usize) -> Option<f64> {
        share(self.against_best(applications, level, lock), |(value, best)| gain(best, value) > HARMFUL)
    }
}

/// The highest of the values.
pub(crate) fn best(values: &[Option<f64>]) -> Option<f64> {
    lockwork_stats::coverage::best(values.iter().copied())
}

/// The lowest of the values.
pub(crate) fn worst(values: &[Option<f64>]) -> Option<f64> {
    values.iter().copied().flatten().reduce(f64::min)
}

/// What `value` gains over `other`: 0.5 is 50% more.
pub(crate) fn gain(value: f64, other: f64) -> f64 {
    value / other - 1.0
}

/// The share of the items for which `holds`; `None` of none.
pub(crate) fn share<T>(items: impl IntoIterator<Item = T>, holds: impl Fn(T) -> bool) -> Option<f64> {
    let (mut all, mut held) = (0_u32, 0_u32);
    for item in items {
        all += 1;
        held += u32::from(holds(item));
    }
    (all > 0).then(|| f64::from(held) / f64::from(all))
}
