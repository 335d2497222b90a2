//! The data of a comparison: every run, and all of it as one document.

use std::sync::Arc;
use std::time::Duration;

use lockwork_stats::median;
use serde::{Deserialize, Serialize, Serializer};

use super::engine::Measured;
use super::meta::{Meta, MetricInfo};
use super::plan::Plan;
use super::served::Served;
use super::summary::{Cell, summarise};

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

fn as_text<S: Serializer>(served: &Option<Served>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&served.as_ref().map(Served::to_string).unwrap_or_default())
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

    /// Sets the figure of a metric, by its place.
    pub(crate) fn set(&mut self, metric: usize, value: Option<f64>) {
        self.numbers[metric] = value;
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

/// All of a comparison, as `--json` prints it and as the report shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    #[serde(flatten)]
    pub(crate) meta: Meta,
    /// Median share of the machine's CPU time that went to others during the runs, 0 to 1.
    pub(crate) competing_load: Option<f64>,
    /// What served the program's locks under each of the locks compared.
    pub(crate) served: Vec<ServedBy>,
    pub(crate) summary: Vec<Cell>,
    pub(crate) runs: Vec<Run>,
}

/// What served a program's locks.
#[derive(Debug, Serialize)]
pub(crate) struct ServedBy {
    pub(crate) lock: String,
    /// Of the run that was asked, the one with the most threads.
    pub(crate) threads: Option<u32>,
    #[serde(serialize_with = "as_text")]
    pub(crate) served: Option<Served>,
}

impl Document {
    /// Summarises what was measured.
    pub(crate) fn new(plan: &Plan, measured: Measured, date: String) -> Self {
        let meta = Meta::new(plan, &measured, date);
        Document::of(meta, measured.runs)
    }

    /// Summarises runs.
    pub(crate) fn of(meta: Meta, runs: Vec<Run>) -> Self {
        Document {
            competing_load: competing_load(&runs, meta.host.cpus),
            served: served(&meta, &runs),
            summary: summarise(&meta, &runs),
            meta,
            runs,
        }
    }

    /// The cells of a metric, by thread count, then by lock.
    pub(crate) fn cells<'a>(&'a self, metric: &'a MetricInfo) -> impl Iterator<Item = &'a Cell> {
        self.summary.iter().filter(move |cell| cell.metric == metric.name)
    }

    /// Runs that gave no value.
    pub(crate) fn bad_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.outcome != Outcome::Ok)
    }

    /// Whether any cell has a value.
    pub(crate) fn has_values(&self) -> bool {
        self.summary.iter().any(|cell| !cell.values.is_empty())
    }
}

fn served(meta: &Meta, runs: &[Run]) -> Vec<ServedBy> {
    let of = |lock: usize| {
        let asked = runs.iter().filter(|run| run.lock_index == lock && run.served.is_some());
        asked.max_by_key(|run| run.threads)
    };
    let said = |lock: usize| {
        let run = of(lock);
        ServedBy {
            lock: meta.locks[lock].clone(),
            threads: run.and_then(|run| run.threads),
            served: run.and_then(|run| run.served.clone()),
        }
    };
    let all: Vec<ServedBy> = (0..meta.locks.len()).map(said).collect();
    // Benchmarks of our own report nothing served, nor do result files of earlier layouts.
    if all.iter().any(|said| said.served.is_some()) { all } else { Vec::new() }
}

/// Above this share others' load is worth a warning.
pub(crate) const NOTABLE_LOAD: f64 = 0.1;

fn competing_load(runs: &[Run], cpus: usize) -> Option<f64> {
    let shares: Vec<f64> = runs
        .iter()
        .filter(|run| !run.warmup && run.wall_s > 0.0)
        .filter_map(|run| Some(run.competing_cpu_s? / (run.wall_s * cpus as f64)))
        .collect();
    Some(median(&shares)?.min(1.0))
}
