//! `auto`: the lock that needs no choosing. It tries how it does best, and goes on that way.
//!
//! Our own, made of parts: the queues and the sleepers of CST (Sanidhya Kashyap, Changwoo Min and Taesoo Kim, "Scalable
//! NUMA-aware blocking synchronization primitives", USENIX ATC 2017; see [`cst`](crate::hierarchical::cst)), behind one word
//! in the manner of a futex mutex, which newcomers take when it is free. A waiter lines up for the lock of its node, then for the
//! first place among the leaders of the nodes, and the first leader takes the word. There are three ways to go on from there:
//!
//! - By node: a holder hands the lock to the next of its node that is awake, for a number of times (`may-pass-local`), then to
//!   the next leader. The word stays as it is, and newcomers find it held. It is CST's way, and the one that a lock begins with.
//! - One queue: the same, with all waiters in the queue of the first node. It is cheaper where each node has but one or two.
//! - Barging: a holder frees the word, so that whoever runs may have it; the first leader is patient for the time of a
//!   context-switch round trip before it reserves the word for itself. A thread that comes again at once has the lock, and its
//!   data, in its cache many times in a row, where every hand-over would cost several transfers.
//!
//! The ways differ in where a newcomer lines up, how the first leader waits and what a release does first. Whatever way others
//! go, that is right (see the invariants), so changing it is a store to a hint, and there is nothing to migrate or to drain.
//! Which way does best is measured, not guessed: see [`regime`].
//!
//! On several nodes a newcomer that finds the word taken directly, and not marked by a first leader, waits at the word for a while: to
//! line up, and to be the first at once, takes several lines from other nodes. It lines up as soon as the word is marked, or another
//! was faster when it was freed. (In Linux's queued spinlock the second contender waits at the word for the same reason; there it is
//! one thread, and has its turn.)
//!
//! Whether waiters spin or sleep is decided as in CST: by the load of this process, each for itself. As there a thread gives way
//! before it lines up, where threads outnumber the CPUs of several nodes.
//!
//! As long as nobody has waited for a lock, it is released by a store (I9).
//!
//! Properties: 16 bytes a lock; once somebody has waited 192 more, 128 for each node that has waited, and another 64 for each 7
//! nodes beyond the first 6; one node of 64 bytes for each waiter, none for the holder. All but the 16 go to other locks when
//! nobody waits. Newcomers overtake; waiters are FIFO within a node as CST's are, and leaders among each other. No leader is
//! overtaken for longer than it is patient, unless it sleeps: then until it has been woken. `try_lock` looks at the word only.
//!
//! # State
//!
//! ```text
//! word: 0: free │ LOCKED │ BY_NODE: by way of a node │ SLEEPER: the first leader sleeps │ RESERVED: for the first leader
//! state ─→ shared: queue of leaders, node that has the lock, way, nodes ─→ node state: waiting list, parking list, counts
//! ```
//!
//! # Invariants
//!
//! Those of CST of the locks of the nodes (I2 to I7, and the users of I9), with the first place among the leaders as its global lock, and:
//!
//! - I1: the thread that sets `LOCKED` holds the lock; and so does a thread that is handed the lock of a node together with
//!   it, or that comes first among the leaders and finds `BY_NODE`. While `BY_NODE` is set, the holder is first among the
//!   leaders and holds the lock of the node that is in `serving`; that one alone `serves`.
//! - I2: only the first leader sets `BY_NODE`, `SLEEPER` and `RESERVED`, and only in that role it takes a word that is
//!   `RESERVED`. It clears the latter two when it takes the word or gives up, `RESERVED` before it sleeps; a release clears `SLEEPER`.
//! - I3: the first place is given up with `BY_NODE` set only in favour of a leader that accepts it. Otherwise the word is
//!   freed before. So whoever comes first finds `BY_NODE` only if the lock comes with it.
//! - I4: the first leader sleeps with `SLEEPER` set and `LOCKED`; the release that clears `SLEEPER` wakes it, or the leader wakes
//!   by itself (I9).
//! - I5: a word with `BY_NODE` has neither `SLEEPER` nor `RESERVED` set, and only the holder changes it.
//! - I6: a release frees the word first, then the first place, then the lock of the node, and leaves the state last. A `fork` waits for
//!   that, and nobody needs the lock's own memory after the first step.
//! - I7: the queue in which a thread waits need not be that of its node: any will do, for who holds what is in `serving`.
//! - I8: each thread that waits or holds by way of a node uses the state (see `state`), as CST's do; and a holder that took the word
//!   directly, while it takes stock.
//! - I9: a release that sees no state is a plain store, and so may clear `RESERVED` and `SLEEPER` unseen, which a first leader has set
//!   since the word was looked at. That leader reserves the word again when it looks, and sleeps for a bounded time, of 20
//!   context-switch round trips at first and of a second or two at most. Once a leader has had the lock all who have it after that
//!   see a state (E2), since a lock that names one always names one from then on, if perhaps another lock's. So leaders sleep for as
//!   long as it takes then: `serving` says so, which is null in a fresh state, and is the first leader's to read.
//!
//! # Ordering
//!
//! - E1: a release's CAS or store to the word (Release) → the CAS of the next locker (Acquire): the critical section. The first
//!   leader's changes in between are read-modify-writes.
//! - E2: the state's pointer was published, or seen, by a leader before it had the lock; E1 orders those who have it after that behind
//!   that, so that they see no older pointer (I9).
//! - Those of CST, from a holder to the one that it hands the lock to, and from one that is first to the next.

