//! What a thread does around its lock operations.
//!
//! ```text
//! about_to ─ (the lock's own operation; wait_begins, if it has to wait) ─ acquired | refused
//! passes   ─ (the same; wait_begins and wait_ends, if it has to wait)
//! before_release ─ (the lock's own operation) ─ after_release
//! forgets        ─ (the same)
//! ```
//!
//! An acquisition that does not wait and is not a sample costs no clock, no walk of the stack and no write to memory that is
//! shared. Of a release, one that nobody waits for: one look at a counter ([`Region::watchers`]) that waiters write to. Most
//! acquisitions of mutexes are of this sort: [`Region::passes`] and [`Region::forgets`] note them before the lock's own
//! operation, which can then be jumped to.
//!
//! Within the section a thread reads the clock if it waited or is a sample, and the processor's counter of time before it
//! releases a lock that others wait for, and notes that in the lock's ring. Everything else is done while it waits anyway, or
//! after the release.
//!
//! What waiters write and holders read moves between their CPUs, which costs more than all else together where sections are
//! short. So a wait that ends soon writes to nothing that is shared: its thread keeps it in a log of its own
//! ([`Region::log`]), and only waits that may be blamed on somebody are watched ([`Region::wait_begins`]).

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release as Released, SeqCst};
use core::sync::atomic::{AtomicU64, compiler_fence, fence};

use lockwork_platform::{Clock, Cpu, Native, Placement, sys};

use crate::format::{
    EVENTS, HELD, Held, Kind, LOCKS_OF_THEIR_OWN, LOG, Lock, Logged, MAGIC, Mode, PARKED, QUEUED, RING,
    Region, SPINNING, Stage, THREADS, Thread, VERSION, WaitEvent, hash,
};
use crate::locks::write_name;
use crate::sampling::ONE_IN;
use crate::stacks::Frames;

/// The call of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its return address.
    pub caller: usize,
    /// The frame pointer of the code that made it, or whatever that keeps in that register.
    pub frame: usize,
}

/// The lock that an operation is on.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its address.
    pub address: usize,
    /// How it is acquired.
    pub mode: Mode,
    /// What serves it: 0 = glibc.
    pub server: u32,
}

/// What came of [`Thread::about_to`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The acquisition is followed.
    Followed,
    /// The thread has the lock already, or is busy: nothing is recorded.
    Ignored,
    /// The thread has it already, once more if this succeeds.
    Again,
}

/// A wait that has ended.
#[derive(Clone, Copy, Debug)]
struct Wait {
    mode: Mode,
    lock: u32,
    stack: u32,
    since: u64,
    until: u64,
    /// From when on releases of the lock were noted, if they were.
    watched_from: u64,
    /// What is known of it: see [`Held::wait`].
    is: u8,
    /// Of that, the thread slept in the kernel.
    parked_ns: u64,
    /// The thread had no other lock.
    is_outer: bool,
}

impl Wait {
    fn ns(&self) -> u64 {
        self.until.saturating_sub(self.since)
    }
}

/// How many waits one that was watched stands for, of which this is known: see [`Held::wait`].
fn stands_for(wait: u8) -> u32 {
    if wait & (Held::LONG | Held::SURE) == 0 { ONE_IN } else { 1 }
}

/// The least time between two looks at the process's CPU time.
const CPU_TIME_EVERY_NS: u64 = 10_000_000;

/// Waits of a thread, the first, that are all watched from their beginning.
const SURE_WAITS: u32 = 64;

/// A release that is more than removing a note.
#[derive(Debug)]
pub struct Releasing {
    target: Target,
    /// The processor's counter of time.
    at: u64,
    since: u64,
    waited_since: u64,
    watched_after: u32,
    wait: u8,
    parked_ns: u64,
    caller: u64,
    frame: u64,
    stack: u32,
    lock: u32,
    weight: u32,
    /// The section was not within that of another lock.
    is_outer: bool,
    /// The place in the lock's ring, if somebody waits.
    turn: Option<u32>,
}

fn now() -> u64 {
    sys::now(Clock::Monotonic)
}

/// What time it was when the processor's counter showed what: by what both show now, and the rate since the recorder started.
#[derive(Clone, Copy, Debug)]
struct Times {
    ns: u64,
    ticks: u64,
    ns_per_tick: f64,
}

impl Times {
    /// The time at which the counter showed this, which was not long ago.
    fn of(&self, ticks: u64) -> u64 {
        let ago = self.ticks.wrapping_sub(ticks) as i64;
        self.ns.saturating_sub((ago.max(0) as f64 * self.ns_per_tick) as u64)
    }
}

/// Raises a maximum.
pub(crate) fn raise(maximum: &AtomicU64, value: u64) {
    if maximum.load(Relaxed) < value {
        maximum.fetch_max(value, Relaxed);
    }
}

impl Region {
    /// Fills the header of a fresh file. A reader that maps the file sees it complete once it has its magic word.
    pub fn start(&self, pid: u32, name: &[u8], wait_period_ns: u64, max_period: u32, enabled: bool) {
        let header = &self.header;
        header.version.store(VERSION, Relaxed);
        header.pid.store(pid, Relaxed);
        header.bytes.store(size_of::<Self>() as u64, Relaxed);
        header.enabled.store(u32::from(enabled), Relaxed);
        header.epoch.store(1, Relaxed);
        header.started_ns.store(now(), Relaxed);
        header.started_ticks.store(sys::ticks(), Relaxed);
        header.date_ns.store(sys::now(Clock::Realtime), Relaxed);
        header.wait_period_ns.store(wait_period_ns, Relaxed);
        header.max_period.store(max_period, Relaxed);
        write_name(&header.name, name);
        self.read_maps();
        // ORDER: with the reader, which looks at the word first.
        header.magic.store(MAGIC, Released);
    }

    /// Notes the end of the process.
    pub fn end(&self) {
        self.note_cpu_time();
        self.header.ended_ns.store(now(), Relaxed);
    }

    /// CPU time, so that a reader can tell threads that are idle.
    fn note_cpu_time(&self) {
        self.header.cpu_ns.store(sys::process_cpu_time(), Relaxed);
    }

    /// The program calls the lock at this address so.
    pub fn name_lock(&self, address: usize, name: &[u8]) {
        self.name(address as u64, name);
    }

