//! The hand-off word: one futex word per waiter, on which it is granted what it waits for.
//!
//! # The word
//!
//! | value       | meaning                                              | who moves it there         |
//! |-------------|------------------------------------------------------|----------------------------|
//! | `WAITING`   | the owner of the word waits, awake                   | the owner, before publishing |
//! | `PARKED`    | the owner sleeps, or is about to                     | the owner                  |
//! | `GRANTED`   | what the owner waited for is the owner's             | the granter, once          |
//! | `ABANDONED` | the owner gave up at its deadline                    | the owner                  |
//!
//! With `ABANDONED` goes the number of a bookmark (`platform::bookmarks`), in the bits above, by which the owner may find the
//! word again; 0 = none.
//!
//! # Invariants
//!
//! - I1: only the granter writes `GRANTED`, by [`grant`], and only once per wait.
//! - I2: an owner that gave up touches the word again only after it has closed the bookmark whose number it left there. Whoever
//!   wants the word moves it on first, by [`grant`] or [`claim`], and then finds the bookmark open or closed. Open: the word
//!   belongs to that thread from then on. Closed: the owner is back, and finds what was made of the word. Without a bookmark, the
//!   word belongs to the thread that moved it. So a thread that has only read the word takes nothing: it may say later what it
//!   said before, of another time that the owner gave up.
//! - I3: a waiter that sleeps has moved the word to `PARKED` first, so a granter that finds anything else need not wake.
//!
//! # Ordering
//!
//! - E1: the swap in [`grant`] (Release) → the load or failed CAS of the waiter that sees `GRANTED` (Acquire):
//!   publishes everything the granter did before it granted.
//! - E2: the CAS to `ABANDONED` (Release) → the swap in [`grant`] that returns it, or the CAS in [`claim`] (Acquire): the
//!   waiter's accesses to its node come before the granter's re-use of it, and the opening of the bookmark before its look.

use core::num::NonZeroU32;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::bookmarks::Bookmark;
use lockwork_platform::{AtomicCell, FutexCell, Platform, TimedOut};

use super::Wait;

/// The owner of the word waits, awake.
pub const WAITING: u32 = 0;
/// The owner of the word sleeps, or is about to.
pub const PARKED: u32 = 1;
/// What the owner waited for is the owner's.
pub const GRANTED: u32 = 2;
/// The owner gave up; with the number of its bookmark in the bits above.
pub const ABANDONED: u32 = 3;
/// The bits that are the state.
const STATE_BITS: u32 = 2;

/// Whether a word says that its owner gave up.
#[inline]
pub(crate) fn is_abandoned(word: u32) -> bool {
    word & ((1 << STATE_BITS) - 1) == ABANDONED
}

/// The bookmark of a word that says so.
fn bookmark_in(word: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(word >> STATE_BITS)
}

/// What `wait` leaves in a word.
fn abandoned_by(wait: &Wait) -> u32 {
    wait.bookmark.map_or(0, NonZeroU32::get) << STATE_BITS | ABANDONED
}

/// What became of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The waiter has it.
    Accepted,
    /// The waiter had given up; the word (and its node) belongs to the granter now.
    Abandoned,
}

/// Grants the word's owner what it waits for, and wakes it if it sleeps. After `Accepted` the
/// caller must not touch the word's memory: the owner may have recycled it.
pub fn grant<P: Platform>(word: &P::Futex) -> Grant {
    let address = ptr::from_ref(word);
    // ORDER: Release is E1. Acquire is E2. One RMW decides between grant, sleep and abandonment.
    match word.swap(GRANTED, AcqRel) {
        PARKED => {
            // SAFETY: the word was alive at the swap; a wake that comes late hits recycled pool memory and is spurious.
            unsafe { FutexCell::wake(address, 1) };
            Grant::Accepted
        }
        seen if is_abandoned(seen) => grant_abandoned::<P>(seen),
        _ => Grant::Accepted,
    }
}

/// Whether a word that said `seen`, and that the caller has changed since, is the caller's: its owner gave up, and has not come
/// back.
pub(crate) fn is_left<P: Platform>(seen: u32) -> bool {
    is_abandoned(seen) && grant_abandoned::<P>(seen) == Grant::Abandoned
}

/// [`grant`], on a word that said `seen`: the owner gave up, but may be back.
#[cold]
fn grant_abandoned<P: Platform>(seen: u32) -> Grant {
    // I2. The bookmark is there whatever becomes of the word.
    match bookmark_in(seen) {
        Some(mark) if !P::bookmark(mark, Bookmark::visit) => Grant::Accepted,
        _ => Grant::Abandoned,
    }
}

/// Whether the owner of a word, which the caller may take out of its queue, has given up: then the word belongs to the caller.
/// An owner that is about to come back has not given up.
pub(crate) fn has_given_up<P: Platform>(word: &P::Futex) -> bool {
    claim::<P>(word, word.load(Relaxed), WAITING)
}

/// [`has_given_up`], of a word that said `seen`. If its owner is about to come back, the word says `to`, as the owner would have
/// made it.
pub(crate) fn claim<P: Platform>(word: &P::Futex, seen: u32, to: u32) -> bool {
    is_abandoned(seen)
        // ORDER: Acquire is E2. Failure: the owner is back.
        && word.compare_exchange(seen, to, Acquire, Relaxed).is_ok()
        && grant_abandoned::<P>(seen) == Grant::Abandoned
}

/// Gives up waiting, unless the grant came first.
pub(crate) fn abandon<P: Platform>(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut> {
    let mut seen = word.load(Relaxed);
    let given_up = give_up::<P, _>(wait, |abandoned| {
        while seen != GRANTED {
            // ORDER: Release is E2. A failure needs nothing: a load follows a grant.
            match word.compare_exchange(seen, abandoned, Release, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    });
    if given_up {
        return Err(TimedOut);
    }
    // ORDER: what saw GRANTED may have been relaxed: E1.
    word.load(Acquire);
    Ok(())
}

/// Gives up by `attempt`, which is told what to write into the word, by a write that releases, and returns whether it did. (E2)
pub(crate) fn give_up<P: Platform, F: FnOnce(u32) -> bool>(wait: &Wait, attempt: F) -> bool {
    let Some(mark) = wait.bookmark else { return attempt(ABANDONED) };
    P::bookmark(mark, Bookmark::open);
    let given_up = attempt(abandoned_by(wait));
    if !given_up {
        P::bookmark(mark, Bookmark::close);
    }
    given_up
}

/// Takes a word up again, as `to`, whose owner gave up in a wait with this bookmark and has closed it since (I2). What the word
/// says otherwise: what has been made of it meanwhile, by a thread that visits the bookmark once more.
pub(crate) fn take_up(word: &impl AtomicCell<u32>, wait: &Wait, to: u32) -> Result<(), u32> {
    // ORDER: Acquire on failure is E1. Success publishes nothing: what was written to the node stays as it was.
    word.compare_exchange(abandoned_by(wait), to, Relaxed, Acquire).map(drop)
}

/// Sleeps until granted, or abandons the word at the deadline.
pub(crate) fn park<P: Platform>(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut> {
    // ORDER: Acquire on failure is E1. Success publishes nothing: the granter reads only the state.
    if word.compare_exchange(WAITING, PARKED, Relaxed, Acquire).is_err() {
        return Ok(()); // I1: only a grant can have come in between.
    }
    // I3: from here on the granter wakes us. ORDER: the Acquire loads are E1.
    while word.load(Acquire) != GRANTED {
        if word.wait(PARKED, wait.deadline).is_err() {
            return abandon::<P>(word, wait);
        }
    }
    Ok(())
}
