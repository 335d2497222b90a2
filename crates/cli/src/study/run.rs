//! `lockwork study run`.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, ValueHint};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use lockwork_study::{
    Campaign, Cover, Finish, Hold, Metric, Outcome, POWERCAP, Progress, Report, Settings, Store, Study,
    campaign_tables, database, outcomes, title,
};

use super::default_out;
use crate::cluster::ClusterArgs;
use crate::compare::interrupt;
use crate::error::Failure;
use crate::preload::{self, Library, Request};
use crate::terminal;
use crate::terminal::say;

/// `lockwork study run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork study run campaigns/debian.toml --quick         ten minutes
  lockwork study run campaigns/debian.toml                 a night; the same command goes on after a crash
  lockwork study run campaigns/debian.toml --only rocksdb  one application of it
  lockwork study run campaigns/sim.toml --on slurm --share-nodes --jobs 200
  lockwork study run mine.toml --forget server             after a change of the application `server`

Every run is a row of runs.sqlite in the campaign's directory before the next begins. Runs that
crash, hang or print no figure are kept with the reason, and take no part in a mean; a
configuration that failed twice is not tried again. The report is written at the end, and by
`lockwork study report --from DIRECTORY` at any time.")]
pub(crate) struct RunArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN.toml", value_hint = ValueHint::FilePath)]
    campaign: PathBuf,
    /// The short version, as the file's section `quick` says
    #[arg(long)]
    quick: bool,
    /// The campaign's directory [default: lockwork-study/NAME]
    #[arg(long, short, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Only these applications
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// In place of the campaign's: so long may all runs take together, such as 90s, 30m or 8h. On this host those of earlier
    /// commands count, too; with --on slurm it is the time since this command began, and runs that have begun by then are
    /// still made
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    budget: Option<f64>,
    /// The version of what is measured, such as `git describe --always --dirty` says it: kept with every run
    #[arg(long, value_name = "VERSION", default_value = env!("CARGO_PKG_VERSION"))]
    commit: String,
    /// Forget the runs of this application first
    #[arg(long, value_name = "NAME")]
    forget: Vec<String>,
    /// Forget the runs without a figure first, so that they are made again
    #[arg(long)]
    retry_failed: bool,
    /// Where the energy counters are
    #[arg(long, value_name = "DIR", default_value = POWERCAP, hide = true)]
    powercap: PathBuf,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// With --on slurm: tasks may share a node, as simulations can
    #[arg(long)]
    share_nodes: bool,
    /// Print what would run, and run nothing
    #[arg(long)]
    dry_run: bool,
}

/// A time such as `90s`, in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.chars().last() {
        Some('s') => (&text[..text.len() - 1], 1.0),
        Some('m') => (&text[..text.len() - 1], 60.0),
        Some('h') => (&text[..text.len() - 1], 3600.0),
        _ => (text, 1.0),
    };
    // More than 115 days is a mistake.
    let value = number.parse::<f64>().ok().map(|value| value * factor);
    let value = value.filter(|value| *value > 0.0 && *value <= 1e7);
    value.ok_or_else(|| "a time such as 90s, 30m or 8h".to_owned())
}

/// The campaign of a file, with what the flags change, and the file's text.
fn read(args: &RunArgs) -> Result<(Campaign, String), Failure> {
    let text = std::fs::read_to_string(&args.campaign)
        .map_err(|error| Failure::usage(format!("`{}`: {error}", args.campaign.display())))?;
    let of = |why: String| Failure::usage(format!("`{}`: {why}", args.campaign.display()));
    let mut campaign = Campaign::parse(&text).map_err(of)?;
    if args.quick {
        campaign = campaign.quick();
    }
    campaign.budget = args.budget.or(campaign.budget);
    for name in args.only.iter().chain(&args.forget) {
        if campaign.application(name).is_none() {
            let names: Vec<&str> = campaign.applications.iter().map(|app| app.name.as_str()).collect();
            return Err(Failure::usage(format!("no application `{name}`; there are {}", names.join(", "))));
        }
    }
    if !args.only.is_empty() {
        campaign.applications.retain(|application| args.only.contains(&application.name));
    }
    for application in campaign.applications.iter().filter(|application| application.interposed) {
        let locks = application.locks.as_ref().unwrap_or(&campaign.locks);
        for lock in locks.iter().filter(|lock| *lock != "pthread") {
            crate::specs::parse(lock)?;
        }
    }
    Ok((campaign, text))
}

