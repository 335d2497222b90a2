//! Who is passive, and which of them come first: the one difference between GCR and GCR-NUMA.

use core::fmt::Debug;

use lockwork_platform::Platform;

use super::knobs::Knobs;
use crate::api::RawLock;
use crate::hierarchical::combinations::CMcsMcs;
use crate::hierarchical::part::Part;
use crate::knobs::BaseKnobs;
use crate::queue::mcs::Mcs;
use crate::wait::SpinThenPark;

/// A passive set.
pub trait Passive<P: Platform>: Debug + Send + Sync + 'static {
    /// A lock whose holder is the first of the passive threads, and whose waiters are the others.
    type Queue: Part<P>;
    /// Whether threads of one node are preferred for a time.
    const BY_NODE: bool;

    /// An empty set.
    fn queue() -> Self::Queue {
        <Self::Queue as RawLock<P>>::new()
    }

    /// Prepares a set that nobody uses yet.
    fn configure(queue: &Self::Queue, knobs: &Knobs);
}

/// One queue for all (`gcr`).
#[derive(Debug)]
pub struct Together;

/// A queue for each NUMA node, and a turn that goes round (`gcr-numa`).
#[derive(Debug)]
pub struct ByNode;

impl<P: Platform> Passive<P> for Together {
    type Queue = Mcs<P, SpinThenPark>;
    const BY_NODE: bool = false;

    fn configure(_queue: &Self::Queue, _knobs: &Knobs) {}
}

impl<P: Platform> Passive<P> for ByNode {
    type Queue = CMcsMcs<P, SpinThenPark>;
    const BY_NODE: bool = true;

    fn configure(queue: &Self::Queue, knobs: &Knobs) {
        queue
            .configure(&BaseKnobs { pass_limit: Some(knobs.turn.unwrap_or(Knobs::TURN)), ..BaseKnobs::NONE });
    }
}
