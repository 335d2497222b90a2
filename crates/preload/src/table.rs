//! From a lock's tag to the code that serves it.
//!
//! Every choice of lock that a process uses has one entry; a mutex carries the entry's index. The entry points load
//! the tag and jump through one array per operation to leaf functions compiled for one algorithm each.
//! Index 0 decides at first use; indices without an entry forward to glibc.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use lockwork_locks::RawLock;
use lockwork_locks::api::Token;
use lockwork_locks::biased::{self, Biased};
use lockwork_locks::catalogue::{Visitor, dispatch};
use lockwork_locks::knobs::BaseKnobs;
use lockwork_locks::restrict::gcr::{ByNode, Knobs, Passive, Restricted, Restriction, Together};
use lockwork_locks::spec::{Choice, LockSpec, Wrapper};
use lockwork_platform::{Deadline, Native};

use crate::layout::Mutex;
use crate::posix::mutex::{first_use_lock, first_use_trylock, first_use_unlock};
use crate::{counters, real, slices};

/// Number of tags. A tag is masked to this range, so that garbage does not become a wild jump.
pub(crate) const TAGS: usize = 64;

/// `EBUSY`.
const EBUSY: c_int = 16;

/// An operation on a decided mutex.
pub(crate) type Leaf = unsafe extern "C" fn(*mut Mutex) -> c_int;

/// The code of one choice.
#[derive(Clone, Copy)]
pub(crate) struct Ops {
    pub(crate) lock: Leaf,
    pub(crate) trylock: Leaf,
    pub(crate) unlock: Leaf,
    /// Acquires until a deadline; false = it passed.
    pub(crate) lock_until: unsafe fn(&Mutex, Deadline) -> bool,
    pub(crate) is_locked: unsafe fn(&Mutex) -> bool,
    pub(crate) forget_waiters: unsafe fn(&Mutex),
    /// Passes the knobs of a spec on to the lock.
    configure: unsafe fn(&Mutex, &BaseKnobs),
    /// Gives back what the lock holds outside the mutex.
    pub(crate) dispose: unsafe fn(&Mutex),
}

/// Leaf functions by tag, read by the entry points in assembly.
#[repr(transparent)]
pub(crate) struct Column([AtomicPtr<()>; TAGS]);

macro_rules! column {
    ($name:ident, $first:expr, $rest:expr) => {
        pub(crate) static $name: Column = {
            let mut cells = [const { AtomicPtr::new($rest as *const () as *mut ()) }; TAGS];
            cells[0] = AtomicPtr::new($first as *const () as *mut ());
            Column(cells)
        };
    };
}

column!(LOCK, first_use_lock, forward_lock);
column!(TRYLOCK, first_use_trylock, forward_trylock);
column!(UNLOCK, first_use_unlock, forward_unlock);

unsafe extern "C" fn forward_lock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    unsafe { real::pthread_mutex_lock(mutex) }
}

unsafe extern "C" fn forward_trylock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    unsafe { real::pthread_mutex_trylock(mutex) }
}

unsafe extern "C" fn forward_unlock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    unsafe { real::pthread_mutex_unlock(mutex) }
}

/// One entry; written before its tag is given to any mutex, then constant.
struct Entry {
    ops: Option<Ops>,
    choice: Choice,
}

struct Entries(UnsafeCell<[Entry; TAGS]>);
// SAFETY: an entry is written by `add`, which only initialisation calls, before its tag is published.
unsafe impl Sync for Entries {}

static ENTRIES: Entries =
    Entries(UnsafeCell::new([const { Entry { ops: None, choice: Choice::Passthrough } }; TAGS]));
/// Entries in use; entry 0 stands for "undecided".
static COUNT: AtomicU32 = AtomicU32::new(1);

/// The tag of mutexes that a policy leaves to glibc.
pub(crate) const PASSTHROUGH_TAG: u32 = TAGS as u32 - 1;