    /// Whether threads record.
    #[inline(always)]
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.header.enabled.load(Relaxed) != 0
    }

    /// A place for the calling thread; `None` if all are taken. `exists` says whether the process has a thread with this id.
    pub fn enter_thread(&self, tid: u32, exists: impl Fn(u32) -> bool) -> Option<&Thread> {
        let header = &self.header;
        let first = header.thread_hint.fetch_add(1, Relaxed) as usize;
        let take = |thread: &&Thread, from: u32| {
            thread.tid.load(Relaxed) == from
                && thread.tid.compare_exchange(from, tid, AcqRel, Relaxed).is_ok()
        };
        let around = || (0..THREADS).map(|step| &self.threads[(first + step) % THREADS]);
        let thread = around().find(|thread| take(thread, 0)).or_else(|| {
            // Some may have ended without a word.
            around().find(|thread| {
                let there = thread.tid.load(Relaxed);
                !exists(there) && take(thread, there)
            })
        });
        let Some(thread) = thread else {
            header.dropped.threads.fetch_add(1, Relaxed);
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
        thread.wait_left_ns.store(0, Relaxed);
        thread.take_wait(0, header.wait_period_ns.load(Relaxed), false);
        thread.draw_acquisition();
        thread.epoch.store(header.epoch.load(Relaxed), Relaxed);
        Some(thread)
    }

    /// The thread ends.
    pub fn leave_thread(&self, thread: &Thread) {
        let lived = now().saturating_sub(thread.started_ns.load(Relaxed));
        self.header.ended_threads_ns.fetch_add(lived, Relaxed);
        self.header.ended_threads.fetch_add(1, Relaxed);
        self.note_cpu_time();
        if thread.waiting_for.load(Relaxed) == 0 {
            // It waits for nothing.
        } else if thread.waits_for_cond() {
            self.has_waited(thread.waiting_lock.load(Relaxed));
        } else if let Some(held) = thread.top().filter(|held| held.waited_since.load(Relaxed) != 0) {
            self.stop_waiting(thread, held);
        }
        self.settle(thread);
        thread.clear();
        // ORDER: with `enter_thread`: the next owner finds the place cleared.
        thread.tid.store(0, Released);
    }

    /// The lock at `address` was initialised by the code before `caller`, or (0) destroyed.
    pub fn renew_lock(&self, kind: Kind, address: usize, caller: usize) {
        self.renew(kind, address as u64, caller as u64);
    }

    /// The thread has to wait for the lock that it is [`about_to`](Self::about_to) acquire.
    ///
    /// Releases of the lock are noted for the sake of a wait that may be blamed on them. What costs most of that is that the
    /// holder looks at a counter that the waiter has just written to; so most waits that end soon do without: of those of our
    /// locks, that is watched from its beginning in which the next sampled point is near, one in [`ONE_IN`]; another one from
    /// when it [`goes_on`](Self::wait_goes_on).
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
        // glibc's locks sleep at once, and are asked for no word when they do.
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
        let since = if is_watched { self.watch(held, target.address as u64) } else { now() };
        held.waited_since.store(since, Relaxed);
        thread.shows_wait(target, index, held.stack.load(Relaxed), since);
        thread.busy.store(0, Relaxed);
    }

    /// Has releases of a lock noted from the time on that is returned. With that goes what a wait that is worth it has beside:
    /// its stack, and a place among those that wait at the same time.
    fn watch(&self, held: &Held, address: u64) -> u64 {
        self.watchers(address).fetch_add(1, Relaxed);
        // The holder looks at the counter before it releases.
        fence(AcqRel);
        let from = now();
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
            let from = self.watch(held, address);
            held.watched_after.store(u32::try_from(from.saturating_sub(since)).unwrap_or(u32::MAX), Relaxed);
            thread.waiting_stack.store(held.stack.load(Relaxed), Relaxed);
        }
        thread.busy.store(0, Relaxed);
    }

    /// See [`Times`].
    fn times(&self) -> Times {
        let before = sys::ticks();
        let ns = now();
        // The clock was read in the middle.
        let ticks = before.wrapping_add(sys::ticks().wrapping_sub(before) / 2);
        let since_start = ns.saturating_sub(self.header.started_ns.load(Relaxed));
        let ticks_since_start = ticks.wrapping_sub(self.header.started_ticks.load(Relaxed)).max(1);
        Times { ns, ticks, ns_per_tick: since_start as f64 / ticks_since_start as f64 }
    }

    /// The thread does not wait for the lock any more.
    fn stop_waiting(&self, thread: &Thread, held: &Held) {
        thread.waiting_for.store(0, Relaxed);
        if held.wait.load(Relaxed) & Held::WATCHED != 0 {
            let index = held.lock.load(Relaxed);
            self.has_waited(index);
            self.locks[index as usize].hand_overs.fetch_add(1, Relaxed);
            self.watchers(held.address()).fetch_sub(1, Relaxed);
        }
    }

    /// One thread less waits for the lock or condition.
    fn has_waited(&self, index: u32) {
        if index != 0 {
            self.locks[index as usize].waiting.fetch_sub(1, Relaxed);
        }
    }

    /// The thread has the lock.
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
    fn acquired_noteworthy(&self, thread: &Thread, held: &Held, is_sample: bool) {
        let until = now();
        let waited_since = held.waited_since.load(Relaxed);
        let mut is_settled = true;
        if waited_since != 0 {
            // A signal handler that waits now would write to the same log.
            thread.busy.store(1, Relaxed);
            self.stop_waiting(thread, held);
            is_settled = self.settles_wait(thread, held, until);
            thread.busy.store(0, Relaxed);
        }
        if is_sample {
            held.weight.store(thread.take_acquisition(self.header.max_period.load(Relaxed)), Relaxed);
        }
        if is_sample || !is_settled {
            held.since.store(until, Relaxed);
            if waited_since != 0 {
                held.wait.store(held.wait.load(Relaxed) | Held::ENDED, Relaxed);
            }
        }
    }

    /// Notes a wait with which there is no more to do than to note how long it was.
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
        let since = held.waited_since.load(Relaxed);
        let (stack, index) = (held.stack.load(Relaxed), held.lock.load(Relaxed));
        let caller = held.caller.load(Relaxed);
        if since != 0 {
            self.stop_waiting(thread, held);
            if index != 0 {
                let lock = &self.locks[index as usize];
                lock.timed_out.fetch_add(1, Relaxed);
                let wait = Wait {
                    mode: target.mode,
                    lock: index,
                    stack,
                    since,
                    until: now(),
                    watched_from: since + u64::from(held.watched_after.load(Relaxed)),
                    is: held.wait.load(Relaxed),
                    parked_ns: thread.parked_ns.load(Relaxed),
                    is_outer: thread.held_count.load(Relaxed) == 1,
                };
                lock.add_vain_wait(&wait);
                self.look_into(thread, wait);
            }
        } else {
            let index = self.record(target.mode.kind(), target.address as u64, caller, target.server);
            if index != 0 {
                self.locks[index as usize].tries_failed.fetch_add(1, Relaxed);
            }
        }
        thread.remove(thread.held_count.load(Relaxed) as usize - 1);
        thread.busy.store(0, Relaxed);
    }

    /// The thread is about to release a lock. `None`: there is no more to do.
    #[inline(always)]
    pub fn before_release(
        &self,
        thread: &Thread,
        address: usize,
        server: impl FnOnce() -> u32,
    ) -> Option<Releasing> {
        let count = (thread.held_count.load(Relaxed) as usize).min(HELD);
        let is_watched = self.watchers(address as u64).load(Relaxed) != 0;
        // Most release what they acquired last.
        if let Some(top) = count.checked_sub(1)
            && let held = &thread.held[top]
            && held.address() == address as u64
            && held.since.load(Relaxed) == 0
            && held.again.load(Relaxed) == 0
            && !is_watched
        {
            thread.held_count.store(top as u32, Relaxed);
            return None;
        }
        self.noteworthy_release(thread, address, server(), is_watched)
    }

    #[cold]
    fn noteworthy_release(
        &self,
        thread: &Thread,
        address: usize,
        server: u32,
        is_watched: bool,
    ) -> Option<Releasing> {
        if thread.busy.load(Relaxed) != 0 {
            return None;
        }
        let count = (thread.held_count.load(Relaxed) as usize).min(HELD);
        let is_it = |held: &&Held| held.address() == address as u64 && held.stage() != Stage::About;
        let place = (0..count).rev().find(|place| is_it(&&thread.held[*place]))?;
        let held = &thread.held[place];
        let again = held.again.load(Relaxed);
        if again != 0 {
            held.again.store(again - 1, Relaxed);
            return None;
        }
        let since = held.since.load(Relaxed);
        if since == 0 && !is_watched {
            thread.remove(place);
            return None;
        }
        let mode = held.mode();
        let mut releasing = Releasing {
            target: Target { address, mode, server },
            at: 0,
            since,
            waited_since: held.waited_since.load(Relaxed),
            watched_after: held.watched_after.load(Relaxed),
            wait: held.wait.load(Relaxed),
            parked_ns: u64::from(held.parked_us.load(Relaxed)) * 1000,
            caller: held.caller.load(Relaxed),
            frame: held.frame.load(Relaxed),
            stack: held.stack.load(Relaxed),
            lock: held.lock.load(Relaxed),
            weight: u32::from(held.weight.load(Relaxed)),
            is_outer: place == 0,
            turn: None,
        };
        thread.remove(place);
        if is_watched {
            if releasing.lock == 0 {
                releasing.lock = self.look_up_again(&thread.known, mode.kind(), address as u64);
            }
            if releasing.lock != 0 {
                let lock = &self.locks[releasing.lock as usize];
                let turn = if mode != Mode::Read && (releasing.lock as usize) < LOCKS_OF_THEIR_OWN {
                    // Nobody else releases the lock now.
                    let turn = lock.releases.load(Relaxed);
                    lock.releases.store(turn.wrapping_add(1), Relaxed);
                    turn
                } else {
                    lock.releases.fetch_add(1, Relaxed)
                };
                let release = &lock.ring[turn as usize % RING];
                release.turn.store(u64::from(turn) * 2 + 1, Relaxed);
                releasing.at = sys::ticks();
                release.at.store(releasing.at, Relaxed);
                release.thread.store(thread.tid.load(Relaxed), Relaxed);
                if Native::nodes() > 1 {
                    release.node.store(Native::node() as u32, Relaxed);
                }
                releasing.turn = Some(turn);
                thread.known.address.store(address as u64, Relaxed);
                thread.known.lock.store(releasing.lock, Relaxed);
                thread.known.turn.store(turn, Relaxed);
                thread.known.hand_overs.store(lock.hand_overs.load(Relaxed), Relaxed);
                return Some(releasing);
            }
        }
        releasing.at = sys::ticks();
        Some(releasing)
    }

    /// The thread has released a lock.
    #[cold]
    pub fn after_release(&self, thread: &Thread, releasing: &Releasing, call: Call) {
        thread.busy.store(1, Relaxed);
        let Target { address, mode, server } = releasing.target;
        if thread.logged.load(Relaxed) as usize > LOG - 2 {
            self.settle(thread);
        }
        if let Some(turn) = releasing.turn {
            let [acquired, released] = self.stacks_of_release(thread, releasing, call);
            let release = &self.locks[releasing.lock as usize].ring[turn as usize % RING];
            release.acquired.store(acquired, Relaxed);
            release.released.store(released, Relaxed);
            // ORDER: with `blame_releases`: a release that is complete has its stacks.
            release.turn.store(u64::from(turn) * 2 + 2, Released);
        }
        let weight = u64::from(releasing.weight);
        if weight != 0 || releasing.waited_since != 0 {
            let index = match releasing.lock {
                0 => self.record(mode.kind(), address as u64, releasing.caller, server),
                index => index,
            };
            if releasing.waited_since != 0 {
                self.waited(
                    thread,
                    Wait {
                        mode,
                        lock: index,
                        stack: releasing.stack,
                        since: releasing.waited_since,
                        until: releasing.since,
                        watched_from: releasing.waited_since + u64::from(releasing.watched_after),
                        is: releasing.wait,
                        parked_ns: releasing.parked_ns,
                        is_outer: releasing.is_outer,
                    },
                );
            }
            if index != 0 {
                self.note_section(thread, releasing, index, weight);
            } else if weight != 0 && releasing.waited_since == 0 {
                self.header.dropped.acquisitions.fetch_add(weight, Relaxed);
            }
        }
        thread.busy.store(0, Relaxed);
    }

    /// The stacks that acquired and that released a lock. Most releases of a thread that others wait for come from where the
    /// one before came from.
    fn stacks_of_release(&self, thread: &Thread, releasing: &Releasing, call: Call) -> [u32; 2] {
        let known = &thread.known;
        let (caller, frame, bottom) = (call.caller as u64, call.frame as u64, here());
        // Code that acquires and releases in one function has one frame pointer.
        let is_one_function = releasing.frame == frame;
        let before = known.released.load(Relaxed);
        let is_known = before != 0 && self.is_at(before, caller, bottom, frame);
        if is_known
            && releasing.stack == 0
            && known.acquirer.load(Relaxed) == releasing.caller
            && (known.is_one_function.load(Relaxed) != 0) == is_one_function
        {
            return [known.acquired.load(Relaxed), before];
        }
        let frames = self.walk(caller, bottom, frame);
        let released = if is_known { before } else { self.intern(&frames) };
        let acquired = match releasing.stack {
            0 if is_one_function => self.intern(&frames.with_caller(releasing.caller)),
            0 => self.intern(&Frames::of(releasing.caller)),
            stack => stack,
        };
        known.acquirer.store(if releasing.stack == 0 { releasing.caller } else { 0 }, Relaxed);
        known.acquired.store(acquired, Relaxed);
        known.released.store(released, Relaxed);
        known.is_one_function.store(u32::from(is_one_function), Relaxed);
        [acquired, released]
    }

    /// Adds an acquisition and its section to the lock's figures: one without a wait, if it is a sample by count, and one with a
    /// wait, if that was watched.
    fn note_section(&self, thread: &Thread, releasing: &Releasing, index: u32, weight: u64) {
        let lock = &self.locks[index as usize];
        let at = self.times().of(releasing.at);
        if weight != 0 {
            thread.think_lock.store(index, Relaxed);
            thread.think_weight.store(weight as u32, Relaxed);
            thread.think_since.store(at, Relaxed);
            thread.think_of.store(releasing.target.address as u64, Relaxed);
        }
        let weight = match releasing.wait {
            0 => weight,
            is if is & Held::WATCHED != 0 => u64::from(stands_for(is)),
            _ => 0,
        };
        if weight == 0 {
            return;
        }
        if releasing.wait == 0 {
            let reads = u64::from(releasing.target.mode == Mode::Read);
            lock.uncontended.fetch_add(weight, Relaxed);
            lock.uncontended_reads.fetch_add(weight * reads, Relaxed);
            lock.uncontended_variance.fetch_add(weight * (weight - 1), Relaxed);
            lock.note_owner(thread.tid.load(Relaxed), Native::node() as u32, weight);
        }
        let held = at.saturating_sub(releasing.since);
        lock.hold.add(held, weight);
        lock.hold_ns.fetch_add(held * weight, Relaxed);
        if releasing.is_outer {
            lock.outer_hold_ns.fetch_add(held * weight, Relaxed);
        }
        let squared = (held as f64 / 1e3) * (held as f64 / 1e3);
        lock.hold_variance_us2.fetch_add((squared * (weight * (weight - 1)) as f64) as u64, Relaxed);
        raise(&lock.hold_max_ns, held);
    }

    /// Notes a wait after which the thread had the lock.
    fn waited(&self, thread: &Thread, wait: Wait) {
        let entry = Logged {
            lock: wait.lock,
            mode: wait.mode,
            is_outer: wait.is_outer,
            is_parked: false,
            ns: wait.ns(),
        };
        if !Self::log(thread, entry, wait.parked_ns) {
            self.settle(thread);
            Self::log(thread, entry, wait.parked_ns);
        }
        if wait.lock != 0 {
            self.look_into(thread, wait);
        }
    }

    /// Of a wait: what part was behind others, and if it is a sample, whom to blame, and its event.
    fn look_into(&self, thread: &Thread, wait: Wait) {
        let Wait { mode, lock: index, stack, since, until, .. } = wait;
        let lock = &self.locks[index as usize];
        let is_watched = wait.is & Held::WATCHED != 0;
        let times = if is_watched { Some(self.times()) } else { None };
        if let Some(times) = times {
            lock.split_wait(&wait, times);
            lock.note_hand_over(thread.tid.load(Relaxed), &wait, times);
        }
        // Of a wait that was short, and not watched by chance, only a point near its beginning was sure to be seen.
        let only_near = mode != Mode::Cond && wait.is & (Held::LONG | Held::SURE) == 0;
        let period = self.header.wait_period_ns.load(Relaxed);
        let Some(weight) = thread.take_wait(wait.ns(), period, only_near) else { return };
        let last = times.and_then(|times| self.blame_releases(lock, &wait, times, weight));
        let (holder, released_at) = last.unwrap_or((0, 0));
        let number = self.header.events.fetch_add(1, Relaxed);
        if until.saturating_sub(self.header.cpu_noted_ns.load(Relaxed)) >= CPU_TIME_EVERY_NS {
            self.header.cpu_noted_ns.store(until, Relaxed);
            self.note_cpu_time();
        }
        let event = &self.events[number as usize % EVENTS];
        event.write(
            [since, until, released_at],
            [index, stack, thread.tid.load(Relaxed), holder],
            weight,
            mode,
        );
    }

    /// Charges a wait to those that released the lock meanwhile; the last of them, and when.
    fn blame_releases(&self, lock: &Lock, wait: &Wait, times: Times, weight: f64) -> Option<(u32, u64)> {
        let Wait { lock: index, stack, until, watched_from, .. } = *wait;
        #[derive(Clone, Copy, Default)]
        struct Seen {
            at: u64,
            acquired: u32,
            released: u32,
            thread: u32,
        }
        let mut seen = [Seen::default(); RING];
        let mut count = 0;
        let all = lock.releases.load(Acquire);
        for turn in all.saturating_sub(RING as u32)..all {
            let release = &lock.ring[turn as usize % RING];
            // A release writes its stacks right after it: that may be now.
            let complete = u64::from(turn) * 2 + 2;
            let is_complete = (0..200).any(|_| {
                core::hint::spin_loop();
                release.turn.load(Acquire) >= complete
            });
            let (acquired, released) = if is_complete {
                (release.acquired.load(Relaxed), release.released.load(Relaxed))
            } else {
                (0, 0)
            };
            let it = Seen {
                at: times.of(release.at.load(Relaxed)),
                acquired,
                released,
                thread: release.thread.load(Relaxed),
            };
            fence(Acquire);
            let is_ours = release.turn.load(Relaxed) <= complete;
            if is_ours && it.at > watched_from && it.at <= until {
                // Readers may be a little out of order.
                let place =
                    seen[..count].iter().rposition(|other| other.at <= it.at).map_or(0, |before| before + 1);
                seen.copy_within(place..count, place + 1);
                seen[place] = it;
                count += 1;
            }
        }
        let mut seen = &seen[..count];
        let total = wait.ns() as f64 * weight;
        // Earlier ones may have been forgotten, or nobody noted them: then those that are known stand for them.
        let mut from = watched_from;
        if count == RING {
            from = seen[0].at;
            seen = &seen[1..];
        }
        let known = until.saturating_sub(from).max(1) as f64;
        let Some(last) = seen.last().copied() else {
            self.blame([index, stack, 0, 0], total as u64, weight as u64);
            return None;
        };
        for (place, it) in seen.iter().enumerate() {
            let to = if place + 1 == seen.len() { until } else { it.at };
            let share = to.saturating_sub(from) as f64 / known;
            from = to;
            self.blame([index, stack, it.acquired, it.released], (total * share) as u64, weight as u64);
        }
        Some((last.thread, last.at))
    }

    /// The number of the stack above a call.
    fn stack_of(&self, call: Call) -> u32 {
        self.intern(&self.walk(call.caller as u64, here(), call.frame as u64))
    }

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

    /// It does so no more. Where the recorder has been off meanwhile, nothing is known of the wait.
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
        let is_current = self.is_enabled() && thread.epoch.load(Relaxed) == self.header.epoch.load(Relaxed);
        if index != 0 && is_current {
            self.waited(
                thread,
                Wait {
                    mode: Mode::Cond,
                    lock: index,
                    stack,
                    since,
                    until: now(),
                    watched_from: since,
                    is: 0,
                    parked_ns: 0,
                    is_outer: true,
                },
            );
        }
        thread.busy.store(0, Relaxed);
    }

    #[cold]
    fn think_ends(&self, thread: &Thread) {
        thread.think_of.store(0, Relaxed);
        let ns = now().saturating_sub(thread.think_since.load(Relaxed));
        let weight = u64::from(thread.think_weight.load(Relaxed));
        if let Some(lock) = self.locks.get(thread.think_lock.load(Relaxed) as usize) {
            lock.think.add(ns, weight);
            lock.think_ns.fetch_add(ns * weight, Relaxed);
            lock.thinks.fetch_add(weight, Relaxed);
        }
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
        if thread.epoch.load(Relaxed) != self.header.epoch.load(Relaxed) {
            thread.clear();
            thread.epoch.store(self.header.epoch.load(Relaxed), Relaxed);
            thread.draw_acquisition();
        }
        if thread.think_of.load(Relaxed) == address as u64 {
            self.think_ends(thread);
        }
        let count = (thread.held_count.load(Relaxed) as usize).min(HELD);
        if may_recurse
            && let Some(held) = thread.held[..count].iter().find(|held| held.address() == address as u64)
        {
            held.again.store(held.again.load(Relaxed) + 1, Relaxed);
            return Begun::Again;
        }
        let Some(held) = thread.held.get(count) else {
            self.header.dropped.held.fetch_add(1, Relaxed);
            return Begun::Ignored;
        };
        held.how.store(Held::how(mode, Stage::About), Relaxed);
        thread.push(held, count, address as u64, call);
        Begun::Followed
    }

    /// The thread is about to acquire a mutex, and has not got it. `true`: there is nothing to note of that but the call, which
    /// has been done; what follows is the lock's own operation, which waits until the thread has it, and no more. `false`: it
    /// is a matter for [`about_to`](Self::about_to).
    #[inline(always)]
    pub fn passes(thread: &Thread, address: usize, call: Call) -> bool {
        let left = thread.countdown.load(Relaxed).wrapping_sub(1);
        let count = thread.held_count.load(Relaxed) as usize;
        let Some(held) = thread.held.get(count) else { return false };
        if left == 0 || thread.think_of.load(Relaxed) == address as u64 {
            return false;
        }
        thread.countdown.store(left, Relaxed);
        thread.push(held, count, address as u64 | Held::PASSED, call);
        true
    }

    /// The thread is about to release a mutex. `true`: there is nothing to note of that, and it is off the list; `false`: it
    /// is a matter for [`before_release`](Self::before_release).
    #[inline(always)]
    pub fn forgets(&self, thread: &Thread, address: usize) -> bool {
        let top = (thread.held_count.load(Relaxed) as usize).wrapping_sub(1);
        let Some(held) = thread.held.get(top) else { return false };
        let is_plain = held.word.load(Relaxed) == address as u64 | Held::PASSED;
        if !is_plain || self.watchers(address as u64).load(Relaxed) != 0 {
            return false;
        }
        thread.held_count.store(top as u32, Relaxed);
        true
    }

    /// The thread is about to release a mutex of glibc's that others wait for. `true`: it did so before, from the same place, and nobody else did
    /// since, nor got the lock after a wait, so that this is the same entry of the lock's ring, only later; and it is off the list.
    #[cold]
    pub fn repeats(&self, thread: &Thread, address: usize, call: Call) -> bool {
        let known = &thread.known;
        let top = (thread.held_count.load(Relaxed) as usize).wrapping_sub(1);
        let Some(held) = thread.held.get(top) else { return false };
        let index = known.lock.load(Relaxed) as usize;
        let is_it = held.word.load(Relaxed) == address as u64 | Held::PASSED
            && known.address.load(Relaxed) == address as u64
            && known.acquirer.load(Relaxed) == held.caller.load(Relaxed)
            && (1..LOCKS_OF_THEIR_OWN).contains(&index)
            && thread.busy.load(Relaxed) == 0;
        if !is_it {
            return false;
        }
        let lock = &self.locks[index];
        let turn = known.turn.load(Relaxed);
        let is_latest = lock.releases.load(Relaxed) == turn.wrapping_add(1)
            && lock.hand_overs.load(Relaxed) == known.hand_overs.load(Relaxed)
            && lock.is_of(Kind::Mutex, address as u64)
            // Of a lock of ours the number of releases tells how long a waiter was behind others.
            && lock.server.load(Relaxed) == 0;
        let (caller, frame) = (call.caller as u64, call.frame as u64);
        let is_one_function = u32::from(held.frame.load(Relaxed) == frame);
        if !is_latest
            || known.is_one_function.load(Relaxed) != is_one_function
            || !self.is_at(known.released.load(Relaxed), caller, here(), frame)
        {
            return false;
        }
        lock.ring[turn as usize % RING].at.store(sys::ticks(), Relaxed);
        thread.held_count.store(top as u32, Relaxed);
        true
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

    /// An acquisition that was [`Begun::Again`] failed.
    pub fn not_again(&self, thread: &Thread, address: usize) {
        let count = (thread.held_count.load(Relaxed) as usize).min(HELD);
        if let Some(held) = thread.held[..count].iter().find(|held| held.address() == address as u64) {
            held.again.store(held.again.load(Relaxed).saturating_sub(1), Relaxed);
        }
    }
}

