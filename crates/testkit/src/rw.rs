//! Every reader-writer lock that tests are run for.

use std::fmt;

use lockwork_locks::RawRwLock;
use lockwork_locks::rw::RwFutexWriters;
use lockwork_locks::rw::catalogue::{Favour, RW_LOCKS, RwLockId, RwSpec, RwVisitor};
use lockwork_platform::Platform;

use crate::erased::{AnyRwLock, undropped_rw, zeroed_rw};

/// A lock to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RwSubject {
    /// What a spec names.
    Spec(RwSpec),
    /// `rw-futex` where writers are preferred.
    FutexWriters,
}

impl fmt::Display for RwSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(spec) => spec.fmt(f),
            Self::FutexWriters => f.write_str("rw-futex, writers preferred"),
        }
    }
}

/// Locks that are tested with a bias, too.
const BIASED: &[RwLockId] = &[RwLockId::RwTtas, RwLockId::RwFutex, RwLockId::CstRwsem];

impl RwSubject {
    /// Every lock of the catalogue, and what else there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_catalogue = RW_LOCKS.iter().map(|lock| RwSpec::plain(lock.id));
        let biased = BIASED.iter().filter_map(|&base| RwSpec::biased(base));
        of_catalogue.chain(biased).map(Self::Spec).chain([Self::FutexWriters])
    }

    /// Who passes whom.
    #[must_use]
    pub fn favour(&self) -> Favour {
        match self {
            Self::Spec(spec) => spec.algorithm().favour,
            Self::FutexWriters => Favour::Writers,
        }
    }

    /// Whether waiters spin, so that crowds must be small.
    #[must_use]
    pub fn spins(&self) -> bool {
        matches!(self, Self::Spec(spec) if spec.algorithm().waiting == "spin")
    }

    /// Whether it keeps something for each NUMA node.
    #[must_use]
    pub fn knows_nodes(&self) -> bool {
        matches!(self, Self::Spec(spec) if spec.algorithm().by_node)
    }

    /// Makes one, by `V`.
    fn visit<P: Platform, V: RwVisitor<P>>(&self, visitor: V) -> V::Output {
        match self {
            Self::Spec(spec) => spec.dispatch(visitor),
            Self::FutexWriters => visitor.visit::<RwFutexWriters<P>>(),
        }
    }

    /// A new one, which is never dropped.
    #[must_use]
    pub fn make<P: Platform>(&self) -> AnyRwLock<P> {
        self.visit(Make)
    }

    /// One made of nothing but zeros, and dropped.
    #[must_use]
    pub fn zeroed<P: Platform>(&self) -> AnyRwLock<P> {
        self.visit(Zeroed)
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size<P: Platform>(&self) -> usize {
        self.visit::<P, _>(Size)
    }
}

struct Make;

impl<P: Platform> RwVisitor<P> for Make {
    type Output = AnyRwLock<P>;

    fn visit<L: RawRwLock<P> + 'static>(self) -> AnyRwLock<P> {
        undropped_rw(L::new())
    }
}

struct Zeroed;

impl<P: Platform> RwVisitor<P> for Zeroed {
    type Output = AnyRwLock<P>;

    fn visit<L: RawRwLock<P> + 'static>(self) -> AnyRwLock<P> {
        zeroed_rw::<P, L>()
    }
}

struct Size;

impl<P: Platform> RwVisitor<P> for Size {
    type Output = usize;

    fn visit<L: RawRwLock<P> + 'static>(self) -> usize {
        size_of::<L>()
    }
}
