//! Test-and-test-and-set: waiters read the word, and try to change it only when it says "unlocked".
//!
//! Larry Rudolph and Zary Segall, "Dynamic decentralized cache schemes for MIMD parallel processors", ISCA 1984; as
//! `ttas-ls` with the back-off of libslock: Tudor David, Rachid Guerraoui and Vasileios Trigonakis, "Everything you
//! always wanted to know about synchronization but were afraid to ask", SOSP 2013. Deviations: a compare-and-swap
//! rather than a swap; the very first attempt does not read first, which saves the uncontended acquisition a dependent
//! load. `ttas-ls`: the delay starts small at each acquisition instead of staying with the thread, and is bounded by
//! the cost of a context-switch round trip; waiters pause between two looks.
//!
//! Properties: no fairness at all; 4 bytes a lock, nothing a waiter. Waiters spin in their own cache while the lock
//! is held; each release costs all of them a miss, and a burst of attempts, which `ttas-ls` spreads: a thread that loses
//! the race waits for a random time that doubles. (Its waiters ask for the line in writing before each look, so they
//! take it from each other instead of sharing it.) Waiting: spin. Timed acquisition polls. Good for short critical sections
//! and few threads; the holder can take the lock again before anybody else sees it free, which costs fairness
//! and saves hand-offs.
//!
//! State, invariants and ordering: see [`word`](super::word).

use core::cell::Cell;

use lockwork_platform::{Deadline, Native, Platform};

use super::backoff::Delay;
use super::word::{Contest, UNLOCKED, Word, WordLock};
use super::{poll, poll_steadily};
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::Patience;

/// What is known of test-and-test-and-set.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "ttas",
    family: Family::Competitive,
    order: Order::None,
    bytes: 4,
    timed: Timed::Polls(""),
    proofs: &[Proof::of(file!()), Proof::of("competitive/word.rs")],
    citation: Citation {
        key: "rudolph84",
        text: "Rudolph, Segall: Dynamic decentralized cache schemes for MIMD parallel processors. ISCA 1984",
    },
    summary: "waiters read one word, and try to change it only when it says \"unlocked\"",
    properties: "Waiters spin in their own caches; every release costs each of them a cache miss.",
    deviations: "Compare-and-swap instead of swap; the first attempt does not read first.",
    avoid: "Many waiters (each release starts a race of all), and wherever starvation matters.",
    ..Descriptor::MUTEX
};

/// What is known of libslock's test-and-test-and-set.
pub const LIBSLOCK: Descriptor = Descriptor {
    name: "ttas-ls",
    citation: super::LIBSLOCK,
    summary: "waiters read one word, asking for its line in writing; the losers of a race for it back off",
    properties: "Races after a release are spread. Waiters take the line from each other while they look.",
    deviations: "Compare-and-swap instead of swap; the first attempt does not read first; the delay starts anew at \
                 each acquisition, and its bound is about a context-switch round trip; waiters pause between looks.",
    ..DESCRIPTOR
};

/// The test-and-test-and-set lock.
pub type Ttas<P> = WordLock<P, WhenUnlocked>;

/// The test-and-test-and-set lock of libslock.
pub type TtasLs<P> = WordLock<P, BackingOff>;

const _: () = assert!(size_of::<Ttas<Native>>() == DESCRIPTOR.bytes);
const _: () = assert!(size_of::<TtasLs<Native>>() == LIBSLOCK.bytes);

/// Trying as soon as the word says "unlocked".
#[derive(Debug)]
pub struct WhenUnlocked;

impl<P: Platform> Contest<P> for WhenUnlocked {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;

    fn wait(word: &Word<P>, deadline: Option<Deadline>) -> bool {
        poll_steadily::<P>(deadline, || <Self as Contest<P>>::try_acquire(word))
    }
}

/// Trying as soon as the word says "unlocked", and backing off after each lost race.
#[derive(Debug)]
pub struct BackingOff;

impl<P: Platform> Contest<P> for BackingOff {
    const DESCRIPTOR: &'static Descriptor = &LIBSLOCK;

    fn wait(word: &Word<P>, deadline: Option<Deadline>) -> bool {
        let mut delay = Delay::new::<P>(P::spin_budget());
        let mut patience = Patience::new::<P>();
        let free = Cell::new(false);
        let attempt = || {
            word.prefetch();
            free.set(word.mark() == UNLOCKED);
            free.get() && <Self as Contest<P>>::acquire_fast(word)
        };
        // After an attempt at a free word, somebody was faster.
        let relax = |most| if free.get() { delay.pause::<P>() } else { patience.pause_within::<P>(most) };
        poll::<P>(deadline, attempt, relax)
    }
}