mod regime;

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{
    AtomicCell, AtomicInt, Clock, DataCell, Deadline, FutexCell, NODE_BYTES, Native, Platform, PoolNode,
    PooledState,
};

use self::regime::{NO_PERIOD, Period, Regime, Way};
use crate::api::{Apart, RawLock, address};
use crate::describe::{Citation, Descriptor, Family, Keeps, Order, Proof, Timed};
use crate::hierarchical::cst::gives_way;
use crate::hierarchical::cst::leaders::Leaders;
use crate::hierarchical::cst::node::{self, Acquired, Attention, Chosen, NodeState, Serving};
use crate::hierarchical::cst::queue::{Queue, Waiter, held};
use crate::hierarchical::directory::{Children, Users, Whole, enter_part_or_wait};
use crate::knobs::{self, Knobs};
use crate::state::{Claimed, Lazy, State, take_back, take_free};
use crate::wait::{ROUND_TRIPS, Wait, poll_within};

/// What is known of `auto`.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "auto",
    family: Family::Adaptive,
    order: Order::LongTerm,
    order_note: "newcomers overtake for as long as the first waiter is patient; then as cst-mutex",
    bytes: 16,
    bytes_per_waiter: 64,
    keeps: Keeps::Parts,
    timed: Timed::GivesUp("in the queue of its node, in that of the leaders, or asleep"),
    proofs: &[Proof::of(file!())],
    citation: Citation {
        key: "kashyap17",
        text: "Kashyap, Min, Kim: Scalable NUMA-aware blocking synchronization primitives. USENIX ATC 2017",
    },
    summary: "measures which way does best: queues by NUMA node, one queue, or barging past a patient waiter",
    properties: "A futex word while nobody waits. Under contention it tries other ways now and then, for a short time, and keeps \
                 the one with the most releases; changing it moves nobody.",
    deviations: "Our own, made of CST's queues behind a word that newcomers may take.",
    avoid: "Where the order of arrival matters.",
    knobs: knobs::PINNED,
    ..Descriptor::MUTEX
};

