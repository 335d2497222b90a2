//! `lockwork top`: what a program that is being recorded waits for, right now.

use std::fmt::Write as _;
use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lockwork_profile::format::Region;
use lockwork_profile_reader::{Activity, Mode, Profile, load};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::error::Failure;
use crate::profile::table;
use crate::profile::view::View;
use crate::program::describe;
use crate::terminal;

/// `lockwork top`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork profile -- ./server &
  lockwork top                     of the only program that is being recorded
  lockwork top 4242 --once         print once: holders, waiters, deadlocks
  lockwork top 4242 --record off   stop recording; `on` begins again; so does the key r

A program can be looked at if it was started by `lockwork profile` (with --off it costs nothing until it is switched
on). The exit status is 3 if threads wait for each other in a circle.")]
pub(crate) struct TopArgs {
    /// The process [default: the only one that is being recorded]
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    /// Print once and end
    #[arg(long)]
    once: bool,
    /// Seconds between pictures
    #[arg(long, value_name = "SECS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// Switch the recorder on or off, and end
    #[arg(long, value_enum)]
    record: Option<Switch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 3600".to_owned()),
    }
}

/// Threads that wait for each other: each for the next, the last for the first.
const DEADLOCK: u8 = 3;

pub(crate) fn main(args: &TopArgs) -> Result<ExitCode, Failure> {
    let (pid, file) = find(args.pid)?;
    if let Some(switch) = args.record {
        return record(&file, switch);
    }
    let on_terminal = std::io::stdout().is_terminal();
    let keys = (on_terminal && !args.once).then(Keys::of_terminal).flatten();
    loop {
        let profile = Profile::read(&file).map_err(|error| unreadable(&file, &error))?;
        let view = View::new(profile);
        let cycles = cycles(&view.profile.now);
        let clear = if on_terminal && !args.once { "\x1b[H\x1b[2J" } else { "" };
        let help = match (&keys, view.profile.is_enabled) {
            (None, _) => "",
            (Some(_), true) => "\nr: switch the recorder off   q: end\n",
            (Some(_), false) => "\nr: switch the recorder on   q: end\n",
        };
        terminal::print(&format!("{clear}{}{help}", picture(&view, &cycles)))?;
        if args.once {
            return Ok(if cycles.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DEADLOCK) });
        }
        if terminal::reader_left() {
            return Ok(ExitCode::SUCCESS);
        }
        match wait(keys.as_ref(), Duration::from_secs_f64(args.interval)) {
            Some(b'q') => return Ok(ExitCode::SUCCESS),
            Some(b'r') => _ = record(&file, if view.profile.is_enabled { Switch::Off } else { Switch::On })?,
            _ => {}
        }
        if !Path::new(&format!("/proc/{pid}")).exists() {
            eprintln!("lockwork: process {pid} has ended");
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// A terminal that gives single keys, until this is dropped.
struct Keys(Termios);

impl Keys {
    /// `None` where keys do not come from a terminal.
    fn of_terminal() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let mut keys = before.clone();
        keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(stdin(), OptionalActions::Now, &keys).ok()?;
        Some(Self(before))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A terminal that is gone needs no mending.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

/// Waits for a key, or for as long as that.
fn wait(keys: Option<&Keys>, time: Duration) -> Option<u8> {
    if keys.is_none() {
        std::thread::sleep(time);
        return None;
    }
    let timeout = Timespec::try_from(time).ok();
    let mut events = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
    if poll(&mut events, timeout.as_ref()).ok()? == 0 {
        return None;
    }
    let mut key = [0];
    match rustix::io::read(stdin(), &mut key) {
        Ok(1) => Some(key[0]),
        // The terminal is gone: pictures go on at their pace.
        _ => {
            std::thread::sleep(time);
            None
        }
    }
}

fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("profile `{}` cannot be read: {}", file.display(), describe(error)))
}

/// The process, and the file that it records in.
fn find(pid: Option<u32>) -> Result<(u32, PathBuf), Failure> {
    if let Some(pid) = pid {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Failure::usage(format!("there is no process {pid}")),
            _ => Failure::usage(format!("process {pid} cannot be looked at: {}", describe(&error))),
        })?;
        return recorded_in(&maps).map(|file| (pid, file)).ok_or_else(|| {
            Failure::usage(format!(
                "process {pid} is not being recorded; start it by `lockwork profile -- CMD`"
            ))
        });
    }
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Ok(maps) = fs::read_to_string(entry.path().join("maps"))
            && let Some(file) = recorded_in(&maps)
        {
            found.push((pid, file));
        }
    }
    match found.as_slice() {
        [] => Err(Failure::usage("no process is being recorded; start one by `lockwork profile -- CMD`")),
        [_] => Ok(found.remove(0)),
        many => {
            let pids: Vec<String> = many.iter().map(|(pid, _)| pid.to_string()).collect();
            Err(Failure::usage(format!(
                "several processes are being recorded; name one of {}",
                pids.join(", ")
            )))
        }
    }
}

