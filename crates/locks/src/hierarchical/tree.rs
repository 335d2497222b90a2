//! A tree of MCS queues, one for each part of the machine's hierarchy: what HMCS and AHMCS are made of.
//!
//! # State
//!
//! ```text
//! lock ─→ root: queue, claim, children ─→ domain of a node: queue, token, passes left, `ours`, children ─→ …
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
//! - I2: everything in a domain but the queue, the claim, the crowding and the children belongs to the holder of the queue.
//! - I3: `ours` is set during a hand-over only: a thread that acquires a domain's queue and finds it set has been handed the
//!   queues above too. Only a thread that certainly takes over is handed them.
//! - I4: a release touches no domain after it has released the root's queue or handed a queue over.
//! - I5: the domains are the lock's while somebody holds the root's queue, or waits and is counted: they are taken back by a
//!   thread that acquires the root's queue and finds nobody counted. A thread that acquires it directly finds whose the
//!   domains are afterwards, and releases another lock's at once.
//!
//! # Ordering
//!
//! - E1: as E1 of `state` and of `directory`: the initialisation of the domains.
//! - E2: hand-over and release of a queue → its next acquisition (E1 and E4 of `mcs`): the domain, and the
//!   critical section if the queues above come with it.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, DataCell, NODE_BYTES, Native, Platform, PoolNode, PooledState};

use super::directory::{Children, Users, Whole, enter_part};
use crate::api::{RawLock, Token};
use crate::knobs::{Knobs, MOST_PASSES};
use crate::queue::mcs::{Mcs, McsNode};
use crate::state::{Claimed, Lazy, State, take_back, take_free};
use crate::wait::{Spin, Wait, WaitPolicy};

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
    /// Of the root: whose state it is. Else the threads that entered by way of it, if it is right below the root.
    claim: Claimed<P>,
    /// How crowded the queue has been; written by the holder, read by all.
    crowding: P::U32,
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
            crowding: P::U32::new(0),
            claim: Claimed::new(),
            passes: P::Data::new(0),
            ours: P::Data::new(false),
            below: Children::new(),
        }
    }
}

impl<P: Platform, W: WaitPolicy<P>> PooledState<P> for Domain<P, W> {
    fn take_back(&self) -> bool {
        take_back(self)
    }

    fn take_free(&self) -> bool {
        take_free(self)
    }

    fn close(&self) -> Option<usize> {
        self.queue.try_lock().map(Token::into_word)
    }

    fn open(&self, word: usize) {
        // SAFETY: made of a token by `close`.
        let token = unsafe { Token::from_word(word) };
        // SAFETY: of the acquisition there.
        unsafe { self.queue.unlock(token) };
    }

    unsafe fn clear(&self) {
        // SAFETY: the caller's contract.
        let clear = |domain: &Self| unsafe { domain.clear() };
        // SAFETY: the caller's contract.
        unsafe { self.below.dispose(clear) };
    }
}

impl<P: Platform, W: WaitPolicy<P>> State<P> for Domain<P, W> {
    fn claim(&self) -> &Claimed<P> {
        &self.claim
    }

    fn prepare(&self) {
        self.crowding.store(0, Relaxed);
        self.below.visit(|domain| domain.prepare());
    }
}

impl<P: Platform, W: WaitPolicy<P>> Whole<P> for Domain<P, W> {
    type Part = Self;

    #[inline(always)]
    fn find(&self, part: usize) -> Option<&Self> {
        self.below.get(part)
    }

    fn make(&self, part: usize) -> Option<&Self> {
        self.below.state(part, |fresh| fresh.above.store(ptr::from_ref(self).cast_mut(), Relaxed))
    }

    #[inline(always)]
    fn users(part: &Self) -> Users<'_, P> {
        Users(part.claim.count())
    }
}

impl<P: Platform, W: WaitPolicy<P>> Domain<P, W> {
    fn above(&self) -> Option<&Self> {
        // SAFETY: I4. ORDER: E1 has published it with this domain.
        unsafe { self.above.load(Relaxed).as_ref() }
    }

    /// Where the calling thread enters: here, or below.
    fn entry<E: Entry<P>>(&self, mut level: usize) -> &Self {
        let mut domain = self;
        while E::is_below(&domain.crowding)
            && let Some(part) = P::place(level)
            && let Some(below) = domain.make(part)
        {
            domain = below;
            level += 1;
        }
        domain
    }

