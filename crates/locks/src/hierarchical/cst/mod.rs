//! CST-mutex: a queue for each NUMA node and one of nodes, in which a release passes over waiters that sleep.
//!
//! Sanidhya Kashyap, Changwoo Min and Taesoo Kim, "Scalable NUMA-aware blocking synchronization primitives", USENIX ATC 2017,
//! figure 4. A thread acquires the lock of its node, then the global one. The release hands both to the nearest waiter of its
//! node that is awake, a bounded number of times in a row (`may-pass-local`, 64 unless a spec says otherwise), then the global
//! lock to the next node. Sleepers that are passed over go to the node's parking list; when no waiter of the node is awake,
//! one of them is woken, and lines up again.
//! Within a node the lock never waits for a thread to wake up while another waiter is awake, except for a waiter that has
//! been passed over too often (see below).
//!
//! Deviations:
//! - One sleeper is woken at a time. The paper wakes as many as a node has CPUs (WS: `wake` set to that number), or all (WA: a
//!   large number). Where threads outnumber CPUs the woken of a batch find each other ahead, spin in vain and sleep again, and
//!   the releaser pays for every one of them.
//! - An acquisition that finds the lock free takes it without its node: one CAS, and no memory but the lock's own.
//! - The global queue is K42's as well: whoever has the lock is not in the queue, and the queue has nodes of the waiters, not
//!   of the NUMA nodes. So a node's lock can be released before the global one: the next holder may destroy the lock.
//! - The releaser, not the sleeper, moves the sleeper to the parking list, when it passes over it. That list needs no lock then,
//!   and nobody is in two lists, where the paper's woken waiter re-uses a node that the waiting list may still lead to.
//! - The presence of node states is their pointers, in a line that is read only, instead of a bit vector and a list.
//! - Those to be woken are chosen before the lock is released, and woken after it.
//! - Whether the caller's time slice is over cannot be asked for: a waiter sleeps after a context-switch round trip, if there
//!   are signs of more threads than CPUs and there is but one node; else after up to twenty. Where there are several nodes and
//!   more threads than CPUs, a thread yields its CPU once before it lines up.
//! - A node's turn is bounded in time as well as in hand-overs, so that the turns of all nodes end before the leaders of those
//!   that wait go to sleep.
//! - A waiter may give up at a deadline, and goes on in its old place when it comes back.
//!
//! The paper's sleepers may starve, since a woken one lines up behind others and may sleep again before its turn. Here that is
//! bounded, twice. The one that has slept longest is woken at the latest after 1024 hand-overs on its node, once those woken
//! before have lined up again. And a waiter that has lined up again twice is not passed over any more: it is handed the lock in
//! its turn, if need be asleep. So a waiter is passed over twice at most, each time by 1024 hand-overs for each sleeper (with
//! `wake`, each batch of sleepers) before it.
//!
//! Properties: 16 bytes a lock; once somebody has waited 192 more, 128 for each node that has waited, and another 64 for each 7
//! nodes beyond the first 7; one node of 64 bytes for each waiter, none for the holder. FIFO between nodes, and among
//! those of a node that are awake. Waiting: spin, then park. `try_lock` looks at the lock's own word, and never waits.
//!
//! # State
//!
//! ```text
//! tail: null: unlocked │ 1: held, and taken directly │ 2: held by way of a node │ last leader in the global queue
//! state ─→ shared: first leader, node that has the lock, limits, nodes ─→ node state: waiting list, parking list, counts
//! ```
//!
//! The word of a waiter (the paper's UW, PW, L, R, and two more):
//!
//! ```text
//!                       its turn: nearest that is awake         L: GRANTED (the node's lock) or OWNED (the global one too)
//!    UW: WAITING ──────────────────────────────────────────────→ ↑
//!        │ has spun for long enough        its turn, if aged     │
//!        ↓                                                       │
//!    PW: PARKED  ────────────────────────────────────────────────┘
//!        │   ↑ (stays so when it is passed over: waiting list → parking list)
//!        │   └── deadline ──→ ABANDONED, whichever list it is in ── the owner is back ──→ PARKED
//!        ↓ chosen, from the parking list
//!        CHOSEN ── the lock is released ──→ R: REQUEUED, and woken ──→ lines up again with a new node
//! ```
//!
//! # Invariants
//!
//! - I1: the lock is held exactly while `tail` is not null. `serving` is the node by way of which, or null; it belongs to the
//!   holder, who holds that node's lock too. A node `serves` only while it is that one; both are written by who holds both locks.
//! - I2: whoever swaps something out of a tail links itself to it: to `first` where nobody waited, to the node's `next` where it
//!   was a node. `first` is null while nobody waits; between a grant and `settle` it is stale, and read by nobody.
//! - I3: a queue node is recycled once, when it is in no list and whoever is behind it has linked itself: by its owner who was
//!   granted what it waited for or told to line up again, or by the holder who found it abandoned, and its owner not on the
//!   way back to it (I2 of `wait::word`).
//! - I4: the parking list and the counts of a node, but for `releases`, belong to the holder of the node's lock. It alone takes nodes out of the
//!   waiting list, so a waiter is in one list at a time.
//! - I5: a sleeper's word is changed by that holder, and by the sleeper from `PARKED` to `ABANDONED`, and back when it comes back:
//!   as a sleeper, since it may have been passed over. So there is no race between passing over a sleeper and waking it, and none
//!   between going to sleep and being handed the lock: one exchange decides. One that is on the way back is a sleeper already.
//! - I6: `CHOSEN` means that its writer will write `REQUEUED`, and nobody else anything; the sleeper waits for that, without a
//!   deadline. Until then the node is the writer's.
//! - I7: if sleepers are in a node's parking list, the node's lock is held, or somebody is on its way to it: `woken` is at
//!   least the number of those who were chosen and have not swapped the tail since. A thread swaps first, then counts down, and
//!   that it swaps is unconditional. So a holder that reads more than 0 and then frees the node's lock frees it before
//!   one of them swaps, who will hold the lock then, and look for sleepers when it releases it.
//! - I8: each thread that waits uses the state (see `state`), from before it is in a queue until it has given up or has released
//!   the lock; but not one that took the lock directly. In the global queue the node of a thread that may give up counts by
//!   itself, since whoever took the lock directly may be the only one to find it there; whoever takes it out leaves for
//!   it, be it another or its owner. So nobody uses the state only when no list of it has a node, and no node's lock is held.
//! - I9: a thread that passes the lock on within its node does not take itself off the users: the line of those who come and go is
//!   theirs, and they are many. It is counted with the node's lock (`passed`), and whoever lets go of that takes all of them off.
//!   So the users are those of I8, those in `passed`, and those whom a thread that has let go is about to take off.
//!
//! # Ordering
//!
//! - E1: a release's CAS of a tail to null (Release) → the CAS or swap of the next locker that finds null (Acquire): the critical
//!   section, and what belongs to the holder of a node's lock.
//! - E2: the swap of a tail (Release) → the swap of the successor (Acquire): the node's initialisation comes before the
//!   successor's write to `next`.
//! - E3: the store of `next` or `first` (Release) → the load of whoever looks for a waiter (Acquire): its node is initialised.
//! - E4: the exchange that grants (Release), or `wait::grant` → the waiter's load of its word (Acquire): as E1.
//! - E5: the swap to `REQUEUED` (Release) → the same load: the chooser's accesses to the node come before its re-use.
//! - E6: the CAS to `ABANDONED` (Release) → `wait::claim`: the waiter's accesses likewise.
//! - E7: the CAS of a tail from a node to "held" or null (Release) → the swap that finds that (Acquire), directly or through the
//!   CASes in between: clearing `first` comes before the new waiter's write to it.
//! - E8: the swap of `tail` (Release), after the state was made → the load of a holder who took the lock directly, and finds that
//!   somebody waits (Acquire).

