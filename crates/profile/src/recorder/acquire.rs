//! Acquisitions: what is noted before a thread tries to get a lock, and what came of it.
//!
//! An acquisition takes one of two ways. Most acquisitions of mutexes [`pass`](Region::passes): one note of three words, before
//! the lock's own operation or behind it. All others are followed: [`about_to`](Region::about_to) before, and
//! [`acquired`](Region::acquired) or [`refused`](Region::refused) after. Each counts down to the thread's next sample, the
//! former before it has the lock and the latter when it has it. What a sample or a wait needs is the matter of functions that
//! are cold: everything else is inlined into the entry points.

use core::sync::atomic::Ordering::Relaxed;

use super::{Begun, Call, Target};
use crate::format::{Held, Logged, Mode, Region, Stage, Thread};

/// An acquisition of a mutex of which there is nothing to note but the call: see [`Region::passes`].
#[derive(Debug)]
pub struct Passing<'a> {
    held: &'a Held,
    count: usize,
    left: u32,
}

impl<'a> Passing<'a> {
    /// `None`: it is a matter for [`Region::about_to`]. Nothing is written yet: who can try the mutex with one instruction does so
    /// before [`note`](Self::note). That instruction would wait for what has been written to reach the cache.
    #[inline(always)]
    #[must_use]
    pub fn of(thread: &'a Thread, address: usize) -> Option<Self> {
        let left = thread.countdown.load(Relaxed).wrapping_sub(1);
        let count = thread.held_count.load(Relaxed) as usize;
        let held = thread.held.get(count)?;
        (left != 0 && thread.think_of.load(Relaxed) != address as u64).then_some(Self { held, count, left })
    }

    /// Notes the call, before the thread waits for the mutex.
    #[inline(always)]
    pub fn note(self, thread: &Thread, address: usize, call: Call) {
        thread.countdown.store(self.left, Relaxed);
        thread.push(self.held, self.count, address as u64 | Held::PASSED, call);
    }
}

impl Region {
    /// The thread is about to acquire a mutex, and has not got it. `true`: there is nothing to note of that but the call, which
    /// has been done; what follows is the lock's own operation, which waits until the thread has it, and no more. `false`: it
    /// is a matter for [`about_to`](Self::about_to).
    #[inline(always)]
    pub fn passes(thread: &Thread, address: usize, call: Call) -> bool {
        Passing::of(thread, address).map(|passing| passing.note(thread, address, call)).is_some()
    }

    /// The thread is about to acquire a lock. `may_recurse`: it may have it already.
    #[inline(always)]
    pub fn about_to(
        &self,
        thread: &Thread,
        address: usize,
        mode: Mode,
        call: Call,
        may_recurse: bool,
    ) -> Begun {
        if thread.busy.load(Relaxed) != 0 {
            return Begun::Ignored;
        }
        if !self.is_current(thread) {
            self.start_anew(thread);
        }
        if thread.think_of.load(Relaxed) == address as u64 {
            self.think_ends(thread);
        }
        let list = thread.list();
        if may_recurse && let Some(held) = list.iter().find(|held| held.address() == address as u64) {
            held.again.store(held.again.load(Relaxed) + 1, Relaxed);
            return Begun::Again;
        }
        let Some(held) = thread.held.get(list.len()) else {
            self.header.dropped.held.fetch_add(1, Relaxed);
            return Begun::Ignored;
        };
        held.how.store(Held::how(mode, Stage::About), Relaxed);
        thread.push(held, list.len(), address as u64, call);
        Begun::Followed
    }

    /// The thread has the lock that it was [`about_to`](Self::about_to) acquire.
    #[inline(always)]
    pub fn acquired(&self, thread: &Thread) {
        let Some(held) = thread.top() else { return };
        held.has_it();
        let left = thread.countdown.load(Relaxed).wrapping_sub(1);
        thread.countdown.store(left, Relaxed);
        if left == 0 || held.waited_since.load(Relaxed) != 0 {
            self.acquired_noteworthy(thread, held, left == 0);
        }
    }

