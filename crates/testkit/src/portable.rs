//! A platform of nothing but the standard library: its nodes are boxes and its futex a mutex and a
//! condition variable, so that Miri (and any sanitizer) sees every access and every lifetime.

use std::cell::{Cell, UnsafeCell};
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockwork_platform::bookmarks::Bookmark;
use lockwork_platform::{
    Bookmarks, Cells, Clock, Cpu, DataCell, Deadline, FutexCell, LoadControl, Placement, Pool, PoolNode,
    Sched, SharedWords, TimedOut, VisibleReaders, Waiters,
};

/// The standard library's machine.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

/// A thread's entry: what it sleeps on, and what it waits for.
#[derive(Default)]
struct Sleeper {
    /// Address of the futex it sleeps on; 0 = awake.
    asleep_on: AtomicUsize,
    /// See [`Waiters::set_waiting_on`](lockwork_platform::Waiters::set_waiting_on).
    waiting_on: AtomicUsize,
}

/// All threads that ever waited and still live. The lock makes compare-and-sleep atomic against wakes.
static SLEEPERS: Mutex<Vec<Arc<Sleeper>>> = Mutex::new(Vec::new());
/// Notified when somebody was woken.
static WOKEN: Condvar = Condvar::new();
/// The origin of both clocks.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// See [`SharedWords::shared_word`](lockwork_platform::SharedWords::shared_word).
static SHARED_WORDS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
/// All bookmarks. Those of threads that ended stay.
static BOOKMARKS: Mutex<Vec<Arc<Bookmark<Portable>>>> = Mutex::new(Vec::new());
/// Nodes in use.
static NODES: AtomicUsize = AtomicUsize::new(0);

fn sleepers() -> MutexGuard<'static, Vec<Arc<Sleeper>>> {
    SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a thread's entry when the thread ends.
struct Registration(Arc<Sleeper>);

impl Registration {
    fn new() -> Self {
        let entry = Arc::new(Sleeper::default());
        sleepers().push(Arc::clone(&entry));
        Self(entry)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        sleepers().retain(|entry| !Arc::ptr_eq(entry, &self.0));
    }
}

thread_local! {
    static ME: Registration = Registration::new();
    static THREAD_WORD: Cell<u64> = const { Cell::new(0) };
    static FIRST_BOOKMARK: AtomicU32 = const { AtomicU32::new(0) };
}

impl Portable {
    /// How many nodes are in use, in the whole process.
    #[must_use]
    pub fn nodes_in_use() -> usize {
        NODES.load(Ordering::Relaxed)
    }
}

/// A word on which threads can sleep.
#[repr(transparent)]
#[derive(Debug)]
pub struct PortableFutex(AtomicU32);

lockwork_platform::futex_of_word!(PortableFutex, AtomicU32);

