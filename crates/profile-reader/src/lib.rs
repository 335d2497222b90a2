//! What a profiled process recorded (`lockwork_profile::format`), as plain figures.
//!
//! A crate of its own, because it needs std: Cargo builds a crate once with the features that anything wants, and the preload
//! library has no std.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use lockwork_platform::{Clock, sys};

use lockwork_profile::format::{
    EDGES, EVENTS, FREE, HELD, Held, LOCKS, MAGIC, PARKED, Part, QUEUED, RETIRED, Region, SERVERS, SPINNING,
    STACKS, Stage, THREADS, Thread, VERSION,
};
pub use lockwork_profile::format::{Kind, Mode};
use lockwork_profile::histogram::{BUCKETS, Histogram, lower_bound};

/// What a process recorded.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The wall clock at its start, in nanoseconds since 1970.
    pub date_ns: u64,
    /// The monotonic clock at its start.
    pub started_ns: u64,
    /// How long it ran, or has been running.
    pub wall_ns: u64,
    /// Whether it has ended.
    pub has_ended: bool,
    /// Whether it records.
    pub is_enabled: bool,
    /// The life times of its threads.
    pub threads_ns: u64,
    /// The CPU time that it used; 0 = unknown.
    pub cpu_ns: u64,
    /// How many threads there were.
    pub threads: u64,
    /// The mean time between sampled points of waiting.
    pub wait_period_ns: u64,
    /// One in at most this many acquisitions that did not wait is a sample.
    pub max_period: u32,
    /// Sampled waits so far; the last of them are in `events`.
    pub sampled_waits: u64,
    /// What did not fit.
    pub dropped: Dropped,
    /// Locks and conditions.
    pub locks: Vec<Lock>,
    /// Stacks of return addresses, the innermost first. Number 0 is the unknown one.
    pub stacks: Vec<Vec<u64>>,
    /// The waits, by the stacks of waiter and holder.
    pub edges: Vec<Edge>,
    /// Sampled waits, in order of their ends.
    pub events: Vec<Event>,
    /// What threads are doing.
    pub now: Vec<Activity>,
    /// The text of `/proc/self/maps`.
    pub maps: String,
}

/// What did not fit, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Acquisitions whose lock had no record.
    pub acquisitions: u64,
    /// Stacks.
    pub stacks: u64,
    /// Time of waits that no edge took.
    pub blame_ns: u64,
    /// Threads that found no place.
    pub threads: u64,
    /// Acquisitions by threads that had too many locks.
    pub held: u64,
    /// Looks for a record that ended at the record of a site.
    pub locks: u64,
    /// Sampled waits that later ones replaced.
    pub events: u64,
}

/// Durations: how often each, by the weights of samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Durations {
    buckets: Vec<u64>,
    /// Their sum.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], total_ns: 0, max_ns: 0 }
    }
}

impl Durations {
    fn of(histogram: &Histogram, total_ns: u64, max_ns: u64) -> Self {
        Self { buckets: histogram.weights().collect(), total_ns, max_ns }
    }

    /// Those of both.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, more)| *sum += more);
        self.total_ns += other.total_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Of a part of waits, known by its orders of magnitude.
    fn of_part(part: &Part) -> Self {
        let mut durations = Self { total_ns: part.ns.load(Relaxed), ..Self::default() };
        for (order, count) in part.orders.iter().enumerate() {
            let middle = (1_u64 << order) + (1_u64 << order) / 2;
            durations.buckets[lockwork_profile::histogram::bucket(middle)] += u64::from(count.load(Relaxed));
        }
        durations
    }

