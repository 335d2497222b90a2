//! When sections are worth delegating, by RCL's criterion: the part of the threads' time that goes into them.
//!
//! Lozi et al., "Remote Core Locking" (USENIX ATC 2012), sections 3 and 4: the time in a section is the time to acquire the lock,
//! with all waiting, the section itself and the release. From 20% on under POSIX locks, RCL does better than these; from 70% on under
//! MCS, better than all the locks that it was compared with.

use lockwork_profile_reader::Lock;

use super::view::{Row, View, hold_error_ns};

/// Part of the time in sections from which on delegation does better, where the locks are POSIX's.
pub(crate) const UNDER_POSIX: f64 = 0.20;
/// The same where they are MCS locks.
pub(crate) const UNDER_MCS: f64 = 0.70;

/// A part of the threads' time, and half the width of its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

impl Share {
    /// The lower end of the interval: long sections that are rarely sampled make the estimate a wide one.
    pub(crate) fn at_least(self) -> f64 {
        (self.value - self.error).max(0.0)
    }
}

/// The threshold for what was recorded under a lock, if the paper has one.
pub(crate) fn threshold(served_by: &str) -> Option<f64> {
    match served_by {
        "pthread" => Some(UNDER_POSIX),
        served_by if served_by.starts_with("mcs") => Some(UNDER_MCS),
        _ => None,
    }
}

/// The time in the sections of a lock, or of all locks of a row. Waits are measured, sections are sampled.
pub(crate) fn in_sections_of(view: &View, lock: &Lock) -> Share {
    Share {
        value: view.of_threads(lock.wait.total_ns + lock.hold.total_ns),
        error: view.of_threads(hold_error_ns(lock) as u64),
    }
}

/// The lock of a row in whose sections most time goes. The criterion is about one lock: an array of which each element is taken seldom
/// has nothing to delegate, however much all elements are taken together.
pub(crate) fn hottest<'v>(view: &'v View, row: &'v Row) -> &'v Lock {
    let members = view.profile.locks.iter().filter(|lock| row.members.contains(&lock.index));
    members.max_by_key(|lock| lock.wait.total_ns + lock.hold.total_ns).unwrap_or(&row.sum)
}

/// The time in all sections.
pub(crate) fn in_sections(view: &View) -> Share {
    Share {
        value: view.of_threads(view.sections_and_waits_ns()),
        error: view.of_threads(view.sections_error_ns()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_those_of_the_paper() {
        assert_eq!(threshold("pthread"), Some(0.20));
        assert_eq!(threshold("mcs-stp"), Some(0.70));
        assert_eq!(threshold("futex"), None);
    }
}
