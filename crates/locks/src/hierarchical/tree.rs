//! A tree of MCS queues, one for each part of the machine's hierarchy: what HMCS and AHMCS are made of.
//!
//! # State
//!
//! ```text
//! lock ─→ root: queue, limit, children ─→ domain of a node: queue, token, passes left, `ours`, children ─→ …
//!
//! token: address of the domain where the holder entered, or (odd) its token of the root's queue: acquired directly
//! ```
//!
//! A thread enters at some domain, acquires its queue, and then the queues above it up to the root. The release hands
//! over within the lowest domain where somebody waits and passes are left, and releases the queues below that.
//!
//! # Invariants
//!
//! - I1: the lock is held exactly while the root's queue is. Its holder has either acquired that directly, or holds the
//!   queues of all domains from the one that its token points to up to the root.
//! - I2: everything in a domain but the queue, the limit, the crowding and the children belongs to the holder of the queue.
//! - I3: `ours` is set during a hand-over only: who acquires a domain's queue and finds it set has been handed the
//!   queues above too. Only a thread that certainly takes over is handed them.
//! - I4: domains are published once and stay until `dispose`. A release touches none of them after it has released the
//!   root's queue or handed a queue over.
//!
//! # Ordering
//!
//! - E1: as E1 of `lazy` and of `directory`: the initialisation of the domains.
//! - E2: hand-over and release of a queue → its next acquisition (E1 and E4 of `mcs`): the domain, and the
//!   critical section if the queues above come with it.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, DataCell, Deadline, NODE_BYTES, Native, Platform, PoolNode};

use super::directory::Children;
use super::lazy::{Lazy, State};
use crate::api::{RawLock, Token};
use crate::knobs::{BaseKnobs, MOST_PASSES, PASS_LIMIT};
use crate::queue::mcs::{Mcs, McsNode};
use crate::queue::node_lock::NodeLock;
use crate::wait::{Spin, WaitPolicy, endless, registered};

/// In a token: acquired directly, and the rest is the root's token.
const DIRECT: usize = 1;
/// Children that a domain itself points to.
const NEAR: usize = 2;

/// Where threads enter.
pub trait Entry<P: Platform>: Send + Sync + 'static {
    /// Whether a thread enters below a domain rather than in its queue, by how crowded that has been.
    fn is_below(crowding: &P::U32) -> bool;
    /// Somebody entered in the domain's queue, and found a crowd there or not.
    fn entered(crowding: &P::U32, crowd: bool);
    /// A domain below gives this one up, after hand-overs or without any.
    fn left(crowding: &P::U32, handed_over: bool);
}

/// A part of the machine.
#[repr(C, align(64))]
pub struct Domain<P: Platform, W: 'static> {
    /// Of the threads that enter here, and of the first thread of each domain below.
    queue: Mcs<P, W>,
    /// The domain above; null in the root; set before the domain is published.
    above: P::Ptr<Domain<P, W>>,
    /// The word of the holder's token of `queue`.
    token: P::Data<usize>,
    /// The limit: of the root, the lock's; else what the domain above had at the last acquisition.
    limit: P::U32,
    /// How crowded the queue has been; written by the holder, read by all.
    crowding: P::U32,
    /// Of the root: whose state it is.
    owner: P::U32,
    /// Hand-overs that are left until the domains beside this one get their turn.
    passes: P::Data<u16>,
    /// Whether the queues above come with `queue`.
    ours: P::Data<bool>,
    below: Children<P, Domain<P, W>, NEAR>,
}

const _: () = assert!(size_of::<Domain<Native, Spin>>() == NODE_BYTES && MOST_PASSES <= u16::MAX as u32);

impl<P: Platform, W> core::fmt::Debug for Domain<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Domain").finish_non_exhaustive()
    }
}

impl<P: Platform, W: WaitPolicy<P>> PoolNode<P> for Domain<P, W> {
    fn new() -> Self {
        Self {
            queue: Mcs::new(),
            above: P::Ptr::new(ptr::null_mut()),
            token: P::Data::new(0),
            limit: P::U32::new(PASS_LIMIT),
            crowding: P::U32::new(0),
            owner: P::U32::new(0),
            passes: P::Data::new(0),
            ours: P::Data::new(false),
            below: Children::new(),
        }
    }
}

impl<P: Platform, W> State<P> for Domain<P, W> {
    fn pass_limit(&self) -> &P::U32 {
        &self.limit
    }

    fn owner(&self) -> &P::U32 {
        &self.owner
    }
}

impl<P: Platform, W: WaitPolicy<P>> Domain<P, W> {
    fn above(&self) -> Option<&Self> {
        // SAFETY: I4. ORDER: E1 has published it with this domain.
        unsafe { self.above.load(Relaxed).as_ref() }
    }

