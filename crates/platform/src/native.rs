//! The real machine.

use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crate::cells::{AtomicCell, AtomicInt, DataCell, FutexCell, TimedOut};
use crate::clock::{Clock, Deadline};
use crate::tls::ThreadBlock;
use crate::{
    ConstPlatform, LastSeen, NODE_BYTES, Platform, PoolNode, arch, barrier, cpu_time, load, monitor, slab,
    slots, sys, topology,
};

/// Linux on the machine at hand.
#[derive(Clone, Copy, Debug)]
pub struct Native;

impl Native {
    /// The kernel's id of the calling thread (never 0), cached.
    #[inline(always)]
    #[must_use]
    pub fn tid() -> u32 {
        ThreadBlock::current().tid()
    }

    /// How many read locks the calling thread has, as told by [`Native::count_read_locks`].
    #[inline(always)]
    #[must_use]
    pub fn read_locks() -> u32 {
        ThreadBlock::current().read_locks.get()
    }

    /// Notes that the calling thread acquired (1) or released (−1) a read lock. A hint: a thread that releases what another
    /// acquired has none less than none.
    #[inline(always)]
    pub fn count_read_locks(difference: i32) {
        let count = &ThreadBlock::current().read_locks;
        count.set(count.get().saturating_add_signed(difference));
    }

    /// A null atomic pointer, for statics.
    #[must_use]
    pub const fn null<T>() -> AtomicPtr<T> {
        AtomicPtr::new(core::ptr::null_mut())
    }

    /// Makes spinning threads keep their CPU however long they spin, as the algorithms were published.
    pub fn set_strict_spin(strict: bool) {
        STRICT_SPIN.store(strict, Ordering::Relaxed);
    }

    /// Sets how long spin-then-park waiters spin before they sleep, in ns; about the round trip of a context switch is
    /// best. The default is 5,000. Values out of 100 to 1,000,000 are taken to the nearest end.
    pub fn set_spin_ns(ns: u64) {
        ROUND_TRIP_NS.store(ns.clamp(100, 1_000_000), Ordering::Relaxed);
        SPIN_BUDGET.store(0, Ordering::Relaxed);
    }

    /// Says that locks may be copied: see [`Platform::locks_are_copied`].
    pub fn set_locks_are_copied() {
        LOCKS_ARE_COPIED.store(true, Ordering::Relaxed);
    }

    /// Prepares what is better prepared before other code runs: the exit handler's key, which needs no memory when it is
    /// among the first of the process, and the kernel's barrier, which is registered quickly while there is one thread.
    pub fn prepare() {
        crate::tls::exit_key();
        barrier::prepare();
    }
}

/// A futex word of this process.
#[repr(transparent)]
#[derive(Debug)]
pub struct NativeFutex(AtomicU32);

impl AtomicCell<u32> for NativeFutex {
    #[inline(always)]
    fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }
    #[inline(always)]
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }
    #[inline(always)]
    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }
    #[inline(always)]
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.0.swap(value, order)
    }
    #[inline(always)]
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.0.compare_exchange(current, new, success, failure)
    }
}

impl AtomicInt<u32> for NativeFutex {
    #[inline(always)]
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_add(value, order)
    }
    #[inline(always)]
    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_sub(value, order)
    }
    #[inline(always)]
    fn fetch_or(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_or(value, order)
    }
    #[inline(always)]
    fn fetch_and(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_and(value, order)
    }
}

impl FutexCell for NativeFutex {
    fn wait(&self, expected: u32, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        match sys::futex_wait(self.0.as_ptr(), expected, deadline) {
            sys::ETIMEDOUT => Err(TimedOut),
            _ => Ok(()),
        }
    }

    unsafe fn wake(this: *const Self, n: u32) {
        sys::futex_wake(this.cast(), n);
    }
}

/// Plain data in an `UnsafeCell`.
#[repr(transparent)]
#[derive(Debug)]
pub struct NativeData<T>(UnsafeCell<T>);

// SAFETY: `get` and `set` are unsafe, and their contracts exclude data races.
unsafe impl<T: Send> Sync for NativeData<T> {}

