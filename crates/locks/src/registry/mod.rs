//! Every lock by name, with what is known of it: the one place that imports the locks, and the one where a name becomes a type.
//!
//! A new lock is a row of the table below. Its capabilities, knobs and properties are in its own file
//! ([`describe`](crate::describe)).

mod choice;
mod delegates;
pub mod erased;
mod error;
mod parse;
mod spec;
mod visit;

use lockwork_platform::Platform;

pub use choice::Choice;
pub use delegates::DelegateSpec;
pub use error::{SpecError, nearest};
pub use spec::{Spec, Wrapper};
pub use visit::Visitor;

use crate::adaptive::auto;
use crate::blocking::{adaptive, futex, linux, mutexee};
use crate::competitive::{backoff, hbo, tas, ttas, two_phase};
use crate::delegation::{cc_synch, dsm_synch, fc, fc_list, ffwd, h_synch, oyama, p_sim, rcl, sanl};
use crate::describe::{Descriptor, Kind, Waiting};
use crate::hierarchical::{ahmcs, cna, combinations, cst, fc_mcs, fissile, hclh, hmcs, hticket, shfl};
use crate::load::{flexguard, glk, lc, malth};
use crate::queue::{alock, clh, hemlock, k42, mcs, mcs_timepub, mcs_try, ptl, reciprocating, ticket, twa};
use crate::rw::by_node::variants;
use crate::wait::{Aware, Park, Spin, SpinForWriting, SpinThenPark, Yield};
use crate::{biased, restrict::gcr, rw};

/// The delegate that is used where none is named.
pub const DEFAULT_DELEGATE: LockId = LockId::CcSynch;

/// The lock that `lockwork run` uses when nobody says otherwise.
pub const DEFAULT: &str = "auto";

/// What serves reader-writer locks where only a mutex is named.
pub const DEFAULT_RWLOCK: LockId = LockId::RwFutex;

/// A lock that can be asked for by name: one algorithm with one waiting policy.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name in a lock spec.
    pub name: &'static str,
    /// Which type it is.
    pub id: LockId,
    /// How waiters wait.
    pub waiting: Waiting,
    /// What is known of the algorithm.
    pub descriptor: &'static Descriptor,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

macro_rules! table {
    ($($kind:ident $id:ident, $name:literal, $waiting:ident, $descriptor:path, $type:ty;)*) => {
        /// A lock without a wrapper.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum LockId {
            $(#[doc = $name] $id,)*
        }

        /// All locks of all kinds, without wrappers.
        pub const LOCKS: &[Entry] = &[
            $(Entry { name: $name, id: LockId::$id, waiting: Waiting::$waiting, descriptor: &$descriptor },)*
        ];

        impl LockId {
            /// Calls the visitor with the type of the lock.
            pub fn dispatch<P: Platform, V: Visitor<P>>(self, visitor: V) -> V::Output {
                match self {
                    $(Self::$id => visit::$kind::<P, V, $type>(visitor),)*
                }
            }
        }
    };
}

