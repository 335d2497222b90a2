//! Delegates, as types, for [`Delegated`](crate::Delegated), and those chosen at run time.

use std::fmt;

use lockwork_locks::RawLock;
use lockwork_locks::delegation::sanl::{self, BY_NODE};
use lockwork_locks::delegation::{
    Seat, cc_synch, dsm_synch, fc, fc_list, ffwd, h_synch, locked, oyama, p_sim, rcl,
};
use lockwork_locks::registry::erased::{ErasedLock, Held, UnderLock};
use lockwork_locks::registry::{DelegateSpec, Visitor};
use lockwork_locks::wait::SpinThenPark;
use lockwork_platform::Native;

use crate::dynamic::SpecError;
use crate::servers;

pub use lockwork_locks::delegation::{Attempt, Delegate, Section};

/// `cc-synch`: a queue of requests; the thread at its head serves those behind it.
pub type CcSynch = cc_synch::CcSynch<Native, SpinThenPark>;
/// `dsm-synch`: as [`CcSynch`], where each requester waits on memory that it brought.
pub type DsmSynch = dsm_synch::DsmSynch<Native, SpinThenPark>;
/// `h-synch`: a queue as [`CcSynch`] for each NUMA node.
pub type HSynch = h_synch::HSynch<Native, SpinThenPark>;
/// `oyama`: a stack of requests, which the thread that has the lock runs.
pub type Oyama = oyama::Oyama<Native, SpinThenPark>;
/// `fc`, flat combining: the thread that finds it free looks over the requests of all others.
pub type Fc = fc::Fc<Native>;
/// `fc-list`: flat combining as published, with a list of records, which the thread that combines follows once.
pub type FcList = fc_list::FcList<Native>;
/// `p-sim`: requesters turn a bit each, and one store answers all whose bits were found turned.
pub type PSim = p_sim::PSim<Native>;
/// `ffwd`: a thread of its own runs the sections, and answers neighbouring requests together.
pub type Ffwd = ffwd::Ffwd<Native>;
/// `rcl`, remote core locking: threads of their own run the sections; one that blocks does not stop the others.
pub type Rcl = rcl::Rcl<Native>;
/// `sanl`: in place, or served by one of the threads, as they vote.
pub type Sanl = sanl::Sanl<Native>;
/// `sanl-numa`: [`Sanl`], where threads far from the server wait for one of their node.
pub type SanlNuma = sanl::Sanl<Native, BY_NODE>;
/// `sanl-plus`: [`Sanl`] over a lock in place that does not collapse; on two CPUs it tries whether delegation pays.
pub type SanlPlus = sanl::SanlPlus<Native>;
/// `locked(…)`: the requester runs its section itself, with the lock `L` held.
pub type Locked<L> = locked::Locked<Native, L>;

/// Builds the lock inside `locked(…)`.
struct Lock;

impl Visitor<Native> for Lock {
    type Output = Box<dyn ErasedLock<Native>>;

    fn mutex<L: RawLock<Native> + 'static>(self, new: impl Fn() -> L) -> Self::Output {
        Box::new(new())
    }
}

/// Builds the delegate of a spec.
struct Build;

impl Visitor<Native> for Build {
    type Output = Box<dyn Delegate<Native>>;

    fn delegate<D: Delegate<Native> + 'static>(self, new: impl Fn() -> D) -> Self::Output {
        Box::new(new())
    }
}

/// A delegate that is chosen at run time, by a spec such as `fc`, `rcl(servers=2)` or `locked(mcs-stp)`.
///
/// It costs an indirect call more than a delegate whose type is known.
pub struct DynDelegate {
    spec: DelegateSpec,
    delegate: Box<dyn Delegate<Native>>,
}

impl DynDelegate {
    /// An idle delegate of the kind that `spec` describes.
    ///
    /// # Errors
    ///
    /// [`SpecError`], which says what is wrong with the spec and what to write instead. More servers than CPUs are
    /// refused, and priorities that the process may not have.
    pub fn new(spec: &str) -> Result<Self, SpecError> {
        let parsed = DelegateSpec::parse(spec).map_err(SpecError::from)?;
        let built = Self::of(parsed);
        match built.delegate.seat().and_then(|seat| servers::refused(&seat, &parsed.to_string())) {
            Some(reason) => Err(SpecError::new(reason, 0)),
            None => Ok(built),
        }
    }

    fn of(spec: DelegateSpec) -> Self {
        let delegate = match spec {
            DelegateSpec::Of(..) => spec.dispatch(Build),
            DelegateSpec::Locked(lock) => Box::new(UnderLock::over(lock.dispatch(Lock))),
        };
        Self { spec, delegate }
    }

    /// Gives it a server, if it needs one.
    #[doc(hidden)]
    pub fn settle(&self) {
        servers::give(&*self.delegate);
    }
}

/// Shows the spec.
impl fmt::Display for DynDelegate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl fmt::Debug for DynDelegate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynDelegate").field(&format_args!("{}", self.spec)).finish()
    }
}

// SAFETY: the boxed delegate's guarantees, which is what all calls go to.
unsafe impl Delegate<Native> for DynDelegate {
    fn new() -> Self {
        Self::of(DelegateSpec::DEFAULT)
    }

    unsafe fn execute(&self, section: Section) {
        // SAFETY: the caller's contract.
        unsafe { self.delegate.execute(section) };
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        // SAFETY: the caller's contract.
        unsafe { self.delegate.try_execute(section) }
    }

    unsafe fn execute_nested(&self, section: Section) {
        // SAFETY: the caller's contract.
        unsafe { self.delegate.execute_nested(section) };
    }

    fn acquire(&self) -> Option<Held> {
        self.delegate.acquire()
    }

    fn try_acquire(&self) -> Attempt {
        self.delegate.try_acquire()
    }

    unsafe fn release(&self, held: Held) {
        // SAFETY: the caller's contract.
        unsafe { self.delegate.release(held) };
    }

    fn seat(&self) -> Option<Seat<'_, Native>> {
        self.delegate.seat()
    }

    fn is_busy(&self) -> bool {
        self.delegate.is_busy()
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.delegate.dispose() };
    }
}
