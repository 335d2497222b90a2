//! What a lock algorithm needs of the machine, and nothing else.
//!
//! Every algorithm of `lockwork-locks` is written once, against the trait [`Platform`]. [`Native`] is
//! the real machine (Linux on x86_64 or aarch64, `no_std`); model checkers and simulators are further
//! implementations of the same trait, so that what is checked is what runs.
//!
//! Dependencies point one way: platform ← locks ← everything else.
#![no_std]

mod arch;
pub mod barrier;
mod cells;
mod clock;
pub mod cpu_time;
mod load;
pub mod monitor;
mod native;
pub mod slab;
pub mod slice;
pub mod slots;
pub mod sys;
mod tls;
pub mod topology;

pub use cells::{AtomicCell, AtomicInt, DataCell, FutexCell, TimedOut};
pub use clock::{Clock, Deadline};
pub use native::{Native, NativeData, NativeFutex};
pub use slab::NODE_BYTES;

use core::fmt::Debug;
use core::mem;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

/// A cell's initial value can be built in a `const` context, so that a lock can be a `static`.
///
/// Only native platforms have this: the cells of model checkers register themselves at run time.
pub trait ConstPlatform: Platform {
    /// A `U32` holding zero.
    const U32_ZERO: Self::U32;
    /// A `Usize` holding zero.
    const USIZE_ZERO: Self::Usize;
    /// A `Futex` holding zero.
    const FUTEX_ZERO: Self::Futex;
}

