//! The file: one [`Region`], mapped by the program that is recorded, in the layout and byte order of its machine.
//!
//! Everything in it is an atomic: readers look while threads write. A figure may be a moment older than its neighbour. Zero
//! is a valid state of everything, so that a fresh file needs no initialisation but the header's.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use crate::histogram::Histogram;

/// The first 8 bytes of a file whose header is complete.
pub const MAGIC: u64 = u64::from_le_bytes(*b"lockprof");
/// The version of the layout. A reader knows one.
pub const VERSION: u32 = 7;

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

/// A thread: what it does right now, and what it needs to record.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Thread {
    /// Its id, 0 where the place is free.
    pub tid: AtomicU32,
    /// 1 = it is in the middle of recording; a signal handler then records nothing.
    pub busy: AtomicU32,
    /// Acquisitions until the next sampled one.
    pub countdown: AtomicU32,
    /// The mean distance of samples.
    pub period: AtomicU32,
    /// Samples taken at this distance.
    pub taken: AtomicU32,
    /// [`Header::epoch`] when it last noted a lock.
    pub epoch: AtomicU32,
    /// Locks in `held`.
    pub held_count: AtomicU32,
    /// What it waits for: see [`Mode`].
    pub waiting_mode: AtomicU32,
    /// The lock it waits for, 0 = none.
    pub waiting_for: AtomicU64,
    /// Since when.
    pub waiting_since: AtomicU64,
    /// Its stack when it began to wait.
    pub waiting_stack: AtomicU32,
    /// The lock's record.
    pub waiting_lock: AtomicU32,
    /// When it was first seen.
    pub started_ns: AtomicU64,
    /// Waiting time until the next sampled point.
    pub wait_left_ns: AtomicU64,
    /// State of its random numbers.
    pub random: AtomicU64,
    /// The lock whose next acquisition ends a think time that is measured.
    pub think_of: AtomicU64,
    /// Since when.
    pub think_since: AtomicU64,
    /// The record and the weight of that.
    pub think_lock: AtomicU32,
    /// See above.
    pub think_weight: AtomicU32,
    /// Since when it sleeps in the kernel while it waits for a lock; 0 = it does not.
    pub parked_since: AtomicU64,
    /// How long it did during the wait.
    pub parked_ns: AtomicU64,
    /// The call of a wait on a condition.
    pub frame: [AtomicU64; 2],
    /// Waits so far, as far as that matters: see `Region::wait_begins`.
    pub waits: AtomicU32,
    /// Entries of `log`.
    pub logged: AtomicU32,
    /// Waits that have ended, and are not in the figures of their locks yet: see [`Logged`].
    pub log: [AtomicU64; LOG],
    /// Stacks of a release: see [`Known`].
    pub known: Known,
    /// Locks it has, the latest last.
    pub held: [Held; HELD],
}

/// Of a thread's latest release that somebody waited for, what was found out, and is likely to be so at the next.
#[repr(C)]
#[derive(Debug)]
pub struct Known {
    /// The call that had acquired the lock, where its stack was not taken then; 0 = it was.
    pub acquirer: AtomicU64,
    /// The stack that acquired it, which follows from the next two and that call.
    pub acquired: AtomicU32,
    /// The stack that released it; 0 = none is known.
    pub released: AtomicU32,
    /// 1 = one function acquired and released it.
    pub is_one_function: AtomicU32,
    /// Its record.
    pub lock: AtomicU32,
    /// The lock's address.
    pub address: AtomicU64,
    /// The number of the release in the lock's ring.
    pub turn: AtomicU32,
    /// [`Lock::hand_overs`] then.
    pub hand_overs: AtomicU32,
}

/// An entry of [`Thread::log`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The lock's record; 0 = it has none.
    pub lock: u32,
    /// How it was waited for.
    pub mode: Mode,
    /// The thread had no other lock.
    pub is_outer: bool,
    /// The entry is about the part of a wait that the thread slept in the kernel, and the wait itself has another.
    pub is_parked: bool,
    /// For how long.
    pub ns: u64,
}

const _: () = assert!(LOCKS == 1 << 10);

impl Logged {
    const NS_BITS: u32 = 50;

    /// As one word.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.lock) << 54
            | (self.mode as u64) << 52
            | u64::from(self.is_outer) << 51
            | u64::from(self.is_parked) << 50
            | self.ns.min((1 << Self::NS_BITS) - 1)
    }

    /// The entry that is this word.
    pub(crate) fn of(word: u64) -> Self {
        Self {
            lock: (word >> 54) as u32,
            mode: Mode::of((word >> 52) as u32 & 3),
            is_outer: word >> 51 & 1 != 0,
            is_parked: word >> 50 & 1 != 0,
            ns: word & ((1 << Self::NS_BITS) - 1),
        }
    }
}

