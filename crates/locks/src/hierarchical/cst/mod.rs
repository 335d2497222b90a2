//! CST-mutex: a queue for each NUMA node and one of nodes, in which a release passes over those who sleep.
//!
//! Sanidhya Kashyap, Changwoo Min and Taesoo Kim, "Scalable NUMA-aware blocking synchronization primitives", USENIX ATC 2017,
//! figure 4. A thread acquires the lock of its node, then the global one. The release hands both to the nearest waiter of its
//! node who is awake, a bounded number of times in a row (`may-pass-local`, 64 unless a spec says otherwise), then the global
//! lock to the next node. Sleepers who are passed over go to the node's parking list; when nobody of the node is awake, as many
//! as the node has CPUs are woken (the paper's WS; `wake` sets another number, and a large one is its WA), and line up again.
//! Within a node nobody waits for a thread to wake up while another is awake, but for one that has waited too long (see below).
//!
//! Deviations:
//! - An acquisition that finds the lock free takes it without its node: one CAS, and no memory but the lock's own.
//! - The global queue is K42's as well: whoever has the lock is not in the queue, and the queue has nodes of the waiters, not
//!   of the NUMA nodes. So a node's lock can be released before the global one: the next holder may destroy the lock.
//! - The releaser, not the sleeper, moves the sleeper to the parking list, when it passes over it. That list needs no lock then,
//!   and nobody is in two lists, where the paper's woken waiter re-uses a node that the waiting list may still lead to.
//! - The presence of node states is their pointers, in a line that is read only, instead of a bit vector and a list.
//! - Those to be woken are chosen before the lock is released, and woken after it.
//! - Whether the caller's time slice is over cannot be asked for: a waiter sleeps after a context-switch round trip, if there
//!   are signs of more threads than CPUs and there is but one node; else after up to twenty.
//! - A waiter may give up at a deadline.
//!
//! The paper's sleepers may starve, since a woken one lines up behind others and may sleep again before its turn. Here that is
//! bounded, twice. The one that has slept longest is woken at the latest after 1024 hand-overs on its node, with as many others
//! as are woken at a time, once those woken before have lined up again. And who has lined up again twice is not passed
//! over any more: it is handed the lock in its turn, if need be asleep. So a waiter is passed over twice at most, each
//! time by 1024 hand-overs for each batch of sleepers before it.
//!
//! Properties: 16 bytes a lock; once somebody has waited 64 more, 64 for each node that has waited, and another 64 for each 7
//! nodes beyond the first 3; one node of 64 bytes for each waiter, none for the holder. FIFO between nodes, and among
//! those of a node who are awake. Waiting: spin, then park. `try_lock` looks at the lock's own word, and never waits.
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
//!                       its turn: nearest who is awake          L: GRANTED (the node's lock) or OWNED (the global one too)
//!    UW: WAITING ──────────────────────────────────────────────→ ↑
//!        │ has spun for long enough        its turn, if aged     │
//!        ↓                                                       │
//!    PW: PARKED  ────────────────────────────────────────────────┘
//!        │   ↑ (stays so when it is passed over: waiting list → parking list)
//!        │   └── deadline ──→ ABANDONED, whichever list it is in
//!        ↓ chosen, from the parking list
//!        CHOSEN ── the lock is released ──→ R: REQUEUED, and woken ──→ lines up again with a new node
//! ```
//!
//! # Invariants
//!
//! - I1: the lock is held exactly while `tail` is not null. `serving` is the node by way of which, or null; it belongs to the
//!   holder, who holds that node's lock too.
//! - I2: whoever swaps something out of a tail links itself to it: to `first` where nobody waited, to the node's `next` where it
//!   was a node. `first` is null while nobody waits; between a grant and `settle` it is stale, and read by nobody.
//! - I3: a queue node is recycled once, when it is in no list and whoever is behind it has linked itself: by its owner who was
//!   granted what it waited for or told to line up again, or by the holder who found it abandoned.
//! - I4: the parking list and the counts of a node belong to the holder of the node's lock. It alone takes nodes out of the
//!   waiting list, so a waiter is in one list at a time.
//! - I5: a sleeper's word is changed by that holder, and by the sleeper from `PARKED` to `ABANDONED`. So there is no race between
//!   passing over a sleeper and waking it, and none between going to sleep and being handed the lock: one exchange decides.
//! - I6: `CHOSEN` means that its writer will write `REQUEUED`, and nobody else anything; the sleeper waits for that, without a
//!   deadline. Until then the node is the writer's.
//! - I7: if sleepers are in a node's parking list, the node's lock is held, or somebody is on its way to it: `woken` is at
//!   least the number of those who were chosen and have not swapped the tail since. A thread swaps first, then counts down, and
//!   that it swaps is unconditional. So a holder that reads more than 0 and then frees the node's lock frees it before
//!   one of them swaps, who will hold the lock then, and look for sleepers when it releases it.
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
//! - E6: the CAS to `ABANDONED` (Release) → the exchange that fails because of it (Acquire): the waiter's accesses likewise.
//! - E7: the CAS of a tail from a node to "held" or null (Release) → the swap that finds that (Acquire), directly or through the
//!   CASes in between: clearing `first` comes before the new waiter's write to it.
//! - E8: the swap of `tail` (Release), after the state was made → the load of a holder who took the lock directly, and finds that
//!   somebody waits (Acquire).

