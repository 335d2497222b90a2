//! The data of a comparison: every run, and the summary of every cell (a lock at a thread count).

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::engine::{Measured, given_up};
use super::plan::Plan;
use super::stats::{self, Estimate, Verdict};
use crate::host::Host;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
    pub(crate) values: Values,
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
            values,
        }
    }

    /// Whether the run belongs to this cell.
    pub(crate) fn is_of(&self, lock: usize, threads: usize) -> bool {
        self.lock_index == lock && self.threads_index == threads
    }
}

/// A metric, as the files describe it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MetricInfo {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) higher_is_better: bool,
}

/// One cell of one metric.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Cell {
    pub(crate) metric: String,
    pub(crate) lock: String,
    #[serde(skip)]
    pub(crate) lock_index: usize,
    pub(crate) threads: Option<u32>,
    #[serde(skip)]
    pub(crate) threads_index: usize,
    /// Runs counted, warm-up excluded.
    pub(crate) runs: usize,
    pub(crate) ok: usize,
    pub(crate) timed_out: usize,
    /// Crashed or without the metric.
    pub(crate) failed: usize,
    /// Time-outs ended the cell before its last round.
    pub(crate) gave_up: bool,
    /// The values of the good runs.
    pub(crate) values: Vec<f64>,
    /// The median; absent when any run was not good.
    pub(crate) median: Option<Estimate>,
    /// The median over the baseline's at the same thread count.
    pub(crate) ratio: Option<Estimate>,
    pub(crate) verdict: Verdict,
    /// The verdict with the counts that explain it.
    pub(crate) note: String,
}

/// All of a comparison, as `--json` prints it and as the report shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    /// Of this layout.
    pub(crate) schema: u32,
    pub(crate) lockwork: &'static str,
    /// When it began; UTC, RFC 3339.
    pub(crate) date: String,
    pub(crate) host: Host,
    /// The machine that the figures are of, where it is a simulated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) simulated: Option<String>,
    /// As given, before {threads} is replaced.
    pub(crate) command: Vec<String>,
    pub(crate) library: Option<String>,
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
    pub(crate) warmup_rounds: u32,
    pub(crate) timeout_s: f64,
    pub(crate) interrupted: bool,
    /// Ended after the first round, in which no run gave all metrics.
    pub(crate) hopeless: bool,
    pub(crate) baseline: String,
    pub(crate) locks: Vec<String>,
    pub(crate) threads: Vec<Option<u32>>,
    pub(crate) metrics: Vec<MetricInfo>,
    /// Median share of the machine's CPU time that went to others during the runs, 0 to 1.
    pub(crate) competing_load: Option<f64>,
    pub(crate) summary: Vec<Cell>,
    pub(crate) runs: Vec<Run>,
}

impl Document {
    /// Summarises what was measured.
    pub(crate) fn new(plan: &Plan, measured: Measured, date: String) -> Self {
        let host = Host::read();
        let summary =
            (0..plan.metrics.len()).flat_map(|metric| summarise(plan, &measured.runs, metric)).collect();
        let metrics = plan
            .metrics
            .iter()
            .map(|metric| MetricInfo {
                name: metric.name.clone(),
                unit: metric.unit,
                higher_is_better: metric.higher_is_better,
            })
            .collect();
        Document {
            schema: 1,
            lockwork: env!("CARGO_PKG_VERSION"),
            date,
            competing_load: competing_load(&measured.runs, host.cpus),
            host,
            simulated: plan.simulated.clone(),
            command: plan.command.clone(),
            library: plan.library().map(|library| library.path().display().to_string()),
            seed: plan.seed,
            rounds: plan.runs,
            warmup_rounds: plan.warmup,
            timeout_s: plan.timeout.as_secs_f64(),
            interrupted: measured.interrupted,
            hopeless: measured.hopeless,
            baseline: plan.locks[plan.baseline].name.clone(),
            locks: plan.locks.iter().map(|lock| lock.name.clone()).collect(),
            threads: plan.threads.clone(),
            metrics,
            summary,
            runs: measured.runs,
        }
    }

