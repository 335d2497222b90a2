//! `lockwork run`: checks everything, then becomes the program.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use lockwork_config as config;
use lockwork_locks::registry;
use lockwork_platform::slice;
use lockwork_policy::Policy;

use crate::args::RunArgs;
use crate::environment;
use crate::error::{Failure, NOT_EXECUTABLE};
use crate::preload::{self, Library, Request};
use crate::program::{self, describe};
use crate::specs;

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
            eprintln!("lockwork: this kernel has no time-slice extensions; holders of mutexes go without");
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
