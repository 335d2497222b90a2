//! Sections that their requester does not wait for, or not for ever.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lockwork_locks::delegation::{Delegate, Section};
use lockwork_platform::Native;

use super::{Delegated, PANICKED_BEFORE, Poison, run_on, running, runs_on};

/// Why a section did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// Nobody began it in time.
    TimedOut,
    /// An earlier section panicked: see [`Delegated::clear_poison`].
    Poisoned,
    /// The calling thread runs a section on this very value.
    Reentered,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "nobody began the section in time",
            Self::Poisoned => PANICKED_BEFORE,
            Self::Reentered => "a section requests another one on its own value, and would wait for itself",
        })
    }
}

impl std::error::Error for RunError {}

/// What became of a section.
enum Outcome<R> {
    Returned(R),
    Panicked(Box<dyn Any + Send>),
    /// It did not run, since an earlier one had panicked.
    Poisoned,
}

impl<R> Outcome<R> {
    /// What it returned.
    ///
    /// # Panics
    ///
    /// If it did not return.
    fn returned(self) -> R {
        match self {
            Self::Returned(result) => result,
            Self::Panicked(panic) => resume_unwind(panic),
            Self::Poisoned => panic_any(PANICKED_BEFORE),
        }
    }
}

/// Where a post is. What it captures is gone when it is `Done` or `Gone`.
enum State<F, R> {
    Open(F),
    Running,
    Done(Outcome<R>),
    /// Withdrawn, or its result has been taken.
    Gone,
}

/// A section on its way.
struct Call<T, F, R> {
    value: *mut T,
    poison: *const Poison,
    state: Mutex<(State<F, R>, Option<Waker>)>,
    ended: Condvar,
}

// SAFETY: the value and its poison are used in a section, and outlive it; the rest is behind a mutex.
unsafe impl<T: Send, F: Send, R: Send> Send for Call<T, F, R> {}
// SAFETY: as above.
unsafe impl<T: Send, F: Send, R: Send> Sync for Call<T, F, R> {}

impl<T, F: FnOnce(&mut T) -> R, R> Call<T, F, R> {
    fn state(&self) -> MutexGuard<'_, (State<F, R>, Option<Waker>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs it, unless it has been withdrawn.
    unsafe fn run(&self) {
        let mut state = self.state();
        let section = match mem::replace(&mut state.0, State::Running) {
            State::Open(section) => section,
            gone => {
                state.0 = gone;
                return;
            }
        };
        drop(state);
        // SAFETY: alive, as the value is.
        let poison = unsafe { &*self.poison };
        let outcome = if poison.is_set() {
            match catch_unwind(AssertUnwindSafe(|| drop(section))) {
                Ok(()) => Outcome::Poisoned,
                Err(panic) => Outcome::Panicked(panic),
            }
        } else {
            // SAFETY: the caller is in a section of the value's delegate.
            match unsafe { run_on(self.value, poison, section) } {
                Ok(result) => Outcome::Returned(result),
                Err(panic) => Outcome::Panicked(panic),
            }
        };
        let mut state = self.state();
        state.0 = State::Done(outcome);
        let waker = state.1.take();
        self.ended.notify_all();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The outcome, if it is there.
    fn take(state: &mut State<F, R>) -> Option<Outcome<R>> {
        match mem::replace(state, State::Gone) {
            State::Done(outcome) => Some(outcome),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Waits for the outcome; if nobody has begun it at the deadline, withdraws it. `None` as well if the outcome has been taken.
    fn wait(&self, deadline: Option<Instant>) -> Option<Outcome<R>> {
        let mut state = self.state();
        loop {
            if let Some(outcome) = Self::take(&mut state.0) {
                return Some(outcome);
            }
            if matches!(state.0, State::Gone) {
                return None;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match (left, &state.0) {
                (Some(Duration::ZERO), State::Open(_)) => {
                    let section = mem::replace(&mut state.0, State::Gone);
                    drop(state);
                    drop(section);
                    return None;
                }
                (Some(left), State::Open(_)) => {
                    self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                _ => self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Runs a post, whose reference it takes over.
unsafe fn run<T, F: FnOnce(&mut T) -> R, R>(call: *mut ()) {
    // A waker is the caller's code as well, and so is the destructor of a result that nobody wants. Nobody is left who could be
    // told of its panic, and the delegate must not unwind.
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: from `Arc::into_raw`, given away by `Delegated::leave`.
        let call = unsafe { Arc::from_raw(call.cast::<Call<T, F, R>>()) };
        let poison = call.poison;
        // All of it is in the section: what asks for another one on the value there is told, and does not wait for itself.
        running(poison, || {
            // SAFETY: a delegate runs this in a section.
            unsafe { call.run() };
            drop(call);
        });
    }));
    // Its destructor might panic, too.
    mem::forget(unwound);
}

const TAKEN: &str = "the result of a post is asked for again, after the future gave it";

/// A post without the types of its section and value.
trait Pending<R>: Send + Sync {
    fn is_done(&self) -> bool;
    fn wait(&self) -> Outcome<R>;
    fn poll(&self, waker: &Waker) -> Option<Outcome<R>>;
}

impl<T: Send, F: FnOnce(&mut T) -> R + Send, R: Send> Pending<R> for Call<T, F, R> {
    fn is_done(&self) -> bool {
        matches!(self.state().0, State::Done(_) | State::Gone)
    }

    fn wait(&self) -> Outcome<R> {
        // SAFETY: alive, as the value is.
        let runs_inside = runs_on(unsafe { &*self.poison });
        assert!(
            !runs_inside || self.is_done(),
            "a section waits for a post on its own value, which runs after it"
        );
        match Call::wait(self, None) {
            Some(outcome) => outcome,
            None => panic!("{TAKEN}"),
        }
    }

    fn poll(&self, waker: &Waker) -> Option<Outcome<R>> {
        let mut state = self.state();
        assert!(!matches!(state.0, State::Gone), "{TAKEN}");
        let outcome = Self::take(&mut state.0);
        if outcome.is_none() {
            state.1 = Some(waker.clone());
        }
        outcome
    }
}

/// The result of a section that has been [posted](Delegated::post): a future, or something to [wait](Posted::wait) for. The
/// section runs even if this is dropped.
#[must_use = "a panic of the section is seen here only"]
pub struct Posted<'a, R> {
    call: Arc<dyn Pending<R> + 'a>,
    value: PhantomData<&'a ()>,
}

impl<R> Posted<'_, R> {
    /// Whether the section has run.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.call.is_done()
    }

    /// Waits for the section, and returns what it returned.
    ///
    /// # Panics
    ///
    /// With what the section panicked with; if an earlier section had panicked; in a section on the same value, which the post
    /// would have to wait for; and if the future has given the result.
    pub fn wait(self) -> R {
        self.call.wait().returned()
    }
}

impl<R> Future for Posted<'_, R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        match self.call.poll(context.waker()) {
            Some(outcome) => Poll::Ready(outcome.returned()),
            None => Poll::Pending,
        }
    }
}

