//! The simulated machine as a [`Platform`]: what a lock sees of it.

use std::alloc::Layout;
use std::cell::Cell;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use lockwork_platform::{
    AtomicCell, AtomicInt, Bookmarks, Cells, Clock, Cpu, DataCell, Deadline, FutexCell, LastSeen,
    LoadControl, Placement, Pool, PoolNode, Sched, SharedWords, TimedOut, VisibleReaders, Waiters,
};

use crate::engine::cpu::{Source, Width};
use crate::engine::{Engine, catch_up, suspend, until, with};

/// Words that the locks of a process share: those of [`SharedWords::shared_word`](lockwork_platform::SharedWords::shared_word), and behind them the slots of visible
/// readers.
pub(crate) const SHARED_WORDS: usize = COMMON_WORDS + VISIBLE_READERS;
const COMMON_WORDS: usize = 4096;
/// As many as natively.
const VISIBLE_READERS: usize = 4096;

/// The simulated machine.
#[derive(Debug, Clone, Copy)]
pub struct Sim;

/// A value that fits a cell.
pub trait Bits: Copy + PartialEq + 'static {
    #[doc(hidden)]
    fn into_bits(self) -> u64;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
}

impl Bits for u32 {
    #[inline]
    fn into_bits(self) -> u64 {
        self.into()
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits as Self
    }
}

impl Bits for usize {
    #[inline]
    fn into_bits(self) -> u64 {
        self as u64
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits as Self
    }
}

impl<T: 'static> Bits for *mut T {
    #[inline]
    fn into_bits(self) -> u64 {
        self.expose_provenance() as u64
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        ptr::with_exposed_provenance_mut(bits as usize)
    }
}

/// An atomic word of a simulated machine. Laid out as the native one, so that lines are shared as they are natively.
#[repr(transparent)]
pub struct Word<T: Copy>(Cell<T>);

impl<T: Copy> fmt::Debug for Word<T> {
    /// Without the value, which only code of the run may look at.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Word").finish_non_exhaustive()
    }
}

// SAFETY: the value is used by code of the run alone whose memory it is in: every access looks whether it is. All
// threads of a run are coroutines of one host thread, and no access is interrupted by another.
unsafe impl<T: Copy> Sync for Word<T> {}
// SAFETY: as above.
unsafe impl<T: Copy> Send for Word<T> {}

impl<T: Bits> Word<T> {
    const WIDTH: Width = if size_of::<T>() == 4 { Width::Four } else { Width::Eight };

    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// Changes the value as one operation. Returns what was there.
    #[inline]
    fn modify(&self, order: Ordering, change: impl Fn(T) -> T) -> T {
        until(|engine| {
            engine.own(self.address(), releases(order))?;
            Some(self.0.replace(change(self.0.get())))
        })
    }
}

impl<T: Bits> AtomicCell<T> for Word<T> {
    fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    #[inline]
    fn load(&self, _order: Ordering) -> T {
        until(|engine| {
            Some(match engine.load(self.address())? {
                Source::Memory => self.0.get(),
                Source::Buffer(bits) => T::from_bits(bits),
            })
        })
    }

    #[inline]
    fn store(&self, value: T, order: Ordering) {
        if order == Ordering::SeqCst {
            // As compilers do it on x86.
            self.modify(order, |_| value);
            return;
        }
        until(|engine| {
            if engine.store(self.address(), (value.into_bits(), Self::WIDTH), releases(order))? {
                self.0.set(value);
            }
            Some(())
        });
    }

    #[inline]
    fn swap(&self, value: T, order: Ordering) -> T {
        self.modify(order, |_| value)
    }

    #[inline]
    fn compare_exchange(&self, current: T, new: T, success: Ordering, _failure: Ordering) -> Result<T, T> {
        let seen = self.modify(success, |seen| if seen == current { new } else { seen });
        if seen == current { Ok(seen) } else { Err(seen) }
    }
}

/// Whether an operation of this order comes after all earlier stores.
fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

macro_rules! integer {
    ($value:ty) => {
        impl AtomicInt<$value> for Word<$value> {
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.modify(order, |seen| seen.wrapping_add(value))
            }
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.modify(order, |seen| seen.wrapping_sub(value))
            }
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.modify(order, |seen| seen | value)
            }
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.modify(order, |seen| seen & value)
            }
        }
    };
}

integer!(u32);
integer!(usize);

/// In and out of the kernel; what the thread does there is done in the order of times.
fn enter_kernel() {
    until(Engine::enter_kernel);
    catch_up();
}

impl FutexCell for Word<u32> {
    fn wait(&self, expected: u32, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        enter_kernel();
        // No thread runs between the look and the sleep.
        let sleeps = until(|engine| {
            engine.load(self.address())?;
            let sleeps = self.0.get() == expected;
            if sleeps {
                let deadline = deadline.map(|deadline| engine.machine.cycles(deadline.ns));
                engine.park(self.address(), deadline);
            }
            Some(sleeps)
        });
        if !sleeps {
            return Ok(());
        }
        suspend();
        if with(|engine| engine.me().timed_out) { Err(TimedOut) } else { Ok(()) }
    }