/// Makes undecided mutexes glibc's, without a decision.
pub(crate) fn forward_undecided() {
    LOCK.0[0].store(first_forward_lock as *const () as *mut (), Ordering::Relaxed);
    TRYLOCK.0[0].store(first_forward_trylock as *const () as *mut (), Ordering::Relaxed);
    UNLOCK.0[0].store(forward_unlock as *const () as *mut (), Ordering::Relaxed);
}

/// Takes itself out of the way of all later calls.
unsafe extern "C" fn first_forward_lock(mutex: *mut Mutex) -> c_int {
    counters::uncounted();
    LOCK.0[0].store(forward_lock as *const () as *mut (), Ordering::Relaxed);
    // SAFETY: the entry point's contract.
    unsafe { forward_lock(mutex) }
}

/// As [`first_forward_lock`].
unsafe extern "C" fn first_forward_trylock(mutex: *mut Mutex) -> c_int {
    counters::uncounted();
    TRYLOCK.0[0].store(forward_trylock as *const () as *mut (), Ordering::Relaxed);
    // SAFETY: the entry point's contract.
    unsafe { forward_trylock(mutex) }
}

/// Adds a choice, or finds the entry it already has. Only called by initialisation, which is
/// single-threaded by its own lock.
///
/// Returns the tag, or `None` if there are too many different choices.
pub(crate) fn add(choice: Choice) -> Option<u32> {
    let Choice::Lock(spec) = choice else { return Some(PASSTHROUGH_TAG) };
    let count = COUNT.load(Ordering::Relaxed);
    if let Some(tag) = (1..count).find(|&tag| self::choice(tag) == choice) {
        return Some(tag);
    }
    if count == PASSTHROUGH_TAG {
        return None;
    }
    let slot = count as usize;
    // SAFETY: no tag refers to this entry yet, and nobody else adds.
    let entry = unsafe { &mut (&mut *ENTRIES.0.get())[slot] };
    let ops = operations(spec);
    *entry = Entry { ops: Some(ops), choice };
    for (column, leaf) in [&LOCK, &TRYLOCK, &UNLOCK].into_iter().zip(slices::leaves(&ops)) {
        column.0[slot].store(leaf as *const () as *mut (), Ordering::Relaxed);
    }
    COUNT.store(count + 1, Ordering::Release);
    Some(count)
}

fn entry(tag: u32) -> &'static Entry {
    // SAFETY: written before its tag was published, constant since.
    let entries = unsafe { &*ENTRIES.0.get() };
    &entries[tag as usize % TAGS]
}

/// The code of a decided mutex; `None` if it is glibc's.
pub(crate) fn ops(tag: u32) -> Option<&'static Ops> {
    entry(tag).ops.as_ref()
}

/// What a tag stands for.
pub(crate) fn choice(tag: u32) -> Choice {
    entry(tag).choice
}

fn knobs(tag: u32) -> &'static Knobs {
    match &entry(tag).choice {
        Choice::Lock(LockSpec { wrapper: Some(Wrapper::Gcr(knobs) | Wrapper::GcrNuma(knobs)), .. }) => knobs,
        _ => &Knobs::NONE,
    }
}

/// Tells the lock of a mutex the knobs of its spec.
///
/// # Safety
///
/// The mutex got this tag just now, and is otherwise as new, unless other threads already use it.
pub(crate) unsafe fn configure(mutex: &Mutex, tag: u32) {
    let entry = entry(tag);
    if let (Some(ops), Choice::Lock(LockSpec { knobs, .. })) = (&entry.ops, &entry.choice)
        && *knobs != BaseKnobs::NONE
    {
        // SAFETY: the mutex has this entry's tag.
        unsafe { (ops.configure)(mutex, knobs) };
    }
}

/// Calls the leaf function of a decided mutex.
///
/// # Safety
///
/// As `pthread_mutex_lock`.
#[inline]
pub(crate) unsafe fn lock(mutex: *mut Mutex, tag: u32) -> c_int {
    // SAFETY: a column holds leaf functions only.
    unsafe { leaf(&LOCK, tag)(mutex) }
}

