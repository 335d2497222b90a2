//! Every lock by name, with what is known of it, and the one place where a name becomes a type.

use core::fmt;

use lockwork_platform::Platform;

use crate::api::RawLock;
use crate::competitive::{backoff, hbo, tas, ttas};
use crate::hierarchical::{ahmcs, cna, combinations, cst, fc_mcs, hclh, hmcs, hticket, shfl};
use crate::knobs::{self, BaseKnobs, Knob};
use crate::load::{flexguard, glk, lc, malth};
use crate::queue::{alock, clh, hemlock, k42, mcs, mcs_timepub, mcs_try, ptl, reciprocating, ticket, twa};
use crate::wait::{Aware, Park, Spin, SpinForWriting, SpinThenPark, Yield};
use crate::{
    biased,
    blocking::{adaptive, futex, linux, mutexee},
    restrict::gcr,
};

/// The lock that `lockwork run` uses when nobody says otherwise.
pub const DEFAULT: &str = "cst-mutex";

/// How waiters compete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Everybody polls or changes one word.
    Competitive,
    /// Waiters queue, each on a word of its own.
    Queue,
    /// Waiters sleep in the kernel.
    Blocking,
    /// Waiters of one NUMA node are served together.
    Hierarchical,
    /// Some waiters are put aside while there are too many.
    LoadControl,
    /// A wrapper that restricts how many threads compete.
    Restriction,
    /// A wrapper that spares the first thread the atomic operations.
    Biased,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Competitive => "competitive",
            Self::Queue => "queue",
            Self::Blocking => "blocking",
            Self::Hierarchical => "hierarchical",
            Self::LoadControl => "load control",
            Self::Restriction => "restriction",
            Self::Biased => "biased",
        })
    }
}

/// Where an algorithm comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Citation {
    /// Key in `REFERENCES.bib`.
    pub key: &'static str,
    /// Authors, title, venue, year.
    pub text: &'static str,
}

/// What is known of an algorithm, whatever its waiting policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// Name without the waiting policy.
    pub name: &'static str,
    /// How waiters compete.
    pub family: Family,
    /// The order in which waiters get the lock.
    pub fairness: &'static str,
    /// Bytes of the lock itself, at rest.
    pub bytes: usize,
    /// Bytes of pool memory for each waiter.
    pub bytes_per_waiter: usize,
    /// Whether the holder keeps such a node too.
    pub holder_node: bool,
    /// What a timed acquisition does.
    pub timed: &'static str,
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

impl Algorithm {
    /// The knobs that a spec may set.
    #[must_use]
    pub fn knobs(&self) -> &'static [Knob<BaseKnobs>] {
        match self.family {
            // What lined up on a node is served as a batch, however much that is.
            _ if [hclh::ALGORITHM.name, fc_mcs::ALGORITHM.name].contains(&self.name) => &[],
            _ if self.name == cst::ALGORITHM.name => knobs::WAKING,
            Family::Hierarchical => knobs::HIERARCHICAL,
            _ => &[],
        }
    }
}

/// A lock that can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The name in a lock spec.
    pub name: &'static str,
    /// Which type it is.
    pub id: LockId,
    /// How waiters wait: `spin`, `stp` (spin-then-park), `park`, `yield`, `aware` (of the scheduler).
    pub waiting: &'static str,
    /// What is known of the algorithm.
    pub algorithm: &'static Algorithm,
}

macro_rules! catalogue {
    ($($id:ident, $name:literal, $waiting:literal, $algorithm:path, $type:ty;)*) => {
        /// A base lock: one algorithm with one waiting policy.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum LockId {
            $(#[doc = $name] $id,)*
        }

        /// All base locks.
        pub const LOCKS: &[LockInfo] = &[
            $(LockInfo { name: $name, id: LockId::$id, waiting: $waiting, algorithm: &$algorithm },)*
        ];

        /// Calls the visitor with the type of a base lock.
        pub fn dispatch<P: Platform, V: Visitor<P>>(id: LockId, visitor: V) -> V::Output {
            match id {
                $(LockId::$id => visitor.visit::<$type>(),)*
            }
        }
    };
}

