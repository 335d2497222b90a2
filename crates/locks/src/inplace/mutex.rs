//! Functions that serve a foreign object as a mutex.

use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{Deadline, Native};

use super::{MutexPlace, Word};
use crate::api::{RawLock, Token};
use crate::biased::Biased;
use crate::registry::{Spec, Visitor, WrapperId};
use crate::restrict::gcr::{ByNode, Knobs, Passive, Restricted, State, Together};
use crate::state::Lazy;

/// What trying a held mutex returns: `EBUSY`.
pub const BUSY: c_int = 16;

/// An operation on an object, in C's calling convention: the address of its code can be called by an entry point.
///
/// The object is served by the lock that the operation belongs to (I1), and alive.
pub type Leaf<T> = unsafe extern "C" fn(*mut T) -> c_int;

/// The operations of one lock over objects of type `T`.
///
/// All of them demand that the object is served by this lock.
#[derive(Debug)]
pub struct Operations<T> {
    /// Acquires. Returns 0.
    pub lock: Leaf<T>,
    /// Acquires if that needs no waiting: 0, or [`BUSY`].
    pub trylock: Leaf<T>,
    /// Releases, if anybody has the lock. Returns 0.
    pub unlock: Leaf<T>,
    /// Acquires until a deadline; `false`: it passed.
    pub lock_until: unsafe fn(&T, Deadline) -> bool,
    /// Whether anybody has the lock.
    pub is_locked: unsafe fn(&T) -> bool,
    /// In a child after `fork`: drops all waiters. No other thread uses the lock.
    pub forget_waiters: unsafe fn(&T),
    /// Passes the knobs of a spec on to the lock.
    pub configure: unsafe fn(&T, &Knobs),
    /// Gives back what the lock has outside the object. Nobody uses the lock any more.
    pub dispose: unsafe fn(&T),
}

impl<T> Clone for Operations<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Operations<T> {}

/// The operations of the lock that a spec describes.
///
/// # Panics
///
/// If a bias is to go around a lock that leaves no room for it: the parser of specs refuses those.
#[must_use]
pub fn operations<T: MutexPlace>(spec: Spec) -> Operations<T> {
    spec.base.dispatch(Build(spec.wrapper.map(|wrapper| wrapper.id), PhantomData))
}

/// Builds the operations of a base lock, wrapped or not.
struct Build<T>(Option<WrapperId>, PhantomData<T>);

impl<T: MutexPlace> Visitor<Native> for Build<T> {
    type Output = Operations<T>;

    fn mutex<L: RawLock<Native> + 'static>(self, _: impl Fn() -> L) -> Operations<T> {
        const { assert!(fits::<T, L>(), "no room for a lock of the table") };
        match self.0 {
            None => operations_of::<T, Plain<L>>(),
            Some(WrapperId::Gcr) => operations_of::<T, Wrapped<T, L, Together>>(),
            Some(WrapperId::GcrNuma) => operations_of::<T, Wrapped<T, L, ByNode>>(),
            Some(WrapperId::Biased) => {
                assert!(fits::<T, Biased<Native, L>>(), "no room for the bias");
                operations_of::<T, Plain<Biased<Native, L>>>()
            }
            Some(WrapperId::Bravo) => unreachable!("a wrapper of reader-writer locks"),
        }
    }
}

/// A way to serve an object of type `T`. The caller of each function promises that the object is served so (I1), together
/// with what the same operation of [`RawLock`] asks for.
trait Serve<T> {
    type Token: Token;
    /// As [`RawLock::lock_at_once`].
    unsafe fn acquire_at_once(place: &T) -> Result<Self::Token, Option<Self::Token>>;
    /// As [`RawLock::finish_lock`].
    unsafe fn finish(place: &T, begun: Option<Self::Token>) -> Self::Token {
        let _ = (place, begun);
        unreachable!("it is acquired at once")
    }
    unsafe fn acquire_until(place: &T, deadline: Deadline) -> Option<Self::Token>;
    unsafe fn try_acquire(place: &T) -> Option<Self::Token>;
    unsafe fn release(place: &T, token: Self::Token);
    unsafe fn is_locked(place: &T) -> bool;
    unsafe fn forget_waiters(place: &T, holder: Option<Self::Token>);
    unsafe fn configure(place: &T, knobs: &Knobs);
    unsafe fn dispose(place: &T);
}

/// What is `offset` bytes behind the beginning of an object.
#[inline(always)]
fn part<T, U>(place: &T, offset: usize) -> *const U {
    ptr::from_ref(place).wrapping_byte_add(offset).cast::<U>()
}

/// Whether there is room for the lock `L`.
const fn fits<T: MutexPlace, L>() -> bool {
    size_of::<L>() <= T::LAYOUT.room && align_of::<L>() <= align_of::<usize>()
}

