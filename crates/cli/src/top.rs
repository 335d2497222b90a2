//! `lockwork top`: what a program waits for, right now. One that is not being recorded is asked to record (`ask`).

mod ask;

use std::fmt::Write as _;
use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use lockwork_profile::format::Region;
use lockwork_profile_reader::{Activity, Mode, Profile, load};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use self::ask::{Answer, Remote};
use crate::compare::interrupt;
use crate::error::Failure;
use crate::profile::record::business;
use crate::profile::table;
use crate::profile::view::View;
use crate::program::describe;
use crate::terminal;
use crate::terminal::say;

/// `lockwork top`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork run -- ./server &
  lockwork top                     of the only program that runs under lockwork
  lockwork top 4242 --once         print once: holders, waiters, deadlocks
  lockwork top 4242 --record off   stop recording; `on` begins again; so does the key r

A program can be looked at if it was started by `lockwork run` or `lockwork profile`, or uses
lockwork's libraries with the feature `profile`. One that does not record is asked to, which
takes the right to debug it, and does so until this ends. It then has a file of 30 MB in the
directory that TMPDIR names, until it ends; one that is killed, ends by _exit or becomes another
program while nobody looks leaves it there. What it did before is not known. The exit status is 3
if threads wait for each other in a circle.")]
pub(crate) struct TopArgs {
    /// The process [default: the only one that is being recorded, or else that could be]
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
    let mut looked_at = find(args.pid)?;
    match args.record {
        Some(Switch::Off) => return looked_at.record(Switch::Off).map(|()| ExitCode::SUCCESS),
        Some(Switch::On) => {
            if looked_at.files()?.is_empty() && looked_at.ask()? == Answer::NotYet {
                say!("lockwork: process {} will be recorded when it uses a lock", looked_at.pid);
                return Ok(ExitCode::SUCCESS);
            }
            return looked_at.record(Switch::On).map(|()| ExitCode::SUCCESS);
        }
        None => {}
    }
    // From here on an end by a signal takes back what was asked.
    interrupt::listen()?;
    let result = looked_at.begin().and_then(|is_new| show(&mut looked_at, args, is_new));
    looked_at.leave();
    result
}

/// Shows pictures until the end.
fn show(looked_at: &mut LookedAt, args: &TopArgs, is_new: bool) -> Result<ExitCode, Failure> {
    let pid = looked_at.pid;
    let interval = Duration::from_secs_f64(args.interval);
    let on_terminal = std::io::stdout().is_terminal();
    let keys = (on_terminal && !args.once).then(Keys::of_terminal).flatten();
    if is_new {
        // Time for something to be recorded.
        let _ = wait(keys.as_ref(), interval);
    }
    loop {
        let Some(file) = looked_at.file()? else {
            if !exists(pid) {
                return Ok(has_ended(pid));
            }
            terminal::print(&format!("Process {pid} has used no lock since it was asked to record.\n"))?;
            if args.once || terminal::reader_left() || interrupt::requested() {
                return Ok(ExitCode::SUCCESS);
            }
            if wait(keys.as_ref(), interval) == Some(b'q') {
                return Ok(ExitCode::SUCCESS);
            }
            continue;
        };
        let profile = match Profile::read(&file) {
            Ok(profile) => profile,
            // A file that was asked for goes with its process.
            Err(_) if !exists(pid) => return Ok(has_ended(pid)),
            Err(error) => return Err(unreadable(&file, &error)),
        };
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
        match wait(keys.as_ref(), interval) {
            Some(b'q') => return Ok(ExitCode::SUCCESS),
            Some(b'r') => looked_at.record(if view.profile.is_enabled { Switch::Off } else { Switch::On })?,
            _ => {}
        }
        if interrupt::requested() {
            return Ok(ExitCode::from(interrupt::EXIT_STATUS));
        }
        if !exists(pid) {
            return Ok(has_ended(pid));
        }
    }
}

/// Whether the process is there, and has not ended without anybody having asked how.
fn exists(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, which comes before the state, may have anything in it.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn has_ended(pid: u32) -> ExitCode {
    say!("lockwork: process {pid} has ended");
    ExitCode::SUCCESS
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

/// Waits for a key, or for as long as that, or until a signal says to end.
fn wait(keys: Option<&Keys>, time: Duration) -> Option<u8> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now()).min(Duration::from_millis(50));
        if left.is_zero() || interrupt::requested() {
            return None;
        }
        if keys.is_none() {
            std::thread::sleep(left);
            continue;
        }
        let timeout = Timespec::try_from(left).ok();
        let mut events = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
        if !matches!(poll(&mut events, timeout.as_ref()), Ok(1)) {
            continue;
        }
        let mut key = [0];
        match rustix::io::read(stdin(), &mut key) {
            Ok(1) => return Some(key[0]),
            // The terminal is gone: pictures go on at their pace.
            _ => std::thread::sleep(left),
        }
    }
}

fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("profile `{}` cannot be read: {}", file.display(), describe(error)))
}

/// The process that is looked at.
struct LookedAt {
    pid: u32,
    /// Where it can be asked to record.
    boards: Vec<Remote>,
    /// The recorder was off before.
    was_off: bool,
}

