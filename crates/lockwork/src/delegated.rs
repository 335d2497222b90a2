//! A value behind a delegate.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use lockwork_locks::delegation::posts::Posts;
use lockwork_locks::delegation::{Delegate, Section};
use lockwork_platform::Native;

use crate::delegates::{CcSynch, DynDelegate};
use crate::dynamic::SpecError;
use crate::{pace, servers};

mod condition;
mod post;

pub use condition::Condition;
pub use post::{Posted, RunError};

/// A value on which closures run, one at a time, in this thread or in another that happens to combine.
///
/// Threads hand their critical sections over instead of fetching the data: one of them, the combiner, runs the sections of
/// all that wait. `D` names the delegate, from [`delegates`](crate::delegates).
///
/// ```
/// use lockwork::Delegated;
/// use std::thread;
///
/// let hits = Delegated::new(0);
/// thread::scope(|scope| {
///     for worker in 0..4 {
///         let hits = &hits;
///         scope.spawn(move || hits.run(|hits| *hits += worker));
///     }
/// });
/// assert_eq!(hits.into_inner(), 6);
/// ```
///
/// # What a section may do
///
/// It borrows what it likes, since [`Delegated::run`] returns only when it has run. But it may run in another thread:
/// thread-local state and the thread's id are that thread's, hence the bounds by [`Send`]. A section that blocks holds up
/// all threads that wait for this value; to wait for another section, use [`Delegated::run_when`].
///
/// A panic in a section goes to the thread that requested it, and poisons the value: later requests panic until
/// [`Delegated::clear_poison`], unless the value was made [`without_poisoning`](Delegated::without_poisoning). Sections of others that wait at that moment run all the same, on the value as it was left.
///
/// A section may use other delegates and locks. One that requests a section of its own value would wait for itself:
/// [`Delegated::run`] panics, and [`Delegated::try_run_for`] returns an error.
///
/// # Not waiting
///
/// [`Delegated::post`] leaves a section and returns a handle: a future, or something to wait for.
/// [`Delegated::try_run_for`] takes its section back if nobody has begun it in time.
pub struct Delegated<T: ?Sized, D: Delegate<Native> = CcSynch> {
    delegate: Owned<D>,
    posts: Posts<Native>,
    /// Whether requesters give way to each other: not where they wait for a server, which may need the very CPU.
    gives_way: bool,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: the delegate gives the value to one section at a time, in whatever thread.
unsafe impl<T: ?Sized + Send, D: Delegate<Native>> Sync for Delegated<T, D> {}

/// What a thread is told that comes after a panic.
const PANICKED_BEFORE: &str = "an earlier section panicked: see Delegated::clear_poison";

/// What becomes of a value when a section on it panics. Its address is what tells values apart.
struct Poison(AtomicU8);

impl Poison {
    const CLEAN: u8 = 0;
    const POISONED: u8 = 1;
    /// A panic changes nothing.
    const IGNORED: u8 = 2;

    const fn none() -> Self {
        Self(AtomicU8::new(Self::CLEAN))
    }

    fn is_set(&self) -> bool {
        self.0.load(Relaxed) == Self::POISONED // ORDER: the delegate's, between sections.
    }

    /// A section has panicked.
    fn set(&self) {
        // ORDER: the delegate's, for the sections that follow.
        let _ = self.0.compare_exchange(Self::CLEAN, Self::POISONED, Relaxed, Relaxed);
    }

    fn clear(&self) {
        let _ = self.0.compare_exchange(Self::POISONED, Self::CLEAN, Relaxed, Relaxed); // ORDER: as above.
    }
}

/// A delegate that gives back its memory at its end.
struct Owned<D: Delegate<Native>>(D);

impl<D: Delegate<Native>> Drop for Owned<D> {
    fn drop(&mut self) {
        // SAFETY: whoever has it to itself may drop it.
        unsafe { self.0.dispose() };
    }
}

/// One request, on its requester's stack.
struct Call<'a, T, F, R> {
    value: *mut T,
    poison: &'a Poison,
    section: Option<F>,
    result: Option<Result<R, Box<dyn Any + Send>>>,
}

/// A section that this thread runs, and the one around it.
struct Running {
    /// Of which value, by the address of its poison.
    poison: *const Poison,
    outer: *const Running,
}

