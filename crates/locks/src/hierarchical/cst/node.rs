//! What [`Cst`](super::Cst) keeps for a NUMA node: the lock of its threads, and those of them who sleep. Invariants and
//! edges are those of the lock.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Relaxed, Release};

use lockwork_platform::{
    AtomicCell, AtomicInt, Clock, DataCell, FutexCell, NODE_BYTES, Native, Platform, PoolNode,
};

use super::super::directory::Users;
use super::queue::{OWNED, Offer, Queue, REQUEUED, Waiter, held, patience};
use crate::api::address;
use crate::wait::{ABANDONED, GRANTED, Returning, Wait};

/// How a node's lock is held: there is but one way.
const HELD: usize = 1;

/// Hand-overs between two looks at the clock.
const LOOK_EVERY: u32 = 8;
/// Of `begun`: not known yet.
const UNKNOWN: u64 = 0;
/// Of `begun`: it has lasted for long enough.
const OVER: u64 = u64::MAX;

/// A pointer to a waiter, or null, as data of a holder.
pub(super) struct Last<P: Platform>(*mut Waiter<P>);

impl<P: Platform> Clone for Last<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Last<P> {}

// SAFETY: waiters are shared between threads; whose data it is orders the accesses.
unsafe impl<P: Platform> Send for Last<P> {}

/// The node by way of which the lock is held, or null, as data of the holder.
pub(crate) struct Serving<P: Platform>(pub(crate) *mut NodeState<P>);

impl<P: Platform> Clone for Serving<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Serving<P> {}

// SAFETY: node states are shared between threads; the lock orders the accesses.
unsafe impl<P: Platform> Send for Serving<P> {}

/// The node by way of which the lock of the whole machine is held, or null: `likely`, if it is that, or else what is `named`. That is in
/// a line that leaders have written since, and would have to come.
///
/// # Safety
///
/// The caller holds the lock of the whole machine.
#[inline]
pub(crate) unsafe fn serving<P: Platform>(
    likely: Option<&NodeState<P>>,
    named: &P::Data<Serving<P>>,
) -> *const NodeState<P> {
    match likely {
        // SAFETY: the caller's contract.
        Some(state) if unsafe { state.serves() } => state,
        // SAFETY: as above.
        _ => unsafe { named.get() }.0,
    }
}

/// The state of a NUMA node: a cache line that those who come and go write, and one that goes from holder to holder.
#[repr(C, align(64))]
pub(crate) struct NodeState<P: Platform> {
    /// Of the waiting list.
    tail: P::Ptr<Waiter<P>>,
    /// I8, I9 of CST.
    users: P::Usize,
    /// Those who were told to line up again, and have not done so yet.
    woken: P::U32,
    of_holder: OfHolder<P>,
}

/// What belongs to the holder of a node's lock (I4).
#[repr(C, align(64))]
struct OfHolder<P: Platform> {
    /// Of the waiting list; written by a waiter where nobody waits.
    first: P::Ptr<Waiter<P>>,
    /// The last of the parking list, which is a ring: its `next` is the one that has slept longest.
    parked: P::Data<Last<P>>,
    /// Hand-overs that are left until the other nodes get their turn.
    passes: P::Data<u32>,
    /// When the node's turn began, in ns; or [`UNKNOWN`], or [`OVER`].
    begun: P::Data<u64>,
    /// Hand-overs since sleepers were chosen because that was due, up to where it is due.
    passed_over: P::Data<u32>,
    /// Releases that were counted here, modulo 2^32: data of the holder of the whole machine's lock.
    releases: P::Data<u32>,
    /// Whether the lock of the whole machine is held by way of this node; likewise.
    serves: P::Data<bool>,
    /// How often that has begun, modulo 2^32; likewise.
    turns: P::Data<u32>,
    /// When somebody looked what to do last, in ns, modulo 2^32; likewise.
    looked: P::Data<u32>,
    /// Threads that have passed the lock on and are among the users still (I9 of CST).
    passed: P::Data<usize>,
}

const _: () = assert!(size_of::<NodeState<Native>>() == 2 * NODE_BYTES);

