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

/// Sections a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Cell {
    think_cycles: u64,
    threads: u32,
    lock: String,
    /// `None` where the lock collapsed or failed.
    native: Option<f64>,
    simulated: Option<f64>,
    /// To the first lock's: native and simulated.
    ratios: Option<[f64; 2]>,
}

impl Cell {
    /// Simulated over native.
    fn off(&self) -> Option<f64> {
        Some(self.simulated? / self.native?)
    }

    /// Whether the ratio to the first lock is right; nothing of that lock itself.
    fn ratio_is_right(&self, first: &str) -> Option<bool> {
        let [native, simulated] = self.ratios.filter(|_| self.lock != first)?;
        Some(within(simulated / native, RATIO))
    }
}

/// So many of so many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Share {
    right: usize,
    of: usize,
}

impl Share {
    fn count(all: impl Iterator<Item = bool>) -> Self {
        all.fold(Share::default(), |share, right| Share {
            right: share.right + usize::from(right),
            of: share.of + 1,
        })
    }

    fn text(self) -> String {
        format!("{} of {} ({:.0}%)", self.right, self.of, 100.0 * self.right as f64 / self.of.max(1) as f64)
    }
}

fn within(factor: f64, most: f64) -> bool {
    factor <= most && factor >= 1.0 / most
}

