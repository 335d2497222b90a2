//! Records of locks, by address and generation: a record is retired when its lock is initialised anew or destroyed, so that
//! memory that is used again never merges two locks.

use core::ops::Range;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use core::sync::atomic::AtomicU8;

use crate::format::{
    FREE, Kind, Known, LIVE, LOCKS, LOCKS_OF_THEIR_OWN, Lock, NAME, NAMES, Named, PROBES, RETIRED, Region,
    SITES, hash,
};

/// What the record of a lock, or of a site, is found by. It is never 0.
fn key(kind: Kind, address: u64) -> u64 {
    address << 2 | (kind as u64 + 1)
}

/// Writes a name, cut where there is no more room.
pub(crate) fn write_name(place: &[AtomicU8; NAME], name: &[u8]) {
    for (cell, byte) in place[..NAME - 1].iter().zip(name.iter().chain(core::iter::repeat(&0))) {
        cell.store(*byte, Relaxed);
    }
}

fn copy_name(to: &[AtomicU8; NAME], from: &[AtomicU8; NAME]) {
    to.iter().zip(from).for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
}

impl Lock {
    /// Whether the record is of the lock at `address`.
    pub(crate) fn is_of(&self, kind: Kind, address: u64) -> bool {
        self.key.load(Relaxed) == key(kind, address) && !self.is_retired()
    }

    fn is_retired(&self) -> bool {
        self.state.load(Relaxed) == RETIRED
    }
}

impl Region {
    fn places(&self, key: u64, bounds: Range<usize>) -> impl Iterator<Item = (u32, &Lock)> {
        let length = bounds.len();
        let start = (hash(key) >> 16) as usize % length;
        (0..PROBES.min(length)).map(move |probe| {
            let index = bounds.start + (start + probe) % length;
            (index as u32, &self.locks[index])
        })
    }

    fn find(&self, key: u64, bounds: Range<usize>) -> Option<u32> {
        for (index, lock) in self.places(key, bounds) {
            match lock.key.load(Acquire) {
                0 => return None,
                there if there == key && !lock.is_retired() => return Some(index),
                _ => {}
            }
        }
        None
    }

    /// The number of the lock's record, 0 if it has none.
    pub(crate) fn look_up(&self, kind: Kind, address: u64) -> u32 {
        self.find(key(kind, address), 1..LOCKS_OF_THEIR_OWN).unwrap_or(0)
    }

    /// The same of a lock that the thread is likely to have looked up before.
    #[inline(always)]
    pub(crate) fn look_up_again(&self, known: &Known, kind: Kind, address: u64) -> u32 {
        let index = known.lock.load(Relaxed);
        let is_it = known.address.load(Relaxed) == address;
        if is_it && self.locks[index as usize % LOCKS].is_of(kind, address) {
            return index;
        }
        let index = self.look_up(kind, address);
        if index != 0 {
            known.address.store(address, Relaxed);
            known.lock.store(index, Relaxed);
        }
        index
    }

    /// The number of the record for the lock at `address`, which `caller` uses; 0 if there is no room.
    pub(crate) fn record(&self, kind: Kind, address: u64, caller: u64, server: u32) -> u32 {
        let key = key(kind, address);
        if let Some(index) = self.find(key, 1..LOCKS_OF_THEIR_OWN) {
            return index;
        }
        let site = self.site_of(address);
        let index = self.find_or_claim(key, 1..LOCKS_OF_THEIR_OWN, |lock| {
            lock.kind.store(kind as u32, Relaxed);
            lock.address.store(address, Relaxed);
            lock.site.store(site, Relaxed);
            lock.first_use.store(caller, Relaxed);
            lock.server.store(server, Relaxed);
            let named = self.named(address);
            if named.address.load(Relaxed) == address {
                copy_name(&lock.name, &named.name);
            }
        });
        if index != 0 {
            return index;
        }
        self.header.dropped.locks.fetch_add(1, Relaxed);
        self.record_of_site(kind, if site != 0 { site } else { caller }, server)
    }

    /// The record of all locks of a site that found no room.
    fn record_of_site(&self, kind: Kind, site: u64, server: u32) -> u32 {
        self.find_or_claim(key(kind, site), LOCKS_OF_THEIR_OWN..LOCKS, |lock| {
            lock.kind.store(kind as u32, Relaxed);
            lock.site.store(site, Relaxed);
            lock.server.store(server, Relaxed);
        })
    }

