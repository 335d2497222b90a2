//! Records of locks, by address and generation: a record is retired when its lock is initialised anew or destroyed, so that
//! memory that is used again never merges two locks.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::format::{
    CLAIMED, EDGES, FREE, Kind, LIVE, LOCKS, LOCKS_OF_THEIR_OWN, Lock, RETIRED, Region, SITES, hash,
};

/// How far a record lies from its hash at most.
const PROBES: usize = 64;

impl Region {
    fn places(&self, key: u64, bounds: core::ops::Range<usize>) -> impl Iterator<Item = (u32, &Lock)> {
        let length = bounds.len();
        let start = (hash(key) >> 16) as usize % length;
        (0..PROBES.min(length)).map(move |probe| {
            let index = bounds.start + (start + probe) % length;
            (index as u32, &self.locks[index])
        })
    }

    fn find(&self, kind: Kind, address: u64) -> Option<(u32, &Lock)> {
        for (index, lock) in self.places(address, 1..LOCKS_OF_THEIR_OWN) {
            match lock.state.load(Acquire) {
                FREE => return None,
                LIVE if lock.address.load(Relaxed) == address && lock.kind.load(Relaxed) == kind as u32 => {
                    return Some((index, lock));
                }
                _ => {}
            }
        }
        None
    }

    /// The number of the lock's record, 0 if it has none.
    pub(crate) fn look_up(&self, kind: Kind, address: u64) -> u32 {
        self.find(kind, address).map_or(0, |(index, _)| index)
    }

    /// The number of the record for the lock at `address`, which `caller` uses; 0 if there is no room.
    pub(crate) fn record(&self, kind: Kind, address: u64, caller: u64, server: u32) -> u32 {
        if let Some((index, _)) = self.find(kind, address) {
            return index;
        }
        let site = self.site_of(address);
        let index = self.claim(address, 1..LOCKS_OF_THEIR_OWN, |lock| {
            lock.kind.store(kind as u32, Relaxed);
            lock.address.store(address, Relaxed);
            lock.site.store(site, Relaxed);
            lock.first_use.store(caller, Relaxed);
            lock.server.store(server, Relaxed);
        });
        if index != 0 {
            return index;
        }
        self.header.dropped.locks.fetch_add(1, Relaxed);
        self.record_of_site(kind, if site != 0 { site } else { caller }, server)
    }

    /// The record of all locks of a site that found no room.
    fn record_of_site(&self, kind: Kind, site: u64, server: u32) -> u32 {
        let bounds = || LOCKS_OF_THEIR_OWN..LOCKS;
        for (index, lock) in self.places(site, bounds()) {
            match lock.state.load(Acquire) {
                LIVE if lock.site.load(Relaxed) == site && lock.kind.load(Relaxed) == kind as u32 => {
                    return index;
                }
                FREE => break,
                _ => {}
            }
        }
        self.claim(site, bounds(), |lock| {
            lock.kind.store(kind as u32, Relaxed);
            lock.site.store(site, Relaxed);
            lock.server.store(server, Relaxed);
        })
    }

    /// Takes the first free record. Two threads that do so for one lock may take one each: the reader adds them up.
    fn claim(&self, key: u64, bounds: core::ops::Range<usize>, write: impl FnOnce(&Lock)) -> u32 {
        for (index, lock) in self.places(key, bounds) {
            if lock.state.load(Relaxed) == FREE
                && lock.state.compare_exchange(FREE, CLAIMED, AcqRel, Relaxed).is_ok()
            {
                write(lock);
                // ORDER: with `find`: whoever sees the record live sees whose it is.
                lock.state.store(LIVE, Release);
                self.header.locks.fetch_add(1, Relaxed);
                return index;
            }
        }
        0
    }

    /// The lock at `address` is another one from here on, initialised by the code before `caller`; or (0) it is none.
    pub(crate) fn renew(&self, kind: Kind, address: u64, caller: u64) {
        if let Some((_, lock)) = self.find(kind, address) {
            lock.state.store(RETIRED, Relaxed);
        }
        let site = &self.sites[(hash(address >> 3) >> 8) as usize % SITES];
        site.address.store(address, Relaxed);
        site.caller.store(caller, Relaxed);
    }

    fn site_of(&self, address: u64) -> u64 {
        let site = &self.sites[(hash(address >> 3) >> 8) as usize % SITES];
        if site.address.load(Relaxed) == address { site.caller.load(Relaxed) } else { 0 }
    }

    /// Adds to the edge between stacks. `lock`, `waiter`, `acquired` and `released` are numbers.
    pub(crate) fn blame(&self, [lock, waiter, acquired, released]: [u32; 4], ns: u64, count: u64) {
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
