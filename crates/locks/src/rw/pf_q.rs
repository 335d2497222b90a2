//! `pf-q`: the phase-fair queue lock. Phases of readers and of one writer take turns, as in [`pf_t`](super::pf_t);
//! whoever waits does so on a cache line of its own.
//!
//! Björn B. Brandenburg and James H. Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time
//! systems", Real-Time Systems 46(1), 2010, algorithm PF-Q. Deviations. Writers queue by [MCS](crate::queue::mcs),
//! whose waiters can give up and be skipped. Readers that a writer stops go on one list, where the paper has one for
//! odd and one for even phases: a reader that comes too late for its phase's end sees that when it has put its node
//! there, and leaves it behind. The writer wakes all of the list, where in the paper each reader wakes the next: one
//! that is not running then holds up no other. A writer stops the readers by a compare-and-swap, and a thread that may
//! be a reader already takes back a departure, as in `pf-t`. The state comes from the pool, and goes back there only
//! once the last writer is through with its release.
//!
//! Properties: 8 bytes at rest; used, 256 more, and 64 for each thread that waits and each writer that has the lock.
//! O(1) remote references for readers and for writers, but for the readers that a release wakes. Waiting: spin, or
//! spin-then-park. All timed acquisitions have their place in the order and give up there.
//!
//! # State
//!
//! ```text
//! lock ─→ word: see `phases`                     writers: MCS; its holder has the turn
//!         departures                             queue ─→ waiting reader ─next→ … ─next→ null
//!         turn, where the first writer waits     entry: the arrivals when the turn began
//! ```
//!
//! `departures`:
//!
//! | bits  | name      | meaning                                                          |
//! |-------|-----------|------------------------------------------------------------------|
//! | 0     | `AWAITED` | a writer has the lock, or waits until as many have left as below   |
//! | 1–31  | awaited   | `entry` mod 2^31, for that writer; else 0                         |
//! | 32–63 | departed  | how many of the arrivals have left, less the guests, mod 2^32     |
//!
//! # Invariants
//!
//! - I1: the holder of the writers' lock, and nobody else, changes the phase, `entry` and the lower half of
//!   `departures`. It sets `AWAITED` after its turn has begun, and clears it before that ends.
//! - I2: the readers are the arrivals that need not wait, and the guests; each release takes one from either. Once
//!   `AWAITED` is set, the writer has the lock as soon as all that it awaits have left. Then no reader leaves, and no
//!   guest comes in (I3).
//! - I3: a guest comes in by an exchange of `departures` which says that a writer awaits readers that have not all left.
//! - I4: the last reader that is awaited grants, when it leaves, `turn`, once, and has read that from the operation by which it
//!   left. A writer that gives up clears `AWAITED` while some have not left, or waits for the grant. So `turn` is
//!   granted to the writer that waits for it, and to no later one.
//! - I5: a reader in the list waits for its grant as long as the phase is the one in which it drew; it looks at that
//!   after it has put its node there. The thread that ends the phase takes the list afterwards. If the node came after that, the
//!   reader sees the end of its phase (E5). It then abandons the node, which belongs to whoever takes the list next. A reader
//!   that gave up and comes back has that node again, still on the list or granted; the grant may be from the end of an
//!   earlier phase than the one in which it drew since, so it looks at the phase once more.
//! - I6: a release by a reader touches nothing after its last operation; a release by a writer touches the lock itself
//!   only at its beginning, and the shared state, last of all, by releasing the writers' lock, which `dispose` waits
//!   for.
//! - I7: the state is the lock's while somebody has the lock, or waits and is counted: it is taken back by a thread that
//!   writes and finds nobody counted. A reader that comes in at once finds whose the state is afterwards, and leaves another
//!   lock's again, as a reader of that lock.
//!
//! # Ordering
//!
//! - E1: that of `word`: the critical section of a writer.
//! - E2: a reader's release on `departures` (Release) → the writer's operation that sets `AWAITED`, or its load before
//!   a mere attempt, and the release of the last reader (Acquire), through the other readers' RMWs: what the reader
//!   read. From the last on by the grant.
//! - E3: the operation that sets `AWAITED` (Release) → the release of the last reader (Acquire): that `turn` waits. →
//!   the CAS by which a guest comes in (Acquire): the turns before.
//! - E4: the CAS that puts a node on the list (Release) → the swap that takes it (Acquire): the node.
//! - E5: the swap that takes the list (Release) → the CAS that puts a node there afterwards (Acquire): that the phase
//!   has ended.
//! - E6: the release of the writers' lock → its next acquisition: all that only its holder accesses.
//! - E7: `wait::grant` → `WaitPolicy::wait`: as E1, for readers that waited; as E2, for the writer.

