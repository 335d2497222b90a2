//! Knobs: what a lock spec may set, by name.

/// A knob of the lock spec, one of the set `K`.
#[derive(Debug)]
pub struct Knob<K> {
    /// Name in a spec.
    pub name: &'static str,
    /// Smallest value.
    pub low: u32,
    /// Largest value.
    pub high: u32,
    /// The default, in words.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// The value given, if any.
    pub get: fn(&K) -> Option<u32>,
    /// Gives a value.
    pub set: fn(&mut K, u32),
}

/// The knobs of a lock itself, as given; `None` = the lock's default. Wrappers have their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaseKnobs {
    /// Hand-overs in a row within a NUMA node (or another part of the machine) before the others get their turn.
    pub pass_limit: Option<u32>,
    /// Sleepers that a lock wakes at a time, for locks that wake several.
    pub wake: Option<u32>,
}

impl BaseKnobs {
    /// Nothing given.
    pub const NONE: Self = Self { pass_limit: None, wake: None };
}

/// The pass limit where none is given.
pub const PASS_LIMIT: u32 = 64;

/// The largest pass limit.
pub const MOST_PASSES: u32 = 65_535;

const MAY_PASS_LOCAL: Knob<BaseKnobs> = Knob {
    name: "may-pass-local",
    low: 1,
    high: MOST_PASSES,
    default: "64; cna: 65535, shfl: 1024",
    meaning: "hand-overs in a row within a NUMA node before the others get their turn",
    get: |knobs| knobs.pass_limit,
    set: |knobs, value| knobs.pass_limit = Some(value),
};

/// The knobs of hierarchical locks.
pub const HIERARCHICAL: &[Knob<BaseKnobs>] = &[MAY_PASS_LOCAL];

/// The knobs of hierarchical locks that wake several sleepers at a time.
pub const WAKING: &[Knob<BaseKnobs>] = &[
    MAY_PASS_LOCAL,
    Knob {
        name: "wake",
        low: 1,
        high: MOST_PASSES,
        default: "the CPUs of a NUMA node",
        meaning: "sleepers of a NUMA node that are woken at a time; 65535 = all",
        get: |knobs| knobs.wake,
        set: |knobs, value| knobs.wake = Some(value),
    },
];
