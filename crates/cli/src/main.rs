//! The `lockwork` command: flags, then calls into what does the work.

mod advise;
mod args;
mod bench;
mod calibrate;
mod calibration;
mod cluster;
mod compare;
mod coverage;
mod delegates;
mod doctor;
mod elf;
mod environment;
mod error;
mod host;
mod info;
mod knobs;
mod list;
mod manual;
mod monitor;
mod policy_check;
mod preload;
mod profile;
mod program;
mod prose;
mod run;
mod rwlocks;
mod sim;
mod specs;
mod study;
mod terminal;
mod top;
mod transform;
mod tune;
mod values;

use crate::terminal::say;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};
use error::Failure;

fn main() -> ExitCode {
    let result = match Cli::try_parse() {
        Ok(cli) => dispatch(cli.command),
        Err(error) => explain(&error),
    };
    match result {
        Ok(status) => status,
        Err(failure) => {
            say!("lockwork: {failure}");
            ExitCode::from(failure.status)
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => run::main(&args),
        Command::Compare(args) => compare::main(&args),
        Command::Profile(args) => profile::main(&args),
        Command::Advise(args) => advise::main(&args),
        Command::Tune(args) => tune::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Predict(args) => sim::predict::main(&args),
        Command::Sim(args) => sim::main(&args),
        Command::Study(command) => study::main(&command),
        Command::Transform(args) => transform::main(&args),
        Command::Delegate(args) => transform::delegate::main(&args),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::List(args) => list::main(&args),
        Command::Info(args) => info::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Monitor(args) => monitor::main(&args),
        Command::Policy(command) => policy_check::main(&command),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { out } => manual::pages(out.as_deref()),
    }
}

/// Prints help and version as they are; makes everything else one line.
fn explain(error: &clap::Error) -> Result<ExitCode, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe is no error.
            let _ = error.print();
            Ok(ExitCode::SUCCESS)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Ok(ExitCode::from(error::USAGE))
        }
        _ => Err(Failure::usage(one_line(&error.to_string()))),
    }
}

/// clap's message and tips without its layout.
fn one_line(message: &str) -> String {
    let mut parts = Vec::new();
    for line in message.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // Where there are several, the others stand below the first.
        if line.starts_with("Usage:") || line.starts_with("lockwork ") {
            continue;
        }
        // This tip is about a case that is never meant.
        if line.starts_with("tip: to pass") {
            continue;
        }
        parts.push(line.trim_start_matches("error: ").trim_start_matches("tip: ").to_owned());
    }
    let last = parts.pop().unwrap_or_default();
    let last = last.replace("For more information, try '--help'.", "see --help");
    parts.push(last);
    parts.join("; ").replace(":;", ":")
}
