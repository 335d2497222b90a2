//! State that a lock needs only while threads wait for it: memory of a kind, named by the lock's word, which comes back when
//! nobody uses it, whatever became of the lock.
//!
//! A program may free a mutex without destroying it, as every `std::mutex` is. So nothing tells when a state is needed no
//! more, and the state of an idle lock may be taken for another one at any time: a lock whose state was taken is as one that
//! nobody has waited for. Taking a state back never touches the memory of its lock.
//!
//! # State
//!
//! ```text
//! lock ─→ state: claim (owner, users), what the lock keeps there
//!          └─ as long as the state's owner is the lock; else the lock has none
//! ```
//!
//! The word of a lock:
//!
//! | bits  | meaning                                                      |
//! |-------|--------------------------------------------------------------|
//! | 48–63 | the knob `may-pass-local`; 0 = the default                    |
//! | 6–47  | the address of a state, or 0                                  |
//! | 0–5   | the knob `wake`, 63 for all; 0 = the default                  |
//!
//! A state knows its lock by its address, so a lock that was copied bit by bit, or moved, has no state either. It keeps the
//! knobs.
//!
//! # Invariants
//!
//! Those of [`claim`] (C1 to C4), and:
//!
//! - I1: memory of a state's type stays of that type for the life of the process, and what a state points to stays with it. So
//!   whoever finds a state in a word may look at it, and change its claim.
//! - I2: a lock's word changes from one state to another only by a thread that has found the one not to be the lock's, and that
//!   keeps it from becoming so (C3). So it never loses a state that is in use.
//! - I3: a state changes, but for its claim, by its users only; or by threads that acquire something in it and then find whose
//!   the state is, where [`PooledState::close`] keeps it from being taken back by acquiring the same; or by threads that `close` sees, since
//!   they have found whose it is and then changed a word that `close` changes.
//! - I4: a state whose owner is a lock, and which is open, is named by the lock's word, unless that was destroyed or initialised anew
//!   meanwhile: it is opened when it has been published, and the word changes only while it is not the lock's (I2). So of a state
//!   that was found in a lock's word the owner alone says whether it is the lock's.
//! - I5: a state goes back, or to another lock, only where nobody holds its lock by it: holders are counted, or
//!   [`PooledState::close`] sees them. What belongs to a lock that was freed, or destroyed while somebody had it, is its own
//!   until it is idle.
//!
//! # Ordering
//!
//! Those of [`claim`], and:
//!
//! - E1: the CAS that publishes a state (Release) → the load that finds it (Acquire): its initialisation.

mod claim;

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Native, Platform, PooledState};

use self::claim::{Claim, Owner};
use crate::knobs::{Knobs, MOST_PASSES, PASS_LIMIT};
use crate::wait::Patience;

/// What a lock keeps in memory that comes back.
pub trait State<P: Platform>: PooledState<P> {
    /// Whose it is, and how many use it. Changed by this module only.
    #[doc(hidden)]
    fn claim(&self) -> &Claimed<P>;

    /// Prepares it for another lock: as it was when it was new, but for what it points to. Nobody uses it.
    fn prepare(&self) {}

    /// Notes which lock owns the state, where [`State::is_of`] needs it; 0 = none.
    #[doc(hidden)]
    fn note_owner(&self, owner: usize) {
        let _ = owner;
    }

    /// Whether the state is this owner's.
    #[doc(hidden)]
    #[inline(always)]
    fn is_of(&self, owner: usize) -> bool {
        self.claim().0.is_of(Owner::from_bits(owner))
    }
}

/// The claim of a state, opaque outside of this crate.
#[derive(Debug)]
pub struct Claimed<P: Platform>(Claim<P>);

impl<P: Platform> Claimed<P> {
    /// Nobody's.
    pub(crate) fn new() -> Self {
        Self(Claim::new())
    }

    /// The number of users, where the owner is never set.
    pub(crate) fn count(&self) -> &P::Usize {
        self.0.cell()
    }

