//! A platform on top of a model checker: [`Model`]. The checker is an [`Engine`].
//!
//! What all checkers share is here: a node pool that recycles at once and notices accesses out of a node's lifetime, states of
//! locks that are taken back from idle ones where a scenario asks for it ([`Config::reclaims`]), a futex whose wakes order nothing, virtual time, virtual topology, the registry of waiters, a modelled
//! `fork`. A node's memory stays readable for the whole execution.

mod cells;
mod engine;
mod machine;
mod play;
pub mod sites;

use std::alloc::Layout;
use std::any::TypeId;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use lockwork_platform::bookmarks::Bookmark;
use lockwork_platform::{
    Bookmarks, Cells, Clock, Cpu, LastSeen, LoadControl, Placement, Platform, Pool, PoolNode, PooledState,
    Sched, SharedWords, VisibleReaders, Waiters,
};

pub use cells::{Plain, Word};
pub use engine::{Engine, RawCell, RawData, RawInt};
use machine::StateAt;
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
    /// Takes back every state of a lock that there is; the number of those that somebody still uses. Every thread that used a
    /// lock must have ended before.
    fn states_in_use() -> usize;
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
        while E::machine(|machine| machine.others_are_in_steps()) {
            Self::pause();
        }
        let (waited_for, sleepers) = E::machine(Machine::fork);
        for thread in sleepers {
            E::rouse(thread);
        }
        waited_for
    }

    fn states_in_use() -> usize {
        let states = E::machine(|machine| machine.states());
        states.iter().filter(|state| !(state.take_back)(state.address)).count()
    }
}

/// Takes back the state of type `T` at `address`, which a machine has kept since it was made.
fn take_back_at<E: Engine, T: PooledState<Model<E>>>(address: usize) -> bool {
    // SAFETY: a state that the machine lists stays of its type, and initialised, for the whole execution.
    let state = unsafe { &*std::ptr::with_exposed_provenance::<T>(address) };
    // As natively, no process forks in the middle of it.
    Model::<E>::in_steps(|| state.take_back())
}

// SAFETY: the checker's words follow (its subset of) the memory model, and the futex compares and sleeps without a
// scheduling point in between.
unsafe impl<E: Engine> Cells for Model<E> {
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
}

impl<E: Engine> SharedWords for Model<E> {
    /// By the number alone: addresses differ between executions.
    #[track_caller]
    fn shared_word<R>(_address: usize, number: u32, use_it: impl FnOnce(&Self::Usize) -> R) -> R {
        use_it(E::machine(|machine| machine.words()).shared(number as usize))
    }
}

impl<E: Engine> VisibleReaders for Model<E> {
    const VISIBLE_READERS: usize = machine::VISIBLE;

    /// By the thread alone: as above.
    fn reader_slot(_address: usize) -> usize {
        E::thread() % machine::VISIBLE
    }

    #[track_caller]
    fn visible_reader<R>(index: usize, use_it: impl FnOnce(&Self::Usize) -> R) -> R {
        use_it(E::machine(|machine| machine.words()).visible(index))
    }
}

impl<E: Engine> LoadControl for Model<E> {}

impl<E: Engine> Cpu for Model<E> {
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
}

impl<E: Engine> Placement for Model<E> {
    fn cpu() -> usize {
        E::machine(|machine| machine.cpu())
    }

    fn domain() -> usize {
        E::machine(|machine| machine.cpu() % machine.config().nodes)
    }

    fn domains() -> usize {
        E::machine(|machine| machine.config().nodes)
    }

    fn place(level: usize) -> Option<usize> {
        E::machine(|machine| machine.place(level))
    }
}

impl<E: Engine> Sched for Model<E> {
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
}

// SAFETY: the machine gives memory to one owner at a time.
unsafe impl<E: Engine> Pool for Model<E> {
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

    /// Where states are taken back, the first that nobody uses, in the order in which they were made.
    fn take_state<T: PooledState<Self>>() -> Option<NonNull<T>> {
        let reclaims = E::machine(|machine| machine.config().reclaims);
        if reclaims {
            let words = E::machine(|machine| machine.words());
            E::switch();
            // Natively the pointer that publishes a chunk of states is read with Acquire.
            let published = words.states().fetch_add(0, Acquire);
            let states = E::machine(|machine| machine.states());
            let of_kind = states.iter().take(published).filter(|state| state.kind == TypeId::of::<T>());
            for state in of_kind {
                if (state.take_back)(state.address) {
                    let found = NonNull::new(std::ptr::with_exposed_provenance_mut(state.address));
                    assert!(found.is_some(), "the address of a state");
                    return found;
                }
            }
        }
        let fresh = Self::alloc_node::<T>();
        // SAFETY: fresh, and nobody else's.
        let taken = unsafe { fresh.as_ref() }.take_back();
        assert!(taken, "a new state has no owner");
        if reclaims {
            let words = E::machine(|machine| machine.words());
            let address = fresh.as_ptr().expose_provenance();
            let state = StateAt { kind: TypeId::of::<T>(), address, take_back: take_back_at::<E, T> };
            E::switch();
            words.states().fetch_add(1, Release);
            E::machine(|machine| machine.add_state(state));
        }
        Some(fresh)
    }

    unsafe fn give_state<T: PooledState<Self>>(state: NonNull<T>) {
        if E::machine(|machine| machine.config().reclaims) {
            // It stays of its type, with what it points to: a thread may come late to it.
            return;
        }
        // SAFETY: the caller's contract.
        let kept = unsafe { state.as_ref() };
        // SAFETY: as above.
        unsafe { kept.clear() };
        // SAFETY: as above.
        unsafe { Self::free_node(state) };
    }
}

impl<E: Engine> Bookmarks for Model<E> {
    fn first_bookmark<R>(use_it: impl FnOnce(&AtomicU32) -> R) -> Option<R> {
        Some(use_it(&E::machine(|machine| machine.first_bookmark())))
    }

    fn bookmark<R>(number: NonZeroU32, use_it: impl FnOnce(&Bookmark<Self>) -> R) -> R {
        use_it(&E::machine(|machine| machine.bookmark(number.get() as usize - 1)))
    }

    fn make_bookmark(next: u32) -> Option<NonZeroU32> {
        let fresh = Bookmark::new(next);
        NonZeroU32::new(E::machine(|machine| machine.add_bookmark(fresh)) as u32)
    }
}

impl<E: Engine> Waiters for Model<E> {
    fn set_waiting_on(address: usize) -> usize {
        // A thread may be preempted before it takes back what it registered.
        E::switch();
        E::machine(|machine| machine.set_waiting_on(address))
    }

    fn in_steps<R>(release: impl FnOnce() -> R) -> R {
        E::machine(|machine| machine.step(1));
        let result = release();
        E::machine(|machine| machine.step(-1));
        result
    }

    fn waiters_of(address: usize) -> usize {
        E::machine(|machine| machine.waiters_of(address))
    }

    fn generation() -> u32 {
        E::machine(|machine| machine.generation())
    }

    fn lives_since(thread: u32, _generation: u32) -> bool {
        E::machine(|machine| machine.lives(thread as usize - 1))
    }
}