    /// Adds one.
    pub fn add(&mut self, ns: u64) {
        self.buckets[lockwork_profile::histogram::bucket(ns)] += 1;
        self.total_ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The mean, 0 if there are none.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.total_ns as f64 / count as f64,
        }
    }

    /// The duration that this part of them is not longer than, 0 if there are none. Exact to a bucket's width, 6.25%.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = part * self.count() as f64;
        let mut below = 0.0;
        for (bucket, &weight) in self.buckets.iter().enumerate() {
            let weight = weight as f64;
            if weight > 0.0 && below + weight >= wanted {
                let low = lower_bound(bucket) as f64;
                let high = lower_bound(bucket + 1) as f64;
                let value = low + (high - low) * ((wanted - below) / weight).clamp(0.0, 1.0);
                return if self.max_ns == 0 { value as u64 } else { (value as u64).min(self.max_ns) };
            }
            below += weight;
        }
        0
    }

    /// The least duration of each bucket that has any, the first one above it, and its weight.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let weights = self.buckets.iter().enumerate().filter(|(_, weight)| **weight != 0);
        weights.map(|(bucket, &weight)| (lower_bound(bucket), lower_bound(bucket + 1), weight))
    }
}

/// A lock or a condition, or what was counted under a site.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// Its number in edges and events.
    pub index: u32,
    /// What it is.
    pub kind: Kind,
    /// Its address; 0 = several locks of a site.
    pub address: u64,
    /// The return address of the call that initialised it, 0 if none did.
    pub site: u64,
    /// The return address of the call that used it first, as far as that was seen.
    pub first_use: u64,
    /// What the program calls it; empty if it does not.
    pub name: String,
    /// What serves it.
    pub served_by: String,
    /// Whether it was destroyed or initialised anew.
    pub is_retired: bool,
    /// Acquisitions that waited; of a condition, waits.
    pub contended: u64,
    /// Of those, to read.
    pub contended_reads: u64,
    /// Other acquisitions, estimated.
    pub uncontended: u64,
    /// Of those, to read.
    pub uncontended_reads: u64,
    /// The variance of that estimate.
    pub uncontended_variance: u64,
    /// Times waited.
    pub wait: Durations,
    /// Of their sum, to read.
    pub wait_reads_ns: u64,
    /// Of their sum, what was not within a section of another lock.
    pub outer_wait_ns: u64,
    /// Of the waits, what the thread slept in the kernel. Of this and the next two, durations are known to a factor of two.
    pub parked: Durations,
    /// What it was awake while others got the lock.
    pub queued: Durations,
    /// What it was awake as the next to get the lock.
    pub spinning: Durations,
    /// Of the times held, their sum outside of sections of other locks.
    pub outer_hold_ns: u64,
    /// Times held.
    pub hold: Durations,
    /// The variance of their sum, in µs².
    pub hold_variance_us2: u64,
    /// Times from a release to the same thread's next attempt.
    pub think: Durations,
    /// The most threads that waited at once.
    pub waiting_max: u32,
    /// Acquisitions by another thread than the one before, estimated.
    pub owner_switches: u64,
    /// Those on another NUMA node.
    pub node_crossings: u64,
    /// Attempts that failed at once.
    pub tries_failed: u64,
    /// Attempts that were given up.
    pub timed_out: u64,
    /// Waits that had not ended.
    pub unfinished: u64,
}

/// The time that waiters at one place waited for holders at another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The lock.
    pub lock: u32,
    /// The waiter's stack.
    pub waiter: u32,
    /// The stack that acquired the lock; 0 = unknown.
    pub acquired: u32,
    /// The stack that released it; 0 = unknown, or not released yet.
    pub released: u32,
    /// Time waited.
    pub ns: u64,
    /// Releases waited for.
    pub count: u64,
}

/// A sampled wait.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When it began, by the monotonic clock.
    pub since: u64,
    /// When it ended.
    pub until: u64,
    /// The lock.
    pub lock: u32,
    /// The waiter's stack.
    pub stack: u32,
    /// The waiter.
    pub thread: u32,
    /// The thread that released the lock last before the wait ended; 0 = unknown.
    pub holder: u32,
    /// When.
    pub released_at: u64,
    /// How many waits it stands for.
    pub weight: f64,
    /// How it was waited.
    pub mode: Mode,
}

/// What a thread is doing.
#[derive(Clone, Debug)]
pub struct Activity {
    /// The thread.
    pub thread: u32,
    /// What it waits for, since when, its stack, and the number of the lock's record.
    pub waits_for: Option<Waiting>,
    /// Addresses of the locks that it has, and the return addresses of the calls that acquired them.
    pub holds: Vec<(u64, u64)>,
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// What for.
    pub address: u64,
    /// How.
    pub mode: Mode,
    /// For how long.
    pub ns: u64,
    /// The number of the waiter's stack.
    pub stack: u32,
    /// The number of the lock.
    pub lock: u32,
}