    /// Takes a thread off the users of the state, which is not necessarily the calling one.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.0.leave();
    }

    /// Adds the calling thread to the users. Returns whether the state is that of the lock whose word is at `address`; if not, the
    /// caller still has to [`leave`](Claimed::leave), and until then it does not become that lock's.
    pub(crate) fn enter_for(&self, address: usize) -> bool {
        self.0.enter(Owner::at(address))
    }

    /// Whether the state is that of the lock whose word is at `address`.
    pub(crate) fn is_for(&self, address: usize) -> bool {
        self.0.is_of(Owner::at(address))
    }

    /// In a child after `fork`: leaves as many `users`.
    pub(crate) fn forget(&self, users: usize) {
        self.0.forget(users);
    }
}

/// Takes `state` from a lock that does not use it, or from nobody: [`PooledState::take_back`] for every state.
pub(crate) fn take_back<P: Platform, T: State<P>>(state: &T) -> bool {
    state.claim().0.take_back(
        || state.close(),
        |closed, taken| {
            if taken {
                state.note_owner(0);
            }
            state.open(closed);
        },
    )
}

/// Takes `state` if it has no owner: [`PooledState::take_free`] for every state.
pub(crate) fn take_free<P: Platform, T: State<P>>(state: &T) -> bool {
    state.claim().0.take_free()
}

/// Why a lock's word does not name a fresh state.
pub(crate) enum NotPublished {
    NoMemory,
    WordChanged,
}

/// Takes a state for `owner`, prepared, and not yet open: C4. `None`: there is no memory.
fn take_for<P: Platform, T: State<P>>(owner: Owner, prepare: &impl Fn(&T)) -> Option<NonNull<T>> {
    loop {
        let fresh = P::take_state::<T>()?;
        // SAFETY: I1.
        let state = unsafe { fresh.as_ref() };
        prepare(state);
        if state.claim().0.reserve_for(owner) {
            return Some(fresh);
        }
    }
}

/// A state for the lock whose word is at `address`, with the caller as a user of it, who alone may publish it. `None`: there is no
/// memory.
pub(crate) fn try_take_for<P: Platform, T: State<P>>(address: usize) -> Option<NonNull<T>> {
    let fresh = take_for(Owner::at(address), &T::prepare)?;
    // SAFETY: I1.
    unsafe { fresh.as_ref() }.claim().0.open();
    Some(fresh)
}

/// Gives a state back that the word at `address` named, if it is that lock's and nobody has the lock.
///
/// # Safety
///
/// Nobody uses the lock, or will, but for holders that never release it.
pub(crate) unsafe fn give_back_from<P: Platform, T: State<P>>(state: NonNull<T>, address: usize) {
    let owner = Owner::at(address);
    // SAFETY: I1.
    let given = unsafe { state.as_ref() };
    let claim = &given.claim().0;
    // As one of its users: so nobody takes it back meanwhile. A holder is not counted, and there may be one that will never
    // release: a guard can be forgotten, and after `fork` be a ghost's. Its state stays the lock's that has gone (I5).
    let closed = if claim.enter(owner) { given.close() } else { None };
    let Some(closed) = closed else { return claim.leave() };
    given.note_owner(0);
    given.open(closed);
    if claim.give_up(owner) {
        // SAFETY: nobody's.
        unsafe { P::give_state(state) };
    }
}

/// The word of a lock with a state.
#[repr(transparent)]
pub struct Lazy<P: Platform, T: 'static>(P::Ptr<T>);

const STATE: usize = ((1 << 48) - 1) & !WAKE;
const WAKE: usize = 63;
const LIMIT_SHIFT: u32 = 48;

impl<P: Platform, T: 'static> core::fmt::Debug for Lazy<P, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Lazy").field(&self.0.load(Relaxed)).finish()
    }
}

impl<T> Lazy<Native, T> {
    /// Without a state, for statics.
    pub(crate) const fn unused() -> Self {
        Self(Native::null())
    }
}