table! {
    mutex Tas, "tas", Spin, tas::DESCRIPTOR, tas::Tas<P>;
    mutex TasLs, "tas-ls", Spin, tas::LIBSLOCK, tas::TasLs<P>;
    mutex Ttas, "ttas", Spin, ttas::DESCRIPTOR, ttas::Ttas<P>;
    mutex TtasLs, "ttas-ls", Spin, ttas::LIBSLOCK, ttas::TtasLs<P>;
    mutex Backoff, "backoff", Spin, backoff::DESCRIPTOR, backoff::Backoff<P>;
    mutex TwoPhase, "two-phase", Yield, two_phase::DESCRIPTOR, two_phase::TwoPhase<P>;
    mutex Hbo, "hbo", Spin, hbo::DESCRIPTOR, hbo::Hbo<P>;
    mutex Ticket, "ticket", Spin, ticket::DESCRIPTOR, ticket::Ticket<P>;
    mutex TicketLs, "ticket-ls", Spin, ticket::LIBSLOCK, ticket::Ticket<P, ticket::Proportional>;
    mutex Alock, "alock", Spin, alock::DESCRIPTOR, alock::Alock<P>;
    mutex Twa, "twa", Spin, twa::DESCRIPTOR, twa::Twa<P>;
    mutex Ptl, "ptl", Spin, ptl::DESCRIPTOR, ptl::Ptl<P>;
    mutex ClhSpin, "clh-spin", Spin, clh::DESCRIPTOR, clh::Clh<P, Spin>;
    mutex ClhLs, "clh-ls", Spin, clh::LIBSLOCK, clh::Clh<P, SpinForWriting>;
    mutex ClhStp, "clh-stp", SpinThenPark, clh::DESCRIPTOR, clh::Clh<P, SpinThenPark>;
    mutex ClhPark, "clh-park", Park, clh::DESCRIPTOR, clh::Clh<P, Park>;
    mutex ClhYield, "clh-yield", Yield, clh::DESCRIPTOR, clh::Clh<P, Yield>;
    mutex ClhAware, "clh-aware", Aware, clh::DESCRIPTOR, clh::Clh<P, Aware>;
    mutex McsSpin, "mcs-spin", Spin, mcs::DESCRIPTOR, mcs::Mcs<P, Spin>;
    mutex McsLs, "mcs-ls", Spin, mcs::LIBSLOCK, mcs::Mcs<P, SpinForWriting>;
    mutex McsStp, "mcs-stp", SpinThenPark, mcs::DESCRIPTOR, mcs::Mcs<P, SpinThenPark>;
    mutex McsPark, "mcs-park", Park, mcs::DESCRIPTOR, mcs::Mcs<P, Park>;
    mutex McsYield, "mcs-yield", Yield, mcs::DESCRIPTOR, mcs::Mcs<P, Yield>;
    mutex McsAware, "mcs-aware", Aware, mcs::DESCRIPTOR, mcs::Mcs<P, Aware>;
    mutex McsTimepub, "mcs-timepub", Spin, mcs_timepub::DESCRIPTOR, mcs_timepub::McsTimepub<P>;
    mutex McsTrySpin, "mcs-try-spin", Spin, mcs_try::DESCRIPTOR, mcs_try::McsTry<P, Spin>;
    mutex McsTryStp, "mcs-try-stp", SpinThenPark, mcs_try::DESCRIPTOR, mcs_try::McsTry<P, SpinThenPark>;
    mutex McsTryPark, "mcs-try-park", Park, mcs_try::DESCRIPTOR, mcs_try::McsTry<P, Park>;
    mutex McsTryYield, "mcs-try-yield", Yield, mcs_try::DESCRIPTOR, mcs_try::McsTry<P, Yield>;
    mutex McsTryAware, "mcs-try-aware", Aware, mcs_try::DESCRIPTOR, mcs_try::McsTry<P, Aware>;
    mutex K42Spin, "k42-spin", Spin, k42::DESCRIPTOR, k42::K42<P, Spin>;
    mutex K42Stp, "k42-stp", SpinThenPark, k42::DESCRIPTOR, k42::K42<P, SpinThenPark>;
    mutex K42Park, "k42-park", Park, k42::DESCRIPTOR, k42::K42<P, Park>;
    mutex K42Yield, "k42-yield", Yield, k42::DESCRIPTOR, k42::K42<P, Yield>;
    mutex K42Aware, "k42-aware", Aware, k42::DESCRIPTOR, k42::K42<P, Aware>;
    mutex HemlockSpin, "hemlock-spin", Spin, hemlock::DESCRIPTOR, hemlock::Hemlock<P, Spin>;
    mutex HemlockStp, "hemlock-stp", SpinThenPark, hemlock::DESCRIPTOR, hemlock::Hemlock<P, SpinThenPark>;
    mutex HemlockPark, "hemlock-park", Park, hemlock::DESCRIPTOR, hemlock::Hemlock<P, Park>;
    mutex HemlockYield, "hemlock-yield", Yield, hemlock::DESCRIPTOR, hemlock::Hemlock<P, Yield>;
    mutex HemlockAware, "hemlock-aware", Aware, hemlock::DESCRIPTOR, hemlock::Hemlock<P, Aware>;
    mutex ReciprocatingSpin, "reciprocating-spin", Spin, reciprocating::DESCRIPTOR, reciprocating::Reciprocating<P, Spin>;
    mutex ReciprocatingStp, "reciprocating-stp", SpinThenPark, reciprocating::DESCRIPTOR, reciprocating::Reciprocating<P, SpinThenPark>;
    mutex ReciprocatingPark, "reciprocating-park", Park, reciprocating::DESCRIPTOR, reciprocating::Reciprocating<P, Park>;
    mutex ReciprocatingYield, "reciprocating-yield", Yield, reciprocating::DESCRIPTOR, reciprocating::Reciprocating<P, Yield>;
    mutex ReciprocatingAware, "reciprocating-aware", Aware, reciprocating::DESCRIPTOR, reciprocating::Reciprocating<P, Aware>;
    mutex MalthSpin, "malth-spin", Spin, malth::DESCRIPTOR, malth::Malth<P, Spin>;
    mutex MalthStp, "malth-stp", SpinThenPark, malth::DESCRIPTOR, malth::Malth<P, SpinThenPark>;
    mutex MalthPark, "malth-park", Park, malth::DESCRIPTOR, malth::Malth<P, Park>;
    mutex MalthYield, "malth-yield", Yield, malth::DESCRIPTOR, malth::Malth<P, Yield>;
    mutex MalthAware, "malth-aware", Aware, malth::DESCRIPTOR, malth::Malth<P, Aware>;
    mutex CnaSpin, "cna-spin", Spin, cna::DESCRIPTOR, cna::Cna<P, Spin>;
    mutex CnaStp, "cna-stp", SpinThenPark, cna::DESCRIPTOR, cna::Cna<P, SpinThenPark>;
    mutex CnaPark, "cna-park", Park, cna::DESCRIPTOR, cna::Cna<P, Park>;
    mutex CnaYield, "cna-yield", Yield, cna::DESCRIPTOR, cna::Cna<P, Yield>;
    mutex CnaAware, "cna-aware", Aware, cna::DESCRIPTOR, cna::Cna<P, Aware>;
    mutex FissileSpin, "fissile-spin", Spin, fissile::DESCRIPTOR, fissile::Fissile<P, Spin>;
    mutex FissileStp, "fissile-stp", SpinThenPark, fissile::DESCRIPTOR, fissile::Fissile<P, SpinThenPark>;
    mutex FcMcsSpin, "fc-mcs-spin", Spin, fc_mcs::DESCRIPTOR, fc_mcs::FcMcs<P, Spin>;
    mutex FcMcsStp, "fc-mcs-stp", SpinThenPark, fc_mcs::DESCRIPTOR, fc_mcs::FcMcs<P, SpinThenPark>;
    mutex FcMcsPark, "fc-mcs-park", Park, fc_mcs::DESCRIPTOR, fc_mcs::FcMcs<P, Park>;
    mutex FcMcsYield, "fc-mcs-yield", Yield, fc_mcs::DESCRIPTOR, fc_mcs::FcMcs<P, Yield>;
    mutex FcMcsAware, "fc-mcs-aware", Aware, fc_mcs::DESCRIPTOR, fc_mcs::FcMcs<P, Aware>;
    mutex HclhSpin, "hclh-spin", Spin, hclh::DESCRIPTOR, hclh::Hclh<P, Spin>;
    mutex HclhStp, "hclh-stp", SpinThenPark, hclh::DESCRIPTOR, hclh::Hclh<P, SpinThenPark>;
    mutex HclhPark, "hclh-park", Park, hclh::DESCRIPTOR, hclh::Hclh<P, Park>;
    mutex HclhYield, "hclh-yield", Yield, hclh::DESCRIPTOR, hclh::Hclh<P, Yield>;
    mutex HclhAware, "hclh-aware", Aware, hclh::DESCRIPTOR, hclh::Hclh<P, Aware>;
    mutex ShflSpin, "shfl-spin", Spin, shfl::DESCRIPTOR, shfl::Shfl<P, Spin>;
    mutex ShflStp, "shfl-stp", SpinThenPark, shfl::DESCRIPTOR, shfl::Shfl<P, SpinThenPark>;
    mutex CstMutex, "cst-mutex", SpinThenPark, cst::DESCRIPTOR, cst::Cst<P>;
    mutex Auto, "auto", SpinThenPark, auto::DESCRIPTOR, auto::Auto<P>;
    mutex Glk, "glk", SpinThenPark, glk::DESCRIPTOR, glk::Glk<P>;
    mutex Lc, "lc", SpinThenPark, lc::DESCRIPTOR, lc::Lc<P>;
    mutex FlexGuard, "flexguard", Aware, flexguard::DESCRIPTOR, flexguard::FlexGuard<P>;
    mutex Futex, "futex", Park, futex::DESCRIPTOR, futex::FutexLock<P>;
    mutex FutexAdaptive, "futex-adaptive", SpinThenPark, adaptive::DESCRIPTOR, adaptive::FutexAdaptive<P>;
    mutex LinuxMutex, "linux-mutex", SpinThenPark, linux::DESCRIPTOR, linux::LinuxMutex<P>;
    mutex Mutexee, "mutexee", SpinThenPark, mutexee::DESCRIPTOR, mutexee::Mutexee<P>;
    mutex CBoMcsSpin, "c-bo-mcs-spin", Spin, combinations::C_BO_MCS, combinations::CBoMcs<P, Spin>;
    mutex CBoMcsStp, "c-bo-mcs-stp", SpinThenPark, combinations::C_BO_MCS, combinations::CBoMcs<P, SpinThenPark>;
    mutex CBoMcsPark, "c-bo-mcs-park", Park, combinations::C_BO_MCS, combinations::CBoMcs<P, Park>;
    mutex CBoMcsYield, "c-bo-mcs-yield", Yield, combinations::C_BO_MCS, combinations::CBoMcs<P, Yield>;
    mutex CBoMcsAware, "c-bo-mcs-aware", Aware, combinations::C_BO_MCS, combinations::CBoMcs<P, Aware>;
    mutex CTktTkt, "c-tkt-tkt", Spin, combinations::C_TKT_TKT, combinations::CTktTkt<P>;
    mutex HTicketLs, "hticket-ls", Spin, hticket::LIBSLOCK, hticket::HTicket<P>;
    mutex CPtlTkt, "c-ptl-tkt", Spin, combinations::C_PTL_TKT, combinations::CPtlTkt<P>;
    mutex CTktMcsSpin, "c-tkt-mcs-spin", Spin, combinations::C_TKT_MCS, combinations::CTktMcs<P, Spin>;
    mutex CTktMcsStp, "c-tkt-mcs-stp", SpinThenPark, combinations::C_TKT_MCS, combinations::CTktMcs<P, SpinThenPark>;
    mutex CTktMcsPark, "c-tkt-mcs-park", Park, combinations::C_TKT_MCS, combinations::CTktMcs<P, Park>;
    mutex CTktMcsYield, "c-tkt-mcs-yield", Yield, combinations::C_TKT_MCS, combinations::CTktMcs<P, Yield>;
    mutex CTktMcsAware, "c-tkt-mcs-aware", Aware, combinations::C_TKT_MCS, combinations::CTktMcs<P, Aware>;
    mutex CMcsMcsSpin, "c-mcs-mcs-spin", Spin, combinations::C_MCS_MCS, combinations::CMcsMcs<P, Spin>;
    mutex CMcsMcsStp, "c-mcs-mcs-stp", SpinThenPark, combinations::C_MCS_MCS, combinations::CMcsMcs<P, SpinThenPark>;
    mutex CMcsMcsPark, "c-mcs-mcs-park", Park, combinations::C_MCS_MCS, combinations::CMcsMcs<P, Park>;
    mutex CMcsMcsYield, "c-mcs-mcs-yield", Yield, combinations::C_MCS_MCS, combinations::CMcsMcs<P, Yield>;
    mutex CMcsMcsAware, "c-mcs-mcs-aware", Aware, combinations::C_MCS_MCS, combinations::CMcsMcs<P, Aware>;
    mutex HmcsSpin, "hmcs-spin", Spin, hmcs::DESCRIPTOR, hmcs::Hmcs<P, Spin>;
    mutex HmcsStp, "hmcs-stp", SpinThenPark, hmcs::DESCRIPTOR, hmcs::Hmcs<P, SpinThenPark>;
    mutex HmcsPark, "hmcs-park", Park, hmcs::DESCRIPTOR, hmcs::Hmcs<P, Park>;
    mutex HmcsYield, "hmcs-yield", Yield, hmcs::DESCRIPTOR, hmcs::Hmcs<P, Yield>;
    mutex HmcsAware, "hmcs-aware", Aware, hmcs::DESCRIPTOR, hmcs::Hmcs<P, Aware>;
    mutex AhmcsSpin, "ahmcs-spin", Spin, ahmcs::DESCRIPTOR, ahmcs::Ahmcs<P, Spin>;
    mutex AhmcsStp, "ahmcs-stp", SpinThenPark, ahmcs::DESCRIPTOR, ahmcs::Ahmcs<P, SpinThenPark>;
    mutex AhmcsPark, "ahmcs-park", Park, ahmcs::DESCRIPTOR, ahmcs::Ahmcs<P, Park>;
    mutex AhmcsYield, "ahmcs-yield", Yield, ahmcs::DESCRIPTOR, ahmcs::Ahmcs<P, Yield>;
    mutex AhmcsAware, "ahmcs-aware", Aware, ahmcs::DESCRIPTOR, ahmcs::Ahmcs<P, Aware>;
    rwlock RwFutex, "rw-futex", SpinThenPark, rw::futex::DESCRIPTOR, rw::RwFutex<P>;
    rwlock RwTtas, "rw-ttas", Spin, rw::ttas::DESCRIPTOR, rw::ttas::RwTtas<P>;
    rwlock PfT, "pf-t", Spin, rw::pf_t::DESCRIPTOR, rw::pf_t::PfT<P>;
    rwlock PfQ, "pf-q", Spin, rw::pf_q::DESCRIPTOR, rw::pf_q::PfQ<P, Spin>;
    rwlock PfQStp, "pf-q-stp", SpinThenPark, rw::pf_q::PARKING, rw::pf_q::PfQ<P, SpinThenPark>;
    rwlock LinuxRwsem, "linux-rwsem", SpinThenPark, rw::linux_rwsem::DESCRIPTOR, rw::linux_rwsem::LinuxRwsem<P>;
    rwlock CRwWp, "c-rw-wp", Spin, variants::C_RW_WP, variants::CRwWp<P>;
    rwlock CRwRp, "c-rw-rp", Spin, variants::C_RW_RP, variants::CRwRp<P>;
    rwlock CRwNp, "c-rw-np", Spin, variants::C_RW_NP, variants::CRwNp<P>;
    rwlock CstRwsem, "cst-rwsem", SpinThenPark, variants::CST_RWSEM, variants::CstRwsem<P>;
    rwlock CstRwsemNeutral, "cst-rwsem-neutral", SpinThenPark, variants::CST_RWSEM_NEUTRAL, variants::CstRwsemNeutral<P>;
    rwlock AutoRw, "auto-rw", SpinThenPark, rw::auto::DESCRIPTOR, rw::auto::Auto<P>;
    delegate Oyama, "oyama", SpinThenPark, oyama::DESCRIPTOR, oyama::Oyama<P, SpinThenPark>;
    delegate Fc, "fc", SpinThenPark, fc::DESCRIPTOR, fc::Fc<P>;
    delegate FcList, "fc-list", SpinThenPark, fc_list::DESCRIPTOR, fc_list::FcList<P>;
    delegate CcSynch, "cc-synch", SpinThenPark, cc_synch::DESCRIPTOR, cc_synch::CcSynch<P, SpinThenPark>;
    delegate DsmSynch, "dsm-synch", SpinThenPark, dsm_synch::DESCRIPTOR, dsm_synch::DsmSynch<P, SpinThenPark>;
    delegate HSynch, "h-synch", SpinThenPark, h_synch::DESCRIPTOR, h_synch::HSynch<P, SpinThenPark>;
    delegate PSim, "p-sim", SpinThenPark, p_sim::DESCRIPTOR, p_sim::PSim<P>;
    delegate Ffwd, "ffwd", SpinThenPark, ffwd::DESCRIPTOR, ffwd::Ffwd<P>;
    delegate Rcl, "rcl", SpinThenPark, rcl::DESCRIPTOR, rcl::Rcl<P>;
    delegate Sanl, "sanl", SpinThenPark, sanl::DESCRIPTOR, sanl::Sanl<P>;
    delegate SanlNuma, "sanl-numa", SpinThenPark, sanl::NUMA, sanl::Sanl<P, { sanl::BY_NODE }>;
    delegate SanlPlus, "sanl-plus", SpinThenPark, sanl::PLUS, sanl::SanlPlus<P>;
}