/// A lock that a thread has, or is about to have: one cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Held {
    /// Its address; with [`Self::PASSED`], nothing but this, `caller` and `frame` is noted of a mutex: see [`Stage::Passed`].
    pub word: AtomicU64,
    /// The code location that acquired it.
    pub caller: AtomicU64,
    /// The frame pointer there.
    pub frame: AtomicU64,
    /// When, if that was read.
    pub since: AtomicU64,
    /// When it began to wait; 0 = it did not.
    pub waited_since: AtomicU64,
    /// The stack that acquired it, if that was taken.
    pub stack: AtomicU32,
    /// The lock's record, if that was looked up.
    pub lock: AtomicU32,
    /// How often it was acquired again (recursive mutexes).
    pub again: AtomicU32,
    /// For how many microseconds the thread slept in the kernel while it waited.
    pub parked_us: AtomicU32,
    /// How many nanoseconds after it began to wait releases of the lock were noted for it, if they were.
    pub watched_after: AtomicU32,
    /// What this acquisition stands for; 0 = it is not a sample.
    pub weight: AtomicU16,
    /// How it is held, and whether it is: a [`Mode`] and a [`Stage`], see [`Held::how`].
    pub how: AtomicU8,
    /// What is known of the wait: [`Held::WATCHED`] and so on.
    pub wait: AtomicU8,
}

const _: () = assert!(size_of::<Held>() == 64);

/// Where a thread is with a lock of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// It is about to acquire it, and will say what came of that.
    About = 0,
    /// It has it.
    Has = 1,
    /// It has it, or waits for it: nothing was noted but the call. Said by [`Held::PASSED`] alone.
    Passed = 2,
}

impl Held {
    /// A bit of `word`: addresses of locks are even.
    pub const PASSED: u64 = 1;
    /// A bit of `wait`: releases of the lock are noted for the sake of this wait.
    pub const WATCHED: u8 = 1;
    /// A bit of `wait`: it was one in which the thread gave up its CPU.
    pub const LONG: u8 = 2;
    /// A bit of `wait`: releases would have been noted from its beginning whatever had been drawn.
    pub const SURE: u8 = 4;
    /// A bit of `wait`: there was one, and it has ended.
    pub const ENDED: u8 = 8;

    /// The address of the lock.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.word.load(Relaxed) & !Self::PASSED
    }

    fn passed(&self) -> bool {
        self.word.load(Relaxed) & Self::PASSED != 0
    }

    /// A mode and a stage as one word, so that one store writes both.
    #[must_use]
    pub const fn how(mode: Mode, stage: Stage) -> u8 {
        mode as u8 | (stage as u8) << 4
    }

    /// How it is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.passed() { Mode::Mutex } else { Mode::of(u32::from(self.how.load(Relaxed) & 0xf)) }
    }

    /// Whether the thread has it.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.how.load(Relaxed) >> 4 {
            _ if self.passed() => Stage::Passed,
            0 => Stage::About,
            _ => Stage::Has,
        }
    }
}

/// How a lock is held or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// A mutex.
    Mutex = 0,
    /// A reader-writer lock, to read.
    Read = 1,
    /// A reader-writer lock, to write.
    Write = 2,
    /// A condition is waited for.
    Cond = 3,
}

/// What kind of thing a record is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A mutex.
    #[default]
    Mutex = 0,
    /// A reader-writer lock.
    RwLock = 1,
    /// A condition.
    Cond = 2,
}

impl Mode {
    /// What is held or waited for in this way.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Mutex => Kind::Mutex,
            Self::Read | Self::Write => Kind::RwLock,
            Self::Cond => Kind::Cond,
        }
    }

    /// The mode with this number.
    #[must_use]
    pub fn of(number: u32) -> Self {
        match number {
            1 => Self::Read,
            2 => Self::Write,
            3 => Self::Cond,
            _ => Self::Mutex,
        }
    }
}

/// The record is free, or a thread writes its first words.
pub const FREE: u32 = 0;
/// It is of the lock at its address.
pub const LIVE: u32 = 1;
/// It was of a lock that is no more.
pub const RETIRED: u32 = 2;

