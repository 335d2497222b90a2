//! `lockwork monitor`: becomes the daemon that watches the scheduler, which is a program of its own.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Args, ValueHint};
use lockwork_config::{self as config, CpuClocks, Monitor};
use lockwork_platform::cpu_time::{self, Allowed};
use lockwork_platform::monitor;

use crate::environment;
use crate::error::{Failure, NOT_FOUND};
use crate::program::describe;

/// `lockwork monitor`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo lockwork monitor                           until ^C or SIGTERM
  sudo lockwork monitor --watch                   as on kernels without uprobes
  LOCKWORK_MONITOR=/run/lockwork/monitor.sock lockwork run --lock mcs-aware -- ./server
                                                  under a filter of system calls, as in a container
  LOCKWORK_CPU_CLOCKS=0 lockwork run --lock mcs-aware -- ./server    without a filter, too
  LOCKWORK_MONITOR=0 lockwork run --lock mcs-aware -- ./server       does not look for it

It is a program of its own: cargo build --release -p lockwork-monitor puts it beside this one.
It needs root, a kernel that describes its types (BTF), and Linux 5.13; `lockwork doctor` says
whether it can run. Programs need no privilege. Those that go by it, which are under a lock that
waits by `aware` (see `lockwork list`), connect when they start. Their waiters ask the kernel which
of their own threads are on a CPU, by an instruction at which it calls a BPF program (uprobes):
about a microsecond for the waiter, nothing for others. On kernels that refuse that, all context
switches are watched while somebody waits, which costs each a tenth of a microsecond or two. The
monitor is of use to programs under a filter of system calls, as in containers. These connect only
if LOCKWORK_MONITOR names the socket, since the filter might end them for it; others read the CPU
clock of the thread they wait for, and do not connect. Without a monitor, or when it ends, waiters
go by the load.")]
pub(crate) struct MonitorArgs {
    /// Where to listen; programs are told another place by LOCKWORK_MONITOR
    #[arg(long, value_name = "PATH", default_value = lockwork_platform::monitor::SOCKET, value_hint = ValueHint::FilePath)]
    pub(crate) socket: PathBuf,
    /// Watch context switches, even if the kernel can answer single questions
    #[arg(long)]
    pub(crate) watch: bool,
    /// Only say whether it could run here; the exit status is 1 if not
    #[arg(long)]
    pub(crate) check: bool,
}

const PROGRAM: &str = "lockwork-monitor";

/// How the daemon is made.
pub(crate) const BUILD: &str = "cargo build --release -p lockwork-monitor";

/// Returns only when the daemon could not be started.
pub(crate) fn main(args: &MonitorArgs) -> Result<ExitCode, Failure> {
    let Some(program) = daemon() else {
        return Err(Failure::with_status(
            NOT_FOUND,
            format!("`{PROGRAM}` is not beside this program: build it with `{BUILD}`"),
        ));
    };
    let mut command = Command::new(&program);
    command.arg(&args.socket);
    command.args(args.watch.then_some("--watch")).args(args.check.then_some("--check"));
    let error = command.exec();
    Err(Failure::usage(format!("`{}` cannot be executed: {}", program.display(), describe(&error))))
}

/// Where the daemon is, if it has been built.
fn daemon() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    program.exists().then_some(program)
}

/// Whether the daemon could run here.
#[derive(Debug)]
pub(crate) enum Daemon {
    /// It has not been built.
    Missing,
    /// It could; how it would learn which threads run.
    Able(String),
    /// It could not, and why.
    Unable(String),
}

/// Asks the daemon.
pub(crate) fn ask_daemon() -> Daemon {
    let Some(program) = daemon() else { return Daemon::Missing };
    let text = |bytes: &[u8], before: &str| {
        let text = String::from_utf8_lossy(bytes);
        text.trim().split_once(before).map_or(text.trim().to_owned(), |(_, rest)| rest.to_owned())
    };
    match Command::new(program).arg(monitor::SOCKET).arg("--check").output() {
        Ok(output) if output.status.success() => Daemon::Able(text(&output.stdout, "told who runs: ")),
        Ok(output) => {
            let why = text(&output.stderr, "cannot be watched: ");
            Daemon::Unable(why.split_once("; ").map_or(why.clone(), |(why, _)| why.to_owned()))
        }
        Err(error) => Daemon::Unable(describe(&error)),
    }
}

/// Lets waiters of this process know which threads run: by CPU clocks, or else by the monitor.
pub(crate) fn tell_who_runs() {
    if allow_cpu_clocks() != Some(Allowed::Yes) {
        attach();
    }
}

/// Has waiters of this process read CPU clocks, unless the user says otherwise; what came of it, `None` if the user does.
pub(crate) fn allow_cpu_clocks() -> Option<Allowed> {
    match config::cpu_clocks(environment::get(&config::CPU_CLOCKS).ok().flatten().as_deref()) {
        Ok(CpuClocks::IfUnfiltered) => Some(cpu_time::allow()),
        // What it does not understand allows nothing; `lockwork run` and the library refuse it.
        Ok(CpuClocks::Never) | Err(_) => None,
        Ok(CpuClocks::EvenFiltered) => Some(cpu_time::allow_as_told()),
    }
}

/// Has a monitor watch this process, if there is one and the user does not say otherwise.
pub(crate) fn attach() {
    match config::monitor(environment::get(&config::MONITOR).ok().flatten().as_deref()) {
        Monitor::Usual => _ = monitor::attach(monitor::SOCKET),
        Monitor::No => {}
        Monitor::At(path) => _ = monitor::attach_as_told(path),
    }
}
