//! `lockwork predict --check`: predictions for a simulated machine beside what the workloads themselves do there.
//!
//! A workload is profiled on one machine, with a thread on each of its CPUs, and the profile taken to another, where the workload is
//! simulated, too. What the profile keeps of it decides how far the two orders of the locks agree.

use std::process::ExitCode;

use lockwork_profile_reader::{Durations, Lock, Profile};
use lockwork_sim::workload::{Frame, LockUse, Protection, RunResult};
use lockwork_sim::{Machine, Options};
use lockwork_stats::{Estimate, kendall};
use serde::Serialize;

use super::predict::{MUTEXES, PredictArgs, fit, sweep_of, thread_counts};
use super::sweep::{locks, times};
use super::workload::Choice;
use super::{machines, workers};
use crate::compare::format;
use crate::compare::interrupt;
use crate::compare::results::Document;
use crate::error::Failure;
use crate::profile::view::View;
use crate::terminal;

/// So many of the truly best are compared.
const BEST: usize = 5;

/// How the orders are compared.
const RULE: &str = "tau: Kendall's tau-b of the five locks that are truly best there, by the medians over seeds. Two locks are tied where \
                    the intervals of their medians overlap; a lock that collapsed comes last. No tau where all are tied.";

/// A lock in both orders, in sections a second; none where it collapsed.
#[derive(Debug, Serialize)]
struct Pair {
    lock: String,
    predicted: Option<Estimate>,
    simulated: Option<Estimate>,
}

/// A workload at a thread count.
#[derive(Debug, Serialize)]
struct Row {
    workload: String,
    threads: u32,
    tau: Option<f64>,
    /// The truly best first.
    locks: Vec<Pair>,
}

#[derive(Debug, Serialize)]
struct Checked {
    profiled_on: String,
    predicted_for: String,
    rule: &'static str,
    cells: Vec<Row>,
}

pub(super) fn main(args: &PredictArgs) -> Result<ExitCode, Failure> {
    let machine = machines::find(&args.machine)?;
    let home = machines::find(args.host.as_deref().unwrap_or(&args.machine))?;
    let locks = locks(args.locks.as_deref().unwrap_or(MUTEXES))?;
    let threads = thread_counts(args, &machine, home.cpus() as u32);
    let workloads = Choice::to_predict()?;
    for workload in &workloads {
        threads.iter().try_for_each(|threads| workload.check(*threads, 1, 0))?;
    }
    interrupt::listen()?;
    let mut cells = Vec::new();
    for workload in workloads {
        if interrupt::requested() {
            break;
        }
        let (name, profiled_under) = (workload.to_string(), &locks[0]);
        let Some(view) = profile(&home, &workload, profiled_under, args.time) else { break };
        let fitted = Choice::of_sections(fit(&view)?.sections);
        let sweep =
            |workload| sweep_of(args, machine.clone(), threads.clone(), workload, locks.clone()).run(0);
        let (predicted, simulated) = (sweep(fitted), sweep(workload));
        cells.extend(threads.iter().map(|threads| row(&name, *threads, &predicted, &simulated)));
    }
    let checked =
        Checked { profiled_on: home.title.clone(), predicted_for: machine.title.clone(), rule: RULE, cells };
    if args.json {
        terminal::print_json(&checked)?;
    } else {
        terminal::print(&render(&checked))?;
    }
    Ok(if interrupt::requested() { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}

/// The profile of a run with a thread for each CPU; `None` after Ctrl-C.
fn profile(machine: &Machine, workload: &Choice, lock: &Protection, ms: f64) -> Option<View> {
    let threads = machine.cpus();
    let (warm_up, window) = times(machine, false, ms);
    let frame = Frame { threads, warm_up, window, pinned: false, profile: true, ..Frame::SHORT };
    let run = |_: &()| workload.on(threads as u32).run(&frame, machine, lock, Options::default());
    let result = workers::map(&[()], &machine.name, run).pop()??;
    Some(View::new(as_profile(machine, &frame, lock, &result)))
}

/// What a run shows, as the recorder would have written it.
fn as_profile(machine: &Machine, frame: &Frame, lock: &Protection, result: &RunResult) -> Profile {
    let of_lock = |(index, used): (usize, &LockUse)| {
        let durations = |cycles: &[u64]| {
            let mut durations = Durations::default();
            cycles.iter().for_each(|cycles| durations.add(machine.ns(*cycles)));
            durations
        };
        Lock {
            index: index as u32 + 1,
            // Locks of one place are of one kind.
            site: 0x1000,
            served_by: lock.to_string(),
            contended: used.waits.len() as u64,
            uncontended: used.uncontended,
            wait: durations(&used.waits),
            hold: durations(&used.holds),
            think: durations(&used.thinks),
            ..Lock::default()
        }
    };
    Profile {
        wall_ns: machine.ns(frame.window),
        threads: frame.threads as u64,
        locks: result.uses.iter().enumerate().map(of_lock).collect(),
        ..Profile::default()
    }
}

/// A workload's best locks at a thread count, in both orders.
fn row(workload: &str, threads: u32, predicted: &Document, simulated: &Document) -> Row {
    let median = |document: &Document, lock: &str| {
        let mut cells = document.cells(&document.meta.metrics[0]);
        cells.find(|cell| cell.threads == Some(threads) && cell.lock == lock).and_then(|cell| cell.median)
    };
    let pair = |lock: &String| Pair {
        lock: lock.clone(),
        predicted: median(predicted, lock),
        simulated: median(simulated, lock),
    };
    let mut locks: Vec<Pair> = simulated.meta.locks.iter().map(pair).collect();
    let truth = |pair: &Pair| pair.simulated.map_or(f64::NEG_INFINITY, |median| median.value);
    locks.sort_by(|a, b| truth(b).total_cmp(&truth(a)));
    locks.truncate(BEST);
    let pairs: Vec<_> = locks.iter().map(|pair| (pair.predicted, pair.simulated)).collect();
    Row { workload: workload.to_owned(), threads, tau: kendall(&pairs), locks }
}

fn render(checked: &Checked) -> String {
    let figure = |median: Option<Estimate>| {
        median.map_or_else(|| "—".to_owned(), |median| format::value(median.value))
    };
    let mut table = terminal::table();
    table.set_header(["workload", "threads", "tau", "lock", "simulated/s", "predicted/s"]);
    for row in &checked.cells {
        for (place, pair) in row.locks.iter().enumerate() {
            let once = |text: String| if place == 0 { text } else { String::new() };
            table.add_row([
                once(row.workload.clone()),
                once(row.threads.to_string()),
                once(row.tau.map_or_else(|| "—".to_owned(), |tau| format!("{tau:.2}"))),
                pair.lock.clone(),
                figure(pair.simulated),
                figure(pair.predicted),
            ]);
        }
    }
    format!(
        "Profiled on {}, predicted for {}:\n{}\n{}\n",
        checked.profiled_on,
        checked.predicted_for,
        table.trim_fmt(),
        checked.rule
    )
}
