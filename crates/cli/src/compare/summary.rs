//! The summary of every cell: a lock at a thread count, by one metric.

use lockwork_stats::{Estimate, Finding, Margin, Tolerance, compare, estimate, holm_of_some};
use serde::Serialize;

use super::meta::Meta;
use super::runs::{Outcome, Run, given_up};
use super::verdict::Verdict;

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
    /// The values of the good runs, by round.
    pub(crate) values: Vec<f64>,
    /// The rounds that they are of.
    #[serde(skip)]
    rounds: Vec<u32>,
    /// The median; absent when any run was not good.
    pub(crate) median: Option<Estimate>,
    /// The lock that it is compared with.
    pub(crate) baseline: String,
    /// Rounds in which both gave a value at the same thread count.
    pub(crate) pairs: usize,
    /// The median of the ratios to the baseline within these rounds.
    pub(crate) ratio: Option<Estimate>,
    /// Whether the ratio differs from 1 by more than 5%, by its interval.
    pub(crate) five_percent: Option<Margin>,
    /// The probabilities of such ratios between equals, by the paired Student t-test and by Wilcoxon's signed-rank test, with
    /// Holm's correction over all comparisons of the metric.
    pub(crate) student_p: Option<f64>,
    pub(crate) wilcoxon_p: Option<f64>,
    pub(crate) verdict: Verdict,
    /// The verdict with the counts that explain it.
    pub(crate) note: String,
}

/// All cells, by metric, by thread count, then by lock.
pub(crate) fn summarise(meta: &Meta, runs: &[Run]) -> Vec<Cell> {
    (0..meta.metrics.len()).flat_map(|metric| summarise_metric(meta, runs, metric)).collect()
}

fn summarise_metric(meta: &Meta, runs: &[Run], metric: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for threads in 0..meta.threads.len() {
        let mut row: Vec<Cell> = (0..meta.locks.len())
            .map(|lock| {
                // Every cell's own stream of random numbers, whatever else is compared.
                let cell = (metric * 1000 + threads) * 1000 + lock;
                count(meta, runs, metric, lock, threads, meta.seed.wrapping_add(cell as u64))
            })
            .collect();
        let all = row.clone();
        for cell in &mut row {
            let baseline = &all[meta.baseline_of(cell.lock_index)];
            let seed = meta.seed.wrapping_add(0x5eed).wrapping_add(cell.lock_index as u64);
            conclude(cell, baseline, meta.metrics[metric].higher_is_better, seed);
        }
        cells.extend(row);
    }
    correct(&mut cells);
    cells
}

/// Corrects the probabilities for the number of comparisons.
fn correct(cells: &mut [Cell]) {
    let of = |p: fn(&Cell) -> Option<f64>| holm_of_some(&cells.iter().map(p).collect::<Vec<_>>());
    let (student, wilcoxon) = (of(|cell| cell.student_p), of(|cell| cell.wilcoxon_p));
    for (cell, (student, wilcoxon)) in cells.iter_mut().zip(student.into_iter().zip(wilcoxon)) {
        (cell.student_p, cell.wilcoxon_p) = (student, wilcoxon);
    }
}

/// Counts a cell's runs and takes their median.
fn count(meta: &Meta, runs: &[Run], metric: usize, lock: usize, threads: usize, seed: u64) -> Cell {
    let counted: Vec<&Run> = runs.iter().filter(|run| run.is_of(lock, threads) && !run.warmup).collect();
    let good = |run: &&Run| Some((run.round, run.values.get(metric)?));
    let mut series: Vec<(u32, f64)> = counted.iter().filter_map(good).collect();
    series.sort_by_key(|&(round, _)| round);
    let (rounds, values): (Vec<u32>, Vec<f64>) = series.into_iter().unzip();
    let timed_out = counted.iter().filter(|run| run.outcome == Outcome::TimedOut).count();
    let clean = values.len() == counted.len();
    Cell {
        metric: meta.metrics[metric].name.clone(),
        lock: meta.locks[lock].clone(),
        lock_index: lock,
        threads: meta.threads[threads],
        threads_index: threads,
        runs: counted.len(),
        ok: values.len(),
        timed_out,
        failed: counted.len() - values.len() - timed_out,
        gave_up: counted.len() < meta.rounds as usize && given_up(runs, lock, threads),
        median: if clean { estimate(&values, seed) } else { None },
        values,
        rounds,
        baseline: meta.locks[meta.baseline_of(lock)].clone(),
        pairs: 0,
        ratio: None,
        five_percent: None,
        student_p: None,
        wilcoxon_p: None,
        verdict: Verdict::NotRun,
        note: String::new(),
    }
}

impl Cell {
    /// Its values, each with its round.
    fn series(&self) -> Vec<(u32, f64)> {
        self.rounds.iter().copied().zip(self.values.iter().copied()).collect()
    }
}

/// The verdict on a cell.
fn conclude(cell: &mut Cell, baseline: &Cell, higher_is_better: bool, seed: u64) {
    cell.verdict = if cell.timed_out > 0 || cell.gave_up {
        Verdict::Collapsed
    } else if cell.failed > 0 {
        Verdict::Failed
    } else if cell.median.is_some() {
        if cell.lock_index == baseline.lock_index {
            Verdict::Baseline
        } else if baseline.median.is_some() {
            let compared = compare(&cell.series(), &baseline.series(), seed);
            cell.pairs = compared.pairs;
            cell.ratio = compared.ratio;
            // The interval of fewer pairs than a verdict needs promises too much.
            let decided = compared.ratio.filter(|_| compared.finding != Finding::NotEnoughRounds);
            cell.five_percent = decided.map(|ratio| Tolerance::FIVE_PERCENT.rule(&ratio));
            cell.student_p = compared.t.map(|test| test.p);
            cell.wilcoxon_p = compared.wilcoxon.map(|test| test.p);
            Verdict::of(compared.finding, higher_is_better)
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
