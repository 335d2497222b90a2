//! Whom a wait is blamed on, and what else is found out about a wait when it is over: what part of it was behind other waiters,
//! and whether the lock came from another node.
//!
//! The thread that waited works that out itself, after its own section, from the ring of the lock's releases. The time from one
//! release to the next belongs to the later one, the time from the last release to the end of the wait to the last one. So the
//! blame for a wait adds up to the wait, also if some of its releases are not known.
//!
//! What is split into parts are all waits that were watched, each weighted by how many it stands for ([`stands_for`]). Blamed on
//! somebody, and shown as events, are those of them that have a sampled point of waiting time in them.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use lockwork_platform::{Native, Placement};

use super::clock::Times;
use super::wait::{Wait, stands_for};
use crate::format::{
    EDGES, EVENTS, Held, Lock, Logged, Mode, PROBES, QUEUED, RING, Region, SPINNING, Thread, WaitEvent, hash,
};

impl Region {
    /// Notes a wait after which the thread had the lock.
    pub(super) fn waited(&self, thread: &Thread, wait: Wait) {
        let entry = Logged {
            lock: wait.lock,
            mode: wait.mode,
            is_outer: wait.is_outer,
            is_parked: false,
            ns: wait.ns(),
        };
        if !Self::log(thread, entry, wait.parked_ns) {
            self.settle(thread);
            Self::log(thread, entry, wait.parked_ns);
        }
        if wait.lock != 0 {
            self.look_into(thread, wait);
        }
    }

    /// Of a wait: what part was behind others, and if it is a sample, whom to blame, and its event.
    pub(super) fn look_into(&self, thread: &Thread, wait: Wait) {
        let lock = &self.locks[wait.lock as usize];
        let is_watched = wait.is & Held::WATCHED != 0;
        let times = if is_watched { Some(self.times_of(thread)) } else { None };
        if let Some(times) = times {
            lock.split_wait(&wait, times);
            lock.note_hand_over(thread.tid.load(Relaxed), &wait, times);
        }
        // Of a wait that was short, and not watched by chance, only a point near its beginning was sure to be seen.
        let only_near = wait.mode != Mode::Cond && wait.is & (Held::LONG | Held::SURE) == 0;
        let period = self.header.wait_period_ns.load(Relaxed);
        let Some(weight) = thread.take_wait(wait.ns(), period, only_near) else { return };
        let last = times.and_then(|times| self.blame_releases(lock, &wait, times, weight));
        let number = self.header.events.fetch_add(1, Relaxed);
        self.note_cpu_time_at(wait.until);
        let event = &self.events[number as usize % EVENTS];
        event.write(&wait, thread.tid.load(Relaxed), last.unwrap_or((0, 0)), weight);
    }

    /// Charges a wait to those that released the lock meanwhile; the last of them, and when.
    fn blame_releases(&self, lock: &Lock, wait: &Wait, times: Times, weight: f64) -> Option<(u32, u64)> {
        let total = wait.ns() as f64 * weight;
        let releases = lock.releases_during(wait, times);
        // Earlier ones may have been forgotten, or nobody noted them: then those that are known stand for them.
        let (mut from, seen) = match releases.as_slice() {
            [earliest, later @ ..] if later.len() == RING - 1 => (earliest.at, later),
            seen => (wait.watched_from, seen),
        };
        let Some(last) = seen.last() else {
            self.blame([wait.lock, wait.stack, 0, 0], total as u64, weight as u64);
            return None;
        };
        let known = wait.until.saturating_sub(from).max(1) as f64;
        for (place, it) in seen.iter().enumerate() {
            let to = if place + 1 == seen.len() { wait.until } else { it.at };
            let share = to.saturating_sub(from) as f64 / known;
            from = to;
            let edge = [wait.lock, wait.stack, it.acquired, it.released];
            self.blame(edge, (total * share) as u64, weight as u64);
        }
        Some((last.thread, last.at))
    }

    /// Adds to the edge between stacks. `lock`, `waiter`, `acquired` and `released` are numbers.
    fn blame(&self, [lock, waiter, acquired, released]: [u32; 4], ns: u64, count: u64) {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let key = hash(hash(pair(lock, waiter)) ^ pair(acquired, released)) | 1;
        for probe in 0..PROBES {
            let edge = &self.edges[((key >> 16) as usize + probe) % EDGES];
            let mut there = edge.hash.load(Acquire);
            if there == 0 {
                match edge.hash.compare_exchange(0, key, AcqRel, Acquire) {
                    Ok(_) => {
                        edge.lock.store(lock, Relaxed);
                        edge.waiter.store(waiter, Relaxed);
                        edge.acquired.store(acquired, Relaxed);
                        edge.released.store(released, Relaxed);
                        there = key;
                    }
                    Err(other) => there = other,
                }
            }
            if there == key {
                edge.ns.fetch_add(ns, Relaxed);
                edge.count.fetch_add(count, Relaxed);
                return;
            }
        }
        self.header.dropped.blame_ns.fetch_add(ns, Relaxed);
    }
}

impl Lock {
    /// Adds the parts that its thread was awake in a wait that was watched, and that stands for others that were not. What the
    /// thread slept is taken from the time in which others got the lock first.
    fn split_wait(&self, wait: &Wait, times: Times) {
        // glibc's locks sleep at once.
        if self.server.load(Relaxed) == 0 {
            return;
        }
        let weight = stands_for(wait.is);
        let ns = wait.ns();
        let parked = wait.parked_ns.min(ns);
        // Until the last release but one others were ahead.
        let last_but_one = self.latest_releases(wait, times).nth(1);
        let behind = last_but_one.map_or(0, |(at, _)| at.saturating_sub(wait.since));
        let queued = behind.saturating_sub(parked).min(ns - parked);
        self.parts[QUEUED].add(queued, weight);
        self.parts[SPINNING].add(ns - parked - queued, weight);
    }

    /// Notes which thread has the lock after a wait that was watched, and whether it came from another node. That it came from
    /// another thread goes without saying.
    fn note_hand_over(&self, tid: u32, wait: &Wait, times: Times) {
        if wait.mode == Mode::Cond || Native::domains() == 1 {
            return;
        }
        let node = Native::domain() as u32;
        let before = self.latest_releases(wait, times).next();
        if before.is_some_and(|(_, before)| before != node) {
            self.node_crossings.fetch_add(u64::from(stands_for(wait.is)), Relaxed);
        }
        self.last_owner.store(tid, Relaxed);
        self.last_node.store(node, Relaxed);
    }
}

impl WaitEvent {
    /// An event that has no end is being written: readers leave it out.
    fn write(&self, wait: &Wait, tid: u32, (holder, released_at): (u32, u64), weight: f64) {
        self.until.store(0, Relaxed);
        self.lock.store(wait.lock, Relaxed);
        self.stack.store(wait.stack, Relaxed);
        self.thread.store(tid, Relaxed);
        self.holder.store(holder, Relaxed);
        self.since.store(wait.since, Relaxed);
        self.released_at.store(released_at, Relaxed);
        self.weight.store((weight * 1e3) as u64, Relaxed);
        self.mode.store(wait.mode as u32, Relaxed);
        self.until.store(wait.until, Relaxed);
    }
}
