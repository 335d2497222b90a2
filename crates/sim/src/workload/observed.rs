//! What the host sees of a workload's threads, at no simulated cost, and what it comes to.

use super::lock_time::{LockTime, Watched};
use super::usage::{LockUse, Recorder};
use crate::engine::CoreId;
use crate::engine::End;
use crate::engine::stats::{Counts, Transfers};
use crate::engine::trace::Step;
use crate::simulation::{Outcome, Traffic, begin_trace, core, end_trace, note, now, seat, thread, traffic};

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// Sections that ended inside the window.
    pub sections: u64,
    /// The same, for each thread, process by process.
    pub by_thread: Vec<u64>,
    /// Cycles within the window that each thread spent in sections, whether or not those ended.
    pub spent_by_thread: Vec<u64>,
    /// Cycles of a section, on average: from before the acquisition to after the release. All the time that threads
    /// spent in sections within the window counts, whether or not the section ended, so that a lock cannot hide those
    /// whom it lets starve.
    pub section: f64,
    /// The same for those that ended, at most, for this share of them: 0.5, 0.99, 1.
    pub percentiles: [u64; 3],
    /// What a section took, on average.
    pub each: PerSection,
    /// Attempts that failed, within the window.
    pub failures: u64,
    /// Cycles from before a release that leaves the lock free to after the next acquisition, by another thread, on average.
    pub hand_off: f64,
    /// What is wrong with the data that the lock protects, if anything is: the lock does not exclude.
    pub damage: Option<String>,
    /// Cache lines moved.
    pub transfers: Transfers,
    /// What all threads did, warm-up included.
    pub counts: Counts,
    /// The hash of the run.
    pub hash: u64,
    /// Why the run could not go on, if it could not.
    pub deadlock: Option<String>,
    /// Threads that were in one and the same section from the beginning of the window to its end, by their places in
    /// `by_thread`.
    pub starving: Vec<usize>,
    /// The state of every thread at the end of the window, if somebody starves or no section ended.
    pub states: Option<String>,
    /// What happened in the first hand-off after the warm-up, if that was asked for.
    pub steps: Vec<Step>,
    /// Where the time of the locks went, if that was asked for.
    pub lock_time: Option<LockTime>,
    /// How each lock was used, process by process, if that was asked for.
    pub uses: Vec<LockUse>,
}

/// What all threads together did for a section, on average over the window. Zeros if fewer than two sections ended there.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PerSection {
    /// Lines that came from another core or from memory.
    pub misses: f64,
    /// Those of them that came to the servers of delegates.
    pub server_misses: f64,
    /// Read-modify-writes.
    pub atomics: f64,
}

impl PerSection {
    /// Between two moments, of which so many sections lie.
    fn between(from: Traffic, to: Traffic, sections: u64) -> Self {
        let each = |from: u64, to: u64| (to - from) as f64 / sections.max(1) as f64;
        Self {
            misses: each(from.misses, to.misses),
            server_misses: each(from.theirs, to.theirs),
            atomics: each(from.atomics, to.atomics),
        }
    }
}

impl RunResult {
    /// Sections that ended inside the window, for each of so many processes.
    #[must_use]
    pub fn by_process(&self, processes: usize) -> Vec<u64> {
        let each = (self.by_thread.len() / processes.max(1)).max(1);
        self.by_thread.chunks(each).map(|threads| threads.iter().sum()).collect()
    }
}

/// What has been seen so far.
#[derive(Debug, Default)]
pub(super) struct Observed {
    by_thread: Vec<u64>,
    /// Cycles that each thread spent in sections, within the window.
    spent: Vec<u64>,
    /// When the thread's section began, if it is in one.
    begun: Vec<Option<u64>>,
    /// The window.
    window: (u64, u64),
    times: Vec<u64>,
    locks: Vec<Lock>,
    /// Sum and number.
    hand_offs: (u64, u64),
    failures: u64,
    /// The cores of the servers of delegates.
    servers: Vec<CoreId>,
    /// At the end of the first section that ended in the window, and of the last so far.
    traffic: Option<[Traffic; 2]>,
    /// Whether a hand-off is to be looked at.
    explain: bool,
    /// The locks, looked at for where their time goes.
    watched: Vec<Watched>,
    /// Whether the window has begun for `watched`.
    watching: bool,
    /// How the locks are used, if that is recorded.
    recorder: Option<Recorder>,
    /// The thread whose release is looked at, and what came of it.
    explained: Option<(usize, Vec<Step>)>,
    /// Of delegates, the thread whose request is looked at instead, and which thread has run it.
    request: Option<(usize, Option<u32>)>,
    /// Whether sections are handed over.
    is_handed_over: bool,
    /// Whether the window is over, and nothing counts any more.
    closed: bool,
}

