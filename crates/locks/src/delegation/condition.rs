//! Conditions of delegated values: a section that finds that it has to wait ends, and its requester waits and requests it again.
//!
//! So nobody sleeps inside a section, and a combiner or server is never held up by one that waits.
//!
//! # State
//!
//! A number that changes with every signal. A requester takes it in its section, and sleeps while it is the same.
//!
//! # Invariants
//!
//! - I1: whoever makes true what requesters wait for does so in a section, and signals in it or afterwards. A requester whose
//!   section was before that one has taken the number from before the signal, and does not sleep, or is woken.
//!
//! A wake-up may be meant for another requester, as POSIX's may: sections look again.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, AtomicInt, Deadline, FutexCell, Platform, TimedOut};

/// What sections wait for. All-zero memory is one that nobody waits for.
#[repr(transparent)]
pub struct Condition<P: Platform> {
    signals: P::Futex,
}

impl<P: Platform> core::fmt::Debug for Condition<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Condition").field("signals", &self.signals.load(Relaxed)).finish()
    }
}

/// What a section has seen of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u32);

impl<P: Platform> Condition<P> {
    /// A condition that nobody waits for.
    #[must_use]
    pub fn new() -> Self {
        Self { signals: P::Futex::new(0) }
    }

    /// What [`Condition::wait`] needs. In the section that finds that it has to wait.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen(self.signals.load(Relaxed)) // ORDER: sections are ordered by their delegate (I1).
    }

    /// Sleeps until there has been a signal since `seen`, and perhaps for a shorter time.
    ///
    /// # Errors
    ///
    /// [`TimedOut`] at the deadline.
    pub fn wait(&self, seen: Seen, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        self.signals.wait(seen.0, deadline)
    }

    /// Wakes one requester that waits.
    pub fn signal(&self) {
        self.wake(1);
    }

    /// Wakes all requesters that wait.
    pub fn broadcast(&self) {
        self.wake(u32::MAX);
    }

    fn wake(&self, most: u32) {
        self.signals.fetch_add(1, Relaxed); // ORDER: as in `seen`: what has become true did so in a section.
        // SAFETY: the condition is alive.
        unsafe { FutexCell::wake(ptr::from_ref(&self.signals), most) };
    }
}

impl<P: Platform> Default for Condition<P> {
    fn default() -> Self {
        Self::new()
    }
}