mod shared;

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use lockwork_platform::{AtomicCell, AtomicInt, Deadline, Native, Platform};

use super::phases::{self, READER};
use crate::api::{RawLock, RawRwLock};
use crate::describe::{Descriptor, Family, Favour, Keeps, Order, Proof, Timed};
use crate::state::{Lazy, State};
use crate::wait::{Patience, WAITING_ON_RWLOCK, Wait, WaitPolicy, grant};
use shared::{LEFT, Shared, have_left, is_awaited};

/// What is known of it, with waiters that spin.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "pf-q",
    family: Family::Queue,
    order: Order::PhaseFair,
    order_note: "readers and writers take turns, writers FIFO",
    bytes: 8,
    bytes_per_waiter: 64,
    keeps: Keeps::Block,
    timed: Timed::GivesUp("in the order"),
    proofs: &[Proof { source: file!(), by: &["pf-q"] }, Proof { source: "rw/pf_q/shared.rs", by: &["pf-q"] }],
    citation: phases::CITATION,
    summary: "a reader waits for at most one writer, a writer for one phase of readers for each writer before it, all on lines of \
              their own",
    properties: "Nobody starves, and a reader's wait is bounded by the readers and the one writer before it. Used, it has 256 \
                 bytes of state, and 64 for each reader that waits.",
    deviations: "Writers queue by MCS. One list of waiting readers, all of whom the writer wakes. Writers stop the readers by \
                 compare-and-swap. Guests.",
    avoid: "More threads than CPUs, and many cores that mostly read: every reader changes two words.",
    ..Descriptor::rwlock(
        Favour::Neutral,
        "a thread that has read locks joins the readers that a writer waits for",
    )
};

/// What is known of it, with waiters that park after a while.
pub const PARKING: Descriptor = Descriptor {
    name: "pf-q-stp",
    avoid: "Many cores that mostly read: every reader changes two words.",
    ..DESCRIPTOR
};

/// The lock, waiting by `W`.
#[repr(transparent)]
pub struct PfQ<P: Platform, W: WaitPolicy<P>> {
    shared: Lazy<P, Shared<P, W>>,
}

const _: () = assert!(size_of::<PfQ<Native, crate::wait::Spin>>() == DESCRIPTOR.bytes);

impl<P: Platform, W: WaitPolicy<P>> core::fmt::Debug for PfQ<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PfQ").field("shared", &self.shared).finish()
    }
}

impl<W: WaitPolicy<Native>> PfQ<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { shared: Lazy::unused() }
    }
}

#[cfg(test)]
impl<W: WaitPolicy<Native>> PfQ<Native, W> {
    /// An unlocked lock after so many readers and writers.
    pub(super) fn aged(arrivals: u32, turns: u32) -> Self {
        let lock = Self::unlocked();
        let shared = lock.shared.peek_or_make();
        shared.word().age(arrivals, turns);
        shared.departures().store(arrivals as usize * LEFT, Relaxed);
        lock
    }
}

impl<P: Platform, W: WaitPolicy<P>> Drop for PfQ<P, W> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

impl<P: Platform, W: WaitPolicy<P>> PfQ<P, W> {
    /// How many readers have drawn, mod 2^32. A reader that has drawn has a place in the order.
    #[must_use]
    pub fn arrivals(&self) -> u32 {
        self.shared.look(|shared| shared.word().seen().arrivals()).unwrap_or(0)
    }

    fn address(&self) -> usize {
        ptr::from_ref(self) as usize | WAITING_ON_RWLOCK
    }

    /// Runs `f` with the lock's state, as one of its users.
    fn used(&self, f: impl FnOnce(&Shared<P, W>) -> bool) -> bool {
        let shared = self.shared.enter();
        let acquired = f(shared);
        shared.claim().leave(); // I7.
        acquired
    }

    /// Whether the lock's own state was acquired for reading; if not, it has been released (I7).
    #[inline(always)]
    fn is_right(&self, shared: &Shared<P, W>) -> bool {
        let is_own = self.shared.owns(shared);
        if !is_own {
            shared.leave();
        }
        is_own
    }
}

