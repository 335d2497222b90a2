//! What the rounds gave: every run, how it ended, and its figures.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::plan::Plan;
use super::served::Served;

/// After so many time-outs a cell is not run again.
pub(crate) const TIME_OUTS_BEFORE_GIVING_UP: usize = 2;

/// What the rounds gave.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Every run in the order they were made.
    pub(crate) runs: Vec<Run>,
    pub(crate) interrupted: bool,
    /// Ended after the first round, which gave no value at all.
    pub(crate) hopeless: bool,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Ok,
    /// Killed at the time-out.
    TimedOut,
    /// Ended by a signal, by a non-zero exit status, or never started.
    Crashed,
    /// Exit status 0, but a metric was not in its output.
    NoMetric,
    /// By the user; such runs are dropped.
    Interrupted,
}

/// One run of the command.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run {
    pub(crate) lock: String,
    #[serde(skip)]
    pub(crate) lock_index: usize,
    pub(crate) threads: Option<u32>,
    #[serde(skip)]
    pub(crate) threads_index: usize,
    /// From 0; warm-up rounds are all 0.
    pub(crate) round: u32,
    pub(crate) warmup: bool,
    /// UTC, RFC 3339.
    pub(crate) started: String,
    pub(crate) outcome: Outcome,
    pub(crate) exit_status: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) reason: Option<String>,
    pub(crate) wall_s: f64,
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) max_rss_kib: i64,
    /// CPU time of everything else on the machine meanwhile.
    pub(crate) competing_cpu_s: Option<f64>,
    /// What the library said that it served; asked for in the first round only.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub(crate) served: Option<Served>,
    pub(crate) values: Values,
}

pub(super) fn as_text<S: Serializer>(served: &Option<Served>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&served.as_ref().map(Served::to_string).unwrap_or_default())
}

/// A figure with six digits: those behind are noise, and results are kept.
pub(crate) fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// A run's figures, one for each metric in their order; files show them by name.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    names: Arc<[String]>,
    numbers: Vec<Option<f64>>,
}

impl Values {
    /// None yet.
    pub(crate) fn missing(names: Arc<[String]>) -> Self {
        Values { numbers: vec![None; names.len()], names }
    }

    /// The figure of a metric, by its place.
    pub(crate) fn get(&self, metric: usize) -> Option<f64> {
        self.numbers[metric]
    }

    /// Sets the figure of a metric, by its place. It is kept with six digits.
    pub(crate) fn set(&mut self, metric: usize, value: Option<f64>) {
        self.numbers[metric] = value.map(six_digits);
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<f64>> {
        self.numbers.iter().copied()
    }
}

impl Serialize for Values {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.names.iter().zip(&self.numbers))
    }
}

impl Run {
    /// A simulated run of a lock, a thread count and a seed, by their places in the plan.
    pub(crate) fn simulated(
        plan: &Plan,
        (lock, threads, seed): (usize, usize, u32),
        outcome: Outcome,
        reason: Option<String>,
        took: Duration,
        values: Values,
    ) -> Self {
        Run {
            lock: plan.locks[lock].name.clone(),
            lock_index: lock,
            threads: plan.threads[threads],
            threads_index: threads,
            round: seed,
            warmup: false,
            started: format!("{:.0}", jiff::Timestamp::now()),
            outcome,
            exit_status: None,
            signal: None,
            reason,
            wall_s: took.as_secs_f64(),
            user_s: 0.0,
            system_s: 0.0,
            max_rss_kib: 0,
            competing_cpu_s: None,
            served: None,
            values,
        }
    }

    /// Whether the run belongs to this cell.
    pub(crate) fn is_of(&self, lock: usize, threads: usize) -> bool {
        self.lock_index == lock && self.threads_index == threads
    }
}

/// Whether a cell timed out too often to be tried again.
pub(crate) fn given_up(runs: &[Run], lock: usize, threads: usize) -> bool {
    let timed_out = |run: &&Run| run.is_of(lock, threads) && run.outcome == Outcome::TimedOut;
    runs.iter().filter(timed_out).count() >= TIME_OUTS_BEFORE_GIVING_UP
}
