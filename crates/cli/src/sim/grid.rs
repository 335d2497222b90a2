//! The throughput of workloads on one machine, point by point, for what compares it with something else.

use std::ops::RangeInclusive;

use lockwork_sim::workload::{Frame, Protection, Workload};
use lockwork_sim::{Machine, Options};

use super::sweep::{judge, times};
use super::{machines, sweep, workers};
use crate::compare::runs::Outcome;
use crate::error::Failure;

/// A workload of so many threads, which the operating system may move, under a lock.
#[derive(Debug)]
pub(crate) struct Point<'a, W> {
    pub(crate) workload: W,
    pub(crate) lock: &'a Protection,
    pub(crate) threads: u32,
}

/// The machine of a name or a file.
pub(crate) fn machine(text: &str) -> Result<Machine, Failure> {
    machines::find(text)
}

/// Locks by their names.
pub(crate) fn locks(text: &str) -> Result<Vec<Protection>, Failure> {
    sweep::locks(text)
}

/// For each point sections a second, the median of runs of so many simulated milliseconds, one for each seed; `None` where a run
/// failed or was interrupted.
pub(crate) fn throughputs<W: Workload + Sync>(
    machine: &Machine,
    points: &[Point<'_, W>],
    ms: f64,
    seeds: RangeInclusive<u32>,
) -> Vec<Option<f64>> {
    let jobs: Vec<(&Point<'_, W>, u32)> =
        points.iter().flat_map(|point| seeds.clone().map(move |seed| (point, seed))).collect();
    let results = workers::map(&jobs, &machine.name, |(point, seed)| throughput(machine, point, ms, *seed));
    let of_point = |runs: &[Option<Option<f64>>]| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| run.flatten()).collect();
        lockwork_stats::median(&values?)
    };
    results.chunks(seeds.count()).map(of_point).collect()
}

fn throughput<W: Workload>(machine: &Machine, point: &Point<'_, W>, ms: f64, seed: u32) -> Option<f64> {
    let threads = point.threads as usize;
    let (warm_up, window) = times(machine, threads > machine.cpus(), ms);
    let frame = Frame {
        threads,
        processes: 1,
        pinned: false,
        warm_up,
        window,
        phases: None,
        explain: false,
        profile: false,
    };
    let options = Options { seed: seed.into(), spin_sleep: true, strict_spin: false, background: 0 };
    let result = point.workload.run(&frame, machine, point.lock, options);
    let seconds = machine.ns(window) as f64 / 1e9;
    (judge(&result).0 == Outcome::Ok).then(|| result.sections as f64 / seconds)
}
