//! When a bias that learns is on: where nobody writes for long. State, invariants (I) and ordering edges (E) are those of
//! [`bravo`](super).
//!
//! BRAVO's bias comes back when it has been off for nine times as long as its revocation took, whether or not there are writes. On a
//! lock that is written to all the time that costs a tenth, and each of its readers a note in its slot. A bias that learns rests
//! instead: readers are neither visible nor noted, and cost what they cost without a bias. It comes back after a period without
//! writes that is [`PAYS`] times as long as its last revocation took. So writes that come at random cost revocations a hundredth of
//! the time at most, and writes that come regularly one part in [`PAYS`].
//!
//! A bias that rests may be turned on only while there are no readers, for none of them is noted (I7). A reader that is about to
//! come in takes the lock inside for writing for that, if it can be had at once; others that are about to come in let it, for
//! the time of a few context switches at most.
//!
//! `unnoted`, while the bias rests:
//!
//! | bits | name    | meaning                                                                    |
//! |------|---------|----------------------------------------------------------------------------|
//! | 0–24 | length  | how long there have to be no writes, in units of 1,024 ns; 0 = not known    |
//! | 30   | `WROTE` | there was a write since `inhibited` was set                                  |
//! | 31   | `DUE`   | there was none until then: the next reader that comes in turns the bias on |

use core::sync::atomic::Ordering::{Relaxed, Release};

use lockwork_platform::{AtomicCell, Platform};

use super::{BEGINNING, Bravo, LONGEST_INHIBITION, OFF, ON, is_inhibited, units};
use crate::api::RawRwLock;
use crate::wait::{Patience, Wait, poll_within};

/// There was a write.
pub(super) const WROTE: u32 = 1 << 30;
/// The bias is to be turned on. No number of readers has this bit.
pub(super) const DUE: u32 = 1 << 31;
/// The rest.
const LENGTH: u32 = WROTE - 1;

/// How many times as long as a revocation takes there have to be no writes.
const PAYS: u64 = 32;
/// How long there have to be none at least, in the units of `inhibited`.
const SHORTEST: u32 = 128;
/// Context-switch round trips that a reader tries to turn the bias on for.
const TRIES: u32 = 2;
/// How often an attempt that can neither become visible nor come in looks whether it can, once the bias is on. The last looks yield.
const LOOKS: u32 = 10_000;
/// After how long the next one does if that was in vain, in the units of `inhibited`.
const RETRY: u32 = 2048;

impl<P: Platform, L: RawRwLock<P>, const LEARNS: bool> Bravo<P, L, LEARNS> {
    /// Whether no reader is visible or noted, and none will be until a thread has the lock inside for writing.
    #[inline(always)]
    pub(super) fn rests(&self) -> bool {
        LEARNS && self.is_off()
    }

    /// Whether there is nothing to revoke.
    #[inline(always)]
    pub(super) fn is_off(&self) -> bool {
        let bias = self.bias.load(Relaxed);
        bias == OFF || LEARNS && bias == BEGINNING
    }

    /// Notes a write, as a writer of a lock whose bias is off.
    #[inline(always)]
    pub(super) fn note_write(&self) {
        if LEARNS {
            let plan = self.unnoted.load(Relaxed);
            if plan & (WROTE | DUE) != WROTE {
                self.unnoted.store(plan & LENGTH | WROTE, Relaxed);
            }
        }
    }

    /// Notes that the bias comes to rest, after a revocation in that time.
    pub(super) fn rest(&self, start: u64, end: u64) {
        let cost = end.saturating_sub(start).min(u64::from(LONGEST_INHIBITION) << 10);
        let length = units(PAYS * cost).clamp(SHORTEST, LONGEST_INHIBITION);
        // Nobody reads: nobody is noted.
        self.unnoted.store(length | WROTE, Relaxed);
        self.inhibited.store(units(end).wrapping_add(length).max(1), Relaxed);
    }

    /// Looks whether the bias is to be turned on, as a reader of a lock whose bias rests. Readers that do so at once may
    /// undo what the other did: then it takes longer, or comes too early.
    #[inline]
    pub(super) fn look_around(&self) {
        // Two readers exchange as many lines by a bias as they do by a count.
        if P::VISIBLE_READERS == 0 || P::parallelism() <= 2 || !P::now_and_then() {
            return;
        }
        let until = self.inhibited.load(Relaxed);
        if !is_inhibited(until, || units(P::now_roughly())) {
            self.note_time(until);
        }
    }

