//! The profile: which locks the program waits for, recorded in a mapped file (`LOCKWORK_PROFILE`).
//!
//! Its functions stand at the entry points in the place of the usual ones, in a process that is profiled and in no other.
//! They note the call, run what the entry point would have run, and note what came of it (`lockwork_profile::recorder`). That
//! a thread has to wait is seen in two ways: locks of ours tell the observer of waits (`lockwork_platform::observe`); a lock
//! of glibc's is tried first, which is what its own fast path does, and a mutex without bookkeeping is taken and freed here as glibc's
//! functions do it, where those are known (`mutex`).
//!
//! What is not particular to this library, the file, threads and `fork`, is in `lockwork_profile::process`.
//!
//! To switch the recorder on or off is to change what the entry points jump through, in the file (`entrances`). A process that
//! has no file can be asked to make one: its [`BOARD`] then has the entry points jump through other functions, which are there
//! from the beginning, and of which the first makes it.

pub(crate) mod cond;
pub(crate) mod entrances;
pub(crate) mod mutex;
mod names;
pub(crate) mod rwlock;

use lockwork_locks::wait::{WAITING_ON_COND, WAITING_ON_RWLOCK};
use lockwork_profile::board::Board;
use lockwork_profile::format::{Mode, Region, SERVERS, Thread};
use lockwork_profile::process::{
    self, Host, call, known, known_thread, recording, region, region_now, settle,
};
pub(crate) use lockwork_profile::process::{
    LOADED, after_fork_in_child, end, is_loaded, renewed, start, thread_exists,
};
use lockwork_profile::recorder::Target;

use crate::abi::entrances::{ASKING, ENTRANCES};
use crate::abi::layout::RWLOCK_FUTEX;
use crate::serve::mutex::table::{self, PASSTHROUGH_TAG, TAGS};
use crate::serve::rwlock::table as rwtable;

/// Where a command asks this process to record. Its gate is what entry points jump through.
pub(crate) static BOARD: Board = {
    let plain = (&raw const ENTRANCES).cast_mut().cast::<()>();
    Board::new(plain, plain.wrapping_byte_add(ASKING), plain)
};

static HOST: Host = Host { board: &BOARD, target, enter: entered, leave: entrances::leave };

/// Has the process recorded if it is to be, or as soon as it is asked. Called when the locks have been chosen.
pub(crate) fn enter() {
    process::serve(&HOST);
}

/// Puts the profile's functions at the entry points.
fn entered(region: &'static Region) {
    for tag in 1..TAGS as u32 {
        if tag != PASSTHROUGH_TAG && table::ops(tag).is_some() {
            process::name_server(region, 0, tag, &table::choice(tag));
        }
    }
    for server in RWLOCK_FUTEX..SERVERS as u32 {
        if server == RWLOCK_FUTEX || rwtable::ops(server).is_some() {
            process::name_server(region, 1, server, &rwtable::spec(server));
        }
    }
    entrances::enter(region);
}

/// Makes the file, if there is to be one: later that might be forbidden.
pub(crate) fn make_file() {
    let _ = region_now();
}

/// The leaf function of an operation and a tag changes.
pub(crate) fn leaf_changes(operation: usize, tag: usize, leaf: [*mut (); 2]) {
    entrances::leaf_changes(region(), operation, tag, leaf);
}

/// What a lock of ours makes a thread wait for. Waits on conditions are followed where they are called.
fn target(waiting_on: usize, thread: &Thread) -> Option<Target> {
    let address = waiting_on & !WAITING_ON_RWLOCK;
    match waiting_on {
        _ if waiting_on & WAITING_ON_COND != 0 => None,
        _ if waiting_on & WAITING_ON_RWLOCK != 0 => Some(rwlock::target(address, thread.last_mode())),
        _ => Some(mutex::target(address)),
    }
}

/// How a mutex is held.
const MUTEX: Mode = Mode::Mutex;
