//! The file: one [`Region`], mapped by the program that is recorded, in the layout and byte order of its machine.
//!
//! Everything in it is an atomic: readers look while threads write. A figure may be a moment older than its neighbour. Zero
//! is a valid state of everything, so that a fresh file needs no initialisation but the header's.

mod lock;
mod thread;

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

pub use self::lock::{FREE, Kind, LIVE, Lock, Mode, PARKED, PARTS, Part, QUEUED, RETIRED, Release, SPINNING};
pub use self::thread::{Held, Known, Logged, Stage, Thread};

/// The first 8 bytes of a file whose header is complete.
pub const MAGIC: u64 = u64::from_le_bytes(*b"lockprof");
/// The version of the layout. A reader knows one.
pub const VERSION: u32 = 8;

/// Threads at a time.
pub const THREADS: usize = 4096;
/// Locks with a record of their own, and sites that locks beyond those are counted under.
pub const LOCKS: usize = 1024;
/// Records from here on are for sites.
pub const LOCKS_OF_THEIR_OWN: usize = 896;
/// Different stacks.
pub const STACKS: usize = 8192;
/// Different edges of blame.
pub const EDGES: usize = 16384;
/// Sampled waits that are kept one by one: the latest.
pub const EVENTS: usize = 16384;
/// Counters of waiters, by a hash of the lock's address.
pub const WATCHED: usize = 4096;
/// Code locations that initialised locks, by a hash of the lock's address.
pub const SITES: usize = 16384;
/// Releases that a lock's ring remembers.
pub const RING: usize = 64;
/// Waits that a thread keeps for itself before it adds them to the figures of their locks.
pub const LOG: usize = 64;
/// Frames of a stack.
pub const DEPTH: usize = 16;
/// Locks that a thread is known to hold at a time.
pub const HELD: usize = 16;
/// Bytes of `/proc/self/maps` that are kept.
pub const MAPS: usize = 512 << 10;
/// Ranges of executable memory.
pub const CODE: usize = 1024;
/// Bytes of a name.
pub const NAME: usize = 64;
/// Choices of locks that have names.
pub const SERVERS: usize = 64;
/// Locks that the program has given names, by a hash of the lock's address.
pub const NAMES: usize = 4096;

/// The file.
#[repr(C)]
#[derive(Debug)]
pub struct Region {
    /// What the file is, and figures of the process.
    pub header: Header,
    /// The number of waiters for locks with this hash: see [`WATCHED`].
    pub watched: [AtomicU32; WATCHED],
    /// Threads.
    pub threads: [Thread; THREADS],
    /// Stacks. Number 0 is none.
    pub stacks: [Stack; STACKS],
    /// Edges of blame.
    pub edges: [Edge; EDGES],
    /// A ring of sampled waits.
    pub events: [WaitEvent; EVENTS],
    /// Where locks were initialised.
    pub sites: [Site; SITES],
    /// What the program called locks that have no record yet.
    pub names: [Named; NAMES],
    /// Executable memory, in order of addresses.
    pub code: [Range; CODE],
    /// The text of `/proc/self/maps`.
    pub maps: [AtomicU8; MAPS],
    /// What serves mutexes: a name for each tag, then for reader-writer locks one for each server.
    pub servers: [[[AtomicU8; NAME]; SERVERS]; 2],
    /// Locks. Number 0 is none.
    pub locks: [Lock; LOCKS],
    /// What the entry points of the process jump through.
    pub entrances: Entrances,
}

/// The beginning of the file.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`], written last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// The process.
    pub pid: AtomicU32,
    /// The size of [`Region`], which tells machines apart, too.
    pub bytes: AtomicU64,
    /// Whether threads record: switched by readers.
    pub enabled: AtomicU32,
    /// Changes with each switch: what threads noted before is out of date.
    pub epoch: AtomicU32,
    /// The monotonic clock at the start.
    pub started_ns: AtomicU64,
    /// The processor's counter of time at the start.
    pub started_ticks: AtomicU64,
    /// Parts of a nanosecond, 2^32 to one, for each count of it; 0 = not known yet.
    pub tick: AtomicU64,
    /// The monotonic clock at the end, 0 before that.
    pub ended_ns: AtomicU64,
    /// The wall clock at the start.
    pub date_ns: AtomicU64,
    /// The mean time between sampled points of waiting.
    pub wait_period_ns: AtomicU64,
    /// Threads are sampled once in at most this many acquisitions.
    pub max_period: AtomicU32,
    /// Lock records in use.
    pub locks: AtomicU32,
    /// Events written so far.
    pub events: AtomicU64,
    /// CPU time that the process has used, as of its last thread that ended, one of the sampled waits of the last 10 ms that had any,
    /// or its end; 0 = unknown.
    pub cpu_ns: AtomicU64,
    /// The end of that wait.
    pub cpu_noted_ns: AtomicU64,
    /// Life times of threads that have ended.
    pub ended_threads_ns: AtomicU64,
    /// Threads that have ended.
    pub ended_threads: AtomicU32,
    /// Where new threads look for a place first.
    pub thread_hint: AtomicU32,
    /// Held while `maps` is written.
    pub reading_maps: AtomicU32,
    /// How often it was written.
    pub maps_read: AtomicU32,
    /// Bytes of `maps`.
    pub maps_bytes: AtomicU32,
    /// Entries of `code`.
    pub code_ranges: AtomicU32,
    /// What did not fit.
    pub dropped: Dropped,
    /// The program's name.
    pub name: [AtomicU8; NAME],
}

