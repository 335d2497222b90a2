//! The profile: which locks the program waits for, recorded in a mapped file (`LOCKWORK_PROFILE`).
//!
//! Its functions stand at the entry points in the place of the usual ones, in a process that is profiled and in no other.
//! They note the call, run what the entry point would have run, and note what came of it (`lockwork_profile::recorder`). That
//! a thread has to wait is seen in two ways: locks of ours tell the observer of waits (`lockwork_platform::observe`); a lock
//! of glibc's is tried first, which is what its own fast path does.
//!
//! The file is made at the start, with all the room it will need: a disk that fills up later disturbs nobody. A child of
//! `fork` gets a file of its own, mapped at the same place.
//!
//! To switch the recorder on or off is to change what the entry points jump through, in the file (`entrances`).

pub(crate) mod cond;
mod entrances;
pub(crate) mod mutex;
mod names;
pub(crate) mod rwlock;

use core::ffi::CStr;
use core::fmt::Write as _;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed};

use lockwork_locks::wait::{WAITING_ON_COND, WAITING_ON_RWLOCK};
use lockwork_platform::observe::{self, Observer};
use lockwork_platform::{Native, sys};
use lockwork_profile::format::{Kind, Mode, Region, SERVERS, Thread};
use lockwork_profile::recorder::{Call, Target};
use syscalls::{Errno, Sysno, syscall};

use crate::abi::layout::RWLOCK_FUTEX;
use crate::life::start::thread_exists;
use crate::serve::mutex::table::{self, PASSTHROUGH_TAG, TAGS};
use crate::serve::rwlock::table as rwtable;

/// 1 = this process is profiled. Read by entry points in assembly.
pub(crate) static LOADED: AtomicU32 = AtomicU32::new(0);
static REGION: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());
static BEGINS_OFF: AtomicBool = AtomicBool::new(false);
/// Where files are made: the variable's value, in the environment for ever.
static PATH: AtomicPtr<core::ffi::c_char> = AtomicPtr::new(ptr::null_mut());

/// In the place of a thread that is not recorded.
const NOT_RECORDED: *const () = ptr::without_provenance(1);

static OBSERVER: Observer = Observer { wait_begins, wait_ends, sleeps, wakes, yields, thread_ends };

/// The mean time between sampled points of waiting.
const WAIT_PERIOD_NS: u64 = 50_000;
/// Threads are sampled once in that many acquisitions at most.
const MAX_PERIOD: u32 = 1024;

/// Makes the file and prepares to record. Threads do so from [`enter`] on.
pub(crate) fn start(path: &'static CStr, begins_off: bool) {
    PATH.store(path.as_ptr().cast_mut(), Relaxed);
    BEGINS_OFF.store(begins_off, Relaxed);
    if let Some(region) = make_file(ptr::null_mut()) {
        REGION.store(region, Relaxed);
    }
}

/// Puts the profile's functions at the entry points, if the process is to be profiled. Called when the locks have been
/// chosen.
pub(crate) fn enter() {
    let Some(region) = region() else { return };
    for tag in 1..TAGS as u32 {
        if tag != PASSTHROUGH_TAG && table::ops(tag).is_some() {
            name(region, 0, tag, &table::choice(tag));
        }
    }
    for server in RWLOCK_FUTEX..SERVERS as u32 {
        if server == RWLOCK_FUTEX || rwtable::ops(server).is_some() {
            name(region, 1, server, &rwtable::spec(server));
        }
    }
    observe::install(&OBSERVER);
    entrances::enter(region);
    LOADED.store(1, Relaxed);
}

/// Whether this process is profiled.
pub(crate) fn is_loaded() -> bool {
    LOADED.load(Relaxed) != 0
}

/// The leaf function of an operation and a tag changes.
pub(crate) fn leaf_changes(operation: usize, tag: usize, leaf: [*mut (); 2]) {
    entrances::leaf_changes(region(), operation, tag, leaf);
}

/// Some text, cut where there is no more room.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    const EMPTY: Self = Self { bytes: [0; N], length: 0 };

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const N: usize> core::fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = &mut self.bytes[self.length..];
        let taken = text.len().min(room.len());
        room[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

fn name(region: &Region, kind: usize, number: u32, what: &dyn core::fmt::Display) {
    let mut text = Text::<64>::EMPTY;
    let _ = write!(text, "{what}");
    region.name_server(kind, number, text.as_bytes());
}

fn pid() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { syscall!(Sysno::getpid) }.unwrap_or(0) as u32
}