impl LookedAt {
    /// The files that it records in.
    fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        Ok(recorded_in(self.pid, &maps_of(self.pid)?))
    }

    /// The one of them that has most to say: of a program that is recorded by a library of its own, too.
    fn file(&self) -> Result<Option<PathBuf>, Failure> {
        if !exists(self.pid) {
            return Ok(None);
        }
        let mut files = self.files()?;
        if files.len() > 1 {
            files.sort_by_cached_key(|file| load(file).map_or((0, 0), |region| business(&region)));
        }
        Ok(files.pop())
    }

    /// Asks it to record.
    fn ask(&mut self) -> Result<Answer, Failure> {
        let mut answer = Answer::NotYet;
        for board in &mut self.boards {
            if board.ask()? == Answer::Records {
                answer = Answer::Records;
            }
        }
        Ok(answer)
    }

    /// Sees to it that it records, unless its file is one of `lockwork profile`, which says itself whether it shall. Whether it has
    /// just begun.
    fn begin(&mut self) -> Result<bool, Failure> {
        let files = self.files()?;
        if files.is_empty() {
            // A process of `lockwork profile` that has used no lock yet has to be waited for only.
            self.was_off = !self.boards.iter().any(Remote::asks_itself);
            self.ask()?;
            return Ok(true);
        }
        let is_off = files.iter().any(|file| load(file).is_ok_and(|region| !region.is_enabled()));
        if is_off && self.boards.iter().any(Remote::records) {
            self.was_off = true;
            self.record(Switch::On)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn record(&self, switch: Switch) -> Result<(), Failure> {
        for file in self.files()? {
            lockwork_profile_reader::switch(&file, switch == Switch::On)
                .map_err(|error| unreadable(&file, &error))?;
        }
        Ok(())
    }

    /// Leaves it as it was found.
    fn leave(&mut self) {
        self.boards.iter_mut().for_each(Remote::withdraw);
        if !self.was_off {
            return;
        }
        if exists(self.pid) {
            // It may end right now.
            let _ = self.record(Switch::Off);
        }
        if !exists(self.pid) {
            // A process that was killed leaves its file.
            ask::remove_files();
        }
    }
}

fn maps_of(pid: u32) -> Result<String, Failure> {
    fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::usage(format!(
            "there is no process {pid}; without a number `lockwork top` finds the one that there is"
        )),
        _ => Failure::usage(format!(
            "process {pid} cannot be looked at: {}; run `lockwork top` as its user, or as root",
            describe(&error)
        )),
    })
}

/// The process that is meant.
fn find(pid: Option<u32>) -> Result<LookedAt, Failure> {
    let pid = match pid {
        Some(pid) => pid,
        None => only_one()?,
    };
    let maps = maps_of(pid)?;
    let looked_at = |boards| LookedAt { pid, boards, was_off: false };
    let is_recorded = !recorded_in(pid, &maps).is_empty();
    match ask::boards(pid, &maps) {
        Ok(boards) if is_recorded || !boards.is_empty() => Ok(looked_at(boards)),
        // What records already can be looked at without a debugger's rights.
        Err(_) if is_recorded => Ok(looked_at(Vec::new())),
        Err(failure) => Err(failure),
        Ok(_) => Err(Failure::usage(format!(
            "process {pid} does not run under lockwork; start it by `lockwork run -- CMD`"
        ))),
    }
}

/// The only process that is being recorded, or else the only one that runs under lockwork.
fn only_one() -> Result<u32, Failure> {
    let [mut recorded, mut others] = [Vec::new(), Vec::new()];
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(maps) = fs::read_to_string(entry.path().join("maps")) else { continue };
        if !recorded_in(pid, &maps).is_empty() {
            recorded.push(pid);
        } else if maps.lines().any(|line| line.ends_with("/liblockwork.so")) {
            others.push(pid);
        }
    }
    let (what, found) =
        if recorded.is_empty() { ("run under lockwork", others) } else { ("are being recorded", recorded) };
    match found.as_slice() {
        [] => Err(Failure::usage("no process runs under lockwork; start one by `lockwork run -- CMD`")),
        [pid] => Ok(*pid),
        many => {
            let pids: Vec<String> = many.iter().map(u32::to_string).collect();
            Err(Failure::usage(format!("several processes {what}; name one of {}", pids.join(", "))))
        }
    }
}

/// The profiles of a process among the files that it has mapped. A child of `fork` may have its parent's, too.
fn recorded_in(pid: u32, maps: &str) -> Vec<PathBuf> {
    let size = size_of::<Region>() as u64;
    let mut files: Vec<PathBuf> = maps
        .lines()
        .filter(|line| line.contains(" rw-s "))
        .filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..])))
        .collect();
    files.sort();
    files.dedup();
    let name = its_own_name(pid);
    let is_its = |region: &Region| region.header.pid.load(Relaxed) == name;
    files.retain(|path| {
        fs::metadata(path).is_ok_and(|metadata| metadata.len() == size)
            && load(path).is_ok_and(|region| is_its(&region))
    });
    files
}

/// What a process, which may be in a container, calls itself.
fn its_own_name(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let names = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    names.and_then(|names| names.split_whitespace().last()?.parse().ok()).unwrap_or(pid)
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
