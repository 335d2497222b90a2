//! The client's side of `lockwork monitor`: which threads of this process are on a CPU.
//!
//! A process asks the monitor once, by connecting to its socket, and is sent three descriptors: of its own *board*, which
//! the kernel writes (by the monitor's BPF programs), of a page that says whether the monitor lives, and of the *probe*
//! (`probe.rs`), a function: the kernel answers a call of it with a thread's id, on the board, before the call
//! returns. The first two can only be mapped for reading; no descriptor is kept, and nothing of this process is read or
//! written by anybody else.
//!
//! Where the kernel does not allow the probe the scheduler is watched on demand, since being watched costs every context
//! switch of the machine: a waiter that may not read CPU clocks ([`cpu_time`](crate::cpu_time)) and is about to sleep for
//! a thread ahead of it connects once more, at most once a second for the process, and no boards are written when there
//! has been no such request for some seconds. Each such time is a *watch*, which has a number.
//!
//! # The board
//!
//! An array of 64-bit words: [`HEADER`] of them, the first of which counts the threads of the process that are preempted,
//! and then [`ENTRIES`] with one thread's state each, at the place that the last bits of the thread's id say. An entry
//! holds the id (as the process's own PID namespace has it) in its lower half, so that nobody takes another thread's state
//! for the one asked for, and in its upper half [`RUNNING`], [`PREEMPTED`] or [`SLEEPING`], in [`STATE_BITS`], below the
//! number of the watch, so that nobody takes for news what an earlier watch left there. Behind the entries are [`ANSWERS`]
//! words for callers of the probe, each at a place of the caller's choice: an entry with a number of the caller's
//! choice in place of the watch's.
//!
//! What it says is a hint: waiters that are told nonsense, or nothing, waste time within their own bounds.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use crate::cpu::Clock;
use crate::sys::{self, FileSystem, seals};

mod probe;

pub use probe::PROBE;
pub(crate) use probe::{answers, ask};

/// Where the monitor listens, unless it is told otherwise.
pub const SOCKET: &str = lockwork_config::MONITOR_SOCKET;
/// Words of a board before its entries; the first is the number of preempted threads.
pub const HEADER: usize = 8;
/// Entries of a board, a power of two.
pub const ENTRIES: usize = 2048;
/// Words of a board behind the entries, a power of two.
pub const ANSWERS: usize = 256;
/// Bytes of a board.
pub const BOARD_BYTES: usize = (HEADER + ENTRIES + ANSWERS) * 8;
/// In an entry: the thread is on a CPU.
pub const RUNNING: u32 = 1;
/// In an entry: the thread could run, and was taken off its CPU.
pub const PREEMPTED: u32 = 2;
/// In an entry: the thread went to sleep, and has not been on a CPU since. (In an answer: it sleeps.)
pub const SLEEPING: u32 = 3;
/// Bits of the upper half of an entry below the number of the watch.
pub const STATE_BITS: u32 = 2;
/// The state in the upper half of an entry.
const STATE: u32 = (1 << STATE_BITS) - 1;
/// The highest number of a watch, after which comes 1. 0 stands for none.
pub const LAST_WATCH: u32 = u32::MAX >> STATE_BITS;
/// Bits of the word in the monitor's own page that are not zero while it lives: the id of the thread that lives with
/// it. The kernel clears them when that thread ends, for it is the word of a robust futex.
pub const ALIVE: u32 = 0x3fff_ffff;
/// The word of that page which has the number of the watch that is on.
pub const WATCH_WORD: usize = 1;
/// The word of that page which is not 0 if calls of the probe are answered.
pub const PROBE_WORD: usize = 2;
/// Words of that page.
pub const PAGE_WORDS: usize = 3;
/// Time between two requests of a process, in ns. A watch lasts longer than that without one.
pub const AGAIN: u64 = 1_000_000_000;

/// Where the board begins behind the beginning of what is mapped. Pages of any size that there is end there.
const BOARD_AT: usize = 65_536;
/// What is mapped, and the rest of its last page.
const MAPPED_BYTES: usize = BOARD_AT + BOARD_BYTES.div_ceil(BOARD_AT) * BOARD_AT;
/// See the module's documentation.
type Board = [AtomicU64; HEADER + ENTRIES + ANSWERS];
/// How long the program waits for an answer when it starts, in µs.
const ANSWER_US: u32 = 50_000;
/// How long a waiter waits for one, in µs.
const WAITER_US: u32 = 1_000;
/// [`NEXT`]: there is nobody to ask.
const NEVER: u64 = u64::MAX;
/// Of `sockaddr_un`, without the terminator.
const LONGEST_PATH: usize = 107;

