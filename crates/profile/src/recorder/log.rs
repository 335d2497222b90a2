//! What waits add to the figures of their locks, and when: a thread keeps those that ended with the lock in a log of its own, and
//! adds many at a time. Otherwise all waiters would take the cache lines of the figures from each other at every wait.
//!
//! Invariants:
//!
//! - A thread alone writes to its log, and not from a signal handler while it is `busy`. Readers of the file add what is in it
//!   to the figures, so nothing is lost when a process is killed; what is being settled then may be counted twice.
//! - A wait has one entry, or two if its thread slept: they lie side by side, and fit both or neither.

use core::sync::atomic::Ordering::Relaxed;

use super::raise;
use super::wait::Wait;
use crate::format::{Kind, LOG, Lock, Logged, Mode, PARKED, Region, Thread};

/// Waits for one lock, added up.
#[derive(Default)]
struct Sum {
    waits: u64,
    reads: u64,
    ns: u64,
    reads_ns: u64,
    outer_ns: u64,
    parked_ns: u64,
    max_ns: u64,
}

impl Sum {
    /// Adds an entry; what is a distribution goes to the lock at once.
    fn add(&mut self, lock: &Lock, entry: Logged) {
        let Logged { mode, ns, .. } = entry;
        // glibc's mutex and reader-writer lock sleep at once, and say nothing of that.
        let sleeps_at_once = mode != Mode::Cond && lock.server.load(Relaxed) == 0;
        if entry.is_parked || sleeps_at_once {
            self.parked_ns += ns;
            lock.parts[PARKED].count(ns, 1);
        }
        if entry.is_parked {
            return;
        }
        lock.wait.add(ns, 1);
        self.waits += 1;
        self.ns += ns;
        if mode == Mode::Read {
            self.reads += 1;
            self.reads_ns += ns;
        }
        if entry.is_outer {
            self.outer_ns += ns;
        }
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds the sum to the figures of the lock, whose threads acquired it after all these waits.
    fn add_to(&self, lock: &Lock) {
        for (figure, value) in [
            (&lock.contended, self.waits),
            (&lock.contended_reads, self.reads),
            (&lock.wait_ns, self.ns),
            (&lock.wait_reads_ns, self.reads_ns),
            (&lock.outer_wait_ns, self.outer_ns),
            (&lock.parts[PARKED].ns, self.parked_ns),
        ] {
            if value != 0 {
                figure.fetch_add(value, Relaxed);
            }
        }
        // A thread that waited for a lock has it after another thread.
        if lock.kind.load(Relaxed) != Kind::Cond as u32 && self.waits != 0 {
            lock.owner_switches.fetch_add(self.waits, Relaxed);
        }
        raise(&lock.wait_max_ns, self.max_ns);
    }
}

impl Region {
    /// Notes a wait of the calling thread after which it has the lock, and how much of that it slept. `false`: there is no room
    /// until [`settle`](Self::settle).
    pub(super) fn log(thread: &Thread, wait: Logged, parked_ns: u64) -> bool {
        let count = thread.logged.load(Relaxed) as usize;
        let needed = if parked_ns == 0 { 1 } else { 2 };
        if count + needed > LOG {
            return false;
        }
        thread.log[count].store(wait.word(), Relaxed);
        if parked_ns != 0 {
            let parked = Logged { is_parked: true, ns: parked_ns, ..wait };
            thread.log[count + 1].store(parked.word(), Relaxed);
        }
        thread.logged.store((count + needed) as u32, Relaxed);
        true
    }

    /// Adds what a thread has kept for itself to the figures of the locks: the thread does so, or nobody else that has the region.
    pub fn settle(&self, thread: &Thread) {
        let mut count = (thread.logged.load(Relaxed) as usize).min(LOG);
        while count > 0 {
            // A run of waits for one lock, the latest first.
            let index = Logged::of(thread.log[count - 1].load(Relaxed)).lock;
            let Some(lock) = self.locks.get(index as usize).filter(|_| index != 0) else {
                count -= 1;
                if !Logged::of(thread.log[count].load(Relaxed)).is_parked {
                    self.header.dropped.acquisitions.fetch_add(1, Relaxed);
                }
                thread.logged.store(count as u32, Relaxed);
                continue;
            };
            let mut sum = Sum::default();
            while let Some(before) = count.checked_sub(1)
                && let entry = Logged::of(thread.log[before].load(Relaxed))
                && entry.lock == index
            {
                count = before;
                sum.add(lock, entry);
            }
            sum.add_to(lock);
            thread.logged.store(count as u32, Relaxed);
        }
    }
}

impl Lock {
    /// Adds a wait that was given up.
    pub(super) fn add_vain_wait(&self, wait: &Wait) {
        let ns = wait.ns();
        self.wait.add(ns, 1);
        self.wait_ns.fetch_add(ns, Relaxed);
        if wait.is_outer {
            self.outer_wait_ns.fetch_add(ns, Relaxed);
        }
        if wait.mode == Mode::Read {
            self.wait_reads_ns.fetch_add(ns, Relaxed);
        }
        let parked = if self.server.load(Relaxed) == 0 { ns } else { wait.parked_ns.min(ns) };
        self.parts[PARKED].add(parked, 1);
        raise(&self.wait_max_ns, ns);
    }
}
