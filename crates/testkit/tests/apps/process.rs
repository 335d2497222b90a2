//! Runs a program that may hang, and says where it hung.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may run. Programs here take about a second; this only bounds a hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A program in a process group of its own, whose output goes to unnamed files so that nobody
/// has to read along. Dropping it kills the whole group.
pub(crate) struct Running {
    what: String,
    child: Child,
    stdout: File,
    stderr: File,
    ended: bool,
}

/// A program that ended by itself.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ended {
    /// Standard output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Running {
    /// Starts `command` without standard input; it is killed when this thread ends first, as when
    /// somebody kills the tests.
    pub(crate) fn start(command: &mut Command) -> Self {
        let what = format!("{command:?}");
        let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let die_with_us = || {
            // SAFETY: a system call without pointers, which may be made between fork and exec.
            match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure neither allocates nor takes a lock.
        unsafe { command.pre_exec(die_with_us) };
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().unwrap())
            .stderr(stderr.try_clone().unwrap())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
        Self { what, child, stdout, stderr, ended: false }
    }

    /// Process id, and the id of the process group.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// After `limit`, having killed the program; the message shows what each thread was doing.
    pub(crate) fn wait(mut self, limit: Duration) -> Ended {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.ended = true;
                let stdout = read_back(&mut self.stdout);
                let stderr = String::from_utf8_lossy(&read_back(&mut self.stderr)).into_owned();
                return Ended { status, stdout, stderr };
            }
            if Instant::now() >= deadline {
                let threads = describe_group(self.pid());
                let stderr = String::from_utf8_lossy(&read_back(&mut self.stderr)).into_owned();
                panic!("hung: did not end within {limit:?}: {}\n{threads}stderr: {stderr}", self.what);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            signal_group(self.pid(), "KILL");
            self.child.wait().expect("a killed child can be waited for");
        }
    }
}

/// Runs `command` to its end, for at most [`LIMIT`].
pub(crate) fn run(command: &mut Command) -> Ended {
    Running::start(command).wait(LIMIT)
}

/// Sends `signal` (a name without SIG) to the process group of `pid`.
pub(crate) fn signal_group(pid: u32, signal: &str) {
    // Through the shell's builtin, which needs neither a package nor unsafe code.
    let status = Command::new("sh").args(["-c", &format!("kill -{signal} -{pid}")]).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot send SIG{signal} to group {pid}");
}

fn read_back(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).unwrap();
    bytes
}

/// What the kernel tells of every thread in a process group: its state, processor time, where it
/// sleeps, and the system call it is in.
fn describe_group(group: u32) -> String {
    let mut text = String::new();
    for process in numbered("/proc") {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        if fields_after_comm(&stat).get(2) == Some(&group.to_string().as_str()) {
            for thread in numbered(&format!("/proc/{process}/task")) {
                describe_thread(&mut text, process, thread);
            }
        }
    }
    text
}

fn describe_thread(text: &mut String, process: u32, thread: u32) {
    let read = |name: &str| {
        let path = format!("/proc/{process}/task/{thread}/{name}");
        fs::read_to_string(path).map_or_else(|error| error.to_string(), |text| text.trim().to_owned())
    };
    let stat = read("stat");
    let fields = fields_after_comm(&stat);
    let field = |index: usize| fields.get(index).copied().unwrap_or("?");
    writeln!(
        text,
        "process {process} thread {thread} {:<16} state {} ticks {}+{} wchan {} syscall {}",
        read("comm"),
        field(0),
        field(11),
        field(12),
        read("wchan"),
        read("syscall")
    )
    .expect("writing to a string cannot fail");
}

/// The fields of a `stat` file from the state on; the command before them may contain spaces.
fn fields_after_comm(stat: &str) -> Vec<&str> {
    stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect()
}

/// The entries of a directory of /proc that are numbers.
fn numbered(directory: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn a_program_that_hangs_is_described_and_killed() {
    let running = Running::start(Command::new("sh").args(["-c", "sleep 600 & wait"]));
    let group = running.pid();
    let wait = std::panic::AssertUnwindSafe(|| running.wait(Duration::from_millis(300)));
    let panic = std::panic::catch_unwind(wait).expect_err("the program hangs");
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("did not end within 300ms"), "{message}");
    assert!(message.contains(" sleep ") && message.contains("state S"), "children count too: {message}");

    // The killed child of the shell may take a moment to leave.
    let deadline = Instant::now() + LIMIT;
    while describe_group(group).contains("state S") {
        assert!(Instant::now() < deadline, "still there: {}", describe_group(group));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn output_and_status_come_back() {
    let ended = run(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
    assert_eq!((ended.text().as_str(), ended.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(ended.status.code(), Some(3));
}