/// What has been seen of a lock.
#[derive(Debug, Default, Clone)]
struct Lock {
    holders: usize,
    /// The release that left it free, until somebody acquires it: whose it was, and when it began.
    released: Option<(usize, u64)>,
}

impl Observed {
    pub(super) fn new(threads: usize, locks: usize, window: (u64, u64), explain: bool) -> Self {
        Self {
            by_thread: vec![0; threads],
            spent: vec![0; threads],
            begun: vec![None; threads],
            locks: vec![Lock::default(); locks],
            window,
            explain,
            watched: vec![Watched::default(); if explain { locks } else { 0 }],
            ..Self::default()
        }
    }

    /// Records from now on how the locks are used.
    pub(super) fn record(&mut self, threads: usize, locks: usize) {
        self.recorder = Some(Recorder::new(threads, locks, self.window));
    }

    /// Nothing counts from now on.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// A section begins: the thread is about to acquire.
    pub(super) fn begins(&mut self, me: usize) {
        if !self.closed {
            self.begun[me] = Some(now());
        }
    }

    /// A lock whose time is looked at, if it is. What was before the window does not count.
    fn watched(&mut self, lock: usize) -> Option<&mut Watched> {
        if self.explain && !self.watching && now() >= self.window.0 {
            self.watching = true;
            self.watched.iter_mut().for_each(|lock| _ = lock.take());
        }
        self.watched.get_mut(lock)
    }

    /// A thread is about to acquire a lock.
    pub(super) fn asks(&mut self, me: usize, lock: usize) {
        if let Some(recorder) = &mut self.recorder {
            recorder.asks(me, lock, now());
        }
        if let Some(lock) = self.watched(lock) {
            lock.asks(now());
        }
    }

    /// A thread has acquired a lock.
    pub(super) fn acquired(&mut self, me: usize, lock: usize) {
        if self.closed {
            return;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.acquired(me, lock, now());
        }
        if let Some(lock) = self.watched(lock) {
            lock.acquired(me, now(), seat());
        }
        if let Some((releaser, steps)) = &mut self.explained
            && *releaser != me
            && steps.is_empty()
        {
            note("has the lock");
            *steps = end_trace();
        }
        let lock = &mut self.locks[lock];
        lock.holders += 1;
        let by_another =
            lock.released.take().filter(|(other, since)| *other != me && *since >= self.window.0);
        if let Some((_, since)) = by_another {
            self.hand_offs.0 += now().saturating_sub(since);
            self.hand_offs.1 += 1;
        }
    }

    /// A thread is about to release a lock.
    pub(super) fn releases(&mut self, me: usize, number: usize) {
        if self.closed {
            return;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.releases(me, number, now());
        }
        let lock = &mut self.locks[number];
        lock.holders = lock.holders.saturating_sub(1);
        let is_free = lock.holders == 0;
        if is_free {
            lock.released = Some((me, now()));
        }
        if is_free && let Some(lock) = self.watched(number) {
            lock.releases(me, now(), seat());
        }
        if self.explain && !self.is_handed_over && self.explained.is_none() && now() >= self.window.0 {
            begin_trace();
            note("begins to release the lock");
            self.explained = Some((me, Vec::new()));
        }
    }

    /// The calling thread serves, on the core where it is.
    pub(super) fn serves(&mut self) {
        self.servers.push(core());
    }

    /// A thread is about to hand a section over.
    pub(super) fn hands_over(&mut self, me: usize, lock: usize) {
        self.is_handed_over = true;
        self.asks(me, lock);
        if self.explain && self.request.is_none() && self.explained.is_none() && now() >= self.window.0 {
            begin_trace();
            note("hands its section over");
            self.request = Some((me, None));
        }
    }

