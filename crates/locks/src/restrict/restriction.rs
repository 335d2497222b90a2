//! What GCR keeps for a contended lock: who is active, who is passive, and who may join.
//!
//! The invariants (I1 to I3) and ordering edges (E1, E2) are those of [`gcr`](super::gcr).

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, AtomicInt, DataCell, Deadline, FutexCell, Platform, PoolNode};

use super::knobs::{Knobs, Settings};
use super::passive::{Passive, Together};
use crate::api::RawLock;
use crate::competitive::backoff::Delay;
use crate::hierarchical::part::Part;
use crate::wait::poll_within;

/// Nobody is admitted out of turn.
const NONE: u32 = 0;
/// The first passive thread may join.
const APPROVED: u32 = 1;
/// The first passive thread sleeps, or is about to, until it may join.
const TOP_PARKED: u32 = 2;
/// The first passive thread has joined, and sleeps, or is about to, until an active one has left.
const JOINED_PARKED: u32 = 3;

/// Pauses between two looks for room among the active threads, at most, for each CPU that somebody else may look on.
const LOOK_EVERY: u32 = 4;

/// The part of the state that one kind of thread writes, on a cache line of its own.
#[repr(align(64))]
struct Line<T>(T);

/// Read at every acquisition, written rarely: when a thread becomes passive, and when the first passive thread sleeps,
/// looks or joins.
struct Gate<P: Platform, S: Passive<P>> {
    settings: P::Data<Settings>,
    /// 1 while restriction is on.
    enabled: P::U32,
    /// The queue of passive threads: a lock whose holder is the first of them.
    queue: S::Queue,
    /// One more than the node that the last passive thread to be admitted ran on; 0 = none was yet.
    preferred: P::U32,
    /// `NONE`, `APPROVED`, `TOP_PARKED` or `JOINED_PARKED`.
    approved: P::Futex,
    /// Pauses between two looks at the number of active threads; only the first passive thread uses it.
    next_check: P::U32,
}

/// Written at every acquisition. On one line, although different threads write the two counters: whoever joins reads
/// both, and the holder has the line when it leaves. Two lines would travel twice for every pair.
struct Counts<P: Platform> {
    /// Written by threads that become active.
    ingress: P::U32,
    /// Written by the holder (I2).
    egress: P::U32,
    /// The holder's (I1).
    acquisitions: P::Data<u32>,
    /// The holder's (I1).
    counted: P::Data<bool>,
}

/// What a lock gets once it has been contended.
#[repr(C)]
pub struct Restriction<P: Platform, S: Passive<P> = Together> {
    gate: Line<Gate<P, S>>,
    counts: Line<Counts<P>>,
}

impl<P: Platform, S: Passive<P>> core::fmt::Debug for Restriction<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Restriction")
            .field("enabled", &self.gate.0.enabled.load(Relaxed))
            .field("active", &self.active())
            .finish_non_exhaustive()
    }
}

impl<P: Platform, S: Passive<P>> PoolNode<P> for Restriction<P, S> {
    fn new() -> Self {
        Self {
            gate: Line(Gate {
                settings: P::Data::new(Settings::UNSET),
                enabled: P::U32::new(0),
                queue: S::queue(),
                preferred: P::U32::new(0),
                approved: P::Futex::new(NONE),
                next_check: P::U32::new(1),
            }),
            counts: Line(Counts {
                ingress: P::U32::new(0),
                egress: P::U32::new(0),
                acquisitions: P::Data::new(0),
                counted: P::Data::new(false),
            }),
        }
    }
}

impl<P: Platform, S: Passive<P>> Restriction<P, S> {
    pub(super) fn settings(&self) -> Settings {
        // SAFETY: written once, before the state was published (E1).
        unsafe { self.gate.0.settings.get() }
    }

    /// An estimate of the active threads; it can be off by those that change a counter meanwhile.
    fn active(&self) -> i32 {
        let counts = &self.counts.0;
        counts.ingress.load(Relaxed).wrapping_sub(counts.egress.load(Relaxed)) as i32
    }

    /// Sets what never changes later, before the state is published (E1).
    ///
    /// # Safety
    ///
    /// Nobody else knows of the state yet.
    pub(super) unsafe fn configure(&self, knobs: &Knobs) {
        // SAFETY: the caller's contract.
        unsafe { self.gate.0.settings.set(knobs.settle::<P>()) };
        S::configure(&self.gate.0.queue, knobs);
    }

    /// How many threads may be active beside one that is: the admitted ones, and another that joins out of turn.
    pub(super) fn crowd(&self) -> u32 {
        self.settings().active.unsigned_abs() + 1
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.gate.0.enabled.load(Relaxed) != 0
    }

