//! Releases. Like an acquisition, a release takes one of two ways:
//!
//! - There is nothing to note of most: [`forgets`](Region::forgets) takes the lock off the list, before the lock's own
//!   operation. So does [`repeats`](Region::repeats), if the release is the same as the one before, only later.
//! - Others are followed: [`before_release`](Region::before_release) copies what is known of the acquisition, since the place on
//!   the list is used again, and writes the time of the release to the lock's ring if somebody waits.
//!   [`after_release`](Region::after_release) does all else, when the lock is another thread's.
//!
//! Whether somebody waits, the counter of watchers says. It may change right behind the look at it: then a release is not
//! noted, or noted for nobody.

use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::sys;

use super::wait::Wait;
use super::{Call, Target};
use crate::format::{Held, Kind, Known, LOCKS_OF_THEIR_OWN, LOG, Lock, Mode, Region, Thread};
use crate::stacks::{Frames, here};

/// A release that is more than removing a note.
#[derive(Debug)]
pub struct Releasing {
    pub(super) target: Target,
    /// The processor's counter of time.
    pub(super) at: u64,
    /// When the thread got the lock.
    pub(super) since: u64,
    waited_since: u64,
    watched_after: u32,
    /// What is known of the wait: see [`Held::wait`].
    pub(super) wait: u8,
    parked_ns: u64,
    caller: u64,
    frame: u64,
    stack: u32,
    lock: u32,
    weight: u32,
    /// The section was not within that of another lock.
    pub(super) is_outer: bool,
    /// The number of the release in the lock's ring, if somebody waits.
    turn: Option<u32>,
}

impl Releasing {
    fn of(held: &Held, target: Target, is_outer: bool) -> Self {
        Self {
            target,
            at: 0,
            since: held.since.load(Relaxed),
            waited_since: held.waited_since.load(Relaxed),
            watched_after: held.watched_after.load(Relaxed),
            wait: held.wait.load(Relaxed),
            parked_ns: u64::from(held.parked_us.load(Relaxed)) * 1000,
            caller: held.caller.load(Relaxed),
            frame: held.frame.load(Relaxed),
            stack: held.stack.load(Relaxed),
            lock: held.lock.load(Relaxed),
            weight: u32::from(held.weight.load(Relaxed)),
            is_outer,
            turn: None,
        }
    }

    /// The wait of which there is more to do than was done when it ended, if there was one. `lock` is the lock's record.
    fn wait(&self, lock: u32) -> Option<Wait> {
        (self.waited_since != 0).then(|| Wait {
            mode: self.target.mode,
            lock,
            stack: self.stack,
            since: self.waited_since,
            until: self.since,
            watched_from: self.waited_since + u64::from(self.watched_after),
            is: self.wait,
            parked_ns: self.parked_ns,
            is_outer: self.is_outer,
        })
    }
}

/// Releases that are not followed.
impl Region {
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

    /// The thread is about to release a mutex of glibc's that others wait for. `true`: it did so before, from the same place,
    /// and nobody else did since, nor got the lock after a wait, so that this is the same entry of the lock's ring, only later;
    /// and it is off the list.
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
        if !known.is_latest(lock, address as u64) {
            return false;
        }
        let (caller, frame) = (call.caller as u64, call.frame as u64);
        let is_one_function = u32::from(held.frame.load(Relaxed) == frame);
        if known.is_one_function.load(Relaxed) != is_one_function
            || !self.is_at(known.released.load(Relaxed), caller, here(), frame)
        {
            return false;
        }
        lock.release_repeats(known.turn.load(Relaxed));
        thread.held_count.store(top as u32, Relaxed);
        true
    }
}

impl Known {
    /// Whether the thread's latest release is the lock's, too, and nobody has had the lock after a wait since.
    #[inline]
    fn is_latest(&self, lock: &Lock, address: u64) -> bool {
        lock.releases.load(Relaxed) == self.turn.load(Relaxed).wrapping_add(1)
            && lock.hand_overs.load(Relaxed) == self.hand_overs.load(Relaxed)
            && lock.is_of(Kind::Mutex, address)
            // Of a lock of ours the number of releases tells how long a waiter was behind others.
            && lock.server.load(Relaxed) == 0
    }
}