fn bad(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// An empty region.
fn zeroed() -> Box<Region> {
    let layout = Layout::new::<Region>();
    // SAFETY: the region has a size.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: allocated with its layout by the allocator that boxes use, and zero is valid for a structure of integers.
    unsafe { Box::from_raw(memory.cast()) }
}

/// The file's bytes, in the layout that they have.
///
/// # Errors
///
/// It cannot be read, is no profile, is cut short, or of another version.
pub fn load(path: &Path) -> io::Result<Box<Region>> {
    let mut file = File::open(path)?;
    let there = file.metadata()?.len();
    let mut region = zeroed();
    let size = size_of::<Region>();
    // SAFETY: the bytes of a structure without padding that matters, all patterns of which are valid, and which nobody else
    // has.
    let bytes = unsafe { core::slice::from_raw_parts_mut((&raw mut *region).cast::<u8>(), size) };
    let present = (there as usize).min(size);
    // Most of a file may be holes.
    let mut at = 0;
    while at < present as u64 {
        let next = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at));
        let start = match next {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => at,
        };
        if start >= present as u64 {
            break;
        }
        let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(start)).unwrap_or(present as u64);
        let end = end.min(present as u64).max(start + 1);
        file.seek(io::SeekFrom::Start(start))?;
        file.read_exact(&mut bytes[start as usize..end as usize])?;
        at = end;
    }
    let header = &region.header;
    if present < 64 || header.magic.load(Acquire) != MAGIC {
        return Err(bad("it is no profile of lockwork's"));
    }
    let version = header.version.load(Relaxed);
    if version != VERSION {
        return Err(bad(format!(
            "it has format {version}, and this lockwork reads format {VERSION}: report it with the one that made it"
        )));
    }
    if header.bytes.load(Relaxed) != size as u64 {
        return Err(bad("it was made on another kind of machine"));
    }
    if there < size as u64 {
        return Err(bad(format!("it is cut short: {there} of {size} bytes")));
    }
    // What threads had not added yet.
    region.threads.iter().for_each(|thread| region.settle(thread));
    Ok(region)
}

/// Switches the recorder of a process on or off that records in this file.
///
/// # Errors
///
/// As [`load`], or it cannot be mapped.
pub fn switch(path: &Path, on: bool) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    // It is a profile, and of this version.
    load(path)?;
    let file = File::options().read(true).write(true).open(path)?;
    let (bytes, access) = (size_of::<Region>(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a fresh mapping.
    let place = unsafe { mmap(core::ptr::null_mut(), bytes, access, MapFlags::SHARED, &file, 0) }?;
    // SAFETY: as large as a region, page-aligned, and of nothing but atomics, for which all patterns are valid. Profiles do not
    // shrink.
    unsafe { &*place.cast::<Region>() }.switch(on);
    // SAFETY: mapped above, and not used any more.
    unsafe { munmap(place, bytes) }?;
    Ok(())
}

/// Writes a region to a new file, with holes where it is empty.
///
/// # Errors
///
/// The file cannot be written.
pub fn store(region: &Region, path: &Path) -> io::Result<()> {
    const BLOCK: usize = 4096;
    // SAFETY: the bytes of a structure of integers that only the caller has.
    let bytes =
        unsafe { core::slice::from_raw_parts((&raw const *region).cast::<u8>(), size_of::<Region>()) };
    let file = File::create(path)?;
    for (index, block) in bytes.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, (index * BLOCK) as u64)?;
        }
    }
    file.set_len(bytes.len() as u64)
}

/// Whether a process exists.
fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

