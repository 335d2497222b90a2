//! Locks of a simulated machine, by their specs.

use lockwork_locks::api::RawLock;
use lockwork_locks::dispatch::SpecVisitor;
use lockwork_locks::erased::ErasedLock;
use lockwork_locks::knobs::BaseKnobs;
use lockwork_locks::spec::LockSpec;

use crate::platform::Sim;
use crate::simulation::Simulation;

/// A lock in simulated memory.
pub type SimLock = &'static dyn ErasedLock<Sim>;

struct Build<'a>(&'a mut Simulation);

impl SpecVisitor<Sim> for Build<'_> {
    type Output = SimLock;

    fn visit<L: RawLock<Sim> + 'static>(self, new: impl Fn() -> L) -> SimLock {
        self.0.place_named("the lock", new())
    }
}

/// Puts an unlocked lock into a run's memory, on cache lines of its own. Its knobs are still to be set, by a simulated thread
/// ([`ErasedLock::configure`]): that may touch memory.
pub fn build(run: &mut Simulation, spec: &LockSpec) -> SimLock {
    LockSpec { knobs: BaseKnobs::NONE, ..*spec }.dispatch(Build(run))
}
