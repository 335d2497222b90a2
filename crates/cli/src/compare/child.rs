//! One run of the measured command: its own process group, a hard time-out, bounded output, resource usage.

use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lockwork_config::report::divide;
use lockwork_study::{Usage, process};

use super::interrupt;

/// What a run did.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) end: End,
    /// From just before the process was made until it ended, in seconds.
    pub(crate) wall_s: f64,
    pub(crate) usage: Usage,
    /// CPU time that others used meanwhile, in seconds, in the kernel's 10 ms ticks.
    pub(crate) competing_cpu_s: Option<f64>,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    /// By the user's Ctrl-C.
    Interrupted,
}

/// How long output is still read after the child's end, when a descendant outside the group keeps it open.
const DRAIN: Duration = Duration::from_secs(1);

/// Runs `command` to its end, or kills its process group after `timeout`.
pub(crate) fn run(mut command: Command, timeout: Duration) -> io::Result<Finished> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    die_with_parent(&mut command);
    let busy_before = process::busy_seconds();
    let start = Instant::now();
    let mut child = interrupt::spawn(&mut command)?;
    let stdout = Drain::start(child.stdout.take());
    let stderr = Drain::start(child.stderr.take());
    let waiter = Waiter::start(child);

    let mut end = None;
    let exited_at = match waiter.exited.recv_timeout(timeout.saturating_sub(start.elapsed())) {
        Ok(at) => at,
        Err(_) => {
            end = Some(End::TimedOut);
            interrupt::kill_group();
            waiter.exited.recv().map_err(|_| io::Error::other("lost sight of the child"))?
        }
    };
    // Whatever of the group outlived its leader would disturb the next run.
    interrupt::kill_group();
    let (status, usage) = waiter.reap()?;
    let busy_after = process::busy_seconds();
    if interrupt::requested() {
        end = Some(End::Interrupted);
    }
    let competing_cpu_s = busy_before
        .zip(busy_after)
        .map(|(before, after)| (after - before - usage.user - usage.system).max(0.0));
    Ok(Finished {
        end: end.unwrap_or_else(|| End::from(status)),
        wall_s: (exited_at - start).as_secs_f64(),
        usage,
        competing_cpu_s,
        stdout: stdout.finish(),
        stderr: stderr.finish(),
    })
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => End::Exited(code),
            (None, signal) => End::Signalled(signal.unwrap_or_default()),
        }
    }
}

/// Should `lockwork` itself be killed, so is the child.
pub(crate) fn die_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one async-signal-safe system call and allocates nothing.
    unsafe { command.pre_exec(process::die_with_parent) };
}

/// Waits for the child in a thread, so that the main thread can wait with a time-out.
struct Waiter {
    exited: mpsc::Receiver<Instant>,
    child: Child,
}

impl Waiter {
    fn start(child: Child) -> Self {
        let (sender, exited) = mpsc::channel();
        let pid = child.id();
        thread::spawn(move || {
            wait_without_reaping(pid);
            // The receiver is gone only when the run was given up.
            let _ = sender.send(Instant::now());
        });
        Waiter { exited, child }
    }

    /// Collects the child, which has ended.
    fn reap(self) -> io::Result<(ExitStatus, Usage)> {
        interrupt::forget_group();
        process::reap(self.child.id())
    }
}

/// Blocks until the child ended; leaves it a zombie, so that its pid (and group) cannot be anyone else's yet.
fn wait_without_reaping(pid: u32) {
    let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) else {
        return;
    };
    let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    while let Err(rustix::io::Errno::INTR) =
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options)
    {}
}

/// The beginning and the end of what a stream carried.
#[derive(Debug, Default, Clone)]
pub(crate) struct Captured {
    head: Vec<u8>,
    tail: Vec<u8>,
}

const HEAD_BYTES: usize = 1 << 20;
const TAIL_BYTES: usize = 4 << 20;

