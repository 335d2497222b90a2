//! Which locks a thread has, or is about to have: a list in the thread's record, the latest last.
//!
//! The thread alone writes to its record, but a signal handler may interrupt it anywhere and use locks itself, on the same
//! record. Invariants:
//!
//! - The list's length grows before its new place is written and shrinks after, so that a handler works behind that place, and
//!   leaves the length as it found it.
//! - A place behind the list is as [`Held::clear`] leaves it, but for the word, the call and how it is held, which are
//!   written whenever it comes into use. So most acquisitions write three words and the length.
//! - While `busy` is 1 the thread writes to what is neither on the list nor its own place of it (its log, what it shows that it
//!   waits for), and a handler records nothing but calls that are jumped through.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::compiler_fence;

use super::{Call, Target};
use crate::format::{HELD, Held, Mode, Stage, Thread};

/// What the thread's library asks of it.
impl Thread {
    /// How the thread holds what it acquired last, or is about to acquire.
    #[must_use]
    pub fn last_mode(&self) -> Mode {
        self.top().map_or(Mode::Mutex, Held::mode)
    }

    /// The lock that the thread is about to acquire, and how; `None` if it has what it acquired last.
    #[must_use]
    pub fn wants(&self) -> Option<(usize, Mode)> {
        let held = self.top().filter(|held| held.stage() == Stage::About)?;
        Some((held.address() as usize, held.mode()))
    }

    /// Keeps a call for [`Thread::kept_call`].
    pub fn keep_call(&self, call: Call) {
        self.frame[0].store(call.caller as u64, Relaxed);
        self.frame[1].store(call.frame as u64, Relaxed);
    }

    /// The call that was kept last.
    #[must_use]
    pub fn kept_call(&self) -> Call {
        Call { caller: self.frame[0].load(Relaxed) as usize, frame: self.frame[1].load(Relaxed) as usize }
    }
}

/// The list.
impl Thread {
    /// The whole list.
    #[inline(always)]
    pub(super) fn list(&self) -> &[Held] {
        &self.held[..(self.held_count.load(Relaxed) as usize).min(HELD)]
    }

    /// The lock that the thread acquired last, or is about to acquire.
    #[inline(always)]
    pub(super) fn top(&self) -> Option<&Held> {
        let count = self.held_count.load(Relaxed) as usize;
        self.held.get(count.checked_sub(1)?)
    }

    /// The place of a lock that the thread has, the latest if it has it twice, as a reader may.
    pub(super) fn place_of(&self, address: u64) -> Option<usize> {
        self.list().iter().rposition(|held| held.address() == address && held.stage() != Stage::About)
    }

    /// Adds a lock to the list, at the place behind it. The list is longer from the first store on: a signal handler that
    /// acquires locks in the middle of this does so behind that place.
    #[inline(always)]
    pub(super) fn push(&self, held: &Held, count: usize, word: u64, call: Call) {
        self.held_count.store(count as u32 + 1, Relaxed);
        compiler_fence(SeqCst);
        held.word.store(word, Relaxed);
        held.caller.store(call.caller as u64, Relaxed);
        held.frame.store(call.frame as u64, Relaxed);
    }

    /// Removes a lock from the list.
    pub(super) fn remove(&self, place: usize) {
        let count = self.list().len();
        for place in place..count - 1 {
            self.held[place].copy(&self.held[place + 1]);
        }
        self.held[count - 1].clear();
        self.held_count.store(count as u32 - 1, Relaxed);
    }

    /// Forgets what the thread has, waits for and measures.
    pub(super) fn clear(&self) {
        self.held.iter().for_each(Held::clear);
        self.held_count.store(0, Relaxed);
        self.waiting_for.store(0, Relaxed);
        self.think_of.store(0, Relaxed);
        self.busy.store(0, Relaxed);
    }
}

impl Held {
    /// Whether a thread that has to wait now does so for this.
    pub(super) fn is_awaited(&self, target: Target) -> bool {
        self.stage() != Stage::Has
            && self.waited_since.load(Relaxed) == 0
            && self.address() == target.address as u64
    }

    /// The call that acquires it.
    pub(super) fn call(&self) -> Call {
        Call { caller: self.caller.load(Relaxed) as usize, frame: self.frame.load(Relaxed) as usize }
    }

    /// The thread has it.
    pub(super) fn has_it(&self) {
        self.how.store(Self::how(self.mode(), Stage::Has), Relaxed);
        self.word.store(self.address(), Relaxed);
    }

    fn clear(&self) {
        self.since.store(0, Relaxed);
        self.waited_since.store(0, Relaxed);
        self.stack.store(0, Relaxed);
        self.lock.store(0, Relaxed);
        self.weight.store(0, Relaxed);
        self.again.store(0, Relaxed);
        self.parked_us.store(0, Relaxed);
        self.watched_after.store(0, Relaxed);
        self.wait.store(0, Relaxed);
    }

    fn copy(&self, from: &Self) {
        for (to, from) in [
            (&self.word, &from.word),
            (&self.caller, &from.caller),
            (&self.frame, &from.frame),
            (&self.since, &from.since),
            (&self.waited_since, &from.waited_since),
        ] {
            to.store(from.load(Relaxed), Relaxed);
        }
        for (to, from) in [
            (&self.stack, &from.stack),
            (&self.lock, &from.lock),
            (&self.again, &from.again),
            (&self.parked_us, &from.parked_us),
            (&self.watched_after, &from.watched_after),
        ] {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.weight.store(from.weight.load(Relaxed), Relaxed);
        self.how.store(from.how.load(Relaxed), Relaxed);
        self.wait.store(from.wait.load(Relaxed), Relaxed);
    }
}
