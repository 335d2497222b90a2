//! `lockwork profile`: runs a program with the recorder on, and says which of its locks hurt.

pub(crate) mod delegation;
mod html;
mod json;
pub(crate) mod record;
mod stacks;
pub(crate) mod symbols;
pub(crate) mod table;
mod timeline;
pub(crate) mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use lockwork_profile_reader::Profile;

use crate::error::Failure;
use crate::program::describe;
use crate::terminal;
use crate::terminal::say;
use stacks::Side;
use view::View;

/// Where a profile goes unless `--output` says otherwise.
const DEFAULT_FILE: &str = "lockwork.profile";

/// `lockwork profile`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  lockwork profile -- ./server                     glibc's own locks: which of them hurt
  lockwork profile --lock mcs-stp -- ./server      the same under another lock
  lockwork profile -o run.profile -- make -j8      each process that uses locks; the busiest is shown
  lockwork profile report run.profile --format html > profile.html
  lockwork profile report run.profile --format pprof > waits.pb && go tool pprof -top waits.pb
  lockwork profile report run.profile --format folded --side holders | inferno-flamegraph > holders.svg

A lock hurts when threads wait for it for more than 1% of their busy time. Every wait is
measured. Acquisitions that need not wait are sampled, and so is who waited for whom: by weights,
so that sums are right on average; JSON has the errors. Stacks follow frame pointers: of code
compiled without them, the caller of the lock operation is all that is shown. The file outlives a
program that is killed, and can be reported while the program runs."
)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    command: Option<ProfileCommand>,
    #[command(flatten)]
    run: RecordArgs,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    /// Report what was recorded
    #[command(after_help = "\
Examples:
  lockwork profile report lockwork.profile
  lockwork profile report lockwork.profile --format json | jq '.locks[0]'")]
    Report(ReportArgs),
}

#[derive(Debug, Args)]
struct RecordArgs {
    /// The lock to run under, as for `lockwork run`; `pthread` is glibc's own
    #[arg(long, short, value_name = "SPEC", default_value = "pthread")]
    lock: String,
    /// A policy file that chooses a lock for each lock of the program
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "lock")]
    policy: Option<PathBuf>,
    /// The file to record in; replaced if it exists
    #[arg(long, short, value_name = "FILE", default_value = DEFAULT_FILE, value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Begin switched off; `lockwork top --record on` switches on
    #[arg(long)]
    off: bool,
    /// What to print when the program has ended
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Whose stacks: for pprof and folded
    #[arg(long, value_enum, default_value = "waiters")]
    side: Side,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// What `lockwork profile` recorded
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Whose stacks: for pprof and folded
    #[arg(long, value_enum, default_value = "waiters")]
    side: Side,
}

/// How a profile is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For the terminal
    Table,
    Json,
    /// One page that needs nothing else
    Html,
    /// For `go tool pprof`
    Pprof,
    /// Stacks in lines, for flame graphs
    Folded,
    /// For profiler.firefox.com
    Firefox,
    /// For ui.perfetto.dev: single waits on a time line
    Perfetto,
    /// For Prometheus and its kin
    Openmetrics,
}

pub(crate) fn main(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    if let Some(ProfileCommand::Report(report)) = &args.command {
        print(&open(&report.file)?, report.format, report.side)?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = &args.run;
    let request = record::Request {
        lock: record::lock(&run.lock, run.policy.as_deref())?,
        policy: run.policy.clone(),
        output: run.output.clone(),
        off: run.off,
    };
    let recorded = record::run(&request, &run.program)?;
    match &recorded.profile {
        Some(file) => {
            print(&open(file)?, run.format, run.side)?;
            say!("lockwork: recorded in {}", file.display());
        }
        None => say!("lockwork: no process used a lock that could be seen; nothing was recorded"),
    }
    match &recorded.others[..] {
        [] => {}
        [other] => say!("lockwork: another process recorded in {}", other.display()),
        [first, .., last] => say!(
            "lockwork: {} other processes recorded in {} to {}",
            recorded.others.len(),
            first.display(),
            last.display()
        ),
    }
    Ok(recorded.status)
}

/// Reads a profile.
pub(crate) fn open(path: &Path) -> Result<View, Failure> {
    let profile = Profile::read(path).map_err(|error| {
        let mend = match error.kind() {
            std::io::ErrorKind::NotFound => "; check the path",
            std::io::ErrorKind::InvalidData => "; record it with `lockwork profile -o FILE -- CMD`",
            _ => "",
        };
        Failure::usage(format!("profile `{}` cannot be read: {}{mend}", path.display(), describe(&error)))
    })?;
    Ok(View::new(profile))
}

fn print(view: &View, format: Format, side: Side) -> Result<(), Failure> {
    match format {
        Format::Table => terminal::print(&table::render(view)),
        Format::Json => terminal::print_json(&json::document(view)),
        Format::Html => terminal::print(&html::page(view)),
        Format::Folded => terminal::print(&stacks::folded(view, side)),
        Format::Firefox => terminal::print_json(&stacks::firefox(view)),
        Format::Perfetto => terminal::print_json(&timeline::perfetto(view)),
        Format::Openmetrics => terminal::print(&timeline::openmetrics(view)),
        Format::Pprof => terminal::print_bytes(&stacks::pprof(view, side)),
    }
}
