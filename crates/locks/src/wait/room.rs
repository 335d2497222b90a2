//! Spinning for as long as the machine has CPUs to spare, as the waiters of the CST locks do, which look at the load of
//! their CPU (Kashyap, Min and Kim, USENIX ATC 2017, section 4.2).

use lockwork_platform::{Deadline, Platform};

use super::{expired, poll_within};

/// For how many context-switch round trips a waiter spins at most.
pub(crate) const ROUND_TRIPS: u32 = 20;

/// Repeats `attempt` until it has a result, with pauses in between, but not beyond the deadline: for the time of a
/// context-switch round trip and of `more` others, and then while there is room, up to [`ROUND_TRIPS`], with `interlude`
/// between two of them. Where waiters are not to spin (a budget of 0), there is but one.
pub(crate) fn spin_with_room<P: Platform, R>(
    more: u32,
    deadline: Option<Deadline>,
    mut attempt: impl FnMut() -> Option<R>,
    interlude: impl Fn(),
) -> Option<R> {
    let (mut before, budget) = (0, P::spin_budget());
    let rounds = if budget == 0 { 1 } else { ROUND_TRIPS };
    for round in 1..=rounds {
        let result = poll_within::<P, _>(budget, &mut attempt).or_else(&mut attempt);
        if result.is_some() {
            return result;
        }
        let is_late = || deadline.is_some_and(expired::<P>);
        if round == rounds || round > more && P::crowded(&mut before) || is_late() {
            break;
        }
        interlude();
    }
    None
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use lockwork_platform::{Clock, Native};

    use super::*;

    #[test]
    fn a_deadline_in_the_past_still_allows_some_attempts() {
        let past = Some(Deadline { clock: Clock::Monotonic, ns: 0 });
        let (attempts, interludes) = (Cell::new(0), Cell::new(0));
        let attempt = || -> Option<()> {
            attempts.set(attempts.get() + 1);
            None
        };
        let result =
            spin_with_room::<Native, _>(u32::MAX, past, attempt, || interludes.set(interludes.get() + 1));
        assert_eq!(result, None);
        assert!(attempts.get() > 0);
        assert_eq!(interludes.get(), 0, "there is no second round");
    }

    #[test]
    fn success_ends_it() {
        assert_eq!(spin_with_room::<Native, _>(0, None, || Some(7), || panic!("no reason to")), Some(7));
    }
}
