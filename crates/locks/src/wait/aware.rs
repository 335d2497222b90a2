//! Waiting that knows the scheduler: spinning while whoever is ahead runs, sleeping while it does not.
//!
//! When to stop spinning is decided as in Victor Laforet, Sanidhya Kashyap, Călin Iorgulescu, Julia Lawall and
//! Jean-Pierre Lozi, "FlexGuard: fast mutual exclusion independent of subscription", SOSP 2025: when, and only when, a
//! holder is preempted. Deviation: a waiter looks at the one thread ahead of it, where theirs looks at the number of
//! preempted holders of all locks, for which the kernel has to be told who holds one. Two sources tell how things are:
//!
//! - Where `lockwork monitor` watches the scheduler, a waiter sees whether the thread ahead of it in the queue is on a
//!   CPU. It spins while that is so and sleeps as soon as it is not. Who is ahead does the same, up to the holder: when
//!   the holder is preempted, those behind it go to sleep one by one, and its CPU's competitors are gone. The monitor
//!   watches as long as there are waiters that would sleep for a thread ahead, and not for those that spin for a
//!   moment.
//! - Elsewhere, and where the order of service does not say who is ahead (Reciprocating), it looks for signs that threads
//!   outnumber CPUs: the load of the system against the CPUs and the quota it has, and gaps in the clock, which say that it
//!   was itself off its CPU. It spins for the time of a context switch like spin-then-park, and on while there is no sign.
//!
//! Who is ahead may be out of date, which misjudges how long to spin: between the nodes (HMCS, AHMCS, C-MCS-MCS) a
//! waiter watches the thread that came first from the other node, whoever of that node holds the lock since; one that
//! was put aside (Malthusian) watches whom it stood behind. A waiter that leaves the queue notes in its node the one
//! that it watched itself, but for one that slept until its deadline: its node is somebody else's then.
//!
//! Either way spinning ends: after [`WATCHED`] or [`UNWATCHED`] times the budget a waiter sleeps whatever it has seen,
//! so that what it was told may be wrong, or old, or missing, and costs time only.

use core::sync::atomic::Ordering::Acquire;

use lockwork_platform::{AtomicCell, Deadline, Platform, TimedOut};

use super::{GRANTED, Owner, WaitPolicy, abandon, expired, park, poll_within};

/// Spinning while whoever is ahead runs, or as long as there is no sign that it does not, and then sleeping (`aware`),
/// or, if it `LEAVES`, giving up.
#[derive(Debug)]
pub struct AwareThen<const LEAVES: bool>;

/// Spins, and then sleeps.
pub type Aware = AwareThen<false>;

/// As [`Aware`], giving up where that would go to sleep: for waiters that have another place to sleep at.
pub(crate) type AwareOrLeave = AwareThen<true>;

/// Spinning budgets behind a thread that is seen to run: about 10 ms.
const WATCHED: u32 = 2000;
/// Spinning budgets without a sign that threads outnumber CPUs: about 1 ms, within which a monitor that ended is forgotten.
const UNWATCHED: u32 = 200;
/// Looks at the thread ahead in the time of one budget.
const LOOKS: u32 = 8;

/// What a waiter knows after a look.
enum Outlook {
    /// Who is ahead runs.
    Runs,
    /// Nobody says, and there is no sign that it does not.
    Unknown,
    /// Who is ahead does not run, or probably not for long.
    Bleak,
}

/// How spinning ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spun {
    /// With success.
    Done,
    /// At the deadline.
    Late,
    /// There is no point in it any more.
    Bleak,
}

/// Repeats `attempt` until it succeeds, with pauses in between, for as long as it makes sense for a thread that waits
/// for the one that `ahead` names, or (0) for somebody.
pub(crate) fn spin_aware<P: Platform>(
    ahead: impl Fn() -> u32,
    deadline: Option<Deadline>,
    mut attempt: impl FnMut() -> bool,
) -> Spun {
    let budget = P::spin_budget();
    let mut before = 0;
    let (mut watched, mut unwatched) = (WATCHED * LOOKS, UNWATCHED);
    let mut outlook = if P::running(ahead()) == Some(false) { Outlook::Bleak } else { Outlook::Unknown };
    loop {
        let (left, pauses) = match outlook {
            Outlook::Runs => (&mut watched, (budget / LOOKS).max(1)),
            Outlook::Unknown => (&mut unwatched, budget),
            Outlook::Bleak => return bleak::<P>(ahead()),
        };
        if *left == 0 {
            return bleak::<P>(ahead());
        }
        *left -= 1;
        if poll_within::<P, _>(pauses, || attempt().then_some(())).is_some() {
            return Spun::Done;
        }
        if deadline.is_some_and(expired::<P>) {
            return Spun::Late;
        }
        outlook = match P::running(ahead()) {
            Some(true) => Outlook::Runs,
            Some(false) => Outlook::Bleak,
            None if P::crowded(&mut before) => Outlook::Bleak,
            None => Outlook::Unknown,
        };
    }
}

/// There may be no point in spinning, and a monitor would know better, if it is known who is `ahead`.
fn bleak<P: Platform>(ahead: u32) -> Spun {
    if ahead != 0 {
        P::want_watch();
    }
    Spun::Bleak
}

/// [`spin_aware`] until `word` is granted.
fn spin_on<P: Platform>(word: &P::Futex, ahead: u32, deadline: Option<Deadline>) -> Spun {
    // ORDER: E1 of `wait`.
    spin_aware::<P>(|| ahead, deadline, || word.load(Acquire) == GRANTED)
}

impl<P: Platform, const LEAVES: bool> WaitPolicy<P> for AwareThen<LEAVES> {
    const NAME: &'static str = "aware";
    const LOOKS_AHEAD: bool = true;

    fn wait(word: &P::Futex, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        <Self as WaitPolicy<P>>::wait_behind(word, 0, &Owner::new(), deadline)
    }

    fn wait_behind(
        word: &P::Futex,
        ahead: u32,
        own: &Owner<P>,
        deadline: Option<Deadline>,
    ) -> Result<(), TimedOut> {
        match spin_on::<P>(word, ahead, deadline) {
            Spun::Done => Ok(()),
            Spun::Bleak if !LEAVES => park::<P>(word, deadline),
            Spun::Late | Spun::Bleak => {
                // Whoever comes behind our node would watch a thread that is no longer in the queue, and spin for as
                // long as that runs.
                own.leave_to(ahead);
                abandon::<P>(word).inspect(|()| own.note::<Self>())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::{Clock, Native};

    use super::*;
    use crate::wait::WAITING;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    #[test]
    fn who_leaves_the_queue_says_whom_it_went_by() {
        let word = <Native as Platform>::Futex::new(WAITING);
        let own = Owner::<Native>::new();
        own.note::<AwareOrLeave>();
        assert_eq!(own.get::<AwareOrLeave>(), Native::scheduling_id());
        let ahead = Native::scheduling_id() + 1;
        assert!(AwareOrLeave::wait_behind(&word, ahead, &own, Some(PAST)).is_err());
        assert_eq!(own.get::<AwareOrLeave>(), ahead);
    }

    #[test]
    fn who_is_granted_the_lock_stays() {
        let word = <Native as Platform>::Futex::new(GRANTED);
        let own = Owner::<Native>::new();
        own.note::<AwareOrLeave>();
        assert!(AwareOrLeave::wait_behind(&word, 1, &own, Some(PAST)).is_ok());
        assert_eq!(own.get::<AwareOrLeave>(), Native::scheduling_id());
    }
}
