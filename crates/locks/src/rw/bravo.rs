//! `bravo(RW)`: a bias for readers around any reader-writer lock. While it is on, readers make themselves visible in a
//! table that all locks share, and leave the lock alone; a writer turns it off and waits until none is visible.
//!
//! Dave Dice and Alex Kogan, "BRAVO: biased locking for reader-writer locks", USENIX ATC 2019, listing 1. Deviations: a writer
//! stops further readers from becoming visible before it waits for the lock inside, so that they keep behind it where that lock
//! says so. Releases have no token: a thread whose reader the lock inside counts notes that in its slot of the table, too, so
//! that it knows from its own slot alone what kind of reader it releases. Readers are interchangeable: a release that finds
//! nothing there (of another thread's reader, or where two threads have the same slot) takes back any other one. A slot says
//! whether its reader is only arriving, which `fork` forgets, and how often its thread reads. The check of the bias after the
//! slot is taken costs readers no fence: the writer pays (`membarrier`). A writer that waits for readers yields its CPU after a
//! while.
//!
//! Properties: 12 bytes more than the lock inside, which has at most 12; the table is 32 KiB a process. With the bias on, a
//! reader changes one slot, mostly one that nobody else uses; with the bias off, the lock inside and that. A revocation scans the
//! table, and the bias stays off for nine times as long as it took and up to a tick more, at most 17 s. A slot counts 65,536
//! readers; more use the lock inside.
//!
//! # State
//!
//! `bias`: `OFF`, `ON`, `REVOKING` (off, and readers may still be visible), `LAPSED` (the same, and the writer has
//! given up).
//!
//! A slot of the table:
//!
//! | bits  | meaning                                                             |
//! |-------|---------------------------------------------------------------------|
//! | 0     | `ARRIVING`: its reader has yet to look at the bias                  |
//! | 1     | `INSIDE`: its readers are counted by the lock inside, not visible   |
//! | 2     | `INHERITED`: some of them acquired the lock in a parent process     |
//! | 3–47  | the lock's address, or 0                                            |
//! | 48–63 | how many readers more are counted here                              |
//!
//! `unnoted`: readers that the lock inside counts, that no release has claimed, and for which there was no slot. `inhibited`:
//! until when the bias stays off, in units of 1,024 ns, of which it has the lowest 32 bits: what seems to be further ahead than
//! the longest inhibition is past. 0 = not at all.
//!
//! A bias that `LEARNS` ([`learning`]) also rests: `OFF` and `BEGINNING` then say that no reader is visible, nor noted.
//!
//! # Invariants
//!
//! - I1: the readers are the visible ones that are not arriving, and those of the lock inside. Of the latter each is noted in
//!   one slot or counted by `unnoted`, until a release claims it. A release takes one away from either.
//! - I2: the bias is turned on by a holder of the lock inside, so no writer is between its look at the bias and its
//!   release then.
//! - I3: a reader that finds the bias on after it took the slot is visible to whoever revokes (store-load race, I4 of
//!   the paper). A slot with a reader that is not arriving was not passed by a revocation, nor will be: others may be
//!   added to it.
//! - I4: the writer has the lock inside, and has seen after the bias went off every slot without the lock. Then it sets
//!   `OFF`.
//! - I5: a release touches the lock for the last time as the lock inside does, or by leaving its slot.
//! - I6: while a writer has this lock the bias is `OFF`. A thread that has the lock inside for writing
//!   while it is not has yet to revoke. (A bias that rests is as good as `OFF` for this.)
//! - I7: a bias that learns comes to rest, and ends that, while a thread has the lock inside for writing, and nobody is visible.
//!   So a reader finds it at rest throughout its section, or never: it is noted, or visible, exactly if the bias does not rest.
//! - I8: when a lock begins, no slot has its address: readers that have not left when a lock ends end with it. A child of `fork`
//!   may make a lock anew that threads of its parent read: those readers, and only those, are marked, and end there.
//!
//! # Ordering
//!
//! - E1: turning the bias on (Release) → the look at it after the slot was taken (Acquire): the writers' sections. From
//!   there on by the slot: the end of the arrival (Release) → the CAS of a reader that joins (Acquire), by way of
//!   CASes.
//! - E2: leaving a slot (Release) → the revocation that finds it left (Acquire): what the reader read. And the reader
//!   that finds it left in its stead (Acquire).
//! - E3: taking the slot, light barrier, look at the bias ↔ `REVOKING`, heavy barrier, look at the slot: one sees the
//!   other.

