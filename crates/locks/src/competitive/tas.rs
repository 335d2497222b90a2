//! Test-and-set: everybody tries to change the word until it works.
//!
//! Thomas E. Anderson, "The performance of spin lock alternatives for shared-memory multiprocessors", IEEE TPDS 1(1),
//! 1990, "spin on test-and-set"; as `tas-ls` with the instructions of libslock: Tudor David, Rachid Guerraoui and Vasileios
//! Trigonakis, "Everything you always wanted to know about synchronization but were afraid to ask", SOSP 2013. Deviations:
//! the instruction is a compare-and-swap rather than a swap, so that a failing attempt leaves the word as it is (it takes
//! the cache line all the same).
//!
//! Properties: no fairness at all; 4 bytes a lock, nothing a waiter; unbounded remote references per acquisition,
//! since every attempt takes the line from the holder. Waiting: spin. Timed acquisition polls. Use it as the baseline
//! that everything else is compared with, and for locks that are hardly ever contended.
//!
//! State, invariants and ordering: see [`word`](super::word).

use lockwork_platform::{Deadline, Native, Platform};

use super::poll_steadily;
use super::word::{Contest, Word, WordLock};
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};

/// What is known of test-and-set.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "tas",
    family: Family::Competitive,
    order: Order::None,
    bytes: 4,
    timed: Timed::Polls(""),
    proofs: &[Proof::of(file!()), Proof::of("competitive/word.rs")],
    citation: Citation {
        key: "anderson90",
        text: "Anderson: The performance of spin lock alternatives for shared-memory multiprocessors. \
               IEEE TPDS 1(1), 1990",
    },
    summary: "everybody tries to change one word until it works",
    properties: "Small and, uncontended, one of the fastest. Every attempt takes the cache line from the holder.",
    deviations: "Compare-and-swap instead of swap.",
    avoid: "Contention of any kind: attempts slow the holder down, and a waiter may starve.",
    ..Descriptor::MUTEX
};

/// What is known of libslock's test-and-set.
pub const LIBSLOCK: Descriptor = Descriptor {
    name: "tas-ls",
    citation: super::LIBSLOCK,
    summary: "everybody asks for the line of one word in writing and tries to change it, until it works",
    properties: "Small. The line is fetched once for each attempt, and each attempt takes it from the holder.",
    deviations: "Compare-and-swap instead of swap; the very first attempt does not ask for the line first.",
    ..DESCRIPTOR
};

/// The test-and-set lock.
pub type Tas<P> = WordLock<P, Always>;

/// The test-and-set lock of libslock.
pub type TasLs<P> = WordLock<P, Prefetching>;

const _: () = assert!(size_of::<Tas<Native>>() == DESCRIPTOR.bytes);
const _: () = assert!(size_of::<TasLs<Native>>() == LIBSLOCK.bytes);

/// Trying by compare-and-swap, whatever the word says.
#[derive(Debug)]
pub struct Always;

impl<P: Platform> Contest<P> for Always {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;

    #[inline(always)]
    fn try_acquire(word: &Word<P>) -> bool {
        <Self as Contest<P>>::acquire_fast(word)
    }

    fn wait(word: &Word<P>, deadline: Option<Deadline>) -> bool {
        poll_steadily::<P>(deadline, || <Self as Contest<P>>::acquire_fast(word))
    }
}

/// As [`Always`], asking for the word's cache line in writing first.
#[derive(Debug)]
pub struct Prefetching;

impl<P: Platform> Contest<P> for Prefetching {
    const DESCRIPTOR: &'static Descriptor = &LIBSLOCK;

    #[inline(always)]
    fn try_acquire(word: &Word<P>) -> bool {
        <Self as Contest<P>>::acquire_fast(word)
    }

    fn wait(word: &Word<P>, deadline: Option<Deadline>) -> bool {
        poll_steadily::<P>(deadline, || {
            word.prefetch();
            <Self as Contest<P>>::acquire_fast(word)
        })
    }
}