    pub(super) fn enable(&self) {
        self.gate.0.enabled.store(1, Relaxed);
    }

    /// Makes the calling thread active, after a time as a passive one if there are enough. Returns false
    /// if the deadline passed first. The thread is registered as a waiter for `address`.
    pub(super) fn become_active(&self, address: usize, deadline: Option<Deadline>) -> bool {
        if self.is_eligible() && self.join_active() {
            return true;
        }
        let queue = &self.gate.0.queue;
        let Some(top) = queue.acquire_for(address, deadline) else { return false };
        let admitted = self.wait_at_top(deadline);
        if admitted {
            if S::BY_NODE {
                self.gate.0.preferred.store(P::node() as u32 + 1, Relaxed);
            }
            self.counts.0.ingress.fetch_add(1, Relaxed);
            self.wait_for_room(deadline);
        }
        // SAFETY: the token of the acquisition above.
        unsafe { queue.unlock(top) };
        admitted
    }

    /// Whether the calling thread may become active without having been passive: by node, only threads of the preferred one
    /// may while others wait, so that the active ones soon are of that node.
    #[inline(always)]
    fn is_eligible(&self) -> bool {
        let gate = &self.gate.0;
        if !S::BY_NODE {
            return true;
        }
        let preferred = gate.preferred.load(Relaxed);
        preferred == 0 || preferred == P::node() as u32 + 1 || !gate.queue.is_locked()
    }