const UNLOCKED: u32 = 0;
/// Of the word: held.
const LOCKED: u32 = 1;
/// Of the word of a held lock: the holder holds the lock of a node, too.
const BY_NODE: u32 = 2;
/// Of the word of a held lock: the first of the leaders sleeps, or is about to.
const SLEEPER: u32 = 4;
/// Of the word: for the first of the leaders only.
const RESERVED: u32 = 8;

/// Nodes whose states are found without a detour.
const NEAR: usize = 6;

/// How the queue of leaders is held.
const LEADING: usize = 1;

/// Sleepers of a node that are woken at a time, and hand-overs after which the one that has slept longest is.
const fn attention<const TURN: u32>() -> Attention {
    Attention { most: 1, turn: TURN }
}

/// What all nodes share: a cache line that all who come read, one that leaders write, and one that the first and the last of a
/// node's waiters write.
#[repr(C, align(64))]
pub struct Shared<P: Platform> {
    nodes: Children<P, NodeState<P>, NEAR>,
    regime: Regime<P>,
    of_leaders: OfLeaders<P>,
    claim: Apart<Claimed<P>>,
}

/// What belongs to the queue of leaders, and to the holder.
#[repr(C, align(64))]
struct OfLeaders<P: Platform> {
    /// Of the queue of leaders.
    tail: P::Ptr<Waiter<P>>,
    /// Of the queue of leaders.
    first: P::Ptr<Waiter<P>>,
    serving: P::Data<Serving<P>>,
    period: P::Data<Period>,
}

const _: () = {
    assert!(size_of::<Shared<Native>>() == 3 * NODE_BYTES);
    assert!(size_of::<Auto<Native>>() == DESCRIPTOR.bytes);
};

impl<P: Platform> core::fmt::Debug for Shared<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared").field("regime", &self.regime).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for Shared<P> {
    fn new() -> Self {
        Self {
            nodes: Children::new(),
            regime: Regime::new(),
            of_leaders: OfLeaders {
                tail: P::Ptr::new(ptr::null_mut()),
                first: P::Ptr::new(ptr::null_mut()),
                serving: P::Data::new(Serving(ptr::null_mut())),
                period: P::Data::new(NO_PERIOD),
            },
            claim: Apart(Claimed::new()),
        }
    }
}

impl<P: Platform> PooledState<P> for Shared<P> {
    fn take_back(&self) -> bool {
        take_back(self)
    }

    fn take_free(&self) -> bool {
        take_free(self)
    }

    unsafe fn clear(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.nodes.dispose(|_| {}) };
    }
}

impl<P: Platform> State<P> for Shared<P> {
    fn claim(&self) -> &Claimed<P> {
        &self.claim.0
    }

    fn prepare(&self) {
        self.regime.restart();
        // SAFETY: the state is nobody's, or its lock is about to get it: nobody else looks.
        unsafe { self.of_leaders.period.set(NO_PERIOD) };
        // SAFETY: as above.
        unsafe { self.of_leaders.serving.set(Serving(ptr::null_mut())) };
    }
}

impl<P: Platform> Whole<P> for Shared<P> {
    type Part = NodeState<P>;

    #[inline(always)]
    fn find(&self, part: usize) -> Option<&NodeState<P>> {
        self.nodes.get(part)
    }

    fn make(&self, part: usize) -> Option<&NodeState<P>> {
        self.nodes.state(part, |_| {})
    }

    #[inline(always)]
    fn users(part: &NodeState<P>) -> Users<'_, P> {
        part.users()
    }
}

impl<P: Platform> Shared<P> {
    fn leaders(&self) -> Leaders<'_, P> {
        let OfLeaders { tail, first, .. } = &self.of_leaders;
        Leaders { queue: Queue { tail, first }, address: address(self), claim: &self.claim.0 }
    }

    /// Comes first among the leaders, if nobody is that.
    fn comes_first(&self) -> bool {
        let tail = &self.of_leaders.tail;
        // It is written in any case, so its line is to come but once.
        P::prefetch_write(ptr::from_ref(tail));
        tail.load(Relaxed).is_null()
            // ORDER: Acquire is E1 of CST.
            && tail.compare_exchange(ptr::null_mut(), held::<P>(LEADING), Acquire, Relaxed).is_ok()
    }

    /// Takes so many threads of that node off the users of the state.
    fn leave(&self, state: &NodeState<P>, users: usize) {
        state.users().leave_all(users, &self.claim.0);
    }
}