    /// Where the calling thread enters.
    fn entry<E: Entry<P>>(&self) -> &Self {
        let mut domain = self;
        let mut level = 0;
        while E::is_below(&domain.crowding)
            && let Some(part) = P::place(level)
        {
            let above = domain;
            domain =
                above.below.state(part, |fresh| fresh.above.store(ptr::from_ref(above).cast_mut(), Relaxed));
            level += 1;
        }
        domain
    }

    /// Acquires the queue and those above, known as a waiter for `address`. Returns whether that was before the deadline.
    fn acquire(&self, address: usize, deadline: Option<Deadline>) -> bool {
        let Some(token) = self.queue.acquire_for(address, deadline) else { return false };
        // SAFETY: I2, for all that follows.
        if unsafe { self.ours.get() } {
            // SAFETY: as above.
            unsafe { self.ours.set(false) };
        } else if let Some(above) = self.above() {
            if !above.acquire(address, deadline) {
                // Nothing was handed to us, and nothing goes with the queue now: the next one tries itself.
                // SAFETY: acquired above.
                unsafe { self.queue.unlock(token) };
                return false;
            }
            let limit = above.limit.load(Relaxed);
            self.limit.store(limit, Relaxed);
            // SAFETY: as above.
            unsafe { self.passes.set(limit as u16) };
        }
        // SAFETY: as above.
        unsafe { self.token.set(token.into_word()) };
        true
    }

    /// The holder's token of the queue.
    ///
    /// # Safety
    ///
    /// The queue is held by the holder of the lock (I1), and nobody else accesses the domain (I2).
    unsafe fn token(&self) -> NonNull<McsNode<P>> {
        // SAFETY: the caller's contract.
        let word = unsafe { self.token.get() };
        // SAFETY: the holder's token, put there by `acquire`.
        unsafe { Token::from_word(word) }
    }

    /// Hands the lock over within this domain, or releases the queue and does so above.
    ///
    /// # Safety
    ///
    /// As [`Domain::token`].
    unsafe fn release<E: Entry<P>>(&self) {
        // SAFETY: I2, for all that follows.
        let mut token = unsafe { self.token() };
        let Some(above) = self.above() else {
            // SAFETY: ours. ORDER: E2. From here on there may be no lock (I4).
            return unsafe { self.queue.unlock(token) };
        };
        // SAFETY: as above.
        let passes = unsafe { self.passes.get() };
        if passes > 0 {
            // SAFETY: as above.
            unsafe { self.passes.set(passes - 1) };
            // SAFETY: as above.
            unsafe { self.ours.set(true) };
            // SAFETY: ours to hand over. ORDER: E2.
            match unsafe { self.queue.grant_next(token) } {
                Ok(()) => return, // I4.
                Err(kept) => token = kept,
            }
            // SAFETY: as above: nobody took it.
            unsafe { self.ours.set(false) };
        }
        E::left(&above.crowding, u32::from(passes) < self.limit.load(Relaxed));
        // SAFETY: ours. ORDER: E2. From here on the domain is not ours to look at.
        unsafe { self.queue.unlock(token) };
        // SAFETY: I1: held as well.
        unsafe { above.release::<E>() };
    }

    /// In a child after `fork`: drops the waiters here and below. `is_held` says of a domain whether the holder holds
    /// its queue.
    ///
    /// # Safety
    ///
    /// Nobody else runs.
    unsafe fn forget(&self, is_held: &impl Fn(&Self) -> bool) {
        if is_held(self) {
            // SAFETY: the caller's contract.
            let token = unsafe { self.token() };
            // SAFETY: as above.
            unsafe { self.queue.forget_waiters(Some(token)) };
        } else {
            self.queue.clear();
        }
        // SAFETY: as above.
        self.below.visit(|domain| unsafe { domain.forget(is_held) });
    }

    /// Gives back the domains below.
    ///
    /// # Safety
    ///
    /// Nobody uses the lock.
    unsafe fn clear(&self) {
        let clear = |domain: &Self| {
            // SAFETY: the caller's contract.
            unsafe { domain.clear() };
        };
        // SAFETY: the caller's contract.
        unsafe { self.below.dispose(clear) };
    }
}

/// A lock made of a queue for each part of the machine, waiting by `W`, entered where `E` says.
#[repr(transparent)]
pub struct Tree<P: Platform, W: WaitPolicy<P>, E: Entry<P>> {
    root: Lazy<P, Domain<P, W>>,
    entry: PhantomData<E>,
}

