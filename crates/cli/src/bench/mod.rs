//! `lockwork bench`: the locks themselves, without a program around them, each run in a process of its own so that a
//! lock that hangs or crashes is a result and not the end.

mod args;
mod measure;
mod options;
mod plan;

use std::process::ExitCode;

use serde::Serialize;

use crate::compare::results::Document;
use crate::compare::{engine, files, interrupt, table};
use crate::error::Failure;
use crate::host::Host;
use crate::terminal;
use crate::terminal::say;
pub(crate) use args::BenchArgs;
pub(crate) use options::Delay;
pub(crate) use plan::{command_line, contention};

/// All that was measured.
#[derive(Debug, Serialize)]
struct Results {
    /// Of this layout.
    schema: u32,
    lockwork: &'static str,
    /// When it began; UTC, RFC 3339.
    date: String,
    host: Host,
    /// As given.
    command: Vec<String>,
    interrupted: bool,
    benchmarks: Vec<Section>,
}

/// One benchmark.
#[derive(Debug, Serialize)]
struct Section {
    name: &'static str,
    /// Seconds that a run measured.
    time_s: f64,
    delay: String,
    lines: u32,
    instances: u32,
    counts: Vec<u32>,
    /// Every run and the summary of every cell, as `compare` has them.
    #[serde(flatten)]
    document: Document,
}

/// Runs the benchmarks. The exit status is 0 when anything was measured, 130 after Ctrl-C, else 1.
pub(crate) fn main(args: &BenchArgs) -> Result<ExitCode, Failure> {
    if args.measure {
        return measure::main(args);
    }
    let plans = plan::plans(args)?;
    if !args.no_report {
        files::prepare(&args.out)?;
    }
    interrupt::listen()?;
    let date = format!("{:.0}", jiff::Timestamp::now());
    let mut benchmarks = Vec::new();
    for (benchmark, plan) in plans {
        if interrupt::requested() {
            break;
        }
        let rounds = plan.runs + plan.warmup;
        let runs = (plan.locks.len() * plan.threads.len()) as u64 * u64::from(rounds);
        say!("{}: {runs} runs in {rounds} rounds, {} of warm-up", benchmark.name(), plan.warmup);
        let started = format!("{:.0}", jiff::Timestamp::now());
        let section = Section {
            name: benchmark.name(),
            time_s: args.time.as_secs_f64(),
            delay: args.delay.to_string(),
            lines: args.lines,
            instances: args.instances,
            counts: args.counts.clone(),
            document: Document::new(&plan, engine::measure(&plan), started),
        };
        // First the files: stdout may be a terminal that is gone.
        let write = || files::write(&section.document, &args.out.join(section.name));
        let report = (!args.no_report).then(write).transpose();
        if !args.json {
            terminal::print(&table::body(&section.document))?;
        }
        if let Some(report) = report? {
            say!("report: {}", report.display());
        }
        benchmarks.push(section);
    }
    let results = Results {
        schema: 1,
        lockwork: env!("CARGO_PKG_VERSION"),
        date,
        host: Host::read(),
        command: plan::command_line(),
        interrupted: interrupt::requested(),
        benchmarks,
    };
    if args.json {
        terminal::print_json(&results)?;
    } else {
        terminal::print(&format!("{}\n{}", results.host.line(), results.date))?;
    }
    Ok(match (results.interrupted, results.benchmarks.iter().all(|section| section.document.has_values())) {
        (true, _) => ExitCode::from(interrupt::EXIT_STATUS),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}
