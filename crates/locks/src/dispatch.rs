//! From a lock spec to the type of its lock: the one place where a wrapper is put around a base lock.

use lockwork_platform::Platform;

use crate::api::RawLock;
use crate::biased::Biased;
use crate::catalogue::{self, Visitor};
use crate::knobs::BaseKnobs;
use crate::restrict::gcr::{ByNode, Gcr};
use crate::spec::{LockSpec, Wrapper};

/// Code that is generic over the type of the lock that a spec describes, and over what makes such locks.
///
/// It is compiled once for every lock and wrapper: what can do without the type belongs outside, behind an
/// [`ErasedLock`](crate::erased::ErasedLock).
pub trait SpecVisitor<P: Platform> {
    /// What it produces.
    type Output;
    /// Called with the type of the lock; `new` makes an unlocked one that has the knobs of the spec.
    fn visit<L: RawLock<P> + 'static>(self, new: impl Fn() -> L) -> Self::Output;
}

impl LockSpec {
    /// Calls the visitor with the type of the lock that this spec describes.
    pub fn dispatch<P: Platform, V: SpecVisitor<P>>(&self, visitor: V) -> V::Output {
        catalogue::dispatch(self.base, Wrap { spec: self, visitor })
    }
}

/// Puts the wrapper of a spec around its base lock.
struct Wrap<'a, V> {
    spec: &'a LockSpec,
    visitor: V,
}

impl<P: Platform, V: SpecVisitor<P>> Visitor<P> for Wrap<'_, V> {
    type Output = V::Output;

    fn visit<L: RawLock<P> + 'static>(self) -> V::Output {
        let LockSpec { knobs, wrapper, .. } = self.spec;
        match *wrapper {
            None => self.visitor.visit(|| configured(L::new(), knobs)),
            Some(Wrapper::Gcr(gcr)) => self.visitor.visit(|| configured(Gcr::<P, L>::with_knobs(gcr), knobs)),
            Some(Wrapper::GcrNuma(gcr)) => {
                self.visitor.visit(|| configured(Gcr::<P, L, ByNode>::with_knobs(gcr), knobs))
            }
            Some(Wrapper::Biased) => self.visitor.visit(|| configured(Biased::<P, L>::new(), knobs)),
        }
    }
}

/// The lock with its knobs.
fn configured<P: Platform, L: RawLock<P>>(lock: L, knobs: &BaseKnobs) -> L {
    if *knobs != BaseKnobs::NONE {
        lock.configure(knobs);
    }
    lock
}
