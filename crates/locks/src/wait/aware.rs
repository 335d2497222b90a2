//! Waiting that knows the scheduler: spinning while whoever is ahead runs, sleeping while it does not.
//!
//! When to stop spinning is decided as in Victor Laforet, Sanidhya Kashyap, Călin Iorgulescu, Julia Lawall and Jean-Pierre Lozi,
//! "FlexGuard: fast mutual exclusion independent of subscription", SOSP 2025: when, and only when, a holder is preempted. Deviation:
//! a waiter looks at the one thread ahead of it, where theirs looks at the number of preempted holders of all locks, for
//! which the kernel has to be told who holds one. Two sources tell how things are:
//!
//! - Where `lockwork monitor` watches the scheduler, a waiter sees whether the thread ahead of it in the queue is on a CPU. It
//!   spins while that is so and sleeps as soon as it is not. Who is ahead does the same, up to the holder: when the
//!   holder is preempted, those behind it go to sleep one by one, and its CPU's competitors are gone.
//! - Elsewhere it looks for signs that threads outnumber CPUs: the load of the system against the CPUs and the quota it
//!   has, and gaps in the clock, which say that it was itself off its CPU. It spins for the time of a context switch like
//!   spin-then-park, and on while there is no sign.
//!
//! Either way spinning ends: after [`WATCHED`] or [`UNWATCHED`] times the budget a waiter sleeps whatever it has seen, so that
//! what it was told may be wrong, or old, or missing, and costs time only.

use lockwork_platform::{Deadline, Platform, TimedOut};

use super::{WaitPolicy, abandon, expired, park, spin};

/// Spinning while whoever is ahead runs, or as long as there is no sign that it does not (`aware`).
#[derive(Debug)]
pub struct Aware;

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

/// Spins until granted or until there is a reason to sleep; returns whether it was granted.
fn spin_aware<P: Platform>(
    word: &P::Futex,
    ahead: u32,
    deadline: Option<Deadline>,
) -> Result<bool, TimedOut> {
    let budget = P::spin_budget();
    let mut before = 0;
    let (mut watched, mut unwatched) = (WATCHED * LOOKS, UNWATCHED);
    let mut outlook = if P::running(ahead) == Some(false) { Outlook::Bleak } else { Outlook::Unknown };
    loop {
        let (left, pauses) = match outlook {
            Outlook::Runs => (&mut watched, (budget / LOOKS).max(1)),
            Outlook::Unknown => (&mut unwatched, budget),
            Outlook::Bleak => return Ok(false),
        };
        if *left == 0 {
            return Ok(false);
        }
        *left -= 1;
        if spin::<P>(word, pauses, || {}) {
            return Ok(true);
        }
        if deadline.is_some_and(expired::<P>) {
            return abandon::<P>(word).map(|()| true);
        }
        outlook = match P::running(ahead) {
            Some(true) => Outlook::Runs,
            Some(false) => Outlook::Bleak,
            None if P::crowded(&mut before) => Outlook::Bleak,
            None => Outlook::Unknown,
        };
    }
}

impl<P: Platform> WaitPolicy<P> for Aware {
    const NAME: &'static str = "aware";
    const LOOKS_AHEAD: bool = true;

    fn wait(word: &P::Futex, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        <Self as WaitPolicy<P>>::wait_behind(word, 0, deadline)
    }

    fn wait_behind(word: &P::Futex, ahead: u32, deadline: Option<Deadline>) -> Result<(), TimedOut> {
        if spin_aware::<P>(word, ahead, deadline)? { Ok(()) } else { park::<P>(word, deadline) }
    }
}
