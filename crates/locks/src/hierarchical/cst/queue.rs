//! The queues of [`Cst`](super::Cst), and how their waiters wait. Invariants and edges are those of the lock.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, FutexCell, NODE_BYTES, Native, Platform, PoolNode};

use crate::wait::{
    self, ABANDONED, PARKED, ROUND_TRIPS, Returning, WAITING, Wait, patiently, spin_with_room,
};

/// Of a waiter's word: what it waited for, and the lock of the whole machine, are the waiter's.
pub(crate) const OWNED: u32 = 4;
/// Of a sleeper's word: the thread that wrote this will wake it.
pub(super) const CHOSEN: u32 = 5;
/// Of a sleeper's word: it has been taken out of all queues, and is to line up again.
pub(super) const REQUEUED: u32 = 6;

/// Times that a waiter lines up again in vain, before it is handed the lock asleep.
const AGED: u32 = 2;

/// For how many context-switch round trips a waiter spins even where threads outnumber CPUs.
pub(super) fn patience<P: Platform>() -> u32 {
    /// Round trips for each further NUMA node: a thread that slept whenever another node has its turn would make nothing of its
    /// own node's.
    const AWAY: u32 = 4;
    ROUND_TRIPS.min(1 + AWAY * (P::domains() as u32 - 1))
}

/// Of a queue's tail: what is queued for is held, and nobody waits. No waiter has such an address.
const MOST_HELD: usize = 2;

/// A thread in a queue.
#[repr(C)]
pub(crate) struct Waiter<P: Platform> {
    /// What became of its waiting: see `State` of the lock.
    pub(super) word: P::Futex,
    /// How often it was made to line up again; written before it does.
    pub(super) rounds: P::U32,
    /// In the global queue: the state of the node that it keeps, if it may give up; written before it is in a queue.
    pub(super) of: P::Ptr<super::NodeState<P>>,
    /// The next waiter in the queue. Written once, by that waiter; on other lists by the holder.
    pub(super) next: P::Ptr<Self>,
}

const _: () = assert!(size_of::<Waiter<Native>>() <= NODE_BYTES);

impl<P: Platform> core::fmt::Debug for Waiter<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Waiter").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for Waiter<P> {
    fn new() -> Self {
        Self {
            word: P::Futex::new(WAITING),
            rounds: P::U32::new(0),
            of: P::Ptr::new(ptr::null_mut()),
            next: P::Ptr::new(ptr::null_mut()),
        }
    }
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// The waiter has it.
    Taken,
    /// The waiter sleeps.
    Asleep,
    /// The waiter has given up; the node is the caller's.
    Abandoned,
}

impl<P: Platform> Waiter<P> {
    /// Gives the waiter what it waits for, as `what`, if it is awake, or asleep and aged.
    pub(super) fn offer(&self, what: u32) -> Offer {
        let address = ptr::from_ref(&self.word);
        // Nothing is read before: the line would have to come twice, to be read and to be written. ORDER: Release is E4.
        let Err(seen) = self.word.compare_exchange(WAITING, what, Release, Relaxed) else {
            return Offer::Taken;
        };
        // I3: it is there until we have dealt with it.
        let rounds = self.rounds.load(Relaxed);
        // ORDER: E6.
        if wait::claim::<P>(&self.word, seen, PARKED) {
            return Offer::Abandoned;
        }
        if rounds < AGED {
            return Offer::Asleep;
        }
        // I5: a sleeper can but give up meanwhile, or come back. ORDER: as above.
        while let Err(seen) = self.word.compare_exchange(PARKED, what, Release, Relaxed) {
            if wait::claim::<P>(&self.word, seen, PARKED) {
                return Offer::Abandoned;
            }
        }
        // SAFETY: alive at the exchange; a wake that comes late is spurious.
        unsafe { FutexCell::wake(address, 1) };
        Offer::Taken
    }

    /// Chooses the waiter, a sleeper. Otherwise it has given up, and the node is the caller's.
    pub(super) fn choose(&self) -> bool {
        // I5. ORDER: Relaxed: the sleeper goes on waiting.
        while let Err(seen) = self.word.compare_exchange(PARKED, CHOSEN, Relaxed, Relaxed) {
            if wait::claim::<P>(&self.word, seen, PARKED) {
                return false; // ORDER: E6.
            }
        }
        true
    }

    /// Goes on as a sleeper, where the thread gave up: as [`Waiter::wait`]. Also, how to go on if it has to line up again.
    pub(super) fn wait_again(&self, returning: &mut Returning<P, Self>, wait: &Wait) -> (u32, Wait) {
        let (said, wait) = match wait::take_up(&self.word, wait, PARKED) {
            Ok(()) => (PARKED, *wait),
            Err(said) => (said, returning.was_met(wait)),
        };
        let said = match said {
            PARKED | CHOSEN => self.sleep(&wait),
            said => said, // ORDER: E4, E5.
        };
        (said, wait)
    }

