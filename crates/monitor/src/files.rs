//! Memory files that are handed to clients.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, memfd_create, open};
use rustix::io::Errno;

/// A file of that name, which nobody else has.
pub(crate) fn create(name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Systems may refuse executable memory files, and older kernels do not know the flag. Executable mappings are not meant.
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(memfd_create(name, flags)?),
        result => Ok(result?),
    }
}

/// The same file, to hand to clients: its size is fixed, and no seal can be taken off. Clients cannot keep attributes
/// with it either.
pub(crate) fn readable(file: OwnedFd, seals: SealFlags) -> io::Result<OwnedFd> {
    fcntl_add_seals(&file, seals | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    fchmod(&file, Mode::RUSR | Mode::RGRP | Mode::ROTH)?;
    Ok(open(path(file.as_fd()), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// A path by which this process finds it.
pub(crate) fn path(file: BorrowedFd) -> CString {
    // No byte of it is 0.
    CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}
