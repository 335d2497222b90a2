//! ShflLock: a test-and-set lock whose waiters queue, and while they wait bring those of one NUMA node together.
//!
//! Sanidhya Kashyap, Irina Calciu, Xiaohe Cheng, Changwoo Min and Taesoo Kim, "Scalable and practical locking with
//! shuffling", SOSP 2019. Deviations: the ban on stealing and the sleep of the first waiter are bits of the lock's
//! word; the first waiter may sleep too; a shuffler looks at one waiter at a time and keeps its place, and passes its
//! role on when it leaves the queue, not after each look; it wakes at most four waiters ahead of time; the last waiter
//! of the queue is never moved; queue nodes come from the platform's pool; waiters can give up at a deadline, those who
//! are made first and have given up being skipped.
//!
//! Properties: 16 bytes a lock, however many nodes; one node of 64 bytes for each waiter, none for the holder. A
//! newcomer may overtake a queue whose first waiter has not yet forbidden that: the spinning one does at once, the
//! sleeping one when it has been woken in vain. A waiter on another node is passed over by at most 1024 others before
//! its turn (`may-pass-local`). Waiting: spin, stp.
//!
//! # State
//!
//! ```text
//! word: LOCKED │ RESERVED: only the first waiter may take the lock │ SLEEPER: the first waiter sleeps on the word
//! tail ─────────────────────────────────┐         tail == null: nobody waits
//! first ─next→ waiter ─next→ … ─next→ last    word of a waiter: see `wait`; it waits to be first
//! ```
//!
//! A waiter's word may also say `SHUFFLER`: awake, and given the shuffler's role. The queue while thread 2 shuffles, by
//! nodes:
//!
//! ```text
//! 1a  2b  2c  1d  1e  2f …   →   1a  2b  2c  2f  1d  1e …      batch: 2b, 2c, 2f
//! ```
//!
//! # Invariants
//!
//! - I1: the thread that sets LOCKED holds the lock; while RESERVED is set that is the first waiter. The first waiter alone sets
//!   RESERVED and SLEEPER. It clears them when it takes the lock or gives up, and a release clears SLEEPER.
//! - I2: `tail` is null or the last of the queue, which shuffling does not change; a waiter is linked by its
//!   predecessor's `next` after it became `tail`.
//! - I3: one waiter at most has the shuffler's role: a first waiter that is in no batch takes it, and all waiters before
//!   the shuffler are in a batch. It moves waiters behind itself only; none of them can be made first before it has
//!   passed the role on.
//! - I4: a queue node is recycled by its owner when another is first, or by whoever found it abandoned when making it
//!   first.
//! - I5: the first waiter sleeps with SLEEPER set and LOCKED; the release that clears SLEEPER wakes it.
//!
//! # Ordering
//!
//! - E1: `unlock`'s CAS (Release) → the CAS that sets LOCKED (Acquire): the critical section. The CASes in between are
//!   read-modify-writes.
//! - E2: the newcomer's swap of `tail` (Release) → the swap of its successor (Acquire): the queue node's initialisation.
//! - E3: the store of `next` (Release) → the load of whoever goes through the queue (Acquire): the successor's
//!   initialisation.
//! - E4: `wait::grant` → the waiter's load of its word: the order of the queue, and batches, from first to first.
//! - E5: the CAS to SHUFFLER (Release) → the waiter's load of its word (Acquire): the same, from shuffler to shuffler.
//! - E6: a waiter's abandonment → `wait::grant` (E2 of `wait`): its accesses come before its node's re-use.

mod shuffle;

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{
    AtomicCell, AtomicInt, ConstPlatform, DataCell, Deadline, FutexCell, Native, Platform,
};

use self::shuffle::{ALONE, SHUFFLER, ShflNode, Shuffle, linked};
use crate::api::{RawLock, address};
use crate::competitive::CLOCK_INTERVAL;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::knobs::{self, Knobs};
use crate::wait::{
    self, GRANTED, Grant, PARKED, Patience, Returning, Spin, SpinThenPark, WAITING, Wait, WaitPolicy, expired,
};

/// What is known of ShflLock.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "shfl",
    family: Family::Hierarchical,
    order: Order::LongTerm,
    order_note: "a waiter on another node is passed over by at most 1024 waiters; newcomers may overtake",
    bytes: 16,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("in the queue"),
    proofs: &[Proof::of(file!()), Proof::of("hierarchical/shfl/shuffle.rs")],
    citation: Citation {
        key: "kashyap19",
        text: "Kashyap, Calciu, Cheng, Min, Kim: Scalable and practical locking with shuffling. SOSP 2019",
    },
    summary: "a test-and-set lock with a queue, in which waiters sort those behind them by NUMA node while they wait",
    properties: "Two words, however many NUMA nodes, and no node for the holder. Releases do no NUMA work: waiters do it. \
                 shfl-stp: the lock is not idle while a waiter wakes up, as newcomers may take it.",
    deviations: "The first waiter may sleep, too; the shuffler's role is passed on when its owner leaves the queue; waiters \
                 can give up at a deadline.",
    avoid: "Machines with one NUMA node. shfl-spin: more threads than CPUs.",
    knobs: knobs::HIERARCHICAL,
    ..Descriptor::MUTEX
};