    /// Gives back what the passive set keeps.
    ///
    /// # Safety
    ///
    /// Nobody uses the lock any more.
    pub(super) unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.gate.0.queue.dispose() };
    }

    /// Waits, as the first passive thread that has just joined and may be one too many, until another has left, since
    /// it keeps new ones from joining. Were it to spin in the lock instead, it could do so on the very CPU that the
    /// holder needs. Ends early at the deadline, or when the next thread is to be admitted out of turn.
    fn wait_for_room(&self, deadline: Option<Deadline>) {
        let Settings { active, spin, .. } = self.settings();
        let has_room = || (self.active() <= active + 1).then_some(());
        if poll_within::<P, _>(spin.saturating_add(1), has_room).is_none() {
            self.sleep_at_top(JOINED_PARKED, active + 1, deadline);
        }
    }

    /// Makes the calling thread active if few enough are, now or within about the time that sleeping would cost: most
    /// collisions are with holders that run and are about to leave. It looks more and more rarely, up to a bound: every
    /// look takes from the holder the line that the holder is about to write, and there may be one looking on each
    /// other CPU. On a machine with few of them rare looks would but miss the moment at which there is room.
    fn join_active(&self) -> bool {
        let Settings { active, spin, .. } = self.settings();
        let counts = &self.counts.0;
        let join = || {
            let ingress = counts.ingress.load(Relaxed);
            // The CAS fails if others have joined since, and `egress` only grows: there are never too many.
            let others = ingress.wrapping_sub(counts.egress.load(Relaxed)) as i32;
            let joined = others <= active
                && counts
                    .ingress
                    .compare_exchange(ingress, ingress.wrapping_add(1), Relaxed, Relaxed)
                    .is_ok();
            joined.then_some(())
        };
        let mut delay = Delay::new::<P>(spin.min(LOOK_EVERY * (P::parallelism() as u32).saturating_sub(2)));
        let mut left = spin;
        while join().is_none() {
            if left == 0 {
                return false;
            }
            left = left.saturating_sub(delay.pause::<P>());
        }
        true
    }

    /// Notes that the new holder counted itself in.
    ///
    /// # Safety
    ///
    /// The calling thread holds the lock (I1).
    pub(super) unsafe fn count_holder(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.counts.0.counted.set(true) };
    }

    /// In a child after `fork`: forgets the passive threads and the active ones except a counted holder.
    ///
    /// # Safety
    ///
    /// Nobody else uses the lock.
    pub(super) unsafe fn forget_waiters(&self, is_locked: bool) {
        self.gate.0.queue.clear();
        self.gate.0.approved.store(NONE, Relaxed);
        let counts = &self.counts.0;
        // SAFETY: the caller's contract.
        let counted = unsafe { counts.counted.get() } && is_locked;
        // SAFETY: as above.
        unsafe { counts.counted.set(counted) };
        counts.ingress.store(counts.egress.load(Relaxed).wrapping_add(u32::from(counted)), Relaxed);
    }

    /// Waits, as the first passive thread, until it may join. Returns false at the deadline.
    fn wait_at_top(&self, deadline: Option<Deadline>) -> bool {
        let Settings { join, check_max, spin, .. } = self.settings();
        let gate = &self.gate.0;
        let mut next_check = gate.next_check.load(Relaxed);
        let mut until_check = 0;
        let mut left = spin;
        while left > 0 {
            if self.take_approval() {
                return true;
            }
            if until_check == 0 {
                if self.active() <= join {
                    // The next thread at the top watches closely again.
                    gate.next_check.store(1, Relaxed);
                    return true;
                }
                next_check = next_check.saturating_mul(2).min(check_max);
                gate.next_check.store(next_check, Relaxed);
                until_check = next_check;
            }
            let paused = P::pause_within(left.min(until_check));
            until_check = until_check.saturating_sub(paused);
            left = left.saturating_sub(paused);
        }
        self.sleep_at_top(TOP_PARKED, join, deadline)
    }

    /// Sleeps as `parked` until approved, or until no more than `limit` threads are active. Returns false at the deadline.
    fn sleep_at_top(&self, parked: u32, limit: i32, deadline: Option<Deadline>) -> bool {
        let approved = &self.gate.0.approved;
        loop {
            // Fails only when an approval is there, which the next line takes.
            let _ = approved.compare_exchange(NONE, parked, Relaxed, Relaxed);
            P::heavy_barrier(); // ORDER: E2.
            if self.take_approval() {
                return true;
            }
            if self.active() <= limit {
                approved.store(NONE, Relaxed);
                return true;
            }
            if approved.wait(parked, deadline).is_err() {
                return approved.swap(NONE, Relaxed) == APPROVED;
            }
        }
    }

    fn take_approval(&self) -> bool {
        let approved = &self.gate.0.approved;
        // Only the thread at the top takes approvals, so a load and a store do not race with another taker.
        let given = approved.load(Relaxed) == APPROVED;
        if given {
            approved.store(NONE, Relaxed);
        }
        given
    }

    /// Lets the first passive thread in. Returns the word to wake if it sleeps.
    fn approve(&self) -> Option<*const P::Futex> {
        let approved = &self.gate.0.approved;
        let sleeps = matches!(approved.swap(APPROVED, Relaxed), TOP_PARKED | JOINED_PARKED);
        sleeps.then_some(ptr::from_ref(approved))
    }

    /// Called after the number of active threads fell: returns whom to wake, if the first passive thread
    /// sleeps and need not any more.
    fn after_leaving(&self) -> Option<*const P::Futex> {
        P::light_barrier(); // ORDER: E2.
        let limit = match self.gate.0.approved.load(Relaxed) {
            TOP_PARKED => self.settings().join,
            JOINED_PARKED => self.settings().active + 1,
            _ => return None,
        };
        if self.active() <= limit { self.approve() } else { None }
    }

    /// The counting part of a release, by the holder.
    pub(super) fn release(&self) -> Option<*const P::Futex> {
        let counts = &self.counts.0;
        // SAFETY: I1: we hold the lock.
        if !unsafe { counts.counted.get() } {
            return None;
        }
        // SAFETY: I1.
        unsafe { counts.counted.set(false) };
        // SAFETY: I1.
        let acquisitions = unsafe { counts.acquisitions.get() } + 1;
        let due = acquisitions >= self.settings().promote;
        // SAFETY: I1.
        unsafe { counts.acquisitions.set(if due { 0 } else { acquisitions }) };
        let promoted = if due { self.promote() } else { None };
        // ORDER: a plain store suffices: only the holder writes it (I2).
        counts.egress.store(counts.egress.load(Relaxed).wrapping_add(1), Relaxed);
        promoted.or_else(|| self.after_leaving())
    }

    /// Admits the first passive thread, or ends the restriction where there is none and few are active.
    #[cold]
    fn promote(&self) -> Option<*const P::Futex> {
        if self.gate.0.queue.is_locked() {
            return self.approve();
        }
        if self.active() <= self.settings().idle {
            self.gate.0.enabled.store(0, Relaxed);
        }
        None
    }

    /// Counts a thread out that gave up without having had the lock.
    pub(super) fn give_up(&self) {
        self.counts.0.ingress.fetch_sub(1, Relaxed);
        // Of a release and this, one sees that the other has left.
        P::heavy_barrier(); // ORDER: E2, against a release.
        wake::<P>(self.after_leaving());
    }
}

/// Wakes the first passive thread, if it is one that sleeps.
pub(super) fn wake<P: Platform>(sleeper: Option<*const P::Futex>) {
    if let Some(word) = sleeper {
        // SAFETY: a word of pool memory, which stays mapped; a late wake is spurious.
        unsafe { FutexCell::wake(word, 1) };
    }
}
