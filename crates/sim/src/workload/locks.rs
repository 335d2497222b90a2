//! Locks of a simulated machine, by their specs.

use lockwork_locks::api::RawLock;
use lockwork_locks::biased::Biased;
use lockwork_locks::catalogue::{Visitor, dispatch};
use lockwork_locks::erased::ErasedLock;
use lockwork_locks::restrict::gcr::{ByNode, Gcr};
use lockwork_locks::spec::{LockSpec, Wrapper};

use crate::platform::Sim;
use crate::simulation::Simulation;

/// A lock in simulated memory.
pub type SimLock = &'static dyn ErasedLock<Sim>;

struct Build<'a> {
    run: &'a mut Simulation,
    wrapper: Option<Wrapper>,
}

impl Build<'_> {
    fn place<L: RawLock<Sim> + 'static>(self, lock: L) -> SimLock {
        self.run.place_named("the lock", lock)
    }
}

impl Visitor<Sim> for Build<'_> {
    type Output = SimLock;

    fn visit<L: RawLock<Sim> + 'static>(self) -> SimLock {
        match self.wrapper {
            None => self.place(L::new()),
            Some(Wrapper::Gcr(knobs)) => self.place(Gcr::<Sim, L>::with_knobs(knobs)),
            Some(Wrapper::GcrNuma(knobs)) => self.place(Gcr::<Sim, L, ByNode>::with_knobs(knobs)),
            Some(Wrapper::Biased) => self.place(Biased::<Sim, L>::new()),
        }
    }
}

/// Puts an unlocked lock into a run's memory, on cache lines of its own. Its knobs are still to be set, by a simulated thread
/// ([`ErasedLock::configure`]): that may touch memory.
pub fn build(run: &mut Simulation, spec: &LockSpec) -> SimLock {
    dispatch(spec.base, Build { run, wrapper: spec.wrapper })
}
