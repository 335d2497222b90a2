//! A delegate whose sections a server runs.

use core::sync::atomic::Ordering::Relaxed;
use core::{fmt, ptr};

use lockwork_platform::{AtomicCell, Platform};

use super::super::lines::Line;
use super::super::{
    Attempt, Delegate, Section, acquire_inside, known_by, release_held, run_inside, try_run_inside,
};
use super::{Lock, Manner, SERVED, Server};
use crate::api::{Apart, Held, RawLock};
use crate::knobs::Knobs;
use crate::wait::Wait;

/// A delegate whose sections a server runs, or, while it has none that serves, its requesters.
#[repr(C)]
#[derive(Debug)]
pub struct Served<P: Platform, const FFWD: bool> {
    /// Held while a section runs (I1). First: servers know the delegate by its address.
    lock: Lock<P>,
    /// Requesters read this: it is apart from the lock, which the server writes at every request.
    place: Apart<Place<P>>,
}

/// Where the sections of a delegate run.
struct Place<P: Platform> {
    /// Servers that the delegate is to be distributed over, as its spec says; 0 = 1.
    servers: P::U32,
    /// Which of them, from 1; 0 = by turns.
    number: P::U32,
    /// Of the servers' threads; 0 = none.
    priority: P::U32,
    server: P::Ptr<Server<P>>,
}

impl<P: Platform> fmt::Debug for Place<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("server", &self.server.load(Relaxed)).finish_non_exhaustive()
    }
}

/// The place of a server in a delegate that needs one.
#[derive(Debug)]
pub struct Seat<'a, P: Platform> {
    server: &'a P::Ptr<Server<P>>,
    /// How the server is to work.
    pub manner: Manner,
    /// Over how many servers the delegates of this kind are to be distributed.
    pub servers: u32,
    /// Which server it is to be, from 1, if the spec says so.
    pub number: Option<u32>,
    /// The real-time priority of the server's threads, if the spec says one.
    pub priority: Option<u32>,
}

impl<P: Platform> Seat<'_, P> {
    /// Has `server` run the sections from now on. Before the delegate is shared.
    pub fn give(&self, server: &'static Server<P>) {
        // ORDER: before the delegate is shared, which orders this.
        self.server.store(ptr::from_ref(server).cast_mut(), Relaxed);
    }
}

impl<P: Platform, const FFWD: bool> Served<P, FFWD> {
    const MANNER: Manner = if FFWD { Manner::Ffwd } else { Manner::Rcl };

    unsafe fn run_in_place(&self, section: Section) {
        // SAFETY: I1, and the caller's contract.
        unsafe { run_inside::<P, _>(&self.lock, section) };
    }

    fn server(&self) -> Option<&'static Server<P>> {
        // SAFETY: null, or given by `Seat::give`, before the delegate was shared.
        unsafe { self.place.0.server.load(Relaxed).as_ref() }
    }

    /// Leaves a request with the server, and waits for the answer.
    unsafe fn request(&self, server: &'static Server<P>, line: &Line<P>, section: Section) {
        let target = ptr::from_ref(&self.lock).expose_provenance();
        // SAFETY: the calling thread's line, and it waits below.
        unsafe { line.request_for(section, target) };
        let mut before = None;
        let looks_lost = || {
            let now = (server.turn(), server.counts.0[SERVED].load(Relaxed));
            let is_stuck = before.replace(now) == Some(now);
            !server.is_running() || is_stuck && !server.goes_on(now.0, self.lock.is_locked())
        };
        let is_served = (server.rouse() || !server.withdraws(line)) && server.waits(line, looks_lost);
        if !is_served {
            // SAFETY: nobody has run it, and nobody will: it was taken back (I3, I4).
            unsafe { self.run_in_place(section) };
        }
    }
}

// SAFETY: I1: sections run under `lock`, each by the one thread that took it or whose it is; E1 and the lines' edges.
unsafe impl<P: Platform, const FFWD: bool> Delegate<P> for Served<P, FFWD> {
    fn new() -> Self {
        let none = || P::U32::new(0);
        let place =
            Place { servers: none(), number: none(), priority: none(), server: P::Ptr::new(ptr::null_mut()) };
        Self { lock: Lock::new(), place: Apart(place) }
    }

    fn configure(&self, knobs: &Knobs) {
        // ORDER: before the first use.
        self.place.0.servers.store(knobs.servers.unwrap_or(0), Relaxed);
        self.place.0.number.store(knobs.server.unwrap_or(0), Relaxed);
        self.place.0.priority.store(knobs.priority.unwrap_or(0), Relaxed);
    }

    fn seat(&self) -> Option<Seat<'_, P>> {
        let place = &self.place.0;
        let given = |knob: &P::U32| Some(knob.load(Relaxed)).filter(|value| *value > 0);
        Some(Seat {
            server: &place.server,
            manner: Self::MANNER,
            servers: given(&place.servers).unwrap_or(1),
            number: given(&place.number),
            priority: given(&place.priority),
        })
    }

    unsafe fn execute(&self, section: Section) {
        let server = self.server().filter(|server| server.is_running());
        let takes_requests = |line: &&Line<P>| !line.is_left_over() && !line.is_of_server();
        let line = |server: &'static Server<P>| server.lines.own().filter(takes_requests);
        match server.and_then(|server| Some((server, line(server)?))) {
            Some((server, line)) => {
                Wait::run::<P, _>(known_by(self), None, |_| {
                    // SAFETY: the caller's contract.
                    unsafe { self.request(server, line, section) };
                });
            }
            // SAFETY: as above.
            None => unsafe { self.run_in_place(section) },
        }
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        // SAFETY: I1, and the caller's contract.
        unsafe { try_run_inside::<P, _>(&self.lock, section) }
    }

    unsafe fn execute_nested(&self, section: Section) {
        // SAFETY: the caller's contract.
        unsafe { self.run_in_place(section) };
    }

    fn acquire(&self) -> Option<Held> {
        Some(acquire_inside::<P, _>(&self.lock))
    }

    fn try_acquire(&self) -> Attempt {
        Attempt::by::<P, _>(self.lock.try_lock())
    }

    unsafe fn release(&self, held: Held) {
        // SAFETY: the caller's contract.
        unsafe { release_held::<P, _>(&self.lock, held) };
    }

    fn is_busy(&self) -> bool {
        self.lock.is_locked()
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.lock.dispose() };
    }
}
