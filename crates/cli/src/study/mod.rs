//! `lockwork study`: flags, then calls into the study's crate.

mod client;
mod report;
mod run;
mod watch;

pub(crate) use run::seconds;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueHint};
use lockwork_study::{Store, database};

use crate::error::Failure;
use crate::terminal;

/// `lockwork study`
#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// Run a campaign: applications × locks × levels of contention × placements, as a file describes it
    Run(run::RunArgs),
    /// Show how far a campaign is
    Watch(watch::WatchArgs),
    /// Print the runs of a campaign as CSV
    #[command(after_help = "\
Examples:
  lockwork study export lockwork-study/debian > debian.csv
  lockwork study export campaigns/debian.toml | lockwork study report --from /dev/stdin --table 4.9")]
    Export(ExportArgs),
    /// Load a server on a schedule and measure its response times, without coordinated omission
    Client(client::ClientArgs),
    /// A task of a campaign on Slurm: what its jobs start
    #[command(hide = true)]
    Work(run::WorkArgs),
    /// The thesis's tables and figures, of the runs in one or several files
    Report(report::ReportArgs),
}

/// `lockwork study export`
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The campaign: its TOML file, its directory or its runs.sqlite
    #[arg(value_name = "CAMPAIGN", value_hint = ValueHint::AnyPath)]
    campaign: PathBuf,
}

/// Runs the command.
pub(crate) fn main(command: &StudyCommand) -> Result<ExitCode, Failure> {
    match command {
        StudyCommand::Run(args) => run::run(args),
        StudyCommand::Watch(args) => watch::watch(args),
        StudyCommand::Export(args) => export(args),
        StudyCommand::Client(args) => client::client(args),
        StudyCommand::Work(args) => run::work(args),
        StudyCommand::Report(args) => report::report(args),
    }
}

fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let path = need_campaign(&args.campaign)?;
    let runs = Store::read(&path).and_then(|store| store.runs()).map_err(Failure::usage)?;
    terminal::print(lockwork_study::export(&runs).map_err(Failure::usage)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Where the campaign of this name goes, unless told otherwise.
fn default_out(name: &str) -> PathBuf {
    Path::new("lockwork-study").join(name)
}

/// The database that a path means, if it means a campaign and no file of runs.
fn campaign_of(path: &Path) -> Option<PathBuf> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        _ if path.is_dir() => Some(database(path)),
        Some("sqlite") => Some(path.to_owned()),
        Some("toml") => {
            let text = std::fs::read_to_string(path).ok()?;
            let campaign = lockwork_study::Campaign::parse(&text).ok()?;
            Some(database(&default_out(&campaign.name)))
        }
        _ => None,
    }
}

fn need_campaign(path: &Path) -> Result<PathBuf, Failure> {
    match campaign_of(path) {
        Some(database) if database.exists() => Ok(database),
        Some(database) => Err(Failure::usage(format!(
            "`{}` has no runs yet: there is no `{}`; begin with `lockwork study run`",
            path.display(),
            database.display()
        ))),
        None => Err(Failure::usage(format!(
            "`{}` is no campaign: name its TOML file, its directory or its runs.sqlite",
            path.display()
        ))),
    }
}
