//! The condition variable that works with every mutex of this crate.

use std::fmt;
use std::time::{Duration, Instant};

use lockwork_locks::cond::{Cond, Outcome};
use lockwork_platform::{Deadline, Native};

use crate::lock::Lock;
use crate::mutex::MutexGuard;
use crate::profile::{self, Place};
use crate::time;

/// A place to wait until another thread has changed what a [`Mutex`](crate::Mutex) protects.
///
/// Waiters are woken in the order in which they came. One condition may be used with several mutexes of any lock.
///
/// ```
/// use lockwork::{Condvar, Mutex};
/// use std::thread;
///
/// static READY: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
///
/// let other = thread::spawn(|| {
///     let mut ready = READY.0.lock();
///     READY.1.wait_while(&mut ready, |ready| !*ready);
/// });
/// *READY.0.lock() = true;
/// READY.1.notify_one();
/// other.join().unwrap();
/// ```
pub struct Condvar(Cond<Native>);

/// How a wait with a deadline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// By a notification.
    Notified,
    /// By the deadline; no notification was spent.
    TimedOut,
}

impl Condvar {
    /// A condition nobody waits for.
    #[must_use]
    pub const fn new() -> Self {
        // SAFETY: all-zero memory is a condition without waiters.
        Self(unsafe { core::mem::zeroed() })
    }

    /// Unlocks the guard's mutex, waits for a notification, and locks again.
    #[inline]
    pub fn wait<T: ?Sized, L: Lock>(&self, guard: &mut MutexGuard<'_, T, L>) {
        self.wait_by(guard, Place::here(), None);
    }

    /// Waits until `condition` is false. It is called with the mutex locked.
    #[inline]
    pub fn wait_while<T: ?Sized, L: Lock>(
        &self,
        guard: &mut MutexGuard<'_, T, L>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// As [`Condvar::wait`], for at most `timeout` (locking again may take longer).
    #[inline]
    pub fn wait_for<T: ?Sized, L: Lock>(
        &self,
        guard: &mut MutexGuard<'_, T, L>,
        timeout: Duration,
    ) -> Wakeup {
        self.wait_by(guard, Place::here(), Some(time::after(timeout)))
    }

    /// As [`Condvar::wait`], until `deadline` (locking again may take longer).
    #[inline]
    pub fn wait_until<T: ?Sized, L: Lock>(
        &self,
        guard: &mut MutexGuard<'_, T, L>,
        deadline: Instant,
    ) -> Wakeup {
        self.wait_by(guard, Place::here(), Some(time::at(deadline)))
    }

    /// Wakes the thread that has waited longest, if there is one.
    pub fn notify_one(&self) {
        self.0.signal();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.broadcast();
    }

    fn wait_by<T: ?Sized, L: Lock>(
        &self,
        guard: &mut MutexGuard<'_, T, L>,
        place: Place,
        deadline: Option<Deadline>,
    ) -> Wakeup {
        profile::wait_begins(place);
        let cond = std::ptr::from_ref(self).addr();
        let outcome = MutexGuard::wait_with(guard, cond, |address, unlock, relock| {
            self.0.wait(address, deadline, &(), unlock, relock)
        });
        if outcome == Outcome::TimedOut { Wakeup::TimedOut } else { Wakeup::Notified }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