impl<T: Copy + Send> DataCell<T> for NativeData<T> {
    #[inline(always)]
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
    #[inline(always)]
    unsafe fn get(&self) -> T {
        // SAFETY: no concurrent write, by the caller's contract.
        unsafe { *self.0.get() }
    }
    #[inline(always)]
    unsafe fn set(&self, value: T) {
        // SAFETY: no concurrent access, by the caller's contract.
        unsafe { *self.0.get() = value };
    }
}

impl ConstPlatform for Native {
    const U32_ZERO: AtomicU32 = AtomicU32::new(0);
    const USIZE_ZERO: AtomicUsize = AtomicUsize::new(0);
    const FUTEX_ZERO: NativeFutex = NativeFutex(AtomicU32::new(0));
}

/// Pauses that cost about a context-switch round trip; 0 = not measured yet.
static SPIN_BUDGET: AtomicU32 = AtomicU32::new(0);
/// What a context-switch round trip costs, in ns; as given, the value is that of servers of the last decade.
static ROUND_TRIP_NS: AtomicU64 = AtomicU64::new(5_000);

/// Whether locks may have been copied.
static LOCKS_ARE_COPIED: AtomicBool = AtomicBool::new(false);

/// Whether spinning threads never yield.
static STRICT_SPIN: AtomicBool = AtomicBool::new(false);

/// CPUs this process may use; 0 = not asked yet.
static PARALLELISM: AtomicUsize = AtomicUsize::new(0);

/// Readers of biased locks.
static VISIBLE: [AtomicUsize; 4096] = [const { AtomicUsize::new(0) }; 4096];

/// See [`Platform::shared_word`].
static SHARED_WORDS: [AtomicUsize; 4096] = [const { AtomicUsize::new(0) }; 4096];

/// Measures the pause instruction, which takes 4 to 140 cycles depending on the processor.
#[cold]
fn measure_spin_budget() -> u32 {
    const PAUSES: u32 = 64;
    let start = sys::now(Clock::Monotonic);
    for _ in 0..PAUSES {
        core::hint::spin_loop();
    }
    let spent = (sys::now(Clock::Monotonic) - start).max(1);
    let budget =
        (u64::from(PAUSES) * ROUND_TRIP_NS.load(Ordering::Relaxed) / spent).clamp(1, 1_000_000) as u32;
    SPIN_BUDGET.store(budget, Ordering::Relaxed);
    budget
}

// SAFETY: the cells are the hardware's atomics, the futex is Linux's, and the slab gives every node to one owner.
unsafe impl Platform for Native {
    type U32 = AtomicU32;
    type Usize = AtomicUsize;
    type Ptr<T: 'static> = AtomicPtr<T>;
    type Futex = NativeFutex;
    type Data<T: Copy + Send + 'static> = NativeData<T>;

    #[inline(always)]
    fn fence(order: Ordering) {
        fence(order);
    }

    #[inline(always)]
    fn light_barrier() {
        barrier::light();
    }

    fn heavy_barrier() {
        barrier::heavy();
    }

    #[inline(always)]
    fn pause() {
        core::hint::spin_loop();
    }

    #[inline]
    fn pause_n(n: u32) {
        for _ in 0..n {
            core::hint::spin_loop();
        }
    }

    #[inline(always)]
    fn prefetch_write<T>(address: *const T) {
        arch::prefetch_write(address.cast());
    }

    fn yield_now() {
        sys::sched_yield();
    }

    #[inline]
    fn spin_budget() -> u32 {
        match SPIN_BUDGET.load(Ordering::Relaxed) {
            0 => measure_spin_budget(),
            budget => budget,
        }
    }

    #[inline]
    fn strict_spin() -> bool {
        STRICT_SPIN.load(Ordering::Relaxed)
    }

    fn locks_are_copied() -> bool {
        LOCKS_ARE_COPIED.load(Ordering::Relaxed)
    }

    fn now(clock: Clock) -> u64 {
        sys::now(clock)
    }

    fn now_roughly() -> u64 {
        sys::now_roughly()
    }

    fn parallelism() -> usize {
        match PARALLELISM.load(Ordering::Relaxed) {
            0 => {
                let cpus = sys::allowed_cpus();
                PARALLELISM.store(cpus, Ordering::Relaxed);
                cpus
            }
            cpus => cpus,
        }
    }

    fn runnable() -> usize {
        load::runnable()
    }

    fn claim_surplus() -> bool {
        load::claim(Self::parallelism())
    }

