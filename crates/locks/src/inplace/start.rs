//! The one thread that initialises a library whose functions may be called by any thread, before any constructor and after `fork`.
//!
//! The first thread that needs the library initialises it; threads that come meanwhile wait. Own work; std's `Once` cannot be
//! used where its waiters may be threads of the parent of a `fork`.
//!
//! # State
//!
//! One word: 0, nobody has begun; the id of the thread that initialises; or [`DONE`] and above, what it came to.
//!
//! # Invariants
//!
//! - I1: at most one thread that exists initialises: the word names it, and only a thread that does not exist is replaced.
//!   The child of a `fork` finds there the id of a thread of its parent: then its own thread begins anew. What the ghost had
//!   done is in the child's memory, complete or not, so the initialisation must bear to be done again.
//! - I2: a thread that is initialising, and needs the library for it (an allocator of the program's that the dynamic linker
//!   calls), does not wait for itself.
//!
//! # Ordering
//!
//! - E1: [`finish`] (Release) → [`done`] and [`enter`] (Acquire): what the initialisation wrote.
//! - The replacement of a ghost needs no order: `fork` gave the child a copy of all that the ghost had written.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Platform};

/// The smallest result of an initialisation. Ids of threads are smaller.
pub const DONE: u32 = 1 << 31;

const FRESH: u32 = 0;

/// What a thread has to do that needs the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Initialise it, and call [`finish`].
    Initialise,
    /// Nothing: it is initialised.
    Done(u32),
    /// Do without: it is initialising it.
    Within,
}

/// What the initialisation came to, if it has been done.
#[inline(always)]
pub fn done<P: Platform>(state: &P::U32) -> Option<u32> {
    // ORDER: E1.
    Some(state.load(Acquire)).filter(|&seen| seen >= DONE)
}

/// Called by the thread `me`, which needs the library. Waits while another thread that exists initialises it; `exists` says
/// whether a thread with this id does.
pub fn enter<P: Platform>(state: &P::U32, me: u32, exists: impl Fn(u32) -> bool) -> Entry {
    let mut seen = state.load(Acquire);
    loop {
        if seen >= DONE {
            return Entry::Done(seen);
        }
        if seen == me {
            return Entry::Within;
        }
        if seen == FRESH || !exists(seen) {
            // ORDER: Acquire on failure is E1: another thread may have been faster, and be through. Success reads nothing that
            // a thread that exists has published.
            match state.compare_exchange(seen, me, Relaxed, Acquire) {
                Ok(_) => return Entry::Initialise,
                Err(there) => seen = there,
            }
            continue;
        }
        P::yield_now();
        seen = state.load(Acquire);
    }
}

/// Called by the thread that was told to initialise, when it has: `result` is [`DONE`] or above.
pub fn finish<P: Platform>(state: &P::U32, result: u32) {
    debug_assert!(result >= DONE);
    // ORDER: E1.
    state.store(result, Release);
}
