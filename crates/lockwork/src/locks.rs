//! All locks, as types.
//!
//! Their properties and publications: `lockwork info NAME`, or the modules of the crate `lockwork-locks`.

use lockwork_locks::adaptive::auto;
use lockwork_locks::blocking::futex::FutexLock;
use lockwork_locks::competitive::{backoff, tas, ttas};
use lockwork_locks::hierarchical::cst;
use lockwork_locks::load::flexguard;
use lockwork_locks::queue::{clh, k42, mcs, ticket};
use lockwork_locks::restrict::gcr;
use lockwork_locks::rw::{RwFutex, RwFutexWriters};
use lockwork_locks::wait::{Aware, Spin, SpinThenPark};
use lockwork_platform::Native;

pub use lockwork_locks::restrict::gcr::Knobs as GcrKnobs;

/// `tas`: test-and-set.
pub type Tas = tas::Tas<Native>;
/// `ttas`: test-and-test-and-set.
pub type Ttas = ttas::Ttas<Native>;
/// `backoff`: test-and-test-and-set with randomised exponential back-off.
pub type Backoff = backoff::Backoff<Native>;
/// `ticket`: FIFO, everybody polls one word.
pub type Ticket = ticket::Ticket<Native>;
/// `clh-spin`: FIFO, each waiter polls its predecessor's node.
pub type ClhSpin = clh::Clh<Native, Spin>;
/// `clh-stp`: FIFO, each waiter waits on its predecessor's node, spins and then sleeps.
pub type ClhStp = clh::Clh<Native, SpinThenPark>;
/// `mcs-spin`: FIFO, each waiter polls a node of its own.
pub type McsSpin = mcs::Mcs<Native, Spin>;
/// `mcs-stp`: FIFO, each waiter has a node of its own, spins and then sleeps.
pub type McsStp = mcs::Mcs<Native, SpinThenPark>;
/// `mcs-aware`: FIFO, each waiter has a node of its own, spins while the one before it runs, and else sleeps.
pub type McsAware = mcs::Mcs<Native, Aware>;
/// `k42-spin`: MCS without a node for the holder, polling.
pub type K42Spin = k42::K42<Native, Spin>;
/// `k42-stp`: MCS without a node for the holder, spinning and then sleeping.
pub type K42Stp = k42::K42<Native, SpinThenPark>;
/// `k42-aware`: MCS without a node for the holder, spinning while the waiter before it runs, and else sleeping.
pub type K42Aware = k42::K42<Native, Aware>;
/// `flexguard`: waiters spin in a queue while the thread they wait for runs, and else sleep; runners overtake sleepers.
pub type FlexGuard = flexguard::FlexGuard<Native>;
/// `futex`: waiters sleep in the kernel, whoever comes first gets the lock.
pub type Futex = FutexLock<Native>;
/// `gcr(…)`: restricts how many threads compete for the lock `L`; the others sleep in a queue.
pub type Gcr<L> = gcr::Gcr<Native, L>;
/// `gcr-numa(…)`: as [`Gcr`], and prefers the threads of one NUMA node for a time.
pub type GcrNuma<L> = gcr::Gcr<Native, L, gcr::ByNode>;

/// The reader-writer lock in which readers pass waiting writers: a reader may lock again, and writers may
/// starve.
pub type RwPreferReaders = RwFutex<Native>;
/// The reader-writer lock in which readers wait behind waiting writers: a reader that locks again may
/// deadlock, and readers may starve.
pub type RwPreferWriters = RwFutexWriters<Native>;

/// `cst-mutex`: a queue for each NUMA node, in which a release passes over waiters that sleep.
pub type CstMutex = cst::Cst<Native>;

/// `auto`: measures which way does best, by NUMA node, in one queue or barging, and goes that way.
pub type Auto = auto::Auto<Native>;

/// The lock that [`Mutex`](crate::Mutex) uses unless another is named: `auto`, the default of `lockwork run`.
pub type DefaultLock = Auto;