    /// A period is over, or, if `until` is 0, has yet to begin.
    #[cold]
    fn note_time(&self, until: u32) {
        let plan = self.unnoted.load(Relaxed);
        let length = plan & LENGTH;
        if until != 0 && plan & WROTE == 0 {
            if plan & DUE == 0 {
                self.unnoted.store(length | DUE, Relaxed);
            }
            return;
        }
        self.unnoted.store(length, Relaxed);
        self.begin_period(length);
    }

    fn begin_period(&self, length: u32) {
        let end = units(P::now_roughly()).wrapping_add(length.max(SHORTEST));
        self.inhibited.store(end.max(1), Relaxed);
    }

    /// As a thread that is about to read: turns the bias on if it is to be, and waits for a thread that does. Whether the caller is
    /// a reader.
    #[inline]
    pub(super) fn reads_first(&self) -> bool {
        match self.bias.load(Relaxed) {
            OFF if self.unnoted.load(Relaxed) & DUE != 0 => self.turn_on(),
            BEGINNING => {
                let is_over = || (self.bias.load(Relaxed) != BEGINNING).then_some(());
                poll_within::<P, _>(P::spin_budget().saturating_mul(2 * TRIES), is_over);
                false
            }
            _ => false,
        }
    }

    /// Tries to acquire for reading where the caller cannot become visible. A reader that turns the bias on has the lock inside for
    /// writing for a moment, which is not to be seen.
    #[inline]
    pub(super) fn try_read(&self) -> bool {
        let before = self.bias.load(Relaxed);
        self.try_inside() || LEARNS && self.try_again(before)
    }

    fn try_inside(&self) -> bool {
        let acquired = self.lock.try_lock_shared();
        if acquired {
            self.has_come_in();
        }
        acquired
    }

    /// Tries again after an attempt that failed when the bias had been `before`, unless a writer was in the way.
    #[cold]
    fn try_again(&self, mut before: u32) -> bool {
        let mut patience = Patience::new::<P>();
        // The thread that has turned it on is about to let readers in; a writer that finds it on, to revoke it. Not for ever: there
        // may be too many readers.
        let mut looks_while_on = LOOKS;
        loop {
            match self.bias.load(Relaxed) {
                BEGINNING => {}
                ON if looks_while_on > 0 => looks_while_on -= 1,
                now if now == before => return false,
                _ => {}
            }
            patience.pause::<P>();
            before = self.bias.load(Relaxed);
            if self.appear() || self.try_inside() {
                return true;
            }
        }
    }

    /// Turns the bias on, if there is a moment without readers. Whether the caller is a reader now.
    #[cold]
    #[inline(never)]
    fn turn_on(&self) -> bool {
        // In a child of `fork` nobody else would end what a ghost has begun.
        Wait::run::<P, _>(self.address(), None, |_| self.turn_on_registered())
    }

    fn turn_on_registered(&self) -> bool {
        // ORDER: Relaxed: it says that somebody tries, and nothing else.
        if self.bias.compare_exchange(OFF, BEGINNING, Relaxed, Relaxed).is_err() {
            return false;
        }
        let attempt = || self.take_for_a_moment().then_some(());
        let budget = P::spin_budget().saturating_mul(TRIES).max(1);
        if poll_within::<P, _>(budget, attempt).is_some() {
            return true;
        }
        // Writers may have come and gone, and another thread may have begun. ORDER: Relaxed: a bias at rest stays there.
        if self.bias.compare_exchange(BEGINNING, OFF, Relaxed, Relaxed).is_ok() {
            let plan = self.unnoted.load(Relaxed);
            if plan & DUE != 0 {
                let _ = self.unnoted.compare_exchange(plan, plan & LENGTH, Relaxed, Relaxed);
            }
            self.begin_period(RETRY);
        }
        false
    }

    /// Takes the lock inside for writing, turns the bias on, and stays as a reader. In one step for a `fork`: a child would find a
    /// writer that no thread is.
    fn take_for_a_moment(&self) -> bool {
        P::in_steps(|| {
            if !self.lock.try_lock_exclusive() {
                return false;
            }
            // I7: nobody reads. Writers may have come and gone, and have noted that.
            let is_due = self.unnoted.load(Relaxed) & DUE != 0;
            if is_due {
                self.unnoted.store(0, Relaxed);
                self.note();
                // I2. ORDER: Release is E1.
                self.bias.store(ON, Release);
            }
            // SAFETY: acquired above.
            unsafe { self.lock.downgrade() };
            if !is_due {
                // ORDER: Relaxed: as in `turn_on`.
                let _ = self.bias.compare_exchange(BEGINNING, OFF, Relaxed, Relaxed);
            }
            true
        })
    }
}
