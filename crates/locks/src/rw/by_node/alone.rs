//! A lock that has had one thread only: its word is the lock. State, invariants (I) and ordering edges (E) are those of
//! [`by_node`](super), and:
//!
//! # State
//!
//! The word while it names no state:
//!
//! | bits  | name     | meaning                                                       |
//! |-------|----------|---------------------------------------------------------------|
//! | 0     | `ALONE`  | it names none; so does 0, of a lock that nobody has used yet  |
//! | 1     | `WRITER` | a writer has the lock                                         |
//! | 2–31  | count    | readers that have it                                          |
//! | 32–63 | thread   | who came first                                                |
//!
//! # Invariants
//!
//! - A1: of the writer and readers that the word says, the lock's holders are all there are. Any thread may change them; that it is but one
//!   is a matter of speed. Nobody waits for the word to change.
//! - A2: a thread that is not the one in the word, or cannot have the lock at once, or has too many readers before it, moves the
//!   lock to a state: one in which the same threads hold it. A writer holds the writers' lock of that, and has barred all nodes;
//!   readers are counted by `remaining`. The CAS that publishes the state finds the word as it was when it was copied.
//! - A3: a word that names a state names one for ever, though not the lock's own for ever. So a look at the word that finds a state
//!   is enough for all that follows.
//! - A4: a thread that releases looks at the word, and releases where the lock is now.
//!
//! # Ordering
//!
//! - A-E1: a release in the word (Release) → the acquisition in the word (Acquire), or, through the CAS that publishes the state, the
//!   load that finds that (Acquire): the section. The word changes by CASes only.
//! - A-E2: the CAS that publishes the state (Release) → the load that finds it, also that of a release (Acquire): the state as it was
//!   made.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, Platform, PooledState};

use super::shared::{self, Shared};
use super::{ByNode, Rule};
use crate::hierarchical::part::LocalLock;
use crate::state::{NotPublished, State};
use crate::wait::patiently;

const ALONE: usize = 1;
/// A writer has the lock.
pub(super) const WRITER: usize = 2;
/// One reader.
pub(super) const READER: usize = 4;
const THREAD_SHIFT: u32 = 32;
const READERS: usize = (1 << THREAD_SHIFT) - READER;
/// There are 2^26 readers: more than one thread should have.
const MANY: usize = READER << 26;

/// Whether the word of a lock is the lock.
#[inline(always)]
fn is_alone<T>(word: *mut T) -> bool {
    word.is_null() || word.addr() & ALONE != 0
}

/// The word as the calling thread's, unless it is another's.
#[inline(always)]
fn mine<P: Platform>(word: usize) -> Option<usize> {
    let thread = P::scheduling_id() as usize;
    match word {
        0 => Some(thread << THREAD_SHIFT | ALONE),
        _ => (word >> THREAD_SHIFT == thread).then_some(word),
    }
}

impl<P: Platform, M: LocalLock<P>, R: Rule> ByNode<P, M, R> {
    /// Whether the lock's word is the lock.
    #[inline(always)]
    pub(super) fn is_one_word(&self) -> bool {
        R::ALONE && is_alone(self.shared.word().load(Relaxed))
    }

    /// Acquires in the word, which was `seen`, where `others` do not have the lock. If not, the lock has a state when this returns.
    #[inline(always)]
    fn acquire_alone(&self, seen: *mut Shared<P, M>, others: usize, holder: usize) -> bool {
        if let Some(free) = mine::<P>(seen.addr())
            && free & others == 0
            // ORDER: Acquire is A-E1.
            && self.shared.word().compare_exchange(seen, word(free + holder), Acquire, Relaxed).is_ok()
        {
            return true;
        }
        self.move_on();
        false
    }

    /// Acquires for reading in the word, or returns the state in which to.
    #[inline(always)]
    pub(super) fn read_alone_or_peek(&self) -> Option<&Shared<P, M>> {
        if !R::ALONE {
            return Some(self.shared.peek_or_make());
        }
        // ORDER: Acquire is A-E2.
        let seen = self.shared.word().load(Acquire);
        if !is_alone(seen) {
            Some(self.shared.see_or_make(seen))
        } else if self.acquire_alone(seen, WRITER | MANY, READER) {
            None
        } else {
            Some(self.shared.peek_or_make())
        }
    }