catalogue! {
    Tas, "tas", "spin", tas::ALGORITHM, tas::Tas<P>;
    TasLs, "tas-ls", "spin", tas::LIBSLOCK, tas::TasLs<P>;
    Ttas, "ttas", "spin", ttas::ALGORITHM, ttas::Ttas<P>;
    TtasLs, "ttas-ls", "spin", ttas::LIBSLOCK, ttas::TtasLs<P>;
    Backoff, "backoff", "spin", backoff::ALGORITHM, backoff::Backoff<P>;
    Hbo, "hbo", "spin", hbo::ALGORITHM, hbo::Hbo<P>;
    Ticket, "ticket", "spin", ticket::ALGORITHM, ticket::Ticket<P>;
    TicketLs, "ticket-ls", "spin", ticket::LIBSLOCK, ticket::Ticket<P, ticket::Proportional>;
    Alock, "alock", "spin", alock::ALGORITHM, alock::Alock<P>;
    Twa, "twa", "spin", twa::ALGORITHM, twa::Twa<P>;
    Ptl, "ptl", "spin", ptl::ALGORITHM, ptl::Ptl<P>;
    ClhSpin, "clh-spin", "spin", clh::ALGORITHM, clh::Clh<P, Spin>;
    ClhLs, "clh-ls", "spin", clh::LIBSLOCK, clh::Clh<P, SpinForWriting>;
    ClhStp, "clh-stp", "stp", clh::ALGORITHM, clh::Clh<P, SpinThenPark>;
    ClhPark, "clh-park", "park", clh::ALGORITHM, clh::Clh<P, Park>;
    ClhYield, "clh-yield", "yield", clh::ALGORITHM, clh::Clh<P, Yield>;
    ClhAware, "clh-aware", "aware", clh::ALGORITHM, clh::Clh<P, Aware>;
    McsSpin, "mcs-spin", "spin", mcs::ALGORITHM, mcs::Mcs<P, Spin>;
    McsLs, "mcs-ls", "spin", mcs::LIBSLOCK, mcs::Mcs<P, SpinForWriting>;
    McsStp, "mcs-stp", "stp", mcs::ALGORITHM, mcs::Mcs<P, SpinThenPark>;
    McsPark, "mcs-park", "park", mcs::ALGORITHM, mcs::Mcs<P, Park>;
    McsYield, "mcs-yield", "yield", mcs::ALGORITHM, mcs::Mcs<P, Yield>;
    McsAware, "mcs-aware", "aware", mcs::ALGORITHM, mcs::Mcs<P, Aware>;
    McsTimepub, "mcs-timepub", "spin", mcs_timepub::ALGORITHM, mcs_timepub::McsTimepub<P>;
    McsTrySpin, "mcs-try-spin", "spin", mcs_try::ALGORITHM, mcs_try::McsTry<P, Spin>;
    McsTryStp, "mcs-try-stp", "stp", mcs_try::ALGORITHM, mcs_try::McsTry<P, SpinThenPark>;
    McsTryPark, "mcs-try-park", "park", mcs_try::ALGORITHM, mcs_try::McsTry<P, Park>;
    McsTryYield, "mcs-try-yield", "yield", mcs_try::ALGORITHM, mcs_try::McsTry<P, Yield>;
    McsTryAware, "mcs-try-aware", "aware", mcs_try::ALGORITHM, mcs_try::McsTry<P, Aware>;
    K42Spin, "k42-spin", "spin", k42::ALGORITHM, k42::K42<P, Spin>;
    K42Stp, "k42-stp", "stp", k42::ALGORITHM, k42::K42<P, SpinThenPark>;
    K42Park, "k42-park", "park", k42::ALGORITHM, k42::K42<P, Park>;
    K42Yield, "k42-yield", "yield", k42::ALGORITHM, k42::K42<P, Yield>;
    K42Aware, "k42-aware", "aware", k42::ALGORITHM, k42::K42<P, Aware>;
    HemlockSpin, "hemlock-spin", "spin", hemlock::ALGORITHM, hemlock::Hemlock<P, Spin>;
    HemlockStp, "hemlock-stp", "stp", hemlock::ALGORITHM, hemlock::Hemlock<P, SpinThenPark>;
    HemlockPark, "hemlock-park", "park", hemlock::ALGORITHM, hemlock::Hemlock<P, Park>;
    HemlockYield, "hemlock-yield", "yield", hemlock::ALGORITHM, hemlock::Hemlock<P, Yield>;
    HemlockAware, "hemlock-aware", "aware", hemlock::ALGORITHM, hemlock::Hemlock<P, Aware>;
    ReciprocatingSpin, "reciprocating-spin", "spin", reciprocating::ALGORITHM, reciprocating::Reciprocating<P, Spin>;
    ReciprocatingStp, "reciprocating-stp", "stp", reciprocating::ALGORITHM, reciprocating::Reciprocating<P, SpinThenPark>;
    ReciprocatingPark, "reciprocating-park", "park", reciprocating::ALGORITHM, reciprocating::Reciprocating<P, Park>;
    ReciprocatingYield, "reciprocating-yield", "yield", reciprocating::ALGORITHM, reciprocating::Reciprocating<P, Yield>;
    ReciprocatingAware, "reciprocating-aware", "aware", reciprocating::ALGORITHM, reciprocating::Reciprocating<P, Aware>;
    MalthSpin, "malth-spin", "spin", malth::ALGORITHM, malth::Malth<P, Spin>;
    MalthStp, "malth-stp", "stp", malth::ALGORITHM, malth::Malth<P, SpinThenPark>;
    MalthPark, "malth-park", "park", malth::ALGORITHM, malth::Malth<P, Park>;
    MalthYield, "malth-yield", "yield", malth::ALGORITHM, malth::Malth<P, Yield>;
    MalthAware, "malth-aware", "aware", malth::ALGORITHM, malth::Malth<P, Aware>;
    CnaSpin, "cna-spin", "spin", cna::ALGORITHM, cna::Cna<P, Spin>;
    CnaStp, "cna-stp", "stp", cna::ALGORITHM, cna::Cna<P, SpinThenPark>;
    CnaPark, "cna-park", "park", cna::ALGORITHM, cna::Cna<P, Park>;
    CnaYield, "cna-yield", "yield", cna::ALGORITHM, cna::Cna<P, Yield>;
    CnaAware, "cna-aware", "aware", cna::ALGORITHM, cna::Cna<P, Aware>;
    FcMcsSpin, "fc-mcs-spin", "spin", fc_mcs::ALGORITHM, fc_mcs::FcMcs<P, Spin>;
    FcMcsStp, "fc-mcs-stp", "stp", fc_mcs::ALGORITHM, fc_mcs::FcMcs<P, SpinThenPark>;
    FcMcsPark, "fc-mcs-park", "park", fc_mcs::ALGORITHM, fc_mcs::FcMcs<P, Park>;
    FcMcsYield, "fc-mcs-yield", "yield", fc_mcs::ALGORITHM, fc_mcs::FcMcs<P, Yield>;
    FcMcsAware, "fc-mcs-aware", "aware", fc_mcs::ALGORITHM, fc_mcs::FcMcs<P, Aware>;
    HclhSpin, "hclh-spin", "spin", hclh::ALGORITHM, hclh::Hclh<P, Spin>;
    HclhStp, "hclh-stp", "stp", hclh::ALGORITHM, hclh::Hclh<P, SpinThenPark>;
    HclhPark, "hclh-park", "park", hclh::ALGORITHM, hclh::Hclh<P, Park>;
    HclhYield, "hclh-yield", "yield", hclh::ALGORITHM, hclh::Hclh<P, Yield>;
    HclhAware, "hclh-aware", "aware", hclh::ALGORITHM, hclh::Hclh<P, Aware>;
    ShflSpin, "shfl-spin", "spin", shfl::ALGORITHM, shfl::Shfl<P, Spin>;
    ShflStp, "shfl-stp", "stp", shfl::ALGORITHM, shfl::Shfl<P, SpinThenPark>;
    CstMutex, "cst-mutex", "stp", cst::ALGORITHM, cst::Cst<P>;
    Glk, "glk", "stp", glk::ALGORITHM, glk::Glk<P>;
    Lc, "lc", "stp", lc::ALGORITHM, lc::Lc<P>;
    FlexGuard, "flexguard", "aware", flexguard::ALGORITHM, flexguard::FlexGuard<P>;
    Futex, "futex", "park", futex::ALGORITHM, futex::FutexLock<P>;
    FutexAdaptive, "futex-adaptive", "stp", adaptive::ALGORITHM, adaptive::FutexAdaptive<P>;
    LinuxMutex, "linux-mutex", "stp", linux::ALGORITHM, linux::LinuxMutex<P>;
    Mutexee, "mutexee", "stp", mutexee::ALGORITHM, mutexee::Mutexee<P>;
    CBoMcsSpin, "c-bo-mcs-spin", "spin", combinations::C_BO_MCS, combinations::CBoMcs<P, Spin>;
    CBoMcsStp, "c-bo-mcs-stp", "stp", combinations::C_BO_MCS, combinations::CBoMcs<P, SpinThenPark>;
    CBoMcsPark, "c-bo-mcs-park", "park", combinations::C_BO_MCS, combinations::CBoMcs<P, Park>;
    CBoMcsYield, "c-bo-mcs-yield", "yield", combinations::C_BO_MCS, combinations::CBoMcs<P, Yield>;
    CBoMcsAware, "c-bo-mcs-aware", "aware", combinations::C_BO_MCS, combinations::CBoMcs<P, Aware>;
    CTktTkt, "c-tkt-tkt", "spin", combinations::C_TKT_TKT, combinations::CTktTkt<P>;
    HTicketLs, "hticket-ls", "spin", hticket::LIBSLOCK, hticket::HTicket<P>;
    CPtlTkt, "c-ptl-tkt", "spin", combinations::C_PTL_TKT, combinations::CPtlTkt<P>;
    CTktMcsSpin, "c-tkt-mcs-spin", "spin", combinations::C_TKT_MCS, combinations::CTktMcs<P, Spin>;
    CTktMcsStp, "c-tkt-mcs-stp", "stp", combinations::C_TKT_MCS, combinations::CTktMcs<P, SpinThenPark>;
    CTktMcsPark, "c-tkt-mcs-park", "park", combinations::C_TKT_MCS, combinations::CTktMcs<P, Park>;
    CTktMcsYield, "c-tkt-mcs-yield", "yield", combinations::C_TKT_MCS, combinations::CTktMcs<P, Yield>;
    CTktMcsAware, "c-tkt-mcs-aware", "aware", combinations::C_TKT_MCS, combinations::CTktMcs<P, Aware>;
    CMcsMcsSpin, "c-mcs-mcs-spin", "spin", combinations::C_MCS_MCS, combinations::CMcsMcs<P, Spin>;
    CMcsMcsStp, "c-mcs-mcs-stp", "stp", combinations::C_MCS_MCS, combinations::CMcsMcs<P, SpinThenPark>;
    CMcsMcsPark, "c-mcs-mcs-park", "park", combinations::C_MCS_MCS, combinations::CMcsMcs<P, Park>;
    CMcsMcsYield, "c-mcs-mcs-yield", "yield", combinations::C_MCS_MCS, combinations::CMcsMcs<P, Yield>;
    CMcsMcsAware, "c-mcs-mcs-aware", "aware", combinations::C_MCS_MCS, combinations::CMcsMcs<P, Aware>;
    HmcsSpin, "hmcs-spin", "spin", hmcs::ALGORITHM, hmcs::Hmcs<P, Spin>;
    HmcsStp, "hmcs-stp", "stp", hmcs::ALGORITHM, hmcs::Hmcs<P, SpinThenPark>;
    HmcsPark, "hmcs-park", "park", hmcs::ALGORITHM, hmcs::Hmcs<P, Park>;
    HmcsYield, "hmcs-yield", "yield", hmcs::ALGORITHM, hmcs::Hmcs<P, Yield>;
    HmcsAware, "hmcs-aware", "aware", hmcs::ALGORITHM, hmcs::Hmcs<P, Aware>;
    AhmcsSpin, "ahmcs-spin", "spin", ahmcs::ALGORITHM, ahmcs::Ahmcs<P, Spin>;
    AhmcsStp, "ahmcs-stp", "stp", ahmcs::ALGORITHM, ahmcs::Ahmcs<P, SpinThenPark>;
    AhmcsPark, "ahmcs-park", "park", ahmcs::ALGORITHM, ahmcs::Ahmcs<P, Park>;
    AhmcsYield, "ahmcs-yield", "yield", ahmcs::ALGORITHM, ahmcs::Ahmcs<P, Yield>;
    AhmcsAware, "ahmcs-aware", "aware", ahmcs::ALGORITHM, ahmcs::Ahmcs<P, Aware>;
}