pub(crate) mod leaders;
pub(crate) mod node;
pub(crate) mod queue;

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, DataCell, NODE_BYTES, Native, Platform, PoolNode, PooledState};

use self::leaders::Leaders;
use self::node::{Acquired, Attention, Chosen, NodeState, Serving};
use self::queue::{Queue, Waiter, held};
use super::directory::{Children, Users, Whole, enter_part_or_wait};
use super::part::{LocalLock, Part};
use crate::api::{Apart, RawLock, address};
use crate::describe::{Citation, Descriptor, Family, Keeps, Order, Proof, Timed};
use crate::knobs::{self, Knobs};
use crate::state::{Claimed, Lazy, State, take_back, take_free};
use crate::wait::Wait;

/// What is known of the CST-mutex.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "cst-mutex",
    family: Family::Hierarchical,
    order: Order::LongTerm,
    order_note: "FIFO among those awake; a sleeper is passed over twice at most, each time by a bounded number of hand-overs",
    bytes: 16,
    bytes_per_waiter: 64,
    keeps: Keeps::Parts,
    timed: Timed::GivesUp("in the queue of its node, in that of the nodes, or asleep"),
    proofs: &[
        Proof::of(file!()),
        Proof::of("hierarchical/cst/queue.rs"),
        Proof::of("hierarchical/cst/node.rs"),
    ],
    citation: Citation {
        key: "kashyap17",
        text: "Kashyap, Min, Kim: Scalable NUMA-aware blocking synchronization primitives. USENIX ATC 2017",
    },
    summary: "a queue for each NUMA node and one of nodes; a release hands the lock to the nearest waiter who is awake",
    properties: "No hand-over waits for a sleeper while another waiter is awake; sleepers are woken one at a time. Nothing \
                 but 16 bytes until somebody waits, then memory for those nodes only that wait.",
    deviations: "One sleeper is woken at a time; a free lock is taken without its node; releasers move sleepers to the \
                 parking list; the starvation of sleepers is bounded; a node's turn is bounded in time, too; where threads \
                 outnumber the CPUs of several nodes a thread yields before it lines up; waiters can give up at a deadline.",
    avoid: "Where the order of arrival matters.",
    knobs: knobs::WAKING,
    ..Descriptor::MUTEX
};