/// The profile among the files that a process has mapped.
fn recorded_in(maps: &str) -> Option<PathBuf> {
    let size = size_of::<Region>() as u64;
    maps.lines().filter(|line| line.contains(" rw-s ")).find_map(|line| {
        let path = PathBuf::from(&line[line.find('/')?..]);
        let is_it = fs::metadata(&path).is_ok_and(|metadata| metadata.len() == size) && load(&path).is_ok();
        is_it.then_some(path)
    })
}

fn record(file: &Path, switch: Switch) -> Result<ExitCode, Failure> {
    lockwork_profile_reader::switch(file, switch == Switch::On).map_err(|error| unreadable(file, &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Circles of threads, each of which waits for a lock that the next one has.
fn cycles(now: &[Activity]) -> Vec<Vec<u32>> {
    let holders = |address: u64| {
        let has = move |activity: &&Activity| activity.holds.iter().any(|(held, _)| *held == address);
        now.iter().filter(has).map(|activity| activity.thread)
    };
    // A reader-writer lock may have several holders: the first that leads back is enough.
    let next = |thread: u32| -> Vec<u32> {
        let wait =
            now.iter().find(|activity| activity.thread == thread).and_then(|activity| activity.waits_for);
        wait.filter(|wait| wait.mode != Mode::Cond)
            .map_or_else(Vec::new, |wait| holders(wait.address).collect())
    };
    let mut found: Vec<Vec<u32>> = Vec::new();
    for start in now.iter().map(|activity| activity.thread) {
        if found.iter().flatten().any(|thread| *thread == start) {
            continue;
        }
        let mut path = vec![start];
        let mut tried = vec![start];
        let mut rest = vec![next(start)];
        while let Some(choices) = rest.last_mut() {
            match choices.pop() {
                Some(thread) if thread == start => {
                    found.push(path.clone());
                    break;
                }
                Some(thread) if !tried.contains(&thread) => {
                    tried.push(thread);
                    path.push(thread);
                    rest.push(next(thread));
                }
                Some(_) => {}
                None => {
                    rest.pop();
                    path.pop();
                }
            }
        }
    }
    found
}

fn picture(view: &View, cycles: &[Vec<u32>]) -> String {
    let mut text = table::overview(view);
    if !view.profile.is_enabled {
        text.push_str("The recorder is off.\n");
    }
    let now = &view.profile.now;
    let waiting: Vec<&Activity> = now.iter().filter(|activity| activity.waits_for.is_some()).collect();
    if !waiting.is_empty() {
        text.push_str("\nWaiting now:\n");
    }
    for activity in waiting.into_iter().take(30) {
        let Some(wait) = activity.waits_for else { continue };
        let name =
            view.row_of(wait.lock).map_or_else(|| format!("{:#x}", wait.address), |row| row.name.clone());
        let what = if wait.mode == Mode::Cond { "condition " } else { "" };
        let _ = write!(
            text,
            "  thread {} since {} for {what}{name}, in {}",
            activity.thread,
            table::duration(wait.ns as f64),
            view.function(wait.stack)
        );
        for holder in now {
            for (_, caller) in holder.holds.iter().filter(|(address, _)| *address == wait.address) {
                let function = view.symbols.frames(*caller).into_iter().next().map(|frame| frame.function);
                let _ =
                    write!(text, "; thread {} has it, from {}", holder.thread, function.unwrap_or_default());
            }
        }
        text.push('\n');
    }
    for cycle in cycles {
        let names: Vec<String> = cycle.iter().chain(cycle.first()).map(u32::to_string).collect();
        let _ = writeln!(text, "\nDeadlock: threads wait for each other: {}", names.join(" → "));
    }
    text
}

#[cfg(test)]
mod tests {
    use lockwork_profile_reader::Waiting;

    use super::*;

    fn thread(thread: u32, waits_for: Option<u64>, holds: &[u64]) -> Activity {
        let wait = |address| Waiting { address, mode: Mode::Mutex, ns: 1, stack: 0, lock: 0 };
        Activity {
            thread,
            waits_for: waits_for.map(wait),
            holds: holds.iter().map(|lock| (*lock, 0)).collect(),
        }
    }

    #[test]
    fn circles_are_found_and_chains_are_none() {
        let chain = [thread(1, Some(10), &[]), thread(2, Some(20), &[10]), thread(3, None, &[20])];
        assert!(cycles(&chain).is_empty());
        let circle = [thread(1, Some(10), &[20]), thread(2, Some(20), &[10]), thread(3, Some(10), &[])];
        assert_eq!(cycles(&circle), [vec![1, 2]]);
        let own = [thread(1, Some(10), &[10])];
        assert_eq!(cycles(&own), [vec![1]]);
        // Two readers have the lock, one of which waits for the writer.
        let readers = [thread(1, Some(10), &[20]), thread(2, None, &[10]), thread(3, Some(20), &[10])];
        assert_eq!(cycles(&readers), [vec![1, 3]]);
    }
}
