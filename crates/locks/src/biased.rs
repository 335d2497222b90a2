//! Biasing: the first thread that uses a lock re-acquires it without an atomic operation, until a second one comes.
//!
//! Kiyokuni Kawachiya, Akira Koseki and Tamiya Onodera, "Lock reservation: Java locks can mostly do without atomic
//! operations", OOPSLA 2002; the revocation by a barrier in all threads is that of David Dice, Mark Moir and William
//! Scherer, "Quickly reacquirable locks", 2003. Deviations: the bias is for one thread and for good: once
//! revoked it does not come back.
//!
//! Properties: as the wrapped lock after the revocation, plus a load. Before it, a pair costs two stores and no atomic
//! read-modify-write. The revocation costs a system call of microseconds, once in the life of a lock, and up to a
//! millisecond if the first thread is inside. Avoid for locks that two threads use from the start.
//!
//! # State
//!
//! | `owner`     | meaning                                                                   | `held`                        |
//! |-------------|---------------------------------------------------------------------------|-------------------------------|
//! | `NOBODY`    | unused                                                                    | 0                             |
//! | a thread    | that thread acquires by `held`, others must revoke                        | 1 = it holds the lock         |
//! | `REVOKING`  | the holder of the wrapped lock takes the bias away                        | 1 = the first thread is inside, or about to look at `owner` |
//! | `STAYED`    | the first thread was inside, or on its way: it has the lock until it releases it | 1 = it has not yet     |
//! | `RETREATED` | the first thread was on its way, and leaves the lock to the one that revokes | any                        |
//! | `REVOKED`   | the wrapped lock is the lock                                              | means nothing                 |
//!
//! # Invariants
//!
//! - I1: only the holder of the wrapped lock writes `REVOKING`, `STAYED` and `REVOKED`; it does not release the wrapped
//!   lock while `owner` is `REVOKING` or `RETREATED`. `REVOKED` is final.
//! - I2: a thread is in a section by the wrapped lock only if it has seen `REVOKED` while it held that.
//! - I3: `REVOKED` is written only when after a heavy barrier that followed the writing of `REVOKING` either `held` was
//!   0, or the first thread moved to `RETREATED`. A thread that sets `held` after that barrier sees that it must not stay.
//! - I4: the first thread and the revoking one agree by a CAS on `REVOKING`: never do both have the lock, never both
//!   fail.
//!
//! # Ordering
//!
//! - E1: the store of 0 to `held` (Release) → the next look at `held` that sees 0 (Acquire): the section by bias, for
//!   the owner's next section and for the revoker's.
//! - E2: a store-load race between the owner (`held`, then `owner`) and the revoker (`owner`, then `held`): the owner
//!   puts a light barrier in between, the revoker a heavy one. One of them sees the other, which gives I3.
//! - E3: the CAS to `RETREATED` (Release) → the failed CAS of the revoker that sees it (Acquire): the first thread's
//!   earlier sections, whose release a later 1 in `held` hides.
//! - E4: the wrapped lock orders everything between its holders.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Clock, Deadline, FutexCell, Platform};

use crate::api::{RawLock, Token};
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::knobs::Knobs;
use crate::wait::{Wait, endless, expired};

/// What is known of biasing.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "biased",
    family: Family::Biased,
    order: Order::OfInner,
    bytes: 8,
    timed: Timed::OfInner(""),
    proofs: &[Proof { source: file!(), by: &["biased(tas)", "biased(futex)"] }],
    citation: Citation {
        key: "kawachiya02",
        text: "Kawachiya, Koseki, Onodera: Lock reservation: Java locks can mostly do without atomic operations. \
               OOPSLA 2002",
    },
    summary: "lets the first thread re-acquire the lock it wraps without atomic operations, until a second one comes",
    properties: "Two plain stores a pair before the second thread comes, the wrapped lock and a load after.",
    deviations: "The bias does not come back once revoked. The revocation is a barrier in all threads, not a stop of the first.",
    avoid: "Locks that several threads use from the start.",
    largest_inner: LARGEST_INNER,
    ..Descriptor::MUTEX
};

/// Nobody has used the lock yet.
const NOBODY: u32 = 0;
/// The bias is being taken away.
const REVOKING: u32 = u32::MAX - 3;
/// It was being taken away while the first thread had the lock.
const STAYED: u32 = u32::MAX - 2;
/// It was being taken away, and the first thread has turned back.
const RETREATED: u32 = u32::MAX - 1;
/// The bias is gone.
const REVOKED: u32 = u32::MAX;

/// The largest lock, in bytes, that can be biased within a `pthread_mutex_t`.
pub const LARGEST_INNER: usize = 8;

/// How long a revoker sleeps between two looks at a first thread that is inside, in ns.
const NAP_NS: u64 = 1_000_000;