/// The lock `L` in an object.
#[inline(always)]
unsafe fn inner<T: MutexPlace, L: RawLock<Native>>(place: &T) -> &L {
    debug_assert!(fits::<T, L>());
    // SAFETY: `Build` has seen that it fits: the bytes are there and the lock's own (`MutexPlace`), of one type (I1); all-zero memory is an unlocked lock
    // (`RawLock`'s contract), and locks are made of atomic cells.
    unsafe { &*part::<T, L>(place, T::LAYOUT.lock) }
}

/// The word of the holder's token.
#[inline(always)]
fn token_word<T: MutexPlace>(place: &T) -> &Word {
    // SAFETY: a word inside the object (`MutexPlace`), which is accessed as an atomic one only.
    unsafe { &*part::<T, Word>(place, T::LAYOUT.token) }
}

/// A lock by itself.
struct Plain<L>(PhantomData<L>);

impl<T: MutexPlace, L: RawLock<Native>> Serve<T> for Plain<L> {
    type Token = L::Token;

    #[inline(always)]
    unsafe fn acquire_at_once(place: &T) -> Result<L::Token, Option<L::Token>> {
        // SAFETY: I1.
        unsafe { inner::<T, L>(place) }.lock_at_once()
    }

    unsafe fn finish(place: &T, begun: Option<L::Token>) -> L::Token {
        // SAFETY: I1.
        let lock = unsafe { inner::<T, L>(place) };
        // SAFETY: the caller's contract.
        unsafe { lock.finish_lock(begun) }
    }

    unsafe fn acquire_until(place: &T, deadline: Deadline) -> Option<L::Token> {
        // SAFETY: I1.
        unsafe { inner::<T, L>(place) }.try_lock_until(deadline)
    }

    #[inline(always)]
    unsafe fn try_acquire(place: &T) -> Option<L::Token> {
        // SAFETY: I1.
        unsafe { inner::<T, L>(place) }.try_lock()
    }

    #[inline(always)]
    unsafe fn release(place: &T, token: L::Token) {
        // SAFETY: I1.
        let lock = unsafe { inner::<T, L>(place) };
        // SAFETY: the caller's contract.
        unsafe { lock.unlock(token) };
    }

    unsafe fn is_locked(place: &T) -> bool {
        // SAFETY: I1.
        unsafe { inner::<T, L>(place) }.is_locked()
    }

    unsafe fn forget_waiters(place: &T, holder: Option<L::Token>) {
        // SAFETY: I1.
        let lock = unsafe { inner::<T, L>(place) };
        // SAFETY: the caller's contract.
        unsafe { lock.forget_waiters(holder) };
    }

    unsafe fn configure(place: &T, knobs: &Knobs) {
        // SAFETY: I1.
        unsafe { inner::<T, L>(place) }.configure(knobs);
    }

    unsafe fn dispose(place: &T) {
        // SAFETY: I1.
        let lock = unsafe { inner::<T, L>(place) };
        // SAFETY: the caller's contract.
        unsafe { lock.dispose() };
    }
}

/// A lock under GCR, laid over an object.
#[repr(transparent)]
struct Wrapped<T, L, S> {
    place: T,
    lock: PhantomData<(L, S)>,
}

impl<T: MutexPlace, L: RawLock<Native>, S> Wrapped<T, L, S> {
    /// Where the state is.
    const STATE: Option<usize> = T::LAYOUT.state_of(size_of::<L>(), <L::Token as Token>::STORED);

    #[inline(always)]
    unsafe fn over(place: &T) -> &Self {
        const { assert!(Self::STATE.is_some(), "no word left for the state of a restriction") };
        // SAFETY: transparent over the object, which this serves (I1).
        unsafe { &*ptr::from_ref(place).cast::<Self>() }
    }
}

impl<T: MutexPlace, L: RawLock<Native>, S: Passive<Native>> Restricted<Native> for Wrapped<T, L, S> {
    type Inner = L;
    type Passive = S;

    #[inline(always)]
    fn inner(&self) -> &L {
        // SAFETY: I1.
        unsafe { inner::<T, L>(&self.place) }
    }

    #[inline(always)]
    fn state(&self) -> &Lazy<Native, State<Native, Self>> {
        let offset = const {
            match Self::STATE {
                Some(offset) => offset,
                None => 0,
            }
        };
        // SAFETY: a word inside the object, which neither the lock nor a token uses: `over` has seen that there is one.
        unsafe { &*part(&self.place, offset) }
    }

    fn knobs(&self) -> &Knobs {
        self.place.knobs()
    }
}

impl<T: MutexPlace, L: RawLock<Native>, S: Passive<Native>> Serve<T> for Wrapped<T, L, S> {
    type Token = L::Token;

    #[inline(always)]
    unsafe fn acquire_at_once(place: &T) -> Result<L::Token, Option<L::Token>> {
        // SAFETY: I1.
        Ok(Restricted::acquire(unsafe { Self::over(place) }))
    }

    unsafe fn acquire_until(place: &T, deadline: Deadline) -> Option<L::Token> {
        // SAFETY: I1.
        Restricted::acquire_until(unsafe { Self::over(place) }, deadline)
    }

