//! The file of this process: its name, how it is made and mapped, and how it goes again.
//!
//! It is made with all the room it will need: a disk that fills up later disturbs nobody. The memory it is mapped at is never
//! unmapped, whatever becomes of the file, since an operation that is under way may refer to it: a child of `fork` has empty
//! memory there, or a file of its own.

use core::ffi::{CStr, c_char};
use core::fmt::{self, Write as _};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU8};

use lockwork_platform::sys;
use syscalls::{Errno, Sysno, syscall};

use super::pid;
use super::text::Text;
use crate::board::{Board, PATH};
use crate::format::Region;

/// What the names of files begin with: the variable's value, in the environment for ever, or the board's.
static PREFIX: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// The mean time between sampled points of waiting.
const WAIT_PERIOD_NS: u64 = 50_000;
/// Threads are sampled once in that many acquisitions at most.
const MAX_PERIOD: u32 = 1024;

const AT_FDCWD: usize = -100_isize as usize;
const READ_WRITE: usize = 1 | 2;
const FIXED: usize = 16;

/// Numbers of files that are tried.
const MOST_NUMBERS: u32 = 1000;
/// How often a signal may interrupt the making of a file.
const MOST_INTERRUPTIONS: u32 = 100;

/// Names of files are to begin with this, a terminated string that is there for ever.
pub(super) fn name_after(prefix: *const c_char) {
    PREFIX.store(prefix.cast_mut(), Relaxed);
}

fn prefix() -> &'static CStr {
    // SAFETY: a terminated string of the initial environment, or the board's.
    unsafe { CStr::from_ptr(PREFIX.load(Relaxed)) }
}

/// Makes a file for this process and maps it, at `place` unless that is null.
pub(super) fn make(board: &Board, place: *mut Region, is_on: bool) -> Result<*mut Region, Errno> {
    let file = create(&mut Name::of(board))?;
    let mapped = allocate(file).and_then(|()| map(file, place));
    sys::close(file as i32);
    if mapped.is_err() {
        remove(board);
    }
    let region = mapped?;
    let mut buffer = [0_u8; 64];
    let name = sys::read_file(c"/proc/self/comm", &mut buffer).unwrap_or(b"?").trim_ascii();
    // SAFETY: fresh and zeroed, which is a valid state.
    unsafe { &*region }.start(pid(), name, WAIT_PERIOD_NS, MAX_PERIOD, is_on);
    Ok(region)
}

/// The name of a file, in the board: threads that come here may have the smallest of stacks.
struct Name<'a> {
    bytes: &'a [AtomicU8; PATH],
    /// The bytes that all names of this process begin with.
    prefix: usize,
    length: usize,
}

impl<'a> Name<'a> {
    fn of(board: &'a Board) -> Self {
        let path = prefix();
        let prefix = path.count_bytes().min(PATH);
        // It may be there already.
        if !ptr::eq(path.as_ptr().cast(), board.path.as_ptr()) {
            board.path.iter().zip(path.to_bytes()).for_each(|(cell, byte)| cell.store(*byte, Relaxed));
        }
        Self { bytes: &board.path, prefix, length: prefix }
    }

    /// The name of this number, terminated, for the kernel.
    fn number(&mut self, number: u32) -> Result<*const AtomicU8, Errno> {
        self.length = self.prefix;
        let suffix = match number {
            0 => write!(self, ".{}\0", pid()),
            // The process has been another program before, or another library in it records, too.
            _ => write!(self, ".{}.{number}\0", pid()),
        };
        suffix.map(|()| self.bytes.as_ptr()).map_err(|_| Errno::ENAMETOOLONG)
    }
}

impl fmt::Write for Name<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.bytes.get(self.length).ok_or(fmt::Error)?.store(byte, Relaxed);
            self.length += 1;
        }
        Ok(())
    }
}

