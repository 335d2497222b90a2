//! Whose a state is, and how many use it.
//!
//! # State
//!
//! | bits  | name      | meaning                                                              |
//! |-------|-----------|----------------------------------------------------------------------|
//! | 0–16  | users     | threads that use the state, and threads that are about to find that it is not theirs |
//! | 17    | `CLOSING` | a thread is about to take the state back                             |
//! | 18    | `OPENING` | the owner's word does not name the state yet, and perhaps never will |
//! | 19–63 | owner     | bits 3 to 47 of the address of the lock's word; 0 = nobody           |
//!
//! # Invariants
//!
//! - I1: the owner changes from nobody to a lock only while a thread has set `CLOSING`; from a lock to nobody only by that
//!   ([`Claim::take_back`]), in one operation that finds no users, or by a user for whom nobody else uses the state: that has just
//!   reserved it, or disposes of the lock.
//! - I2: a thread that added itself and found its own lock as the owner uses the state until it leaves.
//! - I3: a thread that added itself and found another owner keeps the state from becoming its own lock's until it leaves: a
//!   state is taken, and given to a lock, only where there are no users. A thread that has taken one for a lock, and finds users, takes
//!   another one.
//! - I4: while a state is `OPENING`, nobody uses it but the thread that opens it: others of its owner wait for the end of that.
//!
//! # Ordering
//!
//! - E1: [`Claim::leave`] (Release) → the operation of [`Claim::take_back`] that finds no users (Acquire): what the users did.
//! - E2: [`Claim::open`] (Release) → the addition in [`Claim::enter`], or the look after it (Acquire): what the state was prepared
//!   with. A thread that comes before waits for it (I4).
//! - E3: the end of an attempt to take the state back (Release) → [`Claim::enter`] (Acquire): that nothing is closed any more.
//! - E4: the fence in [`Claim::take_back`] (Release) → that in [`Claim::is_settled_for`] (Acquire), by what was closed: that a
//!   thread is about to take the state back.
//! - E5: the operation of [`Claim::take_back`] that finds no users (Release) → the addition in [`Claim::enter`] that finds another owner
//!   (Acquire): the sections of the lock that the state was taken from, which `close` has come after. Its next section is by
//!   another state, and nothing else would order the two.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, Platform};

use crate::wait::Patience;

const CLOSING: usize = 1 << 17;
const OPENING: usize = 1 << 18;
const USERS: usize = CLOSING - 1;
const OWNER_SHIFT: u32 = 19;

/// What a state knows its lock by. No two locks of a process have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(usize);

impl Owner {
    /// The lock whose word is at this address, a multiple of 8.
    #[inline(always)]
    pub(super) fn at(address: usize) -> Self {
        Self((address << 16 >> 19) << OWNER_SHIFT)
    }

    /// As a word, which is not 0.
    #[inline(always)]
    pub(super) fn bits(self) -> usize {
        self.0
    }

    /// Made of [`Owner::bits`].
    #[inline(always)]
    pub(super) fn from_bits(bits: usize) -> Self {
        Self(bits)
    }

    #[inline(always)]
    fn of(seen: usize) -> Self {
        Self(seen >> OWNER_SHIFT << OWNER_SHIFT)
    }
}

/// See the module.
pub(super) struct Claim<P: Platform>(P::Usize);

impl<P: Platform> core::fmt::Debug for Claim<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Claim({:#x})", self.0.load(Relaxed))
    }
}

impl<P: Platform> Claim<P> {
    /// Nobody's.
    pub(super) fn new() -> Self {
        Self(P::Usize::new(0))
    }

    pub(super) fn cell(&self) -> &P::Usize {
        &self.0
    }

    /// Adds the calling thread to the users. Returns whether the state is `owner`'s; if not, the caller still has to
    /// [`leave`](Claim::leave) (I3).
    #[inline(always)]
    pub(super) fn enter(&self, owner: Owner) -> bool {
        let seen = self.add();
        Owner::of(seen) == owner && (seen & (OPENING | CLOSING) == 0 || self.settles_for(owner))
    }

    /// As [`Claim::enter`], and does not wait: the answer may be no only because somebody is about to take the state back, or to open it.
    pub(super) fn enter_at_once(&self, owner: Owner) -> bool {
        self.add() & !USERS == owner.0
    }

    /// Adds the calling thread to the users. What was there before.
    #[inline(always)]
    fn add(&self) -> usize {
        self.0.fetch_add(1, Acquire) // ORDER: E2, E3, E5.
    }

