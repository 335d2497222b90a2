//! The servers of this process: threads that run the sections of [`Rcl`](crate::delegates::Rcl) and
//! [`Ffwd`](crate::delegates::Ffwd) values.
//!
//! They start with the first such value, sleep while there are no requests, and are shared by all values of their kind, which are
//! given to them by turns or by number (`rcl(servers=2)`, `rcl(server=2)`). Those with a real-time priority
//! (`rcl(priority=10)`) are others than those without. A process whose main thread has ended by `pthread_exit` does not go on for them:
//! they stop when no other thread is left. In a child after `fork` there are none: sections run in place there until [`start`].

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use std::{ptr, thread};

use lockwork_locks::delegation::served::Manner;
use lockwork_locks::delegation::{Delegate, Seat, Server};
use lockwork_platform::{Native, Sched, barrier, sys, waiters};

pub use lockwork_locks::delegation::Measures;

use crate::last::{self, Serving};
use crate::threads;

/// Servers of a row, at most.
const MOST: usize = 64;

/// The servers of a kind, by their numbers. No lock: a thread that held it may be gone in a child of `fork`.
type Row = [AtomicPtr<Server<Native>>; MOST];

/// RCL's and ffwd's, without and with a real-time priority.
static ROWS: [Row; 4] = [const { [const { AtomicPtr::new(ptr::null_mut()) }; MOST] }; 4];

/// The values of each row that have been given one by turns.
static GIVEN: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> i32;
}

unsafe extern "C" fn in_child() {
    // First: it tells which requests are those of threads that are gone.
    waiters::new_generation();
    for server in all() {
        // SAFETY: a child of `fork` has one thread.
        unsafe { server.after_fork() };
    }
    last::after_fork();
}

/// The row of servers that are like this.
fn row(seat: &Seat<'_, Native>) -> usize {
    2 * usize::from(seat.manner == Manner::Ffwd) + usize::from(seat.priority.is_some())
}

fn all() -> impl Iterator<Item = &'static Server<Native>> {
    // SAFETY: null or a server, which is never freed. ORDER: published by `made`.
    ROWS.iter().flatten().filter_map(|place| unsafe { place.load(Acquire).as_ref() })
}

/// A thread that serves.
fn hire(server: &'static Server<Native>, turn: u32) -> bool {
    let serve = move || {
        let _serving = Serving::begin();
        // What may not be had is refused where the spec is read; a process that has given up the right since does without.
        let _ = server.priority() == 0 || sys::set_fifo_priority(server.priority());
        server.serve(turn);
    };
    threads::start(serve)
}

/// Why this process cannot have the servers that a delegate asks for, if so; `spec` is how it asks.
pub(crate) fn refused(seat: &Seat<'_, Native>, spec: &str) -> Option<String> {
    let cpus = Native::parallelism();
    let wanted = seat.number.unwrap_or(seat.servers);
    if wanted as usize > cpus {
        let what =
            if seat.number.is_some() { format!("server {wanted}") } else { format!("{wanted} servers") };
        return Some(format!(
            "`{spec}` asks for {what}, and this process has {cpus} CPUs: each server wants one"
        ));
    }
    let priority = seat.priority?;
    // In a thread of its own: the calling one keeps its priority.
    let outcome = thread::Builder::new().spawn(move || sys::set_fifo_priority(priority)).ok()?.join();
    (outcome.ok() == Some(false)).then(|| {
        format!(
            "`{spec}` asks for a real-time priority, which this process may not have: allow it (`ulimit -r {priority}`, or \
             CAP_SYS_NICE), or leave `priority` out"
        )
    })
}

/// Gives a delegate what it needs of the process: the kernel's barrier, without which each request fences, and a server, if it is
/// of a kind that has one. Where no thread is to be had its sections run in place.
pub(crate) fn give<D: Delegate<Native> + ?Sized>(delegate: &D) {
    barrier::prepare_once();
    notice_forks();
    let Some(seat) = delegate.seat() else { return };
    last::notice_the_end();
    let row = row(&seat);
    let number = seat.number.map_or_else(
        || GIVEN[row].fetch_add(1, Relaxed) % seat.servers as usize,
        |number| number as usize - 1,
    );
    let server = made(&ROWS[row][number % MOST], &seat);
    server.start();
    seat.give(server);
}

/// The server of this place; one such as the seat is of, if there is none. Threads that come at once agree on one.
fn made(place: &AtomicPtr<Server<Native>>, seat: &Seat<'_, Native>) -> &'static Server<Native> {
    // SAFETY: null or a server, which is never freed. ORDER: as below.
    if let Some(server) = unsafe { place.load(Acquire).as_ref() } {
        return server;
    }
    let fresh = Box::into_raw(Box::new(Server::with_priority(seat.manner, seat.priority.unwrap_or(0), hire)));
    // ORDER: what has been made, both ways.
    let server = match place.compare_exchange(ptr::null_mut(), fresh, Release, Acquire) {
        Ok(_) => fresh,
        Err(there) => {
            // SAFETY: made above, and nobody knows of it.
            drop(unsafe { Box::from_raw(fresh) });
            there
        }
    };
    // SAFETY: never freed.
    unsafe { &*server }
}

/// Has children of `fork` look after delegates. Threads that come at once may each register the handler, which may run twice.
fn notice_forks() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    if !IS_REGISTERED.load(Relaxed) {
        // SAFETY: a handler for the life of the process.
        unsafe { pthread_atfork(None, None, Some(in_child)) };
        IS_REGISTERED.store(true, Relaxed);
    }
}

/// Starts the servers that do not run, as after [`stop`] or in a child of `fork`. Returns whether all run.
pub fn start() -> bool {
    // Each is started, also behind one that was not.
    all().filter(|server| !server.start()).count() == 0
}

/// Stops all servers. Sections that have been requested run; later ones run in place.
pub fn stop() {
    all().for_each(Server::stop);
}

/// What each server has done since it was made, those of `rcl` first.
#[must_use]
pub fn measures() -> Vec<Measures> {
    all().map(Server::measures).collect()
}
