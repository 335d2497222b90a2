//! P-Sim: a value on which no thread waits for another one, whatever becomes of the others.
//!
//! Here is what an engineer sees of it: operations that may panic, and the numbers of threads. The algorithm is in [`universal`].

pub mod universal;

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lockwork_platform::{Native, Sched};

use self::universal::{Change, Outcome, Universal};

/// Something to be done to a value, which any thread may do, several times, on copies of it: of all that, one time counts.
pub trait Operation<T>: Clone + Send + Sync + 'static {
    /// What it returns to the thread that asked for it.
    type Output: Clone + Send + Sync + 'static;

    /// Applies it. The outcome depends on the value and the operation alone.
    fn apply(&self, value: &mut T) -> Self::Output;
}

/// A value that threads change without waiting for each other: wait-free, by P-Sim's construction.
///
/// A thread that is stopped in the middle of an operation, for however long, holds up nobody; the others apply its operation
/// with theirs. For that, everybody works on copies of the value of their own, and one copy at a time becomes the value.
///
/// ```
/// use lockwork::{Operation, WaitFree};
///
/// #[derive(Clone)]
/// struct Add(u64);
///
/// impl Operation<u64> for Add {
///     type Output = u64;
///
///     fn apply(&self, value: &mut u64) -> u64 {
///         *value += self.0;
///         *value
///     }
/// }
///
/// let total = WaitFree::new(1);
/// assert_eq!(total.apply(Add(2)), 3);
/// assert_eq!(total.read(|total| *total), 3);
/// ```
///
/// # Bounds
///
/// With `n` threads that have ever used the value at once, an operation copies the value twice at most, applies 2`n` operations
/// at most, goes through 2`n` results, and tries its two compare-and-swaps 6`n` times at most: more only if operations panic,
/// each of which costs as much again. A thread has two copies of the value and two operations of its own, and one more for each
/// other thread that is stopped while it looks at an earlier one. They are kept for what comes next, so that a thread allocates
/// in its first operations, and then only if others are stopped there; until then it is as wait-free as the allocator.
///
/// A [`Delegated`](crate::Delegated) value behind [`PSim`](crate::delegates::PSim) needs neither copies nor operations that can
/// be applied again, and is not wait-free.
pub struct WaitFree<T: 'static, O: Operation<T>> {
    value: Universal<Native, T, Caught<O>, THREADS, GROUPS>,
}

/// Threads of a group: a bit of a word each.
const THREADS: usize = 64;
/// Groups, at most.
const GROUPS: usize = 64;

thread_local! {
    /// Whether this thread applies operations.
    static APPLIES: Cell<bool> = const { Cell::new(false) };
}

/// An operation whose panic is an outcome.
struct Caught<O>(O);

impl<T, O: Operation<T>> Change<T> for Caught<O> {
    type Output = O::Output;

    fn apply(&self, value: &mut T) -> Outcome<O::Output> {
        let before = APPLIES.replace(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.0.apply(value)));
        APPLIES.set(before);
        outcome.map_err(|panic| text_of(&*panic))
    }
}

impl<T: Clone + Send + Sync + 'static, O: Operation<T>> WaitFree<T, O> {
    /// A value.
    pub fn new(value: T) -> Self {
        Self { value: Universal::new(value) }
    }

    /// Applies `operation` to the value, and returns what that returned.
    ///
    /// # Panics
    ///
    /// If the operation does, with the text of its panic: the value is then as if it had not been applied. If it is
    /// called inside of an operation. If more than 4,096 threads are alive, or the thread is about to end.
    pub fn apply(&self, operation: O) -> O::Output {
        assert!(
            !APPLIES.get(),
            "an operation asks for another one, which may be applied any number of times"
        );
        let thread =
            (Native::thread_id() as usize).checked_sub(1).filter(|thread| *thread < GROUPS * THREADS);
        let thread = thread.expect("a thread that is not about to end, of 4,096 at most");
        self.value.apply(thread, Caught(operation)).unwrap_or_else(|text| panic!("{text}"))
    }

    /// Shows the value as it is at some instant during the call. What others do meanwhile happens to another copy.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        self.value.read(read)
    }

    /// The value, for a caller that owns it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "an operation panicked".to_owned())
}

impl<T, O: Operation<T>> fmt::Debug for WaitFree<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitFree").finish_non_exhaustive()
    }
}