/// A wrapper, by the name used as in `gcr(mcs-stp)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WrapperId {
    /// Concurrency restriction.
    Gcr,
    /// Concurrency restriction by NUMA node.
    GcrNuma,
    /// A bias for the first thread.
    Biased,
    /// A bias for readers.
    Bravo,
}

/// All wrappers. What each makes of a lock inside is in `visit.rs`.
pub const WRAPPERS: &[(WrapperId, &Descriptor)] = &[
    (WrapperId::Gcr, &gcr::DESCRIPTOR),
    (WrapperId::GcrNuma, &gcr::NUMA),
    (WrapperId::Biased, &biased::DESCRIPTOR),
    (WrapperId::Bravo, &rw::bravo::DESCRIPTOR),
];

impl WrapperId {
    /// What is known of the wrapper.
    #[must_use]
    pub fn descriptor(self) -> &'static Descriptor {
        // The table has one row per id, in the order of the enumeration.
        WRAPPERS[self as usize].1
    }

    /// Whether it takes this lock.
    #[must_use]
    pub fn takes(self, lock: &Entry) -> bool {
        let wrapper = self.descriptor();
        wrapper.is_mutex() == lock.descriptor.is_mutex() && lock.descriptor.bytes <= wrapper.largest_inner
    }

    /// The locks that it takes.
    pub fn inner_locks(self) -> impl Iterator<Item = &'static Entry> {
        LOCKS.iter().filter(move |lock| self.takes(lock))
    }
}