impl Profile {
    /// Reads a file, of a process that has ended or that runs.
    ///
    /// # Errors
    ///
    /// As [`load`].
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&*load(path)?))
    }

    /// The figures of a region.
    #[must_use]
    pub fn of(region: &Region) -> Self {
        let header = &region.header;
        let number = |value: &AtomicU64| value.load(Relaxed);
        let started_ns = number(&header.started_ns);
        let pid = header.pid.load(Relaxed);
        let ended = number(&header.ended_ns);
        let has_ended = ended != 0 || !exists(pid);
        let stacks = stacks(region);
        let events = events(region);
        // A process that was killed could not note its end.
        let latest = events.iter().map(|event| event.until).max().unwrap_or(0);
        let end = if ended != 0 {
            ended
        } else if has_ended {
            let threads = region.threads.iter().filter(|thread| thread.tid.load(Relaxed) != 0);
            let seen =
                threads.map(|thread| number(&thread.started_ns).max(number(&thread.think_since))).max();
            latest.max(seen.unwrap_or(0)).max(started_ns)
        } else {
            sys::now(Clock::Monotonic)
        };
        let cpu_ns = match (ended, has_ended) {
            // It was killed, and has used more since it noted that.
            (0, true) => 0,
            (0, false) => sys::cpu_time_of_process(pid).unwrap_or(0),
            _ => number(&header.cpu_ns),
        };
        let sampled_waits = number(&header.events);
        let dropped = &header.dropped;
        let mut profile = Self {
            pid,
            name: text(&header.name),
            date_ns: number(&header.date_ns),
            started_ns,
            wall_ns: end.saturating_sub(started_ns),
            has_ended,
            cpu_ns,
            is_enabled: header.enabled.load(Relaxed) != 0,
            wait_period_ns: number(&header.wait_period_ns),
            max_period: header.max_period.load(Relaxed),
            sampled_waits,
            dropped: Dropped {
                acquisitions: number(&dropped.acquisitions),
                stacks: number(&dropped.stacks),
                blame_ns: number(&dropped.blame_ns),
                threads: number(&dropped.threads),
                held: number(&dropped.held),
                locks: number(&dropped.locks),
                events: sampled_waits.saturating_sub(EVENTS as u64),
            },
            locks: locks(region),
            stacks,
            edges: edges(region),
            events,
            maps: maps(region),
            ..Self::default()
        };
        profile.look_at_threads(region, end);
        profile
    }

    fn look_at_threads(&mut self, region: &Region, end: u64) {
        let header = &region.header;
        self.threads_ns = header.ended_threads_ns.load(Relaxed);
        self.threads = u64::from(header.ended_threads.load(Relaxed));
        for thread in region.threads.iter().take(THREADS).filter(|thread| thread.tid.load(Relaxed) != 0) {
            self.threads += 1;
            self.threads_ns += end.saturating_sub(thread.started_ns.load(Relaxed));
            // What it noted before the recorder was switched off, and on again, is out of date.
            if thread.epoch.load(Relaxed) != header.epoch.load(Relaxed) {
                continue;
            }
            let activity = activity(thread, end);
            if activity.waits_for.is_some() || !activity.holds.is_empty() {
                self.now.push(activity);
            }
        }
        self.charge_unfinished_waits();
    }

    /// Adds waits that have not ended to the figures.
    fn charge_unfinished_waits(&mut self) {
        let waits: Vec<Waiting> = self.now.iter().filter_map(|activity| activity.waits_for).collect();
        for wait in waits.into_iter().filter(|wait| wait.mode != Mode::Cond) {
            let Some(lock) = self.locks.iter_mut().find(|lock| lock.index == wait.lock) else { continue };
            lock.contended += 1;
            lock.unfinished += 1;
            lock.wait.add(wait.ns);
            if lock.served_by == "pthread" {
                lock.parked.add(wait.ns);
            }
            if wait.mode == Mode::Read {
                lock.contended_reads += 1;
                lock.wait_reads_ns += wait.ns;
            }
            let holders = self.now.iter().flat_map(|activity| &activity.holds);
            let callers: Vec<u64> =
                holders.filter(|(address, _)| *address == wait.address).map(|(_, caller)| *caller).collect();
            let share = wait.ns / callers.len().max(1) as u64;
            let blamed: Vec<u32> = if callers.is_empty() {
                vec![0]
            } else {
                callers.iter().map(|caller| self.stack(*caller)).collect()
            };
            for acquired in blamed {
                let edge =
                    Edge { lock: wait.lock, waiter: wait.stack, acquired, released: 0, ns: share, count: 1 };
                self.edges.push(edge);
            }
        }
    }

    /// The number of the stack of one frame.
    fn stack(&mut self, caller: u64) -> u32 {
        let there = self.stacks.iter().position(|stack| *stack == [caller]);
        there.unwrap_or_else(|| {
            self.stacks.push(vec![caller]);
            self.stacks.len() - 1
        }) as u32
    }
}