    /// The cells of a metric (an index into `metrics`), by thread count, then by lock.
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

/// Above this share others' load is worth a warning.
pub(crate) const NOTABLE_LOAD: f64 = 0.1;

fn competing_load(runs: &[Run], cpus: usize) -> Option<f64> {
    let shares: Vec<f64> = runs
        .iter()
        .filter(|run| !run.warmup && run.wall_s > 0.0)
        .filter_map(|run| Some(run.competing_cpu_s? / (run.wall_s * cpus as f64)))
        .collect();
    (!shares.is_empty()).then(|| stats::median(&shares).min(1.0))
}

fn summarise(plan: &Plan, runs: &[Run], metric: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for threads in 0..plan.threads.len() {
        let mut row: Vec<Cell> = (0..plan.locks.len())
            .map(|lock| {
                // Every cell's own stream of random numbers, whatever else is compared.
                let cell = (metric * 1000 + threads) * 1000 + lock;
                count(plan, runs, metric, lock, threads, plan.seed.wrapping_add(cell as u64))
            })
            .collect();
        let baseline = row[plan.baseline].clone();
        for cell in &mut row {
            let seed = plan.seed.wrapping_add(0x5eed).wrapping_add(cell.lock_index as u64);
            conclude(cell, &baseline, plan.metrics[metric].higher_is_better, seed);
        }
        cells.extend(row);
    }
    cells
}

/// Counts a cell's runs and takes their median.
fn count(plan: &Plan, runs: &[Run], metric: usize, lock: usize, threads: usize, seed: u64) -> Cell {
    let counted: Vec<&Run> = runs.iter().filter(|run| run.is_of(lock, threads) && !run.warmup).collect();
    let values: Vec<f64> = counted.iter().filter_map(|run| run.values.get(metric)).collect();
    let timed_out = counted.iter().filter(|run| run.outcome == Outcome::TimedOut).count();
    let clean = values.len() == counted.len();
    Cell {
        metric: plan.metrics[metric].name.clone(),
        lock: plan.locks[lock].name.clone(),
        lock_index: lock,
        threads: plan.threads[threads],
        threads_index: threads,
        runs: counted.len(),
        ok: values.len(),
        timed_out,
        failed: counted.len() - values.len() - timed_out,
        gave_up: counted.len() < plan.runs as usize && given_up(runs, lock, threads),
        median: if clean { stats::estimate(&values, seed) } else { None },
        values,
        ratio: None,
        verdict: Verdict::NotRun,
        note: String::new(),
    }
}

/// The verdict on a cell.
fn conclude(cell: &mut Cell, baseline: &Cell, higher_is_better: bool, seed: u64) {
    cell.verdict = if cell.timed_out > 0 || cell.gave_up {
        Verdict::Collapsed
    } else if cell.failed > 0 {
        Verdict::Failed
    } else if let Some(own) = cell.median {
        if cell.lock_index == baseline.lock_index {
            Verdict::Baseline
        } else if let Some(base) = baseline.median {
            cell.ratio = stats::ratio(&cell.values, &baseline.values, seed);
            match cell.ratio {
                Some(ratio) => stats::judge(own, base, ratio, cell.ok.min(baseline.ok), higher_is_better),
                None => Verdict::NoBaseline,
            }
        } else {
            Verdict::NoBaseline
        }
    } else {
        Verdict::NotRun
    };
    cell.note = note(cell);
}

fn note(cell: &Cell) -> String {
    let verdict = cell.verdict.text();
    match cell.verdict {
        Verdict::Collapsed if cell.runs == 0 => format!("{verdict} (timed out in warm-up, gave up)"),
        Verdict::Collapsed => {
            let gave_up = if cell.gave_up { ", gave up" } else { "" };
            let failed = if cell.failed > 0 { format!(", {} failed", cell.failed) } else { String::new() };
            format!("{verdict} ({}/{} timed out{failed}{gave_up})", cell.timed_out, cell.runs)
        }
        Verdict::Failed => format!("{verdict} ({}/{} runs)", cell.failed, cell.runs),
        _ => verdict.to_owned(),
    }
}