/// The lock that needs no choosing. Sleepers are passed over by at most `TURN` hand-overs before one is woken. A lock that is
/// `RESTLESS` goes another way whenever it could look at the clock, and is released by a compare-and-swap from the beginning, so that
/// no leader naps; and all who wait for it line up: for tests, which see by that whether a wake-up is lost.
#[repr(C)]
pub struct Auto<P: Platform, const TURN: u32 = 1024, const RESTLESS: bool = false> {
    /// Written by lockers and by the holder; polled by leaders, and slept on.
    word: P::Futex,
    /// Releases of those who took it directly, modulo 2^32. The holder's.
    releases: P::Data<u32>,
    state: Lazy<P, Shared<P>>,
}

impl<P: Platform, const TURN: u32, const RESTLESS: bool> core::fmt::Debug for Auto<P, TURN, RESTLESS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Auto").field("word", &self.word.load(Relaxed)).field("state", &self.state).finish()
    }
}

impl<P: Platform, const TURN: u32, const RESTLESS: bool> Auto<P, TURN, RESTLESS> {
    /// Takes the lock, by writing `mark`, if it is free.
    #[inline(always)]
    fn acquire_fast(&self, mark: u32) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.word.compare_exchange(UNLOCKED, mark, Acquire, Relaxed).is_ok()
    }

    /// As [`Auto::acquire_fast`], and leaves a held word as it is.
    #[inline(always)]
    fn acquire_free(&self, mark: u32) -> bool {
        self.word.load(Relaxed) == UNLOCKED && self.acquire_fast(mark)
    }

    /// The node, or what stands for it, in whose queue the calling thread is to wait.
    fn part(&self) -> usize {
        // The state may be another lock's: any queue will do.
        match self.state.peek() {
            Some(shared) if shared.regime.way() == Way::OneQueue => 0,
            _ => P::domain(),
        }
    }

    /// Waits. Whether the lock was acquired before the deadline.
    fn acquire(&self, wait: &Wait) -> bool {
        let crowded = gives_way::<P>(wait);
        crowded && self.acquire_free(LOCKED) || self.awaits_release() || self.lines_up(wait, crowded)
    }

    /// Waits for the word to be freed, where its holder has taken it directly and no first leader has marked it, and for no longer
    /// than a context-switch round trip. Whether it was acquired: a thread that loses the race for a free word lines up.
    fn awaits_release(&self) -> bool {
        let barges = || self.state.peek().is_some_and(|shared| shared.regime.way() == Way::Barging);
        // To line up within a node takes no line from another.
        if RESTLESS || P::domains() == 1 || barges() {
            return false;
        }
        let look = || match self.word.load(Relaxed) {
            LOCKED => None,
            UNLOCKED => Some(self.acquire_fast(LOCKED)),
            _ => Some(false),
        };
        poll_within::<P, _>(P::spin_budget(), look) == Some(true)
    }

    /// Lines up and waits, on a machine that is `crowded` or not. Whether the lock was acquired before the deadline.
    fn lines_up(&self, wait: &Wait, crowded: bool) -> bool {
        let Some((shared, state)) = enter_part_or_wait(&self.state, self.part(), wait) else { return false };
        match state.acquire(wait) {
            None => {
                shared.leave(state, 1);
                return false;
            }
            Some(Acquired::Both) => return true,
            Some(Acquired::Node) => {}
        }
        // With the lock nobody is to wait for a look at the clock.
        let came = if RESTLESS { 0 } else { P::now(Clock::Monotonic) as u32 };
        if !self.lead(shared, state, wait) {
            // SAFETY: acquired above.
            let (chosen, users) = unsafe { state.let_go(Chosen::nobody(), attention::<TURN>()) };
            shared.leave(state, users);
            chosen.wake();
            return false;
        }
        // SAFETY: I1: held, for all that follows. Nothing of this line is read: it may be on its way.
        unsafe { shared.of_leaders.serving.set(Serving(ptr::from_ref(state).cast_mut())) };
        // SAFETY: as above.
        unsafe { state.serve(true) };
        // SAFETY: as above.
        unsafe { state.begin(self.state.pass_limit()) };
        let is_due = || shared.regime.is_due(crowded, self.pin());
        // SAFETY: as above.
        if RESTLESS || is_due() || unsafe { state.is_due(came, regime::LOOK_EVERY_NS) } {
            // SAFETY: as above.
            unsafe { self.take_stock(shared, false, crowded) };
        }
        true
    }

    /// Looks whether another way is to be gone. Whether threads `waited` all the time since it last did is known or not, and so is
    /// whether the machine is `crowded`.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    unsafe fn take_stock(&self, shared: &Shared<P>, waited: bool, crowded: bool) {
        let counts = || {
            // SAFETY: the caller's contract.
            let (mut releases, mut turns) = (unsafe { self.releases.get() }, 0_u32);
            shared.nodes.visit(|state| {
                // SAFETY: as above.
                let (of_node, turns_of_node) = unsafe { state.counts() };
                releases = releases.wrapping_add(of_node);
                turns = turns.wrapping_add(turns_of_node);
            });
            (releases, turns)
        };
        let period = &shared.of_leaders.period;
        if RESTLESS {
            // SAFETY: as above.
            return unsafe { shared.regime.turn(period, counts) };
        }
        // SAFETY: as above.
        unsafe { shared.regime.take_stock(period, counts, waited, crowded, self.pin()) };
    }

    /// As [`Auto::take_stock`], by a holder that took the word directly. `shared` was found in the lock.
    ///
    /// # Safety
    ///
    /// As there.
    #[cold]
    unsafe fn take_stock_directly(&self, shared: &Shared<P>) {
        // A child is to find as many users as there are.
        P::in_steps(|| {
            // I8. Another time will do, if somebody looks whether the state is in use: the lock is held.
            if self.state.try_join(shared) {
                // SAFETY: the caller's contract.
                unsafe { self.take_stock(shared, false, false) };
            }
            shared.claim.0.leave();
        });
    }

    /// The number of the way that it is pinned to.
    fn pin(&self) -> Option<u32> {
        self.state.wake()
    }

    /// Acquires the word, for the holder of the lock of the node `state`. Whether that was before the deadline.
    fn lead(&self, shared: &Shared<P>, state: &NodeState<P>, wait: &Wait) -> bool {
        // I5: the word does not say `BY_NODE` where nobody was the first.
        let acquired = if shared.comes_first() {
            self.acquire_word(shared, wait)
        } else if shared.leaders().line_up(state, LEADING, wait) {
            // I3. ORDER: Relaxed: what made the caller the first orders the sections (E1 and E4 of CST).
            self.word.load(Relaxed) & BY_NODE != 0 || self.acquire_word(shared, wait)
        } else {
            return false;
        };
        if !acquired {
            shared.leaders().release(LEADING);
        }
        acquired
    }

    /// Acquires the word, for the first of the leaders. Whether that was before the deadline.
    fn acquire_word(&self, shared: &Shared<P>, wait: &Wait) -> bool {
        let mut patient = shared.regime.way() == Way::Barging;
        let mut ran_out = 0;
        loop {
            if self.polls(patient, wait) {
                return true;
            }
            // SAFETY: the first leader's: who holds by way of a node is that.
            let naps_only = !RESTLESS && unsafe { shared.of_leaders.serving.get() }.0.is_null(); // I9.
            let in_time = !wait.is_over::<P>()
                && if naps_only { self.naps(&mut ran_out, wait) } else { self.sleeps(wait.deadline) };
            if !in_time {
                // ORDER: Relaxed: a read-modify-write goes on with what a release has published.
                self.word.fetch_and(!(RESERVED | SLEEPER), Relaxed);
                return false;
            }
            // Woken for nothing, if the lock is held now.
            patient = false;
        }
    }

    /// Takes a word that is free, or reserved, for the first of the leaders.
    #[inline]
    fn acquire_first(&self) -> bool {
        let seen = self.word.load(Relaxed);
        // ORDER: Acquire is E1.
        seen & LOCKED == 0 && self.word.compare_exchange(seen, LOCKED | BY_NODE, Acquire, Relaxed).is_ok()
    }

    /// As [`Auto::acquire_first`]; where the word is held, keeps others from taking it once it is free.
    fn acquire_or_reserve(&self) -> bool {
        let mut seen = self.word.load(Relaxed);
        loop {
            if seen & (LOCKED | RESERVED) == LOCKED | RESERVED {
                return false;
            }
            let then = if seen & LOCKED == 0 { LOCKED | BY_NODE } else { seen | RESERVED };
            // ORDER: Acquire is E1. To reserve it nothing is needed: that is within the holder's time.
            match self.word.compare_exchange(seen, then, Acquire, Relaxed) {
                Ok(_) => return seen & LOCKED == 0,
                // Its line is here: whoever waits before the next look waits for it to come again.
                Err(now) => seen = now,
            }
        }
    }

    /// Polls the word, for as long as it makes sense, and reserves it: at once, unless it is `patient`. Whether it was acquired.
    fn polls(&self, mut patient: bool, wait: &Wait) -> bool {
        /// Looks of one that is patient, in the time of a context-switch round trip.
        const LOOKS: u32 = 2;
        let (mut before, budget) = (0, P::spin_budget());
        let rounds = if budget == 0 { 1 } else { ROUND_TRIPS };
        for round in 1..=rounds {
            if patient {
                for _ in 0..LOOKS {
                    P::pause_n(budget / LOOKS);
                    if self.acquire_first() {
                        return true;
                    }
                }
            } else {
                // The first look changes it: its line is to come but once.
                P::prefetch_write(ptr::from_ref(&self.word));
                let look = || self.acquire_or_reserve().then_some(());
                if poll_within::<P, _>(budget, look).is_some() || self.acquire_first() {
                    return true;
                }
            }
            patient = false;
            if round == rounds || P::crowded(&mut before) || wait.is_over::<P>() {
                break;
            }
        }
        false
    }

    /// As [`Auto::sleeps`], and not for long: the release that is to wake it may miss it (I9). After each nap that `ran_out` for twice
    /// as long, up to a second or two: a release that is not over yet takes about as long again, and a section may be one of hours.
    fn naps(&self, ran_out: &mut u32, wait: &Wait) -> bool {
        /// How often the time is doubled.
        const DOUBLED: u32 = 14;
        let ns = (u64::from(ROUND_TRIPS) * P::round_trip_ns().max(1)) << (*ran_out).min(DOUBLED);
        let from_now = |clock| P::now(clock).saturating_add(ns);
        let nap = match wait.deadline {
            Some(deadline) if deadline.ns <= from_now(deadline.clock) => deadline,
            _ => Deadline { clock: Clock::Monotonic, ns: from_now(Clock::Monotonic) },
        };
        if self.sleeps(Some(nap)) {
            return true;
        }
        *ran_out += 1;
        !wait.is_over::<P>()
    }

    /// Sleeps until the word is released, or something else happens; a lock that is idle is not kept for a sleeper. Whether
    /// that was before the deadline.
    fn sleeps(&self, deadline: Option<Deadline>) -> bool {
        let seen = self.word.load(Relaxed);
        // I4. ORDER: Relaxed: within the holder's time.
        if seen & LOCKED == 0 || self.word.compare_exchange(seen, LOCKED | SLEEPER, Relaxed, Relaxed).is_err()
        {
            return true;
        }
        self.word.wait(LOCKED | SLEEPER, deadline).is_ok()
    }

    /// Counts a release of the word that was taken directly. How many there have been.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    #[inline(always)]
    unsafe fn count(&self) -> u32 {
        // SAFETY: the caller's contract.
        let count = unsafe { self.releases.get() }.wrapping_add(1);
        // SAFETY: as above.
        unsafe { self.releases.set(count) };
        count
    }

    /// Releases a lock that was acquired by way of a node, or that a leader waits for.
    #[cold]
    fn release_slow(&self) {
        let seen = self.word.load(Relaxed);
        if seen & BY_NODE != 0 {
            // SAFETY: I8: the holder is a user of the state.
            let shared = unsafe { self.state.used() };
            // Most likely it is where the caller would line up.
            let likely = shared.nodes.get(self.part());
            // SAFETY: I1: held by the caller.
            let serving = unsafe { node::serving(likely, &shared.of_leaders.serving) };
            // SAFETY: I1: it is the caller's, who uses it (I8).
            let state = unsafe { &*serving };
            // SAFETY: as above, by way of that.
            unsafe { self.release(shared, state) };
        } else if seen & LOCKED != 0 {
            // SAFETY: held by the caller.
            unsafe { self.count() };
            self.release_word();
        }
        // A free lock stays as it is: POSIX leaves unlocking one undefined, glibc makes it harmless.
    }

    /// Releases a lock that was taken directly, and has been counted.
    #[cold]
    fn release_word(&self) {
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

    /// Hands the lock to a thread of the node that has it, or to the next leader, or releases it.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, by way of `state`.
    unsafe fn release(&self, shared: &Shared<P>, state: &NodeState<P>) {
        let attention = attention::<TURN>();
        let hands_over = shared.regime.way() != Way::Barging;
        // SAFETY: I1: the node's lock is the caller's, for all that follows.
        let mut chosen = unsafe { state.attend(attention) };
        // SAFETY: as above.
        let in_turn = hands_over && unsafe { self.may_pass(shared, state) };
        if in_turn {
            // SAFETY: as above.
            if unsafe { state.pass() } {
                return chosen.wake();
            }
            if chosen.is_empty() {
                // SAFETY: as above.
                chosen = unsafe { state.choose(attention.most) };
            }
        }
        // This release, unless it has used up one of the turn.
        // SAFETY: as above.
        unsafe { self.count_turn(state, u32::from(!in_turn)) };
        // SAFETY: as above.
        unsafe { state.serve(false) };
        // I6: a fork is to find all of it or nothing.
        let chosen = P::in_steps(|| {
            // From the next step on there may be no lock any more. The state is there until we leave it.
            if !(hands_over && shared.leaders().hand_on(LEADING)) {
                // I5: nobody else changes it. ORDER: Release is E1.
                self.word.store(UNLOCKED, Release);
                shared.leaders().release(LEADING);
            }
            // SAFETY: the node's lock is still the caller's.
            let (chosen, users) = unsafe { state.let_go(chosen, attention) };
            shared.leave(state, users);
            chosen
        });
        chosen.wake();
    }

    /// Whether the turn of the node that has the lock goes on; one hand-over of it is used up, then.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, by way of `state`.
    unsafe fn may_pass(&self, shared: &Shared<P>, state: &NodeState<P>) -> bool {
        // SAFETY: the caller's contract, for all that follows.
        if unsafe { state.may_pass() } {
            return true;
        }
        if shared.of_leaders.tail.load(Relaxed) != held::<P>(LEADING) {
            return false;
        }
        // Where no other node waits the next turn begins.
        // SAFETY: as above.
        unsafe { self.count_turn(state, 0) };
        // SAFETY: as above.
        unsafe { state.begin(self.state.pass_limit()) };
        // SAFETY: as above.
        unsafe { self.take_stock(shared, true, false) };
        // SAFETY: as above.
        unsafe { state.may_pass() }
    }

    /// Counts the hand-overs of a turn, and `more` releases.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, by way of `state`.
    unsafe fn count_turn(&self, state: &NodeState<P>, more: u32) {
        // SAFETY: the caller's contract.
        let left = unsafe { state.passes_left() };
        // The limit may have changed meanwhile.
        let passed = self.state.pass_limit().saturating_sub(left);
        // SAFETY: as above.
        unsafe { state.count_releases(passed + more) };
    }
}

