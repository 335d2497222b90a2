//! Sections and what is between them: how long a thread has a lock, and how long it does without it afterwards (its think time).
//!
//! Hold times are known of two kinds of acquisitions, which do not overlap: those that did not wait, of which samples by count
//! are taken, and those that waited and were watched. What is added of each is weighted by what it stands for. A think time is
//! measured after each sample by count, whether that waited or not, and has its weight.

use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{Native, Placement};

use super::clock::now;
use super::raise;
use super::release::Releasing;
use super::wait::stands_for;
use crate::format::{Held, Lock, Mode, Region, Thread};

impl Region {
    /// Adds an acquisition and its section to the lock's figures: one without a wait, if it is a sample by count, and one with a
    /// wait, if that was watched. `weight` is that of the sample; 0 = it is none.
    pub(super) fn note_section(&self, thread: &Thread, releasing: &Releasing, index: u32, weight: u64) {
        let lock = &self.locks[index as usize];
        let at = self.times_of(thread).of(releasing.at);
        if weight != 0 {
            thread.think_lock.store(index, Relaxed);
            thread.think_weight.store(weight as u32, Relaxed);
            thread.think_since.store(at, Relaxed);
            thread.think_of.store(releasing.target.address as u64, Relaxed);
        }
        let weight = match releasing.wait {
            0 => weight,
            is if is & Held::WATCHED != 0 => u64::from(stands_for(is)),
            _ => 0,
        };
        if weight == 0 {
            return;
        }
        if releasing.wait == 0 {
            let reads = u64::from(releasing.target.mode == Mode::Read);
            lock.uncontended.fetch_add(weight, Relaxed);
            lock.uncontended_reads.fetch_add(weight * reads, Relaxed);
            lock.uncontended_variance.fetch_add(weight * (weight - 1), Relaxed);
            lock.note_owner(thread.tid.load(Relaxed), Native::domain() as u32, weight);
        }
        lock.note_hold(at.saturating_sub(releasing.since), weight, releasing.is_outer);
    }

    /// The thread is about to acquire the lock again whose release began its think time.
    #[cold]
    pub(super) fn think_ends(&self, thread: &Thread) {
        thread.think_of.store(0, Relaxed);
        let ns = now().saturating_sub(thread.think_since.load(Relaxed));
        let weight = u64::from(thread.think_weight.load(Relaxed));
        if let Some(lock) = self.locks.get(thread.think_lock.load(Relaxed) as usize) {
            lock.think.add(ns, weight);
            lock.think_ns.fetch_add(ns * weight, Relaxed);
            lock.thinks.fetch_add(weight, Relaxed);
        }
    }
}

impl Lock {
    fn note_hold(&self, ns: u64, weight: u64, is_outer: bool) {
        self.hold.add(ns, weight);
        self.hold_ns.fetch_add(ns * weight, Relaxed);
        if is_outer {
            self.outer_hold_ns.fetch_add(ns * weight, Relaxed);
        }
        let squared = (ns as f64 / 1e3) * (ns as f64 / 1e3);
        self.hold_variance_us2.fetch_add((squared * (weight * (weight - 1)) as f64) as u64, Relaxed);
        raise(&self.hold_max_ns, ns);
    }

    /// Notes an acquisition without a wait, of which a thread on this node is a sample.
    fn note_owner(&self, tid: u32, node: u32, weight: u64) {
        if self.last_owner.load(Relaxed) != tid {
            let before = self.last_owner.swap(tid, Relaxed);
            if before != 0 {
                self.owner_switches.fetch_add(weight, Relaxed);
                if self.last_node.load(Relaxed) != node {
                    self.node_crossings.fetch_add(weight, Relaxed);
                }
            }
            self.last_node.store(node, Relaxed);
        }
    }
}
