//! Condition variables that work with any lock: an in-place queue of waiters, each asleep on a word of its own.
//!
//! Not from a paper. Properties: FIFO among waiters; 24 bytes; one 64-byte node a waiter; no spurious wake-ups but by
//! [`kick`]. A broadcast wakes only as many waiters as can run at once; each of them wakes another once it has the lock
//! again, so that a herd does not fight for a lock that admits one.
//!
//! # State
//!
//! ```text
//! head → oldest ⇄ … ⇄ newest ← tail      all under `guard`
//! ```
//!
//! | word             | meaning                                             | who moves it there             |
//! |------------------|-----------------------------------------------------|--------------------------------|
//! | `WAITING`        | in the queue, awake                                 | the waiter                     |
//! | `PARKED`         | in the queue, asleep or about to be                 | the waiter                     |
//! | `KICKED`         | in the queue, asked to look for an interruption     | anybody, from the two above    |
//! | `CLAIMED`        | a signal is meant for it, it is awake               | a signaller, under the guard   |
//! | `CLAIMED_PARKED` | a signal is meant for it, it is asleep or about to be | as above, or the waiter      |
//! | `LEAVING`        | deadline or interruption came before any signal     | the waiter                     |
//! | `GRANTED`        | signalled; the waiter may recycle the node          | whoever was to wake it         |
//!
//! # Invariants
//!
//! - I1: links, `linked`, `chained`, `head`, `tail` and `leavers` are accessed under the guard only (`chained`
//!   afterwards by its waiter alone, once granted).
//! - I2: a claim and `LEAVING` exclude each other: one CAS on the word decides who was first. A signal is therefore
//!   never spent on a waiter that reports a time-out.
//! - I3: a waiter that was claimed never touches the condition again, so that it may be destroyed as soon as everybody
//!   has been signalled. A waiter that is leaving does, and is counted in `leavers` if a signaller unlinked it first;
//!   [`Cond::destroy`] waits for those.
//! - I4: every claimed waiter is granted exactly once: by the signaller, or by the waiter it is chained to.
//!
//! # Ordering
//!
//! - E1: the swap to `GRANTED` (Release) → the waiter's load of it (Acquire): the granter is done with the node.
//!
//! The guard orders all else: of a claim and `LEAVING` the word alone decides which was first (I2), and both sides take the guard
//! before they touch what they share.

use core::fmt;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, DataCell, Deadline, Platform};

use crate::api::RawLock;
use crate::blocking::futex::FutexLock;
use crate::wait::{Registered, WAITING_ON_COND};

mod chain;
#[cfg(test)]
mod tests;
mod waiter;

use chain::Chain;
pub use waiter::{Interruption, Outcome, kick};
use waiter::{Link, Waiter};

/// What reports call the algorithm.
pub const NAME: &str = "cond-fifo";

/// A condition variable. All-zero memory is one without waiters.
#[repr(C)]
pub struct Cond<P: Platform> {
    /// The oldest waiter. Atomic, so that a signaller can see without the guard that nobody waits.
    head: P::Ptr<Waiter<P>>,
    tail: P::Data<Link<P>>,
    guard: FutexLock<P>,
    /// Waiters that are leaving and were unlinked by a signaller (I3).
    leavers: P::Data<u32>,
}

