//! Where clients connect.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

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
            fs::create_dir_all(directory).map_err(refused)?;
        }
        if UnixStream::connect(path).is_ok() {
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

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}