impl FutexCell for PortableFutex {
    fn wait(&self, expected: u32, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        let address = std::ptr::from_ref(self) as usize;
        let me = ME.with(|me| Arc::clone(&me.0));
        let mut table = sleepers();
        if self.0.load(Ordering::Relaxed) != expected {
            return Ok(());
        }
        me.asleep_on.store(address, Ordering::Relaxed);
        while me.asleep_on.load(Ordering::Relaxed) != 0 {
            let left = deadline.map(|deadline| deadline.ns.saturating_sub(Portable::now(deadline.clock)));
            table = match left {
                None => WOKEN.wait(table).unwrap_or_else(PoisonError::into_inner),
                Some(0) => {
                    me.asleep_on.store(0, Ordering::Relaxed);
                    return Err(TimedOut);
                }
                Some(ns) => {
                    WOKEN
                        .wait_timeout(table, Duration::from_nanos(ns))
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        Ok(())
    }

    unsafe fn wake(this: *const Self, n: u32) {
        let table = sleepers();
        let asleep = table.iter().filter(|entry| entry.asleep_on.load(Ordering::Relaxed) == this as usize);
        for entry in asleep.take(n as usize) {
            entry.asleep_on.store(0, Ordering::Relaxed);
        }
        WOKEN.notify_all();
    }
}

/// Plain data in an `UnsafeCell`: Miri reports races.
#[derive(Debug)]
pub struct PortableData<T>(UnsafeCell<T>);

// SAFETY: `get` and `set` are unsafe, and their contracts exclude data races.
unsafe impl<T: Send> Sync for PortableData<T> {}

impl<T: Copy + Send> DataCell<T> for PortableData<T> {
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
    unsafe fn get(&self) -> T {
        // SAFETY: no concurrent write, by the caller's contract.
        unsafe { *self.0.get() }
    }
    unsafe fn set(&self, value: T) {
        // SAFETY: no concurrent access, by the caller's contract.
        unsafe { *self.0.get() = value };
    }
}

// SAFETY: the cells are the standard library's, and compare-and-sleep and wake hold the same mutex.
unsafe impl Cells for Portable {
    type U32 = AtomicU32;

    type Usize = AtomicUsize;
    type Ptr<T: 'static> = AtomicPtr<T>;

    type Futex = PortableFutex;
    type Data<T: Copy + Send + 'static> = PortableData<T>;

    fn fence(order: Ordering) {
        fence(order);
    }
}

impl SharedWords for Portable {
    fn shared_word<R>(_address: usize, number: u32, use_it: impl FnOnce(&AtomicUsize) -> R) -> R {
        use_it(&SHARED_WORDS[number as usize % SHARED_WORDS.len()])
    }
}

impl VisibleReaders for Portable {}

impl LoadControl for Portable {}

impl Cpu for Portable {
    fn pause() {
        // Miri runs one thread at a time.
        std::thread::yield_now();
    }

    fn pause_n(_n: u32) {
        std::thread::yield_now();
    }

    fn yield_now() {
        std::thread::yield_now();
    }

    fn spin_budget() -> u32 {
        2
    }

    fn now(_clock: Clock) -> u64 {
        ORIGIN.elapsed().as_nanos() as u64
    }
}

impl Placement for Portable {
    fn cpu() -> usize {
        0
    }

    fn domain() -> usize {
        Self::thread_id() as usize % Self::domains()
    }

    fn domains() -> usize {
        2
    }
}

impl Sched for Portable {
    fn parallelism() -> usize {
        2
    }

    fn thread_id() -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        thread_local!(static ID: u32 = NEXT.fetch_add(1, Ordering::Relaxed));
        ID.with(|id| *id)
    }

    fn thread_word() -> u64 {
        THREAD_WORD.get()
    }

    fn set_thread_word(word: u64) {
        THREAD_WORD.set(word);
    }
}

// SAFETY: boxes have one owner.
unsafe impl Pool for Portable {
    fn alloc_node<T: PoolNode<Self>>() -> NonNull<T> {
        NODES.fetch_add(1, Ordering::Relaxed);
        NonNull::from(Box::leak(Box::new(T::new())))
    }

    unsafe fn free_node<T: PoolNode<Self>>(node: NonNull<T>) {
        NODES.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: leaked from a box by `alloc_node`, and given up by the caller.
        drop(unsafe { Box::from_raw(node.as_ptr()) });
    }
}

impl Bookmarks for Portable {
    fn first_bookmark<R>(use_it: impl FnOnce(&AtomicU32) -> R) -> Option<R> {
        FIRST_BOOKMARK.try_with(use_it).ok()
    }

    fn bookmark<R>(number: NonZeroU32, use_it: impl FnOnce(&Bookmark<Self>) -> R) -> R {
        let all = BOOKMARKS.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = Arc::clone(&all[number.get() as usize - 1]);
        drop(all);
        use_it(&mark)
    }

    fn make_bookmark(next: u32) -> Option<NonZeroU32> {
        let mut all = BOOKMARKS.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::new(Bookmark::new(next)));
        NonZeroU32::new(all.len() as u32)
    }
}

impl Waiters for Portable {
    fn set_waiting_on(address: usize) -> usize {
        ME.with(|me| me.0.waiting_on.swap(address, Ordering::Relaxed))
    }

    fn waiters_of(address: usize) -> usize {
        sleepers().iter().filter(|entry| entry.waiting_on.load(Ordering::Relaxed) == address).count()
    }
}
