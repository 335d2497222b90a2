//! Waits on conditions. They are followed where they are called, not by the observer of waits, and watched never: a condition
//! has no releases to blame. A wait that began in one epoch and ended in another, or while the recorder was off, is no wait: of
//! the time in between nothing is known.

use core::sync::atomic::Ordering::Relaxed;

use super::clock::now;
use super::wait::Wait;
use super::{Call, Target};
use crate::format::{Kind, Mode, Region, Thread};

impl Region {
    /// The thread begins to wait for a condition.
    pub fn cond_wait_begins(&self, thread: &Thread, cond: usize, call: Call) {
        if thread.busy.swap(1, Relaxed) != 0 {
            return;
        }
        let stack = self.stack_of(call);
        let index = self.record(Kind::Cond, cond as u64, call.caller as u64, 0);
        if index != 0 {
            self.locks[index as usize].waits_begin();
        }
        thread.shows_wait(Target { address: cond, mode: Mode::Cond, server: 0 }, index, stack, now());
        thread.busy.store(0, Relaxed);
    }

    /// It waits no more.
    pub fn cond_wait_ends(&self, thread: &Thread) {
        if !thread.waits_for_cond()
            || thread.waiting_for.load(Relaxed) == 0
            || thread.busy.swap(1, Relaxed) != 0
        {
            return;
        }
        let index = thread.waiting_lock.load(Relaxed);
        let stack = thread.waiting_stack.load(Relaxed);
        let since = thread.waiting_since.load(Relaxed);
        thread.waiting_for.store(0, Relaxed);
        self.has_waited(index);
        if index != 0 && self.is_enabled() && self.is_current(thread) {
            let wait = Wait {
                mode: Mode::Cond,
                lock: index,
                stack,
                since,
                until: now(),
                watched_from: since,
                is: 0,
                parked_ns: 0,
                is_outer: true,
            };
            self.waited(thread, wait);
        }
        thread.busy.store(0, Relaxed);
    }
}
