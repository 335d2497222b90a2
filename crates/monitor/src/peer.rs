//! Who connected.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// `SO_PEERPIDFD`, since Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// A client process.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) user: u32,
    /// The process itself, whatever becomes of its number.
    pub(crate) process: OwnedFd,
}

impl Peer {
    /// The process that connected `stream`.
    ///
    /// # Errors
    ///
    /// It has ended, or lives in a namespace that cannot be seen from here.
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = socket_peercred(stream)?;
        let pid = credentials.pid;
        let user = credentials.uid.as_raw();
        let process = match peer_pidfd(stream) {
            Ok(process) => process,
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => open_checked(pid, user)?,
            Err(error) => return Err(error),
        };
        Ok(Self { pid: pid.as_raw_nonzero().get() as u32, user, process })
    }
}

fn peer_pidfd(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut descriptor: libc::c_int = -1;
    let mut length = size_of_val(&descriptor) as libc::socklen_t;
    // SAFETY: the descriptor is writable for the length given.
    let result = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut descriptor).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// By the number, on older kernels. It may have passed to another process since, but not to one of another user.
fn open_checked(pid: Pid, user: u32) -> io::Result<OwnedFd> {
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let owner = fs::metadata(format!("/proc/{}", pid.as_raw_nonzero()))?.uid();
    if owner == user { Ok(process) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}
