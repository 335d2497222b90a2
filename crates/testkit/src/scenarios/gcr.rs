//! GCR's knobs for small plays: with the defaults, two or three threads would never be restricted.

use lockwork_locks::restrict::gcr::Knobs;

/// Everybody who finds the lock taken becomes passive, and the first of the passive threads is admitted
/// by count of the active ones only.
pub(super) const STRICTEST: Knobs = Knobs {
    active: Some(0),
    join: Some(0),
    promote: Some(0x4000),
    enable: Some(1),
    idle: Some(0),
    check_max: Some(1),
    spin: Some(1),
};

/// One thread may be active beside the holder; every second acquisition promotes; restriction ends when idle.
pub(super) const PATIENT: Knobs = Knobs {
    active: Some(1),
    join: Some(0),
    promote: Some(2),
    enable: Some(1),
    idle: Some(1),
    check_max: Some(2),
    spin: Some(0),
};