thread_local! {
    /// The innermost section that this thread runs; null = none.
    static RUNNING: Cell<*const Running> = const { Cell::new(ptr::null()) };
}

/// Whether this thread runs a section on the value with this poison.
fn runs_on(poison: &Poison) -> bool {
    is_at_or_around(RUNNING.get(), poison)
}

/// Whether `innermost`, which this thread runs, or a section around it is on the value with this poison.
fn is_at_or_around(innermost: *const Running, poison: &Poison) -> bool {
    let mut next = innermost;
    // SAFETY: each points to a frame further up this thread's stack, which ends after it has taken itself off the list.
    while let Some(running) = unsafe { next.as_ref() } {
        if ptr::eq(running.poison, poison) {
            return true;
        }
        next = running.outer;
    }
    false
}

/// Runs something of which [`runs_on`] says that it is a section on the value with this poison.
fn running<R>(poison: *const Poison, section: impl FnOnce() -> R) -> R {
    struct End(*const Running);

    impl Drop for End {
        fn drop(&mut self) {
            RUNNING.set(self.0);
        }
    }

    let running = Running { poison, outer: RUNNING.get() };
    RUNNING.set(&raw const running);
    let _end = End(running.outer);
    section()
}

/// Runs a section on the value at `value`, whose poison is `poison`, and catches its panic.
///
/// # Safety
///
/// In a section of the value's delegate.
unsafe fn run_on<T, R>(
    value: *mut T,
    poison: &Poison,
    section: impl FnOnce(&mut T) -> R,
) -> Result<R, Box<dyn Any + Send>> {
    // SAFETY: the delegate runs one section at a time.
    let value = unsafe { &mut *value };
    let result = running(poison, || catch_unwind(AssertUnwindSafe(|| section(value))));
    if result.is_err() {
        poison.set();
    }
    result
}