/// Waiters of one node in a row, before whoever was passed over gets the turn, where no spec says otherwise: as in
/// the paper.
const BATCH: u32 = 1024;

/// Of the lock's word: held.
const LOCKED: u32 = 1;
/// Of the lock's word: for the first waiter only.
const RESERVED: u32 = 2;
/// Of the lock's word: the first waiter sleeps.
const SLEEPER: u32 = 4;

/// How waiters wait, the first one too.
pub trait QueuePolicy<P: Platform>: WaitPolicy<P> {
    /// Whether they sleep after a while.
    const SLEEPS: bool;
}

impl<P: Platform> QueuePolicy<P> for Spin {
    const SLEEPS: bool = false;
}

impl<P: Platform> QueuePolicy<P> for SpinThenPark {
    const SLEEPS: bool = true;
}

/// A thread in the queue.
struct Waiter<P: Platform, W> {
    node: NonNull<ShflNode<P>>,
    /// Of batches.
    limit: u32,
    shuffle: Option<Shuffle<P>>,
    patience: Patience,
    /// Pauses since it began to wait, or slept.
    paused: u32,
    policy: PhantomData<W>,
}

impl<P: Platform, W: QueuePolicy<P>> Waiter<P, W> {
    fn new(node: NonNull<ShflNode<P>>, limit: u32) -> Self {
        Self { node, limit, shuffle: None, patience: Patience::new::<P>(), paused: 0, policy: PhantomData }
    }

    fn own(&self) -> &ShflNode<P> {
        // SAFETY: I4: ours, until another is first.
        unsafe { self.node.as_ref() }
    }

    /// Does a bit of shuffling, if this is the shuffler. Whether there was something to do.
    fn shuffles(&mut self) -> bool {
        let limit = self.limit;
        self.shuffle.as_mut().is_some_and(|shuffle| shuffle.step(limit))
    }

    fn takes_the_role(&mut self) {
        let own = self.own();
        // Being made first may come before.
        let _ = own.word.compare_exchange(SHUFFLER, WAITING, Relaxed, Relaxed);
        self.shuffle = Some(Shuffle::new(self.node));
    }

    /// Whether the first waiter is to take the role: nobody has it, or it was given to it.
    fn is_shuffler_now(&self) -> bool {
        let own = self.own();
        // SAFETY: I3: whoever had the role before has left the queue. ORDER: E4.
        let chosen = unsafe { own.chosen.get() };
        // SAFETY: as above.
        chosen || unsafe { own.batch.get() } == ALONE && P::domains() > 1
    }

    /// Passes the role on, if this is the shuffler.
    fn retires(&mut self) {
        if let Some(shuffle) = self.shuffle.take() {
            shuffle.pass_on(self.node);
        }
    }

    /// Pauses once. Whether that was often enough to look at the clock, or to sleep.
    fn pauses(&mut self) -> bool {
        let enough = if W::SLEEPS { P::spin_budget() } else { CLOCK_INTERVAL };
        if self.paused >= enough {
            self.paused = 0;
            return true;
        }
        self.paused += self.patience.pause_within::<P>(enough - self.paused);
        false
    }

    /// Waits to be first. Whether it was made that before it gave up; if it gave up the node is no longer ours.
    fn comes_first(&mut self, wait: &Wait) -> bool {
        loop {
            match self.own().word.load(Acquire) {
                GRANTED => return true,            // ORDER: E4.
                SHUFFLER => self.takes_the_role(), // ORDER: E5.
                _ => {}
            }
            if !self.shuffles() && self.pauses() && !self.goes_on(wait.deadline) {
                self.retires();
                // Being made first may have come before.
                return wait::abandon::<P>(&self.own().word, wait).is_ok();
            }
        }
    }

    /// Sleeps, if it does that, or looks at the clock. Whether the deadline is still to come.
    fn goes_on(&self, deadline: Option<Deadline>) -> bool {
        if !W::SLEEPS {
            return !deadline.is_some_and(expired::<P>);
        }
        let word = &self.own().word;
        if word.compare_exchange(WAITING, PARKED, Relaxed, Relaxed).is_err() {
            return true; // Something to do.
        }
        while word.load(Relaxed) == PARKED {
            if word.wait(PARKED, deadline).is_err() {
                return false;
            }
        }
        true
    }

