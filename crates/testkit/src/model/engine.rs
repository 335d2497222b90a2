//! What a model checker provides, so that [`Model`](super::Model) can be a platform on top of it.

use std::fmt::Debug;
use std::sync::atomic::Ordering;

use super::machine::Machine;

/// One atomic word of a model checker. The methods are `track_caller` in the implementations.
pub trait RawCell<T: Copy>: Send + Sync + 'static {
    /// A word holding `value`.
    fn new(value: T) -> Self;
    /// Reads.
    fn load(&self, order: Ordering) -> T;
    /// Writes.
    fn store(&self, value: T, order: Ordering);
    /// Writes, returns what was there.
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Writes `new` if `current` is there.
    ///
    /// # Errors
    ///
    /// What was there instead.
    fn compare_exchange(&self, current: T, new: T, success: Ordering, failure: Ordering) -> Result<T, T>;
}

/// One atomic integer of a model checker.
pub trait RawInt<T: Copy>: RawCell<T> {
    /// Adds, returns what was there.
    fn fetch_add(&self, value: T, order: Ordering) -> T;
    /// Subtracts, returns what was there.
    fn fetch_sub(&self, value: T, order: Ordering) -> T;
    /// Sets bits, returns what was there.
    fn fetch_or(&self, value: T, order: Ordering) -> T;
    /// Keeps bits, returns what was there.
    fn fetch_and(&self, value: T, order: Ordering) -> T;
}

/// Plain data that a model checker watches for races.
pub trait RawData<T: Copy>: Send + Sync + 'static {
    /// Data holding `value`.
    fn new(value: T) -> Self;
    /// Reads.
    fn get(&self) -> T;
    /// Writes.
    fn set(&self, value: T);
}

/// A model checker.
pub trait Engine: Sized + Debug + Send + Sync + 'static {
    /// Atomic 32-bit word.
    type U32: RawInt<u32>;
    /// Atomic pointer-sized word.
    type Usize: RawInt<usize>;
    /// Atomic pointer.
    type Ptr<T: 'static>: RawCell<*mut T>;
    /// Plain data.
    type Data<T: Copy + Send + 'static>: RawData<T>;

    /// Fruitless turns in a row, of all threads together, after which the execution is declared stuck.
    const STUCK_AFTER: u32;

    /// Runs `f` on the bookkeeping of this execution. `f` must not switch threads.
    fn machine<R>(f: impl FnOnce(&mut Machine<Self>) -> R) -> R;

    /// The number of the running thread in this execution, from 0.
    fn thread() -> usize;

    /// A point at which another thread may run, where the words have none of their own.
    fn switch();

    /// Lets others run first.
    fn yield_now();

    /// Does not return before [`Engine::rouse`] was called for this thread. May return too early.
    fn sleep();

    /// Lets a sleeping thread look again.
    fn rouse(thread: usize);

    /// Called, perhaps repeatedly, in an execution whose scheduling has become unfair: there is nothing more to learn
    /// from it.
    fn prune();

    /// A fence.
    fn fence(order: Ordering);
}