    unsafe fn wake(this: *const Self, n: u32) {
        enter_kernel();
        with(|engine| engine.wake(this as usize, n));
    }
}

/// Plain data of a simulated machine. It costs what its line costs; the value itself changes at once, which nobody can
/// tell where a lock orders the accesses.
#[repr(transparent)]
pub struct Plain<T: Copy>(Cell<T>);

impl<T: Copy> fmt::Debug for Plain<T> {
    /// As a [`Word`]'s.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").finish_non_exhaustive()
    }
}

// SAFETY: as for `Word`.
unsafe impl<T: Copy + Send> Sync for Plain<T> {}

impl<T: Copy> Plain<T> {
    /// The value, from outside the run.
    pub(crate) fn peek(&self) -> T {
        self.0.get()
    }

    /// Changes the value, from outside the run.
    #[cfg(test)]
    pub(crate) fn put(&self, value: T) {
        self.0.set(value);
    }
}

impl<T: Copy + Send> DataCell<T> for Plain<T> {
    fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    #[inline]
    unsafe fn get(&self) -> T {
        until(|engine| engine.load(ptr::from_ref(self) as usize));
        self.0.get()
    }

    #[inline]
    unsafe fn set(&self, value: T) {
        until(|engine| engine.store(ptr::from_ref(self) as usize, (0, Width::Line), false));
        self.0.set(value);
    }
}

/// One of the [`SHARED_WORDS`] of the calling thread's process.
fn shared<'a>(index: usize) -> &'a Word<usize> {
    debug_assert!(index < SHARED_WORDS, "word {index} of {SHARED_WORDS}");
    // SAFETY: inside the array, by the callers' remainders and the check of `visible_reader`.
    let word = unsafe { with(Engine::shared).cast::<Word<usize>>().add(index) };
    // SAFETY: simulated memory, zeroed, which is a word; used inside the run only.
    unsafe { word.as_ref() }
}

/// The word in a thread's slot of the registry of waiters.
fn slot<'a>(address: usize) -> &'a Word<usize> {
    // SAFETY: `Engine::spawn` made it: simulated memory, zeroed, which is a word; used inside the run only.
    unsafe { &*ptr::with_exposed_provenance(address) }
}

// SAFETY: atomics are sequentially consistent but for the store buffer, which keeps the order of releases; the look and
// the sleep of a futex are not interrupted.
unsafe impl Cells for Sim {
    type U32 = Word<u32>;

    type Usize = Word<usize>;
    type Ptr<T: 'static> = Word<*mut T>;

    type Futex = Word<u32>;
    type Data<T: Copy + Send + 'static> = Plain<T>;

    fn fence(order: Ordering) {
        match order {
            Ordering::SeqCst => until(Engine::fence),
            order if releases(order) => with(Engine::release_fence),
            _ => {}
        }
    }

    fn light_barrier() {}

    fn heavy_barrier() {
        /// Of the interrupt that makes the other CPUs' stores visible.
        const NS: u64 = 2_000;
        until(Engine::fence);
        let stores = with(|engine| {
            let cycles = engine.machine.cycles(NS);
            engine.delay(cycles);
            engine.stores_begun()
        });
        until(|engine| engine.all_visible(&stores));
    }
}

impl SharedWords for Sim {
    fn shared_word<R>(address: usize, number: u32, use_it: impl FnOnce(&Self::Usize) -> R) -> R {
        let offset = with(|engine| engine.memory.offset_of(address)) as u64;
        let mixed = (offset ^ u64::from(number) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        use_it(shared((mixed >> 40) as usize % COMMON_WORDS))
    }
}

impl VisibleReaders for Sim {
    const VISIBLE_READERS: usize = VISIBLE_READERS;

    fn reader_slot(address: usize) -> usize {
        // As natively, but for where the run's memory happens to be.
        let offset = with(|engine| engine.memory.offset_of(address));
        let mixed = (offset >> 3) ^ (Self::thread_id() as usize).wrapping_mul(0x9E37_79B9);
        (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % VISIBLE_READERS
    }

    fn now_and_then() -> bool {
        /// As natively.
        const CALLS: u32 = 64;
        with(|engine| {
            let calls = &mut engine.me().calls;
            *calls = calls.wrapping_add(1);
            *calls % CALLS == 1
        })
    }

    fn visible_reader<R>(index: usize, use_it: impl FnOnce(&Self::Usize) -> R) -> R {
        assert!(index < VISIBLE_READERS, "no slot {index}");
        use_it(shared(COMMON_WORDS + index))
    }
}

impl LoadControl for Sim {}

impl Cpu for Sim {
    #[inline]
    fn pause() {
        Self::pause_within(u32::MAX);
    }

    #[inline]
    fn pause_within(most: u32) -> u32 {
        if !with(|engine| engine.pause(most)) {
            return 1;
        }
        suspend();
        with(Engine::rounds)
    }