    fn crowded(before: &mut u64) -> bool {
        load::crowded(before, Self::parallelism(), ROUND_TRIP_NS.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn scheduling_id() -> u32 {
        Self::tid()
    }

    #[inline]
    fn running(thread: u32) -> Option<bool> {
        monitor::running(thread)
    }

    fn tells_who_ran() -> bool {
        cpu_time::is_allowed() || monitor::answers()
    }

    fn has_run(thread: u32, last: &mut LastSeen) -> Option<bool> {
        cpu_time::has_run(thread, last).or_else(|| monitor::ask(thread))
    }

    fn want_watch() {
        // A watch costs every context switch of the machine, a look at a clock, or a question, little but to who asks.
        if !Self::tells_who_ran() {
            monitor::want();
        }
    }

    fn cpu() -> usize {
        topology::cpu()
    }

    #[inline]
    fn node() -> usize {
        let topology = topology::current();
        // Mostly there is nothing to look up.
        if topology.nodes() == 1 { 0 } else { topology.node_of(topology::cpu()) }
    }

    #[inline]
    fn nodes() -> usize {
        topology::current().nodes()
    }

    fn place(level: usize) -> Option<usize> {
        topology::current().place_of(topology::cpu(), level)
    }

    #[inline]
    fn set_waiting_on(address: usize) -> usize {
        slots::current().map_or(0, |slot| {
            // Two accesses: only the owner's own signal handlers come between, and they put back what they found.
            let before = slot.waiting_on.load(Ordering::Relaxed);
            slot.waiting_on.store(address, Ordering::Relaxed);
            before
        })
    }

    fn registration() -> usize {
        slots::current().map_or(0, |slot| ptr::from_ref(slot) as usize)
    }

    unsafe fn end_waiting_on(registration: usize, address: usize) {
        // SAFETY: null or a slot, which is mapped for ever.
        if let Some(slot) = unsafe { (registration as *const slots::Slot).as_ref() } {
            let _ = slot.waiting_on.compare_exchange(address, 0, Ordering::Release, Ordering::Relaxed);
        }
    }

    fn waiters_of(address: usize) -> usize {
        slots::waiters_of(address)
    }

    #[inline(always)]
    fn thread_id() -> u32 {
        slots::current().map_or(0, |slot| slot.index() as u32 + 1)
    }

    fn thread_word() -> u64 {
        ThreadBlock::current().word.get()
    }

    #[inline(always)]
    fn set_thread_word(word: u64) {
        ThreadBlock::current().word.set(word);
    }

    #[inline(always)]
    fn shared_word<R>(address: usize, number: u32, use_it: impl FnOnce(&AtomicUsize) -> R) -> R {
        // Neighbouring numbers come to lie some cache lines apart.
        use_it(&SHARED_WORDS[(address ^ (number as usize).wrapping_mul(127)) % SHARED_WORDS.len()])
    }

    const VISIBLE_READERS: usize = VISIBLE.len();

    #[inline]
    fn reader_slot(address: usize) -> usize {
        let mixed = (address >> 3) ^ (Self::thread_id() as usize).wrapping_mul(0x9E37_79B9);
        // The upper half: the lower bits of a product are those of its factors.
        (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % VISIBLE.len()
    }

    #[inline]
    fn visible_reader<R>(index: usize, use_it: impl FnOnce(&AtomicUsize) -> R) -> R {
        use_it(&VISIBLE[index])
    }

    #[inline]
    fn alloc_node<T: PoolNode<Self>>() -> NonNull<T> {
        const { assert!(align_of::<T>() <= NODE_BYTES) };
        let node = if size_of::<T>() <= NODE_BYTES { slab::take() } else { slab::take_block(size_of::<T>()) }
            .cast::<T>();
        // SAFETY: the slab handed us memory of sufficient size and alignment that nobody else uses.
        unsafe { node.write(T::new()) };
        node
    }

    #[inline]
    unsafe fn free_node<T: PoolNode<Self>>(node: NonNull<T>) {
        if size_of::<T>() <= NODE_BYTES {
            // SAFETY: the caller gives the node up, and nodes need no drop.
            unsafe { slab::give(node.cast()) };
        } else {
            // SAFETY: as above, and the size is the one it was taken with.
            unsafe { slab::give_block(node.cast(), size_of::<T>()) };
        }
    }
}
