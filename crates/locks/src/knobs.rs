//! Knobs: what a lock spec may set, by name.

use core::fmt;

/// A knob of the lock spec.
#[derive(Debug)]
pub struct Knob {
    /// Name in a spec.
    pub name: &'static str,
    /// Smallest value.
    pub low: u32,
    /// Largest value.
    pub high: u32,
    /// What its values are called in a spec, from the smallest on; none: they are numbers.
    pub names: &'static [&'static str],
    /// The default, in words.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// The value given, if any.
    pub get: fn(&Knobs) -> Option<u32>,
    /// Gives a value.
    pub set: fn(&mut Knobs, u32),
}

impl Knob {
    /// Its value, as a spec has it, if one is given.
    #[must_use]
    pub fn given(&self, knobs: &Knobs) -> Option<Value> {
        let value = (self.get)(knobs)?;
        let name = value.checked_sub(self.low).and_then(|index| self.names.get(index as usize));
        Some(name.map_or(Value::Number(value), |name| Value::Name(name)))
    }
}

/// A value of a knob, as a spec has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u32),
    /// One of the knob's names.
    Name(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The knobs of a lock or of a wrapper, as given; `None` = the default, mostly chosen for the machine. Which of them a lock
/// has, its [`Descriptor`](crate::describe::Descriptor) says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Knobs {
    /// Hand-overs in a row within a NUMA node (or another part of the machine) before the others get their turn.
    pub pass_limit: Option<u32>,
    /// Sleepers that a lock wakes at a time, for locks that wake several.
    pub wake: Option<u32>,
    /// A thread that finds more active threads than this becomes passive.
    pub active: Option<u32>,
    /// The first passive thread joins when no more than this many are active.
    pub join: Option<u32>,
    /// Acquisitions between two unconditional admissions of a passive thread.
    pub promote: Option<u32>,
    /// Restriction begins when this many threads hold the lock or wait for it.
    pub enable: Option<u32>,
    /// Restriction ends when nobody is passive and no more than this many are active.
    pub idle: Option<u32>,
    /// Pauses, at most, between two looks of the first passive thread at the number of active ones.
    pub check_max: Option<u32>,
    /// Pauses of the first passive thread before it sleeps.
    pub spin: Option<u32>,
    /// Acquisitions before the threads of another node are preferred (`gcr-numa` only).
    pub turn: Option<u32>,
    /// Servers over which the delegates of this kind are distributed.
    pub servers: Option<u32>,
    /// The number of the server that a delegate is for.
    pub server: Option<u32>,
    /// The real-time priority of its server.
    pub priority: Option<u32>,
    /// Rounds over the requests that a thread serves others at most.
    pub serve: Option<u32>,
    /// Pauses before a requester tries to become the one that serves.
    pub wait: Option<u32>,
    /// The share of its time, in percent, that a thread spends with a lock from which on it votes for delegation.
    pub contention: Option<u32>,
    /// Whether sections stay in place where delegation cannot pay.
    pub where_it_pays: Option<u32>,
    /// The lock in place, by its number in [`IN_PLACE`].
    pub in_place: Option<u32>,
    /// The way in which `auto` goes about it, if it is not to choose.
    pub pin: Option<u32>,
}

impl Knobs {
    /// Nothing given.
    pub const NONE: Self = Self {
        pass_limit: None,
        wake: None,
        active: None,
        join: None,
        promote: None,
        enable: None,
        idle: None,
        check_max: None,
        spin: None,
        turn: None,
        servers: None,
        server: None,
        priority: None,
        serve: None,
        wait: None,
        contention: None,
        where_it_pays: None,
        in_place: None,
        pin: None,
    };
}

/// The pass limit where none is given.
pub const PASS_LIMIT: u32 = 64;

/// The largest pass limit.
pub const MOST_PASSES: u32 = 65_535;

const MAY_PASS_LOCAL: Knob = Knob {
    name: "may-pass-local",
    low: 1,
    high: MOST_PASSES,
    names: &[],
    default: "64; cna: 65535, shfl: 1024",
    meaning: "hand-overs in a row within a NUMA node before the others get their turn",
    get: |knobs| knobs.pass_limit,
    set: |knobs, value| knobs.pass_limit = Some(value),
};

