//! A server that is up while something else drives and measures it.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::compare::{child, interrupt};
use crate::program::describe;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// How long a server may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);

/// What says that a server is up.
#[derive(Debug, Clone)]
pub(crate) enum Ready {
    /// It takes connections at this port of the loopback.
    Port(u16),
    /// This command of the shell succeeds.
    Command(String),
}

impl Ready {
    /// A port number, or a command.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match (text.parse::<u16>(), text.trim()) {
            (_, "" | "0") => Err("a port, such as 11211, or a command of the shell".to_owned()),
            (Ok(port), _) => Ok(Ready::Port(port)),
            (Err(_), command) => Ok(Ready::Command(command.to_owned())),
        }
    }

    /// Whether that is so. A command that takes longer than `limit`, or until the user wants to stop, does not succeed.
    fn is_so(&self, limit: Duration) -> bool {
        match self {
            Ready::Port(port) => {
                TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, *port)), LOOK).is_ok()
            }
            Ready::Command(command) => {
                let silent = || Stdio::null();
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", command]).stdin(silent()).stdout(silent()).stderr(silent());
                child::die_with_parent(shell.process_group(0));
                shell.spawn().is_ok_and(|shell| succeeds(shell, limit))
            }
        }
    }

    /// Whether something else is at the port already.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Ready::Port(_)) && self.is_so(LOOK)
    }
}

/// Whether a process, whose group is its own, succeeds in time. If it does not end, its group is killed.
fn succeeds(mut process: Child, limit: Duration) -> bool {
    let begin = Instant::now();
    loop {
        match process.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if begin.elapsed() < limit && !interrupt::requested() => thread::sleep(LOOK),
            _ => break,
        }
    }
    signal_group(&process, Signal::KILL);
    let _ = process.wait();
    false
}

fn signal_group(process: &Child, signal: Signal) {
    if let Some(group) = Pid::from_raw(process.id().cast_signed()) {
        // Fails only when nothing of the group is left.
        let _ = kill_process_group(group, signal);
    }
}

/// A server that runs. Its process group ends with it.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    is_over: bool,
}

impl Server {
    /// Starts a command and waits until it is ready; what it prints goes to a file.
    ///
    /// # Errors
    ///
    /// Why it is not up, in words.
    pub(crate) fn start(
        mut command: Command,
        ready: &Ready,
        timeout: Duration,
        log: PathBuf,
    ) -> Result<Self, String> {
        if ready.is_taken() {
            return Err(
                "something takes connections at its port before it is started: end that, or give the server another port"
                    .to_owned(),
            );
        }
        let cannot = |error: &io::Error| format!("the server could not be started: {}", describe(error));
        let out = File::create(&log).map_err(|error| cannot(&error))?;
        let err = out.try_clone().map_err(|error| cannot(&error))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        child::die_with_parent(&mut command);
        let child = command.spawn().map_err(|error| cannot(&error))?;
        interrupt::note_server(Pid::from_raw(child.id().cast_signed()));
        let server = Server { child, log, is_over: false };
        let begin = Instant::now();
        loop {
            if let Some(how) = server.ended() {
                return Err(format!("the server ended before it was ready: {how}"));
            }
            if ready.is_so(timeout.saturating_sub(begin.elapsed())) {
                return Ok(server);
            }
            if interrupt::requested() {
                return Err("interrupted".to_owned());
            }
            if begin.elapsed() > timeout {
                let seconds = timeout.as_secs_f64();
                return Err(format!(
                    "the server was not ready after {seconds} s; raise --timeout, or see whether --ready says when it is{}",
                    server.last_line()
                ));
            }
            thread::sleep(LOOK);
        }
    }

    /// How it has ended, if it has. It is left a zombie, so that its id, and its group's, cannot be anyone else's yet.
    pub(crate) fn ended(&self) -> Option<String> {
        let pid = Pid::from_raw(self.child.id().cast_signed())?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(pid), options).ok().flatten()?;
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) => "exit status 0: CMD has to keep it in the foreground".to_owned(),
            (Some(status), _) => format!("exit status {status}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        Some(format!("{how}{}", self.last_line()))
    }

    fn last_line(&self) -> String {
        let text = text_of(&self.log);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        line.map_or_else(String::new, |line| {
            format!("; its last line: {}", line.chars().take(160).collect::<String>())
        })
    }

    /// Asks it to end, and sees to it that it does. What it printed.
    pub(crate) fn stop(mut self) -> String {
        self.end();
        text_of(&self.log)
    }

    fn end(&mut self) {
        if self.is_over {
            return;
        }
        signal_group(&self.child, Signal::TERM);
        let begin = Instant::now();
        while begin.elapsed() < GRACE && !interrupt::requested() && self.ended().is_none() {
            thread::sleep(LOOK);
        }
        // Nothing of its group may disturb what is measured next.
        signal_group(&self.child, Signal::KILL);
        interrupt::note_server(None);
        let _ = self.child.wait();
        self.is_over = true;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn text_of(log: &Path) -> String {
    fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_says_that_it_is_up() {
        assert!(matches!(Ready::parse("11211"), Ok(Ready::Port(11211))));
        assert!(matches!(Ready::parse("nc -z localhost 80"), Ok(Ready::Command(_))));
        assert!(Ready::parse("").is_err() && Ready::parse("0").is_err());
    }

    #[test]
    fn it_is_waited_for_and_ended() {
        let directory = tempfile::tempdir().unwrap();
        let mark = directory.path().join("mark");
        let ready = Ready::Command(format!("test -e {}", mark.display()));
        // It may be asked to end as soon as the mark is there.
        let script = format!(
            "echo up; trap 'echo bye; exit' TERM; touch {}; while :; do sleep 0.02; done",
            mark.display()
        );
        let log = directory.path().join("log");
        let server = Server::start(shell(&script), &ready, Duration::from_secs(60), log.clone()).unwrap();
        let said = server.stop();
        // The shell may say something of the `sleep` that ended with it.
        assert!(said.starts_with("up\n") && said.ends_with("bye\n"), "{said}");
        fs::remove_file(&mark).unwrap();
        let why = Server::start(
            shell("echo no database >&2; exit 3"),
            &ready,
            Duration::from_secs(60),
            log.clone(),
        );
        let why = why.err().unwrap();
        assert!(why.contains("exit status 3") && why.contains("no database"), "{why}");
        // Neither a server that is never ready nor a look that never ends is waited for longer.
        for ready in [ready, Ready::Command("sleep 1000".to_owned())] {
            let late = Server::start(shell("sleep 1000"), &ready, Duration::from_millis(50), log.clone());
            assert!(late.err().unwrap().contains("not ready after 0.05 s"));
        }
    }
}
