//! What GCR keeps for a contended lock: which threads are active, which are passive, and which may join.
//!
//! The invariants (I1 to I4) and ordering edges (E1 to E5) are those of [`gcr`](super::gcr).
//!
//! # State
//!
//! The word `ingress`:
//!
//! | bits  | name     | meaning                                                          |
//! |-------|----------|------------------------------------------------------------------|
//! | 0–31  | count    | threads that have counted themselves in, of all times, but for those that gave up |
//! | 32–61 | epoch    | how often the state was about to be taken from a lock            |
//! | 62    |          | a carry of the epoch, which the next end of a closure clears     |
//! | 63    | `CLOSED` | a thread is about to take the state: nobody joins                |
//!
//! Counts wrap around; the carry goes to the epoch, of which any change will do.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{
    AtomicCell, AtomicInt, Clock, DataCell, Deadline, FutexCell, Platform, PoolNode, PooledState,
};

use super::knobs::Settings;
use super::passive::{APPROVED, ByNode, JOINED_PARKED, NONE, Passive, Queue, TOP_PARKED, Together};
use crate::api::{Apart, RawLock};
use crate::competitive::backoff::Delay;
use crate::knobs::Knobs;
use crate::state::{Claimed, State, take_back, take_free};
use crate::wait::{Wait, expired, poll_within};

/// Of `asleep`: a thread that is the first of its queue, and sleeps until it may join.
const A_TOP: u32 = 1;
/// Of `asleep`: one that has joined, and sleeps until an active one has left.
const A_JOINED: u32 = 1 << 16;

/// Pauses between two looks for room among the active threads, at most, for each CPU that somebody else may look on.
const LOOK_EVERY: u32 = 4;

/// Of so many acquisitions one is watched.
const WATCHED: u32 = 8;
/// Watched acquisitions that took too long, after so many of which a passive thread is admitted. Up to fifteen active threads that take
/// turns so admit one each in turn: this has no divisor with their number.
const TOO_LONG: u32 = 17;

/// Whether the acquisition of this number is watched. Few active threads take turns in a fixed order: every eighth would always be
/// the same thread's.
#[inline]
const fn is_watched(number: u32) -> bool {
    (number ^ (number / WATCHED)).is_multiple_of(WATCHED)
}

/// Looks at a deadline now and then, for a thread that pauses.
struct Watch {
    deadline: Option<Deadline>,
    /// Pauses before the next look.
    left: u32,
}

impl Watch {
    /// Pauses between two looks.
    const INTERVAL: u32 = 1 << 10;

    fn new(deadline: Option<Deadline>) -> Self {
        Self { deadline, left: Self::INTERVAL }
    }

    /// Whether the deadline was seen to have passed, by a thread that has paused so often since it asked last.
    fn is_over<P: Platform>(&mut self, paused: u32) -> bool {
        let Some(deadline) = self.deadline else { return false };
        if self.left > paused {
            self.left -= paused;
            return false;
        }
        self.left = Self::INTERVAL;
        expired::<P>(deadline)
    }
}

const EPOCH: usize = 1 << 32;
const CLOSED: usize = 1 << 63;
const EPOCHS: usize = (1 << 62) - EPOCH;

/// What came of a thread's look for room among the active threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It is one of them.
    Joined,
    /// There was none in time.
    NoRoom,
    /// The state is another lock's by now.
    NotOurs,
}

/// What a thread has to know to look for room, in one word: the state may be about to become another lock's, or be so already.
#[derive(Clone, Copy)]
struct Terms {
    /// As [`Settings::active`].
    active: i32,
    /// As [`Settings::spin`].
    spin: u32,
}

impl Terms {
    fn of(settings: Settings) -> Self {
        Self { active: settings.active, spin: settings.spin }
    }

    fn into_word(self) -> usize {
        self.active.cast_unsigned() as usize | (self.spin as usize) << 32
    }

    fn from_word(word: usize) -> Self {
        Self { active: (word as u32).cast_signed(), spin: (word >> 32) as u32 }
    }
}