mod learning;
#[cfg(test)]
mod tests;

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, Clock, Deadline, Platform};

use crate::api::RawRwLock;
use crate::competitive::poll_steadily;
use crate::describe::{Citation, Descriptor, Family, Favour, Order, Proof, Timed};
use crate::wait::{Patience, WAITING_ON_RWLOCK, Wait};

/// What is known of it; what depends on the lock inside is that lock's.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "bravo",
    family: Family::Biased,
    order: Order::OfInner,
    bytes: 12,
    timed: Timed::OfInner("polls while readers are visible"),
    proofs: &[Proof { source: file!(), by: &["bravo(rw-ttas)"] }],
    citation: Citation {
        key: "dice19bravo",
        text: "Dice, Kogan: BRAVO: biased locking for reader-writer locks. USENIX ATC 2019",
    },
    summary: "while nobody writes, readers make themselves visible in a table of the process and leave the lock alone",
    properties: "Readers of any number of CPUs share no line that changes; 32 KiB a process. A write after reads scans the \
                 table, and turns the bias off for nine times as long.",
    deviations: "Writers stop the bias before they wait; releases without tokens; slots that `fork` can clear; the fence is \
                 the writer's (membarrier).",
    avoid: "Frequent writes. Many more readers than CPUs on a machine of many caches: a reader that finds its slot taken by one \
            that has lost its CPU takes the lock's own cache line.",
    largest_inner: LARGEST_INNER,
    ..Descriptor::rwlock(Favour::Neutral, "as the lock inside; a thread that is visible is counted again")
};

/// The largest lock that it goes around, in bytes.
pub const LARGEST_INNER: usize = 12;

/// Readers use the lock inside.
const OFF: u32 = 0;
/// Readers may become visible instead.
const ON: u32 = 1;
/// No longer, but some may be.
const REVOKING: u32 = 2;
/// As [`REVOKING`], but no writer waits for them any more.
const LAPSED: u32 = 3;

/// Of a bias that learns, at rest: a reader is about to turn it on.
const BEGINNING: u32 = 4;

/// A slot's reader has yet to look at the bias.
const ARRIVING: usize = 1;
/// A slot's readers are counted by the lock inside.
const INSIDE: usize = 2;
/// One reader more in a slot.
const MORE: usize = 1 << 48;
/// The lock's address in a slot.
const ADDRESS: usize = MORE - 8;
/// Some of a slot's readers acquired the lock in a parent process. Matters if that lock is made anew, and only then.
const INHERITED: usize = 4;
/// The lock of a slot's readers, and of what kind they are.
const KIND: usize = ADDRESS | ARRIVING | INSIDE;

/// The bias stays off for this many times as long as its revocation took.
const INHIBITION: u64 = 9;

/// It does so for at most this long, in the units of `inhibited`.
const LONGEST_INHIBITION: u32 = 1 << 24;

/// The lock `L`, biased. A bias that `LEARNS` is there only where writes are rare: see [`learning`].
#[repr(C, align(8))]
pub struct Bravo<P: Platform, L: RawRwLock<P>, const LEARNS: bool = false> {
    lock: L,
    bias: P::U32,
    /// While a bias that learns rests: what is known of the load.
    unnoted: P::U32,
    inhibited: P::U32,
}

