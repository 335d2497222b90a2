//! Waits for locks: when one begins, when its thread gives up the CPU, and when it ends.
//!
//! Every wait is measured. Only some are *watched*: then releases of the lock are noted, so that the wait can be blamed on
//! them. What costs most of that is that the holder looks at a counter, [`Region::watchers`], that the waiter has just written
//! to. So most waits that end soon do without:
//!
//! | wait | is watched |
//! |---|---|
//! | for a lock of glibc's | from its beginning: that sleeps at once, and says no word when it does |
//! | of a thread's first [`SURE_WAITS`] | from its beginning |
//! | in which the next sampled point is near, one in [`ONE_IN`] | from its beginning |
//! | another one in which the thread yields or sleeps | from then on |
//! | another one | not |
//!
//! Invariants:
//!
//! - The entry of the thread's list for a lock that it waits for has a time in `waited_since`. It keeps that after the wait if
//!   there is more to do at the release.
//! - `wait` has [`Held::WATCHED`] exactly if the wait has been added to the counters of watchers and of the lock's waiters.
//!   [`Region::stop_waiting`] takes it from them again; no wait ends in another way, but that of a thread that is gone without a
//!   word.
//! - A thread shows what it waits for in `waiting_for`, which is written last when a wait begins and first when it ends.

use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use core::sync::atomic::fence;

use lockwork_platform::{Cpu, Native};

use super::Target;
use super::clock::now;
use crate::format::{Held, Lock, Mode, Region, Stage, Thread};
use crate::sampling::ONE_IN;

/// Waits of a thread, the first, that are all watched from their beginning.
pub(super) const SURE_WAITS: u32 = 64;

/// A wait that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) mode: Mode,
    pub(super) lock: u32,
    pub(super) stack: u32,
    pub(super) since: u64,
    pub(super) until: u64,
    /// From when on releases of the lock were noted, if they were.
    pub(super) watched_from: u64,
    /// What is known of it: see [`Held::wait`].
    pub(super) is: u8,
    /// Of that, the thread slept in the kernel.
    pub(super) parked_ns: u64,
    /// The thread had no other lock.
    pub(super) is_outer: bool,
}

impl Wait {
    pub(super) fn ns(&self) -> u64 {
        self.until.saturating_sub(self.since)
    }
}

/// How many waits one that was watched stands for, of which this is known: see [`Held::wait`].
pub(super) fn stands_for(is: u8) -> u32 {
    if is & (Held::LONG | Held::SURE) == 0 { ONE_IN } else { 1 }
}

impl Region {
    /// The thread has to wait for the lock that it is [`about_to`](Self::about_to) acquire, or that it [`passes`](Self::passes).
    #[cold]
    pub fn wait_begins(&self, thread: &Thread, target: Target) {
        let Some(held) = thread.top().filter(|held| held.is_awaited(target)) else { return };
        if thread.busy.swap(1, Relaxed) != 0 {
            return;
        }
        let waits = thread.waits.load(Relaxed);
        let is_sure = waits < SURE_WAITS || Native::strict_spin();
        if waits < SURE_WAITS {
            thread.waits.store(waits + 1, Relaxed);
        }
        let sleeps_at_once = target.server == 0;
        let is_watched =
            sleeps_at_once || is_sure || thread.is_near(self.header.wait_period_ns.load(Relaxed));
        held.wait.store(
            if sleeps_at_once { Held::LONG } else { 0 } | if is_sure { Held::SURE } else { 0 },
            Relaxed,
        );
        let index =
            self.record(target.mode.kind(), target.address as u64, held.caller.load(Relaxed), target.server);
        held.lock.store(index, Relaxed);
        held.watched_after.store(0, Relaxed);
        let since =
            if is_watched { self.watch(thread, held, target.address as u64) } else { self.now_of(thread) };
        held.waited_since.store(since, Relaxed);
        thread.shows_wait(target, index, held.stack.load(Relaxed), since);
        thread.busy.store(0, Relaxed);
    }

    /// Has releases of a lock noted from the time on that is returned. With that goes what a wait that is worth it has beside:
    /// its stack, and a place among those that wait at the same time.
    fn watch(&self, thread: &Thread, held: &Held, address: u64) -> u64 {
        self.watchers(address).fetch_add(1, Relaxed);
        // ORDER: the counter before the clock. Of the releases from then on, those are noted whose threads see the counter;
        // they stand for the others (`blame_releases`).
        fence(AcqRel);
        let from = self.now_of(thread);
        held.stack.store(self.stack_of(held.call()), Relaxed);
        let index = held.lock.load(Relaxed) as usize;
        if index != 0 {
            self.locks[index].waits_begin();
        }
        held.wait.store(held.wait.load(Relaxed) | Held::WATCHED, Relaxed);
        from
    }