/// The page with the word [`ALIVE`], and behind it the board; null where there is no monitor.
static MAPPED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// When to ask the monitor again, or for one, by the monotonic clock. The thread that moves it on does.
static NEXT: AtomicU64 = AtomicU64::new(NEVER);
/// The path of the socket, written before [`LENGTH`], once.
static PATH: [AtomicU8; LONGEST_PATH] = [const { AtomicU8::new(0) }; LONGEST_PATH];
/// Bytes of the path; 0: nobody has asked for a monitor.
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// Filters of system calls that connecting is known not to offend.
static FILTERS: AtomicU32 = AtomicU32::new(0);

/// What became of [`attach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// There is one, and waiters of this process can ask which threads run.
    Yes,
    /// There is none at this path, or it does not serve this process.
    No,
    /// A filter of system calls is in force, which connecting might offend, so that the kernel ends the process.
    Filtered,
}

/// Has waiters of this process that may not read CPU clocks go by the monitor whose socket is at `path`. Best called before
/// there are other threads. A child of `fork` connects for itself when it first waits long, and so does a process whose
/// monitor ended, once a second. A process that had no monitor at first does not look for one again unless it is told to.
pub fn attach(path: &str) -> Attached {
    if path.is_empty() || path.len() > LONGEST_PATH {
        return Attached::No;
    }
    if LENGTH.load(Relaxed) == 0 {
        for (to, from) in PATH.iter().zip(path.bytes()) {
            to.store(from, Relaxed);
        }
        LENGTH.store(path.len(), Release);
    }
    if is_attached() { Attached::Yes } else { connect(ANSWER_US) }
}

/// As [`attach`], when somebody has said that there is a monitor at `path` for this process: filters of system calls
/// that are in force now, as in a container, then do not matter. Those that are added later do.
pub fn attach_as_told(path: &str) -> Attached {
    FILTERS.store(sys::filters().unwrap_or(0), Relaxed);
    attach(path)
}

/// Whether there is a monitor that lives.
#[must_use]
pub fn is_attached() -> bool {
    mapped().is_some()
}

/// How many threads of this process could run and were taken off their CPU, as the monitor has it; `None` while it does
/// not watch.
#[must_use]
pub fn preempted() -> Option<u64> {
    watched().map(|(board, _)| board[0].load(Relaxed))
}

/// See [`Sched::running`](crate::Sched::running).
#[inline]
pub(crate) fn running(tid: u32) -> Option<bool> {
    let (board, watch) = watched()?;
    says(&board[HEADER + tid as usize % ENTRIES], tid, watch)
}

/// Whether an entry says that the thread is on a CPU, if it is that thread's, in this watch.
fn says(entry: &AtomicU64, tid: u32, watch: u32) -> Option<bool> {
    let entry = entry.load(Relaxed);
    let upper = (entry >> 32) as u32;
    if entry as u32 != tid || upper >> STATE_BITS != watch {
        return None;
    }
    match upper & STATE {
        RUNNING => Some(true),
        PREEMPTED | SLEEPING => Some(false),
        _ => None,
    }
}

/// The board and the number of the watch, while there is one.
#[inline]
fn watched() -> Option<(&'static Board, u32)> {
    let (mapped, page) = mapped()?;
    let watch = page[WATCH_WORD].load(Relaxed);
    (watch != 0).then(|| (board(mapped), watch))
}

fn board(mapped: *mut u8) -> &'static Board {
    // SAFETY: it lies behind the monitor's page and stays as long. Nobody writes through the reference.
    unsafe { &*mapped.wrapping_add(BOARD_AT).cast() }
}

/// What is mapped, and at its beginning the monitor's own page, while that lives. It stays mapped for ever (zeroes in a
/// child).
#[inline]
fn mapped() -> Option<(*mut u8, &'static [AtomicU32; PAGE_WORDS])> {
    let mapped = MAPPED.load(Acquire);
    if mapped.is_null() {
        return None;
    }
    // SAFETY: as is said above.
    let page = unsafe { &*mapped.cast::<[AtomicU32; PAGE_WORDS]>() };
    if page[0].load(Relaxed) & ALIVE == 0 {
        forget(mapped);
        return None;
    }
    Some((mapped, page))
}

