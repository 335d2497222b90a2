//! The record of a thread: what it does right now, and what it needs to record. The thread writes to it, and readers look.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use super::{HELD, LOCKS, LOG, Mode};

/// A thread: what it does right now, and what it needs to record.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Thread {
    /// Its id, 0 where the place is free.
    pub tid: AtomicU32,
    /// 1 = it is in the middle of recording; a signal handler then records nothing.
    pub busy: AtomicU32,
    /// Acquisitions until the next sampled one.
    pub countdown: AtomicU32,
    /// The mean distance of samples.
    pub period: AtomicU32,
    /// Samples taken at this distance.
    pub taken: AtomicU32,
    /// [`Header::epoch`](super::Header::epoch) when it last noted a lock.
    pub epoch: AtomicU32,
    /// Locks in `held`.
    pub held_count: AtomicU32,
    /// What it waits for: see [`Mode`].
    pub waiting_mode: AtomicU32,
    /// The lock it waits for, 0 = none.
    pub waiting_for: AtomicU64,
    /// Since when.
    pub waiting_since: AtomicU64,
    /// Its stack when it began to wait.
    pub waiting_stack: AtomicU32,
    /// The lock's record.
    pub waiting_lock: AtomicU32,
    /// When it was first seen.
    pub started_ns: AtomicU64,
    /// Waiting time until the next sampled point.
    pub wait_left_ns: AtomicU64,
    /// State of its random numbers.
    pub random: AtomicU64,
    /// The lock whose next acquisition ends a think time that is measured.
    pub think_of: AtomicU64,
    /// Since when.
    pub think_since: AtomicU64,
    /// The record and the weight of that.
    pub think_lock: AtomicU32,
    /// See above.
    pub think_weight: AtomicU32,
    /// Since when it sleeps in the kernel while it waits for a lock; 0 = it does not.
    pub parked_since: AtomicU64,
    /// How long it did during the wait.
    pub parked_ns: AtomicU64,
    /// The call of a wait on a condition.
    pub frame: [AtomicU64; 2],
    /// When it read the clock last.
    pub reading: Reading,
    /// Waits so far, as far as that matters: see `Region::wait_begins`.
    pub waits: AtomicU32,
    /// Entries of `log`.
    pub logged: AtomicU32,
    /// Waits that have ended, and are not in the figures of their locks yet: see [`Logged`].
    pub log: [AtomicU64; LOG],
    /// Stacks of a release: see [`Known`].
    pub known: Known,
    /// Locks it has, the latest last.
    pub held: [Held; HELD],
}

/// What a thread reads the time from between two looks at the clock: see `recorder::clock`.
#[repr(C)]
#[derive(Debug)]
pub struct Reading {
    /// What the clock showed.
    pub ns: AtomicU64,
    /// What the processor's counter showed.
    pub ticks: AtomicU64,
    /// For so many ticks it is good.
    pub is_good_for: AtomicU64,
    /// The length of a tick in 2⁻³² ns.
    pub tick: AtomicU64,
}

/// Of a thread's latest release that somebody waited for, what was found out, and is likely to be so at the next.
#[repr(C)]
#[derive(Debug)]
pub struct Known {
    /// The call that had acquired the lock, where its stack was not taken then; 0 = it was.
    pub acquirer: AtomicU64,
    /// The stack that acquired it, which follows from the next two and that call.
    pub acquired: AtomicU32,
    /// The stack that released it; 0 = none is known.
    pub released: AtomicU32,
    /// 1 = one function acquired and released it.
    pub is_one_function: AtomicU32,
    /// Its record.
    pub lock: AtomicU32,
    /// The lock's address.
    pub address: AtomicU64,
    /// The number of the release in the lock's ring.
    pub turn: AtomicU32,
    /// [`Lock::hand_overs`](super::Lock::hand_overs) then.
    pub hand_overs: AtomicU32,
}