/// `word` with those knobs that are given, instead of its own.
fn with_knobs<T>(word: *mut T, knobs: &Knobs) -> *mut T {
    word.map_addr(|mut bits| {
        if let Some(limit) = knobs.pass_limit {
            bits = bits << 16 >> 16 | (limit.clamp(1, MOST_PASSES) as usize) << LIMIT_SHIFT;
        }
        if let Some(wake) = knobs.wake {
            bits = bits & !WAKE | (wake.max(1) as usize).min(WAKE);
        }
        bits
    })
}

impl<P: Platform, T: State<P>> Lazy<P, T> {
    pub(crate) fn new() -> Self {
        const { assert!(align_of::<T>() > WAKE) };
        Self(P::Ptr::new(ptr::null_mut()))
    }

    #[inline(always)]
    fn owner(&self) -> Owner {
        Owner::at(ptr::from_ref(self).addr())
    }

    /// The state that `word` names, which was read with Acquire and may be another lock's.
    #[inline(always)]
    fn named<'a>(word: *mut T) -> Option<&'a T> {
        // By an integer: of `map_addr` the compiler makes a difference of addresses that it adds at every store.
        let state = ptr::with_exposed_provenance::<T>(word.expose_provenance() & STATE);
        // SAFETY: I1: null, or published with an initialised state (E1).
        unsafe { state.as_ref() }
    }

    /// The state that the lock's word names, if there is one. It may be another lock's: see [`Lazy::owns`].
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<&T> {
        Self::named(self.0.load(Acquire)) // ORDER: E1.
    }

    /// As [`Lazy::peek`], of a lock that keeps no knobs in its word, so that no bit has to be masked.
    #[inline(always)]
    pub(crate) fn peek_bare(&self) -> Option<&T> {
        let state = self.0.load(Acquire); // ORDER: E1.
        debug_assert!(state.addr() & !STATE == 0, "knobs in the word");
        // SAFETY: I1: null, or published with an initialised state (E1).
        unsafe { state.as_ref() }
    }

    /// As [`Lazy::peek_or_make`], of a lock that keeps no knobs in its word.
    #[inline(always)]
    pub(crate) fn peek_bare_or_make(&self) -> &T {
        self.right_or_made(self.peek_bare())
    }

