//! `lockwork-monitor`: the daemon as a program of its own, which `lockwork monitor` becomes.
//!
//! `lockwork-monitor SOCKET [--watch] [--check]`: the command has parsed what the user wrote.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lockwork_monitor::{Means, Obstacle, Server, Telling};

/// What the command tells.
#[derive(Debug, Default)]
struct Arguments {
    socket: PathBuf,
    /// Watch context switches, even if the kernel allows to answer.
    watch: bool,
    /// Only say whether it could run.
    check: bool,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::default();
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--watch") => arguments.watch = true,
            Some("--check") => arguments.check = true,
            _ if arguments.socket.as_os_str().is_empty() => arguments.socket = argument.into(),
            _ => arguments.socket = PathBuf::new(),
        }
    }
    if arguments.socket == Path::new("") {
        eprintln!("lockwork-monitor is started by `lockwork monitor`");
        return ExitCode::from(2);
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("lockwork: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Returns when it is told to end, or cannot serve.
fn run(arguments: &Arguments) -> Result<(), String> {
    let message = |obstacle: Obstacle| {
        let instead = "waiters of aware locks read CPU clocks where they may, or go by the load";
        format!("the scheduler cannot be watched: {obstacle}; {instead}")
    };
    if arguments.check {
        let telling = lockwork_monitor::check().map_err(message)?;
        print(&format!("programs can be told who runs: {}", tells(&telling)));
        return Ok(());
    }
    let wish = if arguments.watch { Means::Switches } else { Means::Probe };
    let server = Server::start(&arguments.socket, wish).map_err(message)?;
    print(&format!(
        "ready to tell who runs: {}; programs find it at {}",
        tells(server.telling()),
        arguments.socket.display()
    ));
    server.run().map_err(|error| format!("the monitor cannot go on: {error}"))
}

/// What the monitor does when a waiter would know.
fn tells(telling: &Telling) -> String {
    let watches = "context switches are watched while somebody asks";
    match (telling.means, &telling.refusal) {
        (Means::Probe, _) => "the thread that asks is answered".to_owned(),
        (Means::Switches, None) => watches.to_owned(),
        (Means::Switches, Some(why)) => format!("{watches}, since {why}"),
    }
}

/// A closed pipe is no reason to stop.
fn print(line: &str) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
