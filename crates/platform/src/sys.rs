//! The system calls the library makes, raw: `libc::syscall` would change `errno` under the program.

use core::ffi::CStr;
use core::fmt::{self, Write as _};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use crate::arch::syscall6;
use crate::cpu::{Clock, Deadline};

mod shared;
mod threads;

pub use shared::{
    FileSystem, connect, file_system, map_code, map_shared, map_zeroes, read_at, receive_descriptors, seals,
};

pub(crate) use threads::look_at_threads;

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const READ: usize = 0;
    pub(super) const WRITE: usize = 1;
    pub(super) const CLOSE: usize = 3;
    pub(super) const LSEEK: usize = 8;
    pub(super) const GETDENTS: usize = 217;
    pub(super) const MMAP: usize = 9;
    pub(super) const MUNMAP: usize = 11;
    pub(super) const RT_SIGPROCMASK: usize = 14;
    pub(super) const SCHED_YIELD: usize = 24;
    pub(super) const SCHED_SETSCHEDULER: usize = 144;
    pub(super) const GETRUSAGE: usize = 98;
    pub(super) const MINCORE: usize = 27;
    pub(super) const SOCKET: usize = 41;
    pub(super) const CONNECT: usize = 42;
    pub(super) const RECVMSG: usize = 47;
    pub(super) const PREAD: usize = 17;
    pub(super) const FSTATFS: usize = 138;
    pub(super) const FCNTL: usize = 72;
    pub(super) const PRCTL: usize = 157;
    pub(super) const MADVISE: usize = 28;
    pub(super) const GETTID: usize = 186;
    pub(super) const SCHED_GETAFFINITY: usize = 204;
    pub(super) const FUTEX: usize = 202;
    pub(super) const CLOCK_GETTIME: usize = 228;
    pub(super) const OPENAT: usize = 257;
    pub(super) const PPOLL: usize = 271;
    pub(super) const GETCPU: usize = 309;
    pub(super) const NANOSLEEP: usize = 35;
    pub(super) const MEMBARRIER: usize = 324;
    pub(super) const EXIT_GROUP: usize = 231;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const FCNTL: usize = 25;
    pub(super) const PREAD: usize = 67;
    pub(super) const FSTATFS: usize = 44;
    pub(super) const OPENAT: usize = 56;
    pub(super) const CLOSE: usize = 57;
    pub(super) const GETDENTS: usize = 61;
    pub(super) const LSEEK: usize = 62;
    pub(super) const READ: usize = 63;
    pub(super) const WRITE: usize = 64;
    pub(super) const PPOLL: usize = 73;
    pub(super) const FUTEX: usize = 98;
    pub(super) const CLOCK_GETTIME: usize = 113;
    pub(super) const SCHED_YIELD: usize = 124;
    pub(super) const SCHED_SETSCHEDULER: usize = 119;
    pub(super) const RT_SIGPROCMASK: usize = 135;
    pub(super) const SOCKET: usize = 198;
    pub(super) const CONNECT: usize = 203;
    pub(super) const RECVMSG: usize = 212;
    pub(super) const PRCTL: usize = 167;
    pub(super) const NANOSLEEP: usize = 101;
    pub(super) const GETCPU: usize = 168;
    pub(super) const GETRUSAGE: usize = 165;
    pub(super) const GETTID: usize = 178;
    pub(super) const SCHED_GETAFFINITY: usize = 123;
    pub(super) const MUNMAP: usize = 215;
    pub(super) const MMAP: usize = 222;
    pub(super) const MINCORE: usize = 232;
    pub(super) const MADVISE: usize = 233;
    pub(super) const MEMBARRIER: usize = 283;
    pub(super) const EXIT_GROUP: usize = 94;
}

/// `rseq_slice_yield`, since Linux 7.0, on all architectures.
const RSEQ_SLICE_YIELD: usize = 471;

/// `EFAULT`: there is no memory.
const EFAULT: isize = 14;
/// `EINTR`: a signal came.
pub const EINTR: i32 = 4;
/// `EAGAIN`: the futex word had another value.
pub const EAGAIN: i32 = 11;
/// There is no such thing.
pub const EINVAL: i32 = 22;
/// There is no such thread.
pub const ESRCH: i32 = 3;
/// `ETIMEDOUT`: the deadline passed.
pub const ETIMEDOUT: i32 = 110;

const FUTEX_WAIT_BITSET_PRIVATE: usize = 9 | 128;
const FUTEX_WAKE_PRIVATE: usize = 1 | 128;
const FUTEX_CLOCK_REALTIME: usize = 256;
const FUTEX_BITSET_ANY: usize = 0xffff_ffff;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