    /// Waits, as the first, for the lock. Whether it was acquired before the deadline.
    fn acquires(&mut self, word: &P::Futex, deadline: Option<Deadline>) -> bool {
        if self.is_shuffler_now() {
            self.shuffle = Some(Shuffle::new(self.node));
        }
        let mut reserves = !W::SLEEPS;
        loop {
            let seen = word.load(Relaxed);
            if seen & LOCKED == 0 {
                // ORDER: Acquire is E1. Failure: taken by a newcomer.
                if word.compare_exchange(seen, LOCKED, Acquire, Relaxed).is_ok() {
                    return true;
                }
            } else if reserves && seen & RESERVED == 0 {
                let _ = word.compare_exchange(seen, seen | RESERVED, Relaxed, Relaxed);
            } else if !self.shuffles() && self.pauses() {
                if !Self::remains(word, seen, deadline) {
                    // ORDER: Relaxed: a read-modify-write does not end E1.
                    word.fetch_and(LOCKED, Relaxed);
                    return false;
                }
                reserves = true;
            }
        }
    }

    /// As [`Waiter::goes_on`], for the first waiter, which has seen the lock held.
    fn remains(word: &P::Futex, seen: u32, deadline: Option<Deadline>) -> bool {
        if !W::SLEEPS {
            return !deadline.is_some_and(expired::<P>);
        }
        let asleep = seen | SLEEPER;
        if seen != asleep && word.compare_exchange(seen, asleep, Relaxed, Relaxed).is_err() {
            return true;
        }
        word.wait(asleep, deadline).is_ok() // I5.
    }
}

/// ShflLock, waiting by `W`.
#[repr(C)]
pub struct Shfl<P: Platform, W> {
    /// Written by threads that acquire and release, and by the first waiter, which may sleep on it.
    word: P::Futex,
    /// The limit of a batch; 0 = the default.
    limit: P::U32,
    /// The last of the queue; written by every waiter when it comes, and by the first that leaves nobody behind.
    tail: P::Ptr<ShflNode<P>>,
    policy: PhantomData<W>,
}

const _: () = assert!(size_of::<Shfl<Native, Spin>>() == DESCRIPTOR.bytes);

impl<P: Platform, W> core::fmt::Debug for Shfl<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (word, tail) = (self.word.load(Relaxed), self.tail.load(Relaxed));
        f.debug_struct("Shfl").field("word", &word).field("tail", &tail).finish()
    }
}

impl<W> Shfl<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Native::FUTEX_ZERO, limit: Native::U32_ZERO, tail: Native::null(), policy: PhantomData }
    }
}

