//! GCR: restricts how many threads compete for a lock, whatever the lock; the others sleep in a queue.
//!
//! Dave Dice and Alex Kogan, "Avoiding scalability collapse by restricting concurrency", EuroSys 2019, figures 2 to 5
//! and section 4.4.
//!
//! Properties: a thread that finds more than `active` threads holding or awaiting the lock becomes passive;
//! passive threads wait in an MCS queue by spin-then-park; only the first of them watches the active ones. It joins when
//! few are active, or when `promote` acquisitions have passed. Starvation-free if the lock is. While no
//! contention is seen, the wrapper is disabled and costs a load and a branch.
//!
//! Deviations:
//! - Passive waiting *is* an MCS lock, whose holder is the paper's "top" thread: one queue to verify instead of two.
//! - Contention is detected where it hurts: a thread that fails to take the lock at once announces itself in the shared
//!   slot array and scans it (exponentially more rarely), where the paper writes a slot at every acquisition. The
//!   uncontended path therefore writes nothing shared.
//! - The first passive thread sleeps too, after its spinning time: on a machine with few CPUs its polling would
//!   take one of them from the active threads. The releases that leave few active threads wake it.
//! - A thread that finds too many active ones looks again for a while, with growing delays, before it becomes passive.
//! - Active threads that wait by spin-then-park spin for as long as it takes to wake all the others, since their number is
//!   bounded. With a plain budget the active set can fall into a convoy of sleepers that lasts for ever (see `in_crowd`).
//! - Joining is exact: a CAS, instead of a check and an increment.
//! - A thread that was admitted out of turn counts itself in, but waits for another to leave before it asks for the lock.
//! - The thresholds shrink on machines with fewer than ten CPUs (see `knobs`).
//! - GCR-NUMA (section 5 of the paper): the node queues and their turn are one cohort lock, whose pass limit is how many
//!   passive threads of a node are admitted in a row; the node of the last one admitted is the preferred one.
//! - Timed acquisition: a passive thread leaves the queue, an active one the count.
//!
//! # State
//!
//! The lock itself, and a pointer to [`Restriction`], null until contention is seen for the first time.
//!
//! # Invariants
//!
//! - I1: `counted` and `acquisitions` are accessed by the holder of the inner lock only; `counted` is false whenever
//!   the lock is free.
//! - I2: `ingress − egress` = threads that counted themselves in and have neither released the lock nor given up. Only
//!   the holder writes `egress`.
//! - I3: a first passive thread that sleeps has moved `approved` to `TOP_PARKED` or `JOINED_PARKED` before it looked at
//!   the number of active threads for the last time; whoever lowers that number looks at `approved` afterwards. One of
//!   them sees the other, so no wake-up is lost.
//!
//! # Ordering
//!
//! - E1: the CAS that publishes `Restriction` (Release) → the load of the pointer (Acquire): its settings.
//! - E2: I3 is a store-load race: the releases put a light barrier between their write and their read, the thread that
//!   goes to sleep a heavy one. So does a thread that gives up: it races with a release for who is the last to leave.
//! - E3: exclusion and the order of critical sections are the inner lock's; the wrapper adds nothing to them.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use lockwork_platform::{AtomicCell, Deadline, Platform};

pub use super::knobs::{KNOBS, Knob, Knobs, NUMA_KNOBS};
pub use super::passive::{ByNode, Passive, Together};
pub use super::restriction::Restriction;
use super::restriction::wake;
use crate::api::RawLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::knobs::BaseKnobs;
use crate::wait::{SCRATCH, in_crowd, registered};

