//! When a lock was released while somebody waited for it, and by which threads and stacks: the latest [`RING`] such releases.
//!
//! An entry is written in two steps, since its stacks cost more than a holder may spend:
//!
//! ```text
//! before the release:  releases n → n+1;  turn = 2n+1;  at, thread, node
//! after it:            acquired, released;  turn = 2n+2
//! ```
//!
//! The reader is a thread that has waited, and that has had the lock and released it again, or has given up. Edges:
//!
//! - **The lock.** The first step is within the section. All that the reader is interested in are releases before its own
//!   acquisition, so what it reads of the first step is there by the ordering of the lock itself. A reader that has given up
//!   may miss the latest.
//! - **E1.** The second step may be under way when the reader looks: `turn = 2n+2` is a release store, which an acquire load of
//!   the same word sees, with the stacks.
//! - **E2.** The place may be taken by release n + `RING` while the reader looks. So it looks at `turn` again behind an acquire
//!   fence, and whoever takes it has a release fence between `turn` and the rest: a reader that has seen any of that sees the turn.

use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::fence;

use lockwork_platform::{Native, Placement, sys};

use super::clock::Times;
use super::wait::Wait;
use crate::format::{Lock, RING, Release as Entry};

/// How often a reader looks at an entry that has no stacks yet.
const LOOKS: u32 = 200;

/// What `turn` is when the first step of a release has begun.
fn begun(turn: u32) -> u64 {
    u64::from(turn) * 2 + 1
}

/// What `turn` is when a release is complete.
fn complete(turn: u32) -> u64 {
    u64::from(turn) * 2 + 2
}

impl Entry {
    /// Whether the entry is that of a release, by a reader that has read it: it may not be begun yet, or be another one's already.
    fn is_of(&self, turn: u32) -> bool {
        self.turn.load(Relaxed).wrapping_sub(begun(turn)) <= 1
    }
}

/// Holders.
impl Lock {
    fn entry(&self, turn: u32) -> &Entry {
        &self.ring[turn as usize % RING]
    }

    /// A thread is about to release the lock: the first step. `is_alone`: no other thread can be about to do so, nor to release
    /// another lock that has the same record. Returns the number of the release and what the processor's counter showed.
    pub(super) fn begin_release(&self, tid: u32, is_alone: bool) -> (u32, u64) {
        let turn = if is_alone {
            let turn = self.releases.load(Relaxed);
            self.releases.store(turn.wrapping_add(1), Relaxed);
            turn
        } else {
            self.releases.fetch_add(1, Relaxed)
        };
        let entry = self.entry(turn);
        entry.turn.store(begun(turn), Relaxed);
        // ORDER: E2.
        fence(Release);
        let at = sys::ticks();
        entry.at.store(at, Relaxed);
        entry.thread.store(tid, Relaxed);
        if Native::domains() > 1 {
            entry.node.store(Native::domain() as u32, Relaxed);
        }
        (turn, at)
    }

    /// The thread has released it, and it is known where it acquired and released it: the second step.
    pub(super) fn complete_release(&self, turn: u32, [acquired, released]: [u32; 2]) {
        let entry = self.entry(turn);
        entry.acquired.store(acquired, Relaxed);
        entry.released.store(released, Relaxed);
        // ORDER: E1.
        entry.turn.store(complete(turn), Release);
    }

    /// The thread that made the latest entry is about to release the lock again.
    pub(super) fn release_repeats(&self, turn: u32) {
        self.entry(turn).at.store(sys::ticks(), Relaxed);
    }
}

/// A release as a thread sees it that has waited for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) at: u64,
    pub(super) acquired: u32,
    pub(super) released: u32,
    pub(super) thread: u32,
}

/// Releases during a wait, in the order of their times.
#[derive(Debug)]
pub(super) struct Releases {
    seen: [Seen; RING],
    count: usize,
}

impl Releases {
    pub(super) fn as_slice(&self) -> &[Seen] {
        &self.seen[..self.count]
    }

    /// Readers release a lock at the same time, so that turns and times may be a little out of order.
    fn insert(&mut self, it: Seen) {
        let there = &self.seen[..self.count];
        let place = there.iter().rposition(|other| other.at <= it.at).map_or(0, |before| before + 1);
        self.seen.copy_within(place..self.count, place + 1);
        self.seen[place] = it;
        self.count += 1;
    }
}

/// Threads that have waited.
impl Lock {
    /// The releases that the ring has, the latest last.
    fn turns(&self) -> Range<u32> {
        // ORDER: the number before the entries. What is in them is there by the lock's own order.
        let all = self.releases.load(Acquire);
        all.saturating_sub(RING as u32)..all
    }

    /// The releases during a wait, with their stacks: 0 where those take longer than a moment.
    pub(super) fn releases_during(&self, wait: &Wait, times: Times) -> Releases {
        let mut releases = Releases { seen: [Seen::default(); RING], count: 0 };
        for turn in self.turns() {
            let entry = self.entry(turn);
            let is_complete = (0..LOOKS).any(|_| {
                core::hint::spin_loop();
                // ORDER: E1.
                entry.turn.load(Acquire) >= complete(turn)
            });
            let (acquired, released) = if is_complete {
                (entry.acquired.load(Relaxed), entry.released.load(Relaxed))
            } else {
                (0, 0)
            };
            let at = times.of(entry.at.load(Relaxed));
            let it = Seen { at, acquired, released, thread: entry.thread.load(Relaxed) };
            // ORDER: E2.
            fence(Acquire);
            if entry.is_of(turn) && at > wait.watched_from && at <= wait.until {
                releases.insert(it);
            }
        }
        releases
    }

    /// When and on which node the lock was released the last time, the last time but one and so on during a wait.
    pub(super) fn latest_releases(&self, wait: &Wait, times: Times) -> impl Iterator<Item = (u64, u32)> {
        let (since, until) = (wait.watched_from, wait.until);
        let latest = self.turns().rev().filter_map(move |turn| {
            let entry = self.entry(turn);
            let (at, node) = (times.of(entry.at.load(Relaxed)), entry.node.load(Relaxed));
            // ORDER: E2.
            fence(Acquire);
            entry.is_of(turn).then_some((at, node))
        });
        latest.skip_while(move |(at, _)| *at > until).take_while(move |(at, _)| *at > since)
    }
}