impl Timespec {
    /// All of it in nanoseconds; 0 if it is negative.
    fn in_ns(&self) -> u64 {
        (self.seconds.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(self.nanoseconds as u64)
    }
}

unsafe extern "C" {
    // The C library's, for its vDSO path: a quarter of the system call's cost.
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// Sleeps while `*word == expected`; returns 0 or an errno ([`EAGAIN`], [`EINTR`], [`ETIMEDOUT`]).
pub fn futex_wait(word: *const u32, expected: u32, deadline: Option<Deadline>) -> i32 {
    let time = deadline.map(|deadline| Timespec {
        seconds: i64::try_from(deadline.ns / 1_000_000_000).unwrap_or(i64::MAX),
        nanoseconds: (deadline.ns % 1_000_000_000) as i64,
    });
    let pointer = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let clock = match deadline.map(|deadline| deadline.clock) {
        Some(Clock::Realtime) => FUTEX_CLOCK_REALTIME,
        _ => 0,
    };
    let args = [
        word as usize,
        FUTEX_WAIT_BITSET_PRIVATE | clock,
        expected as usize,
        pointer as usize,
        0,
        FUTEX_BITSET_ANY,
    ];
    // SAFETY: the kernel checks the word's address itself; the timespec outlives the call.
    let result = unsafe { syscall6(number::FUTEX, args) };
    -(result.min(0) as i32)
}

/// Wakes at most `n` sleepers of `word`, which need not be mapped. Returns how many.
pub fn futex_wake(word: *const u32, n: u32) -> usize {
    let n = n.min(i32::MAX as u32) as usize;
    // SAFETY: the kernel uses the address as a key and reports a bad one.
    let result = unsafe { syscall6(number::FUTEX, [word as usize, FUTEX_WAKE_PRIVATE, n, 0, 0, 0]) };
    usize::try_from(result).unwrap_or(0)
}

/// Gives the CPU to another runnable thread.
pub fn sched_yield() {
    // SAFETY: no arguments, no memory.
    unsafe { syscall6(number::SCHED_YIELD, [0; 6]) };
}

/// Gives the calling thread the real-time priority (`SCHED_FIFO`), which threads that it starts do not inherit. Whether it may have
/// it.
#[must_use]
pub fn set_fifo_priority(priority: u32) -> bool {
    const FIFO: usize = 1;
    const RESET_ON_FORK: usize = 0x4000_0000;
    let args = [0, FIFO | RESET_ON_FORK, (&raw const priority).addr(), 0, 0, 0];
    // SAFETY: the kernel reads the one number of a `struct sched_param`, which outlives the call.
    unsafe { syscall6(number::SCHED_SETSCHEDULER, args) == 0 }
}

/// Sleeps for this long, or until a signal comes.
pub fn sleep_ns(ns: u64) {
    let time = Timespec { seconds: (ns / 1_000_000_000) as i64, nanoseconds: (ns % 1_000_000_000) as i64 };
    // SAFETY: the timespec outlives the call; what is left of the time is not asked for.
    unsafe { syscall6(number::NANOSLEEP, [ptr::from_ref(&time) as usize, 0, 0, 0, 0, 0]) };
}

/// What to ask of `membarrier(2)`.
#[derive(Clone, Copy, Debug)]
pub enum Membarrier {
    /// A full barrier on every CPU that runs a thread of this process; needs the registration.
    Expedited = 8,
    /// The right to `Expedited`, for this process and its children.
    Register = 16,
}

/// Calls `membarrier(2)`; false if the kernel refuses.
#[must_use]
pub fn membarrier(command: Membarrier) -> bool {
    // SAFETY: no memory of the caller's is involved.
    unsafe { syscall6(number::MEMBARRIER, [command as usize, 0, 0, 0, 0, 0]) == 0 }
}

/// The kernel's id of this thread.
#[must_use]
pub fn gettid() -> u32 {
    // SAFETY: no arguments, no memory.
    unsafe { syscall6(number::GETTID, [0; 6]) as u32 }
}

/// What the kernel has counted of this process, over all of its threads, also of those that have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// CPU time, in ns.
    pub(crate) cpu_ns: u64,
    /// How often a thread lost its CPU while it could have run on.
    pub(crate) preempted: u64,
}

/// What this process has used so far; nothing where the kernel refuses to say.
pub(crate) fn usage() -> Usage {
    const RUSAGE_SELF: usize = 0;
    /// Of `struct rusage`, in words: two times of seconds and microseconds, and twelve counts before the last one.
    const WORDS: usize = 18;
    const PREEMPTED: usize = 17;
    let mut usage = [0_u64; WORDS];
    // SAFETY: the array is as long as the structure.
    unsafe { syscall6(number::GETRUSAGE, [RUSAGE_SELF, usage.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    let [user_s, user_us, system_s, system_us, ..] = usage;
    let cpu_ns = (user_s + system_s) * 1_000_000_000 + (user_us + system_us) * 1_000;
    Usage { cpu_ns, preempted: usage[PREEMPTED] }
}

/// How many CPUs the calling thread may run on, at least 1.
#[must_use]
pub fn allowed_cpus() -> usize {
    let mut mask = [0_u64; 128];
    let args = [0, size_of_val(&mask), mask.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the mask is writable for the length given.
    unsafe { syscall6(number::SCHED_GETAFFINITY, args) };
    mask.iter().map(|word| word.count_ones() as usize).sum::<usize>().max(1)
}

/// The CPU and the NUMA node this thread runs on.
#[must_use]
pub fn getcpu() -> (usize, usize) {
    let (mut cpu, mut node) = (0_u32, 0_u32);
    let args = [&raw mut cpu as usize, &raw mut node as usize, 0, 0, 0, 0];
    // SAFETY: two writable words.
    unsafe { syscall6(number::GETCPU, args) };
    (cpu as usize, node as usize)
}

/// Fresh zeroed pages, or `None` when the system has none left.
#[must_use]
pub fn map_pages(bytes: usize) -> Option<NonNull<u8>> {
    const READ_WRITE: usize = 1 | 2;
    const PRIVATE_ANONYMOUS: usize = 2 | 32;
    // SAFETY: a fresh anonymous mapping disturbs nobody.
    let result = unsafe { syscall6(number::MMAP, [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0]) };
    if (-4095..0).contains(&result) { None } else { NonNull::new(result as *mut u8) }
}

/// Returns pages to the kernel.
///
/// # Safety
///
/// The pages came from [`map_pages`] with this size, and nobody uses them.
pub unsafe fn unmap_pages(pages: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's own mapping.
    unsafe { syscall6(number::MUNMAP, [pages.as_ptr() as usize, bytes, 0, 0, 0, 0]) };
}

/// Copies a value into memory that is new to this thread, word by word: the compiler would call `memcpy`, which ThreadSanitizer
/// watches in a program that is compiled with it, and which would be a race to it, as it does not see how memory that we map comes
/// from thread to thread.
///
/// # Panics
///
/// If `T` is aligned to less than a word; known when this is compiled.
///
/// # Safety
///
/// The memory is large enough and aligned for a `T`, and nobody else uses it. One of the two values is not used again if `T` is no
/// `Copy`.
#[inline]
pub unsafe fn copy_by_words<T>(value: &T, memory: NonNull<T>) {
    type Word = MaybeUninit<usize>;
    assert!(align_of::<T>() >= align_of::<Word>(), "a value of whole words");
    let (from, to) = (ptr::from_ref(value).cast::<Word>(), memory.as_ptr().cast::<Word>());
    for word in 0..size_of::<T>() / size_of::<Word>() {
        // SAFETY: inside of the value.
        let from = unsafe { from.add(word) };
        // SAFETY: inside of the memory, which is as large.
        let to = unsafe { to.add(word) };
        // SAFETY: the value's, whose alignment is a multiple of a word's; what need not be initialised is read as such.
        let part = unsafe { from.read() };
        // SAFETY: the caller's contract. Volatile, so that the loop stays one.
        unsafe { to.write_volatile(part) };
    }
}

/// Whether the 8 bytes at `address` can be read. A system call that every filter allows, and that reads them before it refuses
/// its first argument.
#[must_use]
pub fn is_readable(address: usize) -> bool {
    const NO_SUCH_WAY: usize = usize::MAX;
    const SET_BYTES: usize = 8;
    // SAFETY: the kernel checks the address itself, and changes no mask.
    unsafe { syscall6(number::RT_SIGPROCMASK, [NO_SUCH_WAY, address, 0, SET_BYTES, 0, 0]) != -EFAULT }
}

/// Asks that the pages read as zero in a child after `fork` (`MADV_WIPEONFORK`, Linux 4.14). Returns
/// whether the kernel agreed.
///
/// # Safety
///
/// `pages` is a private anonymous mapping of `bytes` whose loss in a child is harmless.
pub unsafe fn wipe_on_fork(pages: NonNull<u8>, bytes: usize) -> bool {
    const MADV_WIPEONFORK: usize = 18;
    // SAFETY: advice on the caller's own mapping.
    unsafe { syscall6(number::MADVISE, [pages.as_ptr() as usize, bytes, MADV_WIPEONFORK, 0, 0, 0]) == 0 }
}

/// Whether there is memory at an address.
#[must_use]
pub fn is_mapped(address: usize) -> bool {
    /// Kernels for aarch64 have pages of one of these sizes, and refuse the beginning of a smaller one.
    const SIZES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];
    const ENOMEM: isize = 12;
    let look = |size: usize| {
        let mut residence = 0_u8;
        let args = [address & !(size - 1), 1, &raw mut residence as usize, 0, 0, 0];
        // SAFETY: one page has one byte of residence; the page itself is not accessed.
        unsafe { syscall6(number::MINCORE, args) }
    };
    SIZES.into_iter().map(look).find(|result| *result != -(EINVAL as isize)) != Some(-ENOMEM)
}

/// Runs `action` with all signals kept from the calling thread: no handler runs in the middle of it.
pub fn without_signals<R>(action: impl FnOnce() -> R) -> R {
    const SET: usize = 2;
    let mask = |new: u64, old: &mut u64| {
        let args = [SET, ptr::from_ref(&new) as usize, ptr::from_mut(old) as usize, size_of::<u64>(), 0, 0];
        // SAFETY: two masks of the kernel's size, readable and writable.
        unsafe { syscall6(number::RT_SIGPROCMASK, args) };
    };
    let mut before = 0;
    mask(u64::MAX, &mut before);
    let result = action();
    mask(before, &mut 0);
    result
}

/// The time on `clock` in nanoseconds.
#[must_use]
pub fn now(clock: Clock) -> u64 {
    read_clock(match clock {
        Clock::Realtime => 0,
        Clock::Monotonic => 1,
    })
}

/// The processor's counter of time, which runs at a steady rate: a third of what the clock costs, and no unit.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    crate::arch::ticks()
}

/// The monotonic clock at the last tick (`CLOCK_MONOTONIC_COARSE`).
#[must_use]
pub fn now_roughly() -> u64 {
    read_clock(6)
}

/// For how long threads of this process have been on CPUs, in nanoseconds.
#[must_use]
pub fn process_cpu_time() -> u64 {
    read_clock(2)
}

/// Nanoseconds since the origin of the clock with this id, which is one that always exists.
fn read_clock(id: i32) -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: a writable timespec and a clock that always exists.
    unsafe { clock_gettime(id, &raw mut time) };
    time.in_ns()
}

/// For how long a thread of this process has been on CPUs, in nanoseconds.
///
/// # Errors
///
/// An errno: [`EINVAL`] (or [`ESRCH`]) if there is no such thread.
pub fn cpu_time(thread: u32) -> Result<u64, i32> {
    /// In the id of a clock: of a thread.
    const THREAD: usize = 4;
    cpu_clock(thread, THREAD)
}

/// For how long threads of a process have been on CPUs, in nanoseconds.
///
/// # Errors
///
/// An errno: [`EINVAL`] (or [`ESRCH`]) if there is no such process.
pub fn cpu_time_of_process(process: u32) -> Result<u64, i32> {
    cpu_clock(process, 0)
}

fn cpu_clock(task: u32, kind: usize) -> Result<u64, i32> {
    /// In the id of a clock: by the scheduler's account.
    const SCHED: usize = 2;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    let id = !(task as usize) << 3 | SCHED | kind;
    // SAFETY: a writable timespec; the kernel refuses ids that there are not.
    let result = unsafe { syscall6(number::CLOCK_GETTIME, [id, &raw mut time as usize, 0, 0, 0, 0]) };
    if result == 0 { Ok(time.in_ns()) } else { Err(-(result as i32)) }
}

/// Reads at most `buffer.len()` bytes of the file at `path`; `None` if it cannot be opened or read, or is empty.
pub fn read_file<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = open(path)?;
    let read = read(file, buffer);
    close(file as i32);
    read
}

/// Opens a file to read, by a path that is absolute or begins in this directory.
fn open_at(directory: usize, path: &CStr) -> Option<usize> {
    const READ_ONLY_CLOEXEC: usize = 0o2_000_000;
    // SAFETY: a terminated path.
    let file =
        unsafe { syscall6(number::OPENAT, [directory, path.as_ptr() as usize, READ_ONLY_CLOEXEC, 0, 0, 0]) };
    usize::try_from(file).ok()
}

fn open(path: &CStr) -> Option<usize> {
    const AT_FDCWD: usize = -100_isize as usize;
    open_at(AT_FDCWD, path)
}

/// Reads what there is, up to `buffer.len()` bytes; `None` if that is nothing, or fails.
fn read(file: usize, buffer: &mut [u8]) -> Option<&[u8]> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: `rest` is writable for its whole length.
        let got = unsafe { syscall6(number::READ, [file, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0]) };
        match got {
            0 => break,
            got if got > 0 => filled += got as usize,
            got if got == -(EINTR as isize) => {}
            _ => return None,
        }
    }
    (filled > 0).then_some(&buffer[..filled])
}

