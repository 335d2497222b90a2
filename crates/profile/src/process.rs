//! A process that is recorded, whichever library serves its locks: its file, the places of its threads, what it is told of
//! waits, and what becomes of all that in a child of `fork`.
//!
//! The file is made with all the room it will need: a disk that fills up later disturbs nobody. So a process makes it when it
//! first uses a lock, for most of those that a shell or `make` starts never do. It is to do so because its environment says so
//! ([`start`]), or because a command asks for it while the process runs ([`board`](crate::board)): both ways go through the gate
//! of its board. A child of `fork` gets a file of its own in the same way, mapped at the same place, unless the parent's was
//! asked for by a command: then it is not recorded.
//!
//! What follows lock operations calls [`recording`] first.

use core::ffi::{CStr, c_char};
use core::fmt::{self, Write as _};
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32};

use lockwork_platform::observe::{self, Observer};
use lockwork_platform::{Native, sys};
use syscalls::{Errno, Sysno, syscall};

use crate::board::{Board, PATH as BOARD_PATH};
use crate::format::{Kind, Mode, NAME, Region, SERVERS, Thread};
use crate::locks::write_name;
use crate::recorder::{Begun, Call, Target};

/// What the library that serves the locks has to do and to say.
#[derive(Debug)]
pub struct Host {
    /// Where the process can be asked to record.
    pub board: &'static Board,
    /// What the calling thread is about to wait for, by what it registered; `None` where that is followed elsewhere.
    pub target: fn(usize, &Thread) -> Option<Target>,
    /// The process records from now on.
    pub enter: fn(&'static Region),
    /// It does so no more: a child of `fork`.
    pub leave: fn(),
}

/// 1 = this process is recorded. Read by entry points in assembly.
pub static LOADED: AtomicU32 = AtomicU32::new(0);
static REGION: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());
static HOST: AtomicPtr<Host> = AtomicPtr::new(ptr::null_mut());
/// Where the file is to be mapped, in place of the parent's; null: anywhere.
static PLACE: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());
static BEGINS_OFF: AtomicBool = AtomicBool::new(false);
/// The process is to be recorded because its environment says so.
static BY_ITSELF: AtomicBool = AtomicBool::new(false);
/// The file was asked for by a command while the process ran.
static WAS_ASKED: AtomicBool = AtomicBool::new(false);
/// What the names of files begin with: the variable's value, in the environment for ever, or the board's.
static PATH: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// In the place of a thread that is not recorded.
const NOT_RECORDED: *const () = ptr::without_provenance(1);

static OBSERVER: Observer = Observer { wait_begins, wait_ends, sleeps, wakes, yields, thread_ends };

/// The mean time between sampled points of waiting.
const WAIT_PERIOD_NS: u64 = 50_000;
/// Threads are sampled once in that many acquisitions at most.
const MAX_PERIOD: u32 = 1024;

/// The process is to be recorded, from the first use of a lock behind [`serve`] on.
pub fn start(path: &'static CStr, begins_off: bool) {
    PATH.store(path.as_ptr().cast_mut(), Relaxed);
    BEGINS_OFF.store(begins_off, Relaxed);
    BY_ITSELF.store(true, Relaxed);
}

/// Whether the process is recorded is looked at from here on. Called when the locks have been chosen.
pub fn serve(host: &'static Host) {
    HOST.store(ptr::from_ref(host).cast_mut(), Relaxed);
    if BY_ITSELF.load(Relaxed) {
        host.board.ask();
    }
}

fn enter(host: &Host, region: &'static Region) {
    observe::install(&OBSERVER);
    (host.enter)(region);
    LOADED.store(1, Relaxed);
}

fn host() -> Option<&'static Host> {
    // SAFETY: null, or a static.
    unsafe { HOST.load(Relaxed).as_ref() }
}

/// Whether this process is recorded.
#[inline(always)]
#[must_use]
pub fn is_loaded() -> bool {
    LOADED.load(Relaxed) != 0
}

