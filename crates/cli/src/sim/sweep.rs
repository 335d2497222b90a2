//! A sweep: locks × machines × thread counts × seeds, summarised as `compare` summarises real runs.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockwork_locks::registry::{Choice, DelegateSpec, delegates, mutexes};
use lockwork_sim::workload::{Frame, Protection, RunResult};
use lockwork_sim::{Machine, Options};
use lockwork_stats::fairness::{jain_index, unfairness_factor};
use serde::{Deserialize, Serialize};

use super::args::SweepArgs;
use super::workers::{self, Place};
use super::{machines, sensitivity, workload};
use crate::bench::command_line;
use crate::compare::metric::Metric;
use crate::compare::plan::{Plan, Simulated, split_locks};
use crate::compare::results::Document;
use crate::compare::runs::{Measured, Outcome, Run, Values};
use crate::compare::{files, interrupt, table};
use crate::error::Failure;
use crate::terminal;
use crate::terminal::say;

/// A sweep that can start.
pub(super) struct Sweep {
    pub(super) locks: Vec<Protection>,
    pub(super) machines: Vec<Machine>,
    /// For each machine.
    pub(super) threads: Vec<Vec<u32>>,
    pub(super) seeds: u32,
    pub(super) options: Options,
    pub(super) workload: workload::Choice,
    pub(super) pinned: bool,
    pub(super) processes: usize,
    pub(super) time_ms: f64,
    pub(super) commit: Option<String>,
}

/// One run.
struct Job<'a> {
    machine: &'a Machine,
    lock: &'a Protection,
    /// Indices of the lock, the thread count and the seed.
    at: (usize, usize, u32),
    threads: u32,
}

/// What a run gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Made {
    outcome: Outcome,
    reason: Option<String>,
    took: Duration,
    /// Bits of floating-point numbers, in the order of [`metrics`]: text would neither keep every figure nor know what is no number.
    figures: Option<Vec<u64>>,
}

