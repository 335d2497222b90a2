//! Waiting for what other sections do.

use std::time::Instant;

use lockwork_locks::delegation::{Delegate, condition};
use lockwork_platform::Native;

use super::Delegated;
use crate::time;

/// What sections on a [`Delegated`] value wait for, until others change it: a condition variable.
///
/// A section that finds that it has to wait ends, so that nobody sleeps in the thread that serves; its requester sleeps, and
/// requests it again after a signal. See [`Delegated::run_when`].
#[derive(Debug, Default)]
pub struct Condition(condition::Condition<Native>);

impl Condition {
    /// A condition that nobody waits for.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes one thread that waits. In a section that changes what is waited for, or after it.
    pub fn notify_one(&self) {
        self.0.signal();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.0.broadcast();
    }
}

impl<T: Send, D: Delegate<Native>> Delegated<T, D> {
    /// Runs `section` on the value until it returns something, and waits for `condition` in between.
    ///
    /// ```
    /// use lockwork::{Condition, Delegated};
    /// use std::thread;
    ///
    /// let (queue, filled) = (Delegated::new(Vec::new()), Condition::new());
    /// thread::scope(|scope| {
    ///     let taken = scope.spawn(|| queue.run_when(&filled, |queue| queue.pop()));
    ///     queue.run(|queue| {
    ///         queue.push(7);
    ///         filled.notify_one();
    ///     });
    ///     assert_eq!(taken.join().unwrap(), 7);
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Delegated::run`].
    pub fn run_when<R: Send>(
        &self,
        condition: &Condition,
        section: impl FnMut(&mut T) -> Option<R> + Send,
    ) -> R {
        match self.run_when_until(condition, None, section) {
            Some(result) => result,
            None => unreachable!("a wait without a deadline ends with a result"),
        }
    }

    /// As [`Delegated::run_when`], until a point in time at most. The section runs once at least.
    ///
    /// # Panics
    ///
    /// As [`Delegated::run`].
    pub fn run_when_until<R: Send>(
        &self,
        condition: &Condition,
        deadline: impl Into<Option<Instant>>,
        mut section: impl FnMut(&mut T) -> Option<R> + Send,
    ) -> Option<R> {
        let deadline = deadline.into().map(time::at);
        let mut is_late = false;
        loop {
            let outcome = self.run(|value| section(value).ok_or_else(|| condition.0.seen()));
            match outcome {
                Ok(result) => return Some(result),
                Err(_) if is_late => return None,
                // What came with the deadline counts: the section looks once more.
                Err(seen) => is_late = condition.0.wait(seen, deadline).is_err(),
            }
        }
    }
}
