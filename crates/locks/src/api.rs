//! The interface of every lock.

use core::ptr;

use lockwork_platform::{Deadline, Platform};

use crate::knobs::Knobs;
use crate::wait::{Patience, Wait, endless};

/// A mutual-exclusion lock, shaped like `lock_api::RawMutex` but with a token.
///
/// The token is what the holder must keep until it unlocks: a queue node, or nothing. It borrows nothing from the
/// locker's stack, so it may be stored anywhere and handed to another thread. All-zero memory is an
/// unlocked lock.
///
/// # Safety
///
/// Implementations guarantee mutual exclusion between a successful acquisition and the matching `unlock`,
/// and that everything before an `unlock` happens before everything after the next acquisition.
pub unsafe trait RawLock<P: Platform>: Send + Sync {
    /// What the holder keeps between acquisition and release.
    type Token: Token;

    /// An unlocked lock.
    fn new() -> Self;

    /// Takes the knobs that were given for the lock, before its first use or, at the latest, while other threads already
    /// use it. A lock ignores those that it does not have, and keeps its default for those not given.
    #[inline]
    fn configure(&self, knobs: &Knobs) {
        let _ = knobs;
    }

    /// Acquires, waiting as long as it takes. Not re-entrant: a holder that locks again waits for ever.
    #[inline(always)]
    #[must_use = "the token is needed to unlock"]
    fn lock(&self) -> Self::Token {
        match self.lock_fast() {
            Some(token) => token,
            None => lock_endlessly(self),
        }
    }

    /// As [`RawLock::lock`]; or, where more than a few instructions are needed, `Err` with what [`RawLock::finish_lock`] goes on with. A
    /// function that calls that last needs no stack where the lock is free.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use = "the token is needed to unlock"]
    fn lock_at_once(&self) -> Result<Self::Token, Option<Self::Token>> {
        Ok(self.lock())
    }

    /// Goes on where [`RawLock::lock_at_once`] has not acquired the lock.
    ///
    /// # Safety
    ///
    /// `begun` is what that said of this lock, to the calling thread, and is used once.
    #[doc(hidden)]
    #[must_use = "the token is needed to unlock"]
    unsafe fn finish_lock(&self, begun: Option<Self::Token>) -> Self::Token {
        let _ = begun;
        unreachable!("it acquires the lock in any case")
    }

    /// Acquires if that is possible without waiting. Succeeds on a quiescent unlocked lock; may fail
    /// while the lock is being released, or while a thread that came for another lock, whose state has gone to this one meanwhile,
    /// is about to find that out.
    #[must_use = "the token is needed to unlock"]
    fn try_lock(&self) -> Option<Self::Token>;

    /// The fast path: acquires if the lock is free, for a caller that expects it to be, and will wait if it is not. Unlike
    /// [`RawLock::try_lock`] it need not spare the holder a transfer of the lock's cache line.
    #[inline(always)]
    #[must_use = "the token is needed to unlock"]
    fn lock_fast(&self) -> Option<Self::Token> {
        self.try_lock()
    }

    /// The slow path: acquires after [`RawLock::lock_fast`] has failed, waiting as `wait` says, which also is what the
    /// calling thread is registered for. `None`: the deadline passed. Tries at least once.
    #[must_use = "the token is needed to unlock"]
    fn lock_slow(&self, wait: &Wait) -> Option<Self::Token>;

    /// Both paths, for a lock that is a part of what `wait` is for.
    #[inline]
    #[must_use = "the token is needed to unlock"]
    fn lock_with(&self, wait: &Wait) -> Option<Self::Token> {
        self.lock_fast().or_else(|| self.lock_slow(wait))
    }

    /// Acquires, or gives up when the deadline has passed. Tries at least once.
    #[inline]
    #[must_use = "the token is needed to unlock"]
    fn try_lock_until(&self, deadline: Deadline) -> Option<Self::Token> {
        self.lock_fast().or_else(|| lock_until(self, Some(deadline)))
    }

    /// Releases. May be called by another thread than the locker's.
    ///
    /// # Safety
    ///
    /// `token` came from an acquisition of this lock and has not been used for an unlock.
    unsafe fn unlock(&self, token: Self::Token);

    /// Whether somebody holds the lock or waits for it, at some instant during the call.
    fn is_locked(&self) -> bool;

    /// In a child after `fork`: drops all waiters, who do not exist here, and keeps the lock locked if
    /// it is. `holder` is the token of the holder if the lock is locked and the token is known. The thread that held the lock
    /// in the parent can release it here, if it is the thread that forked.
    ///
    /// # Safety
    ///
    /// No other thread exists, or none uses this lock.
    unsafe fn forget_waiters(&self, holder: Option<Self::Token>);

    /// Gives back the pool memory that the lock itself keeps, for locks that keep some; they then are as new. What a lock keeps that
    /// somebody has may be lost.
    ///
    /// # Safety
    ///
    /// Nobody uses the lock, or will, but for a holder that never releases it.
    #[inline]
    unsafe fn dispose(&self) {}
}

/// On cache lines of its own: what some threads write, apart from what others do.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Apart<T>(pub(crate) T);

