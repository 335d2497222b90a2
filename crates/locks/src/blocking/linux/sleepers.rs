//! What Linux's sleeping locks share: the list of sleepers, and the queue of those that spin before they sleep. And the word
//! of a mutex, which has the list and its guard in it; a rw_semaphore has them beside its readers' count.
//!
//! # State
//!
//! ```text
//! word:   last sleeper (0 = none) │ GUARD: the list is being changed │ the lock's own
//! bits:   6–47                     2                                  0–1
//! list:   a ring: the last one's `next` is the first
//! ```
//!
//! # Invariants
//!
//! - I1: only the thread that set GUARD accesses the list, and what sleepers say of themselves.
//! - I2: a sleeper that is in no list any more is its owner's, and until it is granted also that of the thread that took it
//!   out.
//!
//! # Ordering
//!
//! - E1: the step that clears GUARD (Release) → the CAS that sets it (Acquire): the list.
//! - E2: the swap to `GRANTED` (Release) → the owner's load of its word (Acquire): accesses to the sleeper, and what is
//!   granted.

use core::ops::Deref;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{
    AtomicCell, DataCell, Deadline, FutexCell, NODE_BYTES, Native, Platform, PoolNode, TimedOut,
};

use crate::api::RawLock;
use crate::queue::mcs::Mcs;
use crate::queue::node_lock::NodeLock;
use crate::wait::{GRANTED, PARKED, Patience, Wait, WaitPolicy, abandon, poll_within, spin_with_room};

/// The list is being changed.
pub(crate) const GUARD: usize = 4;
/// Where the last of the list is.
const LIST: usize = (1 << 48) - NODE_BYTES;

/// What a sleeper says of itself.
pub(crate) trait Wish: Copy + Default + Send + 'static {}

impl<T: Copy + Default + Send + 'static> Wish for T {}

/// A thread that sleeps.
#[repr(C, align(64))]
pub(crate) struct Sleeper<P: Platform, T: Wish> {
    /// `PARKED`, `WAITING` (to try) or `GRANTED`; the rw_semaphore has another one.
    pub(crate) word: P::Futex,
    /// The next in the ring.
    next: P::Ptr<Self>,
    pub(crate) wish: P::Data<T>,
}

impl<P: Platform, T: Wish> PoolNode<P> for Sleeper<P, T> {
    fn new() -> Self {
        Self {
            word: P::Futex::new(PARKED),
            next: P::Ptr::new(ptr::null_mut()),
            wish: P::Data::new(T::default()),
        }
    }
}

impl<P: Platform, T: Wish> Sleeper<P, T> {
    /// Sleeps until it is told to try, or granted the lock. Returns what it was.
    pub(crate) fn sleep(&self, deadline: Option<Deadline>) -> Result<u32, TimedOut> {
        loop {
            // ORDER: Acquire is E2.
            match self.word.load(Acquire) {
                PARKED => self.word.wait(PARKED, deadline)?,
                said => return Ok(said),
            }
        }
    }
}

/// A lock's word, or the last of a list.
pub(crate) type Tagged<P, T> = *mut Sleeper<P, T>;

/// Whether a word has a flag.
#[inline(always)]
pub(crate) fn has<P: Platform, T: Wish>(word: Tagged<P, T>, flag: usize) -> bool {
    word.addr() & flag != 0
}

/// The last of the list in a word.
#[inline(always)]
pub(crate) fn last<P: Platform, T: Wish>(word: Tagged<P, T>) -> Tagged<P, T> {
    word.map_addr(|addr| addr & LIST)
}

/// The next after a sleeper.
///
/// # Safety
///
/// `sleeper` is in a list that the caller may access.
pub(crate) unsafe fn next<P: Platform, T: Wish>(sleeper: Tagged<P, T>) -> Tagged<P, T> {
    // SAFETY: the caller's contract.
    let next = unsafe { &*sleeper }.next.load(Relaxed);
    debug_assert!(!next.is_null(), "a ring");
    next
}

/// Puts a sleeper at the end of the list that ends with `end`.
///
/// # Safety
///
/// The caller may access both.
pub(crate) unsafe fn append<P: Platform, T: Wish>(end: Tagged<P, T>, sleeper: Tagged<P, T>) {
    // SAFETY: the caller's contract.
    let first = match unsafe { end.as_ref() } {
        None => sleeper,
        Some(end) => end.next.swap(sleeper, Relaxed),
    };
    // SAFETY: as above.
    unsafe { &*sleeper }.next.store(first, Relaxed);
}

/// Takes a sleeper out of the list that ends with `end`. Returns the last of the list.
///
/// # Safety
///
/// `sleeper` is in the list, which the caller may access.
pub(crate) unsafe fn unlink<P: Platform, T: Wish>(end: Tagged<P, T>, sleeper: Tagged<P, T>) -> Tagged<P, T> {
    let mut before = end;
    // SAFETY: in the list.
    let next = |of: Tagged<P, T>| &unsafe { &*of }.next;
    while next(before).load(Relaxed) != sleeper {
        before = next(before).load(Relaxed);
    }
    if before == sleeper {
        return ptr::null_mut();
    }
    next(before).store(next(sleeper).load(Relaxed), Relaxed);
    if sleeper == end { before } else { end }
}

