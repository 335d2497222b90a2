//! A process that is recorded, whichever library serves its locks: its file, the places of its threads, what it is told of
//! waits, and what becomes of all that in a child of `fork`.
//!
//! A process makes its file, of 30 MB, when it first uses a lock, which most of those that a shell or `make` starts never do. It
//! does so because its environment says so ([`start`]), or because a command asks for it while the process runs
//! ([`board`](crate::board)): both ways go through the gate of its board. A child of `fork` gets a file of its own in the same
//! way, mapped at the same place, unless the parent's was asked for by a command: then it is not recorded.
//!
//! What follows lock operations calls [`recording`] first.
//!
//! How a process comes to be recorded is here. Its file is in `file`; places of threads, and the observer of waits, in
//! `threads`; what libraries put around an operation in `follow`; and names of what serves locks in `servers`.

mod file;
mod follow;
mod servers;
mod text;
mod threads;

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

use lockwork_platform::{observe, sys};
use syscalls::{Sysno, syscall};

pub use self::follow::{
    acquire, acquire_after_wait, call, keep_call_of_wait, release, release_to_wait, settle,
};
pub use self::servers::{name_server, server_called};
pub use self::threads::{known, known_thread, recording, thread_exists};
use crate::board::Board;
use crate::format::{Kind, Region, Thread};
use crate::recorder::Target;

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

/// The process is to be recorded, from the first use of a lock behind [`serve`] on.
pub fn start(path: &'static CStr, begins_off: bool) {
    file::name_after(path.as_ptr());
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
    observe::install(&threads::OBSERVER);
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
        file::name_after(board.path.as_ptr().cast());
        BEGINS_OFF.store(false, Relaxed);
        WAS_ASKED.store(true, Relaxed);
    }
    match file::make(board, PLACE.load(Relaxed), !BEGINS_OFF.load(Relaxed)) {
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
                file::say_why_not(error);
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

/// The file, if there is one.
#[inline(always)]
#[must_use]
pub fn region() -> Option<&'static Region> {
    // SAFETY: null, or mapped for ever.
    unsafe { REGION.load(Relaxed).as_ref() }
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
        threads::forget_place();
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
        file::forget(place);
        PLACE.store(place, Relaxed);
    }
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
        file::remove(host.board);
    }
}

fn pid() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { syscall!(Sysno::getpid) }.unwrap_or(0) as u32
}