/// Read at every acquisition, written rarely: when a thread becomes passive, and when the first passive thread sleeps,
/// looks or joins.
struct Gate<P: Platform, S: Passive<P>> {
    settings: P::Data<Settings>,
    /// A part of `settings`: see [`Terms`].
    terms: P::Usize,
    /// 1 while restriction is on.
    enabled: P::U32,
    /// First passive threads that sleep, as `A_TOP` and `A_JOINED`.
    asleep: P::U32,
    queues: S::Queues,
}

/// Written at every acquisition. On one line, although different threads write the two counters: whoever joins reads
/// both, and the holder has the line when it leaves. Two lines would travel twice for every pair.
struct Counts<P: Platform> {
    /// Written by threads that become active: see the module.
    ingress: P::Usize,
    /// Written by the holder (I2).
    egress: P::U32,
    /// As `egress`, of those that do not look at the state any more either (I4). Written by the holder.
    left: P::U32,
    /// The holder's (I1).
    acquisitions: P::Data<u32>,
    /// Watched acquisitions that took too long. The holder's (I1).
    late: P::Data<u32>,
    /// The address of the lock whose holder counted itself in, or 0. The holder's (I1); others find that it is not theirs.
    counted: P::Usize,
    /// Whose the state is, and how many use it without being active (I4).
    claim: Claimed<P>,
    /// Acquisitions since the turn of a queue began. The holder's (I1).
    turned: P::Data<u32>,
}

impl<P: Platform> Counts<P> {
    /// How many are active by this value of `ingress`.
    fn since(&self, ingress: usize) -> i32 {
        (ingress as u32).wrapping_sub(self.egress.load(Relaxed)).cast_signed()
    }
}

/// What a lock gets once it has been contended.
#[repr(C)]
pub struct Restriction<P: Platform, S: Passive<P> = Together> {
    gate: Apart<Gate<P, S>>,
    counts: Apart<Counts<P>>,
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
            gate: Apart(Gate {
                settings: P::Data::new(Settings::UNSET),
                terms: P::Usize::new(Terms::of(Settings::UNSET).into_word()),
                enabled: P::U32::new(0),
                asleep: P::U32::new(0),
                queues: S::queues(),
            }),
            counts: Apart(Counts {
                ingress: P::Usize::new(0),
                egress: P::U32::new(0),
                left: P::U32::new(0),
                acquisitions: P::Data::new(0),
                late: P::Data::new(0),
                counted: P::Usize::new(0),
                claim: Claimed::new(),
                turned: P::Data::new(0),
            }),
        }
    }
}

impl<P: Platform, S: Passive<P>> PooledState<P> for Restriction<P, S> {
    fn take_back(&self) -> bool {
        let counts = &self.counts.0;
        // A hint: a lock that is in use is left alone, whose threads may have to wait for the end of an attempt.
        counts.ingress.load(Relaxed) as u32 == counts.left.load(Relaxed) && take_back(self)
    }

    fn take_free(&self) -> bool {
        take_free(self)
    }

    /// No thread is active, and none joins (I4).
    fn close(&self) -> Option<usize> {
        let counts = &self.counts.0;
        let left = counts.left.load(Acquire); // ORDER: E4.
        let seen = counts.ingress.load(Relaxed);
        // `left` never passes the count. The exchange finds the count unchanged, and equal to a `left` that was read before: so all that
        // came have left.
        let is_closed = seen as u32 == left
            && counts.ingress.compare_exchange(seen, seen | CLOSED, Relaxed, Relaxed).is_ok();
        is_closed.then_some(seen)
    }

    fn open(&self, closed: usize) {
        let epoch = closed.wrapping_add(EPOCH) & EPOCHS;
        self.counts.0.ingress.store(epoch | closed & (EPOCH - 1), Release); // ORDER: E5.
    }

    unsafe fn clear(&self) {
        // SAFETY: the caller's contract.
        unsafe { S::dispose(&self.gate.0.queues) };
    }
}

impl<P: Platform, S: Passive<P>> State<P> for Restriction<P, S> {
    fn claim(&self) -> &Claimed<P> {
        &self.counts.0.claim
    }
}

impl<P: Platform> Restriction<P, ByNode> {
    pub(super) fn preferred_node(&self) -> usize {
        self.gate.0.queues.preferred()
    }
}