/// Wakes whose word was `before`. The lock may be gone.
pub(crate) fn wake<P: Platform>(before: u32, address: *const P::Futex) {
    if before == PARKED {
        // SAFETY: the word was alive under the guard; a wake that comes late is spurious.
        unsafe { FutexCell::wake(address, 1) };
    }
}

/// A lock's word.
#[repr(transparent)]
pub(crate) struct Queue<P: Platform, T: Wish>(P::Ptr<Sleeper<P, T>>);

impl<P: Platform, T: Wish> Deref for Queue<P, T> {
    type Target = P::Ptr<Sleeper<P, T>>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T: Wish> Queue<Native, T> {
    /// For statics.
    pub(crate) const fn unlocked() -> Self {
        Self(Native::null())
    }
}

impl<P: Platform, T: Wish> Queue<P, T> {
    pub(crate) fn new() -> Self {
        Self(P::Ptr::new(ptr::null_mut()))
    }

    /// Sets GUARD. Returns the last of the list.
    pub(crate) fn guard(&self) -> Tagged<P, T> {
        let mut patience = Patience::new::<P>();
        loop {
            let seen = self.load(Relaxed);
            if !has(seen, GUARD) {
                let guarded = seen.map_addr(|addr| addr | GUARD);
                // ORDER: Acquire is E1.
                if self.compare_exchange(seen, guarded, Acquire, Relaxed).is_ok() {
                    return last(seen);
                }
            }
            patience.pause::<P>();
        }
    }

    /// Clears GUARD, with `end` as the last of the list, and changes the lock's own bits.
    pub(crate) fn unguard(&self, end: Tagged<P, T>, change: impl Fn(usize) -> usize) {
        let mut seen = self.load(Relaxed);
        loop {
            let own = change(seen.addr() & !(LIST | GUARD));
            // ORDER: Release is E1, and the lock's.
            match self.compare_exchange(seen, end.map_addr(|addr| addr | own), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

/// Spins for as long as that is worth it, or until the word is [`GRANTED`].
pub(crate) fn linger<P: Platform>(word: &P::Futex) {
    // ORDER: Relaxed: callers look again.
    let _ = poll_within::<P, _>(P::spin_budget(), || (word.load(Relaxed) == GRANTED).then_some(()));
}

/// How one waits for the right to spin: for as long as one would spin.
#[derive(Debug)]
pub(crate) struct Optimist;

impl<P: Platform> WaitPolicy<P> for Optimist {
    const NAME: &'static str = "spin";

    fn wait(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut> {
        // ORDER: Relaxed: looked at again.
        spin_with_room::<P, _>(0, wait.deadline, || (word.load(Relaxed) == GRANTED).then_some(()), || ());
        abandon::<P>(word, wait)
    }
}

/// The queue for the right to spin (OSQ).
#[repr(transparent)]
pub(crate) struct Spinners<P: Platform>(Mcs<P, Optimist>);

impl Spinners<Native> {
    /// For statics.
    pub(crate) const fn unlocked() -> Self {
        Self(Mcs::unlocked())
    }
}

impl<P: Platform> Spinners<P> {
    pub(crate) fn new() -> Self {
        Self(Mcs::new())
    }

    /// Spins, one thread at a time, not beyond the deadline and until `attempt` says whether it succeeded or is to be given
    /// up. Whether it succeeded.
    pub(crate) fn spin(&self, wait: &Wait, attempt: impl FnMut() -> Option<bool>) -> bool {
        // A thread that waits for the right to spin gives up, by its policy.
        let wait = wait.for_now();
        let fresh = P::alloc_node();
        // One that gave up before goes on in its old place: while the spinner is preempted, others come and give up by the thousand.
        let lined_up =
            if self.0.acquire_if_free(fresh) { Some(fresh) } else { self.0.queue_up_again(fresh, &wait) };
        let Some(place) = lined_up else { return false };
        let acquired = spin_with_room::<P, _>(0, wait.deadline, attempt, || ());
        // SAFETY: acquired above.
        unsafe { self.0.unlock(place) };
        acquired == Some(true)
    }

    /// In a child after `fork`: nobody spins.
    pub(crate) fn clear(&self) {
        self.0.clear();
    }
}

/// A sleeper in the list of `queue`, for tests.
#[cfg(test)]
pub(crate) fn line_up<T: Wish>(queue: &Queue<Native, T>, wish: T) -> ptr::NonNull<Sleeper<Native, T>> {
    use lockwork_platform::Pool;

    let node = Native::alloc_node::<Sleeper<Native, T>>();
    // SAFETY: ours.
    let said = &unsafe { node.as_ref() }.wish;
    // SAFETY: ours.
    unsafe { said.set(wish) };
    let end = queue.guard();
    // SAFETY: ours, and the list under the guard.
    unsafe { append(end, node.as_ptr()) };
    queue.unguard(node.as_ptr(), |own| own);
    node
}
