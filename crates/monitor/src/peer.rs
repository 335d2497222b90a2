//! The process that connected.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// `SO_PEERPIDFD`, since Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// A client process.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) user: u32,
    group: u32,
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
        let (user, group) = (credentials.uid, credentials.gid);
        // 0 stands for all processes of namespaces that are not below ours.
        let pid = Pid::from_raw(credentials.pid).ok_or(io::ErrorKind::PermissionDenied)?;
        let process = match socket_option(stream, SO_PEERPIDFD, -1) {
            // SAFETY: just opened, and nobody else has it.
            Ok(descriptor) => unsafe { OwnedFd::from_raw_fd(descriptor) },
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => open_checked(pid, user)?,
            Err(error) => return Err(error),
        };
        Ok(Self { pid: pid.as_raw_nonzero().get() as u32, user, group, process })
    }

    /// Whether it has the rights that it had when it connected, as far as that is known. A process that has executed a
    /// program with more of them since, by its mode or its capabilities, has not; nor has one with capabilities of
    /// another user than root.
    ///
    /// # Errors
    ///
    /// Nobody knows its rights.
    pub(crate) fn has_same_rights(&self) -> io::Result<bool> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        // While it has not ended the number is its own.
        Ok(!self.has_ended()? && has_rights_of(&status, self.user, self.group))
    }

    pub(crate) fn has_ended(&self) -> io::Result<bool> {
        let mut events = [PollFd::new(&self.process, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(poll(&mut events, Some(&now))? > 0)
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

/// Whether `status` is that of a process which has the rights of this user and group.
fn has_rights_of(status: &str, user: u32, group: u32) -> bool {
    let field = |name: &str, number| {
        status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().nth(number)
    };
    /// Behind the real one.
    const EFFECTIVE: usize = 1;
    let is = |name, id: u32| field(name, EFFECTIVE).and_then(|text| text.parse().ok()) == Some(id);
    let capabilities = field("CapPrm:", 0).and_then(|text| u64::from_str_radix(text, 16).ok());
    is("Uid:", user) && is("Gid:", group) && (user == 0 || capabilities == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(user: u32, group: u32, capabilities: &str) -> String {
        format!(
            "Name:\tx\nUid:\t1000\t{user}\t{user}\t{user}\nGid:\t100\t{group}\t{group}\t{group}\n\
             CapInh:\t0000000000000000\nCapPrm:\t{capabilities}\n"
        )
    }

    #[test]
    fn more_rights_are_seen() {
        const NONE: &str = "0000000000000000";
        const ONE: &str = "0000000000002000";
        assert!(has_rights_of(&status(1000, 100, NONE), 1000, 100));
        assert!(!has_rights_of(&status(0, 100, NONE), 1000, 100), "a program with the mode bit of the user");
        assert!(
            !has_rights_of(&status(1000, 5, NONE), 1000, 100),
            "a program with the mode bit of the group"
        );
        assert!(!has_rights_of(&status(1000, 100, ONE), 1000, 100), "a program with capabilities");
        assert!(has_rights_of(&status(0, 0, ONE), 0, 0));
        assert!(!has_rights_of("", 0, 0));
    }
}
