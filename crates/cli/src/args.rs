//! The command line, as data.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};
use lockwork_config::{self as config, Reader, Variable};

use crate::advise::AdviseArgs;
use crate::bench::BenchArgs;
use crate::calibrate::CalibrateArgs;
use crate::compare::CompareArgs;
use crate::doctor::DoctorArgs;
use crate::info::InfoArgs;
use crate::list::ListArgs;
use crate::monitor::MonitorArgs;
use crate::policy_check::PolicyCommand;
use crate::profile::ProfileArgs;
use crate::run::RunArgs;
use crate::sim::SimArgs;
use crate::sim::predict::PredictArgs;
use crate::study::StudyCommand;
use crate::top::TopArgs;
use crate::transform::TransformArgs;
use crate::transform::delegate::DelegateArgs;
use crate::tune::TuneArgs;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "lockwork",
    version,
    about = "Put any lock algorithm under an unmodified multi-threaded program, and see what it does",
    long_about = "Lockwork puts any lock algorithm under an unmodified multi-threaded Linux program, \
                  compares locks on your own workload, and says what this machine allows.",
    after_help = TOP_EXAMPLES,
    after_long_help = top_help(),
    max_term_width = 100,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const TOP_EXAMPLES: &str = "\
Examples:
  lockwork list                                    which locks there are
  lockwork info mcs-stp                            what is known of one
  lockwork run --lock 'gcr(mcs-stp)' -- ./server   run a program under it
  lockwork profile -- ./server                     which of its locks hurt
  lockwork tune -- ./bench                         give them better ones, if there are any
  lockwork compare --locks pthread,ttas,mcs-stp --threads 2,8,32 -- ./bench -t {threads}
  lockwork bench pair --locks all                  measure the locks themselves
  lockwork sim --machine e7-8870-v2                simulate them on 120 cores
  lockwork doctor ./server                         what this machine and this program allow

Every command has examples: lockwork COMMAND --help";

/// The examples, and every variable and file that a user may set.
fn top_help() -> String {
    use std::fmt::Write as _;
    let mut text = format!("{TOP_EXAMPLES}\n");
    for (title, reader) in [
        ("Environment of programs", Reader::Library),
        ("Environment of programs with the C library", Reader::Linked),
        ("Environment of lockwork", Reader::Command),
    ] {
        let _ = writeln!(text, "\n{title}:");
        for Variable { name, help, default, .. } in config::read_by(reader) {
            let _ = writeln!(text, "  {name}\n          {} [default: {}]", plain(help), plain(default));
        }
    }
    let _ = writeln!(text, "\nFiles:");
    for config::File { path, help } in config::FILES {
        let _ = writeln!(text, "  {path}\n          {}", plain(help));
    }
    text.trim_end().to_owned()
}

/// A clause of the book's tables, for a terminal.
fn plain(markdown: &str) -> String {
    markdown.replace('`', "")
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program under another lock
    Run(RunArgs),
    /// Compare locks on a command: medians, intervals, verdicts and a report
    Compare(CompareArgs),
    /// Record which locks a program waits for, at whose hands, and for how long
    Profile(Box<ProfileArgs>),
    /// Say what would help, by the figures of a profile
    Advise(AdviseArgs),
    /// Find the locks that a program should have, by measuring, and write them as a policy
    Tune(Box<TuneArgs>),
    /// Show what a program waits for, right now
    Top(TopArgs),
    /// Measure the locks themselves: uncontended, contended, hand-off, trylock, many locks
    Bench(BenchArgs),
    /// Simulate locks on a machine you do not have: NUMA, more threads than CPUs
    Sim(Box<SimArgs>),
    /// Predict from a profile which locks would suit the program on another machine, by simulation
    Predict(PredictArgs),
    /// Study locks on many applications and machines: campaigns, and the tables and figures of a published study
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  lockwork study run campaigns/debian.toml --quick\n  lockwork study report --from A64.csv.gz --table 4.8"
    )]
    Study(StudyCommand),
    /// Turn critical sections of a C program into closures that a delegate runs
    Transform(TransformArgs),
    /// Make delegates of the mutexes of a C program that a profile finds worth it, and measure what came of that
    Delegate(Box<DelegateArgs>),
    /// Measure this machine for the simulator: cache lines between CPUs, memory, the kernel
    Calibrate(CalibrateArgs),
    /// List the locks
    List(ListArgs),
    /// Tell everything that is known of a lock
    Info(InfoArgs),
    /// Say what this machine, and a program, allow
    Doctor(DoctorArgs),
    /// Watch the scheduler, so that waiting threads know whether the thread they wait for runs
    Monitor(MonitorArgs),
    /// Check a policy file
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Example:\n  lockwork policy check server.toml"
    )]
    Policy(PolicyCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  lockwork completions bash > /etc/bash_completion.d/lockwork")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    #[command(
        after_help = "Examples:\n  lockwork man | man -l -\n  lockwork man --out /usr/local/share/man/man1"
    )]
    Man {
        /// Write lockwork.1 and a page for every command into this directory, instead of lockwork.1 to stdout
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}