    #[inline(always)]
    unsafe fn try_acquire(place: &T) -> Option<L::Token> {
        // SAFETY: I1.
        Restricted::try_acquire(unsafe { Self::over(place) })
    }

    #[inline(always)]
    unsafe fn release(place: &T, token: L::Token) {
        // SAFETY: I1.
        let lock = unsafe { Self::over(place) };
        // SAFETY: the caller's contract.
        unsafe { Restricted::release(lock, token) };
    }

    unsafe fn is_locked(place: &T) -> bool {
        // SAFETY: I1.
        unsafe { Self::over(place) }.inner().is_locked()
    }

    unsafe fn forget_waiters(place: &T, holder: Option<L::Token>) {
        // SAFETY: I1.
        let lock = unsafe { Self::over(place) };
        // SAFETY: the caller's contract.
        unsafe { lock.forget(holder) };
    }

    unsafe fn configure(place: &T, knobs: &Knobs) {
        // SAFETY: I1.
        unsafe { Self::over(place) }.inner().configure(knobs);
    }

    unsafe fn dispose(place: &T) {
        // SAFETY: I1.
        let lock = unsafe { Self::over(place) };
        // SAFETY: the caller's contract.
        unsafe { Restricted::dispose(lock) };
    }
}

const fn operations_of<T: MutexPlace, S: Serve<T>>() -> Operations<T> {
    Operations {
        lock: lock::<T, S>,
        trylock: trylock::<T, S>,
        unlock: unlock::<T, S>,
        lock_until: lock_until::<T, S>,
        is_locked: S::is_locked,
        forget_waiters: forget_waiters::<T, S>,
        configure: S::configure,
        dispose: S::dispose,
    }
}

/// Keeps the holder's token in the object, if the lock wants it back.
#[inline(always)]
fn keep<T: MutexPlace, S: Serve<T>>(place: &T, token: S::Token) {
    if S::Token::STORED {
        // ORDER: Relaxed: the holder reads it, or a thread to which the holder gave the lock.
        token_word(place).store(token.into_word(), Relaxed);
    }
}

unsafe extern "C" fn lock<T: MutexPlace, S: Serve<T>>(place: *mut T) -> c_int {
    // SAFETY: `Leaf`: alive.
    let place = unsafe { &*place };
    // SAFETY: I1.
    match unsafe { S::acquire_at_once(place) } {
        Ok(token) => {
            keep::<T, S>(place, token);
            0
        }
        // SAFETY: as above.
        Err(begun) => unsafe { finish_lock::<T, S>(place, begun) },
    }
}

/// The rest of [`lock`], where that would call something: what goes on after a call is kept on a stack, and the call may be rare.
#[cold]
#[inline(never)]
unsafe fn finish_lock<T: MutexPlace, S: Serve<T>>(place: &T, begun: Option<S::Token>) -> c_int {
    // SAFETY: I1.
    let token = unsafe { S::finish(place, begun) };
    keep::<T, S>(place, token);
    0
}

unsafe extern "C" fn trylock<T: MutexPlace, S: Serve<T>>(place: *mut T) -> c_int {
    // SAFETY: `Leaf`: alive.
    let place = unsafe { &*place };
    // SAFETY: I1.
    match unsafe { S::try_acquire(place) } {
        Some(token) => {
            keep::<T, S>(place, token);
            0
        }
        None => BUSY,
    }
}

unsafe extern "C" fn unlock<T: MutexPlace, S: Serve<T>>(place: *mut T) -> c_int {
    // SAFETY: `Leaf`: alive.
    let place = unsafe { &*place };
    let mut word = 0;
    if S::Token::STORED {
        // ORDER: Relaxed, as in `keep`.
        word = token_word(place).load(Relaxed);
        if word == 0 {
            // Nobody has it: undefined by POSIX, harmless under glibc.
            return 0;
        }
        // Before the hand-off: the next holder stores its own (I2).
        token_word(place).store(0, Relaxed);
    }
    // SAFETY: the word came from `into_word` of the same token type.
    let token = unsafe { S::Token::from_word(word) };
    // SAFETY: the caller holds the lock.
    unsafe { S::release(place, token) };
    0
}

unsafe fn lock_until<T: MutexPlace, S: Serve<T>>(place: &T, deadline: Deadline) -> bool {
    // SAFETY: I1.
    match unsafe { S::acquire_until(place, deadline) } {
        Some(token) => {
            keep::<T, S>(place, token);
            true
        }
        None => false,
    }
}

unsafe fn forget_waiters<T: MutexPlace, S: Serve<T>>(place: &T) {
    let word = if S::Token::STORED { token_word(place).load(Relaxed) } else { 0 };
    let holder = if S::Token::STORED && word == 0 {
        None
    } else {
        // SAFETY: the word came from `into_word` of the same token type.
        Some(unsafe { S::Token::from_word(word) })
    };
    // SAFETY: the caller's contract.
    unsafe { S::forget_waiters(place, holder) };
}