/// An address in the caller's frame.
#[inline(always)]
fn here() -> u64 {
    let mark = 0_u8;
    core::hint::black_box(&raw const mark) as u64
}

impl Thread {
    /// How the thread is about to acquire what it acquires.
    #[must_use]
    pub fn last_mode(&self) -> Mode {
        self.top().map_or(Mode::Mutex, Held::mode)
    }

    /// The lock that the thread is about to acquire, and how; `None` if it has what it acquired last.
    #[must_use]
    pub fn wants(&self) -> Option<(usize, Mode)> {
        let held = self.top().filter(|held| held.stage() == Stage::About)?;
        Some((held.address() as usize, held.mode()))
    }

    /// Keeps a call for [`Thread::kept_call`].
    pub fn keep_call(&self, call: Call) {
        self.frame[0].store(call.caller as u64, Relaxed);
        self.frame[1].store(call.frame as u64, Relaxed);
    }

    /// The call that was kept last.
    #[must_use]
    pub fn kept_call(&self) -> Call {
        Call { caller: self.frame[0].load(Relaxed) as usize, frame: self.frame[1].load(Relaxed) as usize }
    }

    /// The lock that the thread acquired last, or is about to acquire.
    #[inline(always)]
    fn top(&self) -> Option<&Held> {
        let count = self.held_count.load(Relaxed) as usize;
        self.held.get(count.checked_sub(1)?)
    }

