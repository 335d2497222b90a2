//! Linux's mutex in user space: a word that the first thread to come takes, one waiter at a time that spins on it,
//! and a list of sleepers, the first of which asks for the lock when it was woken in vain.
//!
//! Ingo Molnar, Davidlohr Bueso and others, "Generic mutex subsystem", Linux (`Documentation/locking/mutex-design.rst`,
//! `kernel/locking/mutex.c`, `osq_lock.c`), as of version 6. Fast path: a CAS of the word. Mid path: waiters queue
//! (OSQ) for the right to spin on the word. Slow path: a FIFO list of sleepers under a guard (`wait_lock`); a release
//! wakes the first, which competes with newcomers once, then sets HANDOFF, and the next release hands it the lock.
//!
//! Deviations:
//! - Whether the owner runs is not known in user space: spinners spin for a context-switch round trip, and for up to twenty
//!   while there are CPUs to spare. Waiters may give up.
//! - The word has no owner, as any thread may release; a thread that is handed the lock is told so in its own word, in
//!   place of PICKUP.
//! - The flags, the guard and the list are one word, so a release is one step, after which the lock may be gone.
//! - The spinners' queue is MCS whose waiters give up after their spinning, and are skipped, where they unlink
//!   themselves in OSQ.
//!
//! Properties: no fairness up to the first vain wake-up, then FIFO; 16 bytes a lock; 64 for each waiter, none for the
//! holder. Waiting: spin, then park. `try_lock` succeeds on a free lock, even if other threads are on the way to it.
//!
//! # State
//!
//! ```text
//! word:   last sleeper (0 = none) │ GUARD: the list is being changed │ HANDOFF │ LOCKED
//! list:   see [`sleepers`]. Their words: PARKED → WAITING (to try) → PARKED (HANDOFF) → GRANTED
//! ```
//!
//! # Invariants
//!
//! - I1: the thread that sets LOCKED holds the lock, until it clears it or grants it to a sleeper, which leaves LOCKED set.
//! - I2: only the thread that set GUARD accesses the list. While GUARD and LOCKED are set LOCKED stays: a release that finds GUARD
//!   waits for it.
//! - I3: a thread joins the list with LOCKED set. If LOCKED is clear and the list is not empty, the first has been told
//!   to try, and does, or takes the lock when it gives up: no thread that was told to try leaves a free lock.
//! - I4: HANDOFF is set together with LOCKED, by the first of the list, and a release that finds it does not clear
//!   LOCKED. So the sleep that follows ends by a grant.
//! - I5: a node is recycled by its owner, when it is out of the list: taken out by its owner under the guard, or by
//!   the thread that granted.
//!
//! # Ordering
//!
//! - E1: the step that clears LOCKED (Release) → the CAS that sets it (Acquire), by way of CASes: the critical section.
//! - E2: the guard's (E1 in [`sleepers`]): the list.
//! - E3: the swap to `GRANTED` (Release) → the owner's load of its word (Acquire): the critical section, and accesses
//!   to the node.
//! - E4: the edges of MCS: the spinners' nodes.

pub(crate) mod sleepers;

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Deadline, Native, Platform, TimedOut};

use crate::api::RawLock;
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{GRANTED, PARKED, WAITING, Wait};
use sleepers::{Queue, Spinners, append, has, last, linger, next, unlink, wake};

/// What is known of Linux's mutex.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "linux-mutex",
    family: Family::Blocking,
    order: Order::BargingUntilHandoff,
    order_note: "a sleeper that was woken in vain is handed the lock next",
    bytes: 16,
    bytes_per_waiter: 64,
    timed: Timed::SpinsThenSleeps,
    proofs: &[Proof::of(file!()), Proof::of("blocking/linux/sleepers.rs")],
    citation: Citation {
        key: "linux-mutex",
        text: "Molnar, Bueso and others: Generic mutex subsystem. Linux, kernel/locking/mutex.c",
    },
    summary: "one waiter at a time spins, the others queue for that, then sleep; a sleeper woken in vain is handed the lock",
    properties: "What Linux uses inside, to compare with. Newcomers keep the lock busy while a sleeper wakes up.",
    deviations: "Spinners spin while there are CPUs to spare, wherever the owner is. Flags, guard and list are one word.",
    avoid: "NUMA machines: everybody changes one word. More threads than CPUs, where most of them get to sleep.",
    ..Descriptor::MUTEX
};

const LOCKED: usize = 1;
/// The first sleeper is to be handed the lock.
const HANDOFF: usize = 2;
type Sleeper<P> = sleepers::Sleeper<P, ()>;

/// A value of the lock's word.
type Tagged<P> = *mut Sleeper<P>;

