//! The data of a comparison: every run, and all of it as one document.

use lockwork_stats::median;
use serde::Serialize;

use super::meta::{Meta, MetricInfo};
use super::plan::Plan;
use super::runs::{Measured, Outcome, Run, as_text};
use super::served::Served;
use super::summary::{Cell, summarise};

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