impl<P: Platform, const TURN: u32, const RESTLESS: bool> Drop for Auto<P, TURN, RESTLESS> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

// SAFETY: the word is taken once at a time and handed on with the lock of a node (I1), and E1 orders the sections.
unsafe impl<P: Platform, const TURN: u32, const RESTLESS: bool> RawLock<P> for Auto<P, TURN, RESTLESS> {
    type Token = ();

    fn new() -> Self {
        Self { word: P::Futex::new(UNLOCKED), releases: P::Data::new(0), state: Lazy::new() }
    }

    fn configure(&self, knobs: &Knobs) {
        self.state.configure(&Knobs { wake: knobs.pin, pass_limit: knobs.pass_limit, ..Knobs::NONE });
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<()> {
        // Read first: a failing CAS would take the line from the holder.
        self.acquire_free(LOCKED).then_some(())
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        self.acquire_free(LOCKED).then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.acquire(wait).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        if self.word.load(Relaxed) == LOCKED {
            // SAFETY: the caller's contract.
            let count = unsafe { self.count() };
            match self.state.peek() {
                // Nobody has lined up, or it is just being done: I9. ORDER: Release is E1.
                None if !RESTLESS => return self.word.overwrite(UNLOCKED, Release),
                Some(shared)
                    if RESTLESS || shared.regime.is_due_directly(count) && self.state.owns(shared) =>
                {
                    // SAFETY: the caller's contract.
                    unsafe { self.take_stock_directly(shared) };
                }
                _ => {}
            }
            // ORDER: Release is E1.
            if self.word.compare_exchange(LOCKED, UNLOCKED, Release, Relaxed).is_err() {
                self.release_word(); // The first leader has marked it.
            }
        } else {
            self.release_slow();
        }
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & LOCKED != 0
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        let seen = self.word.load(Relaxed);
        let own = self.state.own();
        let serving = match own {
            // SAFETY: the caller's contract, for all that follows.
            Some(shared) if seen & BY_NODE != 0 => unsafe { shared.of_leaders.serving.get() }.0,
            _ => ptr::null_mut(),
        };
        if let Some(shared) = own {
            shared.nodes.visit(|state| {
                let holds = ptr::eq(state, serving);
                // SAFETY: as above.
                unsafe { state.clear(holds) };
                state.users().forget(usize::from(holds)); // I8.
            });
            shared.of_leaders.first.store(ptr::null_mut(), Relaxed);
            let leads = if serving.is_null() { ptr::null_mut() } else { held::<P>(LEADING) };
            shared.of_leaders.tail.store(leads, Relaxed);
            // SAFETY: as above.
            unsafe { shared.of_leaders.serving.set(Serving(serving)) };
            shared.claim.0.forget(usize::from(!serving.is_null()));
        }
        let by_node = if serving.is_null() { 0 } else { BY_NODE };
        self.word.store(if seen & LOCKED == 0 { UNLOCKED } else { LOCKED | by_node }, Relaxed);
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.state.dispose() };
    }
}

#[cfg(test)]
mod tests;