/// Whether no filter of system calls (`seccomp(2)`) is in force, for a caller that is about to use `prctl` anyway.
#[must_use]
pub(crate) fn is_unfiltered() -> bool {
    const PR_GET_SECCOMP: usize = 21;
    // SAFETY: no memory is involved.
    unsafe { syscall6(number::PRCTL, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]) == 0 }
}

/// How many filters of system calls (`seccomp(2)`) are in force; `None` if that cannot be told: there are some and the
/// kernel does not say how many (before Linux 5.9), or it cannot be asked. (`prctl` would be another call that a filter
/// might object to.)
#[must_use]
pub fn filters() -> Option<u32> {
    let mut buffer = [0; 4096];
    let all = buffer.len();
    filters_in(read_file(c"/proc/thread-self/status", &mut buffer)?, all)
}

/// The number of filters that a thread's `status` has, of which at most `all` bytes were read.
fn filters_in(status: &[u8], all: usize) -> Option<u32> {
    let field = |name: &[u8]| {
        let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        core::str::from_utf8(line.trim_ascii()).ok()?.parse().ok()
    };
    match field(b"Seccomp:") {
        Some(0) => Some(0),
        Some(_) => field(b"Seccomp_filters:"),
        // The kernel was built without them, unless the line lies behind what was read.
        None => (status.len() < all).then_some(0),
    }
}

