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
    /// What served the program's locks under each of the locks that ran; empty where no program was asked.
    pub(crate) served: Vec<ServedBy>,
    pub(crate) summary: Vec<Cell>,
    pub(crate) runs: Vec<Run>,
}

/// What served a program's locks.
#[derive(Debug, Serialize)]
pub(crate) struct ServedBy {
    pub(crate) lock: String,
    /// The most with which a run said it, or with which one ran, if none did.
    pub(crate) threads: Option<u32>,
    #[serde(serialize_with = "as_text")]
    pub(crate) served: Option<Served>,
}

impl Document {
    /// Summarises what was measured.
    pub(crate) fn new(plan: &Plan, measured: Measured, date: String) -> Self {
        let meta = Meta::new(plan, &measured, date);
        Document::of(meta, measured.runs, true)
    }

    /// Summarises runs. `asked` says whether programs were to report what the library served.
    pub(crate) fn of(meta: Meta, runs: Vec<Run>, asked: bool) -> Self {
        // Benchmarks of our own and simulations, which have a title, run no program.
        let asked = asked && meta.title.is_none();
        Document {
            competing_load: competing_load(&runs, meta.host.cpus),
            served: if asked { served(&meta, &runs) } else { Vec::new() },
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

/// What was served under each lock that ran, also where nothing was heard of it.
fn served(meta: &Meta, runs: &[Run]) -> Vec<ServedBy> {
    let said = |(index, lock): (usize, &String)| {
        let of = |heard: bool| {
            let ours =
                runs.iter().filter(move |run| run.lock_index == index && run.served.is_some() == heard);
            ours.max_by_key(|run| run.threads)
        };
        let run = of(true).or_else(|| of(false))?;
        Some(ServedBy { lock: lock.clone(), threads: run.threads, served: run.served.clone() })
    };
    meta.locks.iter().enumerate().filter_map(said).collect()
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