/// Makes a file for this process and maps it, at `place` unless that is null. Says so if that fails.
fn make_file(place: *mut Region) -> Option<*mut Region> {
    let path = PATH.load(Relaxed);
    // SAFETY: a terminated string of the initial environment.
    let path = unsafe { CStr::from_ptr(path) };
    match map_file(path, place) {
        Ok(region) => {
            let mut buffer = [0_u8; 64];
            let name = sys::read_file(c"/proc/self/comm", &mut buffer).unwrap_or(b"?").trim_ascii();
            // SAFETY: fresh and zeroed, which is a valid state.
            unsafe { &*region }.start(pid(), name, WAIT_PERIOD_NS, MAX_PERIOD, !BEGINS_OFF.load(Relaxed));
            Some(region)
        }
        Err(error) => {
            let why = match error {
                Errno::ENOSPC | Errno::EDQUOT => "no space is left on the device",
                Errno::ENOENT | Errno::ENOTDIR => "there is no such directory",
                Errno::EACCES | Errno::EROFS => "permission denied",
                _ => "the file cannot be made",
            };
            let mut line = Text::<512>::EMPTY;
            let path = path.to_str().unwrap_or("?");
            let _ = writeln!(line, "lockwork: process {} is not recorded: {path}.{}: {why}", pid(), pid());
            sys::write_stderr(line.as_bytes());
            None
        }
    }
}

fn map_file(path: &CStr, place: *mut Region) -> Result<*mut Region, Errno> {
    const AT_FDCWD: usize = -100_isize as usize;
    const RDWR_CREAT_EXCL_CLOEXEC: usize = 0o2 | 0o100 | 0o200 | 0o2_000_000;
    const READ_WRITE: usize = 1 | 2;
    const SHARED: usize = 1;
    const FIXED: usize = 16;
    let mut number = 0;
    let (file, name) = loop {
        let mut name = Text::<4096>::EMPTY;
        let _ = name.write_str(path.to_str().unwrap_or(""));
        let _ = write!(name, ".{}", pid());
        if number != 0 {
            // The process has been another program before.
            let _ = write!(name, ".{number}");
        }
        let _ = name.write_str("\0");
        let pointer = name.bytes.as_ptr();
        // SAFETY: a terminated path.
        match unsafe { syscall!(Sysno::openat, AT_FDCWD, pointer, RDWR_CREAT_EXCL_CLOEXEC, 0o600) } {
            Err(Errno::EEXIST) if number < 1000 => number += 1,
            result => break (result?, name),
        }
    };
    let bytes = size_of::<Region>();
    // SAFETY: no memory is involved.
    let mut result = unsafe { syscall!(Sysno::fallocate, file, 0, 0, bytes) };
    if result == Err(Errno::EOPNOTSUPP) {
        // SAFETY: as above.
        result = unsafe { syscall!(Sysno::ftruncate, file, bytes) };
    }
    let flags = if place.is_null() { SHARED } else { SHARED | FIXED };
    // SAFETY: a fresh mapping, or one in the place of the parent's, which this process has no more use for.
    let mapped =
        result.and_then(|_| unsafe { syscall!(Sysno::mmap, place, bytes, READ_WRITE, flags, file, 0) });
    sys::close(file as i32);
    if mapped.is_err() {
        // SAFETY: a terminated path.
        let _ = unsafe { syscall!(Sysno::unlinkat, AT_FDCWD, name.bytes.as_ptr(), 0) };
    }
    mapped.map(|address| address as *mut Region)
}

#[inline(always)]
fn region() -> Option<&'static Region> {
    // SAFETY: null, or mapped for ever.
    unsafe { REGION.load(Relaxed).as_ref() }
}

/// Where the calling thread records, if it has done so before: a place in the region, which there is then.
#[inline(always)]
fn known_thread() -> Option<&'static Thread> {
    let place = observe::place();
    // SAFETY: set by `new_thread`, in the region, which is mapped for ever.
    (place.addr() > NOT_RECORDED.addr()).then(|| unsafe { &*place.cast::<Thread>() })
}