impl<P: Platform> core::fmt::Debug for NodeState<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NodeState").field("tail", &self.tail.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for NodeState<P> {
    fn new() -> Self {
        Self {
            tail: P::Ptr::new(ptr::null_mut()),
            users: P::Usize::new(0),
            woken: P::U32::new(0),
            of_holder: OfHolder {
                first: P::Ptr::new(ptr::null_mut()),
                parked: P::Data::new(Last(ptr::null_mut())),
                passes: P::Data::new(0),
                begun: P::Data::new(UNKNOWN),
                passed_over: P::Data::new(0),
                releases: P::Data::new(0),
                serves: P::Data::new(false),
                turns: P::Data::new(0),
                looked: P::Data::new(0),
                passed: P::Data::new(0),
            },
        }
    }
}

/// What a thread has acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The lock of its node.
    Node,
    /// The lock of its node, and that of the whole machine.
    Both,
}

/// What a thread is to do that has waited.
enum Told {
    /// With what it has acquired, or nothing at its deadline.
    ToGo(Option<Acquired>),
    ToLineUp,
}

/// How many of those who were passed over are woken, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention {
    /// At a time.
    pub(crate) most: u32,
    /// After this many hand-overs, if some were awake all the time.
    pub(crate) turn: u32,
}

/// Sleepers who are to line up again, and do not know it yet.
#[must_use = "nobody else wakes them"]
pub(crate) struct Chosen<P: Platform> {
    first: *mut Waiter<P>,
    last: *mut Waiter<P>,
}

impl<P: Platform> Chosen<P> {
    pub(crate) fn nobody() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    fn push(&mut self, node: NonNull<Waiter<P>>) {
        // SAFETY: I6: chosen, and so ours to link.
        unsafe { node.as_ref() }.next.store(ptr::null_mut(), Relaxed);
        match NonNull::new(self.last) {
            None => self.first = node.as_ptr(),
            // SAFETY: as above.
            Some(last) => unsafe { last.as_ref() }.next.store(node.as_ptr(), Relaxed),
        }
        self.last = node.as_ptr();
    }

    /// Wakes them. Touches nothing but their nodes, so the lock may have been released before.
    pub(crate) fn wake(self) {
        let mut node = self.first;
        // SAFETY: I6: it waits until we say so.
        while let Some(waiter) = unsafe { node.as_ref() } {
            node = waiter.next.load(Relaxed);
            let address = ptr::from_ref(&waiter.word);
            // ORDER: Release is E5.
            waiter.word.swap(REQUEUED, Release);
            // SAFETY: alive at the swap; a wake that comes late is spurious.
            unsafe { FutexCell::wake(address, 1) };
        }
    }
}

