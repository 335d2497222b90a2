//! `lockwork sim coverage`: how often each lock is among the best, over machines × workloads × thread counts × pinned or not.

mod plan;
mod store;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, ValueHint};
use lockwork_sim::Options;
use lockwork_stats::fairness::jain_index;
use lockwork_stats::median;

use self::plan::{Job, Plan};
use self::store::{Record, Store};
use super::workers::{self, PlaceArgs};
use super::workload::milliseconds;
use crate::compare::runs::Outcome;
use crate::compare::{files, interrupt};
use crate::coverage::{Cell, Entry, FAIR, Matrix, render, write};
use crate::error::Failure;
use crate::terminal;
use crate::terminal::say;

/// `lockwork sim coverage`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork sim coverage --quick                     a cut of the matrix, in two minutes on two cores
  lockwork sim coverage                             all of it; the same command goes on after Ctrl-C or a crash
  lockwork sim coverage --locks cst-mutex,futex,'gcr(mcs-stp)' --machine i-20 --threads 10,40
  lockwork sim coverage --forget cst-mutex          simulate this lock again, after a change of it
  lockwork sim coverage --load 'mine=--workload avl --delay 5000' --load short
  lockwork sim coverage --rwlocks --quick           reader-writer locks, by share of writers
  lockwork sim coverage --out shared --on slurm --jobs 100   on a cluster