/// Lets the other threads of the CPU run first, where threads outnumber CPUs and waiters spin nevertheless. Whether they could.
///
/// One of them may be a waiter that has lost its CPU, or was woken and has none yet. If the caller spun behind it, the lock
/// would wait for the CPU that the caller has. A thread that is in no queue holds up nobody while it has no CPU.
pub(crate) fn gives_way<P: Platform>(wait: &Wait) -> bool {
    // A thread with a deadline would be late for it; on one node a waiter sleeps soon.
    if P::domains() == 1 || wait.deadline.is_some() || P::strict_spin() || !P::is_overloaded() {
        return false;
    }
    P::yield_now();
    true
}

/// How the global lock is held.
const DIRECTLY: usize = 1;
const BY_NODE: usize = 2;

/// Sleepers that are woken at a time unless a spec says otherwise.
const WAKE: u32 = 1;

/// Nodes whose states are found without a detour.
const NEAR: usize = 7;

/// What all nodes share: a cache line that all who come read, one that is written when the lock goes to another node, and one
/// that the first and the last of a node's waiters write.
#[repr(C, align(64))]
pub struct Shared<P: Platform> {
    nodes: Children<P, NodeState<P>, NEAR>,
    of_leaders: OfLeaders<P>,
    claim: Apart<Claimed<P>>,
}

/// What belongs to the first of the leaders.
#[repr(C, align(64))]
struct OfLeaders<P: Platform> {
    /// Of the global queue.
    first: P::Ptr<Waiter<P>>,
    serving: P::Data<Serving<P>>,
}

