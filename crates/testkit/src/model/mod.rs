//! A platform on top of a model checker: [`Model`]. The checker is an [`Engine`].
//!
//! What all checkers share is here: a node pool that recycles at once and notices accesses out of a node's lifetime, a
//! futex whose wakes order nothing, virtual time, virtual topology, the registry of waiters, a modelled
//! `fork`. A node's memory stays readable for the whole execution.

mod cells;
mod engine;
mod machine;
mod play;
pub mod sites;

use std::alloc::Layout;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{self, Relaxed};

use lockwork_platform::{Clock, LastSeen, Platform, PoolNode};

pub use cells::{Plain, Word};
pub use engine::{Engine, RawCell, RawData, RawInt};
pub use machine::{Config, Ghost, Machine};
pub use play::{Play, Role};

/// The machine as the checker `E` models it.
#[derive(Clone, Copy, Debug)]
pub struct Model<E>(PhantomData<E>);

/// What scenarios need of a platform beyond what locks need.
pub trait ModelPlatform: Platform {
    /// Declares that `memory` lives until [`ModelPlatform::retire`].
    fn adopt<T: ?Sized>(memory: &T);
    /// Ends the life of `memory`: every access must have happened before, and none may follow.
    fn retire<T: ?Sized>(memory: &T);
    /// A point at which another thread may run, for checkers that see no orderings.
    fn switch();
    /// Sets the clock to `time` nanoseconds.
    fn set_time(time: u64);
    /// Lets the next `pauses` pauses of the running thread be no more than that. Otherwise every pause lets others run
    /// first, and a waiter whose deadline has passed would give up only when nobody else can run.
    fn hurry(pauses: u32);
    /// Makes the running thread the only one, as in a child after `fork`. Returns the addresses the others waited on.
    fn fork() -> Vec<usize>;
}

impl<E: Engine> ModelPlatform for Model<E> {
    #[track_caller]
    fn adopt<T: ?Sized>(memory: &T) {
        E::machine(|machine| machine.adopt(std::ptr::from_ref(memory).addr(), size_of_val(memory)));
    }

    #[track_caller]
    fn retire<T: ?Sized>(memory: &T) {
        E::machine(|machine| machine.retire(std::ptr::from_ref(memory).addr()));
    }

    fn switch() {
        E::switch();
    }

    fn set_time(time: u64) {
        let words = E::machine(|machine| machine.words());
        E::switch();
        words.clock().swap(time as u32, Relaxed);
        for thread in E::machine(|machine| machine.set_time(time)) {
            E::rouse(thread);
        }
    }

    fn hurry(pauses: u32) {
        E::machine(|machine| machine.hurry(pauses));
    }

    fn fork() -> Vec<usize> {
        let (waited_for, sleepers) = E::machine(Machine::fork);
        for thread in sleepers {
            E::rouse(thread);
        }
        waited_for
    }
}

// SAFETY: the checker's words follow (its subset of) the memory model, the futex compares and sleeps without a
// scheduling point in between, and the pool gives memory to one owner at a time.
unsafe impl<E: Engine> Platform for Model<E> {
    type U32 = Word<E, E::U32>;
    type Usize = Word<E, E::Usize>;
    type Ptr<T: 'static> = Word<E, E::Ptr<T>>;
    type Futex = Word<E, E::U32>;
    type Data<T: Copy + Send + 'static> = Plain<E, E::Data<T>>;

    #[track_caller]
    fn fence(order: Ordering) {
        match sites::ordering(Location::caller(), sites::Op::Fence, order) {
            Relaxed => {}
            order => E::fence(order),
        }
    }

    fn pause() {
        if E::machine(Machine::pause) {
            E::yield_now();
        }
    }

    fn pause_n(n: u32) {
        if n > 0 {
            Self::pause();
        }
    }

    fn yield_now() {
        Self::pause();
    }

    fn spin_budget() -> u32 {
        E::machine(|machine| machine.config().spin_budget)
    }

    fn now(_clock: Clock) -> u64 {
        let words = E::machine(|machine| machine.words());
        E::switch();
        let seen = words.clock().load(Relaxed);
        E::machine(|machine| machine.time()).max(seen.into())
    }

    fn parallelism() -> usize {
        E::machine(|machine| machine.config().parallelism)
    }

    fn runnable() -> usize {
        E::machine(|machine| machine.config().runnable)
    }

    fn running(_thread: u32) -> Option<bool> {
        E::machine(|machine| machine.config().running)
    }

    fn tells_who_ran() -> bool {
        E::machine(|machine| machine.config().clocks.is_some())
    }

    fn has_run(_thread: u32, _last: &mut LastSeen) -> Option<bool> {
        E::machine(|machine| machine.config().clocks)
    }

    fn thread_id() -> u32 {
        E::thread() as u32 + 1
    }

    fn thread_word() -> u64 {
        E::machine(|machine| *machine.thread_word())
    }

    fn set_thread_word(word: u64) {
        E::machine(|machine| *machine.thread_word() = word);
    }

    fn cpu() -> usize {
        E::machine(|machine| machine.cpu())
    }

    fn node() -> usize {
        E::machine(|machine| machine.cpu() % machine.config().nodes)
    }

    fn nodes() -> usize {
        E::machine(|machine| machine.config().nodes)
    }

    fn place(level: usize) -> Option<usize> {
        E::machine(|machine| machine.place(level))
    }

    fn set_waiting_on(address: usize) -> usize {
        E::machine(|machine| machine.set_waiting_on(address))
    }

    fn waiters_of(address: usize) -> usize {
        E::machine(|machine| machine.waiters_of(address))
    }

    /// By the number alone: addresses differ between executions.
    #[track_caller]
    fn shared_word<R>(_address: usize, number: u32, use_it: impl FnOnce(&Self::Usize) -> R) -> R {
        use_it(E::machine(|machine| machine.words()).shared(number as usize))
    }

    const VISIBLE_READERS: usize = machine::VISIBLE;

    /// By the thread alone: as above.
    fn reader_slot(_address: usize) -> usize {
        E::thread() % machine::VISIBLE
    }

    #[track_caller]
    fn visible_reader<R>(index: usize, use_it: impl FnOnce(&Self::Usize) -> R) -> R {
        use_it(E::machine(|machine| machine.words()).visible(index))
    }

    #[track_caller]
    fn alloc_node<T: PoolNode<Self>>() -> NonNull<T> {
        let node = E::machine(|machine| machine.allocate(Layout::new::<T>())).cast::<T>();
        // SAFETY: the machine handed us memory that is large and aligned enough, and nobody else's.
        unsafe { node.write(T::new()) };
        node
    }

    #[track_caller]
    unsafe fn free_node<T: PoolNode<Self>>(node: NonNull<T>) {
        E::machine(|machine| machine.retire(node.as_ptr() as usize));
    }
}