mod line;
mod node;

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, DataCell, Deadline, NODE_BYTES, Native, Platform, PoolNode};

use self::line::{Line, OWNED, Waiter, held};
use self::node::{Acquired, Attention, Chosen, NodeState};
use super::directory::Children;
use super::lazy::{Lazy, State};
use super::part::{LocalLock, Part};
use crate::api::RawLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::knobs::{BaseKnobs, PASS_LIMIT};
use crate::wait::{self, GRANTED, Grant, registered};

/// What is known of the CST-mutex.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "cst-mutex",
    family: Family::Hierarchical,
    fairness: "long-term: FIFO among those awake; a sleeper is passed over three times at most",
    bytes: 16,
    bytes_per_waiter: 64,
    holder_node: false,
    timed: "gives up in the queue of its node, in that of the nodes, or asleep",
    citation: Citation {
        key: "kashyap17",
        text: "Kashyap, Min, Kim: Scalable NUMA-aware blocking synchronization primitives. USENIX ATC 2017",
    },
    summary: "a queue for each NUMA node and one of nodes; a release hands the lock to the nearest waiter who is awake",
    properties: "No hand-over waits for a sleeper while another waiter is awake; sleepers are woken in batches. Nothing but \
                 16 bytes until somebody waits, then memory for those nodes only that wait.",
    deviations: "A free lock is taken without its node; releasers move sleepers to the parking list; the starvation of \
                 sleepers is bounded; waiters can give up at a deadline.",
    avoid: "Where the order of arrival matters.",
};

/// How the global lock is held.
const DIRECTLY: usize = 1;
const BY_NODE: usize = 2;

/// Nodes whose states are found without a detour.
const NEAR: usize = 3;

/// The node by way of which the lock is held, or null, as data of the holder.
struct Serving<P: Platform>(*mut NodeState<P>);

impl<P: Platform> Clone for Serving<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Serving<P> {}

// SAFETY: node states are shared between threads; the lock orders the accesses.
unsafe impl<P: Platform> Send for Serving<P> {}

/// What all nodes share. After the first wait it is written only when the lock goes to another node.
#[repr(C, align(64))]
pub struct Shared<P: Platform> {
    /// Of the global queue.
    first: P::Ptr<Waiter<P>>,
    serving: P::Data<Serving<P>>,
    nodes: Children<P, NodeState<P>, NEAR>,
    limit: P::U32,
    owner: P::U32,
    /// Sleepers that are woken at a time; 0 = as many as a node has CPUs.
    wake: P::U32,
}

const _: () = {
    assert!(size_of::<Shared<Native>>() == NODE_BYTES);
    assert!(size_of::<Cst<Native>>() == ALGORITHM.bytes);
};

impl<P: Platform> core::fmt::Debug for Shared<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared").field("first", &self.first.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for Shared<P> {
    fn new() -> Self {
        Self {
            first: P::Ptr::new(ptr::null_mut()),
            serving: P::Data::new(Serving(ptr::null_mut())),
            nodes: Children::new(),
            limit: P::U32::new(PASS_LIMIT),
            owner: P::U32::new(0),
            wake: P::U32::new(0),
        }
    }
}

impl<P: Platform> State<P> for Shared<P> {
    fn pass_limit(&self) -> &P::U32 {
        &self.limit
    }

    fn owner(&self) -> &P::U32 {
        &self.owner
    }
}

