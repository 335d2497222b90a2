//! What a recorder inside the program would see of its locks: the times waited, held and between sections. Costs no simulated
//! time.

/// What was seen of a lock within the window. Times in cycles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockUse {
    /// Acquisitions that found the lock free.
    pub uncontended: u64,
    /// Of each acquisition that found it taken, from the attempt on.
    pub waits: Vec<u64>,
    /// From an acquisition to the beginning of its release.
    pub holds: Vec<u64>,
    /// From a release to the same thread's next attempt.
    pub thinks: Vec<u64>,
}

/// What a thread did last.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    asked: u64,
    /// Whether the lock was taken then.
    waits: bool,
    acquired: u64,
    /// Which lock, and when.
    released: Option<(usize, u64)>,
}

/// The recorder.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    window: (u64, u64),
    locks: Vec<LockUse>,
    /// Threads that have each lock or ask for it.
    around: Vec<usize>,
    threads: Vec<Last>,
}

impl Recorder {
    pub(super) fn new(threads: usize, locks: usize, window: (u64, u64)) -> Self {
        Self {
            window,
            locks: vec![LockUse::default(); locks],
            around: vec![0; locks],
            threads: vec![Last::default(); threads],
        }
    }

    /// Whether all of what lasted from `since` to `now` was within the window.
    fn counts(&self, since: u64, now: u64) -> bool {
        self.window.0 <= since && now < self.window.1
    }

    pub(super) fn asks(&mut self, me: usize, lock: usize, now: u64) {
        let waits = self.around[lock] > 0;
        self.around[lock] += 1;
        let last = self.threads[me];
        self.threads[me] = Last { asked: now, waits, ..last };
        if let Some((released, since)) = last.released
            && self.counts(since, now)
        {
            self.locks[released].thinks.push(now - since);
        }
    }

    pub(super) fn acquired(&mut self, me: usize, lock: usize, now: u64) {
        self.threads[me].acquired = now;
        let Last { asked, waits, .. } = self.threads[me];
        if !(self.window.0..self.window.1).contains(&now) {
            return;
        }
        if waits {
            self.locks[lock].waits.push(now - asked);
        } else {
            self.locks[lock].uncontended += 1;
        }
    }

    pub(super) fn releases(&mut self, me: usize, lock: usize, now: u64) {
        self.around[lock] = self.around[lock].saturating_sub(1);
        self.threads[me].released = Some((lock, now));
        let acquired = self.threads[me].acquired;
        if self.counts(acquired, now) {
            self.locks[lock].holds.push(now - acquired);
        }
    }

    pub(super) fn finish(self) -> Vec<LockUse> {
        self.locks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_that_take_turns_are_recorded() {
        let mut recorder = Recorder::new(2, 1, (0, 1000));
        recorder.asks(0, 0, 10);
        recorder.acquired(0, 0, 10);
        recorder.asks(1, 0, 20);
        recorder.releases(0, 0, 50);
        recorder.acquired(1, 0, 60);
        recorder.releases(1, 0, 90);
        recorder.asks(0, 0, 150);
        recorder.acquired(0, 0, 155);
        recorder.releases(0, 0, 2000);
        let expected = LockUse { uncontended: 2, waits: vec![40], holds: vec![40, 30], thinks: vec![100] };
        assert_eq!(recorder.finish(), [expected], "what ends behind the window does not count");
    }
}