const PR_RSEQ_SLICE_EXTENSION: usize = 79;

/// Whether the kernel has time-slice extensions, and they are not switched off.
#[must_use]
pub(crate) fn has_slice_extension() -> bool {
    const GET: usize = 1;
    // SAFETY: no memory is involved.
    unsafe { syscall6(number::PRCTL, [PR_RSEQ_SLICE_EXTENSION, GET, 0, 0, 0, 0]) >= 0 }
}

/// Lets the calling thread ask for time-slice extensions; whether it may.
#[must_use]
pub(crate) fn admit_to_slice_extension() -> bool {
    const SET: usize = 2;
    const ENABLE: usize = 1;
    // SAFETY: no memory is involved but the area for restartable sequences, which the thread has registered.
    unsafe { syscall6(number::PRCTL, [PR_RSEQ_SLICE_EXTENSION, SET, ENABLE, 0, 0, 0]) == 0 }
}

/// Ends a time-slice extension: gives the CPU to whoever waits for it.
pub(crate) fn slice_yield() {
    // SAFETY: no arguments, no memory.
    unsafe { syscall6(RSEQ_SLICE_YIELD, [0; 6]) };
}

/// Closes a descriptor, which must be the caller's own.
pub fn close(descriptor: i32) {
    // SAFETY: no memory is involved.
    unsafe { syscall6(number::CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Writes `bytes` to the standard error stream, ignoring failure: there is nobody to tell.
pub fn write_stderr(bytes: &[u8]) {
    // SAFETY: a readable slice.
    unsafe { syscall6(number::WRITE, [2, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) };
}

/// The standard error stream.
#[derive(Debug)]
pub struct Stderr;

impl fmt::Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_stderr(text.as_bytes());
        Ok(())
    }
}

/// Says why a program is not run with the settings it was given, and ends it with status 2.
#[cold]
pub fn refuse(reason: fmt::Arguments<'_>) -> ! {
    let _ = writeln!(Stderr, "lockwork: {reason}");
    loop {
        // SAFETY: no memory is involved.
        unsafe { syscall6(number::EXIT_GROUP, [2, 0, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_counted() {
        assert_eq!(filters_in(b"Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n", 100), Some(0));
        assert_eq!(filters_in(b"Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t3\n", 100), Some(3));
        assert_eq!(filters_in(b"Name:\tx\nSeccomp:\t2\n", 100), None, "before Linux 5.9");
        assert_eq!(filters_in(b"Name:\tx\n", 100), Some(0), "a kernel without filters");
        assert_eq!(filters_in(b"Name:\tx\n", 8), None, "there may be more");
    }
}
