//! How many simulated threads the host can have at a time: the stack of each is two mappings, itself and its guard, and a
//! process may have `vm.max_map_count` of them.

use std::sync::{Condvar, LazyLock, Mutex, PoisonError};

/// A thread's mappings.
const EACH: u64 = 2;

/// Linux's limit where the host does not say one.
const DEFAULT: u64 = 65_530;

/// Left for what the process maps beside stacks.
const RESERVE: u64 = 4096;

/// The most threads that the host has stacks for, and the limit of mappings that this follows from.
#[must_use]
pub fn most_threads() -> (u64, u64) {
    static LIMIT: LazyLock<u64> = LazyLock::new(|| {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT)
    });
    let limit = *LIMIT;
    ((limit - RESERVE.min(limit / 2)) / EACH, limit)
}

/// Room for the stacks of runs that are made at the same time.
#[derive(Debug)]
struct Room {
    used: Mutex<u64>,
    left: Condvar,
}

/// A run's part of the room.
#[derive(Debug)]
pub(crate) struct Stacks {
    room: &'static Room,
    threads: u64,
}

static ROOM: Room = Room { used: Mutex::new(0), left: Condvar::new() };

/// Room for the stacks of a run of so many threads, when others leave it. A run that is too large even by itself is let in,
/// when it is alone.
pub(crate) fn take(threads: usize) -> Stacks {
    ROOM.take(threads as u64, most_threads().0)
}

impl Room {
    fn take(&'static self, threads: u64, most: u64) -> Stacks {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |used: &mut u64| *used > 0 && *used + threads > most;
        let mut used = self.left.wait_while(used, is_full).unwrap_or_else(PoisonError::into_inner);
        *used += threads;
        Stacks { room: self, threads }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        *self.room.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.threads;
        self.room.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    static TEST: Room = Room { used: Mutex::new(0), left: Condvar::new() };

    #[test]
    fn runs_wait_until_there_is_room_for_all_their_threads() {
        const LONG: Duration = Duration::from_secs(60);
        let (first, second) = (TEST.take(6, 10), TEST.take(4, 10));
        let (sender, took) = mpsc::channel();
        let third = thread::spawn(move || {
            let stacks = TEST.take(12, 10);
            sender.send(()).unwrap();
            drop(stacks);
        });
        assert!(took.recv_timeout(Duration::from_millis(50)).is_err(), "there is no room");
        drop(first);
        assert!(took.recv_timeout(Duration::from_millis(50)).is_err(), "nor is it alone");
        drop(second);
        took.recv_timeout(LONG).unwrap();
        third.join().unwrap();
        assert_eq!(*TEST.used.lock().unwrap(), 0);
    }

    #[test]
    fn a_host_has_stacks_for_less_than_half_its_mappings() {
        let (threads, mappings) = most_threads();
        assert!(threads > 0 && threads * EACH < mappings, "{threads} of {mappings}");
    }
}
