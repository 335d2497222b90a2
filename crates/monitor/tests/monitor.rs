//! The monitor and its clients, each in a process of its own. Skipped, and said so, where the scheduler cannot be watched.

mod clients;

use std::fs;
use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use lockwork_monitor::{BOARDS, Means, Server};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// Says what this process is to be, if not the tests.
const ROLE: &str = "LOCKWORK_MONITOR_TEST_ROLE";
/// The roles of the monitor itself: by the means that the kernel here allows, and by the other one.
const MONITOR: &str = "monitor";
const WATCHING_MONITOR: &str = "watching_monitor";
/// Where the monitor listens.
const SOCKET: &str = "LOCKWORK_MONITOR_TEST_SOCKET";
/// The kernel ends a process that hangs for this many seconds.
const LIMIT: u32 = 60;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if let Ok(role) = std::env::var(ROLE) {
        // A monitor outlives its clients: its end must not look like what they wait for.
        let limit = if [MONITOR, WATCHING_MONITOR].contains(&&*role) { 2 * LIMIT } else { LIMIT };
        // SAFETY: no memory is involved; the default action of SIGALRM ends the process.
        unsafe { libc::alarm(limit) };
        let socket = PathBuf::from(std::env::var_os(SOCKET).expect("where the monitor listens"));
        return play(&role, &socket);
    }
    let means = match lockwork_monitor::check() {
        Ok(telling) => telling.means,
        Err(obstacle) => {
            let _ = writeln!(io::stderr(), "SKIPPED: all tests of the monitor: {obstacle}");
            return ExitCode::SUCCESS;
        }
    };
    let watched = clients::WATCHED.iter().map(|(name, _)| {
        Trial::test(*name, move || with_monitor(&Monitor::prepared(WATCHING_MONITOR, |_| {}), name))
    });
    let trials = watched.chain([
        Trial::test("a_killed_monitor_is_forgotten", a_killed_monitor_is_forgotten),
        Trial::test("there_is_one_monitor_at_a_socket", there_is_one_monitor_at_a_socket),
        Trial::test("switches_are_watched_while_a_client_asks", switches_are_watched_while_a_client_asks),
        Trial::test("a_monitor_that_is_told_to_end_removes_its_socket", a_monitor_removes_its_socket),
        Trial::test("a_monitor_leaves_the_socket_of_another", a_monitor_leaves_the_socket_of_another),
        Trial::test("a_monitor_keeps_two_capabilities", a_monitor_keeps_two_capabilities),
        Trial::test("a_monitor_has_descriptors_for_all_boards", a_monitor_has_descriptors_for_all_boards),
    ]);
    let answered = clients::ANSWERED
        .iter()
        .map(|(name, _)| Trial::test(*name, move || with_monitor(&Monitor::start(), name)))
        .chain([
            Trial::test("a_killed_monitor_does_not_answer", a_killed_monitor_does_not_answer),
            Trial::test("no_switches_are_watched_for_answers", no_switches_are_watched_for_answers),
        ]);
    let trials: Vec<Trial> = if means == Means::Probe {
        trials.chain(answered).collect()
    } else {
        let _ = writeln!(io::stderr(), "SKIPPED: tests of the probe, which this kernel refuses");
        trials.collect()
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn play(role: &str, socket: &Path) -> ExitCode {
    let wish = match role {
        MONITOR => Some(Means::Probe),
        WATCHING_MONITOR => Some(Means::Switches),
        _ => None,
    };
    if let Some(wish) = wish {
        match Server::start(socket, wish) {
            Ok(server) => {
                println!("ready");
                server.run().expect("a monitor that can go on");
            }
            Err(obstacle) => println!("{obstacle}"),
        }
        return ExitCode::SUCCESS;
    }
    let all = [clients::WATCHED, clients::ANSWERED, clients::HELPERS].concat();
    let (_, client) = all.iter().find(|(name, _)| *name == role).expect("a client");
    client(socket);
    ExitCode::SUCCESS
}

/// A process of this program in another role.
fn process(role: &str, socket: &Path) -> Command {
    process_of(&std::env::current_exe().expect("this program"), role, socket)
}

/// The same of a copy of this program.
fn process_of(program: &Path, role: &str, socket: &Path) -> Command {
    let mut command = Command::new(program);
    command.env(ROLE, role).env(SOCKET, socket);
    command
}

/// A monitor, which ends with this.
struct Monitor {
    child: Child,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Monitor {
    fn start() -> Self {
        Self::prepared(MONITOR, |_| {})
    }

    /// One in this role, whose process is prepared first.
    fn prepared(role: &str, prepare: impl FnOnce(&mut Command)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("socket");
        let mut command = process(role, &socket);
        prepare(&mut command);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a monitor");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), "ready");
        Self { child, socket, _directory: directory }
    }
}

impl Monitor {
    /// Tells it to end; how it does.
    fn end(&mut self, signal: Signal) -> io::Result<ExitStatus> {
        kill_process(Pid::from_child(&self.child), signal)?;
        self.child.wait()
    }
}

impl Monitor {
    /// Whether it has its program called at every context switch, by its descriptors.
    fn watches_switches(&self) -> io::Result<bool> {
        for each in fs::read_dir(format!("/proc/{}/fdinfo", self.child.id()))? {
            // One that was closed meanwhile is none of those.
            let text = fs::read_to_string(each?.path()).unwrap_or_default();
            if text.lines().any(|line| line.starts_with("tp_name:") && line.ends_with("sched_switch")) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn expect_success(mut client: Command) -> Result<(), Failed> {
    let output = client.output()?;
    match (output.status.code(), output.status.signal()) {
        (Some(0), _) => Ok(()),
        (code, signal) => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(format!("status {code:?}, signal {signal:?}: {text}").into())
        }
    }
}

fn with_monitor(monitor: &Monitor, client: &str) -> Result<(), Failed> {
    expect_success(process(client, &monitor.socket))
}

/// The client sees its end by a look at its page, and another monitor after that.
fn a_killed_monitor_is_forgotten() -> Result<(), Failed> {
    is_seen_to_end(WATCHING_MONITOR, "watches_the_monitor")
}

/// And by what it is not told any more.
fn a_killed_monitor_does_not_answer() -> Result<(), Failed> {
    is_seen_to_end(MONITOR, "asks_the_monitor")
}

fn is_seen_to_end(role: &str, client: &str) -> Result<(), Failed> {
    let mut monitor = Monitor::prepared(role, |_| {});
    let mut client = process(client, &monitor.socket);
    let mut child = client.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let mut says = |what: &str| match lines.next() {
        Some(Ok(line)) if line == what => Ok(()),
        other => Err(Failed::from(format!("{other:?} in place of {what}"))),
    };
    says("attached")?;
    monitor.child.kill()?;
    monitor.child.wait()?;
    says("alone")?;
    let mut again = process(role, &monitor.socket).stdout(Stdio::null()).spawn()?;
    let back = says("attached");
    again.kill()?;
    again.wait()?;
    child.wait()?;
    back
}

fn no_switches_are_watched_for_answers() -> Result<(), Failed> {
    let monitor = Monitor::start();
    let mut client = process("waits_for_a_sleeper", &monitor.socket).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(client.stdout.take().ok_or("no output")?).lines();
    check(matches!(lines.next(), Some(Ok(line)) if line == "answered"), || "no answer".to_owned())?;
    let mut watches = false;
    while client.try_wait()?.is_none() {
        watches |= monitor.watches_switches()?;
        thread::sleep(Duration::from_millis(1));
    }
    check(client.wait()?.success() && !watches, || format!("watches: {watches}"))
}

fn switches_are_watched_while_a_client_asks() -> Result<(), Failed> {
    let monitor = Monitor::prepared(WATCHING_MONITOR, |_| {});
    let mut client = process("watches_the_monitor", &monitor.socket).stdout(Stdio::piped()).spawn()?;
    BufReader::new(client.stdout.take().ok_or("no output")?).read_line(&mut String::new())?;
    // If the answer came too late, it has connected again, which counts as asking once.
    wait_until(|| Ok(!monitor.watches_switches()?))?;
    let mut other = process("wants_to_be_watched", &monitor.socket).spawn()?;
    wait_until(|| monitor.watches_switches())?;
    other.kill()?;
    other.wait()?;
    let ends = wait_until(|| Ok(!monitor.watches_switches()?));
    client.kill()?;
    client.wait()?;
    ends
}

/// Waits for about half a minute at most.
fn wait_until(mut condition: impl FnMut() -> io::Result<bool>) -> Result<(), Failed> {
    for _ in 0..3_000 {
        if condition()? {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err("it does not happen".into())
}

fn there_is_one_monitor_at_a_socket() -> Result<(), Failed> {
    let monitor = Monitor::start();
    let output = process(MONITOR, &monitor.socket).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.starts_with("another monitor listens at") { Ok(()) } else { Err(text.into_owned().into()) }
}

fn check(condition: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(otherwise().into()) }
}

fn a_monitor_removes_its_socket() -> Result<(), Failed> {
    for signal in [Signal::TERM, Signal::INT] {
        let mut monitor = Monitor::start();
        check(monitor.socket.exists(), || "no socket".to_owned())?;
        let status = monitor.end(signal)?;
        check(status.success() && !monitor.socket.exists(), || format!("{signal:?}: {status}"))?;
    }
    Ok(())
}

fn a_monitor_leaves_the_socket_of_another() -> Result<(), Failed> {
    let mut monitor = Monitor::start();
    fs::remove_file(&monitor.socket)?;
    let _others = UnixListener::bind(&monitor.socket)?;
    let status = monitor.end(Signal::TERM)?;
    check(status.success() && monitor.socket.exists(), || format!("{status}, the socket is gone"))
}

/// Each of its threads.
fn a_monitor_keeps_two_capabilities() -> Result<(), Failed> {
    const RESOURCE_AND_BPF: u64 = 1 << 24 | 1 << 39;
    let monitor = Monitor::start();
    let mut threads = 0;
    for thread in fs::read_dir(format!("/proc/{}/task", monitor.child.id()))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        for set in ["CapEff:", "CapPrm:"] {
            let kept = u64::from_str_radix(field(set).ok_or("no capabilities")?, 16)?;
            check(kept & !RESOURCE_AND_BPF == 0, || format!("{set} {kept:x}"))?;
        }
        check(field("CapInh:") == Some("0000000000000000"), || status.clone())?;
        check(field("NoNewPrivs:") == Some("1"), || status.clone())?;
        threads += 1;
    }
    check(threads >= 3, || format!("{threads} threads"))
}

fn a_monitor_has_descriptors_for_all_boards() -> Result<(), Failed> {
    let few = || {
        let maximum = getrlimit(Resource::Nofile).maximum;
        Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum })?)
    };
    // SAFETY: two system calls, which may be made after `fork`.
    let monitor = Monitor::prepared(MONITOR, |command| unsafe { _ = command.pre_exec(few) });
    let limits = fs::read_to_string(format!("/proc/{}/limits", monitor.child.id()))?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).ok_or("no limit")?;
    let limit: u32 = line.split_whitespace().next().ok_or("no number")?.parse()?;
    check(limit > 3 * BOARDS, || format!("{limit} descriptors"))
}
