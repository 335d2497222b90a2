//! What every thread carries: a few words of zero-initialised thread-local storage, and the way out
//! of them when the thread ends.

use core::cell::Cell;
use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::nodes::{self, FreeNode};
use crate::slice::Slice;
use crate::waiters::{self, Slot};
use crate::{arch, monitor, observe, sys};

/// One thread's words, those that locks use in one cache line. Only its own thread touches them, hence plain cells.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct ThreadBlock {
    /// The thread's registry slot; null until it first waits.
    pub(crate) slot: Cell<*const Slot>,
    /// The free node that is used first, if there is one; [`nodes::CLOSED`] until the exit handler is registered, and after it ran.
    pub(crate) spare: Cell<*mut FreeNode>,
    /// More free nodes of this thread, linked.
    pub(crate) nodes: Cell<*mut FreeNode>,
    /// How many more of these the thread may keep; 0 until its exit handler is registered, and after it ran.
    pub(crate) room: Cell<u32>,
    /// The kernel's thread id; 0 until asked for.
    tid: Cell<u32>,
    /// Where the thread is in its life.
    phase: Cell<u8>,
    /// Counts the calls of `VisibleReaders::now_and_then`, modulo 256.
    pub(crate) calls: Cell<u8>,
    /// How many forks the thread is in: a signal handler may fork while its thread does.
    pub(crate) forks: Cell<u16>,
    /// See `Native::read_locks`.
    pub(crate) read_locks: Cell<u32>,
    /// See `Sched::thread_word`.
    pub(crate) word: Cell<u64>,
    /// What the thread has asked for with the locks it holds.
    pub(crate) slice: Slice,
    /// See `observe::place`.
    pub(crate) observer: Cell<*const ()>,
}

const _: () = assert!(size_of::<ThreadBlock>() == 128 && offset_of!(ThreadBlock, observer) == 64);

/// The thread has not registered its exit handler yet (the zero that TLS starts with).
const FRESH: u8 = 0;
/// The exit handler will run.
const REGISTERED: u8 = 1;
/// The exit handler ran, or cannot be had: keep nothing in the thread any more.
const DETACHED: u8 = 2;

impl ThreadBlock {
    /// The calling thread's block.
    #[inline(always)]
    pub(crate) fn current<'a>() -> &'a ThreadBlock {
        // SAFETY: the block lives as long as the thread, zero is a valid state, and the reference stays in this thread
        // (the type is not `Sync`).
        unsafe { &*arch::thread_block() }
    }

    /// Whether the thread may keep nodes and a slot: it has an exit handler that gives them back.
    pub(crate) fn may_keep(&self) -> bool {
        match self.phase.get() {
            REGISTERED => true,
            FRESH => self.register(),
            _ => false,
        }
    }

    #[cold]
    fn register(&self) -> bool {
        // The registration may allocate, and the allocator take a lock of ours: it does without keeping nodes.
        self.phase.set(DETACHED);
        let kept = exit_key().is_some_and(|key| {
            // SAFETY: the key exists; any non-null value makes its destructor run.
            unsafe { pthread_setspecific(key, ptr::from_ref(self).cast()) == 0 }
        });
        self.phase.set(if kept { REGISTERED } else { DETACHED });
        self.room.set(if kept { nodes::KEEP } else { 0 });
        // A thread with a spare node is one whose id is known.
        self.tid();
        self.spare.set(if kept { nodes::OPEN } else { nodes::CLOSED });
        kept
    }

    /// The kernel's id of this thread, never 0.
    #[inline(always)]
    pub(crate) fn tid(&self) -> u32 {
        match self.tid.get() {
            0 => self.ask_tid(),
            tid => tid,
        }
    }

    /// As [`ThreadBlock::tid`], of a thread that has a spare node.
    #[inline(always)]
    pub(crate) fn known_tid(&self) -> u32 {
        debug_assert_ne!(self.tid.get(), 0);
        self.tid.get()
    }

    #[cold]
    #[inline(never)]
    fn ask_tid(&self) -> u32 {
        let tid = sys::gettid();
        self.tid.set(tid);
        tid
    }

    /// Forgets what does not survive `fork`, and asks who the thread is now.
    pub(crate) fn after_fork(&self) {
        self.ask_tid();
        self.slice.after_fork();
        monitor::after_fork();
    }
}

unsafe extern "C" {
    fn pthread_key_create(key: *mut u32, destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> i32;
    fn pthread_setspecific(key: u32, value: *const c_void) -> i32;
}

/// `key + 1` of the exit handler, or one of the two states below.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);
const NO_KEY: u32 = u32::MAX;

/// Creates the key of the exit handler. Called early by a preloaded library, so that the key
/// is among the first 32, whose values need no allocation.
pub(crate) fn exit_key() -> Option<u32> {
    match EXIT_KEY.load(Ordering::Relaxed) {
        0 => create_exit_key(),
        NO_KEY => None,
        key => Some(key - 1),
    }
}

#[cold]
fn create_exit_key() -> Option<u32> {
    let mut key = 0;
    // SAFETY: a writable key and a destructor of the right type.
    let made = unsafe { pthread_key_create(&raw mut key, Some(thread_exit)) == 0 };
    let value = if made { key + 1 } else { NO_KEY };
    // Two threads may race here: the loser's key stays unused, and either destructor does the same.
    let winner = match EXIT_KEY.compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => value,
        Err(there) => there,
    };
    (winner != NO_KEY).then(|| winner - 1)
}

/// Gives back what the thread kept. Destructors of other keys may still take locks afterwards: the
/// thread is then detached and goes to the global pool for every node.
unsafe extern "C" fn thread_exit(_block: *mut c_void) {
    let block = ThreadBlock::current();
    block.phase.set(DETACHED);
    observe::thread_ends();
    nodes::give_back_all(block);
    waiters::release(block);
}
