//! The micro-benchmark of the papers: threads with a delay between sections, and sections that touch shared cache lines,
//! each found through the one before, so that their misses cannot overlap.
//!
//! The latency of an acquisition includes a reading of the clock, and so does the section.

use std::cell::UnsafeCell;
use std::time::{Duration, Instant};

use lockwork_locks::registry::erased::ErasedLock;
use lockwork_platform::Native;

use super::crew::{Times, crew, nanos};
use super::done::{Done, all_operations, figures};
use super::locks::{Job, Kind, Padded};
use super::{Figures, not_exclusive};
use crate::bench::options::Delay;

/// The benchmark.
pub(super) struct Contend {
    pub(super) threads: u32,
    pub(super) time: Duration,
    /// Between two sections.
    pub(super) delay: Delay,
    /// Cache lines that a section writes.
    pub(super) lines: usize,
    /// Locks, each with its own lines.
    pub(super) instances: usize,
}

/// A lock and what it guards.
struct Guarded {
    lock: Box<Padded<dyn ErasedLock<Native>>>,
    lines: UnsafeCell<Box<[Line]>>,
}

// SAFETY: the lines are reached only by the holder of the lock, or when no other thread is left.
unsafe impl Sync for Guarded {}

#[repr(align(64))]
struct Line {
    /// The index of the line to touch after this one.
    next: usize,
    /// How often it was touched.
    count: u64,
}

impl Job for Contend {
    fn run(&self, kind: &dyn Kind) -> Result<Figures, String> {
        let locks: Vec<Guarded> =
            (0..self.instances).map(|_| Guarded { lock: kind.padded(), lines: ring(self.lines) }).collect();
        let locks = locks.as_slice();
        let (done, wall) = crew(self.threads, Times::after_a_tenth(self.time), |index, course| {
            let mut random = fastrand::Rng::with_seed(u64::from(index));
            let mut done = Done::nothing();
            while !course.is_over() {
                let place = if locks.len() == 1 { 0 } else { random.usize(..locks.len()) };
                done.add(course, operate(&locks[place]));
                self.delay.pass();
            }
            done
        })?;

        let operations = all_operations(&done);
        // SAFETY: the threads have ended.
        let touched: u64 = locks.iter().map(|guarded| total(unsafe { &*guarded.lines.get() })).sum();
        if touched != operations * self.lines as u64 {
            return Err(not_exclusive(touched / self.lines as u64, operations));
        }
        Ok(figures(&done, wall))
    }
}

/// Lines that lead from one to the next and back to the first.
fn ring(lines: usize) -> UnsafeCell<Box<[Line]>> {
    UnsafeCell::new((1..=lines).map(|next| Line { next: next % lines, count: 0 }).collect())
}

fn total(lines: &[Line]) -> u64 {
    lines.iter().map(|line| line.count).sum()
}

/// One section; returns the nanoseconds of its acquisition.
#[inline(always)]
fn operate(guarded: &Guarded) -> u64 {
    let lock = &guarded.lock.0;
    let begin = Instant::now();
    let held = lock.lock();
    let acquired = Instant::now();
    // SAFETY: this thread holds the lock.
    touch(unsafe { &mut *guarded.lines.get() });
    // SAFETY: acquired above.
    unsafe { lock.unlock(held) };
    nanos(begin, acquired)
}

#[inline(always)]
fn touch(lines: &mut [Line]) {
    let mut place = 0;
    for _ in 0..lines.len() {
        let line = &mut lines[place];
        line.count += 1;
        place = std::hint::black_box(line.next);
    }
}