impl<P: Platform, S: Passive<P>> Restriction<P, S> {
    pub(super) fn settings(&self) -> Settings {
        // SAFETY: written before it became this lock's, whose user, or one of whose active threads, the caller is (E1, I4).
        unsafe { self.gate.0.settings.get() }
    }

    /// An estimate of the active threads; it can be off by those that change a counter meanwhile.
    fn active(&self) -> i32 {
        let counts = &self.counts.0;
        counts.since(counts.ingress.load(Relaxed))
    }

    /// Prepares it for another lock, with these knobs. Nobody uses it.
    pub(super) fn configure(&self, knobs: &Knobs) {
        let gate = &self.gate.0;
        let settings = knobs.settle::<P>();
        // SAFETY: I4: nobody else uses the state, and E1 publishes it.
        unsafe { gate.settings.set(settings) };
        gate.terms.store(Terms::of(settings).into_word(), Relaxed);
        gate.enabled.store(0, Relaxed);
        S::visit(&gate.queues, Queue::renew);
        gate.asleep.store(0, Relaxed);
        // The counts go on from where they are, so that E5 reaches all that join from now on.
        let counts = &self.counts.0;
        // SAFETY: as above.
        unsafe { counts.acquisitions.set(0) };
        // SAFETY: as above.
        unsafe { counts.late.set(0) };
        // SAFETY: as above.
        unsafe { counts.turned.set(0) };
    }