/// Wrappers of a base lock, by the name used as in `gcr(mcs-stp)`.
pub const WRAPPERS: &[&Algorithm] = &[&gcr::ALGORITHM, &gcr::NUMA, &biased::ALGORITHM];

/// The base locks that a wrapper takes.
pub fn wrapped_by(wrapper: &Algorithm) -> impl Iterator<Item = &'static LockInfo> {
    let largest = if wrapper.family == Family::Biased { biased::LARGEST_INNER } else { usize::MAX };
    LOCKS.iter().filter(move |lock| lock.algorithm.bytes <= largest)
}

/// Code that is generic over the lock type.
pub trait Visitor<P: Platform> {
    /// What it produces.
    type Output;
    /// Called with the type of the lock.
    fn visit<L: RawLock<P> + 'static>(self) -> Self::Output;
}

impl LockId {
    /// What is known of this lock.
    #[must_use]
    pub fn info(self) -> &'static LockInfo {
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

/// The base lock of this name, or of this name in LiTL's spelling: underscores count as hyphens, `_spin_then_park` as
/// `-stp`, `_spinlock` as `-spin`, and `_original` as nothing, or as `-spin` where a lock has policies.
#[must_use]
pub fn lookup(name: &str) -> Option<&'static LockInfo> {
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
    fn the_table_is_in_the_order_of_the_ids() {
        for lock in LOCKS {
            assert_eq!(lock.id.info(), lock);
        }
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