impl<R> fmt::Debug for Posted<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Posted").field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}

impl<T: Send, D: Delegate<Native>> Delegated<T, D> {
    /// Leaves a call to be run, by this thread or another. It shares the state with what is returned.
    ///
    /// The caller sees to it that what `section` captures is alive until it is `Done` or `Gone`.
    fn leave<F: FnOnce(&mut T) -> R + Send, R: Send>(&self, section: F) -> Arc<Call<T, F, R>> {
        let call = Arc::new(Call {
            value: self.value.get(),
            poison: &raw const self.poison,
            state: Mutex::new((State::Open(section), None)),
            ended: Condvar::new(),
        });
        let given = Arc::into_raw(Arc::clone(&call)).cast_mut();
        // SAFETY: called once, with the reference given away here; it catches panics, and all that it holds is `Send`.
        let section = unsafe { Section::new(run::<T, F, R>, given.cast()) };
        // SAFETY: as above. No post stays while nobody executes, and whoever executes borrows this value.
        unsafe { self.posts.post(section, &self.delegate.0) };
        call
    }

    /// Leaves `section` to be run on the value, and returns at once, unless this thread can run it itself. Posts of one thread run
    /// in their order.
    ///
    /// ```
    /// use lockwork::Delegated;
    ///
    /// let log = Delegated::new(Vec::new());
    /// let place = log.post(|log| { log.push("one"); log.len() });
    /// assert_eq!(place.wait(), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// If an earlier section panicked, and if the calling thread runs a section on this very value.
    pub fn post<'a, F, R>(&'a self, section: F) -> Posted<'a, R>
    where
        T: 'a,
        F: FnOnce(&mut T) -> R + Send + 'static,
        R: Send + 'static,
    {
        self.admit();
        Posted { call: self.leave(section), value: PhantomData }
    }

    /// Runs `section` on the value, unless nobody has begun it by the time that `timeout` has passed. One that has begun is
    /// waited for.
    ///
    /// ```
    /// use lockwork::{Delegated, RunError};
    /// use std::time::Duration;
    ///
    /// let value = Delegated::new(1);
    /// assert_eq!(value.try_run_for(Duration::from_secs(9), |value| *value + 1), Ok(2));
    /// let again = value.run(|_| value.try_run_for(Duration::from_secs(9), |value| *value));
    /// assert_eq!(again, Err(RunError::Reentered));
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError`]: the section has not run, and will not.
    ///
    /// # Panics
    ///
    /// With what `section` panics with.
    pub fn try_run_for<R: Send>(
        &self,
        timeout: Duration,
        section: impl FnOnce(&mut T) -> R + Send,
    ) -> Result<R, RunError> {
        if runs_on(&self.poison) {
            return Err(RunError::Reentered);
        }
        if self.is_poisoned() {
            return Err(RunError::Poisoned);
        }
        let deadline = Instant::now().checked_add(timeout);
        // What the section borrows is alive while this function runs, and it is gone when `wait` returns.
        match self.leave(section).wait(deadline) {
            None => Err(RunError::TimedOut),
            Some(Outcome::Poisoned) => Err(RunError::Poisoned),
            Some(outcome) => Ok(outcome.returned()),
        }
    }
}
