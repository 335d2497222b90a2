//! Stacks: walked by frame pointers, and each kept once.
//!
//! The walk reads what may not be a stack: code without frame pointers leaves anything in that register. So each word is
//! read only where memory is known to be readable, and each return address must lie in executable memory; the walk ends at
//! the first that does not. What is left is at least the return address of the call itself.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::sys;

use crate::format::{CODE, DEPTH, Region, STACKS, Stack, Thread, hash};

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

impl Thread {
    /// Whether the two words at `address`, which is not below the stack pointer `bottom`, can be read.
    fn can_read(&self, bottom: u64, address: u64) -> bool {
        let [low, high] = [&self.readable[0], &self.readable[1]];
        let page = bottom & !(PAGE - 1);
        if !(low.load(Relaxed)..high.load(Relaxed)).contains(&bottom) {
            // Another stack, or the same at another depth. The page of the stack pointer is there: the call's return address
            // lies in it.
            low.store(page, Relaxed);
            high.store(page + PAGE, Relaxed);
        }
        let last = address + 15;
        while last >= high.load(Relaxed) {
            let next = high.load(Relaxed);
            if next >= page + REACH || !sys::is_readable(next as usize) {
                return false;
            }
            high.store(next + PAGE, Relaxed);
        }
        true
    }

    /// The frame pointers and return addresses above a call; the latter may be anything.
    fn frames(&self, bottom: u64, frame: u64) -> impl Iterator<Item = u64> {
        let mut frame = frame;
        let mut above = bottom;
        core::iter::from_fn(move || {
            let may_be_one = frame >= above && frame.is_multiple_of(8) && frame - bottom < REACH;
            if !may_be_one || !self.can_read(bottom, frame) {
                return None;
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

    /// The stack above a call: `bottom` is where its return address `caller` lies or lay, `frame` the caller's frame pointer.
    pub(crate) fn walk(&self, region: &Region, caller: u64, bottom: u64, frame: u64) -> Frames {
        let mut stack = Frames::of(caller);
        for caller in self.frames(bottom, frame).take(DEPTH - 1).take_while(|caller| region.is_code(*caller))
        {
            stack.frames[stack.depth] = caller;
            stack.depth += 1;
        }
        stack
    }

    /// Whether [`walk`](Self::walk) would find the stack with this number, which costs less to tell than to walk.
    pub(crate) fn is_at(&self, region: &Region, number: u32, caller: u64, bottom: u64, frame: u64) -> bool {
        let stack = &region.stacks[number as usize % STACKS];
        let depth = (stack.depth.load(Acquire) as usize).min(DEPTH);
        if depth == 0 || stack.frames[0].load(Relaxed) != caller {
            return false;
        }
        let mut frames = self.frames(bottom, frame).take(DEPTH - 1);
        let is_same = stack.frames[1..depth].iter().all(|known| frames.next() == Some(known.load(Relaxed)));
        is_same && frames.next().is_none_or(|caller| !region.is_code(caller))
    }
}

impl Region {
    /// Whether there is code at an address, as far as the maps of memory were read.
    pub(crate) fn is_code(&self, address: u64) -> bool {
        let count = (self.header.code_ranges.load(Acquire) as usize).min(CODE);
        let ranges = &self.code[..count];
        let index = ranges.partition_point(|range| range.end.load(Relaxed) <= address);
        ranges.get(index).is_some_and(|range| range.start.load(Relaxed) <= address)
    }

    /// The number of a stack, 0 if there is no room for it.
    pub(crate) fn intern(&self, frames: &Frames) -> u32 {
        let frames = frames.as_slice();
        let key = frames.iter().fold(frames.len() as u64, |sum, frame| hash(sum.rotate_left(7) ^ frame)) | 1;
        for probe in 0..64 {
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
