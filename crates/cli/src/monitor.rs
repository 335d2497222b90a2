//! `lockwork monitor`: the daemon that watches the scheduler.

use std::process::ExitCode;

use lockwork_monitor::{Means, Obstacle, Server, Telling};
use lockwork_platform::cpu_time::{self, Allowed};
use lockwork_platform::monitor;

use crate::args::MonitorArgs;
use crate::error::Failure;
use crate::preload::{CPU_CLOCKS, MONITOR};
use crate::terminal;

/// Returns when it is told to end, or cannot serve.
pub(crate) fn main(args: &MonitorArgs) -> Result<ExitCode, Failure> {
    let failure = |obstacle: Obstacle| {
        let instead = "waiters of aware locks read CPU clocks where they may, or go by the load";
        Failure::with_status(1, format!("the scheduler cannot be watched: {obstacle}; {instead}"))
    };
    if args.check {
        let telling = lockwork_monitor::check().map_err(failure)?;
        terminal::print(&format!("programs can be told who runs: {}\n", tells(&telling)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let wish = if args.watch { Means::Switches } else { Means::Probe };
    let server = Server::start(&args.socket, wish).map_err(failure)?;
    terminal::print(&format!(
        "ready to tell who runs: {}; programs find it at {}\n",
        tells(server.telling()),
        args.socket.display()
    ))?;
    match server.run() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::with_status(1, format!("the monitor cannot go on: {error}"))),
    }
}

/// What the monitor does when a waiter would know.
pub(crate) fn tells(telling: &Telling) -> String {
    let watches = "context switches are watched while somebody asks";
    match (telling.means, &telling.refusal) {
        (Means::Probe, _) => "who asks is answered".to_owned(),
        (Means::Switches, None) => watches.to_owned(),
        (Means::Switches, Some(why)) => format!("{watches}, since {why}"),
    }
}

/// Has waiters of this process know who runs, by the one way or the other.
pub(crate) fn tell_who_runs() {
    if allow_cpu_clocks() != Some(Allowed::Yes) {
        attach();
    }
}

/// Has waiters of this process read CPU clocks, unless somebody says otherwise; what came of it, `None` if somebody does.
pub(crate) fn allow_cpu_clocks() -> Option<Allowed> {
    match std::env::var(CPU_CLOCKS).as_deref() {
        Ok("0") => None,
        Ok("") | Err(_) => Some(cpu_time::allow()),
        Ok(_) => Some(cpu_time::allow_as_told()),
    }
}

/// Has a monitor watch this process, if there is one and nobody says otherwise.
pub(crate) fn attach() {
    match std::env::var(MONITOR) {
        Ok(path) if path.is_empty() || path == "0" => {}
        Ok(path) => _ = monitor::attach_as_told(&path),
        Err(_) => _ = monitor::attach(monitor::SOCKET),
    }
}
