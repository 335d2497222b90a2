//! Processes that execute another program.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lockwork_platform::monitor::{BOARD_BYTES, ENTRIES, HEADER};
use lockwork_platform::{Native, Sched, sys};

use super::{attach, board_id, fork, map, receive, until, until_told};
use crate::{process, process_of};

/// For the other program: the descriptor to write to.
const NAPS: &str = "LOCKWORK_MONITOR_TEST_NAPS";
/// For the other program: the child that watches.
const WATCHER: &str = "LOCKWORK_MONITOR_TEST_WATCHER";
/// For the other program: which board the process had.
const BOARD: &str = "LOCKWORK_MONITOR_TEST_BOARD";
/// For the other program: the monitor's process.
const MONITOR: &str = "LOCKWORK_MONITOR_TEST_PID";
/// Context switches to be seen, or rather not to be.
const COUNT: usize = 50;

pub(super) fn who_executes_a_program_is_not_seen_any_more(socket: &Path) {
    watched_executes(socket, |mut napper| napper.exec());
}

/// Its task takes the place of the first one's.
pub(super) fn nor_if_another_thread_executes_it(socket: &Path) {
    watched_executes(socket, |mut napper| {
        thread::spawn(move || napper.exec()).join().unwrap_or_else(|_| io::ErrorKind::Other.into())
    });
}

/// Has a child keep the board of this process, which then executes another program.
fn watched_executes(socket: &Path, execute: fn(Command) -> io::Error) {
    let [_, descriptor, _] = receive(socket);
    // A client that asks again wants a watch, and does not know when it begins.
    receive(socket).into_iter().for_each(sys::close);
    let board = map(descriptor, BOARD_BYTES, libc::PROT_READ).expect("a mapping").cast::<AtomicU64>();
    let place = HEADER + Native::tid() as usize % ENTRIES;
    // SAFETY: within the board, which stays mapped, and which nobody here writes to.
    let entry = unsafe { &*board.wrapping_add(place) };
    until(|| entry.load(Ordering::Relaxed) != 0);
    let (mut naps, nap) = io::pipe().expect("a pipe");
    let watcher = fork(|| {
        let mut byte = [0];
        for _ in 0..COUNT {
            naps.read_exact(&mut byte).expect("a nap");
            assert_eq!(entry.load(Ordering::Relaxed), 0, "the other program is seen");
        }
    });
    let descriptor = nap.as_raw_fd();
    // SAFETY: our own descriptor.
    unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
    let mut napper = process("naps", socket);
    napper.env(NAPS, descriptor.to_string()).env(WATCHER, watcher.to_string());
    panic!("{}", execute(napper));
}

fn number(name: &str) -> i32 {
    std::env::var(name).expect(name).parse().expect("a number")
}

/// The other program: says of every nap, and ends as the watcher does.
pub(super) fn naps(_socket: &Path) {
    // SAFETY: passed on for this purpose.
    let mut nap = fs::File::from(unsafe { OwnedFd::from_raw_fd(number(NAPS)) });
    for _ in 0..COUNT {
        thread::sleep(Duration::from_millis(1));
        nap.write_all(&[0]).expect("the watcher");
    }
    assert!(super::ended_well(number(WATCHER)));
}

pub(super) fn another_program_gets_another_board(socket: &Path) {
    let [_, board, _] = receive(socket);
    panic!("{}", process("asks_again", socket).env(BOARD, board_id(board)).exec());
}

/// The other program.
pub(super) fn asks_again(socket: &Path) {
    let descriptors = receive(socket);
    assert_ne!(board_id(descriptors[1]), std::env::var(BOARD).expect("the former board"));
    descriptors.into_iter().for_each(sys::close);
    attach(socket);
    until_told(|| Native::running(Native::tid()) == Some(true));
}

/// A process connects while the monitor cannot notice, and is another program when it does.
pub(super) fn a_program_with_more_rights_gets_no_board(socket: &Path) {
    const NOBODY: u32 = 65_534;
    let directory = socket.parent().expect("a directory");
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
    };
    set_mode(directory, 0o755);
    let program = directory.join("program");
    fs::copy(std::env::current_exe().expect("this program"), &program).expect("a copy");
    set_mode(&program, 0o4_755);
    let own = UnixStream::connect(socket).expect("the monitor");
    let monitor = rustix::net::sockopt::socket_peercred(&own).expect("the credentials of the listener").pid;
    rustix::process::kill_process(monitor, rustix::process::Signal::STOP).expect("our monitor");
    let place = socket.to_owned();
    let connect = move || {
        let stream = UnixStream::connect(&place)?;
        rustix::stdio::dup2_stdin(stream)?;
        Ok(())
    };
    let mut command = process_of(&program, "has_more_rights", socket);
    command.env(MONITOR, monitor.as_raw_nonzero().to_string()).uid(NOBODY).gid(NOBODY);
    // SAFETY: this process has one thread.
    unsafe { command.pre_exec(connect) };
    assert!(command.status().expect("the other program").success());
}

/// The other program.
pub(super) fn has_more_rights(_socket: &Path) {
    let monitor = rustix::process::Pid::from_raw(number(MONITOR)).expect("a process");
    if !rustix::process::geteuid().is_root() {
        panic!("programs cannot have more rights here: TMPDIR is mounted without set-user-id");
    }
    rustix::process::kill_process(monitor, rustix::process::Signal::CONT).expect("the monitor");
    assert_eq!(io::stdin().read(&mut [0]).expect("the monitor's answer"), 0, "a board");
}