    /// Whether the holder of the lock at `address`, who asks, has counted itself in here.
    #[inline(always)]
    pub(super) fn counts(&self, address: usize) -> bool {
        self.counts.0.counted.load(Relaxed) == address // ORDER: Relaxed: the holder's own.
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
    /// if the deadline passed first. The thread is a user of the state, and has looked for room if it `has_looked`.
    pub(super) fn become_active(&self, wait: &Wait, has_looked: bool) -> bool {
        let queues = &self.gate.0.queues;
        let queue = S::own(queues);
        if !has_looked && self.join_active(queue, wait.deadline) {
            return true;
        }
        let Some(top) = queue.first.lock_with(wait) else { return false };
        let admitted = self.wait_at_top(queue, wait.deadline);
        if admitted {
            self.counts.0.ingress.fetch_add(1, Relaxed);
            self.wait_for_room(queue, wait.deadline);
        }
        // SAFETY: the token of the acquisition above.
        unsafe { queue.first.unlock(top) };
        if S::BY_NODE && !admitted {
            // It may have been the last of the preferred queue, and those of the others are eligible now.
            P::heavy_barrier(); // ORDER: E2, against one that goes to sleep.
            wake::<P>(self.after_leaving());
        }
        admitted
    }

    /// Waits, as the first passive thread that has just joined and may be one too many, until another has left, since
    /// it keeps new ones from joining. Were it to spin in the lock instead, it could do so on the very CPU that the
    /// holder needs. Ends early at the deadline, or when the next thread is to be admitted out of turn.
    fn wait_for_room(&self, queue: &Queue<P>, deadline: Option<Deadline>) {
        let Settings { active, spin, .. } = self.settings();
        let has_room = || (self.active() <= active + 1).then_some(());
        let mut watch = Watch::new(deadline);
        let mut left = spin.saturating_add(1);
        while left > 0 {
            let now = left.min(Watch::INTERVAL);
            if poll_within::<P, _>(now, has_room).is_some() {
                return;
            }
            if watch.is_over::<P>(now) {
                break;
            }
            left -= now;
        }
        self.sleep_at_top(queue, JOINED_PARKED, deadline);
    }

    /// As [`Restriction::look_for_room`], by a user of the state, in this queue.
    fn join_active(&self, queue: &Queue<P>, deadline: Option<Deadline>) -> bool {
        let room = |active| self.room_for(queue, active);
        self.look_for_room(room, || true, deadline) == Look::Joined
    }

    /// As [`Restriction::look_for_room`], by a thread that is no user of the state, which `is_ours` tells to be the lock's or another's.
    /// Where the threads of one node are preferred, only users can tell whether there is room.
    pub(super) fn join_at_once(&self, is_ours: impl Fn() -> bool, deadline: Option<Deadline>) -> Look {
        if S::BY_NODE { Look::NoRoom } else { self.look_for_room(|active| active, is_ours, deadline) }
    }

    /// Makes the calling thread active if few enough are, now or within about the time that sleeping would cost: most
    /// collisions are with holders that run and are about to leave. Not beyond the deadline. It looks more and more rarely, up to a bound: every
    /// look takes from the holder the line that the holder is about to write, and there may be one looking on each
    /// other CPU. On a machine with few of them rare looks would but miss the moment at which there is room.
    fn look_for_room(
        &self,
        room: impl Fn(i32) -> i32,
        is_ours: impl Fn() -> bool,
        deadline: Option<Deadline>,
    ) -> Look {
        let Terms { active, spin } = Terms::from_word(self.gate.0.terms.load(Relaxed));
        let mut delay = Delay::new::<P>(spin.min(LOOK_EVERY * (P::parallelism() as u32).saturating_sub(2)));
        let mut watch = Watch::new(deadline);
        let mut left = spin;
        loop {
            let look = self.try_to_join(room(active), &is_ours);
            if look != Look::NoRoom || left == 0 {
                return look;
            }
            let paused = delay.pause::<P>();
            if watch.is_over::<P>(paused) {
                return Look::NoRoom;
            }
            left = left.saturating_sub(paused);
        }
    }

    /// Counts the calling thread in, if no more than `room` are active, and if the state is its lock's until then.
    fn try_to_join(&self, room: i32, is_ours: impl Fn() -> bool) -> Look {
        let counts = &self.counts.0;
        let seen = counts.ingress.load(Acquire); // ORDER: E5: whose it is is not older.
        if !is_ours() {
            return Look::NotOurs;
        }
        // The CAS fails if others have joined since, or if the state was closed; and `egress` only grows: there are never too many.
        let joined = seen & CLOSED == 0
            && counts.since(seen) <= room
            && counts.ingress.compare_exchange(seen, seen.wrapping_add(1), Relaxed, Relaxed).is_ok();
        if joined { Look::Joined } else { Look::NoRoom }
    }

    /// How many threads may be active when one of this queue joins them: `most` where the queue is eligible, else no more than the
    /// holder. So the lock is not left free for a thread of the preferred node that sleeps, or has no CPU.
    fn room_for(&self, queue: &Queue<P>, most: i32) -> i32 {
        if S::are_eligible(&self.gate.0.queues, queue) { most } else { most.min(ALONE) }
    }

    /// Notes that the new holder of the lock at `address` counted itself in.
    ///
    /// # Safety
    ///
    /// The calling thread holds the lock (I1).
    pub(super) unsafe fn count_holder(&self, address: usize) {
        self.counts.0.counted.store(address, Relaxed); // ORDER: Relaxed: the holders' own.
    }

    /// When the calling thread, which has just become active, began to wait for the lock, if it is one of those that look.
    #[inline]
    pub(super) fn begin_to_watch(&self) -> Option<u64> {
        is_watched(self.counts.0.ingress.load(Relaxed) as u32).then(|| P::now(Clock::Monotonic))
    }

    /// Has the active threads change sooner, if the wait that began at `begun` took longer than one and a half context-switch
    /// round trips. With as few threads before it as may be active that is a sign of two on one CPU: each of them is handed the lock
    /// while the other spins there for a round trip, for as long as both are active. A thread that then admits another
    /// finds too many active ones itself when it comes back, and becomes passive.
    ///
    /// # Safety
    ///
    /// The calling thread holds the lock (I1).
    pub(super) unsafe fn end_watching(&self, begun: u64) {
        if P::now(Clock::Monotonic).saturating_sub(begun) > P::round_trip_ns() * 3 / 2 {
            let late = &self.counts.0.late;
            // SAFETY: I1.
            let counted = unsafe { late.get() };
            // SAFETY: I1.
            unsafe { late.set(counted + 1) };
        }
    }

    /// In a child after `fork`: forgets the passive threads and the active ones except a counted holder.
    ///
    /// # Safety
    ///
    /// Nobody else uses the lock.
    pub(super) unsafe fn forget_waiters(&self, is_locked: bool) {
        S::visit(&self.gate.0.queues, Queue::forget);
        self.gate.0.asleep.store(0, Relaxed);
        let counts = &self.counts.0;
        let counted = counts.counted.load(Relaxed) != 0 && is_locked;
        if !counted {
            counts.counted.store(0, Relaxed);
        }
        counts.claim.forget(0);
        let left = counts.egress.load(Relaxed);
        counts.left.store(left, Relaxed);
        let epoch = counts.ingress.load(Relaxed) & EPOCHS;
        counts.ingress.store(epoch | left.wrapping_add(u32::from(counted)) as usize, Relaxed);
    }

    /// Waits, as the first passive thread, until it may join. Returns false at the deadline.
    fn wait_at_top(&self, queue: &Queue<P>, deadline: Option<Deadline>) -> bool {
        let Settings { check_max, spin, .. } = self.settings();
        let mut next_check = queue.next_check.load(Relaxed);
        let mut until_check = 0;
        let mut watch = Watch::new(deadline);
        let mut left = spin;
        while left > 0 {
            if take_approval(queue) {
                return true;
            }
            if until_check == 0 {
                if self.may_go_on(queue, TOP_PARKED) {
                    // The next thread at the top watches closely again.
                    queue.next_check.store(1, Relaxed);
                    return true;
                }
                next_check = next_check.saturating_mul(2).min(check_max);
                queue.next_check.store(next_check, Relaxed);
                until_check = next_check;
            }
            let paused = P::pause_within(left.min(until_check));
            if watch.is_over::<P>(paused) {
                break;
            }
            until_check = until_check.saturating_sub(paused);
            left = left.saturating_sub(paused);
        }
        self.sleep_at_top(queue, TOP_PARKED, deadline)
    }

    /// Whether the first of a queue, which sleeps or would sleep as `parked`, need not. Threads that have joined and sleep
    /// hinder no other: several queues can have one (two that join at the same moment, or one that is admitted out
    /// of turn), and each must not wait for the others. The last of them to count itself in `asleep` sees them all.
    fn may_go_on(&self, queue: &Queue<P>, parked: u32) -> bool {
        let Settings { active, join, .. } = self.settings();
        match parked {
            JOINED_PARKED => self.active() - joined_asleep(self.gate.0.asleep.load(Relaxed)) <= active,
            _ => self.active() <= self.room_for(queue, join),
        }
    }

    /// Sleeps as `parked` until approved, or until it may go on. Returns false at the deadline.
    fn sleep_at_top(&self, queue: &Queue<P>, parked: u32, deadline: Option<Deadline>) -> bool {
        let asleep = &self.gate.0.asleep;
        let share = if parked == JOINED_PARKED { A_JOINED } else { A_TOP };
        asleep.fetch_add(share, Relaxed);
        let approved = &queue.approved;
        let goes_on = loop {
            // Fails only when an approval is there, which the next line takes.
            let _ = approved.compare_exchange(NONE, parked, Relaxed, Relaxed);
            P::heavy_barrier(); // ORDER: E2.
            if take_approval(queue) {
                break true;
            }
            if self.may_go_on(queue, parked) {
                approved.store(NONE, Relaxed);
                break true;
            }
            if approved.wait(parked, deadline).is_err() {
                break approved.swap(NONE, Relaxed) == APPROVED;
            }
        };
        asleep.fetch_sub(share, Relaxed);
        goes_on
    }

    /// Called after the number of active threads fell: returns whom to wake, if the first passive thread of a queue
    /// sleeps and need not any more.
    fn after_leaving(&self) -> Option<*const P::Futex> {
        P::light_barrier(); // ORDER: E2.
        let asleep = self.gate.0.asleep.load(Relaxed);
        if asleep == 0 {
            return None;
        }
        let (Settings { active, join, .. }, now) = (self.settings(), self.active());
        let joined = joined_asleep(asleep);
        let joined_may_go_on = joined > 0 && now - joined <= active;
        let may_matter = joined_may_go_on || asleep % A_JOINED > 0 && now <= join;
        // Every queue that is looked at comes from another node, and a next holder waits meanwhile.
        if may_matter { self.find_sleeper(joined_may_go_on || now <= ALONE) } else { None }
    }

    /// Approves the first passive thread of a queue that sleeps and need not any more. Nobody, if one is on its way that was
    /// approved before: it calls [`Restriction::after_leaving`] itself, when it releases the lock or gives up. Looks at `all` queues,
    /// or at the eligible ones.
    fn find_sleeper(&self, all: bool) -> Option<*const P::Futex> {
        let found = S::find(&self.gate.0.queues, all, |queue| match queue.approved.load(Relaxed) {
            NONE => None,
            APPROVED => Some(None),
            parked => self.may_go_on(queue, parked).then(|| approve(queue)),
        });
        found.flatten()
    }

    /// The counting part of a release.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, and is counted.
    pub(super) unsafe fn release(&self) -> Option<*const P::Futex> {
        let counts = &self.counts.0;
        counts.counted.store(0, Relaxed);
        // SAFETY: I1.
        let acquisitions = unsafe { counts.acquisitions.get() } + 1;
        // SAFETY: I1.
        let due = acquisitions >= self.settings().promote || unsafe { counts.late.get() } >= TOO_LONG;
        // SAFETY: I1.
        unsafe { counts.acquisitions.set(if due { 0 } else { acquisitions }) };
        if due {
            // SAFETY: I1.
            unsafe { counts.late.set(0) };
        }
        let promoted = if due { self.promote() } else { None };
        if S::BY_NODE {
            // SAFETY: I1.
            let turned = unsafe { counts.turned.get() } + 1;
            let is_over = turned >= self.settings().turn;
            // SAFETY: I1.
            unsafe { counts.turned.set(if is_over { 0 } else { turned }) };
            if is_over {
                S::begin_next_turn(&self.gate.0.queues);
            }
        }
        // ORDER: a plain store suffices: only the holder writes it (I2).
        let left = counts.egress.load(Relaxed).wrapping_add(1);
        counts.egress.store(left, Relaxed);
        let sleeper = promoted.or_else(|| self.after_leaving());
        counts.left.store(left, Release); // I4. ORDER: E4.
        sleeper
    }

    /// Admits the first passive thread, or ends the restriction where there is none and few are active.
    #[cold]
    fn promote(&self) -> Option<*const P::Futex> {
        if let Some(sleeper) = S::find(&self.gate.0.queues, true, |queue| Some(approve(queue))) {
            return sleeper;
        }
        if self.active() <= self.settings().idle {
            self.gate.0.enabled.store(0, Relaxed);
        }
        None
    }

    /// Counts a thread out that gave up without having had the lock. It is a user of the state again.
    pub(super) fn give_up(&self) {
        self.counts.0.ingress.fetch_sub(1, Relaxed);
        // Of a release and this, one sees that the other has left.
        P::heavy_barrier(); // ORDER: E2, against a release.
        wake::<P>(self.after_leaving());
    }
}

/// The holder of the lock, and no other active thread.
const ALONE: i32 = 1;

/// Of `asleep`: how many have joined.
fn joined_asleep(asleep: u32) -> i32 {
    (asleep / A_JOINED) as i32
}

/// Takes the approval of the first thread of a queue, which is the caller, if there is one.
fn take_approval<P: Platform>(queue: &Queue<P>) -> bool {
    // Only the thread at the top takes approvals, so a load and a store do not race with another taker.
    let given = queue.approved.load(Relaxed) == APPROVED;
    if given {
        queue.approved.store(NONE, Relaxed);
    }
    given
}

/// Lets the first of a queue in. Returns the word to wake if it sleeps.
fn approve<P: Platform>(queue: &Queue<P>) -> Option<*const P::Futex> {
    let sleeps = matches!(queue.approved.swap(APPROVED, Relaxed), TOP_PARKED | JOINED_PARKED);
    sleeps.then_some(ptr::from_ref(&queue.approved))
}

/// Wakes the first passive thread, if it is one that sleeps.
pub(super) fn wake<P: Platform>(sleeper: Option<*const P::Futex>) {
    if let Some(word) = sleeper {
        // SAFETY: a word of pool memory, which stays mapped; a late wake is spurious.
        unsafe { FutexCell::wake(word, 1) };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use lockwork_platform::{Cpu, Native};

    use super::*;

    /// A thread of this queue becomes active, acquires the lock, for which it has waited since `begun`, and releases it.
    fn section<S: Passive<Native>>(state: &Restriction<Native, S>, queue: &Queue<Native>, begun: u64) {
        assert!(state.join_active(queue, None));
        // SAFETY: nobody else has the lock that the state is of.
        unsafe { state.end_watching(begun) };
        // SAFETY: as above.
        unsafe { state.count_holder(8) };
        // SAFETY: as above.
        let sleeper = unsafe { state.release() };
        assert!(sleeper.is_none(), "nobody sleeps");
    }

    #[test]
    fn threads_of_other_nodes_join_only_where_no_more_than_the_holder_is_active() {
        let state: Restriction<Native, ByNode> = PoolNode::new();
        state.configure(&Knobs { active: Some(4), join: Some(2), spin: Some(0), ..Knobs::default() });
        let queues = &state.gate.0.queues;
        let [preferred, other] = [0, 1].map(|node| queues.queue(node).expect("memory"));
        let passive = preferred.first.lock();
        assert!(state.may_go_on(other, TOP_PARKED));
        assert!(state.join_active(other, None), "nobody is active");
        assert!(state.may_go_on(other, TOP_PARKED));
        assert!(state.join_active(other, None), "one is");
        assert!(!state.join_active(other, None), "two are");
        assert!(!state.may_go_on(other, TOP_PARKED));
        assert!(state.may_go_on(preferred, TOP_PARKED));
        assert!(state.join_active(preferred, None));
        // SAFETY: acquired above.
        unsafe { preferred.first.unlock(passive) };
        assert!(state.join_active(other, None), "nobody of the preferred node is passive");
        // SAFETY: nobody uses the queues.
        unsafe { <ByNode as Passive<Native>>::dispose(queues) };
    }

    #[test]
    fn who_spins_for_long_looks_at_the_deadline() {
        let state: Restriction<Native> = PoolNode::new();
        // Some tens of seconds.
        state.configure(&Knobs {
            active: Some(0),
            join: Some(0),
            spin: Some(0x4000_0000),
            ..Knobs::default()
        });
        let queue = &state.gate.0.queues;
        assert!(state.join_active(queue, None), "nobody is active");
        let start = Native::now(Clock::Monotonic);
        let soon = || Some(Deadline::after(Clock::Monotonic, Native::now(Clock::Monotonic), 1_000_000));
        assert!(!state.become_active(&Wait::until(soon()), false));
        assert!(!state.wait_at_top(queue, soon()));
        state.counts.0.ingress.fetch_add(3, Relaxed);
        state.wait_for_room(queue, soon());
        assert!(Native::now(Clock::Monotonic).saturating_sub(start) < 5_000_000_000);
    }

    #[test]
    fn each_of_a_few_that_take_turns_is_watched_and_admits_another() {
        let watched: Vec<u32> = (0..100_000).filter(|number| is_watched(*number)).collect();
        assert_eq!(watched.len(), 100_000 / WATCHED as usize);
        for active in 2..=15 {
            let mut admit = [0; 15];
            watched
                .chunks(TOO_LONG as usize)
                .for_each(|chunk| admit[(chunk[chunk.len() - 1] % active) as usize] += 1);
            assert!(admit[..active as usize].iter().all(|times| *times > 0), "{active} active: {admit:?}");
        }
    }

    #[test]
    fn long_waits_have_a_passive_thread_admitted_sooner() {
        let state: Restriction<Native> = PoolNode::new();
        state.configure(&Knobs { active: Some(4), promote: Some(1 << 20), ..Knobs::default() });
        let queue = &state.gate.0.queues;
        let passive = queue.first.lock();
        let now = u64::MAX; // Waits that begin now take no time, those that began at 0 a long one.
        for begun in [now, 0] {
            for _ in 1..TOO_LONG {
                section(&state, queue, begun);
                assert!(!take_approval(queue));
            }
            section(&state, queue, begun);
            assert_eq!(take_approval(queue), begun == 0);
        }
        // SAFETY: acquired above.
        unsafe { queue.first.unlock(passive) };
    }
}
