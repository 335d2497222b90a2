//! Waiting. State, invariants (I) and ordering edges (E) are those of [`by_node`](super).

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use lockwork_platform::{AtomicCell, AtomicInt, Deadline, FutexCell, Platform, TimedOut};

use super::Rule;
use super::shared::{BARRED, HELD, IDLE, LIFTING, PARKED, READER, RESTING, Shared};
use crate::competitive::poll_steadily;
use crate::describe::Favour;
use crate::hierarchical::part::LocalLock;
use crate::wait::{
    GRANTED, PARKED as ASLEEP, Patience, ROUND_TRIPS, WAITING, Wait, poll_within, spin_with_room,
};

/// Bars that a reader sleeps behind before it goes through the writers' lock, where nobody may starve.
const MOST_BARS: u32 = 2;

/// A thread that may have to wait.
pub(super) struct SlowPath<'a, P: Platform, M: LocalLock<P>, R> {
    shared: &'a Shared<P, M>,
    /// What it is known to wait for.
    address: usize,
    rule: PhantomData<R>,
}

impl<'a, P: Platform, M: LocalLock<P>, R: Rule> SlowPath<'a, P, M, R> {
    pub(super) fn new(shared: &'a Shared<P, M>, address: usize) -> Self {
        Self { shared, address, rule: PhantomData }
    }

    /// Acquires for reading. A reader that `joins` passes a writer that waits for readers.
    #[cold]
    pub(super) fn read_slow(&self, deadline: Option<Deadline>, joins: bool) -> bool {
        Wait::run::<P, _>(self.address, deadline, |wait| {
            let word = self.shared.word_here();
            if R::PARKS {
                self.read_or_sleep(word, wait, joins)
            } else {
                self.read_or_spin(word, wait, joins)
            }
        })
    }

    /// Comes in if no writer is there, or beside readers that one waits for.
    fn enter(&self, word: &P::Futex, joins: bool) -> bool {
        self.shared.enter(word) || joins && self.shared.join()
    }

    fn read_or_spin(&self, word: &P::Futex, wait: &Wait, joins: bool) -> bool {
        let shared = self.shared;
        if R::FAVOUR != Favour::Neutral {
            return poll_steadily::<P>(wait.deadline, || self.enter(word, joins));
        }
        if joins {
            let mut entered = false;
            let is_settled = || {
                entered = self.enter(word, true);
                entered || shared.remaining.load(Relaxed) == 0 // I2: it is no reader.
            };
            if !poll_steadily::<P>(wait.deadline, is_settled) || entered {
                return entered;
            }
        }
        // The writer ahead in the queue comes first, and no other.
        let looks = || (word.load(Relaxed) & BARRED == 0).then_some(());
        poll_within::<P, _>(P::spin_budget(), looks);
        shared.enter(word) || self.read_in_turn(word, wait)
    }

    fn read_or_sleep(&self, word: &P::Futex, wait: &Wait, mut joins: bool) -> bool {
        // Nobody hands a reader anything, so it may give way: to whoever it waits for, or to others that wait. So it need not
        // look whether there is room; to sleep costs whoever lifts the bar a wake-up, at each write. But it would not see
        // its deadline while others run.
        let rounds = if wait.deadline.is_some() { 0 } else { ROUND_TRIPS };
        let mut patience = Patience::new::<P>();
        let (mut bars, mut spins) = (0, true);
        loop {
            let entered = if spins {
                let attempt = || self.enter(word, joins).then_some(());
                spin_with_room::<P, _>(rounds, wait.deadline, attempt, P::yield_now).is_some()
            } else {
                self.enter(word, joins)
            };
            if entered {
                // I7: if it found a bar when it was woken, others still sleep, or the flag is set though none does.
                if bars > 0 {
                    Self::wake_others(word);
                }
                return true;
            }
            if joins {
                // I2: while there are readers, a writer that bars them is about to wait for them, or to lift the bar
                // again: a thread that may be one of the readers must neither sleep nor queue. If there are no readers, it is none.
                if self.shared.remaining.load(Relaxed) != 0 {
                    if wait.is_over::<P>() {
                        return false;
                    }
                    patience.pause::<P>();
                    spins = false;
                    continue;
                }
                joins = false;
            } else if R::FAVOUR == Favour::Neutral && bars == MOST_BARS {
                return self.read_in_turn(word, wait);
            }
            if let Some(asleep) = Self::mark_asleep(word) {
                bars += 1;
                spins = true;
                let is_late = word.wait(asleep, wait.deadline).is_err();
                let entered = is_late && self.enter(word, joins);
                // I7.
                Self::wake_others(word);
                if is_late {
                    return entered;
                }
            }
        }
    }

    /// Notes on a node's word that somebody is about to sleep on it, if it is barred: what it says then.
    fn mark_asleep(word: &P::Futex) -> Option<u32> {
        let mut seen = word.load(Relaxed);
        while seen & (BARRED | PARKED) == BARRED {
            // ORDER: Relaxed: the flag publishes nothing.
            match word.compare_exchange(seen, seen | PARKED, Relaxed, Relaxed) {
                Ok(_) => seen |= PARKED,
                Err(now) => seen = now,
            }
        }
        (seen & BARRED != 0).then_some(seen)
    }