/// The wrappers of mutexes.
pub fn mutex_wrappers() -> impl Iterator<Item = WrapperId> {
    WRAPPERS.iter().map(|(id, _)| *id).filter(|id| id.descriptor().is_mutex())
}

/// All mutexes without a wrapper.
pub fn mutexes() -> impl Iterator<Item = &'static Entry> + Clone {
    LOCKS.iter().filter(|lock| lock.descriptor.is_mutex())
}

/// All reader-writer locks without a wrapper.
pub fn rwlocks() -> impl Iterator<Item = &'static Entry> + Clone {
    LOCKS.iter().filter(|lock| matches!(lock.descriptor.kind, Kind::RwLock(_)))
}

/// All delegates, but for `locked(…)`, which every mutex makes one.
pub fn delegates() -> impl Iterator<Item = &'static Entry> + Clone {
    LOCKS.iter().filter(|lock| lock.descriptor.is_delegate())
}

/// Locks of one name for users, of which each kind has its own: the name, and what it is where no mutex is wanted.
const SIBLINGS: &[(LockId, LockId)] = &[(LockId::Auto, LockId::AutoRw), (LockId::Auto, LockId::SanlPlus)];

impl LockId {
    /// What serves reader-writer locks where only this mutex is named.
    #[must_use]
    pub fn rwlock_beside(self) -> Self {
        let sibling =
            SIBLINGS.iter().find(|(mutex, other)| *mutex == self && other.info().descriptor.rw().is_some());
        sibling.map_or(DEFAULT_RWLOCK, |(_, rwlock)| *rwlock)
    }