/// What the waiters of a lock that stands for itself are known by.
#[inline(always)]
pub(crate) fn address<L: ?Sized>(lock: &L) -> usize {
    ptr::from_ref(lock).cast::<()>() as usize
}

/// The slow path of a lock that stands for itself.
#[cold]
pub(crate) fn lock_until<P: Platform, L: RawLock<P> + ?Sized>(
    lock: &L,
    deadline: Option<Deadline>,
) -> Option<L::Token> {
    Wait::run::<P, _>(address(lock), deadline, |wait| lock.lock_slow(wait))
}

/// As [`lock_until`], for as long as it takes. One call, so that the fast path before it needs no stack.
#[cold]
#[inline(never)]
fn lock_endlessly<P: Platform, L: RawLock<P> + ?Sized>(lock: &L) -> L::Token {
    endless(Wait::run::<P, _>(address(lock), None, |wait| lock.lock_slow(wait)))
}

/// Waits until `lock`, which no thread acquires any more, is released.
pub(crate) fn until_released<P: Platform, L: RawLock<P>>(lock: &L) {
    let mut patience = Patience::new::<P>();
    while lock.is_locked() {
        patience.pause::<P>();
    }
}

/// The word of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held(pub usize);

/// What a holder keeps. It can be stored as one word, which is 0 for "none".
///
/// # Safety
///
/// `from_word(into_word(t))` is `t` again. The word is an address, or smaller than addresses may be: less than 2^48.
pub unsafe trait Token: Copy {
    /// Whether there is anything to keep.
    const STORED: bool;
    /// The token as a non-zero word (any word where nothing is stored).
    fn into_word(self) -> usize;
    /// The token back from its word.
    ///
    /// # Safety
    ///
    /// `word` came from [`Token::into_word`] of the same type.
    unsafe fn from_word(word: usize) -> Self;
}

// SAFETY: there is only one `()`.
unsafe impl Token for () {
    const STORED: bool = false;
    #[inline(always)]
    fn into_word(self) -> usize {
        0
    }
    #[inline(always)]
    unsafe fn from_word(_word: usize) -> Self {}
}

// SAFETY: a pointer round-trips through its exposed address.
unsafe impl<T> Token for core::ptr::NonNull<T> {
    const STORED: bool = true;
    #[inline(always)]
    fn into_word(self) -> usize {
        self.as_ptr().expose_provenance()
    }
    #[inline(always)]
    unsafe fn from_word(word: usize) -> Self {
        let pointer = core::ptr::with_exposed_provenance_mut(word);
        // SAFETY: a word made from a `NonNull` is not zero.
        unsafe { core::ptr::NonNull::new_unchecked(pointer) }
    }
}

/// A reader-writer lock. All-zero memory is an unlocked lock.
///
/// There are no tokens: POSIX's unlock does not even say whether a reader or the writer leaves. A reader may leave on
/// another NUMA node than it came in on, and in another thread.
///
/// # Safety
///
/// Implementations exclude writers against everybody, and order critical sections as [`RawLock`] does.
pub unsafe trait RawRwLock<P: Platform>: Send + Sync {
    /// An unlocked lock.
    fn new() -> Self;

    /// Acquires for reading; `None` deadline waits as long as it takes. Tries at least once. Returns whether it was
    /// acquired.
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool;

    /// As [`RawRwLock::lock_shared`], by a thread that may be a reader of this lock already. If it is, it does not wait
    /// for a writer that waits for it. If it is not, all that it may do is to pass writers that it should have waited
    /// behind.
    #[inline]
    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        self.lock_shared(deadline)
    }

    /// Acquires for reading if that needs no waiting.
    fn try_lock_shared(&self) -> bool;

    /// Releases one reader.
    ///
    /// # Safety
    ///
    /// The caller is a reader of this lock.
    unsafe fn unlock_shared(&self);

    /// Acquires for writing; `None` deadline waits as long as it takes. Tries at least once. Returns whether it was
    /// acquired.
    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool;

    /// Acquires for writing if that needs no waiting. Succeeds on a quiescent unlocked lock; may fail while it is being
    /// released.
    fn try_lock_exclusive(&self) -> bool;

    /// Releases the writer.
    ///
    /// # Safety
    ///
    /// The caller is the writer of this lock.
    unsafe fn unlock_exclusive(&self);

    /// Makes the writer a reader, without letting another writer in between.
    ///
    /// # Safety
    ///
    /// The caller is the writer of this lock.
    unsafe fn downgrade(&self);

    /// Whether somebody holds the lock, at some instant during the call.
    fn is_locked(&self) -> bool;

    /// In a child after `fork`: drops all waiters, who do not exist here. Holders stay: the forking thread may be one, and
    /// readers have no names.
    ///
    /// # Safety
    ///
    /// No other thread exists, or none uses this lock.
    unsafe fn forget_waiters(&self);

    /// As [`RawLock::dispose`].
    ///
    /// # Safety
    ///
    /// Nobody begins to use the lock, or will release it.
    #[inline]
    unsafe fn dispose(&self) {}
}