    /// As [`Lazy::used`], of a lock that keeps no knobs in its word.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn used_bare(&self) -> &T {
        let state = self.0.load(Relaxed);
        debug_assert!(!state.is_null() && state.addr() & !STATE == 0, "a state in use is in its lock's word");
        // SAFETY: the caller's contract, and I4.
        unsafe { &*state }
    }

    /// Whether the state, which was found in the lock's word, is the lock's. It stays so while somebody uses it.
    #[inline(always)]
    pub(crate) fn owns(&self, state: &T) -> bool {
        state.is_of(self.owner().bits()) // I4.
    }

    /// Whether the state is the lock's, and no thread is about to take it back.
    fn has_settled(&self, state: &T) -> bool {
        state.claim().0.is_settled_for(self.owner())
    }

    /// Adds the calling thread to the users of a state that was found in the word, if it is the lock's. If not, the caller
    /// still has to [leave](Claimed::leave).
    #[inline(always)]
    pub(crate) fn join(&self, state: &T) -> bool {
        state.claim().0.enter(self.owner())
    }

    /// As [`Lazy::join`], and does not wait: the answer may be no although the state is the lock's.
    pub(crate) fn try_join(&self, state: &T) -> bool {
        state.claim().0.enter_at_once(self.owner())
    }

    /// Whether an attempt that failed in the state of the word has failed by the threads of the lock: the state is its own,
    /// and nobody is about to take it back. Otherwise it is, perhaps, when this returns. (Or by a thread of the lock that had the
    /// state before: that holds it until it has looked at the owner. It is not seen from here.)
    pub(crate) fn settle(&self) -> bool {
        let Some(state) = self.peek() else { return false };
        if self.has_settled(state) {
            return true;
        }
        if self.owns(state) {
            P::pause();
        } else {
            self.make_for_a_look();
        }
        false
    }

    /// What `look` says of the lock's state, if it has one. A thread that takes the state back acquires in it for a moment,
    /// which is not to be seen.
    pub(crate) fn look<R>(&self, look: impl Fn(&T) -> R) -> Option<R> {
        let mut patience = Patience::new::<P>();
        loop {
            // If it has gone, the lock was idle.
            let state = self.peek().filter(|state| self.owns(state))?;
            if self.has_settled(state) {
                let seen = look(state);
                if self.has_settled(state) {
                    return Some(seen);
                }
            }
            patience.pause::<P>();
        }
    }

    /// The state of a lock that nobody else uses, if it has one.
    pub(crate) fn own(&self) -> Option<&T> {
        self.peek().filter(|state| self.owns(state))
    }

    /// The state in the word of a lock of which the caller knows that somebody uses its state.
    ///
    /// # Safety
    ///
    /// So it is, and that user has come before the caller.
    #[inline(always)]
    pub(crate) unsafe fn used(&self) -> &T {
        let state = Self::named(self.0.load(Relaxed));
        debug_assert!(state.is_some(), "a state in use is in its lock's word");
        // SAFETY: the caller's contract, and I4.
        unsafe { state.unwrap_unchecked() }
    }

    /// The lock's state, made if it has none. The caller is one of its users until it [leaves](Claimed::leave).
    #[inline]
    pub(crate) fn enter(&self) -> &T {
        self.enter_or(T::prepare)
    }

    /// As [`Lazy::enter`], with another way to prepare a state.
    #[inline]
    pub(crate) fn enter_or(&self, prepare: impl Fn(&T)) -> &T {
        if let Some(state) = self.peek() {
            if self.join(state) {
                return state;
            }
            state.claim().leave();
        }
        self.attach(prepare)
    }

    /// The lock's state, made if there is none: for threads that look again whose it is after they have acquired something
    /// in it. They must not begin with a state that is not the lock's, whose threads would find it acquired.
    #[inline(always)]
    pub(crate) fn peek_or_make(&self) -> &T {
        self.right_or_made(self.peek())
    }

    /// As [`Lazy::peek_or_make`], of a lock whose word was found to be `word`, by a load with Acquire.
    #[inline(always)]
    pub(crate) fn see_or_make(&self, word: *mut T) -> &T {
        self.right_or_made(Self::named(word))
    }

    #[inline(always)]
    fn right_or_made<'a>(&'a self, seen: Option<&'a T>) -> &'a T {
        match seen {
            Some(state) if state.is_of(self.owner().bits()) => state,
            _ => self.make_for_a_look(),
        }
    }

    /// The word, for locks that use it for something else until they need a state, and then call [`Lazy::found`]; and nothing else
    /// here before.
    #[inline(always)]
    pub(crate) fn word(&self) -> &P::Ptr<T> {
        &self.0
    }

    /// Takes a state, with the caller as a user of it, and puts it into the word: by `publish`, which says whether the word has not
    /// changed meanwhile, and is a release (E1). `set_up` has the state to itself, but for threads that come late to another lock;
    /// if the word has changed, `undo` gets what that returned. A `fork` waits for it.
    pub(crate) fn found<S>(
        &self,
        prepare: &impl Fn(&T),
        set_up: impl FnOnce(&T) -> S,
        publish: impl FnOnce(*mut T) -> bool,
        undo: impl FnOnce(&T, S),
    ) -> Result<&T, NotPublished> {
        let fresh = take_for(self.owner(), prepare).ok_or(NotPublished::NoMemory)?;
        // SAFETY: I1.
        let state = unsafe { &*fresh.as_ptr() };
        let claim = &state.claim().0;
        let made = set_up(state);
        if publish(fresh.as_ptr()) {
            state.note_owner(self.owner().bits());
            claim.open();
            return Ok(state);
        }
        undo(state, made);
        // The word may have named this very state before, and threads may have read that: C4.
        if claim.unreserve(self.owner()) {
            // SAFETY: without an owner, and no thread uses it.
            unsafe { P::give_state(fresh) };
        }
        Err(NotPublished::WordChanged)
    }

    /// As [`Lazy::peek_or_make`], of a lock whose state was found to be another's, or that had none.
    #[cold]
    pub(crate) fn make_for_a_look(&self) -> &T {
        let state = self.attach(T::prepare);
        state.claim().leave();
        state
    }

    #[cold]
    fn attach(&self, prepare: impl Fn(&T)) -> &T {
        P::until_there_is_memory(|| self.try_attach(&prepare))
    }

    /// As [`Lazy::attach`]; `None`: there is no memory. Then the state that the word names is not kept from other locks: they may
    /// be waiting for one.
    fn try_attach(&self, prepare: &impl Fn(&T)) -> Option<&T> {
        loop {
            let word = self.0.load(Acquire); // ORDER: E1.
            let there = Self::named(word);
            if let Some(there) = there
                && there.claim().0.enter(self.owner())
            {
                return Some(there);
            }
            // A child of `fork` would find the state reserved for ever: a fork waits.
            let published = P::in_steps(|| self.publish_fresh(word, prepare));
            if let Some(there) = there {
                there.claim().leave();
            }
            match published {
                Ok(state) => return Some(state),
                Err(NotPublished::NoMemory) => return None,
                Err(NotPublished::WordChanged) => {}
            }
        }
    }

    /// Takes a state, and puts it into the lock's word, which was `word`.
    fn publish_fresh(&self, word: *mut T, prepare: &impl Fn(&T)) -> Result<&T, NotPublished> {
        let publish = |fresh: *mut T| {
            let named = fresh.map_addr(|address| address | word.addr() & !STATE);
            // I2. ORDER: Release is E1. A failure is looked at by the caller.
            self.0.compare_exchange(word, named, Release, Relaxed).is_ok()
        };
        self.found(prepare, |_| (), publish, |_, ()| ())
    }

    /// See [`RawLock::configure`](crate::api::RawLock::configure).
    pub(crate) fn configure(&self, knobs: &Knobs) {
        let mut word = self.0.load(Relaxed);
        // ORDER: Relaxed: nothing here looks at the state, and a read-modify-write hands on what E1 published.
        while let Err(now) = self.0.compare_exchange(word, with_knobs(word, knobs), Relaxed, Relaxed) {
            word = now;
        }
    }

    /// The knob `may-pass-local`.
    #[inline(always)]
    pub(crate) fn pass_limit(&self) -> u32 {
        match (self.0.load(Relaxed).addr() >> LIMIT_SHIFT) as u32 {
            0 => PASS_LIMIT,
            limit => limit,
        }
    }

    /// The knob `wake`, if it was given.
    #[inline(always)]
    pub(crate) fn wake(&self) -> Option<u32> {
        match self.0.load(Relaxed).addr() & WAKE {
            0 => None,
            WAKE => Some(u32::MAX),
            wake => Some(wake as u32),
        }
    }

    /// Gives the state back, if the lock has one and nobody has the lock.
    ///
    /// # Safety
    ///
    /// As of [`give_back_from`].
    pub(crate) unsafe fn dispose(&self) {
        // What is given back is the pointer that there was: a reference to the state may not free it.
        // ORDER: Relaxed: the caller comes after all who used the lock, and so after E1.
        let word = self.0.swap(ptr::null_mut(), Relaxed);
        let Some(state) = NonNull::new(word.map_addr(|bits| bits & STATE)) else { return };
        // SAFETY: the caller's contract.
        unsafe { give_back_from(state, ptr::from_ref(self).addr()) };
    }
}