impl Captured {
    fn push(&mut self, mut bytes: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        if room > 0 {
            let taken = room.min(bytes.len());
            self.head.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
        }
        self.tail.extend_from_slice(bytes);
        // Dropping the older half only when twice too long keeps the cost per byte constant.
        if self.tail.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
    }

    /// The last text first: where a metric is looked for.
    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if self.tail.len() < HEAD_BYTES {
            let whole: Vec<u8> = [self.head.as_slice(), &self.tail].concat();
            return vec![text(&whole)];
        }
        vec![text(&self.tail), text(&self.head)]
    }

    /// The last line that is neither blank nor the library's.
    pub(crate) fn last_line(&self) -> Option<String> {
        let bytes = if self.tail.is_empty() { &self.head } else { &self.tail };
        let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(4096)..]).into_owned();
        let mut own = text.lines().rev().map(|line| divide(line).map_or(line, |(before, _)| before).trim());
        own.find(|line| !line.is_empty()).map(str::to_owned)
    }
}

/// Reads a stream in a thread, for a child that fills its pipe must not stand still.
struct Drain {
    captured: Arc<Mutex<Captured>>,
    done: mpsc::Receiver<()>,
}

impl Drain {
    fn start(stream: Option<impl Read + Send + 'static>) -> Self {
        let captured = Arc::new(Mutex::new(Captured::default()));
        let (sender, done) = mpsc::channel::<()>();
        let sink = Arc::clone(&captured);
        thread::spawn(move || {
            // Dropped at the end, which is what `done` waits for.
            let _sender = sender;
            let Some(mut stream) = stream else { return };
            let mut buffer = vec![0; 64 << 10];
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(read) => lock(&sink).push(&buffer[..read]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        Drain { captured, done }
    }

    fn finish(self) -> Captured {
        let _ = self.done.recv_timeout(DRAIN);
        std::mem::take(&mut *lock(&self.captured))
    }
}

fn lock(captured: &Mutex<Captured>) -> MutexGuard<'_, Captured> {
    captured.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout_ms: u64) -> Finished {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        // One at a time: the process group of the run under way is global.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        run(command, Duration::from_millis(timeout_ms)).unwrap()
    }

    #[test]
    fn ends() {
        assert_eq!(shell("exit 3", 30_000).end, End::Exited(3));
        assert_eq!(shell("kill -SEGV $$", 30_000).end, End::Signalled(libc::SIGSEGV));
    }

    #[test]
    fn both_streams_are_read() {
        let finished = shell("echo out; echo err >&2", 30_000);
        assert_eq!(finished.stdout.last_line().as_deref(), Some("out"));
        assert_eq!(finished.stderr.last_line().as_deref(), Some("err"));
    }

    #[test]
    fn a_time_out_kills_the_whole_group() {
        let finished = shell("sleep 1000 & echo $!; wait", 300);
        assert_eq!(finished.end, End::TimedOut);
        let pid: i32 = finished.stdout.last_line().unwrap().parse().unwrap();
        // The grandchild is init's to reap now; until then it is a zombie. It dies when it next runs, which may take a
        // while on a busy machine.
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_dead = |state: &str| state.is_empty() || state.contains(") Z") || state.contains(") X");
        let waited = (0..1000).find(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is_dead(&state())
        });
        assert!(waited.is_some(), "{}", state());
    }

    #[test]
    fn large_output_neither_blocks_nor_grows() {
        let finished = shell("head -c 30000000 /dev/zero; echo; echo the end", 120_000);
        assert_eq!(finished.end, End::Exited(0));
        assert_eq!(finished.stdout.last_line().as_deref(), Some("the end"));
        let kept: usize = finished.stdout.texts().iter().map(String::len).sum();
        assert!(kept <= HEAD_BYTES + 2 * TAIL_BYTES, "{kept}");
    }

    #[test]
    fn usage_is_the_childs() {
        let finished = shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done", 120_000);
        assert!(finished.usage.max_rss > 0);
        assert!(finished.usage.user + finished.usage.system > 0.0);
    }
}
