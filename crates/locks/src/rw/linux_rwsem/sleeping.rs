//! Waiting. State, invariants (I) and ordering edges (E) are those of [`linux_rwsem`](super).

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use lockwork_platform::{AtomicCell, AtomicInt, Clock, DataCell, Deadline, FutexCell, Platform, TimedOut};

use super::{
    FULL, HANDOFF, LOCKED, LinuxRwsem, PATIENCE_NS, READER, Sleeper, WAITERS, WATCHED, WATCHING, Wish,
    is_held, is_read, is_shared,
};
use crate::blocking::linux::sleepers::{append, next, unlink};
use crate::wait::{Awake, GRANTED, PARKED, WAITING, Wait, expired, poll_within};

impl<P: Platform> LinuxRwsem<P> {
    #[cold]
    pub(super) fn read_slow(&self, deadline: Option<Deadline>, again: bool) -> bool {
        // From before it is in the list: a child of `fork` must be able to find every ghost.
        Wait::run::<P, _>(self.address(), deadline, |_| {
            let admits = |count| if again { is_shared(count) } else { count & (LOCKED | WAITERS) == 0 };
            let end = self.guard();
            loop {
                let entered = self.enter(|count| admits(count) && count & FULL == 0);
                let seen = self.count.load(Relaxed);
                // I2: what keeps it out stays so, unless there are too many readers: then it must not sleep (I3).
                if entered || admits(seen) && seen & FULL != 0 {
                    self.unguard(end, |flags| flags);
                    return entered;
                }
                if !admits(seen) {
                    break;
                }
            }
            self.sleep(end, Wish { reads: true, ..Wish::default() }, deadline)
        })
    }

    #[cold]
    pub(super) fn write_slow(&self, deadline: Option<Deadline>) -> bool {
        // As above.
        Wait::run::<P, _>(self.address(), deadline, |wait| {
            let mut readers_since = None;
            if self.spinners.spin(wait, || self.take_in_time(&mut readers_since)) {
                return true;
            }
            let claims_at = P::now(Clock::Monotonic) + PATIENCE_NS;
            let end = self.guard();
            if self.take(false) {
                self.unguard(end, |flags| flags);
                return true;
            }
            self.sleep(end, Wish { claims_at, ..Wish::default() }, deadline)
        })
    }

    /// Takes the lock for writing if it is free: whether it did, or is to stop trying, as Linux's writers do when
    /// readers have it for long. `since` is when it last began to find readers.
    fn take_in_time(&self, since: &mut Option<u64>) -> Option<bool> {
        if self.take(false) {
            return Some(true);
        }
        let seen = self.count.load(Relaxed);
        if !is_read(seen) {
            *since = None;
            return None;
        }
        let readers = u64::from(seen / READER).min(30);
        let now = P::now(Clock::Monotonic);
        // 10 us, and half of one for each reader.
        (now.saturating_sub(*since.get_or_insert(now)) >= (20 + readers) * 500).then_some(false)
    }

    /// Sleeps behind `end`, with the guard set, which it clears. Whether the lock was acquired before the deadline.
    fn sleep(&self, end: *mut Sleeper<P>, wish: Wish, deadline: Option<Deadline>) -> bool {
        let node = P::alloc_node::<Sleeper<P>>();
        // SAFETY: I5: ours, until it is freed below.
        let sleeper = unsafe { node.as_ref() };
        // SAFETY: nobody else knows of it yet.
        unsafe { sleeper.wish.set(wish) };
        // SAFETY: I2; and the node is ours.
        unsafe { append(end, node.as_ptr()) };
        if end.is_null() && !wish.reads {
            self.stay_first(node.as_ptr(), sleeper, 0);
        } else {
            self.unguard(node.as_ptr(), |flags| flags); // I3.
        }
        let acquired = loop {
            match self.sleep_on(sleeper, deadline) {
                Ok(GRANTED) => break true,
                Ok(_) if self.retry(node, sleeper) => break true,
                Ok(_) => {}
                Err(TimedOut) => break self.leave(node, sleeper),
            }
        };
        // SAFETY: I5: out of the list.
        unsafe { P::free_node(node) };
        acquired
    }

