//! From a spec to the type of its lock: the one place where a wrapper is put around a lock.

use lockwork_platform::Platform;

use super::{Spec, Wrapper, WrapperId};
use crate::api::{RawLock, RawRwLock};
use crate::biased::Biased;
use crate::delegation::Delegate;
use crate::knobs::Knobs;
use crate::restrict::gcr::{ByNode, Gcr};
use crate::rw::bravo::Bravo;

/// Code that is generic over the type of a lock, with one method for each kind of lock, and over what makes such locks.
///
/// It is compiled once for every lock and wrapper: what can do without the type belongs outside, behind an
/// [`ErasedLock`](super::erased::ErasedLock). A visitor that is only sent to locks of one kind leaves the other methods as
/// they are.
///
/// # Panics
///
/// A method that the visitor does not have panics, for it is called with a lock that the visitor was not made for.
pub trait Visitor<P: Platform>: Sized {
    /// What it produces.
    type Output;

    /// Called with the type of a mutex; `new` makes an unlocked one that has the knobs of the spec.
    fn mutex<L: RawLock<P> + 'static>(self, new: impl Fn() -> L) -> Self::Output {
        let _ = new;
        panic!("a mutex where a lock of another kind is wanted")
    }

    /// Called with the type of a reader-writer lock.
    fn rwlock<L: RawRwLock<P> + 'static>(self, new: impl Fn() -> L) -> Self::Output {
        let _ = new;
        panic!("a reader-writer lock where a lock of another kind is wanted")
    }

    /// Called with the type of a delegate.
    fn delegate<D: Delegate<P> + 'static>(self, new: impl Fn() -> D) -> Self::Output {
        let _ = new;
        panic!("a delegate where a lock of another kind is wanted")
    }
}

/// The row of a mutex in the table.
pub(super) fn mutex<P: Platform, V: Visitor<P>, L: RawLock<P> + 'static>(visitor: V) -> V::Output {
    visitor.mutex(L::new)
}

/// The row of a reader-writer lock in the table.
pub(super) fn rwlock<P: Platform, V: Visitor<P>, L: RawRwLock<P> + 'static>(visitor: V) -> V::Output {
    visitor.rwlock(L::new)
}

/// The row of a delegate in the table.
pub(super) fn delegate<P: Platform, V: Visitor<P>, D: Delegate<P> + 'static>(visitor: V) -> V::Output {
    visitor.delegate(D::new)
}

impl Spec {
    /// Calls the visitor with the type of the lock that this spec describes.
    pub fn dispatch<P: Platform, V: Visitor<P>>(&self, visitor: V) -> V::Output {
        let &Self { base, knobs, wrapper } = self;
        base.dispatch(Within { knobs, wrapper, visitor })
    }
}

/// Puts the wrapper of a spec around its lock.
struct Within<V> {
    knobs: Knobs,
    wrapper: Option<Wrapper>,
    visitor: V,
}

impl<P: Platform, V: Visitor<P>> Visitor<P> for Within<V> {
    type Output = V::Output;

    fn mutex<L: RawLock<P> + 'static>(self, new: impl Fn() -> L) -> V::Output {
        let Self { knobs, wrapper, visitor } = self;
        let Some(Wrapper { id, knobs: own }) = wrapper else {
            return visitor.mutex(|| configured(new(), &knobs));
        };
        match id {
            WrapperId::Gcr => visitor.mutex(|| configured(Gcr::<P, L>::with_knobs(own), &knobs)),
            WrapperId::GcrNuma => visitor.mutex(|| configured(Gcr::<P, L, ByNode>::with_knobs(own), &knobs)),
            WrapperId::Biased => visitor.mutex(|| configured(Biased::<P, L>::new(), &knobs)),
            WrapperId::Bravo => unreachable!("a wrapper of reader-writer locks"),
        }
    }

    fn rwlock<L: RawRwLock<P> + 'static>(self, new: impl Fn() -> L) -> V::Output {
        match self.wrapper {
            None => self.visitor.rwlock(new),
            Some(_) => self.visitor.rwlock(Bravo::<P, L>::new),
        }
    }
}

/// The lock with its knobs.
fn configured<P: Platform, L: RawLock<P>>(lock: L, knobs: &Knobs) -> L {
    if *knobs != Knobs::NONE {
        lock.configure(knobs);
    }
    lock
}
