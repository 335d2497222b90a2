//! `lockwork study watch`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueHint};
use lockwork_study::{Outcome, Status, outcomes, status, title};

use super::need_campaign;
use super::run::left;
use crate::error::Failure;
use crate::terminal;

/// `lockwork study watch`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork study watch lockwork-study/debian
  lockwork study watch campaigns/debian.toml --once")]
pub(crate) struct WatchArgs {
    /// The campaign: its TOML file, its directory or its runs.sqlite
    #[arg(value_name = "CAMPAIGN", value_hint = ValueHint::AnyPath)]
    campaign: PathBuf,
    /// Say it once, and do not wait for the end
    #[arg(long)]
    once: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
}

/// Says how far the campaign is until it is complete.
pub(super) fn watch(args: &WatchArgs) -> Result<ExitCode, Failure> {
    let database = need_campaign(&args.campaign)?;
    let mut said = String::new();
    loop {
        let status = status(&database).map_err(Failure::usage)?;
        let text = describe(&status);
        if text != said {
            terminal::print(&text)?;
            said = text;
        }
        if args.once || status.is_complete() {
            return Ok(ExitCode::SUCCESS);
        }
        for _ in 0..args.every {
            std::thread::sleep(Duration::from_secs(1));
            if terminal::reader_left() {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

fn describe(status: &Status) -> String {
    let list: Vec<String> =
        outcomes(&status.runs).iter().map(|(outcome, count)| format!("{count} {}", outcome.name())).collect();
    let mut lines = vec![format!(
        "{}: {} of {} runs, {} ({})",
        status.name,
        status.runs.len(),
        status.planned,
        if status.is_complete() { "complete".to_owned() } else { left(status.left) },
        if list.is_empty() { "none yet".to_owned() } else { list.join(", ") }
    )];
    let mut failed: Vec<_> = status.runs.iter().filter(|run| run.outcome != Outcome::Ok).collect();
    failed.sort_by(|a, b| a.started.cmp(&b.started));
    for run in failed.iter().rev().take(3).rev() {
        let reason = run.reason.as_deref().unwrap_or_default();
        lines.push(format!("  {}: {}: {reason}", title(&run.key), run.outcome.name()));
    }
    lines.join("\n")
}