/// What is known of GCR.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "gcr",
    family: Family::Restriction,
    fairness: "long-term: passive threads are admitted in FIFO order, at least one every `promote` acquisitions",
    bytes: 8,
    bytes_per_waiter: 64,
    holder_node: false,
    timed: "gives up in either set",
    citation: Citation {
        key: "dice19",
        text: "Dice, Kogan: Avoiding scalability collapse by restricting concurrency. EuroSys 2019",
    },
    summary: "lets a few threads compete for the lock it wraps and puts the others to sleep in a queue",
    properties: "Adds 8 bytes to a lock, and 128 bytes of state once it has been contended. Disabled, it costs a load \
                 and a branch; it enables itself when enough threads wait.",
    deviations: "Contention is detected on contended acquisitions only; the first passive thread sleeps after \
                 spinning; the thresholds shrink on machines with fewer than ten CPUs.",
    avoid: "Short-term fairness: a passive thread may wait for thousands of acquisitions of others.",
};

/// What is known of GCR by NUMA node.
pub const NUMA: Algorithm = Algorithm {
    name: "gcr-numa",
    fairness: "long-term: passive threads are admitted in FIFO order within a node, the nodes take turns",
    summary: "GCR that prefers the threads of one NUMA node for a time",
    properties: "As gcr, with the threads that compete mostly of one NUMA node, which spares the lock's data transfers. \
                 Another 64 bytes of state, and 64 for each node that has passive threads.",
    deviations: "As gcr; the preferred node changes after so many admissions (`turn`), not after so many acquisitions.",
    avoid: "One NUMA node: there it is gcr with a costlier queue.",
    ..ALGORITHM
};

/// A lock with its restriction, wherever the caller keeps the parts: the algorithm is in the provided methods.
pub trait Restricted<P: Platform>: Sized {
    /// The lock that is wrapped.
    type Inner: RawLock<P>;
    /// The passive set.
    type Passive: Passive<P>;

    /// The lock that is wrapped.
    fn inner(&self) -> &Self::Inner;
    /// Null, or the state that the lock got at its first contention. Changed by the provided methods only.
    fn state(&self) -> &P::Ptr<State<P, Self>>;
    /// What the state is made with.
    fn knobs(&self) -> &Knobs;

    /// Acquires.
    #[inline(always)]
    fn acquire(&self) -> Token<P, Self> {
        at_once(self).unwrap_or_else(|| acquire_in_the_end(self))
    }

    /// Acquires, or gives up at the deadline.
    fn acquire_until(&self, deadline: Deadline) -> Option<Token<P, Self>> {
        at_once(self).or_else(|| acquire_slow(self, Some(deadline)))
    }

    /// Acquires if the inner lock is free, whoever is passive.
    #[inline(always)]
    fn try_acquire(&self) -> Option<Token<P, Self>> {
        self.inner().try_lock()
    }

    /// Releases.
    ///
    /// # Safety
    ///
    /// As [`RawLock::unlock`].
    #[inline(always)]
    unsafe fn release(&self, token: Token<P, Self>) {
        match restriction(self) {
            // SAFETY: the caller's contract.
            None => unsafe { self.inner().unlock(token) },
            // SAFETY: the caller's contract.
            Some(state) => unsafe { release_counted(self, state, token) },
        }
    }

    /// See [`RawLock::forget_waiters`].
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn forget(&self, holder: Option<Token<P, Self>>) {
        // SAFETY: the caller's contract.
        unsafe { self.inner().forget_waiters(holder) };
        if let Some(state) = restriction(self) {
            // SAFETY: as above.
            unsafe { state.forget_waiters(self.inner().is_locked()) };
        }
    }

    /// Gives the state back.
    ///
    /// # Safety
    ///
    /// Nobody uses the lock any more.
    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.inner().dispose() };
        // ORDER: Relaxed: the caller comes after all users.
        if let Some(state) = NonNull::new(self.state().swap(ptr::null_mut(), Relaxed)) {
            // SAFETY: pool memory that is the lock's until it is freed below.
            let kept = unsafe { state.as_ref() };
            // SAFETY: the caller's contract.
            unsafe { kept.dispose() };
            // SAFETY: unlinked, and nobody else knows of it.
            unsafe { P::free_node(state) };
        }
    }
}

/// What a lock restricted as `S` gets once it has been contended.
pub type State<P, S> = Restriction<P, <S as Restricted<P>>::Passive>;