impl<P: Platform, W: WaitPolicy<P>, E: Entry<P>> core::fmt::Debug for Tree<P, W, E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tree").field("root", &self.root).finish()
    }
}

impl<W: WaitPolicy<Native>, E: Entry<Native>> Tree<Native, W, E> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { root: Lazy::unused(), entry: PhantomData }
    }
}

impl<P: Platform, W: WaitPolicy<P>, E: Entry<P>> Tree<P, W, E> {
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// Acquires the root's queue alone, if it is empty.
    #[inline(always)]
    fn acquire_directly(root: &Domain<P, W>) -> Option<NonNull<Domain<P, W>>> {
        let token = root.queue.try_lock()?;
        // SAFETY: made from a pointer's word; odd, so not zero.
        Some(unsafe { Token::from_word(token.into_word() | DIRECT) })
    }

    /// Acquires as one of the threads of this part of the machine.
    #[cold]
    fn acquire_in_turn(
        &self,
        root: &Domain<P, W>,
        deadline: Option<Deadline>,
    ) -> Option<NonNull<Domain<P, W>>> {
        // From before the first queue is entered until the last is acquired: a child of `fork` must find every ghost.
        registered::<P, _>(self.address(), || {
            let domain = root.entry::<E>();
            let crowd = domain.queue.is_locked();
            if !domain.acquire(self.address(), deadline) {
                return None;
            }
            // SAFETY: I1.
            let token = unsafe { domain.token() };
            E::entered(&domain.crowding, crowd && domain.queue.is_waited_for(token));
            Some(NonNull::from(domain))
        })
    }

    #[inline(always)]
    fn acquire(&self, deadline: Option<Deadline>) -> Option<NonNull<Domain<P, W>>> {
        let root = self.root.get_or_make();
        Self::acquire_directly(root).or_else(|| self.acquire_in_turn(root, deadline))
    }
}

impl<P: Platform, W: WaitPolicy<P>, E: Entry<P>> Drop for Tree<P, W, E> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

// SAFETY: the holder holds the root's queue (I1, I3), and E2 orders the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>, E: Entry<P>> RawLock<P> for Tree<P, W, E> {
    type Token = NonNull<Domain<P, W>>;

    fn new() -> Self {
        Self { root: Lazy::new(), entry: PhantomData }
    }

    fn configure(&self, knobs: &BaseKnobs) {
        self.root.configure(knobs);
    }

    #[inline(always)]
    fn lock(&self) -> Self::Token {
        endless(self.acquire(None))
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Token> {
        Self::acquire_directly(self.root.get_or_make())
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        self.acquire(Some(deadline))
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: Self::Token) {
        let word = token.into_word();
        if word & DIRECT == 0 {
            // SAFETY: I4.
            let domain = unsafe { token.as_ref() };
            // SAFETY: I1.
            return unsafe { domain.release::<E>() };
        }
        // SAFETY: the caller's contract.
        let root = unsafe { self.root.of_holder() };
        // SAFETY: I1: the root's token, without our mark.
        let token = unsafe { Token::from_word(word & !DIRECT) };
        // SAFETY: held, by this token. ORDER: E2.
        unsafe { root.queue.unlock(token) };
    }

    fn is_locked(&self) -> bool {
        self.root.get().is_some_and(|root| root.queue.is_locked())
    }

    unsafe fn forget_waiters(&self, holder: Option<Self::Token>) {
        let Some(root) = self.root.get() else { return };
        let locked = root.queue.is_locked();
        let Some(holder) = holder.filter(|_| locked) else {
            // Without the holder's token a lock that is locked stays as it is.
            if !locked {
                // SAFETY: the caller's contract.
                unsafe { root.forget(&|_| false) };
            }
            return;
        };
        let word = holder.into_word();
        if word & DIRECT == 0 {
            // SAFETY: I1, I4.
            let entered = unsafe { holder.as_ref() };
            let is_held = |domain: &Domain<P, W>| {
                core::iter::successors(Some(entered), |held| held.above()).any(|held| ptr::eq(held, domain))
            };
            // SAFETY: the caller's contract.
            return unsafe { root.forget(&is_held) };
        }
        // SAFETY: I1: the root's token, without our mark.
        let token = unsafe { Token::from_word(word & !DIRECT) };
        // SAFETY: the caller's contract.
        unsafe { root.queue.forget_waiters(Some(token)) };
        // SAFETY: as above.
        root.below.visit(|domain| unsafe { domain.forget(&|_| false) });
    }

    unsafe fn dispose(&self) {
        let clear = |root: &Domain<P, W>| {
            // SAFETY: the caller's contract.
            unsafe { root.clear() };
        };
        // SAFETY: as above.
        unsafe { self.root.dispose(clear) };
    }
}