/// Linux's mutex.
#[repr(C)]
pub struct LinuxMutex<P: Platform> {
    /// Written by everybody.
    word: Queue<P, ()>,
    spinners: Spinners<P>,
}

const _: () = assert!(size_of::<LinuxMutex<Native>>() == DESCRIPTOR.bytes);

impl<P: Platform> core::fmt::Debug for LinuxMutex<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LinuxMutex").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl LinuxMutex<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { word: Queue::unlocked(), spinners: Spinners::unlocked() }
    }
}

impl<P: Platform> LinuxMutex<P> {
    const HELD: Tagged<P> = ptr::without_provenance_mut(LOCKED);

    #[inline(always)]
    fn acquire_fast(&self) -> bool {
        // ORDER: Acquire is E1. Failure tells nothing.
        self.word.compare_exchange(ptr::null_mut(), Self::HELD, Acquire, Relaxed).is_ok()
    }

    /// Takes the lock if it is free.
    fn try_acquire(&self) -> bool {
        let mut seen = self.word.load(Relaxed);
        while !has(seen, LOCKED) {
            let taken = seen.map_addr(|addr| addr | LOCKED);
            // ORDER: Acquire is E1. Failure tells only what to try next.
            match self.word.compare_exchange(seen, taken, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// As [`LinuxMutex::try_acquire`]; a lock that is held will be handed to the first sleeper, which calls this.
    fn take_or_claim(&self) -> bool {
        while !self.try_acquire() {
            let seen = self.word.load(Relaxed);
            let claimed = seen.map_addr(|addr| addr | HANDOFF);
            if has(seen, LOCKED)
                // ORDER: Relaxed: a flag says all.
                && (claimed == seen || self.word.compare_exchange(seen, claimed, Relaxed, Relaxed).is_ok())
            {
                return false;
            }
        }
        true
    }

    fn spin_then_sleep(&self, wait: &Wait) -> bool {
        self.spinners.spin(wait, || self.try_acquire().then_some(true)) || self.sleep(wait.deadline)
    }

    /// Sleeps in the list. Whether the lock was acquired before the deadline.
    fn sleep(&self, deadline: Option<Deadline>) -> bool {
        let end = self.word.guard();
        if self.try_acquire() {
            self.unguard(end, 0);
            return true;
        }
        let node = P::alloc_node::<Sleeper<P>>();
        // SAFETY: I2; and the node is ours.
        unsafe { append(end, node.as_ptr()) };
        // SAFETY: I5: ours, until it is freed below.
        let sleeper = unsafe { node.as_ref() };
        self.unguard(node.as_ptr(), 0); // I2, I3: LOCKED is still set.
        let acquired = self.wait_in_list(node, sleeper, deadline);
        // SAFETY: I5: out of the list.
        unsafe { P::free_node(node) };
        acquired
    }

    /// Waits with a node that is in the list, and is not when this returns.
    fn wait_in_list(
        &self,
        node: NonNull<Sleeper<P>>,
        sleeper: &Sleeper<P>,
        deadline: Option<Deadline>,
    ) -> bool {
        loop {
            match sleeper.sleep(deadline) {
                Ok(GRANTED) => return true,
                Ok(_) if self.take_or_claim() => {
                    let end = self.word.guard();
                    // SAFETY: I2: in the list.
                    let end = unsafe { unlink(end, node.as_ptr()) };
                    self.unguard(end, 0);
                    return true;
                }
                Ok(_) => {
                    // I4: to be granted. ORDER: Relaxed: what comes of it is read again.
                    linger::<P>(&sleeper.word);
                    let _ = sleeper.word.compare_exchange(WAITING, PARKED, Relaxed, Relaxed);
                }
                Err(TimedOut) => return self.leave(node, sleeper),
            }
        }
    }

    /// Leaves the list at the deadline, unless the lock is free, or was granted. Whether it was acquired.
    fn leave(&self, node: NonNull<Sleeper<P>>, sleeper: &Sleeper<P>) -> bool {
        let end = self.word.guard();
        // Under the guard nobody grants. ORDER: Relaxed: E2 orders that, and the critical section.
        if sleeper.word.load(Relaxed) == GRANTED {
            self.unguard(end, 0);
            return true;
        }
        // I3.
        let acquired = self.try_acquire();
        // SAFETY: I2: not empty, as `node` is in it.
        let first = unsafe { next(end) };
        // I4: the flag is the first one's.
        let clear = if first == node.as_ptr() { HANDOFF } else { 0 };
        // SAFETY: as above.
        let end = unsafe { unlink(end, node.as_ptr()) };
        self.unguard(end, clear);
        acquired
    }

    /// Clears GUARD and the flags in `clear`. `end` is the last of the list now. Releases (E1) if LOCKED is cleared.
    fn unguard(&self, end: Tagged<P>, clear: usize) {
        self.word.unguard(end, |flags| flags & !clear);
    }

    /// Releases a lock that may have sleepers. In one piece for those who fork: if a thread that is granted the lock does, its
    /// child must not find the guard set, whose owner does not exist there.
    #[cold]
    fn unlock_slow(&self) {
        P::in_steps(|| self.hand_on());
    }

    fn hand_on(&self) {
        if !has(self.word.load(Relaxed), LOCKED) {
            // A free lock stays as it is: POSIX leaves unlocking one undefined, glibc makes it harmless.
            return;
        }
        let end = self.word.guard();
        if end.is_null() {
            return self.unguard(end, LOCKED);
        }
        // SAFETY: I2.
        let first = unsafe { next(end) };
        // SAFETY: I5: in the list.
        let word = &unsafe { &*first }.word;
        let address = ptr::from_ref(word);
        let mut seen = self.word.load(Relaxed);
        // I3. ORDER: Relaxed: it is to try, and may fail.
        let mut before = if has(seen, HANDOFF) { WAITING } else { word.swap(WAITING, Relaxed) };
        while !has(seen, HANDOFF) {
            // ORDER: Release is E1 and E2. From here on there may be no lock.
            match self.word.compare_exchange(seen, last(seen), Release, Relaxed) {
                Ok(_) => return wake::<P>(before, address),
                Err(now) => seen = now,
            }
        }
        // SAFETY: I2.
        let rest = unsafe { unlink(end, first) };
        // ORDER: Release is E3. Its release waits for the guard (I2).
        before = before.max(word.swap(GRANTED, Release));
        self.unguard(rest, HANDOFF);
        wake::<P>(before, address);
    }
}

// SAFETY: I1 gives exclusion, and E1 and E3 order the sections.
unsafe impl<P: Platform> RawLock<P> for LinuxMutex<P> {
    type Token = ();

    fn new() -> Self {
        Self { word: Queue::new(), spinners: Spinners::new() }
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        self.acquire_fast().then_some(())
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.try_acquire().then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.spin_then_sleep(wait).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // ORDER: Release is E1.
        if self.word.compare_exchange(Self::HELD, ptr::null_mut(), Release, Relaxed).is_err() {
            self.unlock_slow();
        }
    }

    fn is_locked(&self) -> bool {
        !self.word.load(Relaxed).is_null()
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        let locked = has(self.word.load(Relaxed), LOCKED);
        self.word.store(if locked { Self::HELD } else { ptr::null_mut() }, Relaxed);
        self.spinners.clear();
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::Clock;

    use super::sleepers::line_up;
    use super::*;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    fn word(lock: &LinuxMutex<Native>) -> usize {
        lock.word.load(Relaxed).addr()
    }

    fn said(node: NonNull<Sleeper<Native>>) -> u32 {
        // SAFETY: not freed in these tests.
        unsafe { node.as_ref() }.word.load(Relaxed)
    }

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: null pointers are valid atomic pointers.
        let lock: LinuxMutex<Native> = unsafe { core::mem::zeroed() };
        assert!(
            lock.try_lock().is_some() && lock.try_lock().is_none() && lock.try_lock_until(PAST).is_none()
        );
        assert_eq!(word(&lock), LOCKED);
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(word(&lock), 0);
    }

    #[test]
    fn the_first_is_told_to_try_and_then_handed_the_lock() {
        let lock = LinuxMutex::<Native>::unlocked();
        let () = lock.lock();
        let nodes = [line_up(&lock.word, ()), line_up(&lock.word, ())];
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(nodes.map(said), [WAITING, PARKED]);
        assert!(lock.try_lock().is_some(), "a newcomer is faster");
        assert!(!lock.take_or_claim());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(nodes.map(said), [GRANTED, PARKED]);
        assert_eq!(word(&lock), nodes[1].as_ptr().addr() | LOCKED);
    }

    #[test]
    fn who_claimed_the_lock_and_leaves_takes_the_claim_along() {
        let lock = LinuxMutex::<Native>::unlocked();
        let () = lock.lock();
        let nodes = [line_up(&lock.word, ()), line_up(&lock.word, ()), line_up(&lock.word, ())];
        assert!(!lock.take_or_claim());
        for (leaver, left) in [(1, 2), (0, 2), (2, 2)] {
            // SAFETY: not freed in these tests.
            assert!(!lock.leave(nodes[leaver], unsafe { nodes[leaver].as_ref() }));
            let end = if leaver == 2 { 0 } else { nodes[left].as_ptr().addr() };
            let claim = if leaver == 1 { HANDOFF } else { 0 };
            assert_eq!(word(&lock), end | claim | LOCKED);
        }
    }
}