    /// The calling thread, which need not be the requester, begins to run the section of the thread `me`.
    pub(super) fn runs(&mut self, me: usize, lock: usize) {
        if let Some((requester, by)) = &mut self.request
            && *requester == me
        {
            note(&format!("begins to run the section of thread {me}"));
            *by = Some(thread());
        }
        self.acquired(me, lock);
    }

    /// The calling thread has run the section of the thread `me`.
    pub(super) fn has_run(&mut self, me: usize, lock: usize) {
        if self.request.is_some_and(|(requester, _)| requester == me) {
            note(&format!("has run the section of thread {me}"));
        }
        self.releases(me, lock);
    }

    /// The thread's section has run, and it knows it. A request that it has run itself shows little: another one is looked at.
    pub(super) fn answered(&mut self, me: usize) {
        match self.request {
            Some((requester, by)) if requester == me => {
                const END: &str = "has its answer";
                note(END);
                let mut steps = end_trace();
                // Others may be ahead of it.
                let end = steps.iter().position(|step| step.what == END);
                steps.truncate(end.map_or(steps.len(), |end| end + 1));
                if by.is_some_and(|by| by != thread()) {
                    self.explained = Some((me, steps));
                }
                self.request = None;
            }
            _ => {}
        }
    }

    /// An attempt to acquire has failed.
    pub(super) fn failed(&mut self) {
        self.failures += u64::from((self.window.0..self.window.1).contains(&now()));
    }

    /// The thread's section has ended.
    pub(super) fn finished(&mut self, me: usize) {
        if self.closed {
            return;
        }
        let end = now();
        let Some(start) = self.begun[me].take() else { return };
        self.spend(me, start, end);
        if (self.window.0..self.window.1).contains(&end) {
            self.by_thread[me] += 1;
            self.times.push(end - start);
            let now = traffic(&self.servers);
            self.traffic.get_or_insert([now, now])[1] = now;
        }
    }

    /// Counts the part of a time that is in the window.
    fn spend(&mut self, me: usize, start: u64, end: u64) {
        let (from, to) = self.window;
        self.spent[me] += end.min(to).saturating_sub(start.max(from));
    }

    /// Threads that have been in their sections since before the window.
    fn starving(&self) -> Vec<usize> {
        let since_before = |start: &Option<u64>| start.is_some_and(|start| start <= self.window.0);
        (0..self.begun.len()).filter(|&me| since_before(&self.begun[me])).collect()
    }

    /// Whether, at the end of the window, somebody starves, or no section has ended.
    pub(super) fn is_stuck(&self) -> bool {
        self.times.is_empty() || !self.starving().is_empty()
    }

    /// What it comes to. `states` are those of the threads at the end of the window, if that was stuck.
    pub(super) fn result(
        mut self,
        outcome: Outcome,
        damage: Option<String>,
        states: Option<String>,
    ) -> RunResult {
        let starving = self.starving();
        // Sections that were cut short.
        for (me, start) in std::mem::take(&mut self.begun).into_iter().enumerate() {
            if let Some(start) = start {
                self.spend(me, start, self.window.1);
            }
        }
        self.times.sort_unstable();
        let at = |share: f64| {
            let last = self.times.len().saturating_sub(1);
            self.times.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
        };
        let sections = self.times.len() as u64;
        RunResult {
            sections,
            section: self.spent.iter().sum::<u64>() as f64 / sections.max(1) as f64,
            percentiles: [at(0.5), at(0.99), at(1.0)],
            hand_off: self.hand_offs.0 as f64 / self.hand_offs.1.max(1) as f64,
            by_thread: self.by_thread,
            spent_by_thread: self.spent,
            each: self
                .traffic
                .map(|[from, to]| PerSection::between(from, to, sections - 1))
                .unwrap_or_default(),
            failures: self.failures,
            damage,
            starving,
            states,
            transfers: outcome.transfers,
            counts: outcome.counts,
            hash: outcome.hash,
            lock_time: self.explain.then(|| self.watched.iter_mut().map(Watched::take).sum()),
            uses: self.recorder.map(Recorder::finish).unwrap_or_default(),
            steps: self.explained.map(|(_, steps)| steps).unwrap_or_default(),
            deadlock: match outcome.end {
                End::Deadlock(threads) => Some(threads),
                End::Finished | End::Time => None,
            },
        }
    }
}