impl<P: Platform, W: QueuePolicy<P>> Shfl<P, W> {
    #[inline(always)]
    fn acquire_fast(&self) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok()
    }

    /// Lines up and waits. Whether the lock was acquired before the deadline.
    fn queue_up(&self, wait: &Wait) -> bool {
        let node = P::alloc_node::<ShflNode<P>>();
        if wait.deadline.is_none() {
            return self.line_up(node, wait);
        }
        let line_up = |wait: &Wait| self.line_up(node, wait).then_some(());
        let come_back =
            |left, returning: &mut Returning<_, _>, wait: &Wait| self.come_back(left, returning, wait);
        Returning::run(address(self), wait, node, line_up, come_back).is_some()
    }

    /// The limit of a batch.
    fn batch(&self) -> u32 {
        match self.limit.load(Relaxed) {
            0 => BATCH,
            limit => limit,
        }
    }

    /// Goes on with `node`, in which the thread gave up being first. Whether the lock was acquired before the deadline.
    #[cold]
    fn come_back(
        &self,
        node: NonNull<ShflNode<P>>,
        returning: &mut Returning<P, ShflNode<P>>,
        wait: &Wait,
    ) -> Option<()> {
        let mut waiter = Waiter::<P, W>::new(node, self.batch());
        // ORDER: E4 where it has been made first.
        if let Some(wait) = returning.take_up(&waiter.own().word, wait)
            && !waiter.comes_first(&wait)
        {
            return None;
        }
        self.as_first(waiter, wait).then_some(())
    }

    /// Waits, as the first, and leaves the queue. Whether the lock was acquired before the deadline.
    fn as_first(&self, mut waiter: Waiter<P, W>, wait: &Wait) -> bool {
        let acquired = waiter.acquires(&self.word, wait.deadline);
        waiter.retires();
        self.leave(waiter.node);
        acquired
    }

    /// [`Shfl::queue_up`] with `node`, which is fresh.
    fn line_up(&self, node: NonNull<ShflNode<P>>, wait: &Wait) -> bool {
        let mut waiter = Waiter::<P, W>::new(node, self.batch());
        waiter.own().numa.store(P::domain() as u32, Relaxed);
        // ORDER: Release is E2 (and the initialisation of our node), Acquire is E2.
        if let Some(pred) = NonNull::new(self.tail.swap(node.as_ptr(), AcqRel)) {
            // SAFETY: I4: `pred` is not recycled before it has found us behind it. ORDER: E3.
            unsafe { pred.as_ref() }.next.store(node.as_ptr(), Release);
            if !waiter.comes_first(wait) {
                return false;
            }
        }
        self.as_first(waiter, wait)
    }

    /// Makes the one behind `node`, which is first, the first, skipping those who gave up.
    fn leave(&self, mut node: NonNull<ShflNode<P>>) {
        loop {
            let next = linked(node).or_else(|| self.await_next(node));
            let Some(next) = next else {
                // SAFETY: I4: no longer in the queue, and nobody is behind it.
                return unsafe { P::free_node(node) };
            };
            // SAFETY: initialised (E3), and in the queue until we grant. ORDER: E4, E6.
            let outcome = wait::grant::<P>(&unsafe { next.as_ref() }.word);
            // SAFETY: I4: nobody looks at it any more.
            unsafe { P::free_node(node) };
            match outcome {
                Grant::Accepted => return,
                Grant::Abandoned => node = next,
            }
        }
    }

    /// Empties the queue, if nobody is behind `node`; or waits for a thread that is about to link itself.
    fn await_next(&self, node: NonNull<ShflNode<P>>) -> Option<NonNull<ShflNode<P>>> {
        // ORDER: Relaxed: a thread that finds null learns nothing from it.
        if self.tail.compare_exchange(node.as_ptr(), ptr::null_mut(), Relaxed, Relaxed).is_ok() {
            return None;
        }
        let mut patience = Patience::new::<P>();
        loop {
            patience.pause::<P>();
            if let Some(next) = linked(node) {
                return Some(next);
            }
        }
    }

    /// Releases a lock whose first waiter is asleep, or has reserved it.
    #[cold]
    fn unlock_slow(&self) {
        let word = ptr::from_ref(&self.word);
        let mut seen = self.word.load(Relaxed);
        loop {
            // ORDER: Release is E1.
            match self.word.compare_exchange(seen, seen & RESERVED, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        if seen & SLEEPER != 0 {
            // SAFETY: the word was alive when we released it; a wake that comes too late is spurious.
            unsafe { FutexCell::wake(word, 1) };
        }
    }
}

// SAFETY: I1 gives exclusion, and E1 orders the sections.
unsafe impl<P: Platform, W: QueuePolicy<P>> RawLock<P> for Shfl<P, W> {
    type Token = ();

    fn new() -> Self {
        Self {
            word: P::Futex::new(0),
            limit: P::U32::new(0),
            tail: P::Ptr::new(ptr::null_mut()),
            policy: PhantomData,
        }
    }

    fn configure(&self, knobs: &Knobs) {
        if let Some(limit) = knobs.pass_limit {
            self.limit.store(limit, Relaxed);
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        // Read first: a failing CAS would take the line from the holder.
        (self.word.load(Relaxed) == 0 && self.acquire_fast()).then_some(())
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        self.acquire_fast().then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.queue_up(wait).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // ORDER: Release is E1.
        if self.word.compare_exchange(LOCKED, 0, Release, Relaxed).is_err() {
            self.unlock_slow();
        }
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != 0 || !self.tail.load(Relaxed).is_null()
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        self.word.fetch_and(LOCKED, Relaxed);
        self.tail.store(ptr::null_mut(), Relaxed);
    }

    unsafe fn dispose(&self) {
        self.limit.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Clock;

    use super::*;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    #[test]
    fn the_first_waiter_takes_its_marks_along_when_it_gives_up() {
        fn check<W: QueuePolicy<Native>>() {
            let lock = Shfl::<Native, W>::unlocked();
            let () = lock.lock();
            assert!(lock.try_lock_until(PAST).is_none());
            assert_eq!(lock.word.load(Relaxed), LOCKED);
            assert!(lock.tail.load(Relaxed).is_null());
            // SAFETY: locked above.
            unsafe { lock.unlock(()) };
            assert!(!lock.is_locked());
        }
        check::<Spin>();
        check::<SpinThenPark>();
    }

    #[test]
    fn a_reserved_lock_is_not_for_newcomers() {
        let lock = Shfl::<Native, Spin>::unlocked();
        lock.word.store(LOCKED | RESERVED, Relaxed);
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock_until(PAST).is_some(), "the first in the queue");
        assert_eq!(lock.word.load(Relaxed), LOCKED);
    }
}
