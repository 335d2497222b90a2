//! Who listens at the socket need not be the monitor.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use lockwork_platform::monitor::{ALIVE, Attached, BOARD_BYTES, PAGE_WORDS, PROBE, PROBE_WORD, attach};
use lockwork_platform::{LastSeen, Native, Platform};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::{ended_well, fork, forked, plain, until};

/// A memory file with this in it.
fn file(content: &[u8], seals: SealFlags) -> OwnedFd {
    let file = memfd_create("false", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memory file");
    let mut file = File::from(file);
    file.write_all(content).expect("memory");
    fcntl_add_seals(&file, seals).expect("seals");
    file.into()
}

/// It is taken for a monitor, but nothing of what it sends is executed unless it is the probe, and stays that.
pub(super) fn what_a_false_monitor_sends_is_not_executed(socket: &Path) {
    let all = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW;
    let mut other = PROBE;
    other[0] ^= 1;
    let sent = [
        file(&other, all),
        file(&PROBE, SealFlags::SHRINK | SealFlags::GROW),
        file(&PROBE[..1], all),
        file(&[], all),
        File::open("/dev/zero").expect("a device").into(),
    ];
    let mut words = [0_u32; PAGE_WORDS];
    (words[0], words[PROBE_WORD]) = (ALIVE, 1);
    let page = file(&words.map(u32::to_ne_bytes).concat(), SealFlags::empty());
    let board = file(&[0; BOARD_BYTES], SealFlags::empty());
    for (index, probe) in sent.iter().enumerate() {
        let path = socket.with_file_name(format!("false{index}"));
        let listener = UnixListener::bind(&path).expect("a socket");
        let server = fork(|| {
            loop {
                let (stream, _) = listener.accept().expect("a client");
                hand_out(&stream, [page.as_fd(), board.as_fd(), probe.as_fd()]);
            }
        });
        let is_well = forked(|| {
            until(|| attach(plain(&path)) == Attached::Yes);
            assert_eq!(Native::has_run(Native::tid(), &mut LastSeen::default()), None);
            assert!(!Native::tells_who_ran());
        });
        // SAFETY: our own child.
        unsafe { libc::kill(server, libc::SIGKILL) };
        ended_well(server);
        assert!(is_well, "{index}");
    }
}

/// Sends descriptors as the monitor does.
fn hand_out(stream: &UnixStream, descriptors: [BorrowedFd; 3]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL).expect("a client that waits");
}