    /// Adds a lock to the list, at the place behind it. The list is longer from the first store on: a signal handler that
    /// acquires locks in the middle of this does so behind that place.
    #[inline(always)]
    fn push(&self, held: &Held, count: usize, word: u64, call: Call) {
        self.held_count.store(count as u32 + 1, Relaxed);
        compiler_fence(SeqCst);
        held.word.store(word, Relaxed);
        held.caller.store(call.caller as u64, Relaxed);
        held.frame.store(call.frame as u64, Relaxed);
    }

    /// Removes a lock from the list. A place behind the list is as [`Held::clear`] leaves it, but for what `push` writes.
    fn remove(&self, place: usize) {
        let count = (self.held_count.load(Relaxed) as usize).min(HELD);
        for place in place..count - 1 {
            self.held[place].copy(&self.held[place + 1]);
        }
        self.held[count - 1].clear();
        self.held_count.store(count as u32 - 1, Relaxed);
    }

    fn clear(&self) {
        self.held.iter().for_each(Held::clear);
        self.held_count.store(0, Relaxed);
        self.waiting_for.store(0, Relaxed);
        self.think_of.store(0, Relaxed);
        self.busy.store(0, Relaxed);
    }

    /// What it waits for, if it does, is a condition.
    fn waits_for_cond(&self) -> bool {
        self.waiting_mode.load(Relaxed) == Mode::Cond as u32
    }

