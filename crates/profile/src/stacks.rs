//! Stacks: walked by frame pointers, and each kept once.
//!
//! The walk reads what may not be a stack: code without frame pointers leaves anything in that register. So each word is
//! read only where memory is known to be readable, and each return address must lie in executable memory; the walk ends at
//! the first that does not. What is left is at least the return address of the call itself.

use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::sys;

use crate::format::{CODE, DEPTH, PROBES, Region, STACKS, Stack, hash};
use crate::recorder::Call;

/// Return addresses, the innermost first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames {
    frames: [u64; DEPTH],
    depth: usize,
}

impl Frames {
    /// One frame.
    pub(crate) fn of(caller: u64) -> Self {
        let mut frames = [0; DEPTH];
        frames[0] = caller;
        Self { frames, depth: 1 }
    }

    /// The same with another innermost frame: a function that acquires and releases.
    pub(crate) fn with_caller(mut self, caller: u64) -> Self {
        self.frames[0] = caller;
        self
    }

    fn as_slice(&self) -> &[u64] {
        &self.frames[..self.depth]
    }
}

const PAGE: u64 = 4096;
/// How far a stack is walked.
const REACH: u64 = 1 << 20;

/// The frame pointers and return addresses above a call; the latter may be anything. Of a stack that was there at the last walk
/// a part may be gone by now, as of a coroutine's: each walk asks anew.
fn frames(bottom: u64, frame: u64) -> impl Iterator<Item = u64> {
    let page_of = |address: u64| address & !(PAGE - 1);
    let mut frame = frame;
    let mut above = bottom;
    // That of the stack pointer: the call's return address lies in it.
    let mut known = page_of(bottom);
    core::iter::from_fn(move || {
        let may_be_one = frame >= above && frame.is_multiple_of(8) && frame - bottom < REACH;
        if !may_be_one {
            return None;
        }
        for page in [page_of(frame), page_of(frame + 15)] {
            if page != known && !sys::is_readable(page as usize) {
                return None;
            }
            known = page;
        }
        // SAFETY: two readable words of this thread's stack.
        let next = unsafe { (frame as *const u64).read_volatile() };
        // SAFETY: the second of them.
        let caller = unsafe { (frame as *const u64).wrapping_add(1).read_volatile() };
        above = frame + 16;
        frame = next;
        Some(caller)
    })
}

/// An address in the caller's frame.
#[inline(always)]
pub(crate) fn here() -> u64 {
    let mark = 0_u8;
    core::hint::black_box(&raw const mark) as u64
}

impl Region {
    /// The number of the stack above a call that is under way.
    pub(crate) fn stack_of(&self, call: Call) -> u32 {
        self.intern(&self.walk(call.caller as u64, here(), call.frame as u64))
    }

    /// The stack above a call: `bottom` is where its return address `caller` lies or lay, `frame` the caller's frame pointer.
    pub(crate) fn walk(&self, caller: u64, bottom: u64, frame: u64) -> Frames {
        let mut stack = Frames::of(caller);
        // Most callers are in the library of the one before: to look for it in the map of memory takes longer than the rest.
        let mut code = 0..0;
        for caller in frames(bottom, frame).take(DEPTH - 1) {
            if !code.contains(&caller) {
                match self.code_around(caller) {
                    Some(around) => code = around,
                    None => break,
                }
            }
            stack.frames[stack.depth] = caller;
            stack.depth += 1;
        }
        stack
    }

    /// Whether [`walk`](Self::walk) would find the stack with this number, which costs less to tell than to walk.
    pub(crate) fn is_at(&self, number: u32, caller: u64, bottom: u64, frame: u64) -> bool {
        let stack = &self.stacks[number as usize % STACKS];
        let depth = (stack.depth.load(Acquire) as usize).min(DEPTH);
        if depth == 0 || stack.frames[0].load(Relaxed) != caller {
            return false;
        }
        let mut frames = frames(bottom, frame).take(DEPTH - 1);
        let is_same = stack.frames[1..depth].iter().all(|known| frames.next() == Some(known.load(Relaxed)));
        is_same && frames.next().is_none_or(|caller| !self.is_code(caller))
    }

    /// Whether there is code at an address, as far as the maps of memory were read.
    pub(crate) fn is_code(&self, address: u64) -> bool {
        self.code_around(address).is_some()
    }

    /// The range of code that an address is in.
    fn code_around(&self, address: u64) -> Option<Range<u64>> {
        let count = (self.header.code_ranges.load(Acquire) as usize).min(CODE);
        let ranges = &self.code[..count];
        let index = ranges.partition_point(|range| range.end.load(Relaxed) <= address);
        let range = ranges.get(index)?;
        let range = range.start.load(Relaxed)..range.end.load(Relaxed);
        range.contains(&address).then_some(range)
    }

    /// The number of a stack, 0 if there is no room for it.
    pub(crate) fn intern(&self, frames: &Frames) -> u32 {
        let frames = frames.as_slice();
        let key = frames.iter().fold(frames.len() as u64, |sum, frame| hash(sum.rotate_left(7) ^ frame)) | 1;
        for probe in 0..PROBES {
            let index = ((key >> 16) as usize + probe) % STACKS;
            if index == 0 {
                continue;
            }
            let stack = &self.stacks[index];
            let there = match stack.hash.load(Relaxed) {
                0 => match stack.hash.compare_exchange(0, key, Relaxed, Relaxed) {
                    Ok(_) => {
                        stack.write(frames);
                        if !self.is_code(frames[0]) {
                            self.read_maps();
                        }
                        return index as u32;
                    }
                    Err(there) => there,
                },
                there => there,
            };
            if there == key {
                return index as u32;
            }
        }
        self.header.dropped.stacks.fetch_add(1, Relaxed);
        0
    }
}

impl Stack {
    fn write(&self, frames: &[u64]) {
        for (cell, frame) in self.frames.iter().zip(frames) {
            cell.store(*frame, Relaxed);
        }
        // ORDER: a reader that sees the depth sees the frames (`read`, by a file system call or the same acquire).
        self.depth.store(frames.len() as u32, Release);
    }
}

#[cfg(test)]
mod tests {
    use syscalls::{Sysno, syscall};

    use super::*;

    /// A stack that was walked may be gone in part when it is walked again.
    #[test]
    fn what_is_not_there_any_more_ends_a_walk() {
        const READ_WRITE: usize = 1 | 2;
        const PRIVATE_ANONYMOUS: usize = 2 | 32;
        let page = PAGE as usize;
        // SAFETY: a fresh mapping.
        let base =
            unsafe { syscall!(Sysno::mmap, 0, 2 * page, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0) };
        let base = base.unwrap();
        let region = Region::in_memory();
        region.code[0].start.store(1, Relaxed);
        region.code[0].end.store(100, Relaxed);
        region.header.code_ranges.store(1, Relaxed);
        let second = base + page;
        for (at, next, caller) in [(base + 64, second, 7), (second, second + 64, 8), (second + 64, 0, 9)] {
            // SAFETY: in the mapping.
            unsafe { (at as *mut [u64; 2]).write([next as u64, caller]) };
        }
        let walk = || region.walk(6, base as u64, base as u64 + 64);
        assert_eq!(walk().as_slice(), [6, 7, 8, 9]);
        // SAFETY: mapped above.
        unsafe { syscall!(Sysno::munmap, second, page) }.unwrap();
        assert_eq!(walk().as_slice(), [6, 7]);
        // SAFETY: as above.
        unsafe { syscall!(Sysno::munmap, base, page) }.unwrap();
    }
}