/// See [`lock`].
///
/// # Safety
///
/// As `pthread_mutex_trylock`.
#[inline]
pub(crate) unsafe fn trylock(mutex: *mut Mutex, tag: u32) -> c_int {
    // SAFETY: a column holds leaf functions only.
    unsafe { leaf(&TRYLOCK, tag)(mutex) }
}

/// See [`lock`].
///
/// # Safety
///
/// As `pthread_mutex_unlock`.
#[inline]
pub(crate) unsafe fn unlock(mutex: *mut Mutex, tag: u32) -> c_int {
    // SAFETY: a column holds leaf functions only.
    unsafe { leaf(&UNLOCK, tag)(mutex) }
}

#[inline]
fn leaf(column: &Column, tag: u32) -> Leaf {
    let address = column.0[tag as usize % TAGS].load(Ordering::Relaxed);
    // SAFETY: columns are filled with leaf functions at compile time and by `add`.
    unsafe { core::mem::transmute::<*mut (), Leaf>(address) }
}

/// A way to serve a mutex: a lock laid over its first words.
trait Serve {
    type Token: Token;
    unsafe fn acquire(mutex: &Mutex) -> Self::Token;
    unsafe fn acquire_until(mutex: &Mutex, deadline: Deadline) -> Option<Self::Token>;
    unsafe fn try_acquire(mutex: &Mutex) -> Option<Self::Token>;
    unsafe fn release(mutex: &Mutex, token: Self::Token);
    unsafe fn is_locked(mutex: &Mutex) -> bool;
    unsafe fn forget_waiters(mutex: &Mutex, holder: Option<Self::Token>);
    unsafe fn configure(mutex: &Mutex, knobs: &BaseKnobs);
    unsafe fn dispose(mutex: &Mutex);
}

/// The lock `L` in the first one or two words of a mutex.
unsafe fn inner<L: RawLock<Native>>(mutex: &Mutex) -> &L {
    debug_assert!(size_of::<L>() <= 16 && align_of::<L>() <= 8);
    // SAFETY: all-zero memory is an unlocked lock (RawLock's contract), locks are made of atomic cells, and a mutex
    // keeps its tag, hence its type, until it is destroyed.
    unsafe { &*(&raw const mutex.lock).cast::<L>() }
}

/// A lock by itself.
struct Plain<L>(L);

impl<L: RawLock<Native>> Serve for Plain<L> {
    type Token = L::Token;
    #[inline(always)]
    unsafe fn acquire(mutex: &Mutex) -> L::Token {
        // SAFETY: the mutex is served by `L`.
        unsafe { inner::<L>(mutex) }.lock()
    }
    unsafe fn acquire_until(mutex: &Mutex, deadline: Deadline) -> Option<L::Token> {
        // SAFETY: the mutex is served by `L`.
        unsafe { inner::<L>(mutex) }.try_lock_until(deadline)
    }
    #[inline(always)]
    unsafe fn try_acquire(mutex: &Mutex) -> Option<L::Token> {
        // SAFETY: the mutex is served by `L`.
        unsafe { inner::<L>(mutex) }.try_lock()
    }
    #[inline(always)]
    unsafe fn release(mutex: &Mutex, token: L::Token) {
        // SAFETY: the mutex is served by `L`.
        let lock = unsafe { inner::<L>(mutex) };
        // SAFETY: the caller's contract.
        unsafe { lock.unlock(token) };
    }
    unsafe fn is_locked(mutex: &Mutex) -> bool {
        // SAFETY: the mutex is served by `L`.
        unsafe { inner::<L>(mutex) }.is_locked()
    }
    unsafe fn forget_waiters(mutex: &Mutex, holder: Option<L::Token>) {
        // SAFETY: the mutex is served by `L`.
        let lock = unsafe { inner::<L>(mutex) };
        // SAFETY: the caller's contract.
        unsafe { lock.forget_waiters(holder) };
    }
    unsafe fn configure(mutex: &Mutex, knobs: &BaseKnobs) {
        // SAFETY: the mutex is served by `L`.
        unsafe { inner::<L>(mutex) }.configure(knobs);
    }
    unsafe fn dispose(mutex: &Mutex) {
        // SAFETY: the mutex is served by `L`.
        let lock = unsafe { inner::<L>(mutex) };
        // SAFETY: the caller's contract.
        unsafe { lock.dispose() };
    }
}