A cell is a machine, a workload, a thread count and a placement. In each, a lock's throughput
(the median over the seeds) is divided by that of the best lock. A lock that collapsed has done
nothing. Every run is kept in the directory of --out as soon as it is over: runs that are there
are not made again, whichever cut of the matrix asked for them. Files: coverage.html with a heat
map, coverage.txt, coverage.csv, coverage.json.")]
pub(crate) struct CoverageArgs {
    /// A cut of the matrix: fewer machines, workloads and locks, one seed
    #[arg(long)]
    quick: bool,
    /// The reader-writer locks, with workloads of readers and writers
    #[arg(long)]
    rwlocks: bool,
    /// The locks, separated by commas; `all` means every lock without a wrapper [default: 23 locks of all families; with --quick 10]
    #[arg(long, short, value_name = "A,B,…")]
    locks: Option<String>,
    /// The machine: a name of `lockwork sim machines`, or a file; repeatable [default: a-64, i-20, e7-8870-v2, 2s-64; with --quick
    /// a-64, i-20, 2s-64]
    #[arg(long, short, value_name = "NAME|FILE")]
    machine: Vec<String>,
    /// The workload: one of short, middle, long, avl, hash, sections, phases (for --rwlocks rw0-500 to rw50-20000), or NAME=OPTIONS
    /// with options of `lockwork sim`; repeatable [default: all of them; with --quick short, middle, long, avl, sections]
    #[arg(long, value_name = "NAME|NAME=OPTIONS")]
    load: Vec<String>,
    /// Thread counts, separated by commas [default: 1, a node, all CPUs, twice as many]
    #[arg(long, short, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    threads: Vec<u32>,
    /// Only with threads that stay on their CPUs, or only with threads that the operating system moves [default: both; with --quick
    /// unpinned]
    #[arg(long, value_name = "pinned|unpinned", value_parser = ["pinned", "unpinned"])]
    placement: Option<String>,
    /// Runs of each cell and lock, with seeds from 1 [default: 3; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// Simulated milliseconds that are measured; at least eight time slices where threads outnumber CPUs
    #[arg(long, value_name = "MS", default_value_t = 2.0, value_parser = milliseconds)]
    time: f64,
    /// Let spinning locks spin for ever, as published
    #[arg(long)]
    strict_spin: bool,
    /// Forget the runs of this lock first; repeatable
    #[arg(long, value_name = "LOCK")]
    forget: Vec<String>,
    /// Only the K-th of N parts of the runs, into a file of its own in the same directory: for the tasks of a cluster without Slurm
    #[arg(long, value_name = "K/N", value_parser = part, conflicts_with = "on")]
    part: Option<(u32, u32)>,
    /// Where the runs and the reports go
    #[arg(long, short, value_name = "DIR", default_value = "lockwork-coverage", value_hint = ValueHint::DirPath)]
    out: PathBuf,
    /// The version of what is simulated, such as `git describe --always --dirty` says it: kept with every run
    #[arg(long, value_name = "VERSION", default_value = env!("CARGO_PKG_VERSION"))]
    commit: String,
    /// Print one JSON document on stdout in place of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// `3/16`
fn part(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    parts.filter(|(k, n)| (1..=*n).contains(k)).ok_or_else(|| "a part such as 3/16".to_owned())
}

/// Simulates what is missing, prints and writes the matrix. The exit status is 130 after Ctrl-C.
pub(super) fn main(args: &CoverageArgs) -> Result<ExitCode, Failure> {
    let plan = Plan::new(args)?;
    let jobs = plan.jobs();
    let place = args.place.at(Some(&args.out))?;
    let make = |job: &Job<'_>| simulate(&plan, job, &args.commit);
    interrupt::listen()?;
    if place.is_task() {
        // Runs are handed in: the coordinator keeps them.
        workers::each(&place, &jobs, &[], "coverage", make, |_, _| Ok(()))?;
        return Ok(ExitCode::SUCCESS);
    }
    files::prepare(&args.out)?;
    let mut forget = Vec::new();
    for lock in &args.forget {
        forget.extend(super::sweep::locks(lock)?.iter().map(ToString::to_string));
    }
    let store = Store::open(&args.out, args.part, &forget)?;
    for job in &jobs {
        store.rename(&plan.key_before(job), &job.key);
    }
    let missing: Vec<usize> = (0..jobs.len())
        .filter(|index| is_of_part(*index, args.part) && !store.has(&jobs[*index].key))
        .collect();
    say!(
        "cells: {}, locks: {}, seeds: {}; {} runs, {} of them to be simulated",
        plan.cells.len(),
        plan.locks.len(),
        plan.seeds,
        jobs.len(),
        missing.len()
    );
    workers::each(&place, &jobs, &missing, "coverage", make, |_, record| store.add(record))?;
    if interrupt::requested() {
        say!("interrupted: the same command goes on from here");
    }
    if args.part.is_some() {
        say!(
            "this part is in `{}`: `lockwork sim coverage` with the same options and without --part makes the report",
            args.out.display()
        );
    } else {
        report(args, &matrix(&plan, &jobs, &store))?;
    }
    Ok(if interrupt::requested() { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}

fn report(args: &CoverageArgs, matrix: &Matrix) -> Result<(), Failure> {
    let page = write(matrix, &args.out)?;
    if args.json {
        terminal::print_json(&matrix.json())?;
    } else {
        terminal::print(&render(matrix, terminal::table()))?;
    }
    say!("report: {}", page.display());
    Ok(())
}

fn is_of_part(index: usize, part: Option<(u32, u32)>) -> bool {
    part.is_none_or(|(k, n)| index % n as usize == k as usize - 1)
}

/// One run.
fn simulate(plan: &Plan, job: &Job<'_>, commit: &str) -> Record {
    let (cell, begun) = (job.cell, Instant::now());
    let machine = &plan.machines[cell.machine];
    let frame = plan.frame(cell);
    let options = Options { seed: u64::from(job.seed), strict_spin: plan.strict_spin, ..Options::default() };
    let workload = plan.loads[cell.load].choice.on(cell.threads);
    let result = workload.run(&frame, machine, job.lock, options);
    let (outcome, reason) = super::sweep::judge(&result);
    let ns = |cycles: u64| cycles as f64 / machine.ghz;
    let [_, p99, longest] = result.percentiles;
    Record {
        key: job.key.clone(),
        machine: machine.name.clone(),
        load: plan.loads[cell.load].name.clone(),
        commit: commit.to_owned(),
        outcome,
        reason,
        throughput: result.sections as f64 / (machine.ns(frame.window) as f64 / 1e9),
        p99_ns: ns(p99),
        longest_ns: ns(longest),
        window_ns: ns(frame.window),
        jain: jain_index(&result.by_thread),
        starving: result.starving.len(),
        took_s: begun.elapsed().as_secs_f64(),
    }
}

/// What the runs come to.
fn matrix(plan: &Plan, jobs: &[Job<'_>], store: &Store) -> Matrix {
    let mut entries: Vec<Vec<Vec<Record>>> = vec![vec![Vec::new(); plan.locks.len()]; plan.cells.len()];
    for job in jobs {
        if let Some(record) = store.get(&job.key) {
            entries[job.at.0][job.at.1].push(record);
        }
    }
    let cells = plan.cells.iter().zip(&entries).map(|(cell, locks)| Cell {
        group: plan.machines[cell.machine].name.clone(),
        workload: plan.loads[cell.load].name.clone(),
        threads: Some(cell.threads),
        placement: Some(if cell.pinned { "pinned" } else { "unpinned" }),
        command: plan.command(cell),
        entries: locks.iter().map(|records| entry(records)).collect(),
    });
    let locks = plan.locks.iter().map(ToString::to_string).collect();
    let matrix = Matrix { title: plan.title(), notes: Vec::new(), locks, cells: cells.collect() }.compared();
    let used: Vec<&Record> = entries.iter().flatten().flatten().collect();
    Matrix { notes: notes(plan, &matrix, &used), ..matrix }
}

fn notes(plan: &Plan, matrix: &Matrix, used: &[&Record]) -> Vec<String> {
    let mut notes = Vec::new();
    if matrix.cells.len() < plan.cells.len() {
        notes.push(format!(
            "{} of {} cells are not simulated yet.",
            plan.cells.len() - matrix.cells.len(),
            plan.cells.len()
        ));
    }
    let mut commits: Vec<&str> = used.iter().map(|record| record.commit.as_str()).collect();
    commits.sort_unstable();
    commits.dedup();
    if commits.len() > 1 {
        notes.push(format!("The runs are of several versions: {}.", commits.join(", ")));
    }
    let mut damaged: Vec<String> = used
        .iter()
        .filter(|record| record.outcome == Outcome::Crashed)
        .map(|record| format!("{} on {}, {}", record.key.lock, record.machine, record.trouble()))
        .collect();
    damaged.dedup();
    notes.extend(damaged.into_iter().map(|what| format!("Failed: {what}.")));
    notes
}

/// A lock in a cell: medians over the seeds.
fn entry(records: &[Record]) -> Option<Entry> {
    let of = |figure: fn(&Record) -> f64| median(&records.iter().map(figure).collect::<Vec<f64>>());
    let value = of(Record::value)?;
    let bad = records.iter().find(|record| record.outcome != Outcome::Ok);
    // In most of the seeds.
    let is_fair = records.iter().filter(|record| record.is_fair()).count() * 2 > records.len();
    let good = value > 0.0;
    Some(Entry {
        value,
        jain: of(|record| record.jain).filter(|_| good),
        p99: of(|record| record.p99_ns).filter(|_| good),
        fair: Some(good && is_fair),
        trouble: bad.map(Record::trouble),
    })
}

impl Record {
    /// The throughput that counts: a run in which no section ended, or that broke its data, has done nothing.
    fn value(&self) -> f64 {
        if self.outcome == Outcome::Ok { self.throughput } else { 0.0 }
    }

    /// What went wrong, without the state of every thread, which runs.jsonl has.
    fn trouble(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or("no figure");
        reason.split(": ").next().unwrap_or(reason).to_owned()
    }

    /// Whether no thread was kept waiting.
    fn is_fair(&self) -> bool {
        const SHARE_OF_THE_WINDOW: f64 = 0.1;
        self.starving == 0 && (self.jain >= FAIR || self.longest_ns <= SHARE_OF_THE_WINDOW * self.window_ns)
    }
}
