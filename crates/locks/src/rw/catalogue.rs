//! Every reader-writer lock by name, with what is known of it, and the one place where such a name becomes a type.

use core::fmt;

use lockwork_platform::Platform;

use super::bravo::Bravo;
use super::by_node::variants;
use super::{RwFutex, bravo, futex, linux_rwsem, pf_q, pf_t, ttas};
use crate::api::RawRwLock;
use crate::catalogue::Citation;
use crate::wait::{Spin, SpinThenPark};

/// Who passes whom while both readers and writers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Favour {
    /// Readers pass waiting writers, who may starve.
    Readers,
    /// Readers wait behind waiting writers, and may starve.
    Writers,
    /// Neither starves.
    Neutral,
}

impl fmt::Display for Favour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Readers => "readers",
            Self::Writers => "writers",
            Self::Neutral => "neutral",
        })
    }
}

/// What is known of a reader-writer lock. Every one can be tried, timed and downgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwAlgorithm {
    /// Its name.
    pub name: &'static str,
    /// Who passes whom.
    pub favour: Favour,
    /// How waiters wait: `spin`, `stp` (spin-then-park).
    pub waiting: &'static str,
    /// Whether it keeps something for each NUMA node.
    pub by_node: bool,
    /// The order in which waiters get the lock.
    pub fairness: &'static str,
    /// Bytes of the lock itself, at rest.
    pub bytes: usize,
    /// Bytes of pool memory for each waiting writer.
    pub bytes_per_waiter: usize,
    /// What a timed acquisition does.
    pub timed: &'static str,
    /// How a thread can read again while a writer waits for it, as POSIX promises.
    pub recursion: &'static str,
    /// The publication.
    pub citation: Citation,
    /// One line: how it works.
    pub summary: &'static str,
    /// What to expect of it.
    pub properties: &'static str,
    /// Where this implementation departs from the publication.
    pub deviations: &'static str,
    /// When to choose something else.
    pub avoid: &'static str,
}

impl RwAlgorithm {
    /// Whether new readers wait behind waiting writers, which `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP` asks for.
    #[must_use]
    pub fn bars_readers(&self) -> bool {
        self.favour != Favour::Readers
    }
}

/// A reader-writer lock that can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwLockInfo {
    /// The name in a spec.
    pub name: &'static str,
    /// Which type it is.
    pub id: RwLockId,
    /// What is known of it.
    pub algorithm: &'static RwAlgorithm,
}

/// A reader-writer lock that can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwSpec {
    /// The lock itself.
    pub base: RwLockId,
    /// Whether readers are biased: see [`bravo`].
    pub bravo: bool,
}

impl RwSpec {
    /// What serves reader-writer locks where only a mutex is named.
    pub const DEFAULT: Self = Self::plain(RwLockId::RwFutex);

    /// A lock by itself.
    #[must_use]
    pub const fn plain(base: RwLockId) -> Self {
        Self { base, bravo: false }
    }

    /// A lock with a bias for readers, if that leaves room for it.
    #[must_use]
    pub fn biased(base: RwLockId) -> Option<Self> {
        (base.info().algorithm.bytes <= bravo::LARGEST_INNER).then_some(Self { base, bravo: true })
    }

    /// What is known of the lock, without its bias.
    #[must_use]
    pub fn algorithm(&self) -> &'static RwAlgorithm {
        self.base.info().algorithm
    }

    /// Calls the visitor with the type of the lock that this spec describes.
    pub fn dispatch<P: Platform, V: RwVisitor<P>>(&self, visitor: V) -> V::Output {
        if self.bravo { dispatch(self.base, Biased(visitor)) } else { dispatch(self.base, visitor) }
    }
}

/// Puts the bias around the lock.
struct Biased<V>(V);

impl<P: Platform, V: RwVisitor<P>> RwVisitor<P> for Biased<V> {
    type Output = V::Output;

    fn visit<L: RawRwLock<P> + 'static>(self) -> V::Output {
        self.0.visit::<Bravo<P, L>>()
    }
}

impl fmt::Display for RwSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.base.info().name;
        if self.bravo { write!(f, "{}({name})", bravo::ALGORITHM.name) } else { f.write_str(name) }
    }
}

macro_rules! rw_catalogue {
    ($($id:ident, $algorithm:path, $type:ty;)*) => {
        /// A reader-writer lock.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum RwLockId {
            $(#[allow(missing_docs, reason = "the table names it")] $id,)*
        }

        /// All reader-writer locks.
        pub const RW_LOCKS: &[RwLockInfo] = &[
            $(RwLockInfo { name: $algorithm.name, id: RwLockId::$id, algorithm: &$algorithm },)*
        ];

        /// Calls the visitor with the type of a lock.
        fn dispatch<P: Platform, V: RwVisitor<P>>(id: RwLockId, visitor: V) -> V::Output {
            match id {
                $(RwLockId::$id => visitor.visit::<$type>(),)*
            }
        }
    };
}

rw_catalogue! {
    RwFutex, futex::ALGORITHM, RwFutex<P>;
    RwTtas, ttas::ALGORITHM, ttas::RwTtas<P>;
    PfT, pf_t::ALGORITHM, pf_t::PfT<P>;
    PfQ, pf_q::ALGORITHM, pf_q::PfQ<P, Spin>;
    PfQStp, pf_q::PARKING, pf_q::PfQ<P, SpinThenPark>;
    LinuxRwsem, linux_rwsem::ALGORITHM, linux_rwsem::LinuxRwsem<P>;
    CRwWp, variants::C_RW_WP, variants::CRwWp<P>;
    CRwRp, variants::C_RW_RP, variants::CRwRp<P>;
    CRwNp, variants::C_RW_NP, variants::CRwNp<P>;
    CstRwsem, variants::CST_RWSEM, variants::CstRwsem<P>;
    CstRwsemNeutral, variants::CST_RWSEM_NEUTRAL, variants::CstRwsemNeutral<P>;
}

/// Code that is generic over the lock type. It is compiled once for every lock: what can do without the type belongs
/// outside, behind an [`ErasedRwLock`](crate::erased::ErasedRwLock).
pub trait RwVisitor<P: Platform> {
    /// What it produces.
    type Output;
    /// Called with the type of the lock.
    fn visit<L: RawRwLock<P> + 'static>(self) -> Self::Output;
}

impl RwLockId {
    /// What is known of this lock.
    #[must_use]
    pub fn info(self) -> &'static RwLockInfo {
        // The table has one entry per id, in the order of the enumeration.
        &RW_LOCKS[self as usize]
    }
}

/// The lock of this name, in which underscores count as hyphens.
#[must_use]
pub fn lookup(name: &str) -> Option<&'static RwLockInfo> {
    let fold = |byte: u8| if byte == b'_' { b'-' } else { byte };
    RW_LOCKS.iter().find(|lock| name.bytes().map(fold).eq(lock.name.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_ids_and_names_are_found() {
        for lock in RW_LOCKS {
            assert_eq!(lock.id.info(), lock);
            assert_eq!(lookup(lock.name), Some(lock));
            assert!(crate::catalogue::lookup(lock.name).is_none(), "{} names a mutex, too", lock.name);
        }
        assert_eq!(lookup("rw_ttas").map(|lock| lock.id), Some(RwLockId::RwTtas));
        assert_eq!(lookup("nonsense"), None);
    }
}
