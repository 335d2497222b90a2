//! GCR's knobs for small plays: with the defaults, two or three threads would never be restricted.

use lockwork_locks::restrict::gcr::Knobs;

/// A thread that finds the lock taken becomes passive at once and sleeps; the first of the passive threads is
/// admitted by the count of the active ones only.
pub(super) fn strictest() -> Knobs {
    Knobs {
        active: Some(0),
        join: Some(0),
        enable: Some(1),
        idle: Some(0),
        check_max: Some(1),
        spin: Some(0),
        ..Knobs::default()
    }
}

/// One thread may be active beside the holder; the first passive one spins before it sleeps; every second
/// acquisition promotes; restriction ends when idle.
pub(super) fn patient() -> Knobs {
    Knobs {
        active: Some(1),
        join: Some(0),
        promote: Some(2),
        enable: Some(1),
        idle: Some(1),
        spin: Some(1),
        ..Knobs::default()
    }
}
