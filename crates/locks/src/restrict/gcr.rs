//! GCR: restricts how many threads compete for a lock, whatever the lock; the others sleep in a queue.
//!
//! Dave Dice and Alex Kogan, "Avoiding scalability collapse by restricting concurrency", Euro-Par 2019, figures 2 to 5
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
//!   bounded. With a plain budget the active set can fall into a convoy of sleepers that lasts for ever (see `Wait::among`).
//! - Joining is exact: a CAS, instead of a check and an increment; but for the first passive thread.
//! - A passive thread is admitted sooner after some acquisitions that took as long as if two active threads had one CPU: see
//!   `Restriction::end_watching`.
//! - A thread that was admitted out of turn counts itself in, but waits for another to leave before it asks for the lock.
//! - The thresholds shrink on machines with fewer than ten CPUs (see `knobs`).
//! - GCR-NUMA (section 5 of the paper): the preferred node changes after `turn` acquisitions, to the next that has passive
//!   threads. While none of the preferred node is passive, threads of all nodes are eligible; while no more than one is active, too, so
//!   that the lock is not left free for a thread that sleeps, or has no CPU.
//! - Timed acquisition: a passive thread leaves the queue, an active one the count.
//!
//! # State
//!
//! The lock itself, and the word of a [`Restriction`], which it gets when contention is seen.
//!
//! # Invariants
//!
//! - I1: `counted`, `acquisitions` and `late` are accessed by the holder of the inner lock only; `counted` is 0 whenever
//!   the lock is free.
//! - I2: the count of `ingress` − `egress` = threads that counted themselves in and have neither released the lock nor given up. Only
//!   the holder writes `egress`.
//! - I3: a first passive thread that sleeps has moved `approved` to `TOP_PARKED` or `JOINED_PARKED` before it looked at
//!   the number of active threads, and by node at whose turn it is, for the last time; a thread that lowers that number, ends a
//!   turn or leaves a queue empty looks at `approved` afterwards. One of them sees the other, so no wake-up is lost.
//! - I4: a thread that is passive, or about to become so, or has given up and looks whom to wake, is a user of the state (see `state`). An
//!   active one need not be: it is counted in, and `left` follows `egress` when it has looked at the state for the last time, but for a
//!   wake-up, which may be spurious. So the state is taken only where there are no users and `left` is what the count of `ingress` is, by
//!   an exchange of that word, after which nobody joins. A thread joins by an exchange of the same word, which fails if the state was
//!   taken since the thread has seen whose it is. So nobody joins another lock's threads, and a lock whose state was taken is as one
//!   that was never restricted. `counted` says whose holder it is.
//!
//! # Ordering
//!
//! - E1: as E1 and E2 of `state::claim`: the settings.
//! - E2: I3 is a store-load race: the releases put a light barrier between their write and their read, the thread that
//!   goes to sleep a heavy one. So does a thread that gives up: it races with a release to be the last to leave.
//! - E3: exclusion and the order of critical sections are the inner lock's; the wrapper adds nothing to them.
//! - E4: the end of a release (Release, `left`) → the load in `close` (Acquire): what a thread did that was active.
//! - E5: the end of a closure (Release, `ingress`) → the load by which a thread joins (Acquire): that the state was taken, so
//!   that the owner which that thread reads next is not the one from before.

use core::marker::PhantomData;
use core::ptr;

use lockwork_platform::{Deadline, Platform};

use super::knobs::{KNOBS, NUMA_KNOBS};
pub use super::passive::{ByNode, Passive, Together};
pub use super::restriction::Restriction;
use super::restriction::{Look, wake};
use crate::api::RawLock;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
pub use crate::knobs::Knobs;
use crate::state::{Lazy, State as _};
use crate::wait::{Wait, endless};