/// What the holder of a biased lock keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BiasedToken<T> {
    /// Acquired by bias.
    Held,
    /// Acquired by the wrapped lock.
    Inner(T),
}

/// The word of [`BiasedToken::Held`].
const HELD: usize = 2;
/// The word of an inner token that is nothing.
const NOTHING: usize = 4;

// SAFETY: three disjoint sets of words: the two above, and those of inner tokens: addresses of pool nodes, or odd words.
unsafe impl<T: Token> Token for BiasedToken<T> {
    const STORED: bool = true;

    #[inline(always)]
    fn into_word(self) -> usize {
        match self {
            Self::Held => HELD,
            Self::Inner(token) if T::STORED => token.into_word(),
            Self::Inner(_) => NOTHING,
        }
    }

    #[inline(always)]
    unsafe fn from_word(word: usize) -> Self {
        if word == HELD {
            return Self::Held;
        }
        // SAFETY: the inner token's own word, or any where nothing is stored.
        Self::Inner(unsafe { T::from_word(word) })
    }
}

/// The lock `L`, biased towards the thread that uses it first.
#[repr(C)]
pub struct Biased<P: Platform, L> {
    inner: UnsafeCell<L>,
    /// The thread that acquires by `held`; see the module's documentation.
    owner: P::U32,
    /// 1 while the owner holds the lock by bias.
    held: P::Futex,
    platform: PhantomData<P>,
}

impl<P: Platform, L> core::fmt::Debug for Biased<P, L> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Biased").field("owner", &self.owner.load(Relaxed)).finish_non_exhaustive()
    }
}

// SAFETY: the wrapped lock is shared as by itself; `forget_waiters` replaces it while nobody else uses it.
unsafe impl<P: Platform, L: RawLock<P>> Sync for Biased<P, L> {}

impl<P: Platform, L: RawLock<P>> Biased<P, L> {
    #[inline(always)]
    fn inner(&self) -> &L {
        // SAFETY: replaced by `forget_waiters` only, whose caller excludes others.
        unsafe { &*self.inner.get() }
    }

    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// Acquires by bias, if it is the calling thread's and the lock is free.
    #[inline(always)]
    fn acquire_by_bias(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        if owner != P::thread_id() || owner == NOBODY {
            return false;
        }
        // ORDER: E1, where another thread released it on the owner's behalf.
        if self.held.load(Acquire) != 0 {
            return false;
        }
        self.held.store(1, Relaxed);
        P::light_barrier(); // ORDER: E2.
        self.owner.load(Relaxed) == owner || self.stays()
    }

    /// Whether the first thread has the lock although somebody came to take the bias away. If not, it leaves.
    #[cold]
    fn stays(&self) -> bool {
        // ORDER: E3.
        match self.owner.compare_exchange(REVOKING, RETREATED, Release, Relaxed) {
            Err(STAYED) => true,
            _ => {
                // Nobody looks at it for the order of sections any more.
                self.held.store(0, Relaxed);
                false
            }
        }
    }

    /// Makes the calling thread the owner of a lock that nobody has used.
    #[cold]
    fn claim(&self) -> bool {
        let me = P::thread_id();
        me != NOBODY
            && self.owner.load(Relaxed) == NOBODY
            && self.owner.compare_exchange(NOBODY, me, Relaxed, Relaxed).is_ok()
            && self.acquire_by_bias()
    }

    /// Takes the bias away, as the holder of the wrapped lock. Returns whether that is the lock now; if not, the
    /// first thread is inside.
    #[cold]
    fn revoke(&self) -> bool {
        let mut owner = self.owner.load(Relaxed);
        // A CAS, since a thread without the wrapped lock may claim the bias at this moment.
        while let Err(now) = self.owner.compare_exchange(owner, REVOKING, Relaxed, Relaxed) {
            owner = now;
        }
        if owner != NOBODY {
            P::heavy_barrier(); // ORDER: E2.
            // ORDER: E1; on failure E3.
            if self.held.load(Acquire) != 0
                && self.owner.compare_exchange(REVOKING, STAYED, Relaxed, Acquire).is_ok()
            {
                return false;
            }
        }
        self.owner.store(REVOKED, Relaxed);
        true
    }

    /// Acquires by the wrapped lock; `None` when the deadline has passed.
    fn acquire_slow(&self, wait: &Wait) -> Option<BiasedToken<L::Token>> {
        if self.claim() {
            return Some(BiasedToken::Held);
        }
        let token = self.inner().lock_with(wait)?;
        self.keep(token, || self.wait_for_owner(wait.deadline))
    }

    /// As [`Biased::acquire_slow`], for a lock that stands for itself and waits as long as it takes.
    #[cold]
    fn acquire_endlessly(&self) -> BiasedToken<L::Token> {
        endless(Wait::run::<P, _>(self.address(), None, |wait| self.acquire_slow(wait)))
    }