    /// The thread is about to sleep in the kernel.
    pub fn parks(&self) {
        if self.waiting_for.load(Relaxed) != 0 && !self.waits_for_cond() {
            self.parked_since.store(now(), Relaxed);
        }
    }

    /// It does so no more.
    pub fn unparks(&self) {
        let since = self.parked_since.load(Relaxed);
        if since != 0 {
            self.parked_since.store(0, Relaxed);
            let before = self.parked_ns.load(Relaxed);
            self.parked_ns.store(before + now().saturating_sub(since), Relaxed);
        }
    }

    /// Shows readers what the thread waits for.
    fn shows_wait(&self, target: Target, lock: u32, stack: u32, since: u64) {
        self.parked_since.store(0, Relaxed);
        self.parked_ns.store(0, Relaxed);
        self.waiting_mode.store(target.mode as u32, Relaxed);
        self.waiting_lock.store(lock, Relaxed);
        self.waiting_stack.store(stack, Relaxed);
        self.waiting_since.store(since, Relaxed);
        self.waiting_for.store(target.address as u64, Relaxed);
    }
}

impl Held {
    fn is_awaited(&self, target: Target) -> bool {
        self.stage() != Stage::Has
            && self.waited_since.load(Relaxed) == 0
            && self.address() == target.address as u64
    }