impl<P: Platform, L: RawRwLock<P>, const LEARNS: bool> core::fmt::Debug for Bravo<P, L, LEARNS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Bravo").field("bias", &self.bias.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform, L: RawRwLock<P>, const LEARNS: bool> Drop for Bravo<P, L, LEARNS> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

/// What kind of reader a release has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// One that was visible: it has left by that.
    Visible,
    /// One that the lock inside counts, and is to be told of.
    Inside,
}

/// The time, in the units of `inhibited`.
fn units(ns: u64) -> u32 {
    (ns >> 10) as u32
}

/// Until when the bias stays off after a revocation, with the times in nanoseconds.
fn inhibited_until(start: u64, end: u64) -> u32 {
    let length =
        units(INHIBITION.saturating_mul(end.saturating_sub(start)).min(u64::from(LONGEST_INHIBITION) << 10));
    units(end).wrapping_add(length).max(1)
}

/// Whether the bias has to stay off. The time may be a little behind that of the revocation.
fn is_inhibited(until: u32, now: impl FnOnce() -> u32) -> bool {
    until != 0 && (1..=2 * LONGEST_INHIBITION).contains(&until.wrapping_sub(now()))
}

/// Takes the readers of the lock at this address, which has ended, out of the table: they would be found there as those of the
/// next lock at that address.
pub fn forget_readers<P: Platform>(address: usize) {
    for index in 0..P::VISIBLE_READERS {
        P::visible_reader(index, |slot| {
            // ORDER: Relaxed: nobody else changes a slot with that name, which no lock has.
            if slot.load(Relaxed) & ADDRESS == address & ADDRESS {
                slot.store(0, Relaxed);
            }
        });
    }
}

/// Does the same with those that acquired a lock in a parent, for a child that makes it anew without saying that it ended: before
/// anybody uses it, or as one of several threads that come first, each of which does this before it tells others that it has.
pub fn forget_inherited<P: Platform>(address: usize) {
    for index in 0..P::VISIBLE_READERS {
        P::visible_reader(index, |slot| {
            let mut seen = slot.load(Relaxed);
            // Slots that other threads have taken meanwhile are not inherited.
            while seen & (ADDRESS | INHERITED) == address & ADDRESS | INHERITED {
                match slot.compare_exchange(seen, 0, Relaxed, Relaxed) {
                    Ok(_) => break,
                    Err(now) => seen = now,
                }
            }
        });
    }
    // A thread that is told must not join a reader whom this one has yet to forget.
    P::fence(Release); // ORDER: before what the caller tells others by.
}

/// In a child after `fork`, by its one thread: nobody is arriving any more, and all readers are inherited. Whether there are any.
pub fn inherit_readers<P: Platform>() -> bool {
    forget_arrivals::<P>();
    let mut are_any = false;
    for index in 0..P::VISIBLE_READERS {
        P::visible_reader(index, |slot| {
            let seen = slot.load(Relaxed);
            if seen != 0 {
                slot.store(seen | INHERITED, Relaxed); // ORDER: nobody else runs.
                are_any = true;
            }
        });
    }
    are_any
}

/// In a child after `fork`: nobody is arriving any more, at whatever lock.
pub fn forget_arrivals<P: Platform>() {
    for index in 0..P::VISIBLE_READERS {
        P::visible_reader(index, |slot| {
            if slot.load(Relaxed) & ARRIVING != 0 {
                slot.store(0, Relaxed);
            }
        });
    }
}

