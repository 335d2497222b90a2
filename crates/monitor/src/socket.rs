//! Where clients connect.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::Obstacle;

/// A socket that everybody may connect to. With it goes its file.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Socket {
    /// Listens at `path`, whose directory is made if it is not there. A socket that a killed monitor left behind
    /// is replaced.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(crate) fn listen(path: &Path) -> Result<Self, Obstacle> {
        let name = || path.display().to_string();
        let refused = |error| Obstacle::Socket(name(), error);
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            // Clients of all users come here, and nobody else may put a socket there, whatever the umask that we were started with.
            let before = rustix::process::umask(Mode::from_raw_mode(0o022));
            let made = fs::create_dir_all(directory).map_err(refused);
            rustix::process::umask(before);
            made?;
        }
        if has_listener(path) {
            return Err(Obstacle::AlreadyRunning(name()));
        }
        match fs::symlink_metadata(path) {
            Ok(there) if there.file_type().is_socket() => fs::remove_file(path).map_err(refused)?,
            _ => {}
        }
        // Not by its path later: somebody else's file may be there by then.
        let before = rustix::process::umask(Mode::from_raw_mode(0o111));
        let listener = UnixListener::bind(path).map_err(refused);
        rustix::process::umask(before);
        let listener = listener?;
        listener.set_nonblocking(true).map_err(refused)?;
        let file = identity(path).map_err(refused)?;
        Ok(Self { listener, path: path.to_owned(), file })
    }

    /// The next client that connected, if there is one.
    pub(crate) fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().map(|(stream, _)| stream)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another monitor's may be there by now.
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether somebody listens at this path, also one that is stopped and has its queue full.
fn has_listener(path: &Path) -> bool {
    let Ok(address) = SocketAddrUnix::new(path) else { return false };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connected = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|socket| connect(&socket, &address));
    matches!(connected, Ok(()) | Err(Errno::AGAIN))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn everybody_reaches_the_socket_whatever_the_umask() {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, umask) in [("closed", 0o077), ("open", 0)] {
            let path = directory.path().join(name).join("in/socket");
            let before = rustix::process::umask(Mode::from_raw_mode(umask));
            let socket = Socket::listen(&path);
            assert_eq!(rustix::process::umask(before), Mode::from_raw_mode(umask), "put back");
            assert!(socket.is_ok(), "{socket:?}");
            for made in path.ancestors().skip(1).take(2) {
                let mode = fs::metadata(made).expect("made above").permissions().mode() & 0o777;
                assert_eq!(mode, 0o755, "{}", made.display());
            }
        }
    }

    #[test]
    fn a_listener_that_accepts_nobody_is_there_all_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let _listener = UnixListener::bind(&path).expect("a listener");
        let address = SocketAddrUnix::new(&path).expect("a short path");
        let mut waiting = Vec::new();
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a socket");
            match connect(&socket, &address) {
                Ok(()) => waiting.push(socket),
                Err(Errno::AGAIN) => break,
                Err(error) => panic!("{error}"),
            }
            assert!(waiting.len() < 10_000, "a queue without an end");
        }
        let (told, tells) = channel();
        thread::spawn(move || told.send(matches!(Socket::listen(&path), Err(Obstacle::AlreadyRunning(_)))));
        assert_eq!(
            tells.recv_timeout(Duration::from_secs(60)),
            Ok(true),
            "it waits for the one that is there"
        );
    }
}