    fn call(&self) -> Call {
        Call { caller: self.caller.load(Relaxed) as usize, frame: self.frame.load(Relaxed) as usize }
    }

    /// The thread has it.
    fn has_it(&self) {
        self.how.store(Self::how(self.mode(), Stage::Has), Relaxed);
        self.word.store(self.address(), Relaxed);
    }

    fn clear(&self) {
        self.since.store(0, Relaxed);
        self.waited_since.store(0, Relaxed);
        self.stack.store(0, Relaxed);
        self.lock.store(0, Relaxed);
        self.weight.store(0, Relaxed);
        self.again.store(0, Relaxed);
        self.parked_us.store(0, Relaxed);
        self.watched_after.store(0, Relaxed);
        self.wait.store(0, Relaxed);
    }

    fn copy(&self, from: &Self) {
        for (to, from) in [
            (&self.word, &from.word),
            (&self.caller, &from.caller),
            (&self.frame, &from.frame),
            (&self.since, &from.since),
            (&self.waited_since, &from.waited_since),
        ] {
            to.store(from.load(Relaxed), Relaxed);
        }
        for (to, from) in [
            (&self.stack, &from.stack),
            (&self.lock, &from.lock),
            (&self.again, &from.again),
            (&self.parked_us, &from.parked_us),
            (&self.watched_after, &from.watched_after),
        ] {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.weight.store(from.weight.load(Relaxed), Relaxed);
        self.how.store(from.how.load(Relaxed), Relaxed);
        self.wait.store(from.wait.load(Relaxed), Relaxed);
    }
}

impl Lock {
    /// One thread more waits for it.
    fn waits_begin(&self) {
        let waiting = self.waiting.fetch_add(1, Relaxed) + 1;
        if self.waiting_max.load(Relaxed) < waiting {
            self.waiting_max.fetch_max(waiting, Relaxed);
        }
    }

    /// Adds a wait that was given up.
    fn add_vain_wait(&self, wait: &Wait) {
        let ns = wait.ns();
        self.wait.add(ns, 1);
        self.wait_ns.fetch_add(ns, Relaxed);
        if wait.is_outer {
            self.outer_wait_ns.fetch_add(ns, Relaxed);
        }
        if wait.mode == Mode::Read {
            self.wait_reads_ns.fetch_add(ns, Relaxed);
        }
        let parked = if self.server.load(Relaxed) == 0 { ns } else { wait.parked_ns.min(ns) };
        self.parts[PARKED].add(parked, 1);
        raise(&self.wait_max_ns, ns);
    }

    /// Adds the parts that its thread was awake in a wait that was watched, and that stands for others that were not. What the
    /// thread slept is taken from the time in which others got the lock first.
    fn split_wait(&self, wait: &Wait, times: Times) {
        // glibc's locks sleep at once.
        if self.server.load(Relaxed) == 0 {
            return;
        }
        let weight = stands_for(wait.is);
        let ns = wait.ns();
        let parked = wait.parked_ns.min(ns);
        // Until the last release but one others were ahead.
        let last_but_one = self.latest_releases(wait, times).nth(1);
        let behind = last_but_one.map_or(0, |(at, _)| at.saturating_sub(wait.since));
        let queued = behind.saturating_sub(parked).min(ns - parked);
        self.parts[QUEUED].add(queued, weight);
        self.parts[SPINNING].add(ns - parked - queued, weight);
    }

    /// When and on which node the lock was released the last time, the last time but one and so on during a wait.
    fn latest_releases(&self, wait: &Wait, times: Times) -> impl Iterator<Item = (u64, u32)> {
        let (since, until) = (wait.watched_from, wait.until);
        let all = self.releases.load(Acquire);
        let latest = (all.saturating_sub(RING as u32)..all).rev().filter_map(move |turn| {
            let release = &self.ring[turn as usize % RING];
            let (at, node) = (times.of(release.at.load(Relaxed)), release.node.load(Relaxed));
            fence(Acquire);
            // Another release may be written here by now, or this one not yet.
            let is_it = release.turn.load(Relaxed).wrapping_sub(u64::from(turn) * 2 + 1) <= 1;
            is_it.then_some((at, node))
        });
        latest.skip_while(move |(at, _)| *at > until).take_while(move |(at, _)| *at > since)
    }

    /// Notes an acquisition without a wait, of which a thread on this node is a sample.
    fn note_owner(&self, tid: u32, node: u32, weight: u64) {
        if self.last_owner.load(Relaxed) != tid {
            let before = self.last_owner.swap(tid, Relaxed);
            if before != 0 {
                self.owner_switches.fetch_add(weight, Relaxed);
                if self.last_node.load(Relaxed) != node {
                    self.node_crossings.fetch_add(weight, Relaxed);
                }
            }
            self.last_node.store(node, Relaxed);
        }
    }