    fn pause_n(n: u32) {
        with(|engine| {
            let cycles = engine.machine.core.pause * u64::from(n);
            engine.counts.spun += cycles;
            engine.delay(cycles);
        });
    }

    fn prefetch_write<T>(address: *const T) {
        until(|engine| engine.prefetch(address as usize));
    }

    fn look_ahead<T>(addresses: impl Iterator<Item = *const T>) {
        let most = with(|engine| engine.machine.core.loads);
        if most > 1 {
            addresses.take(most).for_each(|address| until(|engine| engine.look_ahead(address as usize)));
        }
    }

    fn yield_now() {
        enter_kernel();
        if with(Engine::offer_cpu) {
            suspend();
        }
    }

    fn spin_budget() -> u32 {
        with(|engine| {
            let pauses = engine.machine.os.round_trip() / engine.machine.core.pause;
            u32::try_from(pauses).unwrap_or(u32::MAX).max(1)
        })
    }

    fn round_trip_ns() -> u64 {
        with(|engine| engine.machine.ns(engine.machine.os.round_trip()))
    }

    fn strict_spin() -> bool {
        with(|engine| engine.strict_spin)
    }

    fn now(clock: Clock) -> u64 {
        let _ = clock;
        with(|engine| {
            /// Reading the clock, in cycles.
            const COST: u64 = 60;
            engine.delay(COST);
            let cycles = engine.me().clock;
            engine.machine.ns(cycles)
        })
    }
}

impl Placement for Sim {
    fn cpu() -> usize {
        with(|engine| usize::from(engine.me().cpu))
    }

    fn domain() -> usize {
        with(|engine| {
            let cpu = usize::from(engine.me().cpu);
            engine.machine.domain_of(engine.machine.core_of(cpu))
        })
    }

    fn domains() -> usize {
        with(|engine| engine.machine.domains())
    }

    fn place(level: usize) -> Option<usize> {
        with(|engine| {
            let cpu = usize::from(engine.me().cpu);
            let machine = &engine.machine;
            let core = machine.core_of(cpu);
            let node = (machine.nodes > 1).then(|| machine.node_of(core));
            let llc = (machine.llcs_per_node > 1).then(|| machine.llc_of(core) % machine.llcs_per_node);
            [node, llc].into_iter().flatten().nth(level)
        })
    }
}

impl Sched for Sim {
    fn parallelism() -> usize {
        with(|engine| engine.machine.cpus())
    }

    fn runnable() -> usize {
        catch_up();
        with(|engine| {
            // The figure changes without a line's doing so.
            engine.me().round.idle = false;
            engine.runnable()
        })
    }

    fn tells_who_ran() -> bool {
        true
    }

    /// For the price of reading its CPU clock, and of another time at first, whether the thread has a CPU.
    fn has_run(thread: u32, last: &mut LastSeen) -> Option<bool> {
        let id = thread.checked_sub(1)?;
        if last.turn_to(thread) {
            enter_kernel();
        }
        enter_kernel();
        with(|engine| {
            // As in `runnable`.
            engine.me().round.idle = false;
            engine.has_cpu(id)
        })
    }

    fn thread_id() -> u32 {
        with(|engine| engine.my_id() + 1)
    }

    fn thread_word() -> u64 {
        with(|engine| engine.me().word)
    }

    fn set_thread_word(word: u64) {
        with(|engine| engine.me().word = word);
    }
}

// SAFETY: the pool gives every node to one owner.
unsafe impl Pool for Sim {
    fn alloc_node<T: PoolNode<Self>>() -> NonNull<T> {
        let node = with(|engine| engine.take_block(Layout::new::<T>())).cast::<T>();
        // The thread's last stores to a node that it has freed must not come after the initial values.
        let start = node.as_ptr() as usize;
        until(|engine| engine.settled(start..start + size_of::<T>()));
        // Natively the initial values are stores, too.
        until(|engine| engine.store(start, (0, Width::Line), false));
        // SAFETY: a block of this layout that nobody else has.
        unsafe { node.write(T::new()) };
        node
    }

    unsafe fn free_node<T: PoolNode<Self>>(node: NonNull<T>) {
        with(|engine| engine.free_block(node.cast(), Layout::new::<T>()));
    }
}

/// Simulated workloads have no deadlines.
impl Bookmarks for Sim {}

impl Waiters for Sim {
    fn set_waiting_on(address: usize) -> usize {
        let slot = slot(with(|engine| engine.me().slot));
        let before = slot.load(Ordering::Relaxed);
        slot.store(address, Ordering::Relaxed);
        before
    }

    fn registration() -> usize {
        with(|engine| engine.me().slot)
    }

    unsafe fn end_waiting_on(registration: usize, address: usize) {
        if registration != 0 {
            let _ = slot(registration).compare_exchange(address, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn waiters_of(address: usize) -> usize {
        let threads = with(|engine| engine.threads());
        let slot_of = |thread: usize| slot(with(|engine| engine.slot(thread)));
        (0..threads).filter(|thread| slot_of(*thread).load(Ordering::Relaxed) == address).count()
    }
}