const _: () = {
    assert!(size_of::<Shared<Native>>() == 3 * NODE_BYTES);
    assert!(size_of::<Cst<Native>>() == DESCRIPTOR.bytes);
};

impl<P: Platform> core::fmt::Debug for Shared<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared").field("first", &self.of_leaders.first.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for Shared<P> {
    fn new() -> Self {
        Self {
            nodes: Children::new(),
            of_leaders: OfLeaders {
                first: P::Ptr::new(ptr::null_mut()),
                serving: P::Data::new(Serving(ptr::null_mut())),
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
    /// Takes so many threads of that node off the users of the state.
    fn leave(&self, state: &NodeState<P>, users: usize) {
        state.users().leave_all(users, &self.claim.0);
    }

    /// The state of the node by way of which the lock is held, if it was not taken directly.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, and this state is in use.
    #[inline]
    unsafe fn serving(&self) -> Option<&NodeState<P>> {
        // Most likely it is that of this CPU's node.
        let likely = self.nodes.get(P::domain());
        // SAFETY: the caller's contract.
        let serving = unsafe { node::serving(likely, &self.of_leaders.serving) };
        // SAFETY: I8: it is the caller's, if it is one.
        unsafe { serving.as_ref() }
    }
}

/// The CST-mutex. Sleepers are passed over by at most `TURN` hand-overs before some are woken.
#[repr(C)]
pub struct Cst<P: Platform, const TURN: u32 = 1024> {
    /// Of the global queue.
    tail: P::Ptr<Waiter<P>>,
    state: Lazy<P, Shared<P>>,
}

impl<P: Platform, const TURN: u32> core::fmt::Debug for Cst<P, TURN> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cst").field("tail", &self.tail.load(Relaxed)).field("state", &self.state).finish()
    }
}

impl Cst<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { tail: Native::null(), state: Lazy::unused() }
    }
}

impl<P: Platform, const TURN: u32> Cst<P, TURN> {
    fn leaders<'a>(&'a self, shared: &'a Shared<P>) -> Leaders<'a, P> {
        let queue = Queue { tail: &self.tail, first: &shared.of_leaders.first };
        Leaders { queue, address: address(shared), claim: &shared.claim.0 }
    }

    /// Takes the lock, in way `way`, if it is free.
    #[inline(always)]
    fn acquire_fast(&self, way: usize) -> bool {
        // Read first: a failing CAS would take the line from the holder, and from the other nodes.
        self.tail.load(Relaxed).is_null()
            // ORDER: Acquire is E1. Release is not needed: a CAS continues the release sequences of E1 and E7.
            && self.tail.compare_exchange(ptr::null_mut(), held::<P>(way), Acquire, Relaxed).is_ok()
    }

    /// How many sleepers are woken at a time.
    fn attention(&self) -> Attention {
        Attention { most: self.state.wake().unwrap_or(WAKE), turn: TURN }
    }

    /// Lines up and waits. Whether the lock was acquired before the deadline.
    fn acquire(&self, wait: &Wait) -> bool {
        if gives_way::<P>(wait) && self.acquire_fast(DIRECTLY) {
            return true;
        }
        let Some((shared, state)) = enter_part_or_wait(&self.state, P::domain(), wait) else { return false };
        match state.acquire(wait) {
            None => shared.leave(state, 1),
            Some(Acquired::Both) => return true,
            Some(Acquired::Node) if self.acquire_globally(shared, state, wait) => {
                // SAFETY: I1: held.
                unsafe { shared.of_leaders.serving.set(Serving(ptr::from_ref(state).cast_mut())) };
                // SAFETY: acquired above, for all that follows.
                unsafe { state.serve(true) };
                // SAFETY: as above.
                unsafe { state.begin(self.state.pass_limit()) };
                return true;
            }
            Some(Acquired::Node) => {
                // SAFETY: acquired above.
                let (chosen, users) = unsafe { state.let_go(Chosen::nobody(), self.attention()) };
                shared.leave(state, users);
                chosen.wake();
            }
        }
        false
    }

