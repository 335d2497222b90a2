//! The servers of this process: threads that run the sections of [`Rcl`](crate::delegates::Rcl) and
//! [`Ffwd`](crate::delegates::Ffwd) values.
//!
//! They start with the first such value, sleep while there are no requests, and are shared by all values of their kind, which are
//! given to them by turns. In a child after `fork` there are none: sections run in place there until [`start`].

use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::{Mutex, Once, PoisonError};
use std::{ptr, thread};

use lockwork_locks::delegation::served::Manner;
use lockwork_locks::delegation::{Delegate, Server};
use lockwork_platform::Native;

pub use lockwork_locks::delegation::Measures;

/// Servers of each kind, at most.
const MOST: usize = 64;

/// The servers of a kind, in the order in which they were made. Read by a child of `fork` without a lock.
type Row = [AtomicPtr<Server<Native>>; MOST];

static RCL: Row = [const { AtomicPtr::new(ptr::null_mut()) }; MOST];
static FFWD: Row = [const { AtomicPtr::new(ptr::null_mut()) }; MOST];

/// Held while servers are made and given; the values that have been given one, of each kind.
static GIVEN: Mutex<[usize; 2]> = Mutex::new([0; 2]);

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> i32;
}

unsafe extern "C" fn in_child() {
    for server in all() {
        // SAFETY: a child of `fork` has one thread.
        unsafe { server.after_fork() };
    }
}

fn row(manner: Manner) -> (&'static Row, usize) {
    match manner {
        Manner::Rcl => (&RCL, 0),
        Manner::Ffwd => (&FFWD, 1),
    }
}

fn all() -> impl Iterator<Item = &'static Server<Native>> {
    // ORDER: made by this thread, or before a lock that it took, or before `fork`.
    let at = |server: &'static AtomicPtr<Server<Native>>| server.load(Relaxed);
    // SAFETY: null or a server, which is never freed.
    RCL.iter().chain(&FFWD).filter_map(move |server| unsafe { at(server).as_ref() })
}

/// A thread that serves.
fn hire(server: &'static Server<Native>, turn: u32) -> bool {
    thread::Builder::new().name("lockwork-serve".into()).spawn(move || server.serve(turn)).is_ok()
}

/// Gives a delegate its server, if it needs one. Where no thread is to be had its sections run in place.
pub(crate) fn give<D: Delegate<Native> + ?Sized>(delegate: &D) {
    let Some(seat) = delegate.seat() else { return };
    static AT_FORK: Once = Once::new();
    AT_FORK.call_once(|| {
        // SAFETY: handlers for the life of the process.
        unsafe { pthread_atfork(None, None, Some(in_child)) };
    });
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let (row, index) = row(seat.manner);
    let place = &row[given[index] % (seat.servers as usize).min(MOST)];
    given[index] += 1;
    if place.load(Relaxed).is_null() {
        place.store(Box::leak(Box::new(Server::new(seat.manner, hire))), Relaxed); // ORDER: under GIVEN.
    }
    // SAFETY: never freed.
    let server = unsafe { &*place.load(Relaxed) };
    server.start();
    seat.give(server);
}

/// Starts the servers that do not run, as after [`stop`] or in a child of `fork`. Returns whether all run.
pub fn start() -> bool {
    let _given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Each is started, also behind one that was not.
    all().filter(|server| !server.start()).count() == 0
}

/// Stops all servers. Sections that have been requested run; later ones run in place.
pub fn stop() {
    let _given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    all().for_each(Server::stop);
}

/// What each server has done since it was made, those of `rcl` first.
#[must_use]
pub fn measures() -> Vec<Measures> {
    let _given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    all().map(Server::measures).collect()
}