    /// Acquires for reading when the writers' lock comes to this thread: then nothing is barred (I1).
    fn read_in_turn(&self, word: &P::Futex, wait: &Wait) -> bool {
        let Some(token) = self.shared.writers.lock_with(wait) else { return false };
        // ORDER: Relaxed: E5 orders it.
        word.fetch_add(READER, Relaxed);
        Self::wake_others(word);
        // SAFETY: acquired above.
        unsafe { self.shared.writers.unlock(token) };
        true
    }

    /// Wakes the readers that sleep on a node's word, one of which was woken by whoever lifted the bar.
    fn wake_others(word: &P::Futex) {
        // ORDER: Relaxed: the flag publishes nothing.
        if word.load(Relaxed) & (PARKED | BARRED) == PARKED && word.fetch_and(!PARKED, Relaxed) & PARKED != 0
        {
            // SAFETY: a reader: the word is alive. I7.
            unsafe { FutexCell::wake(ptr::from_ref(word), u32::MAX) };
        }
    }

    /// Goes on to write, with the writers' lock acquired by waiting for it.
    pub(super) fn write_in_turn(&self, token: M::Token, deadline: Option<Deadline>) -> bool {
        let shared = self.shared;
        // I6. ORDER: Relaxed: E5.
        if shared.remaining.load(Relaxed) != 0 {
            return self.write(token, deadline);
        }
        // SAFETY: the writers' lock is held.
        unsafe { shared.note_token(token) };
        shared.phase.store(HELD, Relaxed);
        true
    }

    /// Goes on to write, with the writers' lock acquired, and hardly ever the bars.
    pub(super) fn write(&self, token: M::Token, deadline: Option<Deadline>) -> bool {
        let shared = self.shared;
        // SAFETY: the writers' lock is held.
        unsafe { shared.note_token(token) };
        if !self.end_rest() {
            let has_left = self.wait_for_readers(deadline).is_ok();
            if !has_left && !self.give_up(token) {
                return false;
            }
        }
        shared.phase.store(HELD, Relaxed);
        true
    }

    /// Goes on to write if there are no readers, with the writers' lock acquired while it was free.
    pub(super) fn try_write(&self, token: M::Token) -> bool {
        let shared = self.shared;
        // SAFETY: the writers' lock is held.
        unsafe { shared.note_token(token) };
        if !self.end_rest() && !self.give_up(token) {
            return false;
        }
        shared.phase.store(HELD, Relaxed);
        true
    }

    /// Bars all readers. Returns whether there are none.
    fn end_rest(&self) -> bool {
        let counted = self.shared.bar();
        // ORDER: E3.
        let rest = self.shared.remaining.load(Acquire);
        if rest == 0 {
            // I6: an attempt had to wait, too: a ticket may have been served a round earlier than it was drawn.
            return true;
        }
        // I3.
        if counted == 0 && rest == RESTING {
            // ORDER: Relaxed: nobody joins readers that there are none of.
            self.shared.remaining.store(0, Relaxed);
            return true;
        }
        let moved = counted.wrapping_sub(RESTING);
        // I3: the grant of the wait before has come.
        self.shared.turn.store(WAITING, Relaxed);
        // ORDER: E3, E4.
        self.shared.remaining.fetch_add(moved, AcqRel).wrapping_add(moved) == 0
    }

    /// Waits until the last reader grants the turn.
    fn wait_for_readers(&self, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        let turn = &self.shared.turn;
        // ORDER: E3.
        let granted = || turn.load(Acquire) == GRANTED;
        if !R::PARKS {
            return if poll_steadily::<P>(deadline, granted) { Ok(()) } else { Err(TimedOut) };
        }
        if spin_with_room::<P, _>(0, deadline, || granted().then_some(()), || ()).is_some() {
            return Ok(());
        }
        // ORDER: Relaxed: publishes nothing; what else the word may be is looked at below.
        let _ = turn.compare_exchange(WAITING, ASLEEP, Relaxed, Relaxed);
        while !granted() {
            turn.wait(ASLEEP, deadline)?;
        }
        Ok(())
    }

    /// Stops waiting for readers, unless they have left: whether they have.
    fn give_up(&self, token: M::Token) -> bool {
        let shared = self.shared;
        // ORDER: Relaxed: a child after `fork` is alone; to others it is a hint.
        shared.phase.store(LIFTING, Relaxed);
        // ORDER: Relaxed: as in `lift`.
        if shared.remaining.fetch_add(RESTING, Relaxed) == 0 {
            // I4.
            shared.remaining.fetch_sub(RESTING, Relaxed);
            shared.phase.store(IDLE, Relaxed);
            let _ = self.wait_for_readers(None);
            return true;
        }
        shared.lift_nodes();
        // SAFETY: acquired by the caller.
        unsafe { shared.writers.unlock(token) };
        false
    }
}