/// A lock under GCR, laid over a mutex: the state's pointer takes the word that the lock leaves free.
#[repr(transparent)]
struct Wrapped<L, S> {
    mutex: Mutex,
    lock: PhantomData<(L, S)>,
}

impl<L: RawLock<Native>, S> Wrapped<L, S> {
    #[inline(always)]
    unsafe fn over(mutex: &Mutex) -> &Self {
        const { assert!(size_of::<L>() <= 8 || !<L::Token as Token>::STORED, "no word left for GCR's state") };
        // SAFETY: transparent over a mutex; the caller says that the mutex is served by this.
        unsafe { &*ptr::from_ref(mutex).cast::<Self>() }
    }
}

impl<L: RawLock<Native>, S: Passive<Native>> Restricted<Native> for Wrapped<L, S> {
    type Inner = L;
    type Passive = S;
    #[inline(always)]
    fn inner(&self) -> &L {
        // SAFETY: the mutex is served by this.
        unsafe { inner::<L>(&self.mutex) }
    }
    #[inline(always)]
    fn state(&self) -> &AtomicPtr<Restriction<Native, S>> {
        let word = if size_of::<L>() <= 8 { &self.mutex.lock[1] } else { &self.mutex.token };
        // SAFETY: an atomic word seen as an atomic pointer; nothing else uses it.
        unsafe { &*ptr::from_ref(word).cast() }
    }
    fn knobs(&self) -> &Knobs {
        knobs(self.mutex.tag())
    }
}

impl<L: RawLock<Native>, S: Passive<Native>> Serve for Wrapped<L, S> {
    type Token = L::Token;
    #[inline(always)]
    unsafe fn acquire(mutex: &Mutex) -> L::Token {
        // SAFETY: the caller's contract.
        Restricted::acquire(unsafe { Self::over(mutex) })
    }
    unsafe fn acquire_until(mutex: &Mutex, deadline: Deadline) -> Option<L::Token> {
        // SAFETY: the caller's contract.
        Restricted::acquire_until(unsafe { Self::over(mutex) }, deadline)
    }
    #[inline(always)]
    unsafe fn try_acquire(mutex: &Mutex) -> Option<L::Token> {
        // SAFETY: the caller's contract.
        Restricted::try_acquire(unsafe { Self::over(mutex) })
    }
    #[inline(always)]
    unsafe fn release(mutex: &Mutex, token: L::Token) {
        // SAFETY: the caller's contract.
        let lock = unsafe { Self::over(mutex) };
        // SAFETY: as above.
        unsafe { Restricted::release(lock, token) };
    }
    unsafe fn is_locked(mutex: &Mutex) -> bool {
        // SAFETY: the caller's contract.
        unsafe { Self::over(mutex) }.inner().is_locked()
    }
    unsafe fn forget_waiters(mutex: &Mutex, holder: Option<L::Token>) {
        // SAFETY: the caller's contract.
        let lock = unsafe { Self::over(mutex) };
        // SAFETY: as above.
        unsafe { lock.forget(holder) };
    }
    unsafe fn configure(mutex: &Mutex, knobs: &BaseKnobs) {
        // SAFETY: the caller's contract.
        unsafe { Self::over(mutex) }.inner().configure(knobs);
    }
    unsafe fn dispose(mutex: &Mutex) {
        // SAFETY: the caller's contract.
        let lock = unsafe { Self::over(mutex) };
        // SAFETY: as above.
        unsafe { Restricted::dispose(lock) };
    }
}