    /// The thread, which may be waiting for something else than a lock, is about to give up its CPU for a while.
    pub fn wait_goes_on(&self, thread: &Thread) {
        let address = thread.waiting_for.load(Relaxed);
        let Some(held) = thread.top().filter(|held| address != 0 && held.address() == address) else {
            return;
        };
        let is = held.wait.load(Relaxed);
        let since = held.waited_since.load(Relaxed);
        if is & Held::LONG != 0 || since == 0 || thread.busy.swap(1, Relaxed) != 0 {
            return;
        }
        held.wait.store(is | Held::LONG, Relaxed);
        if is & Held::WATCHED == 0 {
            let from = self.watch(thread, held, address);
            held.watched_after.store(u32::try_from(from.saturating_sub(since)).unwrap_or(u32::MAX), Relaxed);
            thread.waiting_stack.store(held.stack.load(Relaxed), Relaxed);
        }
        thread.busy.store(0, Relaxed);
    }

    /// The thread waits for no lock any more. If it did for one that [`passes`](Self::passes), it has it now.
    #[cold]
    pub fn wait_ends(&self, thread: &Thread) {
        let Some(held) = thread.top() else { return };
        if held.stage() == Stage::Passed && held.waited_since.load(Relaxed) != 0 {
            self.acquired_noteworthy(thread, held, false);
            if held.waited_since.load(Relaxed) != 0 {
                held.has_it();
            }
        }
    }

    /// The thread does not wait for the lock any more.
    pub(super) fn stop_waiting(&self, thread: &Thread, held: &Held) {
        thread.waiting_for.store(0, Relaxed);
        if held.wait.load(Relaxed) & Held::WATCHED != 0 {
            let index = held.lock.load(Relaxed);
            self.has_waited(index);
            self.locks[index as usize].hand_overs.fetch_add(1, Relaxed);
            self.watchers(held.address()).fetch_sub(1, Relaxed);
        }
    }

    /// One thread less waits for the lock or condition.
    pub(super) fn has_waited(&self, index: u32) {
        if index != 0 {
            self.locks[index as usize].waiting.fetch_sub(1, Relaxed);
        }
    }

    /// The thread ends, and with it what it waits for, if it does: it has been cancelled.
    pub(super) fn abandon_wait(&self, thread: &Thread) {
        if thread.waiting_for.load(Relaxed) == 0 {
            return;
        }
        if thread.waits_for_cond() {
            self.has_waited(thread.waiting_lock.load(Relaxed));
        } else if let Some(held) = thread.top().filter(|held| held.waited_since.load(Relaxed) != 0) {
            self.stop_waiting(thread, held);
        }
    }
}

impl Held {
    /// The wait for this lock, which has just ended without it.
    pub(super) fn wait_in_vain(&self, thread: &Thread, mode: Mode, until: u64) -> Wait {
        let since = self.waited_since.load(Relaxed);
        Wait {
            mode,
            lock: self.lock.load(Relaxed),
            stack: self.stack.load(Relaxed),
            since,
            until,
            watched_from: since + u64::from(self.watched_after.load(Relaxed)),
            is: self.wait.load(Relaxed),
            parked_ns: thread.parked_ns.load(Relaxed),
            is_outer: thread.held_count.load(Relaxed) == 1,
        }
    }
}

/// What a thread shows of a wait, and how long it sleeps in it.
impl Thread {
    /// Shows readers what the thread waits for.
    pub(super) fn shows_wait(&self, target: Target, lock: u32, stack: u32, since: u64) {
        self.parked_since.store(0, Relaxed);
        self.parked_ns.store(0, Relaxed);
        self.waiting_mode.store(target.mode as u32, Relaxed);
        self.waiting_lock.store(lock, Relaxed);
        self.waiting_stack.store(stack, Relaxed);
        self.waiting_since.store(since, Relaxed);
        self.waiting_for.store(target.address as u64, Relaxed);
    }

    /// What it waits for, if it does, is a condition.
    pub(super) fn waits_for_cond(&self) -> bool {
        self.waiting_mode.load(Relaxed) == Mode::Cond as u32
    }

    /// The thread is about to sleep in the kernel.
    pub fn parks(&self) {
        if self.waiting_for.load(Relaxed) != 0 && !self.waits_for_cond() {
            self.parked_since.store(now(), Relaxed);
        }
    }

    /// It has woken up.
    pub fn unparks(&self) {
        let since = self.parked_since.load(Relaxed);
        if since != 0 {
            self.parked_since.store(0, Relaxed);
            let before = self.parked_ns.load(Relaxed);
            self.parked_ns.store(before + now().saturating_sub(since), Relaxed);
        }
    }
}

impl Lock {
    /// One thread more waits for it.
    pub(super) fn waits_begin(&self) {
        let waiting = self.waiting.fetch_add(1, Relaxed) + 1;
        if self.waiting_max.load(Relaxed) < waiting {
            self.waiting_max.fetch_max(waiting, Relaxed);
        }
    }
}
