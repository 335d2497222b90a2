//! Waiting that knows the scheduler: spinning while the thread ahead runs, sleeping while it does not.
//!
//! When to stop spinning is decided as in Victor Laforet, Sanidhya Kashyap, Călin Iorgulescu, Julia Lawall and
//! Jean-Pierre Lozi, "FlexGuard: fast mutual exclusion independent of subscription", SOSP 2025: when, and only when, a
//! holder is preempted. Deviation: a waiter looks at the one thread ahead of it, where theirs looks at the number of
//! preempted holders of all locks, for which the kernel has to be told of every holder. Three sources tell how things are:
//!
//! - A waiter reads the CPU clock of the thread ahead of it in the queue, after a moment and then once in each budget, or
//!   asks the kernel as often through a `lockwork monitor`. It spins while the thread runs and sleeps as soon as it does
//!   not. The thread ahead does the same, up to the holder: when the holder is preempted, those behind it go to sleep one by
//!   one, and its CPU's competitors are gone.
//! - Where a monitor has to watch the scheduler instead of being asked, a waiter sees the same in memory, and looks more
//!   often. The monitor watches as long as there are such waiters that would sleep for a thread ahead, and not for those
//!   that spin for a moment. (A process that has both looks there first.)
//! - Elsewhere, and where the order of service does not say which thread is ahead (Reciprocating), it looks for signs that threads
//!   outnumber CPUs: the runnable threads of the process against the CPUs and the quota it has, how often its threads are preempted,
//!   and gaps in the clock, which say that it was itself off its CPU. It spins for the time of a context switch like
//!   spin-then-park, and on while there is no sign.
//!
//! The note of the thread ahead may be out of date, which misjudges how long to spin: between the nodes (HMCS, AHMCS, C-MCS-MCS) a
//! waiter looks at the thread that came first from the other node, though another of that node may hold the lock
//! since; one that was put aside (Malthusian) looks at the thread that it stood behind. A waiter that leaves the queue notes in its node the one
//! that it looked at itself, but for one that slept until its deadline: its node is another thread's then.
//!
//! Either way spinning ends: after [`SEEN`] or [`UNSEEN`] times the budget a waiter sleeps whatever it has seen, so that
//! what it was told may be wrong, or old, or missing, and costs time only.

use core::sync::atomic::Ordering::Acquire;

use lockwork_platform::{AtomicCell, Deadline, LastSeen, Platform, TimedOut};

use super::{GRANTED, Place, Wait, WaitPolicy, abandon, expired, park_among, poll_within};

/// Spinning while the thread ahead runs, or as long as there is no sign that it does not, and then sleeping (`aware`),
/// or, if it `LEAVES`, giving up.
#[derive(Debug)]
pub struct AwareThen<const LEAVES: bool>;

/// Spins, and then sleeps.
pub type Aware = AwareThen<false>;

/// As [`Aware`], giving up where that would go to sleep: for waiters that have another place to sleep at.
pub(crate) type AwareOrLeave = AwareThen<true>;

/// Spinning budgets behind a thread that is seen to run: about 10 ms.
const SEEN: u32 = 2000;
/// Spinning budgets without a sign that threads outnumber CPUs: about 1 ms, within which a monitor that ended is forgotten.
const UNSEEN: u32 = 200;
/// Looks at the thread ahead in the time of one budget, where they are cheap.
const LOOKS: u32 = 8;