/// The token of the lock inside `S`.
type Token<P, S> = <<S as Restricted<P>>::Inner as RawLock<P>>::Token;

/// What waiters are known by: the address of the lock.
fn address<P: Platform, S: Restricted<P>>(lock: &S) -> usize {
    ptr::from_ref(lock.inner()) as usize
}

#[inline(always)]
fn restriction<P: Platform, S: Restricted<P>>(lock: &S) -> Option<&State<P, S>> {
    // SAFETY: null or pool memory that stays the lock's until `dispose`. ORDER: E1.
    unsafe { lock.state().load(Acquire).as_ref() }
}

fn acquire_inner<P: Platform, S: Restricted<P>>(lock: &S, deadline: Option<Deadline>) -> Option<Token<P, S>> {
    match deadline {
        None => Some(lock.inner().lock()),
        Some(deadline) => lock.inner().try_lock_until(deadline),
    }
}

/// Acquires if nothing is restricted and nobody in the way.
#[inline(always)]
fn at_once<P: Platform, S: Restricted<P>>(lock: &S) -> Option<Token<P, S>> {
    if restriction(lock).is_some_and(Restriction::is_enabled) { None } else { lock.inner().attempt() }
}

/// The rest of an acquisition without a deadline: one call, so that the way without it needs no stack.
#[cold]
#[inline(never)]
fn acquire_in_the_end<P: Platform, S: Restricted<P>>(lock: &S) -> Token<P, S> {
    match acquire_slow(lock, None) {
        Some(token) => token,
        None => unreachable!("an acquisition without a deadline ends with the lock"),
    }
}

/// Restricted, or somebody is in the way.
#[cold]
fn acquire_slow<P: Platform, S: Restricted<P>>(lock: &S, deadline: Option<Deadline>) -> Option<Token<P, S>> {
    match restriction(lock) {
        Some(state) if state.is_enabled() => acquire_restricted(lock, state, deadline),
        _ => acquire_contended(lock, deadline),
    }
}

/// Not restricted, and somebody is in the way: is it time to restrict?
fn acquire_contended<P: Platform, S: Restricted<P>>(
    lock: &S,
    deadline: Option<Deadline>,
) -> Option<Token<P, S>> {
    registered::<P, _>(address(lock), || {
        if scan_is_due::<P>() && P::waiters_of(address(lock)) >= lock.knobs().enabling_waiters::<P>() {
            acquire_restricted(lock, enable(lock), deadline)
        } else {
            acquire_inner(lock, deadline)
        }
    })
}

fn acquire_restricted<P: Platform, S: Restricted<P>>(
    lock: &S,
    state: &State<P, S>,
    deadline: Option<Deadline>,
) -> Option<Token<P, S>> {
    // POSIX: a timed acquisition does not fail on a free lock, even when its deadline has passed.
    if let Some(token) = deadline.and_then(|_| lock.inner().try_lock()) {
        return Some(token);
    }
    // From before this thread counts itself in until the count is the holder's: a child of another thread's `fork` must
    // find the lock in the registry, or the count would stay too high there for ever.
    registered::<P, _>(address(lock), || {
        if !state.become_active(address(lock), deadline) {
            return None;
        }
        let others = state.crowd();
        let token = in_crowd::<P, _>(others, || acquire_inner(lock, deadline));
        if token.is_some() {
            // SAFETY: I1: we hold the lock.
            unsafe { state.count_holder() };
        } else {
            state.give_up();
        }
        token
    })
}

/// Turns restriction on, making the state if this is the first time.
#[cold]
fn enable<P: Platform, S: Restricted<P>>(lock: &S) -> &State<P, S> {
    // Contention is here: this thread looks closely again.
    P::set_thread_word(P::thread_word() & !SCRATCH);
    let state = restriction(lock).unwrap_or_else(|| attach(lock));
    state.enable();
    state
}