/// The knobs of hierarchical locks.
pub const HIERARCHICAL: &[Knob] = &[MAY_PASS_LOCAL];

/// The knobs of hierarchical locks that wake several sleepers at a time.
pub const WAKING: &[Knob] = &[
    MAY_PASS_LOCAL,
    Knob {
        name: "wake",
        low: 1,
        high: MOST_PASSES,
        names: &[],
        default: "1",
        meaning: "sleepers of a NUMA node that are woken at a time; the paper wakes as many as the node has CPUs",
        get: |knobs| knobs.wake,
        set: |knobs, value| knobs.wake = Some(value),
    },
];

/// The knobs of delegates that need servers.
pub const SERVED: &[Knob] = &[
    Knob {
        name: "servers",
        low: 1,
        high: 64,
        names: &[],
        default: "1",
        meaning: "servers over which the delegates of this name and number are distributed by turns; each has a thread, and there \
                  are no more of them than CPUs",
        get: |knobs| knobs.servers,
        set: |knobs, value| knobs.servers = Some(value),
    },
    Knob {
        name: "server",
        low: 1,
        high: 64,
        names: &[],
        default: "by turns",
        meaning: "the server of this delegate, by its number, instead of by turns",
        get: |knobs| knobs.server,
        set: |knobs, value| knobs.server = Some(value),
    },
    Knob {
        name: "priority",
        low: 1,
        high: 99,
        names: &[],
        default: "none",
        meaning: "the servers' real-time priority (SCHED_FIFO), as published; needs permission",
        get: |knobs| knobs.priority,
        set: |knobs, value| knobs.priority = Some(value),
    },
];

/// The locks that SANL can have in place; the registry's `in_place` has their types, in this order.
pub const IN_PLACE: &[&str] = &["mcs-stp", "mcs-spin", "futex", "cst-mutex", "auto"];

/// The knobs of SANL.
pub const ADAPTIVE: &[Knob] = &[
    Knob {
        name: "serve",
        low: 1,
        high: 1_000_000,
        names: &[],
        default: "100",
        meaning: "rounds over all requests that a thread serves the others at most (the paper's T_s)",
        get: |knobs| knobs.serve,
        set: |knobs, value| knobs.serve = Some(value),
    },
    Knob {
        name: "wait",
        low: 0,
        high: 100_000_000,
        names: &[],
        default: "10000",
        meaning: "pauses before a requester that nobody serves tries to serve (the paper's T_w)",
        get: |knobs| knobs.wait,
        set: |knobs, value| knobs.wait = Some(value),
    },
    Knob {
        name: "contention",
        low: 1,
        high: 100,
        names: &[],
        default: "17",
        meaning: "percent of its time in the lock from which on a thread votes for delegation (the paper's theta_l)",
        get: |knobs| knobs.contention,
        set: |knobs, value| knobs.contention = Some(value),
    },
    Knob {
        name: "where-it-pays",
        low: 0,
        high: 1,
        names: &[],
        default: "0; sanl-plus: 1",
        meaning: "1 = sections stay in place on one CPU, and on two are delegated only while that runs more of them, as is tried",
        get: |knobs| knobs.where_it_pays,
        set: |knobs, value| knobs.where_it_pays = Some(value),
    },
    Knob {
        name: "in-place",
        low: 1,
        high: IN_PLACE.len() as u32,
        names: IN_PLACE,
        default: "mcs-stp; sanl-plus: cst-mutex",
        meaning: "the lock of the sections that are not delegated",
        get: |knobs| knobs.in_place,
        set: |knobs, value| knobs.in_place = Some(value),
    },
];

/// The knobs of `auto`.
pub const PINNED: &[Knob] = &[
    MAY_PASS_LOCAL,
    Knob {
        name: "pin",
        low: 1,
        high: 3,
        names: &[],
        default: "as measured",
        meaning: "the way to go: 1 = a queue for each NUMA node, 2 = one queue, 3 = barging",
        get: |knobs| knobs.pin,
        set: |knobs, value| knobs.pin = Some(value),
    },
];