/// What a waiter knows after a look.
enum Outlook {
    /// Nobody has looked yet.
    First,
    /// The thread ahead runs; how often in the time of a budget it pays to look again.
    Runs(u32),
    /// Nobody says, and there is no sign that it does not.
    Unknown,
    /// The thread ahead does not run, or probably not for long.
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
    let (mut before, mut last) = (0, LastSeen::default());
    let (mut seen, mut unseen) = (SEEN * LOOKS, UNSEEN);
    let mut outlook = match P::running(ahead()) {
        Some(true) => Outlook::Runs(LOOKS),
        Some(false) => Outlook::Bleak,
        None if P::tells_who_ran() => Outlook::First,
        None => Outlook::Unknown,
    };
    loop {
        let (left, cost, pauses) = match outlook {
            Outlook::Runs(looks) => (&mut seen, LOOKS / looks, (budget / looks).max(1)),
            Outlook::First => (&mut unseen, 0, (budget / LOOKS).max(1)),
            Outlook::Unknown => (&mut unseen, 1, budget),
            Outlook::Bleak => return bleak::<P>(ahead()),
        };
        if *left < cost {
            return bleak::<P>(ahead());
        }
        *left -= cost;
        if poll_within::<P, _>(pauses, || attempt().then_some(())).is_some() {
            return Spun::Done;
        }
        if deadline.is_some_and(expired::<P>) {
            return Spun::Late;
        }
        outlook = match look::<P>(&ahead, &mut last) {
            Some(outlook) => {
                // The time that passed meanwhile is no gap in the clock.
                before = 0;
                outlook
            }
            None if !matches!(outlook, Outlook::First) && P::crowded(&mut before) => Outlook::Bleak,
            None => Outlook::Unknown,
        };
    }
}

/// What is to be seen of the thread ahead.
fn look<P: Platform>(ahead: impl Fn() -> u32, last: &mut LastSeen) -> Option<Outlook> {
    let thread = ahead();
    match P::running(thread) {
        Some(true) => Some(Outlook::Runs(LOOKS)),
        Some(false) => Some(Outlook::Bleak),
        // Reading a clock takes so long that another thread may be ahead afterwards.
        None => Some(match P::has_run(thread, last)? {
            false if ahead() == thread => Outlook::Bleak,
            _ => Outlook::Runs(1),
        }),
    }
}

/// Spinning may be pointless. A monitor could tell, if the thread `ahead` is known.
fn bleak<P: Platform>(ahead: u32) -> Spun {
    if ahead != 0 {
        P::want_watch();
    }
    Spun::Bleak
}

/// Nowhere in particular.
struct Somewhere;

impl Place for Somewhere {
    fn ahead(&self) -> u32 {
        0
    }

    fn leave(&self) {}

    fn stay(&self) {}
}

impl<P: Platform, const LEAVES: bool> WaitPolicy<P> for AwareThen<LEAVES> {
    const NAME: &'static str = "aware";
    const LOOKS_AHEAD: bool = true;

    fn wait(word: &P::Futex, wait: &Wait) -> Result<(), TimedOut> {
        <Self as WaitPolicy<P>>::wait_at(word, &Somewhere, wait)
    }

    fn wait_at(word: &P::Futex, place: &impl Place, wait: &Wait) -> Result<(), TimedOut> {
        // ORDER: E1 of `wait`.
        match spin_aware::<P>(|| place.ahead(), wait.deadline, || word.load(Acquire) == GRANTED) {
            Spun::Done => Ok(()),
            // In a crowd the thread ahead may just have been woken, or is about to be.
            Spun::Bleak if !LEAVES => park_among::<P>(word, wait),
            Spun::Late | Spun::Bleak => {
                // Waiters behind would look at a thread that is no longer in the queue, and spin for as long as that runs.
                place.leave();
                abandon::<P>(word, wait).inspect(|()| place.stay())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::{Cells, Clock, Native, Sched};

    use super::*;
    use crate::wait::{Behind, Owner, WAITING};

    const LATE: Wait = Wait::until(Some(Deadline { clock: Clock::Monotonic, ns: 0 }));

    #[test]
    fn who_leaves_the_queue_says_whom_it_went_by() {
        let word = <Native as Cells>::Futex::new(WAITING);
        let own = Owner::<Native>::new();
        own.note::<AwareOrLeave>();
        assert_eq!(own.who(), Native::scheduling_id());
        let ahead = Native::scheduling_id() + 1;
        let behind = Behind::new(ahead, &own);
        assert!(<AwareOrLeave as WaitPolicy<Native>>::wait_at(&word, &behind, &LATE).is_err());
        assert_eq!(own.who(), ahead);
    }

    #[test]
    fn who_is_granted_the_lock_stays() {
        let word = <Native as Cells>::Futex::new(GRANTED);
        let own = Owner::<Native>::new();
        own.note::<AwareOrLeave>();
        let behind = Behind::new(1, &own);
        assert!(<AwareOrLeave as WaitPolicy<Native>>::wait_at(&word, &behind, &LATE).is_ok());
        assert_eq!(own.who(), Native::scheduling_id());
    }
}
