//! Competitive locks: everybody polls or changes one word, and whoever is fastest gets the lock.

pub mod backoff;
pub mod hbo;
pub mod tas;
pub mod ttas;
pub mod two_phase;
pub mod word;

use lockwork_platform::{Deadline, Platform};

use crate::describe::Citation;
use crate::wait::{Patience, expired};

/// Where the locks of libslock come from.
pub(crate) const LIBSLOCK: Citation = Citation {
    key: "david13",
    text: "David, Guerraoui, Trigonakis: Everything you always wanted to know about synchronization but were afraid \
           to ask. SOSP 2013",
};

/// Pauses between two looks at the clock, which costs about as much as one or two of them.
pub(crate) const CLOCK_INTERVAL: u32 = 16;

/// Repeats `attempt` until it succeeds or the deadline has passed, with `relax` in between, which is told how many
/// pauses it may make, if it can choose, and returns how many it made. Returns whether an attempt succeeded; there is
/// at least one.
pub(crate) fn poll<P: Platform>(
    deadline: Option<Deadline>,
    mut attempt: impl FnMut() -> bool,
    mut relax: impl FnMut(u32) -> u32,
) -> bool {
    let Some(deadline) = deadline else {
        while !attempt() {
            relax(u32::MAX);
        }
        return true;
    };
    loop {
        let mut paused = 0;
        while paused < CLOCK_INTERVAL {
            if attempt() {
                return true;
            }
            paused += relax(CLOCK_INTERVAL - paused);
        }
        if expired::<P>(deadline) {
            return false;
        }
    }
}

/// Repeats `attempt` with a pause in between. Otherwise as [`poll`].
pub(crate) fn poll_steadily<P: Platform>(deadline: Option<Deadline>, attempt: impl FnMut() -> bool) -> bool {
    let mut patience = Patience::new::<P>();
    poll::<P>(deadline, attempt, |most| patience.pause_within::<P>(most))
}

#[cfg(test)]
mod tests {
    use lockwork_platform::{Clock, Native};

    use super::*;

    const PAST: Option<Deadline> = Some(Deadline { clock: Clock::Monotonic, ns: 0 });

    #[test]
    fn a_deadline_in_the_past_still_allows_an_attempt() {
        assert!(poll::<Native>(PAST, || true, |_| panic!("no reason to wait")));
    }

    #[test]
    fn a_deadline_in_the_past_ends_the_attempts() {
        let mut attempts = 0;
        let fail = || {
            attempts += 1;
            false
        };
        assert!(!poll_steadily::<Native>(PAST, fail));
        assert_eq!(attempts, CLOCK_INTERVAL);
    }

    #[test]
    fn without_a_deadline_only_success_ends_the_attempts() {
        let mut attempts = 0;
        let third = || {
            attempts += 1;
            attempts == 3
        };
        assert!(poll_steadily::<Native>(None, third));
        assert_eq!(attempts, 3);
    }
}