#[inline(always)]
fn keep<S: Serve>(mutex: &Mutex, token: S::Token) {
    if S::Token::STORED {
        mutex.token.store(token.into_word(), Ordering::Relaxed);
    }
}

unsafe extern "C" fn lock_leaf<S: Serve>(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    let mutex = unsafe { Mutex::at(mutex) };
    // SAFETY: the mutex has this choice's tag.
    let token = unsafe { S::acquire(mutex) };
    keep::<S>(mutex, token);
    0
}

unsafe extern "C" fn trylock_leaf<S: Serve>(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    let mutex = unsafe { Mutex::at(mutex) };
    // SAFETY: the mutex has this choice's tag.
    match unsafe { S::try_acquire(mutex) } {
        Some(token) => {
            keep::<S>(mutex, token);
            0
        }
        None => EBUSY,
    }
}

unsafe extern "C" fn unlock_leaf<S: Serve>(mutex: *mut Mutex) -> c_int {
    // SAFETY: the entry point's contract.
    let mutex = unsafe { Mutex::at(mutex) };
    let mut word = 0;
    if S::Token::STORED {
        word = mutex.token.load(Ordering::Relaxed);
        if word == 0 {
            // Nobody holds it: undefined by POSIX, harmless under glibc.
            return 0;
        }
        // Before the hand-off: the next holder stores its own.
        mutex.token.store(0, Ordering::Relaxed);
    }
    // SAFETY: the word came from `into_word` of the same token type.
    let token = unsafe { S::Token::from_word(word) };
    // SAFETY: the caller holds the mutex.
    unsafe { S::release(mutex, token) };
    0
}

unsafe fn lock_until_leaf<S: Serve>(mutex: &Mutex, deadline: Deadline) -> bool {
    // SAFETY: the mutex has this choice's tag.
    match unsafe { S::acquire_until(mutex, deadline) } {
        Some(token) => {
            keep::<S>(mutex, token);
            true
        }
        None => false,
    }
}

unsafe fn forget_waiters_leaf<S: Serve>(mutex: &Mutex) {
    let word = if S::Token::STORED { mutex.token.load(Ordering::Relaxed) } else { 0 };
    let holder = if S::Token::STORED && word == 0 {
        None
    } else {
        // SAFETY: as in `unlock_leaf`.
        Some(unsafe { S::Token::from_word(word) })
    };
    // SAFETY: the caller's contract.
    unsafe { S::forget_waiters(mutex, holder) };
}

const fn operations_of<S: Serve>() -> Ops {
    Ops {
        lock: lock_leaf::<S>,
        trylock: trylock_leaf::<S>,
        unlock: unlock_leaf::<S>,
        lock_until: lock_until_leaf::<S>,
        is_locked: S::is_locked,
        forget_waiters: forget_waiters_leaf::<S>,
        configure: S::configure,
        dispose: S::dispose,
    }
}

/// Builds the operations for a base lock, wrapped or not.
struct Build(Option<Wrapper>);

impl Visitor<Native> for Build {
    type Output = Ops;
    fn visit<L: RawLock<Native> + 'static>(self) -> Ops {
        const { assert!(size_of::<L>() <= 16 && align_of::<L>() <= 8) };
        match self.0 {
            None => operations_of::<Plain<L>>(),
            Some(Wrapper::Gcr(_)) => operations_of::<Wrapped<L, Together>>(),
            Some(Wrapper::GcrNuma(_)) => operations_of::<Wrapped<L, ByNode>>(),
            Some(Wrapper::Biased) => {
                // The parser of specs refuses larger ones.
                assert!(size_of::<L>() <= biased::LARGEST_INNER, "no room for the bias");
                operations_of::<Plain<Biased<Native, L>>>()
            }
        }
    }
}

fn operations(spec: LockSpec) -> Ops {
    dispatch(spec.base, Build(spec.wrapper))
}
