//! When recording begins and ends: of the process, of its threads, and by the switch.
//!
//! Invariants:
//!
//! - A place of the table of threads belongs to the thread whose id is in it, and that thread alone writes to it, but for its
//!   countdown, which the switch sets. A thread that finds the place of a thread that ended without a word inherits the log.
//! - What a thread has noted counts in the epoch in which it noted it. Each switch on begins a new epoch, and a thread that
//!   comes to its next sample in an old one starts anew.

use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use lockwork_platform::{Clock, sys};

use super::clock::{clock_and_counter, now};
use crate::format::{MAGIC, Page, Region, THREADS, Thread, VERSION, hash};
use crate::locks::write_name;

/// The least time between two looks at the process's CPU time.
const CPU_TIME_EVERY_NS: u64 = 10_000_000;

/// The process.
impl Region {
    /// Fills the header of a fresh file. A reader that maps the file sees it complete once it has its magic word.
    pub fn start(&self, pid: u32, name: &[u8], wait_period_ns: u64, max_period: u32, enabled: bool) {
        let header = &self.header;
        header.version.store(VERSION, Relaxed);
        header.pid.store(pid, Relaxed);
        header.bytes.store(size_of::<Self>() as u64, Relaxed);
        header.enabled.store(u32::from(enabled), Relaxed);
        header.epoch.store(1, Relaxed);
        let (ns, ticks) = clock_and_counter();
        header.started_ns.store(ns, Relaxed);
        header.started_ticks.store(ticks, Relaxed);
        header.date_ns.store(sys::now(Clock::Realtime), Relaxed);
        header.wait_period_ns.store(wait_period_ns, Relaxed);
        header.max_period.store(max_period, Relaxed);
        write_name(&header.name, name);
        self.read_maps();
        // ORDER: with the reader, which looks at this word first.
        header.magic.store(MAGIC, Release);
    }

    /// Notes the end of the process.
    pub fn end(&self) {
        self.note_cpu_time();
        self.header.ended_ns.store(now(), Relaxed);
    }

    /// Notes how much CPU time the process has used, so that a reader can tell threads that are idle.
    fn note_cpu_time(&self) {
        self.header.cpu_ns.store(sys::process_cpu_time(), Relaxed);
    }

    /// The same, unless that was done within the last 10 ms: a process that is killed does not note its end.
    pub(super) fn note_cpu_time_at(&self, now: u64) {
        if now.saturating_sub(self.header.cpu_noted_ns.load(Relaxed)) >= CPU_TIME_EVERY_NS {
            self.header.cpu_noted_ns.store(now, Relaxed);
            self.note_cpu_time();
        }
    }
}

/// The switch.
impl Region {
    /// Whether threads record.
    #[inline(always)]
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.header.enabled.load(Relaxed) != 0
    }

    /// Switches the recorder on or off, from within the process or from another that has the file mapped. Threads that are in the
    /// middle of an operation end it as they began it.
    pub fn switch(&self, on: bool) {
        let header = &self.header;
        if on {
            // What threads noted before is out of date.
            header.epoch.fetch_add(1, Relaxed);
            // Threads look at the epoch where they take samples, and there only.
            self.threads.iter().for_each(|thread| thread.countdown.store(1, Relaxed));
            header.enabled.store(1, Relaxed);
            self.go_live(&self.entrances.on);
        } else {
            self.go_live(&self.entrances.off);
            header.enabled.store(0, Relaxed);
        }
    }

    /// Has entry points jump to the functions of a page.
    fn go_live(&self, page: &Page) {
        for (to, from) in self.entrances.live.words.iter().zip(&page.words) {
            // A process that has not filled its pages yet begins as the header says.
            match from.load(Relaxed) {
                0 => {}
                function => to.store(function, Relaxed),
            }
        }
    }

    /// Whether what the thread has noted is of this epoch.
    #[inline(always)]
    pub(super) fn is_current(&self, thread: &Thread) -> bool {
        thread.epoch.load(Relaxed) == self.header.epoch.load(Relaxed)
    }

    /// The thread's first sample after a switch: it forgets what it noted before.
    #[cold]
    pub(super) fn start_anew(&self, thread: &Thread) {
        thread.clear();
        thread.epoch.store(self.header.epoch.load(Relaxed), Relaxed);
        thread.draw_acquisition();
    }
}

/// Threads.
impl Region {
    /// A place for the calling thread; `None` if all are taken. `exists` says whether the process has a thread with this id.
    pub fn enter_thread(&self, tid: u32, exists: impl Fn(u32) -> bool) -> Option<&Thread> {
        let Some(thread) = self.claim_place(tid, exists) else {
            self.header.dropped.threads.fetch_add(1, Relaxed);
            return None;
        };
        // Of a thread that ended without a word.
        self.settle(thread);
        thread.clear();
        let now = now();
        thread.started_ns.store(now, Relaxed);
        thread.random.store(hash(u64::from(tid) << 32 ^ now) | 1, Relaxed);
        thread.period.store(1, Relaxed);
        thread.taken.store(0, Relaxed);
        thread.waits.store(0, Relaxed);
        thread.known.released.store(0, Relaxed);
        // Draws the first sampled point of the thread's waiting time.
        thread.wait_left_ns.store(0, Relaxed);
        thread.take_wait(0, self.header.wait_period_ns.load(Relaxed), false);
        thread.draw_acquisition();
        thread.epoch.store(self.header.epoch.load(Relaxed), Relaxed);
        Some(thread)
    }

    /// A free place, else that of a thread that is no more.
    fn claim_place(&self, tid: u32, exists: impl Fn(u32) -> bool) -> Option<&Thread> {
        let first = self.header.thread_hint.fetch_add(1, Relaxed) as usize;
        let take = |thread: &&Thread, from: u32| {
            thread.tid.load(Relaxed) == from
                // ORDER: Acquire: with `leave_thread`, which has cleared the place before.
                && thread.tid.compare_exchange(from, tid, AcqRel, Relaxed).is_ok()
        };
        let around = || (0..THREADS).map(|step| &self.threads[(first + step) % THREADS]);
        around().find(|thread| take(thread, 0)).or_else(|| {
            around().find(|thread| {
                let there = thread.tid.load(Relaxed);
                !exists(there) && take(thread, there)
            })
        })
    }

    /// The thread ends.
    pub fn leave_thread(&self, thread: &Thread) {
        let lived = now().saturating_sub(thread.started_ns.load(Relaxed));
        self.header.ended_threads_ns.fetch_add(lived, Relaxed);
        self.header.ended_threads.fetch_add(1, Relaxed);
        self.note_cpu_time();
        self.abandon_wait(thread);
        self.settle(thread);
        thread.clear();
        // ORDER: Release: with `claim_place`: the next owner finds the place cleared.
        thread.tid.store(0, Release);
    }
}
