//! The standard error stream, at the end of processes that have closed it: coreutils do, before destructors run.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use syscalls::{Errno, Sysno, syscall};

const STDERR: usize = 2;

/// A second descriptor of what was the standard error stream at start; 0 if there is none.
static COPY: AtomicUsize = AtomicUsize::new(0);
/// The device and inode of that.
static IDENTITY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Makes [`write`] work after the program has closed its standard error stream.
pub(crate) fn keep() {
    /// Out of the way of programs that expect theirs to be numbered from 3.
    const LOWEST: usize = 900;
    const F_DUPFD_CLOEXEC: usize = 1030;
    // SAFETY: no memory is involved.
    let copy = unsafe { syscall!(Sysno::fcntl, STDERR, F_DUPFD_CLOEXEC, LOWEST) };
    if let Some((copy, identity)) = copy.ok().and_then(|copy| Some((copy, identity(copy)?))) {
        for (cell, value) in IDENTITY.iter().zip(identity) {
            cell.store(value, Relaxed);
        }
        COPY.store(copy, Relaxed);
    }
}

/// Writes to the standard error stream, ignoring failure: there is nobody to tell.
pub(crate) fn write(bytes: &[u8]) {
    if write_to(STDERR, bytes) != Err(Errno::EBADF) {
        return;
    }
    let copy = COPY.load(Relaxed);
    // The program may have closed that, too, and have got its number for another file.
    if copy != 0 && identity(copy) == Some([0, 1].map(|part: usize| IDENTITY[part].load(Relaxed))) {
        let _ = write_to(copy, bytes);
    }
}

fn write_to(file: usize, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: a readable slice.
    unsafe { syscall!(Sysno::write, file, bytes.as_ptr(), bytes.len()) }
}

/// The device and inode of an open file.
fn identity(file: usize) -> Option<[u64; 2]> {
    /// `struct stat`, which begins with these two on x86_64 and aarch64.
    #[repr(C)]
    struct Stat {
        identity: [u64; 2],
        rest: [u64; 16],
    }
    let mut stat = Stat { identity: [0; 2], rest: [0; 16] };
    // SAFETY: room for the kernel's structure of at most 144 bytes.
    unsafe { syscall!(Sysno::fstat, file, &raw mut stat) }.ok()?;
    Some(stat.identity)
}