impl<P: Platform, L: RawRwLock<P>, const LEARNS: bool> Bravo<P, L, LEARNS> {
    /// What waiters are known to wait for.
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize | WAITING_ON_RWLOCK
    }

    /// The lock in a slot.
    fn name(&self) -> usize {
        ptr::from_ref(self).expose_provenance() & ADDRESS
    }

    /// Uses the slot in which the calling thread would be visible.
    fn own_slot<R>(&self, use_it: impl FnOnce(&P::Usize) -> R) -> R {
        P::visible_reader(P::reader_slot(self.name()), use_it)
    }

    /// Becomes visible, if the bias is on and the slot free.
    #[inline]
    fn appear(&self) -> bool {
        if P::VISIBLE_READERS == 0 || self.bias.load(Relaxed) != ON {
            return false;
        }
        let name = self.name();
        self.own_slot(|slot| {
            // ORDER: Relaxed: E3 orders it.
            if slot.load(Relaxed) != 0 || slot.compare_exchange(0, name | ARRIVING, Relaxed, Relaxed).is_err()
            {
                return false;
            }
            P::light_barrier();
            // ORDER: E1, E3.
            let is_on = self.bias.load(Acquire) == ON;
            // Nobody else changes it while it says that we arrive. ORDER: Release is E1.
            slot.store(if is_on { name } else { 0 }, Release);
            is_on
        })
    }

    /// Is counted with the reader that is visible where this thread would be, if one is (I3) and the slot can count one
    /// more.
    fn join(&self) -> bool {
        if P::VISIBLE_READERS == 0 || self.bias.load(Relaxed) == OFF {
            return false;
        }
        let name = self.name();
        self.own_slot(|slot| {
            let mut seen = slot.load(Relaxed);
            while seen & KIND == name {
                let Some(joined) = seen.checked_add(MORE) else { return false };
                // ORDER: Acquire: E1, through the reader that is there.
                match slot.compare_exchange(seen, joined, Acquire, Relaxed) {
                    Ok(_) => return true,
                    Err(now) => seen = now,
                }
            }
            // If this thread reads, but one that the lock inside counts has left in its stead, it must not find the lock
            // inside as it was before that one. ORDER: Acquire: E2.
            let _ = slot.load(Acquire);
            false
        })
    }

    /// Takes one reader out of a slot, if this lock has one there.
    fn leave(&self, slot: &P::Usize) -> Option<Left> {
        let name = self.name();
        let mut seen = slot.load(Relaxed);
        loop {
            let left = match seen & KIND {
                kind if kind == name => Left::Visible,
                kind if kind == name | INSIDE => Left::Inside,
                _ => return None,
            };
            // ORDER: Release is E2. I5.
            match slot.compare_exchange(seen, seen.saturating_sub(MORE), Release, Relaxed) {
                Ok(_) => return Some(left),
                Err(now) => seen = now,
            }
        }
    }

    /// Claims a reader for a release that is not of a reader in the caller's own slot.
    #[cold]
    #[inline(never)]
    fn claim(&self) -> Left {
        // I1: while this reader has not left, there is one to be found; others may be faster at the one that we find.
        let mut patience = Patience::new::<P>();
        loop {
            let mut seen = self.unnoted.load(Relaxed);
            while seen != 0 {
                // ORDER: Relaxed: a number says all; the lock inside orders the rest.
                match self.unnoted.compare_exchange(seen, seen - 1, Relaxed, Relaxed) {
                    Ok(_) => return Left::Inside,
                    Err(now) => seen = now,
                }
            }
            for index in 0..P::VISIBLE_READERS {
                if let Some(left) = P::visible_reader(index, |slot| self.leave(slot)) {
                    return left;
                }
            }
            patience.pause::<P>();
        }
    }

    /// Notes in the caller's slot that it is a reader of the lock inside, if there is room.
    fn note_in_slot(&self) -> bool {
        if P::VISIBLE_READERS == 0 {
            return false;
        }
        let inside = self.name() | INSIDE;
        self.own_slot(|slot| {
            let mut seen = slot.load(Relaxed);
            loop {
                let noted = match seen {
                    0 => inside,
                    _ if seen & KIND == inside => match seen.checked_add(MORE) {
                        Some(noted) => noted,
                        None => return false,
                    },
                    _ => return false,
                };
                // ORDER: Relaxed: the lock inside orders its readers.
                match slot.compare_exchange(seen, noted, Relaxed, Relaxed) {
                    Ok(_) => return true,
                    Err(now) => seen = now,
                }
            }
        })
    }

    /// Notes that the caller is a reader of the lock inside.
    fn note(&self) {
        if !self.note_in_slot() {
            self.unnoted.fetch_add(1, Relaxed);
        }
    }

    /// Turns the bias on, as a reader of the lock inside, if it may be.
    fn bias_again(&self) {
        let bias = self.bias.load(Relaxed);
        // I7: one that learns is not turned on from its rest by a reader.
        let may_be = bias == LAPSED || bias == OFF && !LEARNS;
        if P::VISIBLE_READERS == 0 || !may_be {
            return;
        }
        if !is_inhibited(self.inhibited.load(Relaxed), || units(P::now_roughly())) {
            // I2. ORDER: Release is E1.
            let _ = self.bias.compare_exchange(bias, ON, Release, Relaxed);
        }
    }

    /// Stops further readers from becoming visible, as a writer that may have to wait.
    fn stop(&self) {
        let bias = self.bias.load(Relaxed);
        if matches!(bias, ON | LAPSED) {
            // ORDER: Relaxed: what is visible already is looked at later.
            let _ = self.bias.compare_exchange(bias, REVOKING, Relaxed, Relaxed);
        }
    }

    /// Lets the bias come back with the next reader of the lock inside, as a writer that gives up.
    fn lapse(&self) {
        // ORDER: Relaxed: nobody becomes visible by this.
        let _ = self.bias.compare_exchange(REVOKING, LAPSED, Relaxed, Relaxed);
    }

    /// Whether no reader is visible in any slot from `*next` on; if one is, that is where `*next` is then.
    fn none_is_visible(&self, next: &mut usize) -> bool {
        let name = self.name();
        while *next < P::VISIBLE_READERS {
            // ORDER: E2, E3.
            if P::visible_reader(*next, |slot| slot.load(Acquire)) & (ADDRESS | INSIDE) == name {
                return false;
            }
            *next += 1;
        }
        true
    }

    /// Waits until nobody is visible any more, as a writer that has the lock inside, and turns the bias off. If it does
    /// not, the deadline has passed.
    #[cold]
    fn revoke(&self, deadline: Option<Deadline>) -> bool {
        let start = P::now(Clock::Monotonic);
        self.bias.store(REVOKING, Relaxed);
        P::heavy_barrier();
        let mut next = 0;
        let gone = self.none_is_visible(&mut next)
            || poll_steadily::<P>(deadline, || self.none_is_visible(&mut next));
        if gone {
            let end = P::now(Clock::Monotonic);
            if LEARNS {
                self.rest(start, end);
            } else {
                self.inhibited.store(inhibited_until(start, end), Relaxed);
            }
            // I4. ORDER: Relaxed: whoever turns it on has the lock inside after us.
            self.bias.store(OFF, Relaxed);
        }
        gone
    }

    /// Acquires for reading from the lock inside.
    #[inline(never)]
    fn read_inside(&self, deadline: Option<Deadline>, again: bool) -> bool {
        if again && self.join() {
            return true;
        }
        if LEARNS && deadline.is_none() && !again && self.reads_first() {
            return true;
        }
        let acquired =
            if again { self.lock.lock_shared_again(deadline) } else { self.lock.lock_shared(deadline) };
        if acquired {
            self.has_come_in();
        }
        acquired
    }

    /// Does what a reader of the lock inside owes to the bias.
    fn has_come_in(&self) {
        // I7.
        if self.rests() {
            return self.look_around();
        }
        self.note();
        self.bias_again();
    }
}