/// Creates the file of the first number that there is none of.
fn create(name: &mut Name<'_>) -> Result<usize, Errno> {
    const RDWR_CREAT_EXCL_CLOEXEC: usize = 0o2 | 0o100 | 0o200 | 0o2_000_000;
    let mut number = 0;
    loop {
        let pointer = name.number(number)?;
        // SAFETY: a terminated path.
        match unsafe { syscall!(Sysno::openat, AT_FDCWD, pointer, RDWR_CREAT_EXCL_CLOEXEC, 0o600) } {
            Err(Errno::EINTR) => {}
            Err(Errno::EEXIST) if number < MOST_NUMBERS => number += 1,
            result => return result,
        }
    }
}

/// Gives a file all the blocks that it will need; or the size alone, where the file system cannot do more.
fn allocate(file: usize) -> Result<(), Errno> {
    let bytes = size_of::<Region>();
    // The kernel would send a signal that ends the process.
    if largest_file() < bytes as u64 {
        return Err(Errno::EFBIG);
    }
    // A program's timer may strike each time, and what has been done is undone then.
    for _ in 0..=MOST_INTERRUPTIONS {
        // SAFETY: no memory is involved.
        match unsafe { syscall!(Sysno::fallocate, file, 0, 0, bytes) } {
            Err(Errno::EINTR) => {}
            // SAFETY: no memory is involved.
            Err(Errno::EOPNOTSUPP) => return unsafe { syscall!(Sysno::ftruncate, file, bytes) }.map(drop),
            result => return result.map(drop),
        }
    }
    Err(Errno::EINTR)
}

fn map(file: usize, place: *mut Region) -> Result<*mut Region, Errno> {
    const SHARED: usize = 1;
    let bytes = size_of::<Region>();
    let flags = if place.is_null() { SHARED } else { SHARED | FIXED };
    // SAFETY: a fresh mapping, or one in the place of the parent's, which this process has no more use for.
    let address = unsafe { syscall!(Sysno::mmap, place, bytes, READ_WRITE, flags, file, 0) };
    address.map(|address| address as *mut Region)
}

/// The size that a file of this process may have.
fn largest_file() -> u64 {
    const FSIZE: usize = 1;
    let mut limits = [u64::MAX; 2];
    // SAFETY: two writable words; no limit is set.
    let _ = unsafe { syscall!(Sysno::prlimit64, 0, FSIZE, 0, limits.as_mut_ptr()) };
    limits[0]
}

/// Removes the file whose name is in the board.
pub(super) fn remove(board: &Board) {
    // SAFETY: a terminated path.
    let _ = unsafe { syscall!(Sysno::unlinkat, AT_FDCWD, board.path.as_ptr(), 0) };
}

/// Puts empty memory in the place of the parent's file. An operation may be under way that a signal handler has interrupted to
/// fork: what it refers to stays there, and changes nothing.
pub(super) fn forget(place: *mut Region) {
    const PRIVATE_ANONYMOUS: usize = 2 | 0x20;
    let bytes = size_of::<Region>();
    let flags = PRIVATE_ANONYMOUS | FIXED;
    // SAFETY: in the place of a mapping of that size, which is never taken away; zero is a valid state.
    let _ = unsafe { syscall!(Sysno::mmap, place, bytes, READ_WRITE, flags, usize::MAX, 0) };
}

/// Says why the process is not recorded.
pub(super) fn say_why_not(error: Errno) {
    let why = match error {
        Errno::ENOSPC | Errno::EDQUOT => "no space is left on the device; it needs 30 MB",
        Errno::ENOENT | Errno::ENOTDIR => "there is no such directory",
        Errno::EACCES | Errno::EROFS => "permission denied",
        Errno::ENAMETOOLONG => "its name is too long",
        Errno::EFBIG => "its files may not be as large as 30 MB; raise that limit (ulimit -f)",
        _ => "the file cannot be made",
    };
    let mut line = Text::<512>::EMPTY;
    let path = prefix().to_str().unwrap_or("?");
    let _ = writeln!(line, "lockwork: process {} is not recorded: {path}.{}: {why}", pid(), pid());
    sys::write_stderr(line.as_bytes());
}