    /// Waits for as long as it takes, or up to the deadline. Returns what the word says then: what was granted,
    /// [`REQUEUED`], or [`ABANDONED`], after which the node is no longer the caller's.
    pub(super) fn wait(&self, wait: &Wait) -> u32 {
        let look = || {
            let said = self.word.load(Acquire); // ORDER: E4.
            (said != WAITING).then_some(said)
        };
        if let Some(said) = spin_with_room::<P, _>(patience::<P>() - 1, wait.deadline, look, || ()) {
            return said;
        }
        // ORDER: Acquire on failure is E4. Success publishes nothing: others read the state only.
        match self.word.compare_exchange(WAITING, PARKED, Relaxed, Acquire) {
            Ok(_) => self.sleep(wait),
            Err(said) => said,
        }
    }

    /// Sleeps, parked or chosen: as [`Waiter::wait`].
    fn sleep(&self, wait: &Wait) -> u32 {
        let gives_up = |abandoned| {
            // ORDER: Release is E6. A failure is looked at again.
            self.word.compare_exchange(PARKED, abandoned, Release, Relaxed).is_ok()
        };
        loop {
            match self.word.load(Acquire) {
                PARKED => {
                    if self.word.wait(PARKED, wait.deadline).is_err() && wait::give_up::<P, _>(wait, gives_up)
                    {
                        return ABANDONED;
                    }
                }
                // I6: soon, whatever the deadline.
                CHOSEN => _ = self.word.wait(CHOSEN, None),
                said => return said, // ORDER: E4, E5.
            }
        }
    }
}

/// A queue: MCS in the way of K42, whose holder is not in it.
#[derive(Debug)]
pub(crate) struct Queue<'a, P: Platform> {
    /// Null: free. At most [`MOST_HELD`]: held, and nobody waits. Else: the last waiter.
    pub(crate) tail: &'a P::Ptr<Waiter<P>>,
    /// The first waiter; written by it, or by the holder; read by the holder.
    pub(crate) first: &'a P::Ptr<Waiter<P>>,
}

/// The tail of a queue whose lock is held in way `way`, from 1 to [`MOST_HELD`].
#[inline(always)]
pub(crate) const fn held<P: Platform>(way: usize) -> *mut Waiter<P> {
    debug_assert!(way > 0 && way <= MOST_HELD);
    ptr::without_provenance_mut(way)
}

/// The waiter in `link`, when somebody is known to be on the way to write it.
fn await_link<P: Platform>(link: &P::Ptr<Waiter<P>>) -> NonNull<Waiter<P>> {
    patiently::<P, _>(|| NonNull::new(link.load(Acquire))) // ORDER: E3.
}

impl<P: Platform> Queue<'_, P> {
    /// Puts `node`, which is the caller's and fresh, at the end. Returns whether what is queued for was free, and is
    /// the caller's now; `entered` is called in between.
    pub(super) fn enter(&self, node: NonNull<Waiter<P>>, entered: impl FnOnce()) -> bool {
        // ORDER: Release is E2 (and the initialisation of our node); Acquire is E1, E2 and E3.
        let pred = self.tail.swap(node.as_ptr(), AcqRel);
        entered();
        if pred.is_null() {
            return true;
        }
        let link = if pred.addr() <= MOST_HELD {
            self.first
        } else {
            // SAFETY: I3: a node that was the tail is not recycled before we have linked ourselves to it.
            &unsafe { &*pred }.next
        };
        link.store(node.as_ptr(), Release); // ORDER: E3.
        false
    }

    /// The first waiter, if somebody has lined up. For the holder.
    pub(super) fn head(&self) -> Option<NonNull<Waiter<P>>> {
        // ORDER: E3.
        match NonNull::new(self.first.load(Acquire)) {
            None if self.tail.load(Relaxed).addr() <= MOST_HELD => None,
            None => Some(await_link::<P>(self.first)),
            head => head,
        }
    }

    /// Takes the first waiter, `node`, out; if nobody is behind it, what is queued for is `then`. Returns the waiter behind it.
    pub(super) fn take_out(
        &self,
        node: NonNull<Waiter<P>>,
        then: *mut Waiter<P>,
    ) -> Option<NonNull<Waiter<P>>> {
        // SAFETY: I3: the caller's, or of somebody who still waits.
        let link = &unsafe { node.as_ref() }.next;
        // ORDER: E3.
        if let Some(next) = NonNull::new(link.load(Acquire)) {
            return Some(next);
        }
        // Before the CAS: afterwards the next waiter writes there. ORDER: E7 publishes it.
        self.first.store(ptr::null_mut(), Relaxed);
        // ORDER: Release is E7, and E1 if the lock is freed.
        if self.tail.compare_exchange(node.as_ptr(), then, Release, Relaxed).is_ok() {
            return None;
        }
        Some(await_link::<P>(link))
    }

    /// Takes out `node`, whose owner, the caller, has been granted what it waited for. That is held in way `way` from now on.
    pub(super) fn settle(&self, node: NonNull<Waiter<P>>, way: usize) {
        if let Some(next) = self.take_out(node, held::<P>(way)) {
            // ORDER: Relaxed: only the holder looks at it until it is cleared.
            self.first.store(next.as_ptr(), Relaxed);
        }
        // SAFETY: I3: granted, and whoever is behind it has linked itself.
        unsafe { P::free_node(node) };
    }

    /// Frees what is held in way `way`, unless somebody has lined up.
    pub(super) fn free(&self, way: usize) -> bool {
        // ORDER: Release is E1.
        self.tail.compare_exchange(held::<P>(way), ptr::null_mut(), Release, Relaxed).is_ok()
    }
}