    /// Notes when the thread got a lock that it waited for or whose acquisition is a sample, unless there is nothing left to do
    /// when it releases it.
    #[cold]
    pub(super) fn acquired_noteworthy(&self, thread: &Thread, held: &Held, is_sample: bool) {
        // A signal handler that waits now would write to the same log.
        thread.busy.store(1, Relaxed);
        let until = self.now_of(thread);
        let waited = held.waited_since.load(Relaxed) != 0;
        let mut is_settled = true;
        if waited {
            self.stop_waiting(thread, held);
            is_settled = self.settles_wait(thread, held, until);
        }
        thread.busy.store(0, Relaxed);
        if is_sample {
            held.weight.store(thread.take_acquisition(self.header.max_period.load(Relaxed)), Relaxed);
        }
        if is_sample || !is_settled {
            held.since.store(until, Relaxed);
            if waited {
                held.wait.store(held.wait.load(Relaxed) | Held::ENDED, Relaxed);
            }
        }
    }

    /// Notes a wait that ended soon, and was watched for nobody's sake: its length is all there is to know of it. `false`: the
    /// rest is done when the thread has released the lock.
    fn settles_wait(&self, thread: &Thread, held: &Held, until: u64) -> bool {
        let parked_ns = thread.parked_ns.load(Relaxed);
        if held.wait.load(Relaxed) & Held::WATCHED == 0 {
            let ns = until.saturating_sub(held.waited_since.load(Relaxed));
            let wait = Logged {
                lock: held.lock.load(Relaxed),
                mode: held.mode(),
                is_outer: thread.held_count.load(Relaxed) == 1,
                is_parked: false,
                ns,
            };
            if Self::log(thread, wait, parked_ns) {
                // It may have gone past a sampled point, which was not near when it began.
                let _ = thread.take_wait(ns, self.header.wait_period_ns.load(Relaxed), true);
                held.waited_since.store(0, Relaxed);
                held.lock.store(0, Relaxed);
                return true;
            }
        }
        held.parked_us.store(u32::try_from(parked_ns / 1000).unwrap_or(u32::MAX), Relaxed);
        false
    }

    /// The thread has not got the lock: it was held, or the time passed.
    pub fn refused(&self, thread: &Thread, target: Target) {
        let Some(held) = thread.top().filter(|held| held.stage() != Stage::Has) else { return };
        thread.busy.store(1, Relaxed);
        if held.waited_since.load(Relaxed) != 0 {
            self.waited_in_vain(thread, held, target.mode);
        } else {
            self.count_failed_try(target, held.caller.load(Relaxed));
        }
        thread.remove(thread.held_count.load(Relaxed) as usize - 1);
        thread.busy.store(0, Relaxed);
    }

    /// The thread tried to acquire a lock, and would have noted that if it had got it: see [`Passing`].
    #[cold]
    pub fn tried_in_vain(&self, thread: &Thread, target: Target, caller: usize) {
        if thread.busy.swap(1, Relaxed) == 0 {
            self.count_failed_try(target, caller as u64);
            thread.busy.store(0, Relaxed);
        }
    }

    fn count_failed_try(&self, target: Target, caller: u64) {
        let index = self.record(target.mode.kind(), target.address as u64, caller, target.server);
        if index != 0 {
            self.locks[index as usize].tries_failed.fetch_add(1, Relaxed);
        }
    }

    /// Notes a wait that was given up.
    fn waited_in_vain(&self, thread: &Thread, held: &Held, mode: Mode) {
        let index = held.lock.load(Relaxed);
        self.stop_waiting(thread, held);
        if index == 0 {
            return;
        }
        let lock = &self.locks[index as usize];
        lock.timed_out.fetch_add(1, Relaxed);
        let wait = held.wait_in_vain(thread, mode, self.now_of(thread));
        lock.add_vain_wait(&wait);
        self.look_into(thread, wait);
    }

    /// An acquisition that was [`Begun::Again`] failed.
    pub fn not_again(&self, thread: &Thread, address: usize) {
        if let Some(held) = thread.list().iter().find(|held| held.address() == address as u64) {
            held.again.store(held.again.load(Relaxed).saturating_sub(1), Relaxed);
        }
    }
}
