//! Where our state lives inside glibc's types.
//!
//! All-zero memory, which is what the static initialisers give, means unlocked and undecided. The fields that
//! say who serves a lock stay where glibc has them, so that locks initialised by either side are understood
//! by both.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering};

use lockwork_locks::cond::Cond;
use lockwork_locks::inplace::{MutexLayout, MutexPlace, RwPlace};
use lockwork_locks::restrict::gcr::Knobs;
use lockwork_locks::rw::Preference;
use lockwork_platform::{Native, sys};
use lockwork_policy::Kind;

use crate::life::start;
use crate::serve::mutex::table::{self, PASSTHROUGH_TAG};

/// `pthread_mutex_t`: 40 bytes on x86_64, 48 on aarch64.
#[repr(C)]
pub(crate) struct Mutex {
    /// The lock: 8 or 16 bytes. Where it is 8, the second word is the pointer to GCR's state.
    pub(crate) lock: [AtomicUsize; 2],
    /// glibc's kind, never moved; the entry points load it together with the tag.
    kind: AtomicU32,
    /// 0 = first use decides; else the index of the lock's table entry.
    tag: AtomicU16,
    /// Threads that wait on a condition with this mutex.
    pub(crate) waiters: AtomicU16,
    /// The holder's token, or GCR's state where the lock has no token and needs both words above.
    pub(crate) token: AtomicUsize,
    /// The owner's thread id, for recursive and error-checking mutexes.
    pub(crate) owner: AtomicU32,
    /// How often the owner of a recursive mutex has it.
    pub(crate) depth: AtomicU32,
}

const _: () = assert!(size_of::<Mutex>() == 40);

// SAFETY: the two words of the lock and that of the token, which glibc does not touch in a mutex that we serve.
unsafe impl MutexPlace for Mutex {
    const LAYOUT: MutexLayout = MutexLayout {
        lock: core::mem::offset_of!(Mutex, lock),
        room: size_of::<[AtomicUsize; 2]>(),
        token: core::mem::offset_of!(Mutex, token),
        state: None,
    };

    fn knobs(&self) -> &Knobs {
        table::knobs(self.tag())
    }
}

/// Type part of a mutex kind, with the bits below masked off.
pub(crate) const RECURSIVE: u32 = 1;
pub(crate) const ERRORCHECK: u32 = 2;
const ADAPTIVE: u32 = 3;
const TYPE_MASK: u32 = 3;
const ROBUST: u32 = 16;
const PRIO_INHERIT: u32 = 32;
const PRIO_PROTECT: u32 = 64;
const PSHARED: u32 = 128;
/// Elision hints, which mean nothing to us; an explicit `PTHREAD_MUTEX_NORMAL` carries the second.
const ELISION: u32 = 256 | 512;

/// What has to be done with a mutex, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MutexKind {
    /// No bookkeeping but the lock.
    Normal,
    /// Counts its owner's acquisitions.
    Recursive,
    /// Checks its owner.
    ErrorCheck,
    /// Robust, priority-aware, process-shared, destroyed or garbage: glibc's.
    Forwarded,
}

impl Mutex {
    /// The mutex at an address given by the program.
    ///
    /// # Safety
    ///
    /// `mutex` points to a `pthread_mutex_t` that stays alive during the call.
    #[inline(always)]
    pub(crate) unsafe fn at<'a>(mutex: *mut Mutex) -> &'a Mutex {
        // SAFETY: the caller's contract; every field is atomic.
        unsafe { &*mutex }
    }

    pub(crate) fn kind(&self) -> MutexKind {
        classify(self.kind.load(Ordering::Relaxed))
    }

    /// The tag, if the entry points jump through a column for it, and that does not decide who serves it.
    #[inline(always)]
    pub(crate) fn decided_leaf(&self) -> Option<u32> {
        let is_plain = self.kind.load(Ordering::Relaxed) == 0;
        (is_plain && (self.tag() != 0 || start::forwards_everything())).then(|| self.tag())
    }

    /// Whether its owner may acquire it again.
    #[inline(always)]
    pub(crate) fn may_recurse(&self) -> bool {
        self.kind.load(Ordering::Relaxed) & TYPE_MASK == RECURSIVE
    }

    /// Whether its owner's death frees it. Such a mutex is glibc's.
    #[inline(always)]
    pub(crate) fn is_robust(&self) -> bool {
        self.kind.load(Ordering::Relaxed) & ROBUST != 0
    }

    /// The thread that has a robust mutex, which glibc keeps in the first word, beside two flags.
    pub(crate) fn robust_owner(&self) -> Option<u32> {
        const THREAD: u32 = 0x3fff_ffff;
        // SAFETY: the first word of a mutex of glibc's, which only atomic operations change.
        let word = unsafe { &*core::ptr::from_ref(self).cast::<core::sync::atomic::AtomicU32>() };
        Some(word.load(Ordering::Relaxed) & THREAD).filter(|thread| *thread != 0)
    }