    /// Acquires the queue and those above, for `limit` hand-overs in each domain. Returns whether that was before the deadline.
    fn acquire(&self, limit: u16, wait: &Wait) -> bool {
        let Some(token) = self.queue.lock_with(wait) else { return false };
        // SAFETY: I2, for all that follows.
        if unsafe { self.ours.get() } {
            // SAFETY: as above.
            unsafe { self.ours.set(false) };
        } else if let Some(above) = self.above() {
            if !above.acquire(limit, wait) {
                // Nothing was handed to us, and nothing goes with the queue now: the next one tries itself.
                // SAFETY: acquired above.
                unsafe { self.queue.unlock(token) };
                return false;
            }
            // SAFETY: as above.
            unsafe { self.passes.set(limit) };
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

    /// Hands the lock over within this domain, or releases the queue and does so above. Hand-overs are limited to `limit`.
    ///
    /// # Safety
    ///
    /// As [`Domain::token`].
    unsafe fn release<E: Entry<P>>(&self, limit: u16) {
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
        E::left(&above.crowding, passes < limit);
        // SAFETY: ours. ORDER: E2. From here on the domain is not ours to look at.
        unsafe { self.queue.unlock(token) };
        // SAFETY: I1: held as well.
        unsafe { above.release::<E>(limit) };
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
    /// Hand-overs in a row in a domain.
    #[inline(always)]
    fn limit(&self) -> u16 {
        self.root.pass_limit() as u16
    }

    /// Acquires the root's queue alone, if it is empty. May fail where the lock is free and has no state of its own.
    #[inline(always)]
    fn acquire_fast(&self) -> Option<NonNull<Domain<P, W>>> {
        let root = self.root.peek_or_make();
        let token = root.queue.try_lock()?;
        if !self.root.owns(root) {
            // I5: another lock's.
            // SAFETY: acquired above.
            unsafe { root.queue.unlock(token) };
            return None;
        }
        // SAFETY: made from a pointer's word; odd, so not zero.
        Some(unsafe { Token::from_word(token.into_word() | DIRECT) })
    }

    /// Acquires as one of the threads of this part of the machine.
    fn acquire_slow(&self, wait: &Wait) -> Option<NonNull<Domain<P, W>>> {
        let place = P::place(0).filter(|_| self.root.peek().is_none_or(|root| E::is_below(&root.crowding)));
        let Some(part) = place else {
            let root = self.root.enter();
            let domain = self.acquire_at(root, wait);
            root.claim.leave(); // I5.
            return domain;
        };
        let (root, below) = enter_part(&self.root, part);
        let Some(below) = below else {
            let domain = self.acquire_at(root, wait);
            root.claim.leave(); // I5.
            return domain;
        };
        let domain = self.acquire_at(below.entry::<E>(1), wait);
        Domain::users(below).leave(&root.claim); // I5.
        domain
    }

    /// Enters at `domain`, and acquires.
    fn acquire_at(&self, domain: &Domain<P, W>, wait: &Wait) -> Option<NonNull<Domain<P, W>>> {
        let crowd = domain.queue.is_locked();
        if !domain.acquire(self.limit(), wait) {
            return None;
        }
        // SAFETY: I1.
        let token = unsafe { domain.token() };
        E::entered(&domain.crowding, crowd && domain.queue.is_waited_for(token));
        Some(NonNull::from(domain))
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

    fn configure(&self, knobs: &Knobs) {
        self.root.configure(knobs);
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<Self::Token> {
        loop {
            if let Some(token) = self.acquire_fast() {
                return Some(token);
            }
            if self.root.settle() {
                return None;
            }
        }
    }

    fn lock_slow(&self, wait: &Wait) -> Option<Self::Token> {
        self.acquire_slow(wait)
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<Self::Token> {
        self.acquire_fast()
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: Self::Token) {
        let word = token.into_word();
        if word & DIRECT == 0 {
            // SAFETY: I4.
            let domain = unsafe { token.as_ref() };
            // SAFETY: I1.
            return unsafe { domain.release::<E>(self.limit()) };
        }
        // SAFETY: the caller's contract.
        let root = unsafe { self.root.used() };
        // SAFETY: I1: the root's token, without our mark.
        let token = unsafe { Token::from_word(word & !DIRECT) };
        // SAFETY: held, by this token. ORDER: E2.
        unsafe { root.queue.unlock(token) };
    }

    fn is_locked(&self) -> bool {
        self.root.look(|root| root.queue.is_locked()).unwrap_or(false)
    }

    unsafe fn forget_waiters(&self, holder: Option<Self::Token>) {
        let Some(root) = self.root.own() else { return };
        root.claim.forget(0);
        root.below.visit(|domain| domain.claim.forget(0));
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
        // SAFETY: the caller's contract.
        unsafe { self.root.dispose() };
    }
}
