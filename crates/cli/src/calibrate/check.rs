//! `lockwork calibrate --check`: how far the simulator is off on the machine at hand.
//!
//! A grid of locks, thread counts and think times runs natively (`lockwork bench contend`) and simulated (the workload `micro`).
//! The native benchmark reads the clock within and between its sections; what that takes is measured, and simulated as
//! computing.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use comfy_table::CellAlignment;
use lockwork_platform::{Cpu, Native};
use lockwork_sim::Machine;
use lockwork_sim::workload::{Distribution, Micro, Protection};
use lockwork_stats::median;
use serde::Serialize;

use crate::bench::{Delay, contention};
use crate::compare::results::Document;
use crate::compare::{engine, format, interrupt};
use crate::error::Failure;
use crate::sim::grid::{self, Point};
use crate::terminal;
use crate::terminal::say;

/// The grid.
#[derive(Debug, Args)]
pub(super) struct GridArgs {
    /// With --check: a machine's file that was made before, in place of measuring now
    #[arg(long, value_name = "FILE", requires = "check")]
    pub(super) machine: Option<String>,
    /// With --check: the locks, those that others are compared with first
    #[arg(
        long,
        short,
        value_name = "A,B,…",
        requires = "check",
        default_value = "futex,ttas,ticket,mcs-spin,mcs-stp,clh-stp,linux-mutex,mutexee,cst-mutex,gcr(mcs-stp)"
    )]
    locks: String,
    /// With --check: thread counts
    #[arg(long, short, value_name = "N,…", requires = "check", value_delimiter = ',', default_value = "2,8,32", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: Vec<u32>,
    /// With --check: cycles that a thread thinks between two sections
    #[arg(long, value_name = "CYCLES,…", requires = "check", value_delimiter = ',', default_value = "300,5000,50000", value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    think: Vec<u64>,
}

/// A ratio to the first lock's throughput is right if it is off by no more than this.
const RATIO: f64 = 1.25;
/// The same of throughput.
const THROUGHPUT: f64 = 1.3;

/// What the rounds say of a figure: the median, and the lowest and the highest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Runs {
    count: usize,
    median: f64,
    lowest: f64,
    highest: f64,
}

impl Runs {
    /// Of all rounds; `None` if one has no figure.
    fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
        sorted.sort_by(f64::total_cmp);
        let (lowest, highest) = (*sorted.first()?, *sorted.last()?);
        Some(Self { count: sorted.len(), median: median(&sorted)?, lowest, highest })
    }

    /// Whether no two runs differ by more than this factor, so that it is the simulation that is wrong if it is off by that; `None` of
    /// one run.
    fn repeat(&self, factor: f64) -> Option<bool> {
        (self.count > 1).then(|| within(self.highest / self.lowest, factor))
    }
}

/// Sections a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Cell {
    think_cycles: u64,
    threads: u32,
    lock: String,
    /// `None` where the lock collapsed or failed in a round.
    native: Option<Runs>,
    simulated: Option<Runs>,
    /// To the first lock's of the same round.
    native_ratio: Option<Runs>,
    simulated_ratio: Option<Runs>,
    /// By round: native and simulated.
    #[serde(skip)]
    values: [Vec<Option<f64>>; 2],
}

impl Cell {
    /// Simulated over native.
    fn off(&self) -> Option<f64> {
        Some(self.simulated?.median / self.native?.median)
    }

    /// Whether the ratio to the first lock is right, and whether it is the same in all native runs; nothing of that lock itself.
    fn ratio(&self, first: &str) -> Option<Verdict> {
        let native = self.native_ratio.filter(|_| self.lock != first)?;
        Some(Verdict {
            is_right: within(self.simulated_ratio?.median / native.median, RATIO),
            repeats: native.repeat(RATIO),
        })
    }

    /// The same of the throughput.
    fn throughput(&self) -> Option<Verdict> {
        Some(Verdict { is_right: within(self.off()?, THROUGHPUT), repeats: self.native?.repeat(THROUGHPUT) })
    }
}

/// What comes of comparing a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    is_right: bool,
    /// Whether it repeats natively; `None` of one run.
    repeats: Option<bool>,
}

impl Verdict {
    fn text(self) -> &'static str {
        match (self.is_right, self.repeats) {
            (true, Some(false)) => "yes; runs differ",
            (false, Some(false)) => "no; runs differ",
            (true, _) => "yes",
            (false, _) => "no",
        }
    }
}

