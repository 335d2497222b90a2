//! Any lock as a delegate: the requester runs its section itself, with the lock held.
//!
//! What delegation is measured against: the same closures, run in place.

use core::marker::PhantomData;

use lockwork_platform::Platform;

use super::{Attempt, Delegate, Section, acquire_inside, release_held, run_inside, try_run_inside};
use crate::api::{Held, RawLock};
use crate::describe::{Capabilities, Citation, Descriptor, Family, Kind, Order, Timed};
use crate::knobs::Knobs;

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "locked",
    kind: Kind::Delegate,
    capabilities: Capabilities { interposable: false, ..Capabilities::LOCK },
    family: Family::InPlace,
    order: Order::OfInner,
    timed: Timed::GivesUp("while its section has not begun"),
    citation: Citation { key: "", text: "folklore" },
    summary: "the requester runs its section itself, with the lock inside held",
    properties: "what the others are measured against: the same closures, run in place",
    avoid: "sections that touch much shared data, under contention: the data travels to every requester",
    ..Descriptor::MUTEX
};

/// The lock `L`, held around each section.
#[derive(Debug)]
pub struct Locked<P, L> {
    lock: L,
    platform: PhantomData<P>,
}

impl<P, L> Locked<P, L> {
    /// Sections under `lock`, which is free.
    #[must_use]
    pub fn over(lock: L) -> Self {
        Self { lock, platform: PhantomData }
    }
}

// SAFETY: the lock's guarantees.
unsafe impl<P: Platform, L: RawLock<P>> Delegate<P> for Locked<P, L> {
    fn new() -> Self {
        Self { lock: L::new(), platform: PhantomData }
    }

    fn configure(&self, knobs: &Knobs) {
        self.lock.configure(knobs);
    }

    unsafe fn execute(&self, section: Section) {
        // SAFETY: the caller's contract.
        unsafe { run_inside::<P, _>(&self.lock, section) };
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        // SAFETY: the caller's contract.
        unsafe { try_run_inside::<P, _>(&self.lock, section) }
    }

    fn acquire(&self) -> Option<Held> {
        Some(acquire_inside::<P, _>(&self.lock))
    }

    fn try_acquire(&self) -> Attempt {
        Attempt::by::<P, _>(self.lock.try_lock())
    }

    unsafe fn release(&self, held: Held) {
        // SAFETY: the caller's contract.
        unsafe { release_held::<P, _>(&self.lock, held) };
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.lock.dispose() };
    }

    fn is_busy(&self) -> bool {
        self.lock.is_locked()
    }
}