    /// What a policy calls a mutex of this kind.
    pub(crate) fn sort(&self) -> Kind {
        sort(self.kind.load(Ordering::Relaxed))
    }

    /// Whether glibc serves a mutex that has been used, by its kind or by a policy.
    pub(crate) fn is_glibcs(&self) -> bool {
        self.tag() == PASSTHROUGH_TAG || self.kind() == MutexKind::Forwarded
    }

    /// Whether glibc's kind says that only the owner may unlock.
    pub(crate) fn glibc_checks_owner(&self) -> bool {
        let kind = self.kind.load(Ordering::Relaxed);
        kind & (ROBUST | PRIO_INHERIT) != 0 || matches!(kind & TYPE_MASK, RECURSIVE | ERRORCHECK)
    }

    /// glibc's owner field of a forwarded mutex.
    pub(crate) fn glibc_owner(&self) -> u32 {
        let [_, _, owner, _] = self.glibcs_words();
        owner.load(Ordering::Relaxed)
    }

    /// Takes a mutex of glibc's without bookkeeping if nobody has it, as glibc does: its first word becomes 1, the third is the
    /// owner's id, and the fourth counts users. See [`is_marked_as_known`](Self::is_marked_as_known).
    #[inline(always)]
    pub(crate) fn take_as_glibc(&self, tid: u32) -> bool {
        let [lock, _, owner, users] = self.glibcs_words();
        if lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        owner.store(tid, Ordering::Relaxed);
        // Only the holder writes to it.
        users.store(users.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        true
    }

    /// Frees a mutex without bookkeeping that the calling thread has taken so, or by glibc's functions, and wakes one of those that
    /// sleep for it, as glibc does: they have made the first word 2.
    #[inline(always)]
    pub(crate) fn free_as_glibc(&self) {
        let [lock, _, owner, users] = self.glibcs_words();
        owner.store(0, Ordering::Relaxed);
        users.store(users.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
        let word = lock.as_ptr();
        // From here on the next owner may free the mutex: nothing but its address is used.
        if lock.swap(0, Ordering::Release) > 1 {
            Self::wake_as_glibc(word);
        }
    }

    #[cold]
    fn wake_as_glibc(word: *mut u32) {
        sys::futex_wake(word, 1);
    }

    /// glibc's `__lock`, `__count`, `__owner` and `__nusers`.
    #[inline(always)]
    fn glibcs_words(&self) -> &[AtomicU32; 4] {
        // SAFETY: the first 16 bytes are atomic words, and aligned for halves of them.
        unsafe { &*(&raw const self.lock).cast::<[AtomicU32; 4]>() }
    }

    /// Whether glibc's functions take and free a mutex without bookkeeping in the way of [`take_as_glibc`](Self::take_as_glibc)
    /// and [`free_as_glibc`](Self::free_as_glibc), and mark it as one that is waited for as those expect: `wait` is to wait for it in
    /// vain. They do not where they are told to elide locks, for which they change the kind. What is compared is the 40 bytes that
    /// glibc uses.
    pub(crate) fn is_marked_as_known(
        lock: impl FnOnce(*mut Self) -> c_int,
        wait: impl FnOnce(*mut Self) -> bool,
        unlock: impl FnOnce(*mut Self) -> c_int,
    ) -> bool {
        let probe = [const { AtomicUsize::new(0) }; size_of::<Self>() / size_of::<usize>()];
        let mutex = probe.as_ptr().cast_mut().cast::<Self>();
        // SAFETY: as large as a mutex, as aligned, and zero, which is a free one.
        let it = unsafe { Self::at(mutex) };
        let words = || it.glibcs_words().each_ref().map(|word| word.load(Ordering::Relaxed));
        let rest_is_zero = || probe[2..].iter().all(|word| word.load(Ordering::Relaxed) == 0);
        let is_taken = lock(mutex) == 0 && words() == [1, 0, sys::gettid(), 1] && rest_is_zero();
        let is_waited_for = is_taken && wait(mutex) && words() == [2, 0, sys::gettid(), 1] && rest_is_zero();
        is_waited_for && unlock(mutex) == 0 && words() == [0; 4] && rest_is_zero()
    }

    /// Counts the calling thread once more, or once less, among the users of a mutex of glibc's that it holds. glibc refuses
    /// to destroy a mutex that has users, and counts the waiters of its own conditions so.
    ///
    /// # Safety
    ///
    /// The calling thread holds this mutex, which glibc serves: the word changes under the mutex alone.
    pub(crate) unsafe fn count_glibc_user(&self, change: i32) {
        let [_, _, _, users] = self.glibcs_words();
        users.fetch_add(change.cast_unsigned(), Ordering::Relaxed);
    }

    /// Stores a kind that makes the fast path work: 0 for everything without bookkeeping.
    pub(crate) fn settle_kind(&self, kind: MutexKind) {
        let value = match kind {
            MutexKind::Normal => 0,
            MutexKind::Recursive => RECURSIVE,
            MutexKind::ErrorCheck => ERRORCHECK,
            MutexKind::Forwarded => return,
        };
        self.kind.store(value, Ordering::Relaxed);
    }

    /// Marks the mutex destroyed, as glibc does: any use gives EINVAL until it is initialised again.
    pub(crate) fn mark_destroyed(&self) {
        self.kind.store(u32::MAX, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn tag(&self) -> u32 {
        u32::from(self.tag.load(Ordering::Relaxed))
    }

    /// Decides who serves this mutex; returns the decision, which may be another thread's. The second
    /// value says whether this call made it.
    pub(crate) fn decide(&self, tag: u32) -> (u32, bool) {
        match self.tag.compare_exchange(0, tag as u16, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => (tag, true),
            Err(there) => (u32::from(there), false),
        }
    }

    /// After glibc initialised a mutex that a policy leaves to it: takes over what decides the path.
    pub(crate) fn settle_forwarded(&self, kind: MutexKind, tag: u32) {
        if kind == MutexKind::Normal {
            // glibc's adaptive mutex counts spins where our tag is; a normal one leaves the word alone.
            self.settle_kind(kind);
        }
        self.tag.store(tag as u16, Ordering::Relaxed);
    }

    /// Zeroes the whole mutex and gives it a kind and a tag.
    pub(crate) fn initialise(&self, kind: MutexKind, tag: u32) {
        self.lock[0].store(0, Ordering::Relaxed);
        self.lock[1].store(0, Ordering::Relaxed);
        self.token.store(0, Ordering::Relaxed);
        self.owner.store(0, Ordering::Relaxed);
        self.depth.store(0, Ordering::Relaxed);
        self.waiters.store(0, Ordering::Relaxed);
        self.settle_kind(kind);
        self.tag.store(tag as u16, Ordering::Relaxed);
    }
}

/// What a kind, or the same bits of a mutex attribute, asks for.
pub(crate) fn classify(kind: u32) -> MutexKind {
    match kind & !ELISION {
        0 | ADAPTIVE => MutexKind::Normal,
        RECURSIVE => MutexKind::Recursive,
        ERRORCHECK => MutexKind::ErrorCheck,
        _ => MutexKind::Forwarded,
    }
}

/// What a policy calls a mutex of this kind, or with the same bits in its attribute.
fn sort(kind: u32) -> Kind {
    match kind & TYPE_MASK {
        RECURSIVE => Kind::Recursive,
        ERRORCHECK => Kind::Errorcheck,
        ADAPTIVE => Kind::Adaptive,
        _ => Kind::Normal,
    }
}

/// What a policy calls a mutex with this attribute.
///
/// # Safety
///
/// As [`attribute_kind`].
pub(crate) unsafe fn attribute_sort(attributes: *const u32) -> Kind {
    // SAFETY: the caller's contract.
    unsafe { attributes.as_ref() }.map_or(Kind::Normal, |bits| sort(*bits))
}

/// `pthread_mutexattr_t`, as glibc packs it: type in the low bits, flags high.
///
/// # Safety
///
/// `attributes` is null or points to an initialised `pthread_mutexattr_t`.
pub(crate) unsafe fn attribute_kind(attributes: *const u32) -> MutexKind {
    const ATTR_FLAGS: u32 = 0xf000_0000;
    const ATTR_CEILING: u32 = 0x00ff_f000;
    if attributes.is_null() {
        return MutexKind::Normal;
    }
    // SAFETY: the caller's contract.
    let bits = unsafe { *attributes };
    // Flags: process-shared, robust, and the two bits of the protocol.
    if bits & (ATTR_FLAGS | ATTR_CEILING) != 0 { MutexKind::Forwarded } else { classify(bits) }
}

const _: u32 = PRIO_PROTECT | PSHARED;

/// `pthread_cond_t`: 48 bytes.
#[repr(C, align(8))]
pub(crate) struct CondVar {
    pub(crate) cond: Cond<Native>,
    /// One of them is glibc's `__wrefs`: see [`CondVar::flags`].
    behind: [AtomicU32; BEHIND_COND],
}

/// Words of a condition that are not ours in any.
const BEHIND_COND: usize = (48 - size_of::<Cond<Native>>()) / size_of::<AtomicU32>();

/// Which of them is `__wrefs`: from the start it is the word at byte 36, where glibc has it until 2.40. Later ones have it at 28.
static WREFS: AtomicUsize = AtomicUsize::new((36 - size_of::<Cond<Native>>()) / size_of::<AtomicU32>());

const _: () = assert!(size_of::<CondVar>() == 48);

pub(crate) const COND_SHARED: u32 = 1;
pub(crate) const COND_MONOTONIC: u32 = 2;
/// A policy leaves it to glibc, if its mutex is glibc's too; the first wait tells.
pub(crate) const COND_WANTS_GLIBC: u32 = 1 << 29;
/// Decided: ours.
pub(crate) const COND_OURS: u32 = 1 << 30;
/// Decided: glibc's, by a policy.
pub(crate) const COND_GLIBC: u32 = 1 << 31;

impl CondVar {
    /// # Safety
    ///
    /// As [`Mutex::at`].
    pub(crate) unsafe fn at<'a>(cond: *mut CondVar) -> &'a CondVar {
        // SAFETY: the caller's contract.
        unsafe { &*cond }
    }

    /// Finds out where this glibc has its flags, which its versions do not say: distributions change what they call the same.
    /// `init` is its `pthread_cond_init`.
    pub(crate) fn find_flags(init: impl FnOnce(*mut Self, *const u32) -> c_int) {
        let mut probe = Self { cond: Cond::new(), behind: [const { AtomicU32::new(0) }; BEHIND_COND] };
        let found = init(&raw mut probe, &COND_SHARED) == 0;
        let place = probe.behind.iter_mut().position(|word| *word.get_mut() == COND_SHARED);
        match place.filter(|_| found) {
            Some(place) => WREFS.store(place, Ordering::Relaxed),
            None => sys::refuse(format_args!(
                "this C library keeps its conditions in a way that is not known: run the program without Lockwork, and report it"
            )),
        }
    }

    /// glibc's `__wrefs`: bit 0 = process-shared, bit 1 = monotonic clock, bits from 3 = its waiters. The
    /// highest bits, which that many waiters never reach, say who serves the condition.
    pub(crate) fn flags(&self) -> &AtomicU32 {
        &self.behind[WREFS.load(Ordering::Relaxed)]
    }

    /// Whether glibc serves it, for its sharing or by a policy.
    pub(crate) fn is_glibcs(&self) -> bool {
        self.flags().load(Ordering::Relaxed) & (COND_SHARED | COND_GLIBC) != 0
    }
}

/// `pthread_rwlock_t`: 56 bytes.
#[repr(C, align(8))]
pub(crate) struct RwLock {
    /// The lock: of the type that `server` says.
    pub(crate) lock: [AtomicUsize; 3],
    /// The writer's thread id, where glibc has it too.
    pub(crate) writer: AtomicU32,
    /// glibc's `__shared`: not 0 = process-shared.
    pub(crate) shared: c_int,
    _middle: [u64; 2],
    /// glibc's `__flags`: the preference.
    pub(crate) kind: AtomicU32,
    /// What serves it: 0 = first use decides, [`RWLOCK_GLIBC`], or from [`RWLOCK_FUTEX`] on a tag of ours. glibc leaves this
    /// word alone.
    pub(crate) server: AtomicU32,
}

/// glibc serves it.
pub(crate) const RWLOCK_GLIBC: u32 = 1;
/// The futex lock serves it, with the preference that the program asked for; higher ones are other locks.
pub(crate) const RWLOCK_FUTEX: u32 = 2;

const _: () = assert!(size_of::<RwLock>() == 56);
const _: () = assert!(core::mem::offset_of!(RwLock, kind) == 48);

// SAFETY: glibc does not touch the words in front of the writer's in a lock that we serve.
unsafe impl RwPlace for RwLock {
    const LOCK: usize = core::mem::offset_of!(RwLock, lock);
    const ROOM: usize = core::mem::offset_of!(RwLock, writer);
}

/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
pub(crate) const PREFER_WRITERS: u32 = 2;

impl RwLock {
    /// # Safety
    ///
    /// As [`Mutex::at`].
    pub(crate) unsafe fn at<'a>(lock: *mut RwLock) -> &'a RwLock {
        // SAFETY: the caller's contract.
        unsafe { &*lock }
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared != 0
    }

    /// Decides who serves this lock; returns the decision, which may be another thread's. The second value
    /// says whether this call made it.
    pub(crate) fn decide(&self, server: u32) -> (u32, bool) {
        match self.server.compare_exchange(0, server, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => (server, true),
            Err(there) => (there, false),
        }
    }

    pub(crate) fn prefers_writers(&self) -> bool {
        self.kind.load(Ordering::Relaxed) == PREFER_WRITERS
    }

    /// What the futex lock is told of this lock.
    pub(crate) fn preference(&self) -> Preference {
        if self.prefers_writers() { Preference::Writers } else { Preference::Readers }
    }
}