    /// Acquires the global lock, for the holder of the lock of the node `state`. Whether that was before the deadline.
    fn acquire_globally(&self, shared: &Shared<P>, state: &NodeState<P>, wait: &Wait) -> bool {
        self.acquire_fast(BY_NODE) || self.leaders(shared).line_up(state, BY_NODE, wait)
    }

    /// Hands the lock to a thread of the node that has it, or releases it.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, by way of `state`.
    unsafe fn release(&self, shared: &Shared<P>, state: &NodeState<P>) {
        let attention = self.attention();
        // SAFETY: I1: the node's lock is the caller's, for all that follows.
        let mut chosen = unsafe { state.attend(attention) };
        // SAFETY: as above.
        if unsafe { self.may_pass(state) } {
            // SAFETY: as above.
            if unsafe { state.pass() } {
                return chosen.wake();
            }
            if chosen.is_empty() {
                // SAFETY: as above.
                chosen = unsafe { state.choose(attention.most) };
            }
        }
        // SAFETY: I1.
        unsafe { shared.of_leaders.serving.set(Serving(ptr::null_mut())) };
        // SAFETY: as above.
        unsafe { state.serve(false) };
        // SAFETY: as above. From here on the node's lock is not ours.
        let (chosen, users) = unsafe { state.let_go(chosen, attention) };
        self.leaders(shared).release(BY_NODE);
        // I8. There may be no lock any more, but the state is there until we leave it, and whoever waits for it waits.
        shared.leave(state, users);
        chosen.wake();
    }

    /// Whether the turn of the node that has the lock goes on; one hand-over of it is used up, then.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, by way of `state`.
    unsafe fn may_pass(&self, state: &NodeState<P>) -> bool {
        // SAFETY: the caller's contract. Where no other node waits there is no turn to end.
        (unsafe { state.may_pass() }) || self.tail.load(Relaxed) == held::<P>(BY_NODE)
    }

    /// Hands the lock to a waiter of the same node that is awake, if there is one and the node's turn is not over.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, by way of `state`.
    unsafe fn pass(&self, state: &NodeState<P>) -> bool {
        // SAFETY: I1: the node's lock is the caller's, for all that follows.
        let chosen = unsafe { state.attend(self.attention()) };
        // SAFETY: as above.
        let in_turn = unsafe { self.may_pass(state) };
        // SAFETY: as above.
        let passed = in_turn && unsafe { state.pass() };
        chosen.wake();
        passed
    }

    /// Hands the lock to the next of the leaders, if there is one. Its turn begins.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, by way of `state`. A `fork` waits for it.
    unsafe fn pass_on(&self, shared: &Shared<P>, state: &NodeState<P>) -> bool {
        let serving = ptr::from_ref(state).cast_mut();
        // SAFETY: I1: held, for all that follows.
        unsafe { shared.of_leaders.serving.set(Serving(ptr::null_mut())) };
        // SAFETY: as above.
        unsafe { state.serve(false) };
        let attention = self.attention();
        if !self.leaders(shared).hand_on(BY_NODE) {
            // SAFETY: as above.
            unsafe { shared.of_leaders.serving.set(Serving(serving)) };
            // SAFETY: as above.
            unsafe { state.serve(true) };
            return false;
        }
        // I1: the node's lock is still the caller's, and the state there until it leaves (I8).
        // SAFETY: as above.
        let (chosen, users) = unsafe { state.let_go(Chosen::nobody(), attention) };
        shared.leave(state, users);
        chosen.wake();
        true
    }

