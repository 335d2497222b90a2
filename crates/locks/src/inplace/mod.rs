//! How a lock lives in the bytes of a foreign type, such as `pthread_mutex_t`.
//!
//! All-zero memory is an unlocked lock of every kind, so a lock can be laid over a foreign object that a static
//! initialiser zeroed. The foreign type says where its parts are ([`MutexPlace`], [`RwPlace`]); this module makes the
//! functions that serve such an object with one lock each ([`mutex::Operations`], [`rwlock::Operations`]). Which object is
//! served by which lock is the caller's business: a tag in the object, or its type.
//!
//! # Invariants
//!
//! - I1: an object is served by one lock from its first use to its disposal: the bytes of the lock have one type.
//! - I2: the token word is 0 unless the lock is held by a token that has to be kept (`Token::STORED`), or the state of a
//!   restriction lives there, whose lock keeps no token. Only the holder writes a token.

use lockwork_platform::{Cells, Cpu, Native};

use crate::restrict::gcr;

pub mod mutex;
pub mod rwlock;
pub mod start;

/// A word of a foreign object.
type Word = <Native as Cells>::Usize;

/// Whether a lock that is about to be destroyed stays locked, as `looks_locked` sees it: then a thread of the program has it.
///
/// A thread that comes late to a state which has gone to this lock may acquire in it before it finds that the state is not its
/// own lock's any more. It lets go of it at once, unless it loses its CPU.
pub fn stays_locked(looks_locked: impl Fn() -> bool) -> bool {
    const LOOKS: u32 = 64;
    (0..LOOKS).all(|look| {
        if look > 0 {
            Native::yield_now();
        }
        looks_locked()
    })
}

/// Where a foreign type keeps the parts of a mutex: offsets in bytes, each of a multiple of eight.
#[derive(Clone, Copy, Debug)]
pub struct MutexLayout {
    /// The lock.
    pub lock: usize,
    /// How many bytes there are for it.
    pub room: usize,
    /// The holder's token: a word.
    pub token: usize,
    /// The state of a restriction (`gcr(…)`): a word, unless it has to share one: then it takes the second word of the
    /// lock's room, or the token's word, whichever the lock inside leaves free.
    pub state: Option<usize>,
}

impl MutexLayout {
    /// Where the state of a restriction around a lock of `size` bytes is, which keeps a token or not.
    #[must_use]
    pub const fn state_of(&self, size: usize, keeps_token: bool) -> Option<usize> {
        match self.state {
            Some(state) => Some(state),
            None if size <= size_of::<Word>() && self.room >= 2 * size_of::<Word>() => {
                Some(self.lock + size_of::<Word>())
            }
            None if !keeps_token => Some(self.token),
            None => None,
        }
    }
}

/// A foreign type in whose bytes a mutex lives.
///
/// # Safety
///
/// The parts that [`MutexPlace::LAYOUT`] names lie inside the type, do not overlap, and are aligned to words. From when an
/// object is initialised, to all zero, until its lock is disposed of, nobody else accesses them.
pub unsafe trait MutexPlace: Sized {
    /// Where the parts are.
    const LAYOUT: MutexLayout;

    /// The settings of the restriction around this object's lock.
    fn knobs(&self) -> &gcr::Knobs;
}

/// A foreign type in whose bytes a reader-writer lock lives.
///
/// # Safety
///
/// As [`MutexPlace`]: `ROOM` bytes from `LOCK` on.
pub unsafe trait RwPlace: Sized {
    /// Where the lock is: an offset in bytes, a multiple of eight.
    const LOCK: usize;
    /// How many bytes there are for it.
    const ROOM: usize;
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    #[test]
    fn a_lock_that_a_late_thread_lets_go_of_does_not_stay_locked() {
        let looks = Cell::new(0);
        let until = |free| {
            looks.set(0);
            stays_locked(|| {
                looks.set(looks.get() + 1);
                looks.get() < free
            })
        };
        assert!(!until(1) && looks.get() == 1);
        assert!(!until(5) && looks.get() == 5);
        assert!(until(u32::MAX));
    }
}