    /// Clears the guard, for a writer that is the first of the list that ends with `end`, and is to sleep on: on the count
    /// unless a writer has the lock (I6). Sets the flags in `claim`, too.
    pub(super) fn stay_first(&self, end: *mut Sleeper<P>, sleeper: &Sleeper<P>, claim: u32) {
        // I2: that a writer has it stays so; one that comes now tells it when it leaves.
        let (word, watched) =
            if is_read(self.count.load(Relaxed)) { (WATCHING, WATCHED) } else { (PARKED, 0) };
        // Before it can be told again. ORDER: Relaxed: E2.
        sleeper.word.store(word, Relaxed);
        self.unguard(end, |flags| flags & !WATCHED | watched | claim);
    }

    /// Sleeps until it is told to try, or may as well, or is granted the lock. Returns what it was.
    fn sleep_on(&self, sleeper: &Sleeper<P>, deadline: Option<Deadline>) -> Result<u32, TimedOut> {
        let mut awake = Awake::default();
        loop {
            // ORDER: Acquire is E3.
            match sleeper.word.load(Acquire) {
                PARKED => sleeper.word.wait(PARKED, deadline)?,
                WATCHING => {
                    let seen = self.count.load(Relaxed);
                    if !is_held(seen) {
                        return Ok(WAITING);
                    }
                    self.count.wait(seen, deadline)?; // I7.
                    // A count that changes all the time ends every sleep at once.
                    if deadline.is_some_and(expired::<P>) && sleeper.word.load(Relaxed) == WATCHING {
                        return Err(TimedOut);
                    }
                    if is_held(self.count.load(Relaxed)) {
                        awake.again::<P>();
                    }
                }
                said => return Ok(said),
            }
        }
    }

    /// Tries to take the lock, as a writer that is the first of the list. If that is in vain it sleeps on.
    pub(super) fn retry(&self, node: NonNull<Sleeper<P>>, sleeper: &Sleeper<P>) -> bool {
        let end = self.guard();
        if self.take(true) {
            // SAFETY: I2: in the list.
            let end = unsafe { unlink(end, node.as_ptr()) };
            self.unguard(end, |flags| flags & !(HANDOFF | WATCHED));
            return true;
        }
        // SAFETY: I2.
        let claims = P::now(Clock::Monotonic) >= unsafe { sleeper.wish.get() }.claims_at;
        self.stay_first(end, sleeper, if claims { HANDOFF } else { 0 });
        if claims {
            // A writer that watches looks at the count. ORDER: Relaxed: looked at again.
            let told = || (sleeper.word.load(Relaxed) != PARKED).then_some(());
            let _ = poll_within::<P, _>(P::spin_budget(), told);
        }
        false
    }

    /// Leaves the list at the deadline, unless it was chosen, or is a writer and the lock free. Whether it was acquired.
    pub(super) fn leave(&self, node: NonNull<Sleeper<P>>, sleeper: &Sleeper<P>) -> bool {
        let end = self.guard();
        // SAFETY: I2.
        let wish = unsafe { sleeper.wish.get() };
        if wish.is_chosen {
            self.unguard(end, |flags| flags);
            // I5: the grant is certain.
            return self.sleep_on(sleeper, None) == Ok(GRANTED);
        }
        // SAFETY: I2: not empty, as `node` is in it.
        let is_first = unsafe { next(end) } == node.as_ptr();
        let acquired = !wish.reads && self.take(is_first);
        // SAFETY: I2: in the list.
        let end = unsafe { unlink(end, node.as_ptr()) };
        if !is_first {
            self.unguard(end, |flags| flags);
        } else if acquired || !self.admits(Self::readers_first(end)) {
            // I2: LOCKED stays. I4, I7: the flags are the first one's.
            self.unguard(end, |flags| flags & !(HANDOFF | WATCHED));
        } else {
            // Readers that slept behind the writer come in beside those that are there (I3).
            Self::let_in(end, |rest| self.unguard(rest, |flags| flags & !(HANDOFF | WATCHED)));
        }
        acquired
    }

    /// Adds so many readers, with the guard set, unless a writer has the lock: whether none has.
    fn admits(&self, readers: u32) -> bool {
        // Beside a writer it means nothing (I1). ORDER: Relaxed: E2, since no writer has released after that (I2).
        is_read(self.count.fetch_add(readers * READER, Relaxed))
    }
}