/// Runs the section of a [`Call`], and keeps its panic, if any, for the requester.
unsafe fn run<T, F: FnOnce(&mut T) -> R, R>(call: *mut ()) {
    // SAFETY: the requester's, which waits, and looks at it when the section has run.
    let call = unsafe { &mut *call.cast::<Call<'_, T, F, R>>() };
    let Some(section) = call.section.take() else { return };
    // SAFETY: a section of the delegate of the value that the call is for.
    call.result = Some(unsafe { run_on(call.value, call.poison, section) });
}

impl<T> Delegated<T> {
    /// A value behind the default delegate.
    pub fn new(value: T) -> Self {
        Self::with_delegate(value)
    }
}

impl<T, D: Delegate<Native>> Delegated<T, D> {
    /// A value behind the delegate that its type names.
    ///
    /// ```
    /// use lockwork::{Delegated, delegates::DsmSynch};
    ///
    /// let names: Delegated<Vec<&str>, DsmSynch> = Delegated::with_delegate(Vec::new());
    /// names.run(|names| names.push("Ada"));
    /// assert_eq!(names.run(|names| names.len()), 1);
    /// ```
    pub fn with_delegate(value: T) -> Self {
        Self::over(D::new(), value)
    }

    /// A value behind `delegate`, which is idle.
    pub fn over(delegate: D, value: T) -> Self {
        servers::give(&delegate);
        Self {
            gives_way: delegate.seat().is_none(),
            delegate: Owned(delegate),
            posts: Posts::none(),
            poison: Poison::none(),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T, D: Delegate<Native>> Delegated<T, D> {
    /// The same value, which a panic does not poison: the sections that follow see it as it was left, as with parking_lot's mutex.
    ///
    /// ```
    /// use lockwork::Delegated;
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    ///
    /// let value = Delegated::new(1).without_poisoning();
    /// let panic = catch_unwind(AssertUnwindSafe(|| {
    ///     value.run(|value| {
    ///         *value = 2;
    ///         panic!("half done")
    ///     })
    /// }));
    /// assert!(panic.is_err());
    /// assert_eq!(value.run(|value| *value), 2);
    /// ```
    #[must_use]
    pub fn without_poisoning(mut self) -> Self {
        *self.poison.0.get_mut() = Poison::IGNORED;
        self
    }
}

impl<T> Delegated<T, DynDelegate> {
    /// A value behind the delegate that `spec` describes: `fc`, `rcl(servers=2)`, `locked(mcs-stp)`.
    ///
    /// ```
    /// use lockwork::Delegated;
    ///
    /// let count = Delegated::with_spec("fc", 0)?;
    /// assert_eq!(count.run(|count| { *count += 1; *count }), 1);
    ///
    /// let error = Delegated::with_spec("mcs-stp", 0).unwrap_err();
    /// assert_eq!(error.to_string(), "`mcs-stp` is a lock: closures run under it as `locked(mcs-stp)`");
    /// # Ok::<(), lockwork::SpecError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SpecError`], which says what is wrong with the spec and what to write instead.
    pub fn with_spec(spec: &str, value: T) -> Result<Self, SpecError> {
        Ok(Self::over(DynDelegate::new(spec)?, value))
    }
}

impl<T: Send, D: Delegate<Native>> Delegated<T, D> {
    /// Runs `section` on the value, here or in another thread, and returns what it returns.
    ///
    /// # Panics
    ///
    /// With what `section` panics with; if an earlier section has panicked; and if the calling thread runs a section on this
    /// very value.
    pub fn run<R: Send>(&self, section: impl FnOnce(&mut T) -> R + Send) -> R {
        self.call(section)
    }

    /// Runs all sections on the value, one after the other and no other in between, and returns what they return.
    ///
    /// ```
    /// use lockwork::Delegated;
    ///
    /// let list = Delegated::new(vec![3, 1, 2]);
    /// let sections: [fn(&mut Vec<i32>) -> i32; 2] = [|list| { list.sort(); list[0] }, |list| list.pop().unwrap_or(0)];
    /// assert_eq!(list.run_all(sections), [1, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Delegated::run`]; sections behind one that panics do not run.
    pub fn run_all<R: Send, F: FnOnce(&mut T) -> R + Send>(
        &self,
        sections: impl IntoIterator<Item = F>,
    ) -> Vec<R> {
        let sections: Vec<F> = sections.into_iter().collect();
        self.run(|value| sections.into_iter().map(|section| section(value)).collect())
    }

    /// Fails, unless a section may be requested. Whether the thread runs one on another value.
    fn admit(&self) -> bool {
        let innermost = RUNNING.get();
        assert!(
            !is_at_or_around(innermost, &self.poison),
            "a section requests another one on its own value, and would wait for itself"
        );
        if self.is_poisoned() {
            std::panic::panic_any(PANICKED_BEFORE);
        }
        !innermost.is_null()
    }

    fn call<F: FnOnce(&mut T) -> R + Send, R: Send>(&self, section: F) -> R {
        let is_nested = self.admit();
        let mut call =
            Call { value: self.value.get(), poison: &self.poison, section: Some(section), result: None };
        // SAFETY: `run` is called once, with this call, and catches panics. Section and result are `Send`.
        let request = unsafe { Section::new(run::<T, F, R>, (&raw mut call).cast()) };
        if is_nested {
            // SAFETY: the call outlives this.
            unsafe { self.delegate.0.execute_nested(request) };
        } else {
            // SAFETY: as above.
            unsafe { self.delegate.0.execute(request) };
            if self.gives_way {
                pace::give_way();
            }
        }
        self.posts.settle(&self.delegate.0);
        match call.result {
            Some(Ok(result)) => result,
            Some(Err(panic)) => resume_unwind(panic),
            None => unreachable!("a delegate runs each section before it returns"),
        }
    }
}

impl<T: ?Sized, D: Delegate<Native>> Delegated<T, D> {
    /// Whether a section has panicked since the last [`Delegated::clear_poison`].
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Lets sections run again after one has panicked.
    ///
    /// ```
    /// use lockwork::Delegated;
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    ///
    /// let value = Delegated::new(1);
    /// let panic = catch_unwind(AssertUnwindSafe(|| value.run(|_| panic!("half done"))));
    /// assert!(panic.is_err() && value.is_poisoned());
    /// value.clear_poison();
    /// assert_eq!(value.run(|value| *value), 1);
    /// ```
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value, for a caller that has it to itself.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T, D: Delegate<Native>> Delegated<T, D> {
    /// The value, for a caller that owns it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: Default, D: Delegate<Native>> Default for Delegated<T, D> {
    fn default() -> Self {
        Self::with_delegate(T::default())
    }
}

impl<T: ?Sized, D: Delegate<Native>> fmt::Debug for Delegated<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delegated").field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}
