//! Who connected.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

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
        let unknown = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let credentials = socket_option(stream, libc::SO_PEERCRED, unknown)?;
        let user = credentials.uid;
        // 0 stands for all processes of namespaces that are not below ours.
        let pid = Pid::from_raw(credentials.pid).ok_or(io::ErrorKind::PermissionDenied)?;
        let process = match socket_option(stream, SO_PEERPIDFD, -1) {
            // SAFETY: just opened, and nobody else has it.
            Ok(descriptor) => unsafe { OwnedFd::from_raw_fd(descriptor) },
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => open_checked(pid, user)?,
            Err(error) => return Err(error),
        };
        Ok(Self { pid: pid.as_raw_nonzero().get() as u32, user, process })
    }
}

/// What the kernel says of a socket, in the form of `value`.
fn socket_option<T: Copy>(stream: &UnixStream, option: libc::c_int, mut value: T) -> io::Result<T> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let socket = stream.as_fd().as_raw_fd();
    let place = (&raw mut value).cast();
    // SAFETY: the value is writable for the length given, and of a type of which all bit patterns are valid.
    let result = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, option, place, &raw mut length) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// By the number, on older kernels. It may have passed to another process since, but not to one of another user.
fn open_checked(pid: Pid, user: u32) -> io::Result<OwnedFd> {
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let owner = fs::metadata(format!("/proc/{}", pid.as_raw_nonzero()))?.uid();
    if owner == user { Ok(process) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}
