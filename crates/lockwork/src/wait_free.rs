//! P-Sim: a value on which no thread waits for another one, whatever becomes of the others.
//!
//! Here is what an engineer sees of it: operations that may panic, and the numbers of threads. The algorithm is in [`universal`].

pub mod universal;

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lockwork_platform::{Native, Sched};

use self::universal::{Change, Outcome, Universal};

/// Something to be done to a value, which any thread may do, several times, on copies of it: of all that, one time counts.
pub trait Operation<T>: Send + Sync + 'static {
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
/// at most, and tries to exchange the word of the value 15`n` times at most. It goes through 128 results for each 64 threads, up to the
/// highest number of a thread that ever applied one (of 4,096; a thread that ends leaves its number to others). An operation that
/// panics costs another copy, and all the operations before it again; copies that panic undo these bounds.
///
/// A thread has two copies of the value and two operations of its own, and one more for each other thread that is stopped while
/// it looks at an earlier one, and for each more that this one looks at by readings inside of readings. They are kept for what
/// comes next until the value is dropped. So a thread allocates in its first operations, and then only if others are stopped
/// there, or if copying does: let [`Clone::clone_from`] use what is there again, that of the value and of results (the one that
/// is derived does not). Until then an operation is as wait-free as the allocator.
///
/// An operation that panics panics in every thread that applies it, several times maybe: the hook of panics runs there each time.
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
    /// Whether this thread is in [`WaitFree::apply`].
    static APPLIES: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread is in [`WaitFree::apply`].
struct Applying;

impl Applying {
    fn new() -> Self {
        assert!(
            !APPLIES.replace(true),
            "an operation, a copy or the end of one asks for another operation, which may happen any number of times"
        );
        Self
    }
}

impl Drop for Applying {
    fn drop(&mut self) {
        APPLIES.set(false);
    }
}

/// An operation whose panic is an outcome.
struct Caught<O>(O);

impl<T, O: Operation<T>> Change<T> for Caught<O> {
    type Output = O::Output;

    fn apply(&self, value: &mut T) -> Outcome<O::Output> {
        catch_unwind(AssertUnwindSafe(|| self.0.apply(value))).map_err(text_of)
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
    /// If the operation does, with the text of its panic: the value is then as if it had not been applied.
    ///
    /// If copying or dropping a value, a result or an earlier operation does. The operation may then have been applied, or be
    /// applied later, with the next one of any thread. Nothing is lost of the value, but while such copies panic in every thread,
    /// nobody changes it.
    ///
    /// If it is called inside of another such call of the thread, of any value: by an operation, or when a value, a result or an
    /// operation is copied or dropped.
    ///
    /// If the thread's number, the smallest one that was free when it began to use Lockwork, is above 4,096. If the thread is
    /// about to end.
    pub fn apply(&self, operation: O) -> O::Output {
        let applying = Applying::new();
        let thread =
            (Native::thread_id() as usize).checked_sub(1).filter(|thread| *thread < GROUPS * THREADS);
        let thread = thread.expect("a thread that is not about to end, of 4,096 at most");
        // SAFETY: the number is this thread's, which is not in such a call already.
        let outcome = unsafe { self.value.apply(thread, Caught(operation)) };
        drop(applying);
        outcome.unwrap_or_else(|text| panic!("{text}"))
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

/// The text of a panic. What has none may panic when it is dropped: it is not.
fn text_of(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast::<String>().map(|text| *text);
    let text = text.or_else(|panic| panic.downcast::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|panic| {
        mem::forget(panic);
        "an operation panicked".to_owned()
    })
}

impl<T, O: Operation<T>> fmt::Debug for WaitFree<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitFree").finish_non_exhaustive()
    }
}