    /// Releases a lock that others wait for, or that was not taken directly.
    #[cold]
    fn release_slow(&self) {
        // ORDER: Acquire is E8.
        if self.tail.load(Acquire).is_null() {
            // A free lock stays as it is: POSIX leaves unlocking one undefined, glibc makes it harmless.
            return;
        }
        // SAFETY: I8: somebody waits, or the caller holds the lock by way of a node.
        let shared = unsafe { self.state.used() };
        // SAFETY: I1: held by the caller.
        match unsafe { shared.serving() } {
            // SAFETY: I1.
            Some(state) => unsafe { self.release(shared, state) },
            None => self.leaders(shared).release(DIRECTLY),
        }
    }
}

impl<P: Platform, const TURN: u32> Drop for Cst<P, TURN> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

// SAFETY: the lock is taken and granted once at a time (I1), and E1 and E4 order the sections.
unsafe impl<P: Platform, const TURN: u32> RawLock<P> for Cst<P, TURN> {
    type Token = ();

    fn new() -> Self {
        Self { tail: P::Ptr::new(ptr::null_mut()), state: Lazy::new() }
    }

    fn configure(&self, knobs: &Knobs) {
        self.state.configure(knobs);
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<()> {
        self.acquire_fast(DIRECTLY).then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.acquire(wait).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        let direct = held::<P>(DIRECTLY);
        // Read first: on a lock that others wait for the CAS must fail.
        if self.tail.load(Relaxed) != direct
            // ORDER: Release is E1.
            || self.tail.compare_exchange(direct, ptr::null_mut(), Release, Relaxed).is_err()
        {
            self.release_slow();
        }
    }

    fn is_locked(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        let locked = self.is_locked();
        let own = self.state.own();
        let serving = match own {
            // SAFETY: the caller's contract, for all that follows.
            Some(shared) if locked => unsafe { shared.of_leaders.serving.get() }.0,
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
            // SAFETY: as above.
            unsafe { shared.of_leaders.serving.set(Serving(serving)) };
            shared.claim.0.forget(usize::from(!serving.is_null()));
        }
        if locked {
            self.tail.store(held::<P>(if serving.is_null() { DIRECTLY } else { BY_NODE }), Relaxed);
        }
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.state.dispose() };
    }
}

impl<P: Platform, const TURN: u32> Part<P> for Cst<P, TURN> {
    fn clear(&self) {
        self.tail.store(ptr::null_mut(), Relaxed);
        // SAFETY: nobody else runs, and the lock is free.
        unsafe { self.forget_waiters(None) };
    }
}

impl<P: Platform, const TURN: u32> LocalLock<P> for Cst<P, TURN> {
    /// To a waiter of the same node that is awake: waking another takes longer than releasing the lock.
    unsafe fn hand_over(&self, (): ()) -> Result<(), ()> {
        // ORDER: Acquire is E8.
        if self.tail.load(Acquire) == held::<P>(DIRECTLY) {
            return Err(());
        }
        // SAFETY: I8: somebody waits, or has it by way of a node.
        let shared = unsafe { self.state.used() };
        // SAFETY: I1: held by the caller.
        let serving = unsafe { shared.serving() };
        // SAFETY: I1.
        let passed = serving.is_some_and(|state| unsafe { self.pass(state) });
        if passed { Ok(()) } else { Err(()) }
    }

    unsafe fn hand_over_anywhere(&self, (): ()) -> Result<(), ()> {
        // ORDER: Acquire is E8.
        if self.tail.load(Acquire) == held::<P>(DIRECTLY) {
            return Err(());
        }
        // SAFETY: I8: as in `hand_over`, for all that follows.
        let shared = unsafe { self.state.used() };
        // SAFETY: I1.
        let passed = match unsafe { shared.serving() } {
            None => self.leaders(shared).hand_on(DIRECTLY),
            Some(state) => {
                // SAFETY: I1: held by the caller.
                let within = unsafe { self.pass(state) };
                // SAFETY: I1: still held, since nothing was passed.
                within || unsafe { self.pass_on(shared, state) }
            }
        };
        if passed { Ok(()) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests;