/// Runs a campaign to its end.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let (campaign, text) = read(args)?;
    let out = args.out.clone().unwrap_or_else(|| default_out(&campaign.name));
    if args.dry_run {
        return dry_run(&campaign);
    }
    let recorded = |error: lockwork_study::Error| {
        Failure::with_status(
            1,
            format!("{error}; what was recorded is kept, and the same command goes on from there"),
        )
    };
    // Before anything is forgotten: it may be what another command is just making.
    let hold = Hold::take(&out).map_err(recorded)?;
    forget(args, &hold)?;
    interrupt::listen()?;
    let bar = progress_bar();
    let library: OnceCell<Library> = OnceCell::new();
    let dress = |lock: &str, command: &mut Command| dress(&library, lock, command);
    let progress = |progress: &Progress<'_>| show(&bar, progress);
    let warn = |what: &str| bar.suspend(|| say!("{what}"));
    let settings = Settings {
        out: out.clone(),
        lockwork: std::env::current_exe().map_err(Failure::usage)?,
        commit: args.commit.clone(),
        powercap: args.powercap.clone(),
        host: None,
        dress: &dress,
        interrupted: &interrupt::requested,
        progress: &progress,
        warn: &warn,
    };
    let finish = match args.cluster.cluster(!args.share_nodes) {
        None => lockwork_study::run(&campaign, &text, &settings, &hold),
        Some(cluster) => lockwork_study::run_on_slurm(&campaign, &text, &settings, &hold, &cluster),
    };
    bar.finish_and_clear();
    finish_report(&campaign, &out, finish.map_err(recorded)?)
}

/// `lockwork study work`
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// The campaign's directory
    out: PathBuf,
    /// Say what this node is, and run nothing
    #[arg(long)]
    describe: bool,
    /// The directory below `scratch` for the files of the applications
    #[arg(long, default_value = "task")]
    scratch: String,
    /// Kept with every run
    #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
    commit: String,
}