/// An entry of [`Thread::log`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The lock's record; 0 = it has none.
    pub lock: u32,
    /// How it was waited for.
    pub mode: Mode,
    /// The thread had no other lock.
    pub is_outer: bool,
    /// The entry is about the part of a wait that the thread slept in the kernel, and the wait itself has another.
    pub is_parked: bool,
    /// For how long.
    pub ns: u64,
}

const _: () = assert!(LOCKS == 1 << 10);

impl Logged {
    const NS_BITS: u32 = 50;

    /// As one word.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.lock) << 54
            | (self.mode as u64) << 52
            | u64::from(self.is_outer) << 51
            | u64::from(self.is_parked) << 50
            | self.ns.min((1 << Self::NS_BITS) - 1)
    }

    /// The entry that is this word.
    pub(crate) fn of(word: u64) -> Self {
        Self {
            lock: (word >> 54) as u32,
            mode: Mode::of((word >> 52) as u32 & 3),
            is_outer: word >> 51 & 1 != 0,
            is_parked: word >> 50 & 1 != 0,
            ns: word & ((1 << Self::NS_BITS) - 1),
        }
    }
}

/// A lock that a thread has, or is about to have: one cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Held {
    /// Its address; with [`Self::PASSED`], nothing but this, `caller` and `frame` is noted of a mutex: see [`Stage::Passed`].
    pub word: AtomicU64,
    /// The code location that acquired it.
    pub caller: AtomicU64,
    /// The frame pointer there.
    pub frame: AtomicU64,
    /// When, if that was read.
    pub since: AtomicU64,
    /// When it began to wait; 0 = it did not.
    pub waited_since: AtomicU64,
    /// The stack that acquired it, if that was taken.
    pub stack: AtomicU32,
    /// The lock's record, if that was looked up.
    pub lock: AtomicU32,
    /// How often it was acquired again (recursive mutexes).
    pub again: AtomicU32,
    /// For how many microseconds the thread slept in the kernel while it waited.
    pub parked_us: AtomicU32,
    /// How many nanoseconds after it began to wait releases of the lock were noted for it, if they were.
    pub watched_after: AtomicU32,
    /// What this acquisition stands for; 0 = it is not a sample.
    pub weight: AtomicU16,
    /// How it is held, and whether it is: a [`Mode`] and a [`Stage`], see [`Held::how`].
    pub how: AtomicU8,
    /// What is known of the wait: [`Held::WATCHED`] and so on.
    pub wait: AtomicU8,
}

const _: () = assert!(size_of::<Held>() == 64);

/// Where a thread is with a lock of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// It is about to acquire it, and will say what came of that.
    About = 0,
    /// It has it.
    Has = 1,
    /// It has it, or waits for it: nothing was noted but the call. Said by [`Held::PASSED`] alone.
    Passed = 2,
}

impl Held {
    /// A bit of `word`: addresses of locks are even.
    pub const PASSED: u64 = 1;
    /// A bit of `wait`: releases of the lock are noted for the sake of this wait.
    pub const WATCHED: u8 = 1;
    /// A bit of `wait`: it was one in which the thread gave up its CPU.
    pub const LONG: u8 = 2;
    /// A bit of `wait`: releases would have been noted from its beginning whatever had been drawn.
    pub const SURE: u8 = 4;
    /// A bit of `wait`: there was one, and it has ended.
    pub const ENDED: u8 = 8;

    /// The address of the lock.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.word.load(Relaxed) & !Self::PASSED
    }

    fn passed(&self) -> bool {
        self.word.load(Relaxed) & Self::PASSED != 0
    }

    /// A mode and a stage as one word, so that one store writes both.
    #[must_use]
    pub const fn how(mode: Mode, stage: Stage) -> u8 {
        mode as u8 | (stage as u8) << 4
    }

    /// How it is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.passed() { Mode::Mutex } else { Mode::of(u32::from(self.how.load(Relaxed) & 0xf)) }
    }

    /// Whether the thread has it.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.how.load(Relaxed) >> 4 {
            _ if self.passed() => Stage::Passed,
            0 => Stage::About,
            _ => Stage::Has,
        }
    }
}