fn attach<P: Platform, S: Restricted<P>>(lock: &S) -> &State<P, S> {
    let fresh = P::alloc_node::<State<P, S>>();
    // SAFETY: nobody else knows of `fresh` yet.
    let state = unsafe { fresh.as_ref() };
    // SAFETY: as above.
    unsafe { state.configure(lock.knobs()) };
    // ORDER: Release on success and Acquire on failure are E1.
    match lock.state().compare_exchange(ptr::null_mut(), fresh.as_ptr(), AcqRel, Acquire) {
        Ok(_) => state,
        Err(there) => {
            // SAFETY: never published, hence unused.
            unsafe { state.dispose() };
            // SAFETY: as above.
            unsafe { P::free_node(fresh) };
            // SAFETY: not null, and published by another thread.
            unsafe { &*there }
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn release_counted<P: Platform, S: Restricted<P>>(lock: &S, state: &State<P, S>, token: Token<P, S>) {
    let sleeper = state.release();
    // SAFETY: the caller's contract.
    unsafe { lock.inner().unlock(token) };
    wake::<P>(sleeper);
}

/// Whether this contended acquisition of the thread shall scan: the intervals double, up to a bound.
fn scan_is_due<P: Platform>() -> bool {
    const LONGEST_INTERVAL: u64 = 32;
    let word = P::thread_word();
    let (interval, passed) = (((word & SCRATCH) >> 32).max(1), (word & 0xffff_ffff) + 1);
    let due = passed >= interval;
    let (interval, passed) = if due { ((interval * 2).min(LONGEST_INTERVAL), 0) } else { (interval, passed) };
    P::set_thread_word(word & !SCRATCH | interval << 32 | passed);
    due
}

/// GCR around the lock `L`, with the passive set `S`.
#[repr(C)]
pub struct Gcr<P: Platform, L: RawLock<P>, S: Passive<P> = Together> {
    inner: L,
    state: P::Ptr<Restriction<P, S>>,
    knobs: Knobs,
    platform: PhantomData<P>,
}

impl<P: Platform, L: RawLock<P>, S: Passive<P>> core::fmt::Debug for Gcr<P, L, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gcr").field("knobs", &self.knobs).finish_non_exhaustive()
    }
}

impl<P: Platform, L: RawLock<P>, S: Passive<P>> Gcr<P, L, S> {
    /// An unlocked lock with these knobs.
    #[must_use]
    pub fn with_knobs(knobs: Knobs) -> Self {
        Self { inner: L::new(), state: P::Ptr::new(ptr::null_mut()), knobs, platform: PhantomData }
    }
}

impl<P: Platform, L: RawLock<P>, S: Passive<P>> Restricted<P> for Gcr<P, L, S> {
    type Inner = L;
    type Passive = S;
    #[inline(always)]
    fn inner(&self) -> &L {
        &self.inner
    }
    #[inline(always)]
    fn state(&self) -> &P::Ptr<Restriction<P, S>> {
        &self.state
    }
    fn knobs(&self) -> &Knobs {
        &self.knobs
    }
}

impl<P: Platform, L: RawLock<P>, S: Passive<P>> Drop for Gcr<P, L, S> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { Restricted::dispose(self) };
    }
}

// SAFETY: exclusion and order are the inner lock's (E3).
unsafe impl<P: Platform, L: RawLock<P>, S: Passive<P>> RawLock<P> for Gcr<P, L, S> {
    type Token = L::Token;

    fn new() -> Self {
        Self::with_knobs(Knobs::default())
    }

    fn configure(&self, knobs: &BaseKnobs) {
        self.inner.configure(knobs);
    }

    #[inline(always)]
    fn lock(&self) -> L::Token {
        self.acquire()
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<L::Token> {
        self.try_acquire()
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<L::Token> {
        self.acquire_until(deadline)
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: L::Token) {
        // SAFETY: the caller's contract.
        unsafe { self.release(token) };
    }

    fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }

    unsafe fn forget_waiters(&self, holder: Option<L::Token>) {
        // SAFETY: the caller's contract.
        unsafe { self.forget(holder) };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { Restricted::dispose(self) };
    }
}