/// The machine as a lock sees it.
///
/// # Safety
///
/// Algorithms rely on the atomics following the C++20 memory model, on [`FutexCell`]'s compare-and-block
/// being atomic against wakes, and on [`Platform::alloc_node`] handing out memory nobody else uses.
pub unsafe trait Platform: Sized + Debug + Send + Sync + 'static {
    /// 32-bit atomic integer.
    type U32: AtomicInt<u32>;
    /// Pointer-sized atomic integer.
    type Usize: AtomicInt<usize>;
    /// Atomic pointer.
    type Ptr<T: 'static>: AtomicCell<*mut T>;
    /// 32-bit atomic integer on which threads can sleep.
    type Futex: FutexCell;
    /// Plain data whose accesses a lock orders.
    type Data<T: Copy + Send + 'static>: DataCell<T>;

    /// A memory fence.
    fn fence(order: Ordering);

    /// The frequent side of a store-load race whose rare side calls [`Platform::heavy_barrier`]: between a store and
    /// a load of the calling thread. One of the two threads sees the other's store.
    #[inline(always)]
    #[track_caller]
    fn light_barrier() {
        Self::fence(Ordering::SeqCst);
    }

    /// The rare side: a full barrier in every thread of the process. May cost microseconds.
    #[inline(always)]
    #[track_caller]
    fn heavy_barrier() {
        Self::fence(Ordering::SeqCst);
    }

    /// Tells the core that this thread polls. If nothing that the caller loaded since its last pause
    /// has changed, another iteration of its loop does the same as the last one (a simulator sleeps on
    /// this promise, a model checker switches threads on it).
    fn pause();

    /// As [`Platform::pause`], by a caller that would go round its loop at most `most` times more, this time included, if
    /// nothing changed. Returns how many times it may take itself to have gone round (a simulator skips those that
    /// are all the same).
    #[inline(always)]
    fn pause_within(most: u32) -> u32 {
        let _ = most;
        Self::pause();
        1
    }

    /// At most `n` pauses in a row, for back-off. Unlike [`Platform::pause`] it promises nothing
    /// about the caller's next iteration.
    fn pause_n(n: u32);

    /// Asks for the cache line at `address`, to write to it soon. A hint: any address will do.
    #[inline(always)]
    fn prefetch_write<T>(address: *const T) {
        let _ = address;
    }

    /// Gives the rest of the time slice to another runnable thread.
    fn yield_now();

    /// How many [`Platform::pause`]s cost about as much as a context-switch round trip: the spinning
    /// part of spin-then-park.
    fn spin_budget() -> u32;

    /// Whether spinning threads keep their CPU however long they spin. If not, they yield it now and then after a while.
    fn strict_spin() -> bool {
        false
    }

    /// Whether a lock may have been copied, bit by bit, while both copies stay in use: a program may do that to its
    /// mutexes. Otherwise a lock that is found at another address has been moved.
    fn locks_are_copied() -> bool {
        false
    }

    /// The time on `clock`, in nanoseconds since its origin.
    fn now(clock: Clock) -> u64;

    /// The time on the monotonic clock some milliseconds ago, at most: when the kernel last had reason to note it. Cheaper
    /// than [`Platform::now`].
    #[inline]
    fn now_roughly() -> u64 {
        Self::now(Clock::Monotonic)
    }

    /// How many threads can run at once, at least 1: the CPUs this process is allowed to use.
    fn parallelism() -> usize;

    /// How many threads can run right now, the caller included, on those CPUs and on all others: the load of the system. A
    /// figure that may be some milliseconds old; 0 where it is not known.
    fn runnable() -> usize {
        1
    }

    /// Whether more threads can run than there are CPUs for. If so, the caller is about to sleep because of that, and
    /// the figure of [`Platform::runnable`] is one less: no more threads are told so than are too many.
    fn claim_surplus() -> bool {
        Self::runnable() > Self::parallelism()
    }

    /// Whether there are signs that the threads outnumber the CPUs, so that one who spins may take the CPU of the one it
    /// waits for. `before` is what the caller keeps from one look to the next of the same wait, 0 at first: a wait that was
    /// interrupted for long is such a sign.
    fn crowded(before: &mut u64) -> bool {
        let _ = before;
        Self::runnable() > Self::parallelism()
    }

    /// What the calling thread is known by in [`Platform::running`]; not 0.
    fn scheduling_id() -> u32 {
        Self::thread_id()
    }

    /// Whether the thread with this [`Platform::scheduling_id`] is on a CPU, or `None` where nobody watches the
    /// scheduler, or not that thread. A hint: it was so a moment ago.
    fn running(thread: u32) -> Option<bool> {
        let _ = thread;
        None
    }

    /// Whether [`Platform::has_run`] can tell anything.
    fn tells_who_ran() -> bool {
        false
    }

    /// Whether a thread with this [`Platform::scheduling_id`] has been on a CPU since the caller last looked, or, when
    /// it is the first look at that thread, or more is not known, is. `None` where that cannot be told. Takes a microsecond
    /// or two.
    fn has_run(thread: u32, last: &mut LastSeen) -> Option<bool> {
        let _ = (thread, last);
        None
    }

    /// The caller is about to sleep for another thread: where the scheduler is watched on demand, and nothing else tells who
    /// runs, here is some.
    fn want_watch() {}

    /// A number from 1 that no other living thread has; 0 where the thread has none, as when it is ending.
    fn thread_id() -> u32;

    /// A word of thread-local scratch space, initially 0: GCR paces its scans with it.
    fn thread_word() -> u64;

    /// Sets the word of [`Platform::thread_word`].
    fn set_thread_word(word: u64);

    /// The CPU this thread runs on (virtual under a virtual topology).
    fn cpu() -> usize;

    /// The NUMA node this thread runs on (virtual under a virtual topology).
    fn node() -> usize;

    /// The number of NUMA nodes, at least 1.
    fn nodes() -> usize;

    /// Where this thread runs in the machine's hierarchy, from the top: at level 0 its NUMA node, at level 1 which of
    /// the node's groups of cores with a last-level cache of their own. A level at which there is only one is left out;
    /// `None` below the lowest.
    fn place(level: usize) -> Option<usize> {
        (level == 0 && Self::nodes() > 1).then(Self::node)
    }

    /// Says that this thread is about to wait for the lock at `address`, or (0) that it no longer
    /// waits, and returns what it said before. Read by [`Platform::waiters_of`] and by the purge after `fork`. Written on
    /// contended paths only. There is one place for it: a lock made of locks registers for the whole, and its parts put
    /// back what they found.
    fn set_waiting_on(address: usize) -> usize;

    /// What the calling thread's registration as a waiter is known by, for [`Platform::end_waiting_on`]; 0 = none.
    fn registration() -> usize {
        0
    }

    /// Ends the registration of another thread, if it is still for `address`.
    ///
    /// # Safety
    ///
    /// `registration` is 0 or was made by a live thread.
    unsafe fn end_waiting_on(registration: usize, address: usize) {
        let _ = (registration, address);
    }

    /// An estimate of how many threads wait for the lock at `address`, this one included.
    fn waiters_of(address: usize) -> usize;

    /// Uses one of the words that all locks of the process share: the one that belongs to the lock at `address` and to
    /// `number`. Different ones may get the same word.
    fn shared_word<R>(address: usize, number: u32, use_it: impl FnOnce(&Self::Usize) -> R) -> R;

    /// Slots of the table in which readers of biased locks are visible; 0 = there is none, and such locks do without.
    const VISIBLE_READERS: usize = 0;

    /// Which of them the calling thread uses for the lock at `address`. Different ones may be given the same.
    fn reader_slot(address: usize) -> usize {
        let _ = address;
        0
    }

    /// Uses a slot of the table.
    ///
    /// # Panics
    ///
    /// If there is no such slot.
    fn visible_reader<R>(index: usize, use_it: impl FnOnce(&Self::Usize) -> R) -> R {
        let _ = use_it;
        panic!("no slot {index}")
    }

    /// Takes a node from the pool, initialised by [`PoolNode::new`]. Nodes of at most [`NODE_BYTES`] come from
    /// a list of the thread, larger ones (lock state) from a shared list.
    fn alloc_node<T: PoolNode<Self>>() -> NonNull<T>;

    /// Returns a node to the pool of the calling thread, which need not be the one that took it.
    ///
    /// # Safety
    ///
    /// `node` came from [`Platform::alloc_node`] with the same `T`, and no thread accesses it any more except by a
    /// spurious [`FutexCell::wake`].
    unsafe fn free_node<T: PoolNode<Self>>(node: NonNull<T>);
}

/// What a waiter keeps from one [`Platform::has_run`] to the next; at first the default.
#[derive(Debug, Default)]
pub struct LastSeen {
    /// Which thread was looked at; 0 = none yet.
    thread: u32,
    /// Its CPU time, in ns.
    ns: u64,
}

impl LastSeen {
    /// Notes that `thread` is looked at. Whether it is the first look at that one.
    pub fn turn_to(&mut self, thread: u32) -> bool {
        mem::replace(&mut self.thread, thread) != thread
    }
}

/// A queue node that lives in the platform's pool: never on a stack and never in thread-local
/// storage, because a thread may exit while it holds a lock, and another may release it.
pub trait PoolNode<P: Platform>: Sized + Send + Sync + 'static {
    /// A node in its initial state.
    fn new() -> Self;
}