/// What is known of GCR.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "gcr",
    family: Family::Restriction,
    order: Order::LongTerm,
    order_note: "passive threads are admitted in FIFO order, at least one every `promote` acquisitions",
    bytes: 8,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("in either set"),
    proofs: &[
        Proof { source: file!(), by: &["gcr(futex)", "gcr(tas)", "gcr-numa(futex)"] },
        Proof {
            source: "restrict/restriction.rs",
            by: &["gcr(futex)", "gcr(tas)", "gcr-numa(futex)", "state of gcr(futex)"],
        },
        Proof { source: "restrict/passive.rs", by: &["gcr(futex)", "gcr(tas)", "gcr-numa(futex)"] },
    ],
    citation: Citation {
        key: "dice19gcr",
        text: "Dice, Kogan: Avoiding scalability collapse by restricting concurrency. Euro-Par 2019",
    },
    summary: "lets a few threads compete for the lock it wraps and puts the others to sleep in a queue",
    properties: "Adds 8 bytes to a lock, and 128 bytes of state once it has been contended. Disabled, it costs a load \
                 and a branch; it enables itself when enough threads wait.",
    deviations: "Contention is detected on contended acquisitions only; the first passive thread sleeps after \
                 spinning; the thresholds shrink on machines with fewer than ten CPUs; long waits have one admitted sooner.",
    avoid: "Short-term fairness: a passive thread may wait for thousands of acquisitions of others.",
    largest_inner: usize::MAX,
    knobs: KNOBS,
    ..Descriptor::MUTEX
};

/// What is known of GCR by NUMA node.
pub const NUMA: Descriptor = Descriptor {
    name: "gcr-numa",
    order: Order::LongTerm,
    order_note: "passive threads are admitted in FIFO order within a node, the nodes take turns",
    summary: "GCR that prefers the threads of one NUMA node for a time",
    properties: "As gcr, with the threads that compete mostly of one NUMA node, which spares the lock's data transfers. \
                 Another 64 bytes of state, and 64 for each node that has passive threads.",
    deviations: "As gcr; the preferred node changes after so many acquisitions (`turn`), to the next that has passive threads; \
                 threads of the others are eligible while no more than one is active, too.",
    avoid: "One NUMA node: there it is gcr with a costlier queue.",
    knobs: NUMA_KNOBS,
    ..DESCRIPTOR
};

/// A lock with its restriction, wherever the caller keeps the parts: the algorithm is in the provided methods.
pub trait Restricted<P: Platform>: Sized {
    /// The lock that is wrapped.
    type Inner: RawLock<P>;
    /// The passive set.
    type Passive: Passive<P>;

    /// The lock that is wrapped.
    fn inner(&self) -> &Self::Inner;
    /// The state that the lock gets when it is contended. Changed by the provided methods only.
    fn state(&self) -> &Lazy<P, State<P, Self>>;
    /// What the state is made with.
    fn knobs(&self) -> &Knobs;

    /// Acquires.
    #[inline(always)]
    fn acquire(&self) -> Token<P, Self> {
        acquire_fast(self).unwrap_or_else(|| acquire_endlessly(self))
    }

    /// Acquires, or gives up at the deadline.
    fn acquire_until(&self, deadline: Deadline) -> Option<Token<P, Self>> {
        acquire_fast(self).or_else(|| acquire_until(self, Some(deadline)))
    }

