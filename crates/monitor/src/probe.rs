//! The probe: a function in the monitor's own page that the kernel answers, as long as the monitor lives.
//!
//! It does nothing but return. Processes map it, and where they call it the kernel has put a breakpoint (`uprobes`), at
//! which it calls our program on behalf of who called. So only callers pay, and no system call is made that a filter could
//! mind. The breakpoint is in the copies of those that map this page of this file, and in no other program; a process
//! changes nothing by writing to its own copy but its own.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The function: `nop`, where the breakpoint comes, and `ret`. (The kernel need not carry out a `nop` elsewhere.)
#[cfg(target_arch = "x86_64")]
pub(crate) const CODE: [u8; 2] = [0x90, 0xc3];
#[cfg(target_arch = "aarch64")]
pub(crate) const CODE: [u8; 8] = [0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6];

/// The number of the kind of events that uprobes are.
const KIND: &str = "/sys/bus/event_source/devices/uprobe/type";

/// `perf_event_attr`, as much of it as tells which uprobe.
#[repr(C)]
struct Event {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    path: *const libc::c_char,
    offset: u64,
}

/// Has the program called, for as long as the descriptor lives, whenever anybody executes the first instruction of
/// [`CODE`] at `offset` in the file.
pub(crate) fn attach(program: BorrowedFd, file: BorrowedFd, offset: usize) -> io::Result<OwnedFd> {
    /// Of whatever process; the event itself, which nobody reads, is of one CPU.
    const ALL: libc::pid_t = -1;
    const CPU: libc::c_int = 0;
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    const SET_PROGRAM: libc::Ioctl = 0x4004_2408;
    let kind = fs::read_to_string(KIND)?.trim().parse().map_err(io::Error::other)?;
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let event = Event {
        kind,
        size: size_of::<Event>() as u32,
        config: 0,
        period: 0,
        sample: 0,
        read: 0,
        flags: 0,
        wakeup: 0,
        breakpoint: 0,
        path: path.as_ptr(),
        offset: offset as u64,
    };
    // SAFETY: the event is as long as it says, and its path is terminated.
    let result =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const event, ALL, CPU, -1, CLOSE_ON_EXEC) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else has it.
    let event = unsafe { OwnedFd::from_raw_fd(result as i32) };
    // SAFETY: no memory is involved.
    if unsafe { libc::ioctl(event.as_raw_fd(), SET_PROGRAM, program.as_raw_fd()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(event)
}