impl<P: Platform> Shared<P> {
    /// How many sleepers are woken at a time, after `turn` hand-overs.
    fn attention(&self, turn: u32) -> Attention {
        let most = match self.wake.load(Relaxed) {
            0 => P::parallelism().div_ceil(P::nodes()) as u32,
            most => most,
        };
        Attention { most, turn }
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
    /// What waiters are known by.
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    fn line<'a>(&'a self, shared: &'a Shared<P>) -> Line<'a, P> {
        Line { tail: &self.tail, first: &shared.first }
    }

    /// Takes the lock, in way `way`, if it is free.
    #[inline(always)]
    fn take(&self, way: usize) -> bool {
        // Read first: a failing CAS would take the line from the holder, and from the other nodes.
        self.tail.load(Relaxed).is_null()
            // ORDER: Acquire is E1. Release is not needed: a CAS continues the release sequences of E1 and E7.
            && self.tail.compare_exchange(ptr::null_mut(), held::<P>(way), Acquire, Relaxed).is_ok()
    }

    /// Lines up and waits, known as a waiter for `address`. Whether the lock was acquired before the deadline.
    #[cold]
    fn acquire(&self, address: usize, deadline: Option<Deadline>) -> bool {
        // From before it is in a queue until it is in none: a child of `fork` must be able to find every ghost.
        registered::<P, _>(address, || {
            let shared = self.state.get_or_make();
            let state = shared.nodes.state(P::node(), |_| {});
            match state.acquire(deadline) {
                None => false,
                Some(Acquired::Both) => true,
                Some(Acquired::Node) if self.acquire_globally(shared, deadline) => {
                    // SAFETY: I1: held.
                    unsafe { shared.serving.set(Serving(ptr::from_ref(state).cast_mut())) };
                    // SAFETY: acquired above.
                    unsafe { state.begin(shared.limit.load(Relaxed)) };
                    true
                }
                Some(Acquired::Node) => {
                    // SAFETY: acquired above.
                    unsafe { state.let_go(Chosen::nobody(), shared.attention(TURN)) }.wake();
                    false
                }
            }
        })
    }

    /// Acquires the global lock, for the holder of a node's lock. Whether that was before the deadline.
    fn acquire_globally(&self, shared: &Shared<P>, deadline: Option<Deadline>) -> bool {
        if self.take(BY_NODE) {
            return true;
        }
        let line = self.line(shared);
        let node = P::alloc_node::<Waiter<P>>();
        // SAFETY: ours, until we have given up.
        let granted = line.enter(node, || {}) || unsafe { node.as_ref() }.wait(deadline) == GRANTED;
        if granted {
            line.settle(node, BY_NODE);
        }
        granted
    }

    /// Hands the lock to a thread of the node that has it, or releases it.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, by way of `state`.
    unsafe fn release(&self, shared: &Shared<P>, state: &NodeState<P>) {
        let attention = shared.attention(TURN);
        // SAFETY: I1: the node's lock is the caller's, for all that follows.
        let mut chosen = unsafe { state.attend(attention) };
        // SAFETY: as above.
        if unsafe { self.may_pass(state) } {
            // SAFETY: as above. ORDER: E4.
            if unsafe { state.hand_over(OWNED) } {
                return chosen.wake();
            }
            if chosen.is_empty() {
                // SAFETY: as above.
                chosen = unsafe { state.choose(attention.most) };
            }
        }
        // SAFETY: I1.
        unsafe { shared.serving.set(Serving(ptr::null_mut())) };
        // SAFETY: as above. From here on the state is not ours to look at.
        let chosen = unsafe { state.let_go(chosen, attention) };
        self.release_globally(shared, BY_NODE);
        // There may be no lock any more, but whoever waits for it waits.
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

    /// Hands the lock to a thread of the node that has it who is awake, if there is one and the node's turn is not over.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, by way of `state`.
    unsafe fn pass(&self, shared: &Shared<P>, state: &NodeState<P>) -> bool {
        // SAFETY: I1: the node's lock is the caller's, for all that follows.
        let chosen = unsafe { state.attend(shared.attention(TURN)) };
        // SAFETY: as above.
        let in_turn = unsafe { self.may_pass(state) };
        // SAFETY: as above. ORDER: E4.
        let passed = in_turn && unsafe { state.hand_over(OWNED) };
        chosen.wake();
        passed
    }

    /// Hands the global lock, held in way `way`, to the next leader who has not given up, or frees it.
    fn release_globally(&self, shared: &Shared<P>, way: usize) {
        let line = self.line(shared);
        let mut head = loop {
            match line.head() {
                None if line.free(way) => return,
                None => {}
                head => break head,
            }
        };
        while let Some(node) = head {
            // SAFETY: initialised (E3), and there until we have granted (I3). ORDER: E4. After that the lock is not ours
            // to look at.
            if wait::grant::<P>(&unsafe { node.as_ref() }.word) == Grant::Accepted {
                return;
            }
            head = line.take_out(node, ptr::null_mut());
            // SAFETY: I3: abandoned, and taken out.
            unsafe { P::free_node(node) };
        }
    }

    /// Releases a lock that others wait for, or that was not taken directly.
    #[cold]
    fn release_slow(&self) {
        // ORDER: Acquire is E8.
        if self.tail.load(Acquire).is_null() {
            // A free lock stays as it is: POSIX leaves unlocking one undefined, glibc makes it harmless.
            return;
        }
        let Some(shared) = self.state.get() else { unreachable!("whoever waits has made the state") };
        // SAFETY: I1: held by the caller.
        let Serving(serving) = unsafe { shared.serving.get() };
        // SAFETY: node states stay until the lock is disposed of.
        match unsafe { serving.as_ref() } {
            // SAFETY: I1.
            Some(state) => unsafe { self.release(shared, state) },
            None => self.release_globally(shared, DIRECTLY),
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

    fn configure(&self, knobs: &BaseKnobs) {
        self.state.configure(knobs);
        if let Some(wake) = knobs.wake {
            self.state.get_or_make().wake.store(wake, Relaxed);
        }
    }

    #[inline(always)]
    fn lock(&self) {
        if !self.take(DIRECTLY) {
            let acquired = self.acquire(self.address(), None);
            debug_assert!(acquired, "a wait without a deadline ends with the lock");
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.take(DIRECTLY).then_some(())
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<()> {
        (self.take(DIRECTLY) || self.acquire(self.address(), Some(deadline))).then_some(())
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
        let Some(shared) = self.state.get() else { return };
        // SAFETY: the caller's contract, for all that follows.
        let Serving(serving) = unsafe { shared.serving.get() };
        shared.nodes.visit(|state| {
            // SAFETY: as above.
            unsafe { state.clear(locked && ptr::eq(state, serving)) };
        });
        shared.first.store(ptr::null_mut(), Relaxed);
        if locked {
            self.tail.store(held::<P>(if serving.is_null() { DIRECTLY } else { BY_NODE }), Relaxed);
        } else {
            // SAFETY: as above.
            unsafe { shared.serving.set(Serving(ptr::null_mut())) };
        }
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract: nobody waits, so there is nothing but the states.
        let clear = |shared: &Shared<P>| unsafe { shared.nodes.dispose(|_| {}) };
        // SAFETY: as above.
        unsafe { self.state.dispose(clear) };
    }
}

impl<P: Platform, const TURN: u32> Part<P> for Cst<P, TURN> {
    fn acquire_for(&self, address: usize, deadline: Option<Deadline>) -> Option<()> {
        (self.take(DIRECTLY) || self.acquire(address, deadline)).then_some(())
    }

    #[inline(always)]
    fn attempt_for(&self, _address: usize) -> Option<()> {
        self.try_lock()
    }

    fn clear(&self) {
        self.tail.store(ptr::null_mut(), Relaxed);
        // SAFETY: nobody else runs, and the lock is free.
        unsafe { self.forget_waiters(None) };
    }
}

impl<P: Platform, const TURN: u32> LocalLock<P> for Cst<P, TURN> {
    /// To somebody of the same node who is awake. For all others a release is quicker than the wait would be.
    unsafe fn hand_over(&self, (): ()) -> Result<(), ()> {
        // ORDER: Acquire is E8.
        if self.tail.load(Acquire) == held::<P>(DIRECTLY) {
            return Err(());
        }
        let Some(shared) = self.state.get() else { return Err(()) };
        // SAFETY: I1: held by the caller.
        let Serving(serving) = unsafe { shared.serving.get() };
        // SAFETY: node states stay until the lock is disposed of. I1.
        let passed = unsafe { serving.as_ref() }.is_some_and(|state| unsafe { self.pass(shared, state) });
        if passed { Ok(()) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests;
