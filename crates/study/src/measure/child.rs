//! A process of a run: a group of its own, bounded output with the time of every line, resource usage, no survivors.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::{pin, process};
use crate::store::Usage;

/// Where a process may run and has its memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// Empty: anywhere.
    pub(super) cpus: Vec<u32>,
    /// The nodes over which memory is spread, as a bit mask; empty: as the system does.
    pub(super) spread: Vec<libc::c_ulong>,
}

/// A process that runs.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    watch: OwnedFd,
    pub(super) start: Instant,
    output: Arc<Mutex<Output>>,
    drained: Vec<mpsc::Receiver<()>>,
    reaped: bool,
}

/// How a process ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) usage: Usage,
    /// Lines of both streams, with the seconds since the start.
    pub(super) lines: Vec<(f64, String)>,
}

/// How long output is still read after the end, should a process outside the group hold it open.
const DRAIN: Duration = Duration::from_secs(1);

/// What is kept of the output, the newest.
const KEPT: usize = 8 << 20;

#[derive(Debug, Default)]
struct Output {
    lines: VecDeque<(f64, String)>,
    bytes: usize,
}

impl Output {
    fn push(&mut self, at: f64, line: String) {
        self.bytes += line.len();
        self.lines.push_back((at, line));
        while self.bytes > KEPT {
            let Some((_, old)) = self.lines.pop_front() else { return };
            self.bytes -= old.len();
        }
    }
}

impl Process {
    pub(super) fn start(mut command: Command, place: &Place) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let place = place.clone();
        let settle = move || {
            process::die_with_parent()?;
            if !place.cpus.is_empty() {
                pin::confine(0, &place.cpus)?;
            }
            if place.spread.is_empty() { Ok(()) } else { pin::interleave(&place.spread) }
        };
        // SAFETY: between fork and exec the closure makes async-signal-safe system calls and allocates nothing.
        unsafe { command.pre_exec(settle) };
        let start = Instant::now();
        let mut child = command.spawn()?;
        let pid = Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::NotFound)?;
        let watch = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(watch) => watch,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error.into());
            }
        };
        let output = Arc::new(Mutex::new(Output::default()));
        let drained =
            vec![drain(child.stdout.take(), start, &output), drain(child.stderr.take(), start, &output)];
        Ok(Process { child, watch, start, output, drained, reaped: false })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; false if it goes on after `time`.
    pub(super) fn ends_within(&self, time: Duration) -> bool {
        let mut events = [rustix::event::PollFd::new(&self.watch, rustix::event::PollFlags::IN)];
        let time = rustix::event::Timespec::try_from(time).ok();
        // An interrupted wait is a short one; callers come back.
        rustix::event::poll(&mut events, time.as_ref()).is_ok_and(|ready| ready > 0)
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            // Fails only when nothing of the group is left. The leader is not reaped, so the id is still its.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills what is left of the group and collects the process.
    pub(super) fn end(mut self) -> io::Result<Ended> {
        self.signal(Signal::KILL);
        let (status, usage) = self.reap()?;
        for drained in &self.drained {
            // Nothing is sent: the sender's end is what is waited for.
            let _ = drained.recv_timeout(DRAIN);
        }
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Ended { status, usage, lines: std::mem::take(&mut output.lines).into() })
    }

    fn reap(&mut self) -> io::Result<(ExitStatus, Usage)> {
        self.reaped = true;
        process::reap(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            let _ = self.reap();
        }
    }
}

/// Reads a stream in a thread: a child that fills its pipe must not stand still.
fn drain(
    stream: Option<impl Read + Send + 'static>,
    start: Instant,
    output: &Arc<Mutex<Output>>,
) -> mpsc::Receiver<()> {
    /// A program that prints no line ends must not fill the memory.
    const LONGEST_LINE: u64 = 1 << 20;
    let (sender, done) = mpsc::channel();
    let output = Arc::clone(output);
    thread::spawn(move || {
        let _sender: mpsc::Sender<()> = sender;
        let Some(stream) = stream else { return };
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    let text = String::from_utf8_lossy(&line).into_owned();
                    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
                    output.push(start.elapsed().as_secs_f64(), text);
                }
            }
        }
    });
    done
}