/// A lock, or what was counted under a site.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Lock {
    /// What it is found by, 0 while it is free: the kind, and the address of the lock or of the site.
    pub key: AtomicU64,
    /// [`FREE`] to [`RETIRED`].
    pub state: AtomicU32,
    /// See [`Kind`].
    pub kind: AtomicU32,
    /// Its address; 0 = the record is a site's.
    pub address: AtomicU64,
    /// The code location that initialised it, 0 if none did; of a site's record, the site.
    pub site: AtomicU64,
    /// The code location that used it first, as far as that was seen.
    pub first_use: AtomicU64,
    /// What serves it: 0 = glibc, else an index of [`Region::servers`].
    pub server: AtomicU32,
    /// Fills the cache line: what is above is read at every wait, and what is below is written by many threads.
    pub unused: [AtomicU32; 5],
    /// Threads that wait for it, of those for which releases are noted.
    pub waiting: AtomicU32,
    /// The most that did.
    pub waiting_max: AtomicU32,
    /// How many threads had it after a wait for which releases were noted. Between two of these, releases by one thread from one
    /// place are one entry of `ring`.
    pub hand_overs: AtomicU32,
    /// The thread that acquired it last, as far as that was recorded.
    pub last_owner: AtomicU32,
    /// On which NUMA node.
    pub last_node: AtomicU32,
    /// Releases written to `ring`.
    pub releases: AtomicU32,
    /// Acquisitions that waited.
    pub contended: AtomicU64,
    /// Of those, to read.
    pub contended_reads: AtomicU64,
    /// Other acquisitions: the weights of samples.
    pub uncontended: AtomicU64,
    /// Of those, to read.
    pub uncontended_reads: AtomicU64,
    /// Variance of `uncontended`.
    pub uncontended_variance: AtomicU64,
    /// Time waited.
    pub wait_ns: AtomicU64,
    /// Of that, to read.
    pub wait_reads_ns: AtomicU64,
    /// The longest wait.
    pub wait_max_ns: AtomicU64,
    /// Time held: hold times times weights.
    pub hold_ns: AtomicU64,
    /// Variance of `hold_ns`, in µs².
    pub hold_variance_us2: AtomicU64,
    /// The longest that was seen.
    pub hold_max_ns: AtomicU64,
    /// Of `hold_ns`, what was not within a section of another lock.
    pub outer_hold_ns: AtomicU64,
    /// The same of `wait_ns`.
    pub outer_wait_ns: AtomicU64,
    /// Time between a release and the same thread's next acquisition: times weights.
    pub think_ns: AtomicU64,
    /// Weights of those.
    pub thinks: AtomicU64,
    /// Acquisitions by another thread than the last.
    pub owner_switches: AtomicU64,
    /// Those on another NUMA node.
    pub node_crossings: AtomicU64,
    /// Attempts that failed at once.
    pub tries_failed: AtomicU64,
    /// Attempts that were given up.
    pub timed_out: AtomicU64,
    /// What the program called it.
    pub name: [AtomicU8; NAME],
    /// Parts of waits, by [`PARKED`] and so on.
    pub parts: [Part; PARTS],
    /// Histogram of waits.
    pub wait: Histogram,
    /// Of hold times.
    pub hold: Histogram,
    /// Of think times.
    pub think: Histogram,
    /// The latest releases that somebody waited for.
    pub ring: [Release; RING],
}

/// Parts of a wait.
pub const PARTS: usize = 3;
/// The thread slept in the kernel.
pub const PARKED: usize = 0;
/// It was awake, and another waiter got the lock.
pub const QUEUED: usize = 1;
/// It was awake, and the next to get the lock.
pub const SPINNING: usize = 2;

/// A part of the waits for a lock.
#[repr(C)]
#[derive(Debug)]
pub struct Part {
    /// Their sum.
    pub ns: AtomicU64,
    /// How many waits had such a part of each order of magnitude: from 2ⁿ ns on.
    pub orders: [AtomicU32; 48],
}

impl Part {
    /// Adds the part of a wait that stands for `weight`.
    pub(crate) fn add(&self, ns: u64, weight: u32) {
        if ns != 0 {
            self.ns.fetch_add(ns * u64::from(weight), Relaxed);
            self.count(ns, weight);
        }
    }

    /// Adds to the counts alone.
    pub(crate) fn count(&self, ns: u64, weight: u32) {
        if ns != 0 {
            self.orders[(ns.ilog2() as usize).min(47)].fetch_add(weight, Relaxed);
        }
    }
}

/// A release of a lock that somebody waited for.
#[repr(C)]
#[derive(Debug)]
pub struct Release {
    /// 2n + 1 while the n-th release is written here, 2n + 2 when it is complete.
    pub turn: AtomicU64,
    /// When, by the processor's counter of time.
    pub at: AtomicU64,
    /// The stack that acquired the lock.
    pub acquired: AtomicU32,
    /// The stack that released it.
    pub released: AtomicU32,
    /// The thread.
    pub thread: AtomicU32,
    /// Its NUMA node.
    pub node: AtomicU32,
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

impl Region {
    /// Switches the recorder on or off, from within the process or from another that has the file mapped. Threads that are in the
    /// middle of an operation end it as they began it.
    pub fn switch(&self, on: bool) {
        let header = &self.header;
        let copy = |from: &Page| {
            for (to, from) in self.entrances.live.words.iter().zip(&from.words) {
                // A process that has not filled its pages yet begins as the header says.
                match from.load(Relaxed) {
                    0 => {}
                    function => to.store(function, Relaxed),
                }
            }
        };
        if on {
            // What threads noted before is out of date.
            header.epoch.fetch_add(1, Relaxed);
            // Threads look at the epoch where they take samples, and there only.
            self.threads.iter().for_each(|thread| thread.countdown.store(1, Relaxed));
            header.enabled.store(1, Relaxed);
            copy(&self.entrances.on);
        } else {
            copy(&self.entrances.off);
            header.enabled.store(0, Relaxed);
        }
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