    /// What is known of this lock.
    #[must_use]
    pub const fn info(self) -> &'static Entry {
        // The table has one entry per id, in the order of the enumeration.
        &LOCKS[self as usize]
    }
}

/// Names of the LiTL suite, and of the papers about it, whose lock has another name here.
const ALIASES: &[(&str, &str)] = &[
    ("spinlock", "tas"),
    ("spinlock-ls", "tas-ls"),
    ("spinlockepfl", "tas-ls"),
    ("ttasepfl", "ttas-ls"),
    ("ticketepfl", "ticket-ls"),
    ("hticket", "hticket-ls"),
    ("htlockepfl", "hticket-ls"),
    ("alock-ls", "alock"),
    ("alockepfl", "alock"),
    ("clhepfl", "clh-ls"),
    ("mcsepfl", "mcs-ls"),
    ("mcstp", "mcs-timepub"),
    ("malthusian-spin", "malth-spin"),
    ("malthusian-stp", "malth-stp"),
    ("pthreadadapt", "futex-adaptive"),
    ("pthreadadaptive", "futex-adaptive"),
    ("cbomcs-spin", "c-bo-mcs-spin"),
    ("cbomcs-stp", "c-bo-mcs-stp"),
    ("ctkttkt", "c-tkt-tkt"),
    ("cptltkt", "c-ptl-tkt"),
    ("partitioned", "ptl"),
    ("cst", "cst-mutex"),
];

