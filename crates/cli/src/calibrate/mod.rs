//! `lockwork calibrate`: measures this machine, for `lockwork sim --machine FILE`.

mod check;
mod file;
mod kernel;
mod layout;
mod lines;
mod measured;
mod threads;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use lockwork_sim::Machine;
use serde::Serialize;

use crate::error::Failure;
use crate::host::Host;
use crate::terminal;
use crate::terminal::say;
use file::Entry;
use layout::Layout;
use measured::{Measured, Pair};

/// `lockwork calibrate`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork calibrate --machine-out my-server.toml         measure this machine
  lockwork sim --machine my-server.toml --unpinned        and simulate locks on it
  taskset -c 0-15 lockwork calibrate > one-socket.toml    by these CPUs alone
  lockwork calibrate --quick --json | jq .pairs           what is between each two CPUs
  lockwork calibrate --check                              measure, and say how far the simulator is off
  lockwork calibrate --check --machine my-server.toml --locks futex,mcs-stp --threads 2,8

Best on an idle machine. What cannot be measured is assumed: the file says of each figure which
it is, with the spread. Times are in cycles of the time-stamp counter where there is one. The
ratios of --check are to the first of its locks.")]
pub(crate) struct CalibrateArgs {
    /// Where the machine's file goes; otherwise it is printed
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath)]
    machine_out: Option<PathBuf>,
    /// The machine's name in results [default: that of the file, or the host's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A few rounds of each measurement: less exact
    #[arg(long)]
    quick: bool,
    /// Run locks on this machine and simulate them on what was measured of it: a grid of locks, thread counts and think
    /// times, both figures of each, and how many agree
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    grid: check::GridArgs,
    /// Print one JSON document on stdout, with what was measured between each two CPUs
    #[arg(long)]
    json: bool,
}

/// All that is known, for programs.
#[derive(Serialize)]
struct Report<'a> {
    host: &'a Host,
    date: String,
    machine: &'a Machine,
    /// What each figure rests on.
    figures: &'a [Entry],
    pairs: &'a [Pair],
}

/// Measures, and writes or prints what came of it.
pub(crate) fn main(args: &CalibrateArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.machine_out {
        check_directory(path)?;
    }
    if args.check && (args.grid.machine.is_some() || args.machine_out.is_none()) {
        let given = args.grid.machine.as_deref().map(crate::sim::grid::machine).transpose()?;
        return check::main(given.as_ref(), &args.grid, args.quick, args.json);
    }
    let host = Host::read();
    let system = Path::new("/sys/devices/system");
    let layout = Layout::read(system);
    let measured = Measured::take(&layout, &measured::Effort::new(args.quick, system, &host))?;
    let date = format!("{:.0}", jiff::Timestamp::now());
    let entries = file::entries(&layout, &measured);
    let title = file::Title { name: name(args, &host), host: &host, date: &date };
    let text = file::render(&title, &layout, &measured, &entries);
    let machine = Machine::parse("the machine's file", &text)
        .map_err(|error| Failure::with_status(1, format!("this machine cannot be simulated: {error}")))?;
    if let Some(path) = &args.machine_out
        && let Err(error) = fs::write(path, &text)
    {
        say!("{text}");
        return Err(cannot_write(path, &error));
    }
    if args.check {
        return check::main(None, &args.grid, args.quick, args.json);
    }
    if args.json {
        let report =
            Report { host: &host, date, machine: &machine, figures: &entries, pairs: &measured.pairs };
        terminal::print_json(&report)?;
    } else if let Some(path) = &args.machine_out {
        terminal::print(&table(&entries))?;
        say!("machine: {}", path.display());
    } else {
        terminal::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// This machine, measured in a few rounds.
pub(crate) fn this_host() -> Result<Machine, Failure> {
    let host = Host::read();
    let system = Path::new("/sys/devices/system");
    let layout = Layout::read(system);
    let measured = Measured::take(&layout, &measured::Effort::new(true, system, &host))?;
    let title = file::Title { name: "this-host".to_owned(), host: &host, date: "" };
    let text = file::render(&title, &layout, &measured, &file::entries(&layout, &measured));
    Machine::parse("the machine's file", &text)
        .map_err(|error| Failure::with_status(1, format!("this machine cannot be simulated: {error}")))
}

/// Measuring takes a while: what cannot be written is said before.
fn check_directory(path: &Path) -> Result<(), Failure> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    if path.is_dir() {
        return Err(Failure::usage(format!("`{}` is a directory: name a file", path.display())));
    }
    match fs::metadata(directory) {
        Ok(found) if found.is_dir() => {
            let written = if path.exists() { path } else { directory };
            rustix::fs::access(written, rustix::fs::Access::WRITE_OK)
                .map_err(|error| cannot_write(path, &error.into()))
        }
        Ok(_) => Err(Failure::usage(format!("`{}` is no directory", directory.display()))),
        Err(error) => Err(cannot_write(path, &error)),
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("`{}` cannot be written: {error}; check the path", path.display()))
}

/// As it can be a directory's name, too.
fn name(args: &CalibrateArgs, host: &Host) -> String {
    let stem = args.machine_out.as_ref().and_then(|path| path.file_stem());
    let given = args.name.clone().or_else(|| Some(stem?.to_string_lossy().into_owned()));
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    let kept = |text: String| text.replace(|character| !plain(character), "-");
    let name = kept(given.unwrap_or_else(|| host.name.clone()));
    if name.trim_matches('.').is_empty() { "this-host".to_owned() } else { name }
}

fn table(entries: &[Entry]) -> String {
    let mut table = terminal::wrapping_table();
    table.set_header(["figure", "value", "rests on"]);
    for entry in entries {
        table.add_row([&entry.name, &entry.value, &entry.note]);
    }
    table.trim_fmt()
}

/// The median of what was measured, of which there must be something.
fn median(values: &[f64]) -> f64 {
    lockwork_stats::median(values).expect("at least one value was measured")
}
