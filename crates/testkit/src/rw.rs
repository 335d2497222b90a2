//! Every reader-writer lock that tests are run for.

use std::fmt;

use lockwork_locks::RawRwLock;
use lockwork_locks::describe::{Favour, Keeps, Waiting};
use lockwork_locks::registry::{LockId, Spec, Visitor, WrapperId, rwlocks};
use lockwork_locks::rw::RwFutexWriters;
use lockwork_platform::{Native, Platform};

use crate::erased::{AnyRwLock, undropped_rw, zeroed_rw};

/// A lock to test.
#[allow(clippy::large_enum_variant, reason = "a test makes one")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RwSubject {
    /// What a spec names.
    Spec(Spec),
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
const BIASED: &[LockId] = &[LockId::RwTtas, LockId::RwFutex, LockId::CstRwsem];

impl RwSubject {
    /// Every lock of the registry, and what else there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let plain = rwlocks().map(|lock| Spec::plain(lock.id));
        let biased = BIASED.iter().filter_map(|&base| Spec::wrapped(WrapperId::Bravo, base));
        plain.chain(biased).map(Self::Spec).chain([Self::FutexWriters])
    }

    /// Which waiters pass which.
    #[must_use]
    pub fn favour(&self) -> Favour {
        match self {
            Self::Spec(spec) => match spec.rw().expect("a reader-writer lock").favour {
                // All writers of these tests are on one node, and its turn lasts.
                Favour::WritersOfNode => Favour::Writers,
                favour => favour,
            },
            Self::FutexWriters => Favour::Writers,
        }
    }

    /// Whether waiters spin, so that crowds must be small.
    #[must_use]
    pub fn spins(&self) -> bool {
        matches!(self, Self::Spec(spec) if spec.base.info().waiting == Waiting::Spin)
    }

    /// Whether it keeps a block for each NUMA node.
    #[must_use]
    pub fn knows_nodes(&self) -> bool {
        matches!(self, Self::Spec(spec) if spec.descriptor().keeps == Keeps::Parts)
    }

    /// Makes one, by `V`.
    fn visit<P: Platform, V: Visitor<P>>(&self, visitor: V) -> V::Output {
        match self {
            Self::Spec(spec) => spec.dispatch(visitor),
            Self::FutexWriters => visitor.rwlock(RwFutexWriters::<P>::new),
        }
    }

    /// A new one, which is never dropped.
    #[must_use]
    pub fn make_on<P: Platform>(&self) -> AnyRwLock<P> {
        self.visit(Make)
    }

    /// [`RwSubject::make_on`] the real machine. Not generic, as the others here, so that all locks are compiled with the kit, and not
    /// again with every test.
    #[must_use]
    pub fn make(&self) -> AnyRwLock<Native> {
        self.make_on()
    }

    /// One made of nothing but zeros, and dropped.
    #[must_use]
    pub fn zeroed(&self) -> AnyRwLock<Native> {
        self.visit(Zeroed)
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.visit::<Native, _>(Size)
    }
}

struct Make;

impl<P: Platform> Visitor<P> for Make {
    type Output = AnyRwLock<P>;

    fn rwlock<L: RawRwLock<P> + 'static>(self, new: impl Fn() -> L) -> AnyRwLock<P> {
        undropped_rw(new())
    }
}

struct Zeroed;

impl<P: Platform> Visitor<P> for Zeroed {
    type Output = AnyRwLock<P>;

    fn rwlock<L: RawRwLock<P> + 'static>(self, _: impl Fn() -> L) -> AnyRwLock<P> {
        zeroed_rw::<P, L>()
    }
}

struct Size;

impl<P: Platform> Visitor<P> for Size {
    type Output = usize;

    fn rwlock<L: RawRwLock<P> + 'static>(self, _: impl Fn() -> L) -> usize {
        size_of::<L>()
    }
}