/// So many of so many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Share {
    right: usize,
    of: usize,
}

impl Share {
    fn of<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> Self {
        verdicts.fold(Share::default(), |share, verdict| Share {
            right: share.right + usize::from(verdict.is_right),
            of: share.of + 1,
        })
    }

    fn text(self) -> String {
        format!("{} of {} ({:.0}%)", self.right, self.of, 100.0 * self.right as f64 / self.of.max(1) as f64)
    }
}

/// How many of a kind of figures are right: of all, and of those that repeat natively.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Shares {
    all: Share,
    that_repeat: Share,
}

impl Shares {
    fn of(verdicts: &[Verdict]) -> Self {
        let repeating = verdicts.iter().filter(|verdict| verdict.repeats == Some(true));
        Self { all: Share::of(verdicts.iter()), that_repeat: Share::of(repeating) }
    }
}

fn within(factor: f64, most: f64) -> bool {
    factor <= most && factor >= 1.0 / most
}

/// Runs and simulates the grid, and prints both. Without a machine that is `given`, this one is measured over and over.
pub(super) fn main(
    given: Option<&Machine>,
    args: &GridArgs,
    quick: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let locks = grid::locks(&args.locks)?;
    if locks.iter().any(|lock| matches!(lock, Protection::Rw(_))) {
        return Err(Failure::usage("only mutexes are checked: name no reader-writer lock in --locks"));
    }
    interrupt::listen()?;
    let now = || given.map_or_else(super::this_host, |machine| Ok(machine.clone()));
    let (machine, clock_ns) = (now()?, clock());
    let mut cells = Vec::new();
    for &think in &args.think {
        say!("think time of {think} cycles: {} locks × {} thread counts", locks.len(), args.threads.len());
        for &threads in &args.threads {
            cells.extend(of_threads(&now, &locks, think, threads, clock_ns, quick)?);
        }
    }
    let first = locks[0].to_string();
    relate(&mut cells, &first);
    if json {
        terminal::print_json(&document(&machine, &cells, &first, clock_ns))?;
    } else {
        terminal::print(&render(&machine, &cells, &first))?;
    }
    Ok(if interrupt::requested() { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}

/// What reading the clock takes, in nanoseconds: the least of some batches, for nothing makes it faster than it is.
fn clock() -> f64 {
    const READINGS: u32 = 1000;
    let batch = || {
        let begin = Instant::now();
        (0..READINGS).for_each(|_| _ = black_box(Instant::now()));
        begin.elapsed().as_nanos() as f64 / f64::from(READINGS)
    };
    (0..50).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// All locks at one think time and number of threads. Each round is simulated on the machine as it was before: what a line takes from
/// one CPU to the other, or a wake, may be twice as much half a minute later, where others share the machine.
fn of_threads(
    now: &dyn Fn() -> Result<Machine, Failure>,
    locks: &[Protection],
    think: u64,
    threads: u32,
    clock_ns: f64,
    quick: bool,
) -> Result<Vec<Cell>, Failure> {
    // Both for the same time, which is long enough for a convoy to begin, as may take a hundred milliseconds, and to go on.
    let (rounds, time) = if quick { (1, Duration::from_millis(50)) } else { (5, Duration::from_millis(500)) };
    let of_lock =
        |lock: &Protection| Cell { think_cycles: think, threads, lock: lock.to_string(), ..Cell::default() };
    let mut cells: Vec<Cell> = locks.iter().map(of_lock).collect();
    for round in 1..=rounds {
        let mut machine = now()?;
        let cycles = |ns: f64| (ns * machine.ghz).round() as u64;
        let delay = Delay::Time(Duration::from_nanos((think as f64 / machine.ghz).round() as u64));
        // One reading of the clock before a section, one at the start of the delay, and on average half of one after its end.
        let micro = Micro {
            delay: Distribution::About(think + cycles(2.5 * clock_ns)),
            work: Distribution::Fixed(cycles(clock_ns)),
            ..Micro::SHORT
        };
        // Nobody tells the benchmark what a sleep costs here, so that its locks go by their default.
        machine.os.round_trip = cycles(Native::round_trip_ns() as f64);
        let native = natively(locks, threads, delay, time)?;
        let points: Vec<Point<'_, Micro>> =
            locks.iter().map(|lock| Point { workload: micro.clone(), lock, threads }).collect();
        let simulated = grid::throughputs(&machine, &points, time.as_secs_f64() * 1e3, round..=round);
        if interrupt::requested() {
            break;
        }
        for (cell, both) in cells.iter_mut().zip(native.into_iter().zip(simulated)) {
            cell.values[0].push(both.0);
            cell.values[1].push(both.1);
        }
    }
    Ok(cells)
}

/// Sections a second under each lock, in one run each.
fn natively(
    locks: &[Protection],
    threads: u32,
    delay: Delay,
    time: Duration,
) -> Result<Vec<Option<f64>>, Failure> {
    let names: Vec<String> = locks.iter().map(Protection::to_string).collect();
    let plan = contention(names.clone(), &[threads], delay, time, 1)?;
    let measured = Document::new(&plan, engine::measure(&plan), String::new());
    let metric = &measured.meta.metrics[0];
    let of = |name: String| measured.cells(metric).find(|cell| cell.lock == name)?.median;
    Ok(names.into_iter().map(|name| Some(of(name)?.value)).collect())
}

/// What the rounds of each cell say, and of its ratios to the first lock's.
fn relate(cells: &mut [Cell], first: &str) {
    let firsts: Vec<Cell> = cells.iter().filter(|cell| cell.lock == first).cloned().collect();
    for cell in cells {
        [cell.native, cell.simulated] = cell.values.each_ref().map(|values| Runs::of(values.iter().copied()));
        let is_its = |f: &&Cell| (f.think_cycles, f.threads) == (cell.think_cycles, cell.threads);
        let Some(base) = firsts.iter().find(is_its) else { continue };
        // Of a round: the machine may have been faster in the next.
        let of_rounds = |[own, base]: [&Vec<Option<f64>>; 2]| {
            Runs::of(own.iter().zip(base).map(|(own, base)| Some((*own)? / (*base)?)))
        };
        cell.native_ratio = of_rounds([&cell.values[0], &base.values[0]]);
        cell.simulated_ratio = of_rounds([&cell.values[1], &base.values[1]]);
    }
}

/// How many ratios and how many throughputs are right, of all cells or of those of a think time.
fn shares(cells: &[Cell], first: &str, think: Option<u64>) -> [Shares; 2] {
    let those = || cells.iter().filter(|cell| think.is_none_or(|think| cell.think_cycles == think));
    let ratios: Vec<Verdict> = those().filter_map(|cell| cell.ratio(first)).collect();
    let throughputs: Vec<Verdict> = those().filter_map(Cell::throughput).collect();
    [Shares::of(&ratios), Shares::of(&throughputs)]
}

fn thinks(cells: &[Cell]) -> Vec<u64> {
    let mut thinks: Vec<u64> = cells.iter().map(|cell| cell.think_cycles).collect();
    thinks.dedup();
    thinks
}

fn document(machine: &Machine, cells: &[Cell], first: &str, clock_ns: f64) -> serde_json::Value {
    let summary = |think: Option<u64>| {
        let [ratios, throughputs] = shares(cells, first, think);
        serde_json::json!({ "think_cycles": think, "ratios": ratios, "throughputs": throughputs })
    };
    let summaries = thinks(cells).into_iter().map(Some).chain([None]).map(summary);
    serde_json::json!({
        "machine": machine.name,
        "clock_ns": clock_ns,
        "baseline": first,
        "ratio_within": RATIO,
        "throughput_within": THROUGHPUT,
        "cells": cells,
        "summary": summaries.collect::<Vec<_>>(),
    })
}

fn render(machine: &Machine, cells: &[Cell], first: &str) -> String {
    let mut table = terminal::table();
    let ours = format!("× {first}, native");
    table.set_header([
        "think",
        "threads",
        "lock",
        "native 1/s",
        "lowest – highest",
        "simulated 1/s",
        "off by",
        &ours,
        "lowest – highest",
        "simulated",
        "within 1.25",
    ]);
    let nothing = || "—".to_owned();
    let range =
        |runs: Runs, text: fn(f64) -> String| format!("{} – {}", text(runs.lowest), text(runs.highest));
    for cell in cells {
        table.add_row([
            cell.think_cycles.to_string(),
            cell.threads.to_string(),
            cell.lock.clone(),
            cell.native.map_or_else(nothing, |runs| format::value(runs.median)),
            cell.native.map_or_else(nothing, |runs| range(runs, format::value)),
            cell.simulated.map_or_else(nothing, |runs| format::value(runs.median)),
            cell.off().map_or_else(nothing, format::ratio),
            cell.native_ratio.map_or_else(nothing, |runs| format::ratio(runs.median)),
            cell.native_ratio.map_or_else(nothing, |runs| range(runs, format::ratio)),
            cell.simulated_ratio.map_or_else(nothing, |runs| format::ratio(runs.median)),
            cell.ratio(first).map_or("", Verdict::text).to_owned(),
        ]);
    }
    for column in [0, 1, 3, 4, 5, 6, 7, 8, 9] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines = vec![format!("{}: sections a second\n{}", machine.title, table.trim_fmt())];
    let kinds = [format!("ratios to {first} within {RATIO}×"), format!("throughputs within {THROUGHPUT}×")];
    for think in thinks(cells).into_iter().map(Some).chain([None]) {
        let those = think.map_or_else(|| "in all".to_owned(), |think| format!("{think} cycles"));
        let of_kind = kinds.iter().zip(shares(cells, first, think));
        let of_kind = of_kind.map(|(kind, Shares { all, that_repeat })| {
            let repeating = format!(", {} where no two native runs differ by more", that_repeat.text());
            let repeating = if that_repeat.of > 0 { repeating } else { String::new() };
            format!("{kind}: {}{repeating}", all.text())
        });
        lines.push(format!("{those}: {}", of_kind.collect::<Vec<_>>().join("; ")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(think_cycles: u64, lock: &str, native: [f64; 3], simulated: [f64; 3]) -> Cell {
        let values = [native, simulated].map(|values| values.map(Some).to_vec());
        Cell { think_cycles, threads: 2, lock: lock.to_owned(), values, ..Cell::default() }
    }

    #[test]
    fn ratios_are_within_the_think_time_and_thread_count() {
        let mut cells = vec![
            cell(300, "futex", [100.0, 90.0, 110.0], [200.0, 180.0, 220.0]),
            cell(300, "ttas", [150.0, 135.0, 165.0], [290.0, 261.0, 319.0]),
            cell(300, "ticket", [100.0, 20.0, 105.0], [251.0, 240.0, 260.0]),
            cell(5000, "futex", [10.0; 3], [10.0; 3]),
            cell(5000, "ttas", [20.0; 3], [12.0; 3]),
        ];
        cells[4].values[1][2] = None;
        relate(&mut cells, "futex");
        // In each round, though the rounds differ.
        assert_eq!(cells[1].native_ratio, Some(Runs { count: 3, median: 1.5, lowest: 1.5, highest: 1.5 }));
        assert_eq!(cells[1].simulated_ratio.map(|runs| runs.median), Some(1.45));
        assert_eq!(cells[4].simulated_ratio, None);
        let share = |right, of| Share { right, of };
        let [ratios, throughputs] = shares(&cells, "futex", None);
        assert_eq!(ratios, Shares { all: share(1, 2), that_repeat: share(1, 1) });
        assert_eq!(throughputs, Shares { all: share(1, 4), that_repeat: share(1, 3) });
        let [ratios, throughputs] = shares(&cells, "futex", Some(5000));
        assert_eq!(ratios, Shares::default());
        assert_eq!(throughputs, Shares { all: share(1, 1), that_repeat: share(1, 1) });
        let text = render(&lockwork_sim::machine::named("e7-4850").unwrap(), &cells, "futex");
        let said = "in all: ratios to futex within 1.25×: 1 of 2 (50%), 1 of 1 (100%) where no two native runs differ by more";
        assert!(text.contains(said), "{text}");
        assert!(text.contains("no; runs differ"), "{text}");
    }

    #[test]
    fn a_factor_counts_in_both_directions() {
        assert!(within(1.25, 1.25) && within(0.8, 1.25));
        assert!(!within(1.26, 1.25) && !within(0.79, 1.25) && !within(f64::NAN, 1.25));
    }

    #[test]
    fn reading_the_clock_takes_time() {
        assert!(clock() > 0.0);
    }
}