    /// Keeps the wrapped lock if it is the lock now, or becomes so as long as `wait` says to go on; else releases it.
    #[inline(always)]
    fn keep(&self, token: L::Token, wait: impl Fn() -> bool) -> Option<BiasedToken<L::Token>> {
        while self.owner.load(Relaxed) != REVOKED && !self.revoke() {
            if !wait() {
                // SAFETY: the token of the caller's acquisition.
                unsafe { self.inner().unlock(token) };
                return None;
            }
        }
        Some(BiasedToken::Inner(token))
    }

    /// Releases a lock acquired by bias.
    #[inline(always)]
    fn release_bias(&self) {
        // Looked at before the release, since the next holder may destroy the lock.
        let is_awaited = self.owner.load(Relaxed) >= REVOKING;
        self.held.store(0, Release); // ORDER: E1.
        if is_awaited {
            // SAFETY: an address only; a wake of whatever is there by now is spurious.
            unsafe { FutexCell::wake(&raw const self.held, 1) };
        }
    }

    /// Sleeps until the first thread has left; false when the deadline has passed.
    fn wait_for_owner(&self, deadline: Option<Deadline>) -> bool {
        // ORDER: Relaxed: `revoke` looks again.
        while self.held.load(Relaxed) != 0 {
            if deadline.is_some_and(expired::<P>) {
                return false;
            }
            // The owner's release wakes us, unless it looked before there was anybody to wake.
            let nap = Deadline { clock: Clock::Monotonic, ns: P::now(Clock::Monotonic) + NAP_NS };
            let _ = self.held.wait(1, Some(nap));
        }
        true
    }
}

// SAFETY: a section by bias excludes those by the wrapped lock (I2, I3) and itself (`held`); E1 to E3 order them.
unsafe impl<P: Platform, L: RawLock<P>> RawLock<P> for Biased<P, L> {
    type Token = BiasedToken<L::Token>;

    fn new() -> Self {
        Self {
            inner: UnsafeCell::new(L::new()),
            owner: P::U32::new(NOBODY),
            held: P::Futex::new(0),
            platform: PhantomData,
        }
    }

    fn configure(&self, knobs: &Knobs) {
        self.inner().configure(knobs);
    }

    #[inline(always)]
    fn lock(&self) -> Self::Token {
        if self.acquire_by_bias() {
            return BiasedToken::Held;
        }
        if self.owner.load(Relaxed) == REVOKED {
            return BiasedToken::Inner(self.inner().lock());
        }
        self.acquire_endlessly()
    }

    fn try_lock(&self) -> Option<Self::Token> {
        if self.acquire_by_bias() || self.claim() {
            return Some(BiasedToken::Held);
        }
        let token = self.inner().try_lock()?;
        self.keep(token, || false)
    }

    fn lock_slow(&self, wait: &Wait) -> Option<Self::Token> {
        self.acquire_slow(wait)
    }

    fn lock_with(&self, wait: &Wait) -> Option<Self::Token> {
        if self.acquire_by_bias() { Some(BiasedToken::Held) } else { self.acquire_slow(wait) }
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        if self.acquire_by_bias() {
            return Some(BiasedToken::Held);
        }
        Wait::run::<P, _>(self.address(), Some(deadline), |wait| self.acquire_slow(wait))
    }

    #[inline(always)]
    unsafe fn unlock(&self, token: Self::Token) {
        match token {
            BiasedToken::Held => self.release_bias(),
            // SAFETY: the caller's contract.
            BiasedToken::Inner(token) => unsafe { self.inner().unlock(token) },
        }
    }

    fn is_locked(&self) -> bool {
        match self.owner.load(Relaxed) {
            REVOKED => self.inner().is_locked(),
            _ => self.held.load(Relaxed) != 0 || self.inner().is_locked(),
        }
    }

    unsafe fn forget_waiters(&self, holder: Option<Self::Token>) {
        if self.owner.load(Relaxed) == REVOKED {
            let inner = match holder {
                Some(BiasedToken::Inner(token)) => Some(token),
                _ => None,
            };
            // SAFETY: the caller's contract.
            return unsafe { self.inner().forget_waiters(inner) };
        }
        // I2: a ghost that has the wrapped lock has not the lock, and nobody can release it for it.
        // SAFETY: the caller's contract: nobody else uses it.
        unsafe { self.inner.get().replace(L::new()) };
        if matches!(self.owner.load(Relaxed), REVOKING | RETREATED) {
            self.owner.store(STAYED, Relaxed);
        }
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.inner().dispose() };
        self.owner.store(NOBODY, Relaxed);
        self.held.store(0, Relaxed);
    }
}
