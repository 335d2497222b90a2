//! The process that listens at the socket need not be the monitor.

use std::fs::{self, File};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use lockwork_platform::monitor::{ALIVE, Attached, BOARD_BYTES, PAGE_WORDS, PROBE, PROBE_WORD, attach};
use lockwork_platform::{Native, Sched};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::{ended_well, fork, forked, plain, receive};

/// A memory file with this in it.
fn file(content: &[u8], seals: SealFlags) -> OwnedFd {
    let file = memfd_create("false", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memory file");
    let mut file = File::from(file);
    file.write_all(content).expect("memory");
    fcntl_add_seals(&file, seals).expect("seals");
    file.into()
}

/// What is executed, or mapped, of what it sends is only what cannot hurt. But for the first, all lack one thing.
pub(super) fn a_false_monitor_does_no_harm(socket: &Path) {
    let all = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW;
    let mut other = PROBE;
    other[0] ^= 1;
    let mut words = [0_u32; PAGE_WORDS];
    (words[0], words[PROBE_WORD]) = (ALIVE, 1);
    let words = words.map(u32::to_ne_bytes).concat();
    let page = file(&words, SealFlags::SHRINK);
    let [_, board, probe] = receive(socket);
    // SAFETY: just received.
    let [board, probe] = [board, probe].map(|each| unsafe { OwnedFd::from_raw_fd(each) });
    assert_eq!(meet(socket, &page, &board, &probe), (true, true));
    for probe in [
        file(&other, all),
        file(&PROBE, SealFlags::SHRINK | SealFlags::GROW),
        file(&PROBE[..1], all),
        file(&[], all),
        File::open("/dev/zero").expect("a device").into(),
    ] {
        assert_eq!(meet(socket, &page, &board, &probe), (true, false));
    }
    for page in [
        file(&words, SealFlags::GROW),
        file(&words[1..], SealFlags::SHRINK),
        file(&[], SealFlags::SHRINK),
        File::open("/dev/zero").expect("a device").into(),
    ] {
        assert_eq!(meet(socket, &page, &board, &probe), (false, false));
    }
    let false_board = file(&[0; BOARD_BYTES], all);
    assert_eq!(meet(socket, &page, &false_board, &probe), (false, false));
}

/// Has a client connect to a monitor that sends this; whether it attaches, and asks.
fn meet(socket: &Path, page: &OwnedFd, board: &OwnedFd, probe: &OwnedFd) -> (bool, bool) {
    let path = socket.with_file_name("false");
    let listener = UnixListener::bind(&path).expect("a socket");
    let server = fork(|| {
        loop {
            let (stream, _) = listener.accept().expect("a client");
            hand_out(&stream, [page.as_fd(), board.as_fd(), probe.as_fd()]);
        }
    });
    let (mut said, mut says) = io::pipe().expect("a pipe");
    assert!(forked(|| {
        // An answer may come too late.
        let attaches = (0..20).any(|_| attach(plain(&path)) == Attached::Yes);
        says.write_all(&[attaches.into(), Native::tells_who_ran().into()]).expect("the parent");
    }));
    // SAFETY: our own child.
    unsafe { libc::kill(server, libc::SIGKILL) };
    ended_well(server);
    fs::remove_file(path).expect("our own socket");
    let mut saw = [0; 2];
    said.read_exact(&mut saw).expect("two bytes");
    (saw[0] != 0, saw[1] != 0)
}

/// Sends descriptors as the monitor does.
fn hand_out(stream: &UnixStream, descriptors: [BorrowedFd; 3]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL).expect("a client that waits");
}
