//! Ctrl-C during a comparison: the run under way is killed, what was measured so far is printed.

use std::io;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::Failure;

/// What Ctrl-C and a time-out kill. Held while a child is made and while it is killed, so that neither can
/// happen between the other's steps.
static GROUP: Mutex<Option<Pid>> = Mutex::new(None);
/// A server beside the runs, which the second Ctrl-C kills, too.
static SERVER: Mutex<Option<Pid>> = Mutex::new(None);
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// Held while files are not where the user left them.
static NO_EXIT: Mutex<()> = Mutex::new(());

/// The exit status after an interrupt, as a shell gives it for SIGINT.
pub(crate) const EXIT_STATUS: u8 = 130;

/// Begins to listen for SIGINT, SIGTERM and SIGHUP. The second one ends `lockwork` at once.
pub(crate) fn listen() -> Result<(), Failure> {
    let listens = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::SeqCst) {
            kill_group();
            kill(*lock(&SERVER));
            let _put_back = hold_exit();
            std::process::exit(i32::from(EXIT_STATUS));
        }
        kill_group();
    });
    listens.map_err(|error| Failure::with_status(1, format!("cannot listen for Ctrl-C: {error}")))
}

/// As long as this is held, the second signal does not end `lockwork` either: it waits.
pub(crate) fn hold_exit() -> MutexGuard<'static, ()> {
    NO_EXIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the user wants to stop.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Spawns the child of a run, whose process group is its own.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut group = lock(&GROUP);
    if requested() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let child = command.spawn()?;
    *group = Pid::from_raw(child.id().cast_signed());
    Ok(child)
}

/// Kills every process of the group of the run under way, if there is one.
pub(crate) fn kill_group() {
    kill(*lock(&GROUP));
}

fn kill(group: Option<Pid>) {
    if let Some(group) = group {
        // Fails only when nothing of the group is left.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The process group of a server is up, or, before its first process is reaped, (`None`) no more.
pub(crate) fn note_server(group: Option<Pid>) {
    *lock(&SERVER) = group;
}

/// Called before the child is reaped: from then on its id may be given to another process.
pub(crate) fn forget_group() {
    *lock(&GROUP) = None;
}

fn lock(group: &Mutex<Option<Pid>>) -> MutexGuard<'_, Option<Pid>> {
    group.lock().unwrap_or_else(PoisonError::into_inner)
}