    /// Waits until nobody is about to take the state back, or to open it; the caller has added itself. Whether it is `owner`'s.
    #[cold]
    fn settles_for(&self, owner: Owner) -> bool {
        let mut patience = Patience::new::<P>();
        loop {
            let seen = self.0.load(Acquire); // ORDER: E2, E3, E5.
            if Owner::of(seen) != owner || seen & (OPENING | CLOSING) == 0 {
                return Owner::of(seen) == owner;
            }
            patience.pause::<P>();
        }
    }

    /// Takes a thread off the users.
    #[inline(always)]
    pub(super) fn leave(&self) {
        self.0.fetch_sub(1, Release); // ORDER: E1.
    }

    /// Whether the state is `owner`'s.
    #[inline(always)]
    pub(super) fn is_of(&self, owner: Owner) -> bool {
        // ORDER: Acquire is E2: what is looked at next is not older than the owner.
        // An owner that differs, and `OPENING`, are above the other bits: an instruction less than a mask, on fast paths.
        self.0.load(Acquire) ^ owner.0 < OPENING
    }

    /// Whether the state is `owner`'s and nobody is about to take it back.
    pub(super) fn is_settled_for(&self, owner: Owner) -> bool {
        P::fence(Acquire); // ORDER: E4.
        self.0.load(Relaxed) & !USERS == owner.0
    }

    /// Takes the state from its owner if no thread uses it. `close` says whether a thread uses it without being counted, and
    /// keeps such threads out until `open`. After `true` it is the caller's to prepare, and to [`reserve_for`](Claim::reserve_for) a lock.
    pub(super) fn take_back(
        &self,
        close: impl FnOnce() -> Option<usize>,
        open: impl FnOnce(usize, bool),
    ) -> bool {
        let seen = self.0.load(Relaxed);
        // ORDER: Acquire is E1.
        if seen & (USERS | CLOSING) != 0
            || self.0.compare_exchange(seen, seen | CLOSING, Acquire, Relaxed).is_err()
        {
            return false;
        }
        if seen == 0 {
            return true; // As `take_free`.
        }
        P::fence(Release); // ORDER: E4.
        let Some(closed) = close() else {
            self.0.fetch_and(!CLOSING, Relaxed);
            return false;
        };
        // ORDER: Acquire is E1, of those who came and went since; Release is E5. I1.
        let taken = self.0.compare_exchange(seen | CLOSING, CLOSING, AcqRel, Relaxed).is_ok();
        open(closed, taken);
        if !taken {
            self.0.fetch_and(!CLOSING, Release); // ORDER: E3.
        }
        taken
    }

    /// Takes the state if it has neither owner nor users. After `true` it is the caller's, as after
    /// [`take_back`](Claim::take_back).
    pub(super) fn take_free(&self) -> bool {
        // ORDER: Acquire is E1.
        self.0.load(Relaxed) == 0 && self.0.compare_exchange(0, CLOSING, Acquire, Relaxed).is_ok()
    }

    /// Gives a state that was taken back to `owner`, with the caller as its user. Others of `owner` wait until the caller
    /// [opens](Claim::open) it or [takes that back](Claim::unreserve). `false`: others look at it, perhaps of the same owner
    /// (I3), and it is nobody's.
    pub(super) fn reserve_for(&self, owner: Owner) -> bool {
        // ORDER: Relaxed: others wait for E2.
        let reserved = self.0.compare_exchange(CLOSING, owner.0 + OPENING + 1, Relaxed, Relaxed).is_ok();
        if !reserved {
            self.0.fetch_and(!CLOSING, Release); // ORDER: E1, for whoever takes it next.
        }
        reserved
    }

    /// Lets the others of the owner use a state that the caller has reserved, and that the lock's word names.
    pub(super) fn open(&self) {
        self.0.fetch_and(!OPENING, Release); // ORDER: E2.
    }

    /// Gives up a state that the caller has reserved. Returns whether no thread looks at it.
    pub(super) fn unreserve(&self, owner: Owner) -> bool {
        let before = self.0.fetch_sub(owner.0 + OPENING + 1, AcqRel); // ORDER: E1.
        before & (USERS | CLOSING) == 1
    }

    /// Takes a state, of which the caller is a user, from `owner`, and the caller off the users. Returns whether it has no
    /// users left; if it has, they leave soon.
    pub(super) fn give_up(&self, owner: Owner) -> bool {
        let before = self.0.fetch_sub(owner.0 + 1, AcqRel); // ORDER: E1.
        before & (USERS | CLOSING) == 1
    }

    /// In a child after `fork`: leaves `users`.
    pub(super) fn forget(&self, users: usize) {
        let seen = self.0.load(Relaxed);
        self.0.store(seen & !(USERS | OPENING | CLOSING) | users, Relaxed);
    }
}