    /// Acquires as `wait` says, as a part of what that is for.
    fn acquire_with(&self, wait: &Wait) -> Option<Token<P, Self>> {
        acquire_fast(self).or_else(|| acquire_slow(self, wait))
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
        match self.state().peek_bare().filter(|state| state.counts(address(self))) {
            // SAFETY: the caller's contract.
            None => unsafe { self.inner().unlock(token) },
            // SAFETY: the caller's contract. I4.
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
        if let Some(state) = self.state().own() {
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
        // SAFETY: as above.
        unsafe { self.state().dispose() };
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

/// Whether the lock seems to be restricted. What its word names may be another lock's state: that is looked at later.
#[inline(always)]
fn is_restricted<P: Platform, S: Restricted<P>>(lock: &S) -> bool {
    lock.state().peek_bare().is_some_and(Restriction::is_enabled)
}

/// The lock's state, if it is restricted: at this moment, since the caller is no user of it.
fn restriction<P: Platform, S: Restricted<P>>(lock: &S) -> Option<&State<P, S>> {
    lock.state().peek_bare().filter(|state| state.is_enabled() && lock.state().owns(state))
}

/// Acquires if nothing is restricted and nobody in the way.
#[inline(always)]
fn acquire_fast<P: Platform, S: Restricted<P>>(lock: &S) -> Option<Token<P, S>> {
    if is_restricted(lock) { None } else { lock.inner().lock_fast() }
}

/// The slow path without a deadline: one call, so that the fast path needs no stack.
#[cold]
#[inline(never)]
fn acquire_endlessly<P: Platform, S: Restricted<P>>(lock: &S) -> Token<P, S> {
    endless(acquire_until(lock, None))
}

/// The slow path of a lock that stands for itself.
#[cold]
fn acquire_until<P: Platform, S: Restricted<P>>(lock: &S, deadline: Option<Deadline>) -> Option<Token<P, S>> {
    Wait::run::<P, _>(address(lock), deadline, |wait| acquire_slow(lock, wait))
}

/// Restricted, or somebody is in the way: is it time to restrict?
fn acquire_slow<P: Platform, S: Restricted<P>>(lock: &S, wait: &Wait) -> Option<Token<P, S>> {
    if let Some(state) = restriction(lock) {
        acquire_restricted(lock, state, wait)
    } else if scan_is_due::<P>() && has_many_waiters(lock, wait) {
        // Contention is here: this thread looks closely again.
        P::set_thread_word(0);
        begin_to_restrict(lock, wait)
    } else {
        lock.inner().lock_with(wait)
    }
}

/// Whether so many threads wait that restriction is to begin.
fn has_many_waiters<P: Platform, S: Restricted<P>>(lock: &S, wait: &Wait) -> bool {
    let waiters = P::waiters_of(wait.address);
    waiters > 0 && waiters >= lock.knobs().enabling_waiters::<P>()
}

/// POSIX: a timed acquisition does not fail on a free lock, even when its deadline has passed.
fn acquire_if_timed<P: Platform, S: Restricted<P>>(lock: &S, wait: &Wait) -> Option<Token<P, S>> {
    wait.deadline.and_then(|_| lock.inner().try_lock())
}

/// Acquires under restriction, if that is on still: as one of the active threads, when there is room among them.
fn acquire_restricted<P: Platform, S: Restricted<P>>(
    lock: &S,
    state: &State<P, S>,
    wait: &Wait,
) -> Option<Token<P, S>> {
    if let Some(token) = acquire_if_timed(lock, wait) {
        return Some(token);
    }
    match state.join_at_once(|| lock.state().owns(state), wait.deadline) {
        Look::Joined => acquire_active(lock, state, wait),
        Look::NotOurs => lock.inner().lock_with(wait),
        Look::NoRoom => {
            let state = enter(lock);
            if !state.is_enabled() {
                // It was another lock's, or was turned off meanwhile.
                state.claim().leave();
                return lock.inner().lock_with(wait);
            }
            acquire_as_user(lock, state, wait, !<S::Passive as Passive<P>>::BY_NODE)
        }
    }
}

/// Turns restriction on, and acquires under it.
fn begin_to_restrict<P: Platform, S: Restricted<P>>(lock: &S, wait: &Wait) -> Option<Token<P, S>> {
    if let Some(token) = acquire_if_timed(lock, wait) {
        return Some(token);
    }
    let state = enter(lock);
    state.enable();
    acquire_as_user(lock, state, wait, false)
}

/// The lock's state, of which the calling thread is a user from now on.
fn enter<P: Platform, S: Restricted<P>>(lock: &S) -> &State<P, S> {
    lock.state().enter_or(|state| state.configure(lock.knobs()))
}

/// Becomes active, as a user of the state, which the thread is no longer afterwards, and acquires.
fn acquire_as_user<P: Platform, S: Restricted<P>>(
    lock: &S,
    state: &State<P, S>,
    wait: &Wait,
    has_looked: bool,
) -> Option<Token<P, S>> {
    let is_active = state.become_active(wait, has_looked);
    state.claim().leave(); // I4.
    if is_active { acquire_active(lock, state, wait) } else { None }
}

/// Acquires, as one of the active threads.
///
/// The thread is registered from before it counts itself in until the count is the holder's: a child of another
/// thread's `fork` must find the lock in the registry, or the count would stay too high there for ever.
fn acquire_active<P: Platform, S: Restricted<P>>(
    lock: &S,
    state: &State<P, S>,
    wait: &Wait,
) -> Option<Token<P, S>> {
    let token = lock.inner().lock_fast().or_else(|| acquire_watched(lock, state, wait));
    if token.is_some() {
        // SAFETY: I1: we hold the lock.
        unsafe { state.count_holder(address(lock)) };
    } else {
        let is_ours = lock.state().join(state);
        debug_assert!(is_ours, "an active thread keeps the state with its lock");
        state.give_up();
        state.claim().leave(); // I4.
    }
    token
}

/// Acquires by the slow path of the inner lock, and has the active threads change sooner if that took long.
fn acquire_watched<P: Platform, S: Restricted<P>>(
    lock: &S,
    state: &State<P, S>,
    wait: &Wait,
) -> Option<Token<P, S>> {
    let begun = state.begin_to_watch();
    let token = lock.inner().lock_slow(&wait.among(state.crowd()));
    if let (Some(_), Some(begun)) = (&token, begun) {
        // SAFETY: I1: we hold the lock.
        unsafe { state.end_watching(begun) };
    }
    token
}

#[cold]
#[inline(never)]
unsafe fn release_counted<P: Platform, S: Restricted<P>>(lock: &S, state: &State<P, S>, token: Token<P, S>) {
    // SAFETY: I1: held, and counted.
    let sleeper = unsafe { state.release() };
    // SAFETY: the caller's contract.
    unsafe { lock.inner().unlock(token) };
    wake::<P>(sleeper);
}

/// Whether this contended acquisition of the thread shall scan: the intervals double, up to a bound.
fn scan_is_due<P: Platform>() -> bool {
    const LONGEST_INTERVAL: u64 = 32;
    let word = P::thread_word();
    let (interval, passed) = ((word >> 32).max(1), (word & 0xffff_ffff) + 1);
    let due = passed >= interval;
    let (interval, passed) = if due { ((interval * 2).min(LONGEST_INTERVAL), 0) } else { (interval, passed) };
    P::set_thread_word(interval << 32 | passed);
    due
}

/// GCR around the lock `L`, with the passive set `S`.
#[repr(C)]
pub struct Gcr<P: Platform, L: RawLock<P>, S: Passive<P> = Together> {
    inner: L,
    state: Lazy<P, Restriction<P, S>>,
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
        Self { inner: L::new(), state: Lazy::new(), knobs, platform: PhantomData }
    }
}

impl<P: Platform, L: RawLock<P>> Gcr<P, L, ByNode> {
    /// The node whose threads are preferred at this moment; `None` where the lock has not been restricted.
    pub fn preferred_node(&self) -> Option<usize> {
        self.state.own().map(Restriction::preferred_node)
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
    fn state(&self) -> &Lazy<P, Restriction<P, S>> {
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

    fn configure(&self, knobs: &Knobs) {
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

    fn lock_slow(&self, wait: &Wait) -> Option<L::Token> {
        acquire_slow(self, wait)
    }

    fn lock_with(&self, wait: &Wait) -> Option<L::Token> {
        self.acquire_with(wait)
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
