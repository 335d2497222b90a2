//! AHMCS: HMCS whose threads enter at the level that the contention asks for.
//!
//! Milind Chabbi and John Mellor-Crummey, "Contention-conscious, locality-preserving locks", PPoPP 2016. A queue that
//! is crowded makes threads enter below it; a queue whose domains below hand nothing over makes them
//! enter in it again. Deviations: without hardware transactional memory; contention is counted for each queue by
//! the lock's holders, where the paper has every thread find its own level; otherwise as HMCS here.
//!
//! Properties: as HMCS. With little contention one queue is all there is: hand-overs cost as in MCS, and a lock has 64
//! bytes of state however many nodes use it. A change of level takes 8 acquisitions in a row that ask for it.
//!
//! # State
//!
//! `crowding` of a domain, with H = 8:
//!
//! | value      | threads enter | an acquisition in the domain's queue | a domain below gives up the queue |
//! |------------|---------------|--------------------------------------|--------------------------------|
//! | 0 … H-1    | in its queue  | crowd: one more, from H-1 to 2H-1; else 0 | –                         |
//! | H … 2H-1   | below         | –                                    | after hand-overs: 2H-1; else one less, from H to 0 |
//!
//! An acquisition met a crowd if somebody was in the queue when it came, and somebody behind it when it had the lock.
//! Only the holder of the queue writes the value, so none gets lost.
//!
//! Invariants and ordering: `tree`. The value orders nothing: a thread may enter at any level at any time.

use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, Native, Platform};

use super::hmcs;
use super::tree::{Entry, Tree};
use crate::describe::{Citation, Descriptor};
use crate::wait::Spin;

/// What is known of AHMCS.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "ahmcs",
    citation: Citation {
        key: "chabbi16",
        text: "Chabbi, Mellor-Crummey: Contention-conscious, locality-preserving locks. PPoPP 2016",
    },
    summary: "hmcs whose threads enter at the level that the contention asks for",
    properties: "With little contention one queue is all there is, as in mcs; with more, as hmcs. A lock that has been used has \
                 64 bytes of state, and under contention 64 for each part of the machine whose threads wait for it.",
    deviations: "No hardware transactions; contention is counted for each queue, not for each thread. Otherwise as hmcs.",
    avoid: "One NUMA node: there it is MCS at best. ahmcs-spin: more threads than CPUs.",
    ..hmcs::DESCRIPTOR
};

/// Threads enter where the queues are not crowded; `H` acquisitions in a row change that.
#[derive(Debug)]
pub struct Adaptive<const H: u32>;

impl<P: Platform, const H: u32> Entry<P> for Adaptive<H> {
    #[inline]
    fn is_below(crowding: &P::U32) -> bool {
        crowding.load(Relaxed) >= H
    }

    fn entered(crowding: &P::U32, crowd: bool) {
        let value = crowding.load(Relaxed);
        if value >= H {
            return; // Decided before this thread got its turn, or there is no level below.
        }
        let next = if !crowd {
            0
        } else if value + 1 == H {
            2 * H - 1
        } else {
            value + 1
        };
        if next != value {
            crowding.store(next, Relaxed);
        }
    }

    fn left(crowding: &P::U32, handed_over: bool) {
        let value = crowding.load(Relaxed);
        if value < H {
            return;
        }
        let next = if handed_over {
            2 * H - 1
        } else if value == H {
            0
        } else {
            value - 1
        };
        if next != value {
            crowding.store(next, Relaxed);
        }
    }
}

/// The AHMCS lock, waiting by `W`.
pub type Ahmcs<P, W, const H: u32 = 8> = Tree<P, W, Adaptive<H>>;

const _: () = assert!(size_of::<Ahmcs<Native, Spin>>() == DESCRIPTOR.bytes);