    /// Acquires for writing in the word, or moves the lock to a state, if it has none.
    #[inline(always)]
    pub(super) fn write_alone(&self) -> bool {
        if !R::ALONE {
            return false;
        }
        let seen = self.shared.word().load(Relaxed);
        is_alone(seen) && self.acquire_alone(seen, WRITER | READERS, WRITER)
    }

    /// Takes `holder` off the word, or, if the lock has moved, returns the state in which that is one.
    ///
    /// # Safety
    ///
    /// The caller has the lock so.
    #[inline(always)]
    pub(super) unsafe fn leave_alone(&self, holder: usize) -> Option<&Shared<P, M>> {
        if !R::ALONE {
            // SAFETY: the caller's contract.
            return Some(unsafe { self.shared.used() });
        }
        // ORDER: Acquire is A-E2.
        let mut seen = self.shared.word().load(Acquire);
        while is_alone(seen) {
            let left = word(seen.addr().wrapping_sub(holder));
            // ORDER: Release is A-E1, Acquire is A-E2. A4.
            match self.shared.word().compare_exchange(seen, left, Release, Acquire) {
                Ok(_) => return None,
                Err(now) => seen = now,
            }
        }
        // SAFETY: A3: the state in which the caller has the lock.
        Some(unsafe { self.shared.used() })
    }

    /// Whether somebody has the lock; `None`: the lock has moved.
    pub(super) fn is_locked_alone(&self) -> Option<bool> {
        let seen = self.shared.word().load(Relaxed);
        (R::ALONE && is_alone(seen)).then(|| seen.addr() & (WRITER | READERS) != 0)
    }

    /// Moves the lock to a state, if it has none.
    #[cold]
    #[inline(never)]
    fn move_on(&self) {
        P::until_there_is_memory(|| {
            loop {
                let seen = self.shared.word().load(Relaxed);
                if !is_alone(seen) {
                    return Some(());
                }
                // A child of `fork` would find the state reserved for ever: a fork waits.
                let founded = P::in_steps(|| {
                    let founded = self.shared.found(
                        &Shared::prepare,
                        |state| take_in(state, seen.addr()),
                        // ORDER: A-E2; it continues the release sequences of A-E1. A2.
                        |fresh| self.shared.word().compare_exchange(seen, fresh, Release, Relaxed).is_ok(),
                        |state, token| turn_out(state, seen.addr(), token),
                    );
                    founded.map(|state| state.claim().leave())
                });
                match founded {
                    Ok(()) => return Some(()),
                    Err(NotPublished::NoMemory) => return None,
                    Err(NotPublished::WordChanged) => {}
                }
            }
        });
    }
}

fn word<T>(bits: usize) -> *mut T {
    ptr::without_provenance_mut(bits)
}

/// The readers that a word counts, in the units of `remaining`.
fn readers(word: usize) -> u32 {
    ((word & READERS) / READER) as u32 * shared::READER
}

/// Makes those who have the lock by its word have it in a state that is not published yet. Returns what the writer has by way of a token.
fn take_in<P: Platform, M: LocalLock<P>>(state: &Shared<P, M>, word: usize) -> usize {
    if word & WRITER == 0 {
        // ORDER: Relaxed: published by A-E2.
        state.remaining.fetch_add(readers(word), Relaxed);
        return 0;
    }
    // Threads may be there that have come too late to the lock that had the state before. They leave at once.
    patiently::<P, _>(|| state.close())
}

/// Undoes [`take_in`].
fn turn_out<P: Platform, M: LocalLock<P>>(state: &Shared<P, M>, word: usize, token: usize) {
    if word & WRITER == 0 {
        state.remaining.fetch_sub(readers(word), Relaxed);
    } else {
        state.open(token);
    }
}
