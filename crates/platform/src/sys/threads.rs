//! The threads of this process, and whether the kernel has them on a CPU or in the queue for one.

use core::ffi::CStr;

use super::{close, number, open, open_at, read};
use crate::arch::syscall6;

/// Some of the threads of this process, as [`look_at_threads`] found them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SomeThreads {
    /// Those that were looked at.
    pub(crate) seen: usize,
    /// Those of them that have a CPU, or wait for one.
    pub(crate) runnable: usize,
    /// Whether there are more behind them.
    pub(crate) more: bool,
}

/// Looks at the threads of this process from number `first` (of 0, 1, …), at most `most` of them (at most 8); `None` if they
/// cannot be listed. Takes some 10 µs for each.
pub(crate) fn look_at_threads(first: usize, most: usize) -> Option<SomeThreads> {
    let directory = open(c"/proc/self/task")?;
    let found = look_in(directory, first, most);
    close(directory as i32);
    found
}

fn look_in(directory: usize, first: usize, most: usize) -> Option<SomeThreads> {
    /// Room for eight entries with names of at most seven digits, and for `.` and `..`.
    const BYTES: usize = 10 * 32;
    /// Of an entry: its length, and its name.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    /// The positions of `.` and `..`, which come first.
    const DOTS: usize = 2;
    const FROM_START: usize = 0;
    // SAFETY: no memory is involved.
    let position = unsafe { syscall6(number::LSEEK, [directory, first + DOTS, FROM_START, 0, 0, 0]) };
    if position < 0 {
        return None;
    }
    let mut entries = [0_u8; BYTES];
    let args = [directory, entries.as_mut_ptr() as usize, BYTES, 0, 0, 0];
    // SAFETY: the buffer is writable for the length given.
    let filled = usize::try_from(unsafe { syscall6(number::GETDENTS, args) }).ok()?;
    let mut rest = entries.get(..filled)?;
    let mut found = SomeThreads { more: filled > 0, ..SomeThreads::default() };
    while found.seen < most && rest.len() > NAME {
        let length = usize::from(u16::from_ne_bytes([rest[LENGTH], rest[LENGTH + 1]]));
        let (entry, behind) = rest.split_at_checked(length)?;
        rest = behind;
        let name = CStr::from_bytes_until_nul(entry.get(NAME..)?).ok()?;
        found.seen += 1;
        found.runnable += usize::from(is_runnable(directory, name));
    }
    Some(found)
}

/// Whether the thread with this name in `directory` is runnable; one that has ended meanwhile is not.
fn is_runnable(directory: usize, name: &CStr) -> bool {
    let mut path = [0_u8; 16];
    let digits = name.to_bytes();
    let Some(place) = path.get_mut(..digits.len()) else { return false };
    place.copy_from_slice(digits);
    let Some(place) = path.get_mut(digits.len()..digits.len() + 6) else { return false };
    place.copy_from_slice(b"/stat\0");
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
    let Some(file) = open_at(directory, path) else { return false };
    let mut buffer = [0; 64];
    let state = read(file, &mut buffer).and_then(state_in);
    close(file as i32);
    state == Some(b'R')
}

/// The state in the beginning of a thread's `stat`: `17 (a name) R …` has `R`. A name has at most 15 bytes, which may be `)`.
fn state_in(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end + 2).copied()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::thread;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn the_state_comes_behind_the_name() {
        assert_eq!(state_in(b"31320 (st) R 31311 31311 14200 0 -1 41943"), Some(b'R'));
        assert_eq!(state_in(b"4 (a) R (b)) S 1 1"), Some(b'S'));
        for text in [&b""[..], b"31320 (st", b"31320 (st)", b"31320 (st) "] {
            assert_eq!(state_in(text), None);
        }
    }

    fn all() -> SomeThreads {
        let mut sum = SomeThreads::default();
        loop {
            let some = look_at_threads(sum.seen, 3).expect("this process can list its threads");
            sum.seen += some.seen;
            sum.runnable += some.runnable;
            if !some.more {
                return sum;
            }
        }
    }

    #[test]
    fn threads_that_run_are_told_from_those_that_sleep() {
        const EACH: usize = 3;
        let (ends, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let mut sleepers = Vec::new();
            for sleeps in [false, true] {
                for _ in 0..EACH {
                    let thread = scope.spawn({
                        let (ends, begun) = (&ends, &begun);
                        move || {
                            begun.fetch_add(1, Relaxed);
                            while !ends.load(Relaxed) {
                                if sleeps { thread::park() } else { core::hint::spin_loop() }
                            }
                        }
                    });
                    if sleeps {
                        sleepers.push(thread);
                    }
                }
            }
            // Those that are about to sleep are given the time to.
            while begun.load(Relaxed) < 2 * EACH || all().seen < all().runnable + EACH {
                thread::yield_now();
            }
            let found = all();
            ends.store(true, Relaxed);
            sleepers.iter().for_each(|sleeper| sleeper.thread().unpark());
            assert!(found.runnable > EACH, "those that spin and this one: {found:?}");
        });
    }
}