impl<P: Platform> NodeState<P> {
    fn queue(&self) -> Queue<'_, P> {
        Queue { tail: &self.tail, first: &self.of_holder.first }
    }

    /// The count of threads that use it.
    #[inline(always)]
    pub(crate) fn users(&self) -> Users<'_, P> {
        Users(&self.users)
    }

    /// Acquires the node's lock, and more if it is handed over. `None`: the deadline was first.
    pub(crate) fn acquire(&self, wait: &Wait) -> Option<Acquired> {
        let node = P::alloc_node::<Waiter<P>>();
        if wait.deadline.is_none() {
            return self.line_up(node, 0, wait);
        }
        let line_up = |wait: &Wait| self.line_up(node, 0, wait);
        let come_back = |left, back: &mut Returning<_, _>, wait: &Wait| self.come_back(left, back, wait);
        Returning::run(address(self), wait, node, line_up, come_back)
    }

    /// As [`NodeState::acquire`], with `node`, which is fresh, after so many times that the thread was told to line up again.
    fn line_up(&self, mut node: NonNull<Waiter<P>>, rounds: u32, wait: &Wait) -> Option<Acquired> {
        for round in rounds.. {
            // SAFETY: ours, until we have given up.
            let waiter = unsafe { node.as_ref() };
            waiter.rounds.store(round, Relaxed);
            Returning::leaves(node, wait);
            let entered = || {
                if round > 0 {
                    // I7. ORDER: Relaxed: what counts is that it comes after the swap of the tail.
                    self.woken.fetch_sub(1, Relaxed);
                }
            };
            let said = if self.queue().enter(node, entered) { GRANTED } else { waiter.wait(wait) };
            match self.was_told(node, said) {
                Told::ToGo(acquired) => return acquired,
                Told::ToLineUp => node = P::alloc_node(),
            }
        }
        unreachable!("a waiter that is aged is not told to line up again")
    }

    /// As [`NodeState::acquire`], in the place where the thread gave up, asleep.
    #[cold]
    fn come_back(
        &self,
        node: NonNull<Waiter<P>>,
        returning: &mut Returning<P, Waiter<P>>,
        wait: &Wait,
    ) -> Option<Acquired> {
        // SAFETY: I3: ours again, until we have given up.
        let waiter = unsafe { node.as_ref() };
        let rounds = waiter.rounds.load(Relaxed);
        let (said, wait) = waiter.wait_again(returning, wait);
        match self.was_told(node, said) {
            Told::ToGo(acquired) => acquired,
            Told::ToLineUp => self.line_up(P::alloc_node(), rounds + 1, &wait),
        }
    }

    /// What the thread with this node is to do that waited until its word said that.
    fn was_told(&self, node: NonNull<Waiter<P>>, said: u32) -> Told {
        match said {
            ABANDONED => Told::ToGo(None),
            REQUEUED => {
                // SAFETY: I3: in no list any more, and nobody else knows of it.
                unsafe { P::free_node(node) };
                Told::ToLineUp
            }
            said => {
                self.queue().settle(node, HELD);
                Told::ToGo(Some(if said == OWNED { Acquired::Both } else { Acquired::Node }))
            }
        }
    }

    /// Hands the node's lock, as `what`, to the nearest waiter who is awake or aged; a waiter that is passed over goes to the
    /// parking list. Whether there was one.
    ///
    /// # Safety
    ///
    /// The caller holds the node's lock.
    pub(crate) unsafe fn hand_over(&self, what: u32) -> bool {
        let mut head = self.queue().head();
        while let Some(node) = head {
            // SAFETY: initialised (E3), and there until we have dealt with it (I3).
            let offer = unsafe { node.as_ref() }.offer(what);
            if offer == Offer::Taken {
                return true;
            }
            head = self.queue().take_out(node, held::<P>(HELD));
            if offer == Offer::Asleep {
                // SAFETY: the caller's contract.
                unsafe { self.park(node) };
            } else {
                // SAFETY: I3: abandoned, and taken out.
                unsafe { P::free_node(node) };
            }
        }
        false
    }

    /// Hands the lock of the whole machine over with the node's, as [`NodeState::hand_over`] does. If there was one to take it, it is
    /// others who take the caller off the users (I9 of CST), and the state is not the caller's to look at any more.
    ///
    /// # Safety
    ///
    /// The caller holds both locks, and uses the state.
    pub(crate) unsafe fn pass(&self) -> bool {
        // SAFETY: I4, for all that follows.
        let passed = unsafe { self.of_holder.passed.get() };
        // SAFETY: as above.
        unsafe { self.of_holder.passed.set(passed + 1) };
        // SAFETY: the caller's contract. ORDER: E4.
        let taken = unsafe { self.hand_over(OWNED) };
        if !taken {
            // SAFETY: I4: still the caller's.
            unsafe { self.of_holder.passed.set(passed) };
        }
        taken
    }

    /// Puts a sleeper at the end of the parking list.
    ///
    /// # Safety
    ///
    /// The caller holds the node's lock, and has taken `node` out of the waiting list.
    unsafe fn park(&self, node: NonNull<Waiter<P>>) {
        // SAFETY: I4, for all that follows.
        let last = unsafe { self.of_holder.parked.get() }.0;
        // SAFETY: as above.
        let next = match unsafe { last.as_ref() } {
            None => node.as_ptr(),
            Some(last) => last.next.swap(node.as_ptr(), Relaxed),
        };
        // SAFETY: as above.
        unsafe { node.as_ref() }.next.store(next, Relaxed);
        // SAFETY: as above.
        unsafe { self.of_holder.parked.set(Last(node.as_ptr())) };
    }

    /// Takes the one that has slept longest off the parking list.
    ///
    /// # Safety
    ///
    /// The caller holds the node's lock.
    unsafe fn unpark(&self) -> Option<NonNull<Waiter<P>>> {
        // SAFETY: I4, for all that follows.
        let last = NonNull::new(unsafe { self.of_holder.parked.get() }.0)?;
        // SAFETY: as above.
        let next = &unsafe { last.as_ref() }.next;
        let node = NonNull::new(next.load(Relaxed))?;
        if node == last {
            // SAFETY: as above.
            unsafe { self.of_holder.parked.set(Last(ptr::null_mut())) };
        } else {
            // SAFETY: as above.
            next.store(unsafe { node.as_ref() }.next.load(Relaxed), Relaxed);
        }
        Some(node)
    }

    /// Chooses up to `most` sleepers who are to line up again, unless some are on their way already (I7).
    ///
    /// # Safety
    ///
    /// The caller holds the node's lock.
    pub(crate) unsafe fn choose(&self, most: u32) -> Chosen<P> {
        let mut chosen = Chosen::nobody();
        if self.woken.load(Relaxed) > 0 {
            return chosen;
        }
        let mut count = 0;
        while count < most
            // SAFETY: the caller's contract.
            && let Some(node) = unsafe { self.unpark() }
        {
            // SAFETY: I5.
            if unsafe { node.as_ref() }.choose() {
                chosen.push(node);
                count += 1;
            } else {
                // SAFETY: I5: abandoned, and in no list any more.
                unsafe { P::free_node(node) };
            }
        }
        if count > 0 {
            self.woken.fetch_add(count, Relaxed);
        }
        chosen
    }

    /// Counts a hand-over. Chooses sleepers, if they have been passed over for long enough.
    ///
    /// # Safety
    ///
    /// The caller holds the node's lock.
    pub(crate) unsafe fn attend(&self, attention: Attention) -> Chosen<P> {
        // SAFETY: I4, for all that follows.
        if unsafe { self.of_holder.parked.get() }.0.is_null() {
            return Chosen::nobody();
        }
        // SAFETY: as above.
        let passed_over = unsafe { self.of_holder.passed_over.get() } + 1;
        let is_due = passed_over >= attention.turn;
        // SAFETY: the caller's contract.
        let chosen = if is_due { unsafe { self.choose(attention.most) } } else { Chosen::nobody() };
        // Nobody is chosen while those chosen before are on their way: then it stays due.
        let passed_over = if !chosen.is_empty() { 0 } else { passed_over.min(attention.turn) };
        // SAFETY: as above.
        unsafe { self.of_holder.passed_over.set(passed_over) };
        chosen
    }

    /// Hands the node's lock to somebody who has yet to acquire the lock of the whole machine, or frees it. Returns
    /// whom to wake, `chosen`, if those are any; and how many users the caller has to take off, itself among them. The node does not serve
    /// any more.
    ///
    /// # Safety
    ///
    /// The caller holds the node's lock.
    pub(crate) unsafe fn let_go(&self, mut chosen: Chosen<P>, attention: Attention) -> (Chosen<P>, usize) {
        // SAFETY: I4, for all that follows.
        let passed = unsafe { self.of_holder.passed.get() };
        if passed > 0 {
            // SAFETY: as above.
            unsafe { self.of_holder.passed.set(0) };
        }
        loop {
            // SAFETY: the caller's contract, here and below.
            if unsafe { self.hand_over(GRANTED) } {
                break;
            }
            if chosen.is_empty() {
                // SAFETY: as above.
                chosen = unsafe { self.choose(attention.most) };
            }
            if self.queue().free(HELD) {
                break;
            }
        }
        (chosen, passed + 1)
    }

    /// Begins a turn of the node, of `passes` hand-overs.
    ///
    /// # Safety
    ///
    /// The caller holds the node's lock.
    pub(crate) unsafe fn begin(&self, passes: u32) {
        // SAFETY: I4, here and below.
        unsafe { self.of_holder.passes.set(passes) };
        // SAFETY: as above.
        unsafe { self.of_holder.begun.set(UNKNOWN) };
    }

    /// Says whether the lock of the whole machine is held by way of this node.
    ///
    /// # Safety
    ///
    /// The caller holds both locks.
    pub(crate) unsafe fn serve(&self, serves: bool) {
        // SAFETY: the caller's contract, for all that follows.
        unsafe { self.of_holder.serves.set(serves) };
        if serves {
            // SAFETY: as above.
            let turns = unsafe { self.of_holder.turns.get() };
            // SAFETY: as above.
            unsafe { self.of_holder.turns.set(turns.wrapping_add(1)) };
        }
    }

    /// Whether it was so many ns, or more, since the answer was yes the last time, at a time `then`, which may be before that. Times in
    /// ns, modulo 2^32.
    ///
    /// # Safety
    ///
    /// The caller holds the lock of the whole machine.
    pub(crate) unsafe fn is_due(&self, then: u32, every: u32) -> bool {
        /// By how much `then` may be before it.
        const BEFORE: u32 = 1 << 30;
        // SAFETY: the caller's contract: whoever changes it holds it, too.
        let since = then.wrapping_sub(unsafe { self.of_holder.looked.get() });
        let is_due = since.wrapping_add(BEFORE) >= every + BEFORE;
        if is_due {
            // SAFETY: as above.
            unsafe { self.of_holder.looked.set(then) };
        }
        is_due
    }

    /// Whether the lock of the whole machine is held by way of this node. That is in the node's line, which the holder of its lock has.
    ///
    /// # Safety
    ///
    /// The caller holds the lock of the whole machine.
    unsafe fn serves(&self) -> bool {
        // SAFETY: the caller's contract: whoever changes it holds it, too.
        unsafe { self.of_holder.serves.get() }
    }

    /// Whether one more hand-over is left in the node's turn; it is, then, for this one.
    ///
    /// # Safety
    ///
    /// The caller holds the node's lock.
    pub(crate) unsafe fn may_pass(&self) -> bool {
        // SAFETY: I4, here and below.
        let passes = unsafe { self.of_holder.passes.get() };
        // SAFETY: the caller's contract.
        if passes == 0 || unsafe { self.has_lasted(passes) } {
            return false;
        }
        // SAFETY: as above.
        unsafe { self.of_holder.passes.set(passes - 1) };
        true
    }

    /// Whether the node's turn, of which so many hand-overs are left, has lasted for so long that the first waiters of the other
    /// nodes would be asleep if all turns did. Looks at the clock every few hand-overs.
    ///
    /// # Safety
    ///
    /// The caller holds the node's lock.
    unsafe fn has_lasted(&self, passes: u32) -> bool {
        // SAFETY: I4, here and below.
        let begun = unsafe { self.of_holder.begun.get() };
        if begun == OVER || !passes.is_multiple_of(LOOK_EVERY) || P::domains() == 1 {
            return begun == OVER;
        }
        let now = P::now(Clock::Monotonic);
        let share = u64::from(patience::<P>()) * P::round_trip_ns() / P::domains() as u64;
        let is_over = begun != UNKNOWN && now.saturating_sub(begun) > share;
        if begun == UNKNOWN || is_over {
            // SAFETY: as above.
            unsafe { self.of_holder.begun.set(if is_over { OVER } else { now }) };
        }
        is_over
    }

    /// Hand-overs that are left in the node's turn.
    ///
    /// # Safety
    ///
    /// The caller holds the node's lock.
    pub(crate) unsafe fn passes_left(&self) -> u32 {
        // SAFETY: I4.
        unsafe { self.of_holder.passes.get() }
    }

    /// Releases that were counted here, and how often the node has begun to serve, both modulo 2^32.
    ///
    /// # Safety
    ///
    /// The caller holds the lock of the whole machine.
    pub(crate) unsafe fn counts(&self) -> (u32, u32) {
        // SAFETY: the caller's contract: whoever counts holds it, too.
        let releases = unsafe { self.of_holder.releases.get() };
        // SAFETY: as above.
        (releases, unsafe { self.of_holder.turns.get() })
    }

    /// Counts releases. In this line, which the holder writes in any case: those of the lock are read by all who come.
    ///
    /// # Safety
    ///
    /// As for [`NodeState::counts`].
    pub(crate) unsafe fn count_releases(&self, more: u32) {
        // SAFETY: the caller's contract.
        let before = unsafe { self.of_holder.releases.get() };
        // SAFETY: as above.
        unsafe { self.of_holder.releases.set(before.wrapping_add(more)) };
    }

    /// Drops all waiters, who are ghosts, after `fork`. The lock is as `holds` says.
    ///
    /// # Safety
    ///
    /// Nobody else runs.
    pub(crate) unsafe fn clear(&self, holds: bool) {
        self.tail.store(if holds { held::<P>(HELD) } else { ptr::null_mut() }, Relaxed);
        self.of_holder.first.store(ptr::null_mut(), Relaxed);
        // SAFETY: the caller's contract.
        unsafe { self.of_holder.parked.set(Last(ptr::null_mut())) };
        // SAFETY: as above.
        unsafe { self.of_holder.passed.set(0) };
        // SAFETY: as above.
        unsafe { self.of_holder.serves.set(holds) };
        self.woken.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Pool;
    extern crate std;

    use std::vec::Vec;

    use super::super::queue::CHOSEN;
    use super::*;
    use crate::wait::{PARKED, WAITING};

    type Node = NonNull<Waiter<Native>>;

    /// A node whose lock is held, and those who line up for it, whose words are these.
    fn node(words: &[u32]) -> (NodeState<Native>, Vec<Node>) {
        let state = NodeState::<Native>::new();
        assert!(state.acquire(&Wait::until(None)) == Some(Acquired::Node));
        let line_up = |word: &u32| {
            let node = Native::alloc_node::<Waiter<Native>>();
            assert!(!state.queue().enter(node, || {}));
            // SAFETY: ours.
            unsafe { node.as_ref() }.word.store(*word, Relaxed);
            node
        };
        let nodes = words.iter().map(line_up).collect();
        (state, nodes)
    }

    fn word(node: Node) -> u32 {
        // SAFETY: not recycled in these tests, or still readable.
        unsafe { node.as_ref() }.word.load(Relaxed)
    }

    /// The parking list, which is empty afterwards.
    fn parked(state: &NodeState<Native>) -> Vec<Node> {
        // SAFETY: nobody else uses the state.
        core::iter::from_fn(|| unsafe { state.unpark() }).collect()
    }

    #[test]
    fn sleepers_are_passed_over_in_their_order() {
        let (state, nodes) = node(&[PARKED, PARKED, WAITING, PARKED]);
        // SAFETY: held.
        assert!(unsafe { state.hand_over(OWNED) });
        assert_eq!(nodes.iter().map(|node| word(*node)).collect::<Vec<_>>(), [PARKED, PARKED, OWNED, PARKED]);
        state.queue().settle(nodes[2], HELD);
        // SAFETY: as above.
        assert!(!unsafe { state.hand_over(OWNED) });
        assert_eq!(parked(&state), [nodes[0], nodes[1], nodes[3]]);
        assert!(state.queue().free(HELD));
    }

    #[test]
    fn those_who_passed_the_lock_on_are_taken_off_by_who_lets_go() {
        let attention = Attention { most: 1, turn: 2 };
        // SAFETY: held.
        let lets_go = |state: &NodeState<Native>| unsafe { state.let_go(Chosen::nobody(), attention) }.1;
        let (state, nodes) = node(&[WAITING, WAITING]);
        for node in nodes {
            // SAFETY: as above.
            assert!(unsafe { state.pass() });
            state.queue().settle(node, HELD);
        }
        // SAFETY: as above.
        assert!(!unsafe { state.pass() }, "nobody waits");
        assert_eq!(lets_go(&state), 3);
        assert!(state.acquire(&Wait::until(None)) == Some(Acquired::Node));
        assert_eq!(lets_go(&state), 1);

        let (state, nodes) = node(&[WAITING]);
        // SAFETY: as above.
        assert!(unsafe { state.pass() });
        state.queue().settle(nodes[0], HELD);
        // SAFETY: nobody else runs.
        unsafe { state.clear(true) };
        assert_eq!(lets_go(&state), 1, "a child has none of those threads");
    }

    #[test]
    fn the_aged_are_handed_the_lock_asleep() {
        let (state, nodes) = node(&[PARKED, WAITING]);
        // SAFETY: ours.
        unsafe { nodes[0].as_ref() }.rounds.store(2, Relaxed);
        // SAFETY: held.
        assert!(unsafe { state.hand_over(GRANTED) });
        assert_eq!((word(nodes[0]), word(nodes[1])), (GRANTED, WAITING));
    }

    #[test]
    fn a_batch_is_as_large_as_it_may_be_and_no_other_follows_before_it_has_lined_up() {
        let (state, nodes) = node(&[PARKED, ABANDONED, PARKED, PARKED]);
        // SAFETY: held, for all that follows.
        assert!(!unsafe { state.hand_over(OWNED) });
        // SAFETY: as above.
        let chosen = unsafe { state.choose(2) };
        assert_eq!([word(nodes[0]), word(nodes[2]), word(nodes[3])], [CHOSEN, CHOSEN, PARKED]);
        // SAFETY: as above.
        assert!(unsafe { state.choose(2) }.is_empty());
        chosen.wake();
        assert_eq!([word(nodes[0]), word(nodes[2]), word(nodes[3])], [REQUEUED, REQUEUED, PARKED]);
        state.woken.store(0, Relaxed);
        let attention = Attention { most: 2, turn: 2 };
        // SAFETY: as above.
        assert!(unsafe { state.attend(attention) }.is_empty());
        // SAFETY: as above.
        unsafe { state.attend(attention) }.wake();
        assert_eq!(word(nodes[3]), REQUEUED);
        assert!(parked(&state).is_empty());
    }
}