/// Runs and simulates the grid, and prints both.
pub(super) fn main(machine: &Machine, args: &GridArgs, quick: bool, json: bool) -> Result<ExitCode, Failure> {
    let locks = grid::locks(&args.locks)?;
    if locks.iter().any(|lock| matches!(lock, Protection::Rw(_))) {
        return Err(Failure::usage("only mutexes are checked: name no reader-writer lock in --locks"));
    }
    interrupt::listen()?;
    let clock_ns = clock();
    let mut cells = Vec::new();
    for &think in &args.think {
        cells.extend(of_think(machine, args, &locks, think, clock_ns, quick)?);
    }
    relate(&mut cells, &locks[0].to_string());
    if json {
        terminal::print_json(&document(machine, &cells, &locks[0].to_string(), clock_ns))?;
    } else {
        terminal::print(&render(machine, &cells, &locks[0].to_string()))?;
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

/// All locks and thread counts at one think time.
fn of_think(
    machine: &Machine,
    args: &GridArgs,
    locks: &[Protection],
    think: u64,
    clock_ns: f64,
    quick: bool,
) -> Result<Vec<Cell>, Failure> {
    // Both for the same time, which is long enough for a convoy to begin, as may take a hundred milliseconds, and to go on.
    let (runs, seeds, time, ms) = if quick { (1, 1, 0.05, 50.0) } else { (3, 3, 0.5, 500.0) };
    say!("think time of {think} cycles: {} locks × {} thread counts", locks.len(), args.threads.len());
    let names: Vec<String> = locks.iter().map(Protection::to_string).collect();
    let delay = Delay::Time(Duration::from_nanos((think as f64 / machine.ghz).round() as u64));
    let plan = contention(names, &args.threads, delay, Duration::from_secs_f64(time), runs)?;
    let native = Document::new(&plan, engine::measure(&plan), String::new());

    let cycles = |ns: f64| (ns * machine.ghz).round() as u64;
    // One reading of the clock before a section, one at the start of the delay, and on average half of one after its end.
    let micro = Micro {
        delay: Distribution::About(think + cycles(2.5 * clock_ns)),
        work: Distribution::Fixed(cycles(clock_ns)),
        ..Micro::SHORT
    };
    let points: Vec<Point<'_, Micro>> = args
        .threads
        .iter()
        .flat_map(|&threads| locks.iter().map(move |lock| (threads, lock)))
        .map(|(threads, lock)| Point { workload: micro.clone(), lock, threads })
        .collect();
    // Nobody tells the benchmark what a sleep costs here, so that its locks go by their default.
    let mut told = machine.clone();
    told.os.round_trip = cycles(Native::round_trip_ns() as f64);
    let simulated = grid::throughputs(&told, &points, ms, seeds);
    let metric = &native.meta.metrics[0];
    let of = |(point, simulated): (&Point<'_, Micro>, Option<f64>)| {
        let lock = point.lock.to_string();
        let is_it =
            |cell: &&crate::compare::summary::Cell| cell.threads == Some(point.threads) && cell.lock == lock;
        let native = native.cells(metric).find(is_it).and_then(|cell| Some(cell.median?.value));
        Cell { think_cycles: think, threads: point.threads, lock, native, simulated, ratios: None }
    };
    Ok(points.iter().zip(simulated).map(of).collect())
}

/// Gives each cell its ratios to the first lock's.
fn relate(cells: &mut [Cell], first: &str) {
    let firsts: Vec<Cell> = cells.iter().filter(|cell| cell.lock == first).cloned().collect();
    for cell in cells {
        let base = firsts.iter().find(|f| (f.think_cycles, f.threads) == (cell.think_cycles, cell.threads));
        cell.ratios = base.and_then(|base| {
            Some([
                cell.native? / base.native.filter(|v| *v > 0.0)?,
                cell.simulated? / base.simulated.filter(|v| *v > 0.0)?,
            ])
        });
    }
}

/// How many ratios and how many throughputs are right, of all cells and of those of a think time.
fn shares(cells: &[Cell], first: &str, think: Option<u64>) -> [Share; 2] {
    let those = || cells.iter().filter(|cell| think.is_none_or(|think| cell.think_cycles == think));
    [
        Share::count(those().filter_map(|cell| cell.ratio_is_right(first))),
        Share::count(those().filter_map(|cell| Some(within(cell.off()?, THROUGHPUT)))),
    ]
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
    let (ours, theirs) = (format!("× {first}, native"), "simulated".to_owned());
    table.set_header([
        "think",
        "threads",
        "lock",
        "native 1/s",
        "simulated 1/s",
        "off by",
        &ours,
        &theirs,
        "within 1.25",
    ]);
    let number = |value: Option<f64>| value.map_or_else(|| "—".to_owned(), format::value);
    for cell in cells {
        let ratio = |place: usize| cell.ratios.map_or_else(|| "—".to_owned(), |r| format::ratio(r[place]));
        table.add_row([
            cell.think_cycles.to_string(),
            cell.threads.to_string(),
            cell.lock.clone(),
            number(cell.native),
            number(cell.simulated),
            cell.off().map_or_else(|| "—".to_owned(), format::ratio),
            ratio(0),
            ratio(1),
            cell.ratio_is_right(first).map_or("", |right| if right { "yes" } else { "no" }).to_owned(),
        ]);
    }
    for column in [0, 1, 3, 4, 5, 6, 7] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines = vec![format!("{}: sections a second\n{}", machine.title, table.trim_fmt())];
    for think in thinks(cells).into_iter().map(Some).chain([None]) {
        let [ratios, throughputs] = shares(cells, first, think);
        lines.push(format!(
            "{}: {} of the ratios to {first} are within {RATIO}×, {} of the throughputs within {THROUGHPUT}×",
            think.map_or_else(|| "in all".to_owned(), |think| format!("{think} cycles")),
            ratios.text(),
            throughputs.text()
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(think_cycles: u64, lock: &str, native: f64, simulated: f64) -> Cell {
        let (native, simulated) = (Some(native), Some(simulated));
        Cell { think_cycles, threads: 2, lock: lock.to_owned(), native, simulated, ratios: None }
    }

    #[test]
    fn ratios_are_within_the_think_time_and_thread_count() {
        let mut cells = vec![
            cell(300, "futex", 100.0, 200.0),
            cell(300, "ttas", 150.0, 290.0),
            cell(300, "ticket", 100.0, 251.0),
            cell(5000, "futex", 10.0, 10.0),
            cell(5000, "ttas", 20.0, 12.0),
        ];
        cells[4].simulated = None;
        relate(&mut cells, "futex");
        assert_eq!(cells[1].ratios, Some([1.5, 1.45]));
        assert_eq!(cells[4].ratios, None);
        assert_eq!(shares(&cells, "futex", None), [Share { right: 1, of: 2 }, Share { right: 1, of: 4 }]);
        assert_eq!(shares(&cells, "futex", Some(5000)), [Share::default(), Share { right: 1, of: 1 }]);
        let text = render(&lockwork_sim::machine::named("e7-4850").unwrap(), &cells, "futex");
        assert!(text.contains("in all: 1 of 2 (50%) of the ratios to futex are within 1.25×"), "{text}");
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
