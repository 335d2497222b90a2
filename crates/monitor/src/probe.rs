//! The probe: a function in a file of the monitor's at which the kernel calls our program, as long as the monitor lives
//! (`lockwork_platform::monitor` has it, and what is done with it).
//!
//! The breakpoint (`uprobes`) is in the copies of the processes that map this file, and in no other program; a process that
//! writes to its copy changes only that.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use lockwork_platform::monitor::PROBE;
use rustix::fs::SealFlags;
use rustix::io::pwrite;
use rustix::thread::sched_getcpu;

use crate::files;

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

/// The file.
#[derive(Debug)]
pub(crate) struct Probe(OwnedFd);

/// The program being called, until this is dropped.
#[derive(Debug)]
pub(crate) struct Answers {
    _event: OwnedFd,
}

impl Probe {
    pub(crate) fn new() -> io::Result<Self> {
        let file = files::create("lockwork-probe")?;
        pwrite(&file, &PROBE, 0)?;
        // Clients execute it.
        Ok(Self(files::readable(file, SealFlags::WRITE)?))
    }

    /// The clients' descriptor, for reading and executing only.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Has the program run at every call of the probe.
    pub(crate) fn answer(&self, program: BorrowedFd) -> io::Result<Answers> {
        /// Of whatever process; the event itself, which nobody reads, is of one CPU.
        const ALL: libc::pid_t = -1;
        const CLOSE_ON_EXEC: libc::c_ulong = 8;
        const SET_PROGRAM: libc::Ioctl = 0x4004_2408;
        let kind = fs::read_to_string(KIND)?.trim().parse().map_err(io::Error::other)?;
        let path = files::path(self.readable());
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
            offset: 0,
        };
        let cpu = sched_getcpu() as libc::c_int;
        // SAFETY: the event is as long as it says, and its path is terminated.
        let result = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const event, ALL, cpu, -1, CLOSE_ON_EXEC)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else has it.
        let event = unsafe { OwnedFd::from_raw_fd(result as i32) };
        // SAFETY: no memory is involved.
        if unsafe { libc::ioctl(event.as_raw_fd(), SET_PROGRAM, program.as_raw_fd()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Answers { _event: event })
    }
}