/// The monitor has ended. What is mapped stays so: others may be reading it.
#[cold]
fn forget(mapped: *mut u8) {
    if MAPPED.compare_exchange(mapped, ptr::null_mut(), Relaxed, Relaxed).is_ok() {
        NEXT.store(0, Relaxed);
    }
}

/// See [`Sched::want_watch`](crate::Sched::want_watch). Looks for a monitor if the one there was has ended.
#[inline]
pub(crate) fn want() {
    let next = NEXT.load(Relaxed);
    if next == NEVER {
        return;
    }
    let now = sys::now(Clock::Monotonic);
    if next <= now && NEXT.compare_exchange(next, now.saturating_add(AGAIN), Relaxed, Relaxed).is_ok() {
        match mapped() {
            // A process that may not call the probe that this monitor answers does without.
            Some((_, page)) if page[PROBE_WORD].load(Relaxed) != 0 => {}
            Some(_) => request(),
            None => _ = connect(WAITER_US),
        }
    }
}

/// Connects, and waits for no answer: that somebody did is all there is to know.
#[cold]
fn request() {
    if may_connect()
        && let Some(socket) = with_path(sys::connect)
    {
        sys::close(socket);
    }
}

/// In a child after `fork`, which has one thread: the board is the parent's. The thread may be about to look at it, if a
/// signal handler forked.
pub(crate) fn after_fork() {
    let mapped = MAPPED.swap(ptr::null_mut(), Relaxed);
    if let Some(pages) = ptr::NonNull::new(mapped) {
        // SAFETY: our own mapping, of that size, which says nothing from then on, and that the monitor has ended.
        unsafe { sys::map_zeroes(pages, MAPPED_BYTES) };
        NEXT.store(0, Relaxed);
    }
}

/// Asks, and waits `timeout_us` for the answer.
#[cold]
fn connect(timeout_us: u32) -> Attached {
    if !may_connect() {
        return Attached::Filtered;
    }
    let Some([alive, board, code]) = with_path(|path| sys::receive_descriptors(path, timeout_us)) else {
        return Attached::No;
    };
    let attached = map(alive, board, code);
    [alive, board, code].into_iter().for_each(sys::close);
    attached
}

/// Maps what was sent.
fn map(alive: i32, board: i32, code: i32) -> Attached {
    let words = size_of::<[AtomicU32; PAGE_WORDS]>();
    // The sender need not be the monitor: it must not be able to take away what is mapped, nor change it.
    let is_sound = sys::file_system(alive) == FileSystem::Memory
        && seals::of(alive) & seals::SHRINK != 0
        && sys::read_at(alive, &mut [0; size_of::<[AtomicU32; PAGE_WORDS]>()], 0) == words
        && sys::file_system(board) == FileSystem::Anonymous;
    let files = [(alive, 0, words), (board, BOARD_AT, BOARD_BYTES)];
    let Some(pages) = is_sound.then(|| sys::map_shared(MAPPED_BYTES, &files)).flatten() else {
        return Attached::No;
    };
    if MAPPED.compare_exchange(ptr::null_mut(), pages.as_ptr(), Release, Relaxed).is_err() {
        // SAFETY: just mapped, and nobody has seen it. Another thread was quicker.
        unsafe { sys::unmap_pages(pages, MAPPED_BYTES) };
        return Attached::Yes;
    }
    probe::map(code);
    // The thread that waits next asks to be watched at once.
    NEXT.store(0, Relaxed);
    Attached::Yes
}

/// Whether no filter of system calls is in force that connecting might offend. If one is, nobody tries again.
fn may_connect() -> bool {
    let may = sys::filters().is_some_and(|filters| filters <= FILTERS.load(Relaxed));
    if !may {
        NEXT.store(NEVER, Relaxed);
    }
    may
}

/// Does something with the path of the socket.
fn with_path<R>(action: impl FnOnce(&[u8]) -> R) -> R {
    let mut path = [0; LONGEST_PATH];
    let length = LENGTH.load(Acquire);
    for (to, from) in path.iter_mut().zip(&PATH).take(length) {
        *to = from.load(Relaxed);
    }
    action(&path[..length])
}