fn text(bytes: &[AtomicU8]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|byte| byte.load(Relaxed)).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn maps(region: &Region) -> String {
    let length = region.header.maps_bytes.load(Acquire) as usize;
    let bytes: Vec<u8> = region.maps.iter().take(length).map(|byte| byte.load(Relaxed)).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn stacks(region: &Region) -> Vec<Vec<u64>> {
    let frames = |stack: &lockwork_profile::format::Stack| {
        let depth = stack.depth.load(Acquire) as usize;
        stack.frames.iter().take(depth).map(|frame| frame.load(Relaxed)).collect()
    };
    region.stacks.iter().take(STACKS).map(frames).collect()
}

fn edges(region: &Region) -> Vec<Edge> {
    let used = region.edges.iter().take(EDGES).filter(|edge| edge.ns.load(Relaxed) != 0);
    let read = |cell: &AtomicU32, most: usize| match cell.load(Relaxed) {
        number if (number as usize) < most => number,
        _ => 0,
    };
    used.map(|edge| Edge {
        lock: read(&edge.lock, LOCKS),
        waiter: read(&edge.waiter, STACKS),
        acquired: read(&edge.acquired, STACKS),
        released: read(&edge.released, STACKS),
        ns: edge.ns.load(Relaxed),
        count: edge.count.load(Relaxed),
    })
    .collect()
}

fn events(region: &Region) -> Vec<Event> {
    let complete = region.events.iter().filter(|event| event.until.load(Relaxed) != 0);
    let mut events: Vec<Event> = complete
        .map(|event| Event {
            since: event.since.load(Relaxed),
            until: event.until.load(Relaxed),
            lock: event.lock.load(Relaxed) % LOCKS as u32,
            stack: event.stack.load(Relaxed) % STACKS as u32,
            thread: event.thread.load(Relaxed),
            holder: event.holder.load(Relaxed),
            released_at: event.released_at.load(Relaxed),
            weight: event.weight.load(Relaxed) as f64 / 1e3,
            mode: Mode::of(event.mode.load(Relaxed)),
        })
        .collect();
    events.sort_by_key(|event| event.until);
    events
}

fn activity(thread: &Thread, end: u64) -> Activity {
    let address = thread.waiting_for.load(Relaxed);
    let waits_for = (address != 0).then(|| Waiting {
        address,
        mode: Mode::of(thread.waiting_mode.load(Relaxed)),
        ns: end.saturating_sub(thread.waiting_since.load(Relaxed)),
        stack: thread.waiting_stack.load(Relaxed) % STACKS as u32,
        lock: thread.waiting_lock.load(Relaxed) % LOCKS as u32,
    });
    let count = (thread.held_count.load(Relaxed) as usize).min(HELD);
    // What it waits for is the last of the list, and it has not got that yet.
    let is_awaited = |place, held: &Held| place + 1 == count && held.address() == address;
    let held = thread.held[..count].iter().enumerate();
    let held = held.filter(|&(place, held)| held.stage() != Stage::About && !is_awaited(place, held));
    let held = held.map(|(_, held)| held);
    let holds = held.map(|held| (held.address(), held.caller.load(Relaxed))).collect();
    Activity { thread: thread.tid.load(Relaxed), waits_for, holds }
}

fn locks(region: &Region) -> Vec<Lock> {
    let used = region.locks.iter().enumerate().skip(1);
    let used = used.filter(|(_, lock)| lock.state.load(Acquire) != FREE);
    used.map(|(index, lock)| {
        let number = |value: &AtomicU64| value.load(Relaxed);
        let kind = match lock.kind.load(Relaxed) {
            1 => Kind::RwLock,
            2 => Kind::Cond,
            _ => Kind::Mutex,
        };
        let server = lock.server.load(Relaxed) as usize;
        let served_by = match (kind, server) {
            (Kind::Cond, _) | (_, 0) => "pthread".to_string(),
            (Kind::RwLock, server) => text(&region.servers[1][server % SERVERS]),
            (_, server) => text(&region.servers[0][server % SERVERS]),
        };
        let wait = Durations::of(&lock.wait, number(&lock.wait_ns), number(&lock.wait_max_ns));
        let parked = Durations::of_part(&lock.parts[PARKED]);
        let mut queued = Durations::of_part(&lock.parts[QUEUED]);
        let mut spinning = Durations::of_part(&lock.parts[SPINNING]);
        if kind != Kind::Cond {
            // Time awake is known; which part of it was behind others, of some waits that stand for all.
            let awake = wait.total_ns.saturating_sub(parked.total_ns);
            queued.total_ns = queued.total_ns.min(awake);
            spinning.total_ns = awake - queued.total_ns;
        }
        Lock {
            index: index as u32,
            kind,
            address: number(&lock.address),
            site: number(&lock.site),
            first_use: number(&lock.first_use),
            name: text(&lock.name),
            served_by,
            is_retired: lock.state.load(Relaxed) == RETIRED,
            contended: number(&lock.contended),
            contended_reads: number(&lock.contended_reads),
            uncontended: number(&lock.uncontended),
            uncontended_reads: number(&lock.uncontended_reads),
            uncontended_variance: number(&lock.uncontended_variance),
            wait,
            wait_reads_ns: number(&lock.wait_reads_ns),
            outer_wait_ns: number(&lock.outer_wait_ns),
            parked,
            queued,
            spinning,
            outer_hold_ns: number(&lock.outer_hold_ns),
            hold: Durations::of(&lock.hold, number(&lock.hold_ns), number(&lock.hold_max_ns)),
            hold_variance_us2: number(&lock.hold_variance_us2),
            think: Durations::of(&lock.think, number(&lock.think_ns), 0),
            waiting_max: lock.waiting_max.load(Relaxed),
            owner_switches: number(&lock.owner_switches),
            node_crossings: number(&lock.node_crossings),
            tries_failed: number(&lock.tries_failed),
            timed_out: number(&lock.timed_out),
            unfinished: 0,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPU time of a process that runs is its own account, and of one that was killed unknown: it noted it a while ago.
    #[test]
    fn cpu_time_is_as_new_as_the_rest() {
        let region = zeroed();
        region.start(std::process::id(), b"test", 1, 1, true);
        region.header.cpu_ns.store(1, Relaxed);
        let before = sys::process_cpu_time();
        let running = Profile::of(&region).cpu_ns;
        assert!(before <= running && running <= sys::process_cpu_time(), "{before} {running}");
        region.header.ended_ns.store(u64::MAX, Relaxed);
        assert_eq!(Profile::of(&region).cpu_ns, 1);
        // No process has this number.
        region.header.pid.store(u32::MAX, Relaxed);
        region.header.ended_ns.store(0, Relaxed);
        assert_eq!(Profile::of(&region).cpu_ns, 0);
    }

    /// What a thread noted before the recorder was switched off and on again is no news.
    #[test]
    fn what_is_out_of_date_is_not_shown() {
        let region = zeroed();
        region.start(std::process::id(), b"test", 1, 1, true);
        let call = lockwork_profile::recorder::Call { caller: 1, frame: 0 };
        let thread = region.enter_thread(7, |_| true).unwrap();
        assert_eq!(
            region.about_to(thread, 64, Mode::Mutex, call, false),
            lockwork_profile::recorder::Begun::Followed
        );
        region.acquired(thread);
        let held = || Profile::of(&region).now.iter().map(|activity| activity.holds.len()).sum::<usize>();
        assert_eq!(held(), 1);
        region.switch(false);
        region.switch(true);
        assert_eq!(held(), 0);
    }
}
