//! Where the time of a lock goes: who has it, or whom it waits for. For reports; costs no simulated time.

use std::iter::Sum;
use std::ops::AddAssign;

use crate::engine::fiber::Seat;

/// The cycles of the locks of a run within the window, all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockTime {
    /// A thread has it, and a CPU.
    pub held: u64,
    /// A thread has it, and no CPU.
    pub held_off: u64,
    /// It is free, and nobody asks for it.
    pub idle: u64,
    /// From the beginning of a release to the next acquisition, while the thread that acquires it has a CPU.
    pub awake: u64,
    /// The same, while that thread waits for a CPU.
    pub queued: u64,
    /// The same, while that thread sleeps.
    pub asleep: u64,
    /// Acquisitions by the thread that released it, by one that had a CPU all the time, by one that waited for a CPU, by one that
    /// was asleep when the release began.
    pub acquisitions: [u64; 4],
}

impl AddAssign for LockTime {
    fn add_assign(&mut self, other: Self) {
        self.held += other.held;
        self.held_off += other.held_off;
        self.idle += other.idle;
        self.awake += other.awake;
        self.queued += other.queued;
        self.asleep += other.asleep;
        for (mine, others) in self.acquisitions.iter_mut().zip(other.acquisitions) {
            *mine += others;
        }
    }
}

impl Sum for LockTime {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |mut sum, part| {
            sum += part;
            sum
        })
    }
}

/// A lock that is watched.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Watched {
    time: LockTime,
    /// Threads that ask for it.
    asking: usize,
    /// The thread that acquired it first since it was free, when, and how long that thread had been without a CPU until then.
    acquired: Option<(usize, u64, u64)>,
    /// The thread that released it last, and since when the lock has waited for the next.
    released: Option<(usize, u64)>,
}

impl Watched {
    /// A thread is about to acquire it.
    pub(super) fn asks(&mut self, now: u64) {
        if self.asking == 0
            && let Some((_, since)) = &mut self.released
        {
            self.time.idle += now.saturating_sub(*since);
            *since = now.max(*since);
        }
        self.asking += 1;
    }

    /// A thread has acquired it, alone or before others.
    pub(super) fn acquired(&mut self, me: usize, now: u64, seat: Seat) {
        self.asking -= 1;
        if self.acquired.is_some() {
            return;
        }
        self.acquired = Some((me, now, seat.off));
        let Some((other, since)) = self.released.take() else { return };
        // What has happened to it since, backwards.
        let back = seat.back.clamp(since, now);
        let ready = seat.ready.clamp(since, back);
        self.time.awake += now - back;
        self.time.queued += back - ready;
        self.time.asleep += ready - since;
        let kind = match () {
            () if other == me => 0,
            () if back == since => 1,
            () if ready == since => 2,
            () => 3,
        };
        self.time.acquisitions[kind] += 1;
    }

    /// A thread is about to release it, and nobody else has it.
    pub(super) fn releases(&mut self, me: usize, now: u64, seat: Seat) {
        let Some((who, since, off)) = self.acquired.take() else { return };
        let all = now.saturating_sub(since);
        // Of one who shared it with others it is not known.
        let without = if who == me { (seat.off - off).min(all) } else { 0 };
        self.time.held += all - without;
        self.time.held_off += without;
        self.released = Some((me, now));
    }

    /// Takes what has been seen of a lock so far, as at the beginning of the window.
    pub(super) fn take(&mut self) -> LockTime {
        std::mem::take(&mut self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(ready: u64, back: u64, off: u64) -> Seat {
        Seat { ready, back, off, ..Seat::default() }
    }

    #[test]
    fn the_time_of_a_lock_is_somebodys() {
        let mut lock = Watched::default();
        lock.asks(0);
        lock.acquired(1, 10, seat(0, 0, 0));
        lock.asks(20);
        lock.releases(1, 110, seat(0, 90, 30));
        lock.acquired(2, 200, seat(140, 170, 0));
        lock.releases(2, 210, seat(140, 170, 0));
        lock.asks(300);
        lock.acquired(2, 305, seat(140, 170, 0));
        let time = lock.take();
        assert_eq!((time.held, time.held_off), (70 + 10, 30));
        assert_eq!((time.asleep, time.queued, time.awake), (30, 30, 30 + 5));
        assert_eq!(time.idle, 90);
        assert_eq!(time.acquisitions, [1, 0, 0, 1]);
    }
}
