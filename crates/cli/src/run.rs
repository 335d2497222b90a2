//! `lockwork run`: checks everything, then becomes the program.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, ValueHint};
use lockwork_config as config;
use lockwork_locks::registry;
use lockwork_platform::slice;
use lockwork_policy::Policy;

use crate::environment;
use crate::error::{Failure, NOT_EXECUTABLE};
use crate::preload::{self, Library, Request};
use crate::program::{self, describe};
use crate::specs;
use crate::terminal::say;

/// `lockwork run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork run -- ./server                        under the default lock
  lockwork run --lock mcs-stp -v -- ./server      and say at exit which locks were served
  lockwork run --lock 'gcr(ticket, active=2)' -- make -j8 test
  lockwork run --policy server.toml -- ./server   a lock for each lock of the program

The program replaces lockwork: its exit status, signals and streams are its own. When nothing
can be started the exit status is 2, or as a shell's: 127 for a program not found, 126 for one
not executable.")]
pub(crate) struct RunArgs {
    /// The lock, as `lockwork list` spells it; wrappers as calls: gcr(mcs-stp, active=4); a reader-writer lock
    /// behind a mutex: mcs-stp+cst-rwsem, or alone, which leaves mutexes to glibc; mcs-stp+pthread leaves
    /// reader-writer locks to glibc
    #[arg(long, short, value_name = "SPEC")]
    pub(crate) lock: Option<String>,
    /// A policy file that chooses a lock for each lock of the program; --lock then replaces its default
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) policy: Option<PathBuf>,
    /// Leave the program's own children alone
    #[arg(long)]
    pub(crate) no_follow: bool,
    /// Let spinning locks spin for ever, as published; otherwise they begin to yield after about 100 us.
    /// For `compare`, set LOCKWORK_STRICT_SPIN=1
    #[arg(long)]
    pub(crate) strict_spin: bool,
    /// How long spin-then-park waiters spin before they sleep, in ns [default: the round trip of a context switch,
    /// measured once a machine]. For `compare`, set LOCKWORK_SPIN_NS
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(crate) spin_ns: Option<u64>,
    /// Have threads that hold mutexes ask the kernel for a little more time when their time slice ends (Linux 7.0; see
    /// `lockwork doctor`). For `compare`, set LOCKWORK_TIME_SLICE=1
    #[arg(long)]
    pub(crate) time_slice: bool,
    /// Say on stderr when the program ends which locks were served and which were forwarded to glibc
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// Returns only when the program could not be started.
pub(crate) fn main(args: &RunArgs) -> Result<ExitCode, Failure> {
    let request = Request {
        lock: chosen_lock(args)?,
        policy: args.policy.as_deref().map(absolute_policy).transpose()?,
        verbose: args.verbose,
        no_follow: args.no_follow,
    };
    environment::check()?;
    let (name, arguments) =
        args.command.split_first().ok_or_else(|| Failure::usage("no command is given"))?;
    let program = program::resolve(name)?;
    let library = Library::find()?;
    program::check_preloadable(&program)?;

    let mut command = Command::new(&program);
    command.arg0(name).args(arguments);
    preload::apply(&preload::with_library(&library, &request), &mut command);
    if args.strict_spin {
        command.env(config::STRICT_SPIN.name, "1");
    }
    if args.time_slice {
        if !slice::is_available() {
            say!("lockwork: this kernel has no time-slice extensions; holders of mutexes go without");
        }
        command.env(config::TIME_SLICE.name, "1");
    }
    if let Some(ns) = args.spin_ns {
        command.env(config::SPIN_NS.name, ns.to_string());
    }
    let error = command.exec();
    Err(Failure::with_status(
        NOT_EXECUTABLE,
        format!("`{}` cannot be executed: {}", program.display(), describe(&error)),
    ))
}

/// In canonical spelling; a policy file has a default of its own unless the user says otherwise.
fn chosen_lock(args: &RunArgs) -> Result<Option<String>, Failure> {
    match (&args.lock, &args.policy) {
        (Some(spec), _) => specs::parse(spec).map(|choice| Some(choice.to_string())),
        (None, Some(_)) => Ok(None),
        (None, None) => Ok(Some(registry::DEFAULT.to_owned())),
    }
}

fn absolute_policy(path: &Path) -> Result<PathBuf, Failure> {
    read_policy(path)?;
    path.canonicalize().map_err(|error| unreadable(path, &error))
}

/// Reads and checks a policy file.
pub(crate) fn read_policy(path: &Path) -> Result<Policy, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    Policy::parse(&text).map_err(|error| Failure::usage(format!("policy `{}`, {error}", path.display())))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("policy `{}` cannot be read: {}; check the path", path.display(), describe(error)))
}