/// Simulates, prints and writes what was asked for.
pub(super) fn main(args: &SweepArgs) -> Result<ExitCode, Failure> {
    let sweep = Sweep::new(args)?;
    if !args.no_report {
        files::prepare(&args.out)?;
    }
    interrupt::listen()?;
    let out = (!args.no_report).then_some(args.out.as_path());
    let place = args.place.at(out)?;
    if args.sensitivity && !matches!(place, Place::Here) {
        return Err(Failure::usage("--sensitivity runs on this host only: leave out --on slurm"));
    }
    // On this host one machine after the other, each with its table when it is done; a cluster gets all at once.
    let mut elsewhere = match place {
        Place::Here => None,
        _ => Some(sweep.run_elsewhere(&place)?.into_iter()),
    };
    if place.is_task() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut documents = Vec::new();
    for index in 0..sweep.machines.len() {
        let document = elsewhere.as_mut().and_then(Iterator::next).unwrap_or_else(|| sweep.run(index));
        // First the files: stdout may be a terminal that is gone.
        let write = || {
            let directory = args.out.join(&sweep.machines[index].name);
            files::prepare(&directory)?;
            files::write(&document, &directory)
        };
        let report = (!args.no_report).then(write).transpose();
        if !args.json {
            terminal::print(&table::body(&document))?;
        }
        if let Some(report) = report? {
            say!("report: {}", report.display());
        }
        documents.push(document);
    }
    if args.sensitivity {
        sensitivity::main(&sweep, &documents, args.json)?;
    } else if args.json {
        terminal::print_json(&documents)?;
    }
    Ok(match (interrupt::requested(), documents.iter().any(Document::has_values)) {
        (true, _) => ExitCode::from(interrupt::EXIT_STATUS),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

impl Sweep {
    /// Checks every part of the request.
    pub(super) fn new(args: &SweepArgs) -> Result<Self, Failure> {
        let mut machines: Vec<Machine> =
            args.machine.iter().map(|name| machines::find(name)).collect::<Result<_, _>>()?;
        if let Some(arbitration) = args.arbitration {
            machines.iter_mut().for_each(|machine| machine.memory.arbitration = arbitration);
        }
        let workload = args.workload.choose()?;
        let threads = machines
            .iter()
            .map(|machine| threads(&args.threads, machine, workload.fewest_threads()))
            .collect();
        let sweep = Self {
            locks: locks(&args.locks)?,
            machines,
            threads,
            seeds: args.seeds,
            options: Options {
                seed: u64::from(args.first_seed),
                spin_sleep: !args.no_spin_sleep,
                strict_spin: args.strict_spin,
                background: args.background as usize,
            },
            workload,
            pinned: !args.unpinned,
            processes: args.processes as usize,
            time_ms: args.time,
            commit: args.commit.clone(),
        };
        for (machine, threads) in sweep.machines.iter().zip(&sweep.threads) {
            threads
                .iter()
                .try_for_each(|threads| sweep.workload.check(*threads, args.processes, args.background))?;
            let frame = sweep.frame(machine, threads.iter().copied().max().unwrap_or(1));
            let cycles = frame.warm_up + frame.window;
            if cycles > args.max_cycles {
                return Err(Failure::usage(format!(
                    "a run on `{}` takes {cycles} cycles, more than --max-cycles {}: shorten --time or raise it",
                    machine.name, args.max_cycles
                )));
            }
        }
        Ok(sweep)
    }

    /// How the workload runs on a machine.
    pub(super) fn frame(&self, machine: &Machine, threads: u32) -> Frame {
        let (threads, processes) = (threads as usize, self.processes);
        let crowded = threads * processes > machine.cpus() || self.options.background > 0;
        let (warm_up, window) = times(machine, crowded, self.time_ms);
        let phases = self.workload.phases(machine);
        Frame {
            threads,
            processes,
            pinned: self.pinned,
            warm_up,
            window,
            phases,
            explain: false,
            profile: false,
        }
    }

    /// Simulates one of the machines.
    pub(super) fn run(&self, index: usize) -> Document {
        self.run_on(&self.machines[index], &self.threads[index])
    }

    /// Simulates all machines on a cluster; as a task of one, what its work list asks for.
    fn run_elsewhere(&self, place: &Place) -> Result<Vec<Document>, Failure> {
        let started = format!("{:.0}", jiff::Timestamp::now());
        let by_machine: Vec<Vec<Job<'_>>> = self
            .machines
            .iter()
            .zip(&self.threads)
            .map(|(machine, threads)| self.jobs(machine, threads))
            .collect();
        let jobs: Vec<&Job<'_>> = by_machine.iter().flatten().collect();
        let all: Vec<usize> = (0..jobs.len()).collect();
        let mut made: Vec<Option<Made>> = vec![None; jobs.len()];
        let keep = |index: usize, run| {
            made[index] = Some(run);
            Ok(())
        };
        workers::each(place, &jobs, &all, "simulated", |job| self.simulate(job), keep)?;
        let mut made = made.into_iter();
        let documents =
            by_machine.iter().zip(&self.machines).zip(&self.threads).map(|((jobs, machine), threads)| {
                let made = made.by_ref().take(jobs.len()).collect();
                self.document(machine, threads, jobs, made, started.clone())
            });
        Ok(documents.collect())
    }

    /// Simulates a machine.
    pub(super) fn run_on(&self, machine: &Machine, threads: &[u32]) -> Document {
        let started = format!("{:.0}", jiff::Timestamp::now());
        let jobs = self.jobs(machine, threads);
        let made = workers::map(&jobs, &machine.name, |job| self.simulate(job));
        self.document(machine, threads, &jobs, made, started)
    }

    /// The runs on a machine.
    fn jobs<'a>(&'a self, machine: &'a Machine, threads: &[u32]) -> Vec<Job<'a>> {
        let mut jobs = Vec::new();
        for seed in 0..self.seeds {
            for (t, threads) in threads.iter().enumerate() {
                for (l, lock) in self.locks.iter().enumerate() {
                    jobs.push(Job { machine, lock, at: (l, t, seed), threads: *threads });
                }
            }
        }
        jobs
    }

    /// What the runs on a machine come to; those that Ctrl-C has prevented are missing.
    fn document(
        &self,
        machine: &Machine,
        threads: &[u32],
        jobs: &[Job<'_>],
        made: Vec<Option<Made>>,
        started: String,
    ) -> Document {
        let plan = Plan::of_simulation(Simulated {
            machine: format!(
                "{}, {} CPUs on {} nodes, workload {}",
                machine.title,
                machine.cpus(),
                machine.nodes,
                self.workload
            ),
            locks: self.locks.iter().map(Protection::to_string).collect(),
            threads: threads.iter().map(|threads| Some(*threads)).collect(),
            metrics: metrics(self.processes),
            runs: self.seeds,
            command: command_line(),
            commit: self.commit.clone(),
        });
        let of_job = |(job, made): (&Job<'_>, Option<Made>)| {
            let made = made?;
            let mut values = Values::missing(plan.metric_names.clone());
            for (place, bits) in made.figures.into_iter().flatten().enumerate() {
                values.set(place, Some(f64::from_bits(bits)));
            }
            Some(Run::simulated(&plan, job.at, made.outcome, made.reason, made.took, values))
        };
        let runs: Vec<Run> = jobs.iter().zip(made).filter_map(of_job).collect();
        let measured = Measured { runs, interrupted: interrupt::requested(), hopeless: false };
        Document::new(&plan, measured, started)
    }

    fn simulate(&self, job: &Job<'_>) -> Made {
        let (_, _, seed) = job.at;
        let frame = self.frame(job.machine, job.threads);
        let begun = Instant::now();
        let options = Options { seed: u64::from(seed) + self.options.seed, ..self.options };
        let workload = self.workload.on(job.threads);
        let result = workload.run(&frame, job.machine, job.lock, options);
        let (outcome, reason) = judge(&result);
        let figures = (outcome == Outcome::Ok).then(|| figures(&frame, job.machine, &result));
        let figures = figures.map(|figures| figures.into_iter().map(f64::to_bits).collect());
        Made { outcome, reason, took: begun.elapsed(), figures }
    }
}

/// Cycles of warm-up and of the measurement, for so many milliseconds at least. Where threads share CPUs (`crowded`) they take some
/// time slices at least: until the first of them is over, nobody is preempted.
pub(super) fn times(machine: &Machine, crowded: bool, ms: f64) -> (u64, u64) {
    const SLICES: u64 = 8;
    const SLICES_OF_WARM_UP: u64 = 2;
    let slice = if crowded { machine.cycles(machine.os.slice_us * 1000) } else { 0 };
    let window = machine.cycles((ms * 1e6) as u64).max(SLICES * slice);
    ((window / 10).max(SLICES_OF_WARM_UP * slice), window)
}

/// What is measured, the primary figure first; where there are several processes, the throughput of each, too.
fn metrics(processes: usize) -> Vec<Metric> {
    let of = |(name, unit, higher): (&str, &'static str, bool)| Metric::printed(name, unit, higher);
    let all = [
        ("throughput", "1/s", true),
        ("section", "cycles", false),
        ("p50", "ns", false),
        ("p99", "ns", false),
        ("max", "ns", false),
        ("hand-off", "ns", false),
        ("transfers", "", false),
        ("remote", "", false),
        ("unfairness", "", false),
        ("jain", "", true),
        ("spinning", "", false),
        ("failures", "", false),
        ("starving", "threads", false),
    ];
    let several = if processes > 1 { processes } else { 0 };
    let each = (1..=several).map(|process| Metric::printed(&format!("process {process}"), "1/s", true));
    all.map(of).into_iter().chain(each).collect()
}

/// The figures of a run, in the order of [`metrics`].
fn figures(frame: &Frame, machine: &Machine, result: &RunResult) -> Vec<f64> {
    let seconds = machine.ns(frame.window) as f64 / 1e9;
    let ns = |cycles: f64| cycles / machine.ghz;
    let all = (frame.window + frame.warm_up) as f64;
    let each = |count: u64| count as f64 * frame.window as f64 / all / result.sections as f64;
    let busy = (frame.threads * frame.processes).min(machine.cpus()) as f64 * all;
    let [p50, p99, max] = result.percentiles.map(|cycles| ns(cycles as f64));
    let mut figures = vec![
        result.sections as f64 / seconds,
        result.section,
        p50,
        p99,
        max,
        ns(result.hand_off),
        each(result.transfers.total()),
        each(result.transfers.remote),
        unfairness_factor(&result.by_thread),
        jain_index(&result.by_thread),
        result.counts.spun as f64 / busy,
        result.failures as f64 / result.sections as f64,
        result.starving.len() as f64,
    ];
    if frame.processes > 1 {
        let each = result.by_process(frame.processes).into_iter();
        figures.extend(each.map(|sections| sections as f64 / seconds));
    }
    figures
}

/// What came of a run, and what is to be said of it: the state of every thread where some did not get on.
pub(super) fn judge(result: &RunResult) -> (Outcome, Option<String>) {
    let with = |what: &str, states: &str| Some(format!("{what}: {}", states.trim_end().replace('\n', "; ")));
    if let Some(threads) = &result.deadlock {
        return (Outcome::Crashed, with("deadlock", threads));
    }
    let states = result.states.as_deref().unwrap_or_default();
    match (&result.damage, result.sections) {
        (Some(damage), _) => (Outcome::Crashed, Some(damage.clone())),
        (None, 0) => (Outcome::TimedOut, with("no section ended within the simulated time", states)),
        (None, _) if !result.starving.is_empty() => {
            let what = format!("{} threads were in one section all the time", result.starving.len());
            (Outcome::Ok, with(&what, states))
        }
        (None, _) => (Outcome::Ok, None),
    }
}

/// One thread or the fewest that the workload can have, a node's CPUs, all CPUs, twice as many; or what was asked for.
pub(super) fn threads(asked: &[u32], machine: &Machine, fewest: u32) -> Vec<u32> {
    let cpus = machine.cpus() as u32;
    let default = [1, cpus / machine.nodes as u32, cpus, 2 * cpus].map(|threads| threads.max(fewest));
    let asked = if asked.is_empty() { &default[..] } else { asked };
    let mut threads: Vec<u32> = Vec::new();
    for count in asked {
        if !threads.contains(count) {
            threads.push(*count);
        }
    }
    threads
}

/// What guards the data, by its name. `auto` is the mutex here; the delegate of that name has another one, too.
fn protection(name: &str) -> Result<Protection, Failure> {
    let choice = crate::specs::parse(name);
    if choice.is_err()
        && let Ok(delegate) = DelegateSpec::parse(name)
    {
        return Ok(Protection::Delegate(delegate));
    }
    match choice? {
        Choice::Lock(spec) => Ok(Protection::Lock(spec)),
        Choice::Rw(spec) => Ok(Protection::Rw(spec)),
        Choice::Passthrough => {
            Err(Failure::usage("`passthrough` is glibc's lock: simulate `futex`, its algorithm"))
        }
        Choice::Both(..) | Choice::MutexOnly(_) => Err(Failure::usage(format!(
            "`{name}` names two locks, and one guards the data: name a mutex or a reader-writer lock"
        ))),
    }
}

/// The locks, in the order in which they were named.
pub(super) fn locks(text: &str) -> Result<Vec<Protection>, Failure> {
    let mut locks: Vec<Protection> = Vec::new();
    let mut add = |name: &str| {
        let lock = protection(name)?;
        if !locks.contains(&lock) {
            locks.push(lock);
        }
        Ok(())
    };
    for part in split_locks(text, "ttas,mcs-stp")? {
        match part {
            "pthread" => {
                return Err(Failure::usage(
                    "glibc's mutex itself cannot be simulated: `futex` has its algorithm",
                ));
            }
            "all" => mutexes().try_for_each(|lock| add(lock.name))?,
            "delegates" => delegates().try_for_each(|delegate| add(delegate.name))?,
            part => add(part)?,
        }
    }
    Ok(locks)
}