/// The same, and the region.
#[inline(always)]
fn known() -> Option<(&'static Region, &'static Thread)> {
    let thread = known_thread()?;
    // SAFETY: set once to a region that is mapped for ever, or null.
    let region = unsafe { REGION.load(Relaxed).as_ref() };
    // SAFETY: a thread has a place only while there is a region: a child of `fork` that has none takes the places away.
    Some((unsafe { region.unwrap_unchecked() }, thread))
}

/// Where the calling thread records; `None` while nothing is recorded.
#[inline(always)]
fn recording() -> Option<(&'static Region, &'static Thread)> {
    let region = region()?;
    if !region.is_enabled() {
        return None;
    }
    let place = observe::place();
    if place.addr() <= NOT_RECORDED.addr() {
        return new_thread(region).map(|thread| (region, thread));
    }
    // SAFETY: set by `new_thread`, in the region.
    Some((region, unsafe { &*place.cast::<Thread>() }))
}

#[cold]
fn new_thread(region: &'static Region) -> Option<&'static Thread> {
    if !observe::place().is_null() {
        return None;
    }
    // What follows may allocate, and the allocator may use a lock.
    observe::set_place(NOT_RECORDED);
    if !observe::will_hear_of_end() {
        return None;
    }
    let thread = region.enter_thread(Native::tid(), thread_exists)?;
    observe::set_place(ptr::from_ref(thread).cast());
    Some(thread)
}

fn thread_ends() {
    let place = observe::place();
    observe::set_place(NOT_RECORDED);
    if place.addr() > NOT_RECORDED.addr()
        && let Some(region) = region()
    {
        // SAFETY: set by `new_thread`.
        region.leave_thread(unsafe { &*place.cast::<Thread>() });
    }
}

/// The observer of waits: for locks of ours.
fn wait_begins(waiting_on: usize) {
    if waiting_on & WAITING_ON_COND != 0 {
        return;
    }
    let place = observe::place();
    if place.addr() <= NOT_RECORDED.addr() {
        return;
    }
    let Some(region) = region() else { return };
    // SAFETY: set by `new_thread`.
    let thread = unsafe { &*place.cast::<Thread>() };
    let address = waiting_on & !WAITING_ON_RWLOCK;
    let target = match waiting_on & WAITING_ON_RWLOCK {
        0 => mutex::target(address),
        _ => rwlock::target(address, thread.last_mode()),
    };
    region.wait_begins(thread, target);
}

/// The observer of waits' ends: for locks of ours.
fn wait_ends() {
    if let Some((region, thread)) = known() {
        region.wait_ends(thread);
    }
}

/// The observer of sleeps.
fn sleeps() {
    if let Some((region, thread)) = known() {
        region.wait_goes_on(thread);
        thread.parks();
    }
}

/// The observer of yields.
fn yields() {
    if let Some((region, thread)) = known() {
        region.wait_goes_on(thread);
    }
}

/// The observer of sleeps' ends.
fn wakes() {
    if let Some(thread) = known_thread() {
        thread.unparks();
    }
}

/// A lock was initialised by the code before `caller`, or (0) destroyed.
#[inline]
pub(crate) fn renewed(kind: Kind, address: usize, caller: usize) {
    if is_loaded()
        && let Some(region) = region()
    {
        region.renew_lock(kind, address, caller);
    }
}

/// In a child after `fork`: it records in a file of its own, or not at all.
pub(crate) fn after_fork_in_child() {
    let Some(region) = region() else { return };
    observe::set_place(ptr::null());
    let place = ptr::from_ref(region).cast_mut();
    REGION.store(make_file(place).unwrap_or(ptr::null_mut()), Relaxed);
    if self::region().is_none() {
        // Before that: what was mapped there is the parent's.
        entrances::leave();
        region.lose_child();
    } else {
        enter();
    }
}

/// The process ends.
pub(crate) fn end() {
    if let Some(region) = region() {
        region.end();
    }
}

/// What an attempt to acquire a lock of this kind came to.
fn settle(region: &Region, thread: &Thread, target: Target, is_success: bool) {
    if is_success {
        region.acquired(thread);
    } else {
        region.refused(thread, target);
    }
}

/// A call by the code before a return address, with this frame pointer.
fn call(caller: usize, frame: usize) -> Call {
    Call { caller, frame }
}

/// How a mutex is held.
const MUTEX: Mode = Mode::Mutex;