impl<P: Platform> fmt::Debug for Cond<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cond").field("head", &self.head.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> Default for Cond<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Cond<P> {
    /// A condition without waiters.
    #[must_use]
    pub fn new() -> Self {
        Self {
            head: P::Ptr::new(ptr::null_mut()),
            tail: P::Data::new(Link::NONE),
            guard: FutexLock::new(),
            leavers: P::Data::new(0),
        }
    }

    /// Waits for a signal, a deadline or an interruption. `unlock` releases the caller's lock once the
    /// caller is in the queue, `relock` acquires it again; `lock` is any number that identifies it.
    ///
    /// Waiters with the same lock may be woken by one another after their `relock`.
    pub fn wait<R>(
        &self,
        lock: usize,
        deadline: Option<Deadline>,
        interruption: &impl Interruption<P>,
        unlock: impl FnOnce(),
        relock: impl FnOnce() -> R,
    ) -> (Outcome, R) {
        let node = P::alloc_node::<Waiter<P>>();
        // SAFETY: ours until we free it, below.
        let waiter = unsafe { node.as_ref() };
        // SAFETY: not shared yet.
        unsafe { waiter.lock.set(lock) };
        // SAFETY: as above.
        unsafe { waiter.registration.set(P::registration()) };
        let registered = self.enqueue(waiter);
        unlock();
        interruption.publish(&raw const waiter.word);
        let outcome = waiter.sleep(deadline, interruption);
        interruption.publish(ptr::null());
        if outcome == Outcome::Signalled {
            registered.end::<P>();
        } else {
            self.leave(waiter, registered);
        }
        let result = relock();
        // SAFETY: granted, or unlinked: the node is ours alone (I1).
        let chained = unsafe { waiter.chained.get() };
        // SAFETY: as above.
        unsafe { P::free_node(node) };
        // SAFETY: claimed, and waiting for our grant (I4).
        if let Some(next) = unsafe { chained.get() } {
            next.grant();
        }
        (outcome, result)
    }

    /// Wakes the oldest waiter.
    pub fn signal(&self) {
        // A thread that holds the lock, or did after a waiter released it, sees that waiter; others have no claim to.
        if self.head.load(Relaxed).is_null() {
            return;
        }
        let claimed = self.guarded(|| {
            loop {
                let waiter = self.pop()?;
                if self.claim(waiter) {
                    return Some(waiter);
                }
                self.count_leavers(1);
            }
        });
        // The condition is not touched any more (I3).
        if let Some(waiter) = claimed {
            waiter.grant();
        }
    }

    /// Wakes all waiters: some at once, the others one after another as those get the lock.
    pub fn broadcast(&self) {
        if self.head.load(Relaxed).is_null() {
            return;
        }
        let mut claimed = Chain::new();
        self.guarded(|| {
            while let Some(waiter) = self.pop() {
                if self.claim(waiter) {
                    claimed.push(waiter);
                } else {
                    self.count_leavers(1);
                }
            }
        });
        claimed.wake(P::parallelism());
    }

    /// Whether the condition may be destroyed now: false if somebody still waits on it. Waits for
    /// those that have been signalled or timed out and are about to leave.
    #[must_use]
    pub fn destroy(&self) -> bool {
        loop {
            match self.guarded(|| self.users()) {
                (true, _) => return false,
                (false, false) => return true,
                (false, true) => P::yield_now(),
            }
        }
    }

    /// Whether somebody waits, and whether somebody is about to leave. Under the guard.
    fn users(&self) -> (bool, bool) {
        // SAFETY: I1.
        let leavers = unsafe { self.leavers.get() };
        let mut waiting = false;
        let mut next = Link(self.head.load(Relaxed));
        let leaving = leavers > 0 || !next.0.is_null();
        // SAFETY: nodes in the queue are alive, under the guard.
        while let Some(waiter) = unsafe { next.get() } {
            waiting |= !waiter.is_leaving();
            // SAFETY: I1.
            next = unsafe { waiter.next.get() };
        }
        (waiting, leaving)
    }

    /// In a child after `fork`: forgets all waiters, who do not exist here.
    ///
    /// # Safety
    ///
    /// No other thread uses the condition.
    pub unsafe fn forget_waiters(&self) {
        self.head.store(ptr::null_mut(), Relaxed);
        self.guard.reset();
        // SAFETY: the caller's contract.
        unsafe { self.tail.set(Link::NONE) };
        // SAFETY: as above.
        unsafe { self.leavers.set(0) };
    }

    fn address(&self) -> usize {
        ptr::from_ref(self) as usize | WAITING_ON_COND
    }

    /// Runs `steps` under the guard, in one piece for those who fork: the caller is not registered, or will be no more.
    fn guarded<R>(&self, steps: impl FnOnce() -> R) -> R {
        P::in_steps(|| {
            self.lock_guard();
            let result = steps();
            self.unlock_guard();
            result
        })
    }

    fn lock_guard(&self) {
        self.guard.lock_for(self.address());
    }

    fn unlock_guard(&self) {
        // SAFETY: the caller locked it.
        unsafe { self.guard.unlock(()) };
    }

    fn count_leavers(&self, change: i32) {
        // SAFETY: I1: the caller has the guard.
        let leavers = unsafe { self.leavers.get() };
        // SAFETY: as above.
        unsafe { self.leavers.set(leavers.wrapping_add_signed(change)) };
    }

    /// The calling thread waits from here on, by this node.
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one reason for all: the guard")]
    fn enqueue(&self, waiter: &Waiter<P>) -> Registered {
        // Before the guard: a child of another thread's `fork` finds in the registry every condition whose guard a ghost
        // may have.
        let registered = Registered::begin::<P>(self.address());
        self.lock_guard();
        // SAFETY: I1, for this block: we have the guard, and the last node is alive.
        unsafe {
            let last = self.tail.get();
            waiter.linked.set(true);
            waiter.prev.set(last);
            match last.get() {
                Some(last) => last.next.set(waiter.link()),
                None => self.head.store(waiter.link().0, Relaxed),
            }
            self.tail.set(waiter.link());
        }
        self.unlock_guard();
        registered
    }

    /// Means a signal for a waiter; false if it is leaving. Under the guard.
    fn claim(&self, waiter: &Waiter<P>) -> bool {
        let claimed = waiter.claim();
        if claimed {
            // The condition may be destroyed as soon as all are claimed (I3), long before they run: a child of `fork`
            // must not look for ghosts there. SAFETY: I1.
            let registration = unsafe { waiter.registration.get() };
            // SAFETY: a claimed waiter lives until it is granted.
            unsafe { P::end_waiting_on(registration, self.address()) };
        }
        claimed
    }

    /// Unlinks the oldest waiter. Under the guard.
    fn pop<'a>(&self) -> Option<&'a Waiter<P>> {
        // SAFETY: nodes in the queue are alive; this one stays so until it is granted, or has left under the guard.
        let waiter = unsafe { Link(self.head.load(Relaxed)).get() }?;
        self.unlink(waiter);
        Some(waiter)
    }

    /// Takes a node out of the queue. Under the guard.
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one reason for all: the guard")]
    fn unlink(&self, waiter: &Waiter<P>) {
        // SAFETY: I1, for this block: the caller has the guard, and nodes in the queue are alive.
        unsafe {
            let (prev, next) = (waiter.prev.get(), waiter.next.get());
            match prev.get() {
                Some(prev) => prev.next.set(next),
                None => self.head.store(next.0, Relaxed),
            }
            match next.get() {
                Some(next) => next.prev.set(prev),
                None => self.tail.set(prev),
            }
            waiter.linked.set(false);
        }
    }

    /// Takes a leaving waiter out of the queue, or out of the count of leavers.
    #[cold]
    fn leave(&self, waiter: &Waiter<P>, registered: Registered) {
        self.guarded(|| {
            // SAFETY: I1.
            if unsafe { waiter.linked.get() } {
                self.unlink(waiter);
            } else {
                self.count_leavers(-1);
            }
            // The last moment at which the condition is certain to exist.
            registered.end::<P>();
        });
    }
}
