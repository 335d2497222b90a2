//! A platform that claims to have NUMA nodes and counts what locks take of the pool; the rest is the machine at hand.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{self, Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};
use std::thread;

use lockwork_platform::nodes::taken_by;
use lockwork_platform::{
    Bookmarks, Cells, Clock, Cpu, Deadline, FutexCell, LoadControl, NODE_BYTES, Native, NativeData,
    NativeFutex, Placement, Pool, PoolNode, Sched, SharedWords, TimedOut, VisibleReaders, Waiters,
};

/// Bytes of the pool that locks have.
pub(super) static LIVE: AtomicUsize = AtomicUsize::new(0);
/// NUMA nodes of the machine.
pub(super) static NODES: AtomicUsize = AtomicUsize::new(1);
/// Threads that have waited since their last [`come`].
pub(super) static WAITING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NODE: Cell<usize> = const { Cell::new(0) };
    static COMES: Cell<bool> = const { Cell::new(false) };
}

/// Puts the calling thread on a node.
pub(super) fn run_on(node: usize) {
    NODE.set(node);
}

/// Notes that the calling thread is about to lock, and has not waited yet.
pub(super) fn come() {
    COMES.set(true);
}

/// Notes that the calling thread waits.
fn wait() {
    if COMES.replace(false) {
        WAITING.fetch_add(1, SeqCst);
    }
}

fn layout<T>() -> Layout {
    let layout = Layout::from_size_align(taken_by(size_of::<T>()), NODE_BYTES);
    layout.expect("a small multiple of a power of two")
}

/// The platform.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe;

// SAFETY: as `Native`.
unsafe impl Cells for Probe {
    type U32 = AtomicU32;

    type Usize = AtomicUsize;
    type Ptr<T: 'static> = AtomicPtr<T>;

    type Futex = ProbeFutex;
    type Data<T: Copy + Send + 'static> = NativeData<T>;

    fn fence(order: Ordering) {
        Native::fence(order);
    }
}

impl SharedWords for Probe {
    fn shared_word<R>(address: usize, number: u32, f: impl FnOnce(&AtomicUsize) -> R) -> R {
        Native::shared_word(address, number, f)
    }
}

impl VisibleReaders for Probe {}

impl LoadControl for Probe {}

impl Cpu for Probe {
    fn pause() {
        // Other threads may need the CPU to come and wait.
        Self::yield_now();
    }

    fn pause_n(_: u32) {
        Self::yield_now();
    }

    fn yield_now() {
        wait();
        thread::yield_now();
    }

    fn spin_budget() -> u32 {
        0 // A thread that has come to wait is in line at once.
    }

    fn now(clock: Clock) -> u64 {
        Native::now(clock)
    }
}

impl Placement for Probe {
    fn cpu() -> usize {
        Native::cpu()
    }

    fn domain() -> usize {
        NODE.get()
    }

    fn domains() -> usize {
        NODES.load(Relaxed)
    }
}

impl Sched for Probe {
    fn parallelism() -> usize {
        Native::parallelism()
    }

    fn thread_word() -> u64 {
        Native::thread_word()
    }

    fn set_thread_word(word: u64) {
        Native::set_thread_word(word);
    }

    fn thread_id() -> u32 {
        Native::thread_id()
    }
}

// SAFETY: the allocator gives memory to one owner at a time.
unsafe impl Pool for Probe {
    fn alloc_node<T: PoolNode<Self>>() -> NonNull<T> {
        let layout = layout::<T>();
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc(layout) };
        let Some(node) = NonNull::new(memory.cast::<T>()) else { handle_alloc_error(layout) };
        // SAFETY: large and aligned enough, and not in use.
        unsafe { node.write(T::new()) };
        node
    }

    unsafe fn free_node<T: PoolNode<Self>>(node: NonNull<T>) {
        let layout = layout::<T>();
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: allocated with this layout by `alloc_node`. A late wake does not access the memory.
        unsafe { dealloc(node.as_ptr().cast(), layout) };
    }
}

impl Bookmarks for Probe {}

impl Waiters for Probe {
    fn set_waiting_on(address: usize) -> usize {
        Native::set_waiting_on(address)
    }

    fn registration() -> usize {
        Native::registration()
    }

    unsafe fn end_waiting_on(registration: usize, address: usize) {
        // SAFETY: the caller's contract.
        unsafe { Native::end_waiting_on(registration, address) };
    }

    fn waiters_of(address: usize) -> usize {
        Native::waiters_of(address)
    }
}

/// A futex that counts threads about to sleep on it.
#[derive(Debug)]
pub(super) struct ProbeFutex(NativeFutex);

lockwork_platform::futex_of_word!(ProbeFutex, NativeFutex);

impl FutexCell for ProbeFutex {
    fn wait(&self, expected: u32, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        wait();
        self.0.wait(expected, deadline)
    }

    unsafe fn wake(this: *const Self, n: u32) {
        // SAFETY: the caller's contract; only the address matters.
        unsafe { NativeFutex::wake(this.cast(), n) };
    }
}
