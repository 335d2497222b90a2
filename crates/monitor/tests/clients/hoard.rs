//! A user who keeps the boards of processes that have ended.

use std::fs;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use lockwork_monitor::PER_USER;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recvmsg, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};

use super::{fork, forked, until};

/// A user and a group without any other process.
const USER: u32 = 64_321;

pub(super) fn boards_of_ended_processes_count_while_they_are_kept(socket: &Path) {
    let directory = socket.parent().expect("a directory");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("our own directory");
    assert!(forked(|| {
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::setresgid(USER, USER, USER) }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::setresuid(USER, USER, USER) }, 0);
        let mut boards = Vec::new();
        for _ in 0..PER_USER {
            boards.push(board_of_a_child(socket).expect("one that may be had"));
        }
        for _ in 0..3 {
            assert!(board_of_a_child(socket).is_none(), "one more");
        }
        drop(boards);
        until(|| board_of_a_child(socket).is_some());
    }));
}

/// The board of a child that has ended, if it got one.
fn board_of_a_child(path: &Path) -> Option<OwnedFd> {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
    let (mut is_connected, mut connected) = io::pipe().expect("a pipe");
    let child = fork(|| {
        connect(&socket, &SocketAddrUnix::new(path).expect("a short path")).expect("the monitor");
        connected.write_all(&[0]).expect("the parent");
        loop {
            thread::park();
        }
    });
    is_connected.read_exact(&mut [0]).expect("a child that connects");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
        .expect("the monitor's answer, or the end");
    let descriptors = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let board = descriptors.and_then(|mut all| all.nth(1));
    kill_process(Pid::from_raw(child).expect("a child"), Signal::KILL).expect("our own child");
    super::ended_well(child);
    board
}
