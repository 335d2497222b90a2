//! `lockwork compare`: the same command under several locks, measured so that the figures can be trusted.

mod again;
mod args;
pub(crate) mod child;
mod coverage;
pub(crate) mod engine;
pub(crate) mod files;
pub(crate) mod format;
pub(crate) mod interrupt;
pub(crate) mod meta;
pub(crate) mod metric;
pub(crate) mod plan;
mod report;
pub(crate) mod results;
pub(crate) mod runs;
pub(crate) mod served;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod template;
pub(crate) mod verdict;
mod wide;

use std::process::ExitCode;

pub(crate) use args::CompareArgs;
pub(crate) use report::{CONTENT_POLICY, SCRIPT, STYLE};

use crate::error::Failure;
use crate::terminal;
use crate::terminal::say;
use plan::Plan;
use results::Document;

/// Runs the comparison. The exit status is 0 when anything was measured, 130 after Ctrl-C, else 1.
pub(crate) fn main(args: &CompareArgs) -> Result<ExitCode, Failure> {
    if let Some(directory) = &args.report_from {
        return again::main(directory);
    }
    if !args.coverage.is_empty() {
        return coverage::main(args);
    }
    let plan = Plan::new(args)?;
    if !args.no_report {
        files::prepare(&args.out)?;
    }
    interrupt::listen()?;
    announce(&plan);
    let date = format!("{:.0}", jiff::Timestamp::now());
    let document = Document::new(&plan, engine::measure(&plan), date);

    // First the files: stdout may be a terminal that is gone, and what was measured took hours.
    let is_kept = !args.no_report && !document.runs.is_empty();
    let report = is_kept.then(|| files::write(&document, &args.out)).transpose();
    if args.json {
        terminal::print_json(&document)?;
    } else {
        terminal::print(&table::render(&document))?;
    }
    match report? {
        Some(report) if args.json => say!("report: {}", report.display()),
        Some(report) => terminal::print(&format!("\nReport: {}", report.display()))?,
        None => {}
    }
    Ok(match (document.meta.interrupted, document.has_values()) {
        (true, _) => ExitCode::from(interrupt::EXIT_STATUS),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

/// Says what is about to happen and how long it can take at worst.
fn announce(plan: &Plan) {
    let cells = plan.locks.len() * plan.threads.len();
    let rounds = plan.runs + plan.warmup;
    let runs = cells as u64 * u64::from(rounds);
    let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    say!(
        "{runs} runs ({} × {} × {rounds} rounds, {} of them warm-up), each at most {} s; seed {}",
        many(plan.locks.len(), "lock"),
        many(plan.threads.len(), "thread count"),
        plan.warmup,
        plan.timeout.as_secs_f64(),
        plan.seed
    );
}