    /// Notes who has the lock after a wait that was watched, and whether it came from another node. That it came from another
    /// thread goes without saying.
    fn note_hand_over(&self, tid: u32, wait: &Wait, times: Times) {
        if wait.mode == Mode::Cond || Native::nodes() == 1 {
            return;
        }
        let node = Native::node() as u32;
        let before = self.latest_releases(wait, times).next();
        if before.is_some_and(|(_, before)| before != node) {
            self.node_crossings.fetch_add(u64::from(stands_for(wait.is)), Relaxed);
        }
        self.last_owner.store(tid, Relaxed);
        self.last_node.store(node, Relaxed);
    }
}

impl WaitEvent {
    fn write(&self, [since, until, released_at]: [u64; 3], numbers: [u32; 4], weight: f64, mode: Mode) {
        self.until.store(0, Relaxed);
        for (cell, number) in [&self.lock, &self.stack, &self.thread, &self.holder].into_iter().zip(numbers) {
            cell.store(number, Relaxed);
        }
        self.since.store(since, Relaxed);
        self.released_at.store(released_at, Relaxed);
        self.weight.store((weight * 1e3) as u64, Relaxed);
        self.mode.store(mode as u32, Relaxed);
        self.until.store(until, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;

    use super::*;

    const CALL: Call = Call { caller: 1, frame: 0 };

    /// A region that records, and where its only thread does so: a thread none of whose next acquisitions is a sample.
    fn started() -> (Box<Region>, usize) {
        let region = Region::in_memory();
        region.start(1, b"test", 50_000, 1024, true);
        let thread = region.enter_thread(7, |_| true).unwrap();
        thread.countdown.store(1000, Relaxed);
        let place = region.threads.iter().position(|other| core::ptr::eq(other, thread)).unwrap();
        (region, place)
    }

    fn mutex(address: usize) -> Target {
        Target { address, mode: Mode::Mutex, server: 0 }
    }

    fn release(region: &Region, thread: &Thread, address: usize) {
        if !region.forgets(thread, address)
            && let Some(releasing) = region.before_release(thread, address, || 0)
        {
            region.after_release(thread, &releasing, CALL);
        }
    }

    #[test]
    fn what_passes_is_held_until_it_is_forgotten() {
        let (region, place) = started();
        let thread = &region.threads[place];
        for address in [64, 128, 192] {
            assert!(Region::passes(thread, address, CALL));
        }
        // The one in the middle first, which is not the latest.
        assert!(!region.forgets(thread, 128));
        release(&region, thread, 128);
        let held = |place: usize| thread.held[place].address();
        assert_eq!((thread.held_count.load(Relaxed), held(0), held(1)), (2, 64, 192));
        assert!(region.forgets(thread, 192) && region.forgets(thread, 64));
        assert!(!region.forgets(thread, 64));
        assert_eq!(thread.countdown.load(Relaxed), 997);
        assert_eq!(region.header.locks.load(Relaxed), 0);
    }

    #[test]
    fn a_sample_does_not_pass() {
        let (region, place) = started();
        let thread = &region.threads[place];
        thread.countdown.store(1, Relaxed);
        assert!(!Region::passes(thread, 64, CALL));
        assert_eq!(thread.held_count.load(Relaxed), 0);
        assert_eq!(region.about_to(thread, 64, Mode::Mutex, CALL, false), Begun::Followed);
        region.acquired(thread);
        assert!(!region.forgets(thread, 64));
        release(&region, thread, 64);
        let index = region.look_up(Kind::Mutex, 64) as usize;
        assert_eq!(region.locks[index].uncontended.load(Relaxed), 1);
        thread.countdown.store(1000, Relaxed);
        // The next acquisition ends a think time.
        assert!(!Region::passes(thread, 64, CALL));
        assert!(Region::passes(thread, 128, CALL));
    }

    #[test]
    fn a_wait_of_what_passes_is_noted() {
        let (region, place) = started();
        let thread = &region.threads[place];
        assert!(Region::passes(thread, 64, CALL));
        region.wait_begins(thread, mutex(64));
        assert_eq!((thread.waiting_for.load(Relaxed), region.watchers(64).load(Relaxed)), (64, 1));
        region.wait_ends(thread);
        assert_eq!((thread.waiting_for.load(Relaxed), region.watchers(64).load(Relaxed)), (0, 0));
        // A second end is none: that of a wait on a condition, say.
        let since = thread.held[0].since.load(Relaxed);
        region.wait_ends(thread);
        assert_eq!(thread.held[0].since.load(Relaxed), since);
        assert!(!region.forgets(thread, 64));
        release(&region, thread, 64);
        let index = region.look_up(Kind::Mutex, 64) as usize;
        assert_eq!(region.locks[index].contended.load(Relaxed), 0);
        region.settle(thread);
        assert_eq!(region.locks[index].contended.load(Relaxed), 1);
        assert_eq!(thread.held_count.load(Relaxed), 0);
        // The place is as new.
        assert!(Region::passes(thread, 128, CALL) && region.forgets(thread, 128));
    }

    /// Waits for a lock of ours that were not watched: all are counted, and their releases are plain, but for those at which the
    /// thread's own log is full.
    #[test]
    fn waits_that_end_soon_are_counted_without_being_watched() {
        let (region, place) = started();
        let thread = &region.threads[place];
        let [mine, others] = [64, 128].map(|address| Target { address, mode: Mode::Mutex, server: 3 });
        thread.waits.store(SURE_WAITS, Relaxed);
        let (mut plain, mut number) = (0_u64, 0_u64);
        for round in 0..1000_u64 {
            let target = if round % 10 == 9 { others } else { mine };
            // No sampled point is near.
            thread.wait_left_ns.store(u64::MAX, Relaxed);
            thread.countdown.store(1000, Relaxed);
            assert!(Region::passes(thread, target.address, CALL));
            region.wait_begins(thread, target);
            assert_eq!(region.watchers(target.address as u64).load(Relaxed), 0);
            region.wait_ends(thread);
            number += 1;
            if region.forgets(thread, target.address) {
                plain += 1;
            } else {
                release(&region, thread, target.address);
            }
            assert_eq!(thread.held_count.load(Relaxed), 0);
        }
        assert!(plain > number * 9 / 10, "{plain}");
        region.settle(thread);
        let lock =
            |target: Target| &region.locks[region.look_up(Kind::Mutex, target.address as u64) as usize];
        let contended = [mine, others].map(|target| lock(target).contended.load(Relaxed));
        assert_eq!(contended, [900, 100]);
        let in_histogram: u64 = lock(mine).wait.weights().sum();
        assert_eq!((in_histogram, lock(mine).uncontended.load(Relaxed)), (900, 0));
        assert_eq!(lock(mine).parts[PARKED].ns.load(Relaxed), 0);
        region.settle(thread);
        assert_eq!(lock(mine).contended.load(Relaxed), 900);
    }

    /// A wait in which the thread sleeps is watched from then on, and split into what it slept and the rest.
    #[test]
    fn a_wait_that_goes_on_is_watched() {
        let (region, place) = started();
        let thread = &region.threads[place];
        thread.waits.store(SURE_WAITS, Relaxed);
        thread.wait_left_ns.store(u64::MAX, Relaxed);
        assert!(Region::passes(thread, 64, CALL));
        region.wait_begins(thread, Target { address: 64, mode: Mode::Mutex, server: 3 });
        assert_eq!(region.watchers(64).load(Relaxed), 0);
        region.wait_goes_on(thread);
        region.wait_goes_on(thread);
        assert_eq!(region.watchers(64).load(Relaxed), 1);
        assert_ne!(thread.waiting_stack.load(Relaxed), 0);
        thread.parks();
        std::thread::sleep(core::time::Duration::from_millis(2));
        thread.unparks();
        region.wait_ends(thread);
        assert_eq!(region.watchers(64).load(Relaxed), 0);
        region.wait_goes_on(thread);
        assert_eq!(region.watchers(64).load(Relaxed), 0);
        release(&region, thread, 64);
        region.settle(thread);
        let lock = &region.locks[region.look_up(Kind::Mutex, 64) as usize];
        let [waited, parked] = [&lock.wait_ns, &lock.parts[PARKED].ns].map(|ns| ns.load(Relaxed));
        assert!(parked >= 1_000_000 && parked <= waited, "{parked} of {waited}");
        assert_eq!((lock.contended.load(Relaxed), lock.waiting.load(Relaxed)), (1, 0));
        assert_eq!(lock.waiting_max.load(Relaxed), 1);
    }

    /// What a thread that ended without a word kept for itself is not lost.
    #[test]
    fn the_next_of_a_place_settles_for_the_one_before() {
        let (region, place) = started();
        let thread = &region.threads[place];
        let index = region.record(Kind::Mutex, 64, 0, 3);
        let wait = Logged { lock: index, mode: Mode::Mutex, is_outer: true, is_parked: false, ns: 700 };
        assert!(Region::log(thread, wait, 300));
        for other in region.threads.iter().filter(|other| other.tid.load(Relaxed) == 0) {
            other.tid.store(9, Relaxed);
        }
        let next = region.enter_thread(8, |tid| tid != 7).unwrap();
        assert!(core::ptr::eq(next, thread));
        let lock = &region.locks[index as usize];
        let figures = [&lock.contended, &lock.wait_ns, &lock.outer_wait_ns, &lock.parts[PARKED].ns];
        assert_eq!(figures.map(|figure| figure.load(Relaxed)), [1, 700, 700, 300]);
        assert_eq!(next.logged.load(Relaxed), 0);
    }

    /// A wait on a condition during which the recorder was off is not charged, and its thread does not wait for ever.
    #[test]
    fn a_wait_across_a_switch_is_none() {
        let (region, place) = started();
        let thread = &region.threads[place];
        let figures = || {
            region.settle(thread);
            let lock = &region.locks[region.look_up(Kind::Cond, 64) as usize];
            (lock.contended.load(Relaxed), lock.waiting.load(Relaxed), thread.waiting_for.load(Relaxed))
        };
        region.cond_wait_begins(thread, 64, CALL);
        assert_eq!(figures(), (0, 1, 64));
        region.switch(false);
        region.switch(true);
        region.cond_wait_ends(thread);
        assert_eq!(figures(), (0, 0, 0));
        // As every operation does that follows.
        assert_eq!(region.about_to(thread, 8, Mode::Mutex, CALL, false), Begun::Followed);
        region.acquired(thread);
        region.cond_wait_begins(thread, 64, CALL);
        region.switch(false);
        region.cond_wait_ends(thread);
        assert_eq!(figures(), (0, 0, 0));
        region.switch(true);
        assert_eq!(region.about_to(thread, 8, Mode::Mutex, CALL, false), Begun::Followed);
        region.cond_wait_begins(thread, 64, CALL);
        region.cond_wait_ends(thread);
        assert_eq!(figures(), (1, 0, 0));
    }

    /// Releases in a row are one entry of the ring, until a thread has had the lock that waited for it.
    #[test]
    fn releases_in_a_row_are_one() {
        let (region, place) = started();
        let thread = &region.threads[place];
        let lock = &region.locks[region.record(Kind::Mutex, 64, 0, 0) as usize];
        region.watchers(64).store(1, Relaxed);
        let pass = |call: Call| {
            assert!(Region::passes(thread, 64, CALL) && !region.forgets(thread, 64));
            let repeats = region.repeats(thread, 64, call);
            if !repeats {
                let releasing = region.before_release(thread, 64, || 0).unwrap();
                region.after_release(thread, &releasing, call);
            }
            (repeats, lock.releases.load(Relaxed), thread.held_count.load(Relaxed))
        };
        assert_eq!(pass(CALL), (false, 1, 0));
        let at = lock.ring[0].at.load(Relaxed);
        assert_eq!([pass(CALL), pass(CALL)], [(true, 1, 0); 2]);
        assert!(lock.ring[0].at.load(Relaxed) > at);
        lock.hand_overs.store(1, Relaxed);
        assert_eq!([pass(CALL), pass(CALL)], [(false, 2, 0), (true, 2, 0)]);
        // From elsewhere; and after a release by another thread.
        assert_eq!(pass(Call { caller: 2, frame: 0 }), (false, 3, 0));
        lock.releases.store(4, Relaxed);
        assert_eq!(pass(Call { caller: 2, frame: 0 }), (false, 5, 0));
    }

    #[test]
    fn a_release_that_somebody_waits_for_is_noted() {
        let (region, place) = started();
        let thread = &region.threads[place];
        assert!(Region::passes(thread, 64, CALL));
        region.watchers(64).store(1, Relaxed);
        assert!(!region.forgets(thread, 64));
        // Nobody noted that lock yet, so that there is no ring for it.
        release(&region, thread, 64);
        assert_eq!(thread.held_count.load(Relaxed), 0);
    }

    #[test]
    fn nothing_passes_when_the_list_is_full_or_out_of_date() {
        let (region, place) = started();
        let thread = &region.threads[place];
        for number in 0..HELD {
            assert!(Region::passes(thread, 64 + 64 * number, CALL));
        }
        assert!(!Region::passes(thread, 8, CALL));
        region.switch(false);
        region.switch(true);
        thread.held_count.store(0, Relaxed);
        assert!(!Region::passes(thread, 8, CALL));
        assert_eq!(region.about_to(thread, 8, Mode::Mutex, CALL, false), Begun::Followed);
    }
}