/// Makes the file if it is asked for and nobody has done so. Says so if a file that nobody waits for cannot be made.
#[cold]
fn asked() -> Option<&'static Region> {
    let host = host()?;
    let board = host.board;
    if !board.is_asked() {
        return None;
    }
    let by_itself = BY_ITSELF.load(Relaxed);
    if !board.claim() {
        return if by_itself { wait_for_file(board) } else { None };
    }
    if !by_itself {
        PATH.store(board.path.as_ptr().cast_mut().cast(), Relaxed);
        BEGINS_OFF.store(false, Relaxed);
        WAS_ASKED.store(true, Relaxed);
    }
    match make_file(board, PLACE.load(Relaxed)) {
        Ok(place) => {
            // SAFETY: mapped for ever, and a valid region.
            let region = unsafe { &*place };
            // First: what is switched on below finds the functions of the recorder in it.
            enter(host, region);
            // ORDER: Release: of what is in it, threads that find it here see all, by the address.
            REGION.store(place, Release);
            if by_itself {
                board.open();
            } else {
                board.answer(Ok(()));
            }
            Some(region)
        }
        Err(error) => {
            if BY_ITSELF.swap(false, Relaxed) {
                say_why_not(error);
            }
            board.answer(Err(error.into_raw().unsigned_abs()));
            None
        }
    }
}

/// Waits until another thread has made the file: what this one does shall be in it. Not for ever: it may be a signal handler, on
/// top of that thread.
fn wait_for_file(board: &Board) -> Option<&'static Region> {
    const LOOKS: u32 = 2000;
    const PAUSE_NS: u64 = 50_000;
    for _ in 0..LOOKS {
        if region().is_some() || !board.is_asked() {
            break;
        }
        sys::sleep_ns(PAUSE_NS);
    }
    region()
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

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let taken = text.len().min(room.len());
        room[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

/// The name of what serves locks with this number, of mutexes (0) or reader-writer locks (1).
pub fn name_server(region: &Region, kind: usize, number: u32, what: &dyn fmt::Display) {
    let mut text = Text::<64>::EMPTY;
    let _ = write!(text, "{what}");
    region.name_server(kind, number, text.as_bytes());
}

fn pid() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { syscall!(Sysno::getpid) }.unwrap_or(0) as u32
}

/// Whether this process has a thread with this id.
#[must_use]
pub fn thread_exists(id: u32) -> bool {
    // SAFETY: no memory is involved, and signal 0 is none.
    unsafe { syscall!(Sysno::tgkill, pid(), id, 0) != Err(Errno::ESRCH) }
}

/// Says why the process is not recorded.
fn say_why_not(error: Errno) {
    let why = match error {
        Errno::ENOSPC | Errno::EDQUOT => "no space is left on the device; it needs 30 MB",
        Errno::ENOENT | Errno::ENOTDIR => "there is no such directory",
        Errno::EACCES | Errno::EROFS => "permission denied",
        Errno::ENAMETOOLONG => "its name is too long",
        Errno::EFBIG => "its files may not be as large as 30 MB; raise that limit (ulimit -f)",
        _ => "the file cannot be made",
    };
    let mut line = Text::<512>::EMPTY;
    let path = path().to_str().unwrap_or("?");
    let _ = writeln!(line, "lockwork: process {} is not recorded: {path}.{}: {why}", pid(), pid());
    sys::write_stderr(line.as_bytes());
}

fn path() -> &'static CStr {
    // SAFETY: a terminated string of the initial environment, or the board's.
    unsafe { CStr::from_ptr(PATH.load(Relaxed)) }
}

/// Makes a file for this process and maps it, at `place` unless that is null.
fn make_file(board: &Board, place: *mut Region) -> Result<*mut Region, Errno> {
    let region = map_file(&mut Name::of(board), place)?;
    let mut buffer = [0_u8; 64];
    let name = sys::read_file(c"/proc/self/comm", &mut buffer).unwrap_or(b"?").trim_ascii();
    // SAFETY: fresh and zeroed, which is a valid state.
    unsafe { &*region }.start(pid(), name, WAIT_PERIOD_NS, MAX_PERIOD, !BEGINS_OFF.load(Relaxed));
    Ok(region)
}

/// The name of a file, in the board: threads that come here may have the smallest of stacks.
struct Name<'a> {
    bytes: &'a [AtomicU8; BOARD_PATH],
    /// The bytes that all names of this process begin with.
    prefix: usize,
    length: usize,
}