// SAFETY: a writer has the lock inside, and no reader is visible (I4); E1 and E2 order those readers' sections, and the
// lock inside the others.
unsafe impl<P: Platform, L: RawRwLock<P>, const LEARNS: bool> RawRwLock<P> for Bravo<P, L, LEARNS> {
    fn new() -> Self {
        Self { lock: L::new(), bias: P::U32::new(OFF), unnoted: P::U32::new(0), inhibited: P::U32::new(0) }
    }

    #[inline]
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        self.appear() || self.read_inside(deadline, false)
    }

    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        self.appear() || self.read_inside(deadline, true)
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.appear() || self.try_read()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        if self.rests() {
            // I7. SAFETY: a reader of the lock inside.
            return unsafe { self.lock.unlock_shared() };
        }
        let own = if P::VISIBLE_READERS == 0 { None } else { self.own_slot(|slot| self.leave(slot)) };
        if own.unwrap_or_else(|| self.claim()) == Left::Inside {
            // SAFETY: a reader of the lock inside, claimed.
            unsafe { self.lock.unlock_shared() };
        }
    }

    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        // From before the lock inside is taken: a child of `fork` must find a ghost that has that, and not yet this lock.
        Wait::run::<P, _>(self.address(), None, |_| {
            self.stop();
            if !self.lock.lock_exclusive(deadline) {
                self.lapse();
                return false;
            }
            // I2. ORDER: Relaxed: whoever turned it on has been acquired with the lock inside.
            if self.is_off() {
                self.note_write();
            } else if !self.revoke(deadline) {
                self.lapse();
                // SAFETY: acquired above.
                unsafe { self.lock.unlock_exclusive() };
                return false;
            }
            true
        })
    }

    fn try_lock_exclusive(&self) -> bool {
        // A look first: while a writer finds out that it is beside readers, it would keep out others that try to read.
        if !self.is_off() && !self.none_is_visible(&mut 0) {
            return false;
        }
        // As in `lock_exclusive`.
        Wait::run::<P, _>(self.address(), None, |_| {
            if !self.lock.try_lock_exclusive() {
                return false;
            }
            if self.is_off() {
                self.note_write();
                return true;
            }
            let before = self.bias.load(Relaxed);
            let start = if LEARNS { P::now(Clock::Monotonic) } else { 0 };
            self.bias.store(REVOKING, Relaxed);
            P::heavy_barrier();
            let free = self.none_is_visible(&mut 0);
            if LEARNS && free {
                self.rest(start, P::now(Clock::Monotonic));
            }
            // I2. ORDER: Relaxed: E1, where it is turned on again, by the barrier before.
            self.bias.store(if free { OFF } else { before }, Relaxed);
            if !free {
                // SAFETY: acquired above.
                unsafe { self.lock.unlock_exclusive() };
            }
            free
        })
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.lock.unlock_exclusive() };
    }

    unsafe fn downgrade(&self) {
        if !self.rests() {
            self.note();
        }
        // SAFETY: the caller's contract.
        unsafe { self.lock.downgrade() };
    }

    fn is_locked(&self) -> bool {
        self.lock.is_locked() || !self.is_off() && !self.none_is_visible(&mut 0)
    }

    unsafe fn forget_waiters(&self) {
        forget_arrivals::<P>();
        // SAFETY: the caller's contract.
        unsafe { self.lock.forget_waiters() };
        if self.is_off() {
            // The thread that was about to turn it on is none of this process.
            return self.bias.store(OFF, Relaxed);
        }
        self.lapse();
        if self.lock.try_lock_shared() {
            // SAFETY: acquired above.
            unsafe { self.lock.unlock_shared() };
        } else {
            // SAFETY: nobody waits for it, so a writer has it: a ghost that has yet to revoke (I6).
            unsafe { self.lock.unlock_exclusive() };
        }
    }

    unsafe fn dispose(&self) {
        // I1, I7: a reader that never leaves may still be visible, or noted.
        if !self.is_off() || !LEARNS && self.lock.is_locked() {
            forget_readers::<P>(self.name());
        }
        self.bias.store(OFF, Relaxed);
        self.unnoted.store(0, Relaxed);
        self.inhibited.store(0, Relaxed);
        // SAFETY: the caller's contract.
        unsafe { self.lock.dispose() };
    }
}