    /// The number of the record with this key, or of a free one that `write` begins; 0 if there is no room. Of threads that
    /// come at once, one begins it, and all use it.
    fn find_or_claim(&self, key: u64, bounds: Range<usize>, write: impl FnOnce(&Lock)) -> u32 {
        for (index, lock) in self.places(key, bounds) {
            match lock.key.compare_exchange(0, key, AcqRel, Acquire) {
                Ok(_) => {
                    write(lock);
                    // ORDER: with the reader: a record that is live says whose it is. It may have been retired meanwhile.
                    let _ = lock.state.compare_exchange(FREE, LIVE, Release, Relaxed);
                    self.header.locks.fetch_add(1, Relaxed);
                    return index;
                }
                Err(there) if there == key && !lock.is_retired() => return index,
                Err(_) => {}
            }
        }
        0
    }

    /// The lock at `address` is another one from here on, initialised by the code before `caller`; or (0) it is none.
    pub fn renew_lock(&self, kind: Kind, address: usize, caller: usize) {
        let (address, caller) = (address as u64, caller as u64);
        let index = self.look_up(kind, address);
        if index != 0 {
            self.locks[index as usize].state.store(RETIRED, Relaxed);
        }
        let site = &self.sites[(hash(address >> 3) >> 8) as usize % SITES];
        site.address.store(address, Relaxed);
        site.caller.store(caller, Relaxed);
        let named = self.named(address);
        if named.address.load(Relaxed) == address {
            named.address.store(0, Relaxed);
        }
    }

    fn named(&self, address: u64) -> &Named {
        &self.names[(hash(address >> 3) >> 8) as usize % NAMES]
    }

    /// The program calls the lock at `address` so.
    pub fn name_lock(&self, address: usize, name: &[u8]) {
        let address = address as u64;
        for kind in [Kind::Mutex, Kind::RwLock, Kind::Cond] {
            let index = self.look_up(kind, address);
            if index != 0 {
                write_name(&self.locks[index as usize].name, name);
            }
        }
        let named = self.named(address);
        write_name(&named.name, name);
        named.address.store(address, Relaxed);
    }

    fn site_of(&self, address: u64) -> u64 {
        let site = &self.sites[(hash(address >> 3) >> 8) as usize % SITES];
        if site.address.load(Relaxed) == address { site.caller.load(Relaxed) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn threads_that_come_at_once_use_one_record() {
        let region = Region::in_memory();
        let barrier = Barrier::new(4);
        let record_all = || -> Vec<u32> {
            let one = |address| {
                barrier.wait();
                region.record(Kind::Mutex, address, 7, 0)
            };
            (1..500).map(|number| one(number * 40)).collect()
        };
        let all: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(record_all)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(all[0].iter().all(|index| *index != 0));
        assert!(all.iter().all(|records| *records == all[0]));
        assert_eq!(region.header.locks.load(Relaxed), 499);
    }

    #[test]
    fn kinds_and_generations_have_records_of_their_own() {
        let region = Region::in_memory();
        let mutex = region.record(Kind::Mutex, 64, 0, 0);
        let rwlock = region.record(Kind::RwLock, 64, 0, 0);
        assert_ne!(mutex, rwlock);
        assert_eq!((region.look_up(Kind::Mutex, 64), region.look_up(Kind::RwLock, 64)), (mutex, rwlock));
        region.renew_lock(Kind::Mutex, 64, 5);
        assert_eq!(region.look_up(Kind::Mutex, 64), 0);
        let again = region.record(Kind::Mutex, 64, 0, 0);
        assert!(again != mutex && again != rwlock);
        assert_eq!(region.locks[again as usize].site.load(Relaxed), 5);
    }

    #[test]
    fn names_are_of_a_lock_and_not_of_its_memory() {
        let region = Region::in_memory();
        let name = |index: u32| -> Vec<u8> {
            let cells = region.locks[index as usize].name.iter().map(|cell| cell.load(Relaxed));
            cells.take_while(|byte| *byte != 0).collect()
        };
        region.name_lock(64, b"before");
        let mutex = region.record(Kind::Mutex, 64, 0, 0);
        assert_eq!(name(mutex), b"before");
        region.name_lock(64, b"a longer name");
        region.name_lock(64, b"after");
        assert_eq!(name(mutex), b"after");
        region.renew_lock(Kind::Mutex, 64, 5);
        assert_eq!(name(region.record(Kind::Mutex, 64, 0, 0)), b"");
        region.name_lock(128, &[b'x'; 100]);
        assert_eq!(name(region.record(Kind::RwLock, 128, 0, 0)), [b'x'; NAME - 1]);
    }
}