/// What did not fit, counted.
#[repr(C)]
#[derive(Debug)]
pub struct Dropped {
    /// Acquisitions whose lock had no record.
    pub acquisitions: AtomicU64,
    /// Stacks.
    pub stacks: AtomicU64,
    /// Time of waits that no edge took.
    pub blame_ns: AtomicU64,
    /// Threads.
    pub threads: AtomicU64,
    /// Locks that a thread held beyond [`HELD`].
    pub held: AtomicU64,
    /// Looks for the record of a lock that ended at that of its site.
    pub locks: AtomicU64,
}

/// A stack: return addresses, the innermost first.
#[repr(C)]
#[derive(Debug)]
pub struct Stack {
    /// Hash of the frames; 0 = free.
    pub hash: AtomicU64,
    /// Frames; 0 while they are written.
    pub depth: AtomicU32,
    /// The frames.
    pub frames: [AtomicU64; DEPTH],
}

/// Time that one stack waited for another.
#[repr(C)]
#[derive(Debug)]
pub struct Edge {
    /// Hash of the four numbers; 0 = free.
    pub hash: AtomicU64,
    /// The lock's record.
    pub lock: AtomicU32,
    /// The waiter's stack.
    pub waiter: AtomicU32,
    /// The stack that acquired the lock.
    pub acquired: AtomicU32,
    /// The stack that released it.
    pub released: AtomicU32,
    /// Time waited.
    pub ns: AtomicU64,
    /// Releases that were waited for, several of one thread from one place in a row as one: weights of samples.
    pub count: AtomicU64,
}

/// A sampled wait.
#[repr(C)]
#[derive(Debug)]
pub struct WaitEvent {
    /// When it began.
    pub since: AtomicU64,
    /// When it ended.
    pub until: AtomicU64,
    /// The lock's record.
    pub lock: AtomicU32,
    /// The waiter's stack.
    pub stack: AtomicU32,
    /// The waiter.
    pub thread: AtomicU32,
    /// The thread that released the lock last before the wait ended; 0 = unknown.
    pub holder: AtomicU32,
    /// When.
    pub released_at: AtomicU64,
    /// What it stands for, in thousandths.
    pub weight: AtomicU64,
    /// See [`Mode`].
    pub mode: AtomicU32,
}

/// Where a lock was initialised.
#[repr(C)]
#[derive(Debug)]
pub struct Site {
    /// The lock.
    pub address: AtomicU64,
    /// The code location.
    pub caller: AtomicU64,
}

/// What the program called a lock.
#[repr(C)]
#[derive(Debug)]
pub struct Named {
    /// The lock.
    pub address: AtomicU64,
    /// Its name.
    pub name: [AtomicU8; NAME],
}

/// Memory.
#[repr(C)]
#[derive(Debug)]
pub struct Range {
    /// Its first address.
    pub start: AtomicU64,
    /// The first behind it.
    pub end: AtomicU64,
}

/// Addresses of functions in the process. Switching the recorder is to copy one page over the first.
#[repr(C)]
#[derive(Debug)]
pub struct Entrances {
    /// What the entry points jump through: the process has it mapped in the place of a static of the library.
    pub live: Page,
    /// The functions of the recorder.
    pub on: Page,
    /// Those that serve without it.
    pub off: Page,
}

/// As much memory as is mapped at a time, of words.
#[repr(C)]
#[cfg_attr(not(target_arch = "aarch64"), repr(align(4096)))]
#[cfg_attr(target_arch = "aarch64", repr(align(65536)))]
#[derive(Debug)]
pub struct Page {
    /// The words that are used.
    pub words: [AtomicU64; ENTRANCES],
    /// Those that are jumped through when the process has been asked to record (`board`). Only the live page has them.
    pub asking: [AtomicU64; ENTRANCES],
}

/// Words of a page that are used.
pub const ENTRANCES: usize = 256;

/// How far an entry of a table lies at most from where its hash says.
pub(crate) const PROBES: usize = 64;

/// A hash of an address or a number.
#[must_use]
#[inline(always)]
pub(crate) fn hash(value: u64) -> u64 {
    let mixed = (value ^ value >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

impl Region {
    /// How many threads wait for locks with this address's hash.
    #[inline(always)]
    pub(crate) fn watchers(&self, address: u64) -> &AtomicU32 {
        // Every release looks here: the high bits of a short product are hash enough.
        let hash = (address as u32).wrapping_mul(0x9e37_79b9);
        &self.watched[(hash >> (32 - WATCHED.ilog2())) as usize]
    }
}

#[cfg(test)]
impl Region {
    /// A region without a file.
    pub(crate) fn in_memory() -> std::boxed::Box<Self> {
        let layout = std::alloc::Layout::new::<Self>();
        // SAFETY: the size is not 0.
        let zeroes = unsafe { std::alloc::alloc_zeroed(layout) };
        // SAFETY: the layout is that of the box, and zero is a valid region: a file that was just made.
        unsafe { std::boxed::Box::from_raw(zeroes.cast()) }
    }
}
