//! Asking a process that was started without the recorder to record: through the board in its memory
//! (`lockwork_profile::board`), as a debugger would, and with a debugger's rights.

use std::fs::{self, File};
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use lockwork_profile::board::{ALIGNMENT, Board, FAILED, IDLE, MAGIC, MAKING, PATH, RECORDS};
use lockwork_profile::format::{Region, VERSION};

use crate::error::Failure;
use crate::program::describe;

/// How long a program may take until it uses a lock.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a process may take to make a file.
const PATIENCE_FOR_FILES: Duration = Duration::from_millis(100);

/// A board of a process, and where it is there.
pub(super) struct Remote {
    pid: u32,
    address: usize,
    board: Box<Board>,
    /// It has been asked by this command.
    is_asked: bool,
}

/// What a process answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It records.
    Records,
    /// It has used no lock since it was asked.
    NotYet,
}

/// The directory for the file of a process that is asked, and what its name begins with.
fn place() -> std::io::Result<(PathBuf, String)> {
    // The process may be in another directory.
    let directory = std::path::absolute(std::env::temp_dir())?;
    Ok((directory, format!("lockwork-top-{}", std::process::id())))
}

/// Removes what processes that this command asked have left. What they say that their files are called counts for nothing.
pub(super) fn remove_files() {
    let Ok((directory, prefix)) = place() else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.strip_prefix('.'));
        let is_ours = numbers
            .is_some_and(|numbers| numbers.bytes().all(|it| it.is_ascii_digit() || it == b'.'))
            && entry.metadata().is_ok_and(|it| it.is_file() && it.len() == size_of::<Region>() as u64);
        if is_ours {
            // Somebody else may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Keeps other commands from asking the process, until it is dropped. Nothing, where that cannot be had.
fn alone_with(pid: u32) -> Option<File> {
    let status = File::open(format!("/proc/{pid}/status")).ok()?;
    rustix::fs::flock(&status, rustix::fs::FlockOperation::LockExclusive).ok()?;
    Some(status)
}

/// The boards of a process with these maps of memory.
pub(super) fn boards(pid: u32, maps: &str) -> Result<Vec<Remote>, Failure> {
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw-p ") && line.contains('/')) {
        let Some((start, end)) = range(line) else { continue };
        let mut chunk = vec![0_u8; 1 << 20];
        for at in (start..end).step_by(chunk.len()) {
            let length = chunk.len().min(end - at);
            match read(pid, at, &mut chunk[..length]) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => continue,
                Err(error) => return Err(may_not(pid, &error)),
            }
            let magic: Vec<u8> = MAGIC.iter().flat_map(|word| word.to_ne_bytes()).collect();
            for (index, line) in chunk[..length].chunks(ALIGNMENT).enumerate() {
                if line.starts_with(&magic) {
                    found.extend(Remote::at(pid, at + index * ALIGNMENT));
                }
            }
        }
    }
    Ok(found)
}

fn range(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

fn may_not(pid: u32, error: &std::io::Error) -> Failure {
    let mend = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; ask as root, or let debuggers attach to processes of their own user: sysctl \
             kernel.yama.ptrace_scope=0"
        }
        _ => "",
    };
    Failure::usage(format!("process {pid} cannot be asked to record: {}{mend}", describe(error)))
}

/// Reads memory of a process.
fn read(pid: u32, address: usize, to: &mut [u8]) -> std::io::Result<()> {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: to.len() };
    // SAFETY: the slice is writable; the kernel checks the other process's memory.
    let done =
        unsafe { libc::process_vm_readv(pid.cast_signed(), &raw const local, 1, &raw const remote, 1, 0) };
    complete(done, to.len())
}

/// Writes memory of a process.
fn write(pid: u32, address: usize, from: &[u8]) -> std::io::Result<()> {
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: from.len() };
    // SAFETY: the slice is readable; the kernel checks the other process's memory.
    let done =
        unsafe { libc::process_vm_writev(pid.cast_signed(), &raw const local, 1, &raw const remote, 1, 0) };
    complete(done, from.len())
}