/// Before the lock's own operation.
impl Region {
    /// The thread is about to release a lock. `None`: there is no more to do.
    #[inline(always)]
    pub fn before_release(
        &self,
        thread: &Thread,
        address: usize,
        server: impl FnOnce() -> u32,
    ) -> Option<Releasing> {
        let list = thread.list();
        let is_watched = self.watchers(address as u64).load(Relaxed) != 0;
        // Most release what they acquired last.
        if let Some((held, below)) = list.split_last()
            && held.address() == address as u64
            && held.since.load(Relaxed) == 0
            && held.again.load(Relaxed) == 0
            && !is_watched
        {
            thread.held_count.store(below.len() as u32, Relaxed);
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
        let place = thread.place_of(address as u64)?;
        let held = &thread.held[place];
        let again = held.again.load(Relaxed);
        if again != 0 {
            held.again.store(again - 1, Relaxed);
            return None;
        }
        if held.since.load(Relaxed) == 0 && !is_watched {
            thread.remove(place);
            return None;
        }
        let target = Target { address, mode: held.mode(), server };
        let mut releasing = Releasing::of(held, target, place == 0);
        thread.remove(place);
        if is_watched {
            self.take_turn(thread, &mut releasing);
        }
        if releasing.turn.is_none() {
            releasing.at = sys::ticks();
        }
        Some(releasing)
    }

    /// Notes the release in the ring of the lock, if that has a record, and with the thread that this is its latest.
    fn take_turn(&self, thread: &Thread, releasing: &mut Releasing) {
        let Target { address, mode, .. } = releasing.target;
        let known = &thread.known;
        if releasing.lock == 0 {
            releasing.lock = self.look_up_again(known, mode.kind(), address as u64);
        }
        if releasing.lock == 0 {
            return;
        }
        let lock = &self.locks[releasing.lock as usize];
        let is_alone = mode != Mode::Read && (releasing.lock as usize) < LOCKS_OF_THEIR_OWN;
        let (turn, at) = lock.begin_release(thread.tid.load(Relaxed), is_alone);
        releasing.turn = Some(turn);
        releasing.at = at;
        known.address.store(address as u64, Relaxed);
        known.lock.store(releasing.lock, Relaxed);
        known.turn.store(turn, Relaxed);
        known.hand_overs.store(lock.hand_overs.load(Relaxed), Relaxed);
    }
}

/// After the lock's own operation.
impl Region {
    /// The thread has released a lock.
    #[cold]
    pub fn after_release(&self, thread: &Thread, releasing: &Releasing, call: Call) {
        thread.busy.store(1, Relaxed);
        // Room for the next wait, which takes two entries at most, and ends in a section, where nobody has time for this.
        if thread.logged.load(Relaxed) as usize > LOG - 2 {
            self.settle(thread);
        }
        if let Some(turn) = releasing.turn {
            let stacks = self.stacks_of_release(thread, releasing, call);
            self.locks[releasing.lock as usize].complete_release(turn, stacks);
        }
        if releasing.weight != 0 || releasing.waited_since != 0 {
            self.note_acquisition(thread, releasing);
        }
        thread.busy.store(0, Relaxed);
    }

    /// Adds an acquisition that is a sample, or waited, to the figures of the lock.
    fn note_acquisition(&self, thread: &Thread, releasing: &Releasing) {
        let Target { address, mode, server } = releasing.target;
        let weight = u64::from(releasing.weight);
        let index = match releasing.lock {
            0 => self.record(mode.kind(), address as u64, releasing.caller, server),
            index => index,
        };
        let wait = releasing.wait(index);
        if let Some(wait) = wait {
            self.waited(thread, wait);
        }
        if index != 0 {
            self.note_section(thread, releasing, index, weight);
        } else if wait.is_none() {
            self.header.dropped.acquisitions.fetch_add(weight, Relaxed);
        }
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
}