/// Runs units of a campaign's work list.
pub(super) fn work(args: &WorkArgs) -> Result<ExitCode, Failure> {
    if args.describe {
        terminal::print(&lockwork_study::describe(&args.out).map_err(Failure::usage)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let campaign = lockwork_study::campaign_of_queue(&args.out).map_err(Failure::usage)?;
    interrupt::listen()?;
    let library: OnceCell<Library> = OnceCell::new();
    let dress = |lock: &str, command: &mut Command| dress(&library, lock, command);
    let settings = Settings {
        out: args.out.clone(),
        lockwork: std::env::current_exe().map_err(Failure::usage)?,
        commit: args.commit.clone(),
        powercap: POWERCAP.into(),
        host: std::env::var("SLURMD_NODENAME").ok(),
        dress: &dress,
        interrupted: &interrupt::requested,
        progress: &|_| {},
        warn: &|_| {},
    };
    lockwork_study::work(&campaign, &settings, &args.scratch)
        .map_err(|error| Failure::with_status(1, error))?;
    Ok(ExitCode::SUCCESS)
}

/// Puts a lock under a command.
fn dress(library: &OnceCell<Library>, lock: &str, command: &mut Command) -> Result<(), String> {
    let found = || -> Result<Library, String> {
        match library.get() {
            Some(library) => Ok(library.clone()),
            None => {
                let found = Library::find().map_err(|failure| failure.to_string())?;
                Ok(library.get_or_init(|| found).clone())
            }
        }
    };
    if lock == "pthread" {
        // Without a library there is none to take away.
        preload::apply(&preload::without_library(found().ok().as_ref()), command);
        return Ok(());
    }
    let request = Request { lock: Some(lock.to_owned()), verbose: true, ..Request::default() };
    preload::apply(&preload::with_library(&found()?, &request), command);
    Ok(())
}

fn forget(args: &RunArgs, hold: &Hold) -> Result<(), Failure> {
    for name in &args.forget {
        let runs = hold.forget(Some(name)).map_err(Failure::usage)?;
        say!("forgot {runs} runs of {name}");
    }
    if args.retry_failed {
        let runs = hold.forget(None).map_err(Failure::usage)?;
        say!("forgot {runs} runs without a figure");
    }
    Ok(())
}

fn dry_run(campaign: &Campaign) -> Result<ExitCode, Failure> {
    let (plan, absent) = lockwork_study::preview(campaign).map_err(Failure::usage)?;
    let mut lines: Vec<String> = plan
        .cells
        .iter()
        .map(|cell| {
            let (name, level) = (&cell.application.name, cell.level);
            format!("{name} × {} threads, {}: {}", level.threads, cell.placement.name(), cell.locks.join(" "))
        })
        .collect();
    for (application, lock, why) in absent {
        lines.push(format!("not run: {application} {lock}: {why}").replace(" : ", ": "));
    }
    lines.push(format!("{} runs in {} rounds", plan.least(), campaign.rounds));
    terminal::print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn progress_bar() -> ProgressBar {
    // Hidden by itself when stderr is no terminal.
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {prefix}: {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// How long, for people.
pub(super) fn left(seconds: Option<f64>) -> String {
    match seconds {
        Some(seconds) => format!("about {} left", HumanDuration(Duration::from_secs_f64(seconds.max(0.0)))),
        None => "time left unknown".to_owned(),
    }
}

fn show(bar: &ProgressBar, progress: &Progress<'_>) {
    bar.set_length(progress.all as u64);
    bar.set_position(progress.made as u64);
    bar.set_prefix(left(progress.left));
    if let Some(run) = progress.last.filter(|run| run.outcome != Outcome::Ok) {
        let reason = run.reason.as_deref().unwrap_or_default();
        bar.suspend(|| say!("{}: {}: {reason}", title(&run.key), run.outcome.name()));
    }
    bar.set_message(progress.next.map(title).unwrap_or_default());
}

/// Writes the report and says how it went.
fn finish_report(campaign: &Campaign, out: &Path, finish: Finish) -> Result<ExitCode, Failure> {
    let store = Store::read(&database(out)).map_err(Failure::usage)?;
    let (runs, absent) = (store.runs().map_err(Failure::usage)?, store.absent().map_err(Failure::usage)?);
    let own = campaign_tables(&runs, &absent, &campaign.baseline);
    let studies = Study::of_records(&runs);
    let cover = Cover::of(&store, &runs).map_err(Failure::usage)?;
    let report = Report {
        studies: &studies,
        metric: Metric::Throughput,
        level: None,
        baseline: &campaign.baseline,
        cover: Some(&cover),
        campaign: &own,
        observations: None,
    };
    let write = |name: &str, text: &str| {
        let path = out.join(name);
        std::fs::write(&path, text)
            .map_err(|error| Failure::with_status(1, format!("`{}`: {error}", path.display())))
    };
    write("runs.csv", &lockwork_study::export(&runs).map_err(Failure::usage)?)?;
    let outcomes = outcomes(&runs);
    let good = outcomes.get(&Outcome::Ok).copied().unwrap_or_default();
    if good > 0 {
        write("report.html", &report.html(&report.tables(), &report.figures()).map_err(Failure::usage)?)?;
    }
    let mut lines = vec![Report::text(own.split_last().map_or(&[], |(_, but_the_cost)| but_the_cost))];
    let list: Vec<String> =
        outcomes.iter().map(|(outcome, count)| format!("{count} {}", outcome.name())).collect();
    lines.push(format!("{}: {}", campaign.name, list.join(", ")));
    lines.push(match finish {
        Finish::Complete => "complete".to_owned(),
        Finish::Interrupted => "interrupted; the same command goes on from here".to_owned(),
        Finish::OutOfBudget => {
            "the budget is used up; the same command with a larger --budget goes on from here".to_owned()
        }
    });
    if good > 0 {
        lines.push(format!("report: {}", out.join("report.html").display()));
    }
    terminal::print(&lines.join("\n"))?;
    Ok(match finish {
        Finish::Interrupted => ExitCode::from(interrupt::EXIT_STATUS),
        _ if good == 0 => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_such_that_a_clock_can_count_them() {
        for (text, time) in
            [("90s", Some(90.0)), ("30m", Some(1800.0)), ("8h", Some(28_800.0)), ("5", Some(5.0))]
        {
            assert_eq!(seconds(text).ok(), time, "{text}");
        }
        for text in ["", "s", "0", "-1s", "nan", "inf", "1e25", "1e300h", "3000h", "ü"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