fn complete(done: isize, length: usize) -> std::io::Result<()> {
    match done {
        -1 => Err(std::io::Error::last_os_error()),
        done if done.unsigned_abs() == length => Ok(()),
        _ => Err(std::io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

impl Remote {
    fn at(pid: u32, address: usize) -> Option<Self> {
        let board = Box::new(Board::new(std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut()));
        let mut found = Self { pid, address, board, is_asked: false };
        found.look().ok().map(|()| found)
    }

    /// Reads it anew.
    fn look(&mut self) -> Result<(), Failure> {
        // SAFETY: the bytes of a structure of integers, for which all patterns are valid, that nobody else has.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((&raw mut *self.board).cast::<u8>(), size_of::<Board>())
        };
        read(self.pid, self.address, bytes).map_err(|error| self.cannot(&error))?;
        let is_there = self.board.magic.iter().zip(MAGIC).all(|(word, magic)| word.load(Relaxed) == magic);
        // Its number is another process's now, or it has become another program.
        if is_there { Ok(()) } else { Err(self.cannot(&std::io::Error::from_raw_os_error(libc::ESRCH))) }
    }

    fn cannot(&self, error: &std::io::Error) -> Failure {
        let pid = self.pid;
        match error.raw_os_error() {
            Some(libc::ESRCH) => Failure::usage(format!("process {pid} has ended")),
            _ => may_not(pid, error),
        }
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Failure> {
        write(self.pid, self.address + offset, bytes).map_err(|error| self.cannot(&error))
    }

    /// Whether the process records because it was asked, by this command or another.
    pub(super) fn records(&self) -> bool {
        self.board.state.load(Relaxed) == RECORDS
    }

    /// Whether it is to record because it was started so, and has used no lock yet.
    pub(super) fn asks_itself(&self) -> bool {
        self.board.gate.load(Relaxed) == self.board.asking.load(Relaxed)
            && self.board.path[0].load(Relaxed) == 0
    }

    /// Asks the process to record, and waits for its answer.
    pub(super) fn ask(&mut self) -> Result<Answer, Failure> {
        let pid = self.pid;
        let alone = alone_with(pid);
        // Another command may have asked.
        self.look()?;
        let board = &self.board;
        if board.version.load(Relaxed) != VERSION || board.bytes.load(Relaxed) != size_of::<Region>() as u64 {
            return Err(Failure::usage(format!(
                "process {pid} runs under a lockwork of another version; use the command that came with it"
            )));
        }
        let state = board.state.load(Relaxed);
        let is_asked = board.gate.load(Relaxed) == board.asking.load(Relaxed);
        if (state == IDLE || state & FAILED != 0) && !is_asked {
            self.check_limits()?;
            let (directory, prefix) = place().map_err(|error| self.cannot(&error))?;
            let Some(path) = directory.join(prefix).to_str().map(str::to_owned) else {
                return Err(Failure::usage("the name of the directory TMPDIR is no UTF-8; name another one"));
            };
            // The process adds numbers of its own.
            if path.len() > PATH - 64 {
                return Err(Failure::usage("the name of the directory TMPDIR is too long; name another one"));
            }
            self.write(offset_of!(Board, path), &[path.as_bytes(), &[0]].concat())?;
            // Nobody looks at that before the gate has changed.
            self.write(offset_of!(Board, state), &IDLE.to_ne_bytes())?;
            self.change_gate(self.board.closed.load(Relaxed).addr(), self.board.asking.load(Relaxed).addr())?;
            self.is_asked = true;
        }
        drop(alone);
        self.answer(PATIENCE)
    }

    /// Waits for the answer of a process that has been asked.
    pub(super) fn answer(&mut self, patience: Duration) -> Result<Answer, Failure> {
        let start = Instant::now();
        loop {
            self.look()?;
            match self.board.state.load(Relaxed) {
                RECORDS => return Ok(Answer::Records),
                state if state & FAILED != 0 => {
                    let error = std::io::Error::from_raw_os_error((state & !FAILED).cast_signed());
                    self.is_asked = false;
                    return Err(Failure::usage(format!(
                        "process {} cannot record in `{}`: {}; name a directory that it may write to, with 30 MB, \
                         by the variable TMPDIR",
                        self.pid,
                        std::env::temp_dir().display(),
                        describe(&error)
                    )));
                }
                MAKING | IDLE if start.elapsed() < patience => std::thread::sleep(Duration::from_millis(2)),
                _ => return Ok(Answer::NotYet),
            }
        }
    }

    /// Takes the question back, where the process has not heard it yet. If it hears it this very moment, it records.
    pub(super) fn withdraw(&mut self) {
        let _alone = alone_with(self.pid);
        if !std::mem::take(&mut self.is_asked)
            || self.look().is_err()
            || self.board.state.load(Relaxed) != IDLE
        {
            return;
        }
        let [closed, asking, open] =
            [&self.board.closed, &self.board.asking, &self.board.open].map(|gate| gate.load(Relaxed).addr());
        // A process that has ended needs no mending.
        let _ = self.change_gate(asking, closed);
        if closed != open && self.answer(PATIENCE_FOR_FILES).is_ok_and(|answer| answer == Answer::Records) {
            let _ = self.change_gate(closed, open);
        }
    }

    /// Changes the one byte in which the two differ.
    fn change_gate(&self, from: usize, to: usize) -> Result<(), Failure> {
        let [from, to] = [from, to].map(usize::to_ne_bytes);
        let different: Vec<usize> = (0..to.len()).filter(|byte| from[*byte] != to[*byte]).collect();
        let [byte] = different[..] else {
            return Err(Failure::usage(format!("process {} cannot be asked to record", self.pid)));
        };
        self.write(offset_of!(Board, gate) + byte, &[to[byte]])
    }

    /// What would end a process that makes a file: a limit on the size of files, or a filter of system calls that is
    /// its own.
    fn check_limits(&self) -> Result<(), Failure> {
        let pid = self.pid;
        let filters = |process: &str| -> u32 {
            let status =
                fs::read_to_string(Path::new("/proc").join(process).join("status")).unwrap_or_default();
            let field = |name: &str| {
                let value = status.lines().find_map(|line| line.strip_prefix(name))?;
                value.trim().parse::<u32>().ok()
            };
            // Kernels before 5.9 say only whether there are any.
            field("Seccomp_filters:").or_else(|| field("Seccomp:")).unwrap_or(0)
        };
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a writable structure; sets nothing.
        let known =
            unsafe { libc::prlimit(pid.cast_signed(), libc::RLIMIT_FSIZE, std::ptr::null(), &raw mut limit) };
        let is_elsewhere = |what: &str| {
            let of = |process: &str| fs::read_link(Path::new("/proc").join(process).join(what)).ok();
            of(&pid.to_string()) != of("self")
        };
        let why = if is_elsewhere("ns/mnt") || is_elsewhere("root") {
            "it has directories of its own, as in a container, and a file that it makes there is not seen here; \
             look at it from in there"
        } else if known == 0 && limit.rlim_cur < size_of::<Region>() as u64 {
            "it may not make files of 30 MB; start it with a higher limit (ulimit -f)"
        } else if filters(&pid.to_string()) > filters("self") {
            "it has a filter of system calls, which might end it for making a file; started by `lockwork profile --off`, \
             it makes the file before it sets the filter"
        } else {
            return Ok(());
        };
        Err(Failure::usage(format!("process {pid} is not asked to record: {why}")))
    }
}
