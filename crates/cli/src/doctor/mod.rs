//! `lockwork doctor`: what this machine and a program allow, each with what follows from it.

mod access;
pub(crate) mod machine;
mod software;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use comfy_table::{Attribute, Cell, Color};
use serde::Serialize;

use crate::error::Failure;
use crate::host::Host;
use crate::terminal;

/// `lockwork doctor`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork doctor
  lockwork doctor memcached
  lockwork doctor --json ./server | jq '.checks[] | select(.status != \"ok\")'

The exit status is 1 when a check fails, else 0.")]
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// A program to look at: whether `lockwork run` can serve it
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub(crate) program: Option<OsString>,
}

/// How good a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Ok,
    /// Something is missing, or needs care.
    Warn,
    /// `lockwork run` cannot work.
    Fail,
}

/// One thing looked at.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    name: &'static str,
    status: Status,
    finding: String,
    /// What follows from it.
    consequence: String,
}

impl Check {
    fn new(
        name: &'static str,
        status: Status,
        finding: impl Into<String>,
        consequence: impl Into<String>,
    ) -> Self {
        Check { name, status, finding: finding.into(), consequence: consequence.into() }
    }

    fn ok(name: &'static str, finding: impl Into<String>, consequence: impl Into<String>) -> Self {
        Check::new(name, Status::Ok, finding, consequence)
    }

    fn warn(name: &'static str, finding: impl Into<String>, consequence: impl Into<String>) -> Self {
        Check::new(name, Status::Warn, finding, consequence)
    }

    fn fail(name: &'static str, finding: impl Into<String>, consequence: impl Into<String>) -> Self {
        Check::new(name, Status::Fail, finding, consequence)
    }
}

#[derive(Debug, Serialize)]
struct Findings {
    host: Host,
    checks: Vec<Check>,
}

/// Looks at everything; the exit status is 1 when a check fails.
pub(crate) fn main(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let mut checks = Vec::new();
    let library = software::library(&mut checks);
    if let Some(name) = &args.program {
        software::program(name, library.as_ref(), &mut checks);
    }
    machine::checks(&mut checks);
    access::checks(&mut checks);
    let findings = Findings { host: Host::read(), checks };
    if args.json {
        terminal::print_json(&findings)?;
    } else {
        terminal::print(&text(&findings))?;
    }
    let failed = findings.checks.iter().any(|check| check.status == Status::Fail);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text(findings: &Findings) -> String {
    let mut table = terminal::wrapping_table();
    table.set_header(["", "what", "found", "what follows"]);
    for check in &findings.checks {
        let (word, colour) = match check.status {
            Status::Ok => ("ok", Color::Green),
            Status::Warn => ("warn", Color::Yellow),
            Status::Fail => ("FAIL", Color::Red),
        };
        table.add_row([
            Cell::new(word).fg(colour).add_attribute(Attribute::Bold),
            Cell::new(check.name),
            Cell::new(&check.finding),
            Cell::new(&check.consequence),
        ]);
    }
    let count = |status| findings.checks.iter().filter(|check| check.status == status).count();
    format!(
        "{}\n{}\n{} ok, {} to know about, {} in the way\n",
        findings.host.line(),
        table.trim_fmt(),
        count(Status::Ok),
        count(Status::Warn),
        count(Status::Fail)
    )
}