/// The lock of this name, or of this name in LiTL's spelling: underscores count as hyphens, `_spin_then_park` as
/// `-stp`, `_spinlock` as `-spin`, and `_original` as nothing, or as `-spin` where a lock has policies.
#[must_use]
pub fn lookup(name: &str) -> Option<&'static Entry> {
    let folded = |name: &str, stem: &str, policy: &str| {
        let fold = |byte: u8| if byte == b'_' { b'-' } else { byte };
        name.bytes().eq(stem.bytes().map(fold).chain(policy.bytes()))
    };
    let find = |stem: &str, policy: &str| {
        let ours = ALIASES.iter().find(|(theirs, _)| folded(theirs, stem, policy)).map(|(_, ours)| *ours);
        LOCKS.iter().find(|lock| ours == Some(lock.name) || folded(lock.name, stem, policy))
    };
    let policies = [("_spin_then_park", "-stp"), ("_spinlock", "-spin"), ("_original", "")];
    let spelled = |(suffix, policy)| name.strip_suffix(suffix).map(|stem| (stem, policy));
    match policies.into_iter().find_map(spelled) {
        Some((stem, "")) => find(stem, "").or_else(|| find(stem, "-spin")),
        Some((stem, policy)) => find(stem, policy),
        None => find(name, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_in_the_order_of_the_ids() {
        for lock in LOCKS {
            assert_eq!(lock.id.info().name, lock.name);
            assert_eq!(lookup(lock.name), Some(lock));
        }
        for (id, wrapper) in WRAPPERS {
            assert_eq!(id.descriptor().name, wrapper.name);
        }
        assert_eq!(lookup("rw_ttas").map(|lock| lock.id), Some(LockId::RwTtas));
    }

    #[test]
    fn names_are_found_in_both_spellings() {
        assert_eq!(lookup("mcs_stp"), lookup("mcs-stp"));
        assert_eq!(lookup("mcs-stp").map(|lock| lock.id), Some(LockId::McsStp));
        assert_eq!(lookup("mcs_spin_then_park"), lookup("mcs-stp"));
        assert_eq!(lookup("ticket_original").map(|lock| lock.id), Some(LockId::Ticket));
        assert_eq!(lookup("hmcs_original").map(|lock| lock.id), Some(LockId::HmcsSpin));
        assert_eq!(lookup("partitioned_original").map(|lock| lock.id), Some(LockId::Ptl));
        assert_eq!(lookup("cbomcs_spinlock").map(|lock| lock.id), Some(LockId::CBoMcsSpin));
        assert_eq!(lookup("cbomcs_stp").map(|lock| lock.id), Some(LockId::CBoMcsStp));
        assert_eq!(lookup("c_bo_mcs_spin").map(|lock| lock.id), Some(LockId::CBoMcsSpin));
        assert_eq!(lookup("spinlock").map(|lock| lock.id), Some(LockId::Tas));
        assert_eq!(lookup("mcs_spinlock"), lookup("mcs-spin"));
        assert_eq!(lookup("spinlockepfl_original").map(|lock| lock.id), Some(LockId::TasLs));
        assert_eq!(lookup("htlockepfl_original").map(|lock| lock.id), Some(LockId::HTicketLs));
        assert_eq!(lookup("mcstp_original").map(|lock| lock.id), Some(LockId::McsTimepub));
        assert_eq!(lookup("malthusian_spin_then_park").map(|lock| lock.id), Some(LockId::MalthStp));
        assert_eq!(lookup("nonsense"), None);
    }

    #[test]
    fn aliases_are_no_names_and_lead_to_locks() {
        for (theirs, ours) in ALIASES {
            assert!(LOCKS.iter().all(|lock| lock.name != *theirs), "{theirs}");
            assert!(LOCKS.iter().any(|lock| lock.name == *ours), "{ours}");
        }
    }
}