/// What is in the way of a guest.
enum Obstacle {
    /// A writer has the lock.
    Writer,
    /// No writer waits: either none is present, or it is about to wait or to end its turn.
    Nobody,
}

impl<P: Platform, W: WaitPolicy<P>> Shared<P, W> {
    /// Releases a reader.
    #[inline(always)]
    fn leave(&self) {
        // ORDER: Release is E2; Acquire is E2 and E3, for the last.
        let before = self.departures().fetch_add(LEFT, AcqRel);
        if have_left(before.wrapping_add(LEFT)) {
            // I4, I6.
            grant::<P>(self.turn());
        }
    }

    /// Comes in beside readers that a writer waits for. Returns what is in the way.
    fn join(&self) -> Result<(), Obstacle> {
        let mut seen = self.departures().load(Relaxed);
        while is_awaited(seen) {
            if have_left(seen) {
                return Err(Obstacle::Writer);
            }
            // ORDER: E3. I3.
            match self.departures().compare_exchange(seen, seen.wrapping_sub(LEFT), Acquire, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(Obstacle::Nobody)
    }
}

// SAFETY: I1 to I4 exclude writers against everybody; E1 to E7 order the critical sections.
unsafe impl<P: Platform, W: WaitPolicy<P>> RawRwLock<P> for PfQ<P, W> {
    fn new() -> Self {
        Self { shared: Lazy::new() }
    }

    #[inline]
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        let shared = self.shared.peek_or_make();
        shared.word().try_once() && self.is_right(shared)
            || Wait::run::<P, _>(self.address(), deadline, |wait| self.used(|shared| shared.draw(wait)))
    }

    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        self.used(|shared| {
            let mut patience = Patience::new::<P>();
            loop {
                // A reader must not draw where it might find a writer present, which waits for it.
                if shared.word().try_draw() {
                    return true;
                }
                match shared.join() {
                    Ok(()) => return true,
                    // Then the caller is no reader.
                    Err(Obstacle::Writer) => return self.lock_shared(deadline),
                    Err(Obstacle::Nobody) => _ = patience.pause::<P>(),
                }
            }
        })
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        loop {
            let shared = self.shared.peek_or_make();
            if shared.word().try_draw() && self.is_right(shared) {
                return true;
            }
            if self.shared.settle() {
                return false;
            }
        }
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: read-locked.
        unsafe { self.shared.used() }.leave();
    }

    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        // From before the writers' lock is taken: a child of `fork` must find a ghost that has that, and not yet the lock.
        Wait::run::<P, _>(self.address(), deadline, |wait| {
            self.used(|shared| {
                let Some(token) = shared.writers().lock_with(wait) else { return false };
                // SAFETY: the writers' lock is held, by this token.
                unsafe { shared.take_turn(token, wait) }
            })
        })
    }

    fn try_lock_exclusive(&self) -> bool {
        loop {
            let acquired = Wait::run::<P, _>(self.address(), None, |_| {
                self.used(|shared| {
                    // A look first: a failing attempt would take the line from the holder.
                    if shared.is_locked() {
                        return false;
                    }
                    let Some(token) = shared.writers().try_lock() else { return false };
                    // SAFETY: the writers' lock is held, by this token.
                    unsafe { shared.try_turn(token) }
                })
            });
            if acquired || self.shared.settle() {
                return acquired;
            }
        }
    }

    unsafe fn unlock_exclusive(&self) {
        // SAFETY: write-locked.
        let shared = unsafe { self.shared.used() };
        // SAFETY: the caller has the lock.
        P::in_steps(|| unsafe { shared.release(0) });
    }

    unsafe fn downgrade(&self) {
        // SAFETY: write-locked.
        let shared = unsafe { self.shared.used() };
        // SAFETY: the caller has the lock.
        Wait::run::<P, _>(self.address(), None, |_| unsafe { shared.release(READER) });
    }

    fn is_locked(&self) -> bool {
        self.shared.look(Shared::is_locked).unwrap_or(false)
    }

    unsafe fn forget_waiters(&self) {
        if let Some(shared) = self.shared.own() {
            // SAFETY: the caller's contract.
            unsafe { shared.forget_waiters() };
        }
    }

    unsafe fn dispose(&self) {
        // A writer that has it will never release it.
        if let Some(shared) = self.shared.own().filter(|shared| !shared.is_held()) {
            shared.until_idle();
        }
        // SAFETY: the caller's contract.
        unsafe { self.shared.dispose() };
    }
}