impl<'a> Name<'a> {
    fn of(board: &'a Board) -> Self {
        let path = path();
        let prefix = path.count_bytes().min(BOARD_PATH);
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

const AT_FDCWD: usize = -100_isize as usize;

/// How often a signal may interrupt the making of a file.
const MOST_INTERRUPTIONS: u32 = 100;

fn map_file(name: &mut Name<'_>, place: *mut Region) -> Result<*mut Region, Errno> {
    const RDWR_CREAT_EXCL_CLOEXEC: usize = 0o2 | 0o100 | 0o200 | 0o2_000_000;
    const READ_WRITE: usize = 1 | 2;
    const SHARED: usize = 1;
    const FIXED: usize = 16;
    let mut number = 0;
    let file = loop {
        let pointer = name.number(number)?;
        // SAFETY: a terminated path.
        match unsafe { syscall!(Sysno::openat, AT_FDCWD, pointer, RDWR_CREAT_EXCL_CLOEXEC, 0o600) } {
            Err(Errno::EINTR) => {}
            Err(Errno::EEXIST) if number < 1000 => number += 1,
            result => break result?,
        }
    };
    let bytes = size_of::<Region>();
    // SAFETY: no memory is involved.
    let allocate = || unsafe { syscall!(Sysno::fallocate, file, 0, 0, bytes) };
    // The kernel would send a signal that ends the process.
    let mut result = if largest_file() < bytes as u64 { Err(Errno::EFBIG) } else { allocate() };
    // A program's timer may strike each time, and what has been done is undone then.
    for _ in 0..MOST_INTERRUPTIONS {
        if result != Err(Errno::EINTR) {
            break;
        }
        result = allocate();
    }
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

/// The size that a file of this process may have.
fn largest_file() -> u64 {
    const FSIZE: usize = 1;
    let mut limits = [u64::MAX; 2];
    // SAFETY: two writable words; no limit is set.
    let _ = unsafe { syscall!(Sysno::prlimit64, 0, FSIZE, 0, limits.as_mut_ptr()) };
    limits[0]
}

/// The file, if there is one.
#[inline(always)]
#[must_use]
pub fn region() -> Option<&'static Region> {
    // SAFETY: null, or mapped for ever.
    unsafe { REGION.load(Relaxed).as_ref() }
}

/// Where the calling thread records, if it has done so before: a place in the region, which there is then.
#[inline(always)]
#[must_use]
pub fn known_thread() -> Option<&'static Thread> {
    let place = observe::place();
    // SAFETY: set by `new_thread`, in the region, which is mapped for ever.
    (place.addr() > NOT_RECORDED.addr()).then(|| unsafe { &*place.cast::<Thread>() })
}

/// The same, and the region.
#[inline(always)]
#[must_use]
pub fn known() -> Option<(&'static Region, &'static Thread)> {
    let thread = known_thread()?;
    // A child of `fork` has none, and takes the places away; but a signal handler may fork right here.
    Some((region()?, thread))
}

/// Where the calling thread records; `None` while nothing is recorded.
#[inline(always)]
#[must_use]
pub fn recording() -> Option<(&'static Region, &'static Thread)> {
    let region = region().or_else(asked)?;
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

/// The observer of waits.
fn wait_begins(waiting_on: usize) {
    if let Some((region, thread)) = known()
        && let Some(host) = host()
        && let Some(target) = (host.target)(waiting_on, thread)
    {
        region.wait_begins(thread, target);
    }
}

/// The observer of waits' ends.
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

/// The file, if there is one, or if it is asked for.
#[inline]
#[must_use]
pub fn region_now() -> Option<&'static Region> {
    region().or_else(asked)
}

/// A lock was initialised by the code before `caller`, or (0) destroyed.
#[inline]
pub fn renewed(kind: Kind, address: usize, caller: usize) {
    if let Some(region) = region_now() {
        region.renew_lock(kind, address, caller);
    }
}

/// In a child after `fork`: it records in a file of its own as soon as it uses a lock, or not at all.
pub fn after_fork_in_child() {
    let Some(host) = host() else { return };
    let region = region();
    // Another thread of the parent may have been about to begin.
    if region.is_some() || host.board.is_claimed() {
        observe::set_place(ptr::null());
        REGION.store(ptr::null_mut(), Relaxed);
        // Before what follows: what is mapped there is the parent's.
        LOADED.store(0, Relaxed);
        (host.leave)();
    }
    WAS_ASKED.store(false, Relaxed);
    host.board.reset();
    if BY_ITSELF.load(Relaxed) {
        host.board.ask();
    }
    if let Some(region) = region {
        let place = ptr::from_ref(region).cast_mut();
        forget(place);
        PLACE.store(place, Relaxed);
    }
}

/// Puts empty memory in the place of the parent's file. An operation may be under way that a signal handler has interrupted to
/// fork: what it refers to stays there, and changes nothing.
fn forget(place: *mut Region) {
    const READ_WRITE: usize = 1 | 2;
    const PRIVATE_ANONYMOUS_FIXED: usize = 2 | 0x20 | 16;
    let bytes = size_of::<Region>();
    // SAFETY: in the place of a mapping of that size, which is never taken away; zero is a valid state.
    let _ =
        unsafe { syscall!(Sysno::mmap, place, bytes, READ_WRITE, PRIVATE_ANONYMOUS_FIXED, usize::MAX, 0) };
}

/// The process ends. Nobody keeps a file that was asked for by a command, or that no lock is in.
pub fn end() {
    let Some(region) = region() else { return };
    // A child whose handlers did not run, as of `_Fork`, has its parent's.
    if region.header.pid.load(Relaxed) != pid() {
        return;
    }
    region.end();
    let is_kept = !WAS_ASKED.load(Relaxed) && region.header.locks.load(Relaxed) != 0;
    if !is_kept && let Some(host) = host() {
        // SAFETY: a terminated path.
        let _ = unsafe { syscall!(Sysno::unlinkat, AT_FDCWD, host.board.path.as_ptr(), 0) };
    }
}

/// What an attempt to acquire a lock of this kind came to.
pub fn settle(region: &Region, thread: &Thread, target: Target, is_success: bool) {
    if is_success {
        region.acquired(thread);
    } else {
        region.refused(thread, target);
    }
}

/// Follows an attempt to acquire a lock that says itself when it makes its thread wait, and that a thread does not acquire again
/// while it has it, but to read. `target` is asked for when the attempt has failed.
#[inline(always)]
pub fn acquire<R>(
    (address, mode): (usize, Mode),
    call: Call,
    target: impl FnOnce() -> Target,
    attempt: impl FnOnce() -> R,
    is_success: impl FnOnce(&R) -> bool,
) -> R {
    let Some((region, thread)) = recording() else { return attempt() };
    if region.about_to(thread, address, mode, call, false) != Begun::Followed {
        return attempt();
    }
    let result = attempt();
    if is_success(&result) {
        region.acquired(thread);
    } else {
        region.refused(thread, target());
    }
    result
}

/// Follows a release. `server` says what serves the lock, where that matters.
#[inline(always)]
pub fn release<R>(
    address: usize,
    call: Call,
    server: impl FnOnce() -> u32,
    release: impl FnOnce() -> R,
) -> R {
    let Some((region, thread)) = recording() else { return release() };
    match region.before_release(thread, address, server) {
        None => release(),
        Some(releasing) => {
            let result = release();
            region.after_release(thread, &releasing, call);
            result
        }
    }
}

/// A wait on a condition is about to begin, by this call.
pub fn keep_call_of_wait(call: Call) {
    if let Some((_, thread)) = recording() {
        thread.keep_call(call);
    }
}

/// Releases the mutex of a wait on the condition at `cond`, for the call that was kept.
pub fn release_to_wait(cond: usize, address: usize, server: impl FnOnce() -> u32, release: impl FnOnce()) {
    let Some((region, thread)) = recording() else { return release() };
    let releasing = region.before_release(thread, address, server);
    region.cond_wait_begins(thread, cond, thread.kept_call());
    release();
    if let Some(releasing) = releasing {
        region.after_release(thread, &releasing, thread.kept_call());
    }
}

/// Acquires it again.
pub fn acquire_after_wait<R>(
    address: usize,
    target: impl FnOnce() -> Target,
    attempt: impl FnOnce() -> R,
    is_success: impl FnOnce(&R) -> bool,
) -> R {
    // Also where the recorder was switched off during the wait.
    let Some((region, thread)) = known() else { return attempt() };
    region.cond_wait_ends(thread);
    acquire((address, Mode::Mutex), thread.kept_call(), target, attempt, is_success)
}

/// The number of what serves locks and is called so, which from now on is its name; of mutexes (0) or reader-writer locks (1).
#[must_use]
pub fn server_called(region: &Region, kind: usize, name: &[u8]) -> u32 {
    let name = &name[..name.len().min(NAME - 1)];
    let Some(&first) = name.first() else { return LAST_SERVER };
    for number in 1..LAST_SERVER {
        let place = &region.servers[kind][number as usize];
        if place[0].load(Relaxed) == 0 && place[0].compare_exchange(0, first, Relaxed, Relaxed).is_ok() {
            write_name(place, name);
            return number;
        }
        // One that is being written is taken for another: then the name has two numbers.
        let rest = name.iter().chain(core::iter::repeat(&0));
        if place.iter().zip(rest).all(|(there, byte)| there.load(Relaxed) == *byte) {
            return number;
        }
    }
    LAST_SERVER
}

/// Of what has no number of its own.
const LAST_SERVER: u32 = SERVERS as u32 - 1;

/// A call by the code before a return address, with this frame pointer.
#[must_use]
pub fn call(caller: usize, frame: usize) -> Call {
    Call { caller, frame }
}
