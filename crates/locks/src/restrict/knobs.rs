//! GCR's knobs: their names in a lock spec, their ranges, and their values on the machine at hand.

use lockwork_platform::Platform;

use crate::knobs::{Knob, Knobs};

/// All knobs of `gcr-numa`.
pub(super) const NUMA_KNOBS: &[Knob] = &[
    Knob {
        name: "active",
        low: 0,
        high: 65_535,
        names: &[],
        default: "4; with fewer than 10 CPUs, half of them less one",
        meaning: "a thread that finds more active threads than this becomes passive",
        get: |knobs| knobs.active,
        set: |knobs, value| knobs.active = Some(value),
    },
    Knob {
        name: "join",
        low: 0,
        high: 65_535,
        names: &[],
        default: "half of `active`",
        meaning: "the first passive thread joins when no more than this many are active",
        get: |knobs| knobs.join,
        set: |knobs, value| knobs.join = Some(value),
    },
    Knob {
        name: "promote",
        low: 1,
        high: 0x4000_0000,
        names: &[],
        default: "16384 (0x4000)",
        meaning: "acquisitions between two unconditional admissions of a passive thread",
        get: |knobs| knobs.promote,
        set: |knobs, value| knobs.promote = Some(value),
    },
    Knob {
        name: "enable",
        low: 1,
        high: 65_535,
        names: &[],
        default: "two more than `active`, at most 4",
        meaning: "restriction begins when this many threads hold the lock or wait for it; 1 = at the first contention",
        get: |knobs| knobs.enable,
        set: |knobs, value| knobs.enable = Some(value),
    },
    Knob {
        name: "idle",
        low: 0,
        high: 65_535,
        names: &[],
        default: "2",
        meaning: "restriction ends when nobody is passive and no more than this many are active",
        get: |knobs| knobs.idle,
        set: |knobs, value| knobs.idle = Some(value),
    },
    Knob {
        name: "check-max",
        low: 1,
        high: 0x4000_0000,
        names: &[],
        default: "1048576",
        meaning: "pauses, at most, between two looks of the first passive thread at the number of active ones",
        get: |knobs| knobs.check_max,
        set: |knobs, value| knobs.check_max = Some(value),
    },
    Knob {
        name: "spin",
        low: 0,
        high: 0x4000_0000,
        names: &[],
        default: "the cost of a context-switch round trip",
        meaning: "pauses of the first passive thread before it sleeps",
        get: |knobs| knobs.spin,
        set: |knobs, value| knobs.spin = Some(value),
    },
    Knob {
        name: "turn",
        low: 1,
        high: 0x4000_0000,
        names: &[],
        default: "4096",
        meaning: "acquisitions before the threads of another NUMA node are preferred",
        get: |knobs| knobs.turn,
        set: |knobs, value| knobs.turn = Some(value),
    },
];

/// All knobs of `gcr`.
pub(super) const KNOBS: &[Knob] = NUMA_KNOBS.split_last().expect("not empty").1;

/// The knobs with every value settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) active: i32,
    pub(super) join: i32,
    pub(super) promote: u32,
    pub(super) idle: i32,
    pub(super) check_max: u32,
    pub(super) spin: u32,
    pub(super) turn: u32,
}

impl Settings {
    pub(super) const UNSET: Self =
        Self { active: 0, join: 0, promote: 1, idle: 0, check_max: 1, spin: 0, turn: 1 };
}

impl Knobs {
    /// The paper's thresholds assume many more CPUs than active threads. On a smaller machine its four would
    /// already be over-subscription: here at most half of the CPUs are spent on one lock, and on two CPUs
    /// nobody waits inside the lock at all, where a spinning waiter could keep the holder from running.
    fn active<P: Platform>(&self) -> u32 {
        let half = (P::parallelism() as u32 / 2).saturating_sub(1);
        self.active.unwrap_or(half.min(4))
    }

    pub(super) fn settle<P: Platform>(&self) -> Settings {
        let active = self.active::<P>();
        Settings {
            active: active as i32,
            join: self.join.unwrap_or(active / 2) as i32,
            promote: self.promote.unwrap_or(0x4000),
            idle: self.idle.unwrap_or(2) as i32,
            check_max: self.check_max.unwrap_or(1 << 20),
            spin: self.spin.unwrap_or_else(P::spin_budget),
            turn: self.turn.unwrap_or(4096),
        }
    }

    /// How many waiters, the holder not counted, make restriction begin.
    pub(super) fn enabling_waiters<P: Platform>(&self) -> usize {
        let threads = self.enable.unwrap_or_else(|| (self.active::<P>() + 2).min(4));
        (threads as usize).saturating_sub(1).max(1)
    }
}
