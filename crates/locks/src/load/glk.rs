//! GLK: a ticket lock where few wait, MCS where many do, a blocking mutex where there are more threads than CPUs.
//!
//! Jelena Antić, Georgios Chatzopoulos, Rachid Guerraoui and Vasileios Trigonakis, "Locking made easy", Middleware
//! 2016. The periods and thresholds are those of the authors' GLS library. Deviations: no thread in the background
//! watches the load of the system; those who had to wait look at it, at a figure of the kernel that one of them
//! refreshes every few milliseconds, and switch to the mutex at once when there are more runnable threads than CPUs (in
//! GLS two more, and back when there are five fewer, for some time). With the mutex, sleepers count as if they ran,
//! which is what they would do in the other modes, and the queue decides what comes next (in GLS the ticket lock does).
//! In ticket mode the holder counts those behind it at every 128th acquisition; in GLS the one who draws that ticket
//! counts those before it. The mode changes only where the lock of the next mode is free.
//!
//! Properties: FIFO as long as the mode stays, no order with the mutex; 16 bytes a lock, 64 more once somebody was found
//! waiting; with MCS a node for the holder and for each waiter. Waiting: spin; park with the mutex. Timed acquisition is
//! that of the mode. Avoid the lock where contention changes faster than it is measured.
//!
//! # State
//!
//! ```text
//! ticket:  the lock of the mode TICKET
//! word:    address of the state, or null | mode in the lowest bits
//! state:   the locks of the modes MCS and MUTEX, the holder's MCS node, samples
//! ```
//!
//! # Invariants
//!
//! - I1: the holder is the thread that holds the lock of the mode that is in `word`. A thread that acquires the lock of
//!   another mode releases it and goes on to the right one.
//! - I2: only the holder changes `word`, and while it does so it holds the lock of the old mode and that of the new one.
//!   So `word` cannot change to or from a mode whose lock somebody else holds, and a thread that holds the lock of a
//!   mode and finds that mode in `word` is the holder, and stays it.
//! - I3: after its release a holder touches nothing but what the release of the mode's lock touches: the mode changes
//!   at the beginning of a critical section, when the holder has the lock's memory for certain.
//! - I4: the address of the state is set once, by a holder, and stays until the lock is disposed of. In TICKET nobody but
//!   the holder follows it.
//! - I5: the holder's node is in the state exactly while a holder holds the lock in MCS.
//!
//! # Ordering
//!
//! - E1: the store of a new mode (Release) → the load of a thread that finds it without holding the lock (Acquire): the
//!   state's initialisation.
//! - The critical section: by the lock of the mode. A change of the mode is made under the old lock and under the new
//!   one, so the edges of both lead from the one to the other; and who acquires the old one afterwards sees the change.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Deadline, Native, Platform, PoolNode};

use crate::api::RawLock;
use crate::blocking::futex::FutexLock;
use crate::catalogue::{Algorithm, Citation, Family};
use crate::queue::mcs::{Mcs, McsNode};
use crate::queue::node_lock::NodeLock;
use crate::queue::ticket::Ticket;
use crate::wait::{Spin, registered};

/// What is known of GLK.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "glk",
    family: Family::LoadControl,
    fairness: "that of its mode: FIFO, none with the mutex",
    bytes: 16,
    bytes_per_waiter: 64,
    holder_node: true,
    timed: "as its mode: polls, gives up in the queue, or sleeps",
    citation: Citation {
        key: "antic16",
        text: "Antić, Chatzopoulos, Guerraoui, Trigonakis: Locking made easy. Middleware 2016",
    },
    summary: "a ticket lock where few wait, MCS where many do, a blocking mutex where threads outnumber CPUs",
    properties: "Measures its own queue. Nodes are used with MCS only; 64 bytes of state once somebody was found waiting.",
    deviations: "No background thread: waiters look at the system's load, and sleepers count as load; from the mutex \
                 straight to MCS where many wait.",
    avoid: "Contention that changes faster than some thousand acquisitions, or a load that swings around the number of CPUs.",
};

const TICKET: usize = 0;
const MCS: usize = 1;
const MUTEX: usize = 2;
/// The bits of the mode.
const MODES: usize = 3;

/// What a lock needs beside its ticket lock.
#[repr(C, align(8))]
pub struct GlkState<P: Platform> {
    mcs: Mcs<P, Spin>,
    /// I5. Accessed by the holder.
    node: P::Ptr<McsNode<P>>,
    mutex: FutexLock<P>,
    /// Acquisitions other than by ticket; accessed by the holder, as are the others.
    acquisitions: P::U32,
    /// Samples since the last decision, and what counts as such.
    samples: P::U32,
    /// Their sum.
    waiting: P::U32,
}

impl<P: Platform> core::fmt::Debug for GlkState<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GlkState").field("mcs", &self.mcs).field("mutex", &self.mutex).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for GlkState<P> {
    fn new() -> Self {
        Self {
            mcs: Mcs::new(),
            node: P::Ptr::new(ptr::null_mut()),
            mutex: FutexLock::new(),
            acquisitions: P::U32::new(0),
            samples: P::U32::new(0),
            waiting: P::U32::new(0),
        }
    }
}

/// What `word` holds.
type Tagged<P> = *mut GlkState<P>;

fn mode_of<T>(word: *mut T) -> usize {
    word.addr() & MODES
}

/// The GLK lock. If it is eager, every acquisition is a sample, every sample a decision, and one waiter a queue.
#[repr(C)]
pub struct Glk<P: Platform, const EAGER: bool = false> {
    ticket: Ticket<P>,
    /// Where the state is, and the mode. Written by the holder, read by lockers.
    word: P::Ptr<GlkState<P>>,
}

const _: () = assert!(size_of::<Glk<Native>>() == ALGORITHM.bytes);

impl<P: Platform, const EAGER: bool> core::fmt::Debug for Glk<P, EAGER> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mode = mode_of(self.word.load(Relaxed));
        f.debug_struct("Glk").field("ticket", &self.ticket).field("mode", &mode).finish_non_exhaustive()
    }
}

impl Glk<Native> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { ticket: Ticket::unlocked(), word: Native::null() }
    }
}

impl<P: Platform, const EAGER: bool> Glk<P, EAGER> {
    /// Acquisitions from one sample to the next.
    const PERIOD: u32 = if EAGER { 1 } else { 128 };
    /// Samples from one decision to the next.
    const SAMPLES: u32 = if EAGER { 1 } else { 32 };
    /// As many waiters, on average, are better served by MCS. The ticket lock comes back when the holder and its
    /// waiters are less than two.
    const QUEUE: u32 = if EAGER { 1 } else { 3 };
    /// With MCS, one part in so many of an average goes into the next one.
    const KEPT: u32 = 8;

    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// The mode and the state, for a thread that may follow the latter.
    fn seen(&self) -> Tagged<P> {
        self.word.load(Acquire) // ORDER: E1.
    }

    /// The state in a word that has one: that of another mode than TICKET, or a holder's.
    fn state(&self, word: Tagged<P>) -> Option<&GlkState<P>> {
        // SAFETY: I4: null or the state, and initialised: found by `seen` (E1), or set by this holder or an earlier one.
        unsafe { word.map_addr(|address| address & !MODES).as_ref() }
    }

    /// The state in a word whose mode is not TICKET.
    fn busy_state(&self, word: Tagged<P>) -> &GlkState<P> {
        match self.state(word) {
            Some(state) => state,
            None => unreachable!("modes with a state have one"),
        }
    }

    /// Acquires in ticket mode, if the lock is free.
    #[inline(always)]
    fn is_taken_at_once(&self) -> bool {
        // ORDER: Relaxed: TICKET needs no state; and I2: the second load, by who holds the ticket lock, is right.
        if mode_of(self.word.load(Relaxed)) != TICKET || !self.ticket.try_lock_for(self.address()) {
            return false;
        }
        let word = self.word.load(Relaxed);
        if mode_of(word) != TICKET {
            // SAFETY: acquired above.
            unsafe { self.ticket.unlock(()) };
            return false;
        }
        if self.ticket.served().is_multiple_of(Self::PERIOD) {
            self.sample(word);
        }
        true
    }

    /// Acquires the lock of the word's mode; the node if it is MCS, else null.
    fn acquire(&self, word: Tagged<P>, deadline: Option<Deadline>) -> Option<*mut McsNode<P>> {
        let address = self.address();
        let acquired = match mode_of(word) {
            TICKET => self.ticket.lock_for(address, deadline),
            MCS => {
                return self.busy_state(word).mcs.acquire_for(address, deadline).map(NonNull::as_ptr);
            }
            _ => self.busy_state(word).mutex.acquire_for(address, deadline),
        };
        acquired.then_some(ptr::null_mut())
    }

    /// Acquires the lock of `mode` if it is free. Otherwise as [`Glk::acquire`].
    fn try_acquire(&self, word: Tagged<P>, mode: usize) -> Option<*mut McsNode<P>> {
        let acquired = match mode {
            TICKET => self.ticket.try_lock_for(self.address()),
            MCS => return self.busy_state(word).mcs.try_lock().map(NonNull::as_ptr),
            _ => self.busy_state(word).mutex.try_lock().is_some(),
        };
        acquired.then_some(ptr::null_mut())
    }

    /// Releases the lock of the word's mode.
    ///
    /// # Safety
    ///
    /// It is the caller's, with this node.
    unsafe fn release(&self, word: Tagged<P>, node: *mut McsNode<P>) {
        match (mode_of(word), NonNull::new(node)) {
            // SAFETY: the caller's contract.
            (TICKET, _) => unsafe { self.ticket.unlock(()) },
            // SAFETY: as above.
            (MCS, Some(node)) => unsafe { self.busy_state(word).mcs.unlock(node) },
            (MCS, None) => unreachable!("a holder in MCS has a node"),
            // SAFETY: as above.
            _ => unsafe { self.busy_state(word).mutex.unlock(()) },
        }
    }

    /// Whether the caller, who has acquired the lock of the word's mode, is the holder (I1); if not, it has released it.
    fn settle(&self, word: Tagged<P>, node: *mut McsNode<P>) -> bool {
        // ORDER: Relaxed: I2.
        if mode_of(self.word.load(Relaxed)) != mode_of(word) {
            // SAFETY: acquired by the caller.
            unsafe { self.release(word, node) };
            return false;
        }
        if mode_of(word) == MCS {
            self.busy_state(word).node.store(node, Relaxed); // I5.
        }
        true
    }

    #[cold]
    fn lock_slow(&self, deadline: Option<Deadline>) -> bool {
        let acquired = registered::<P, _>(self.address(), || {
            loop {
                let word = self.seen();
                let node = self.acquire(word, deadline)?;
                if self.settle(word, node) {
                    return Some(());
                }
            }
        });
        if acquired.is_some() {
            self.take_stock(true);
        }
        acquired.is_some()
    }

    /// What the holder does at the beginning of its section, for the modes of later ones.
    fn take_stock(&self, waited: bool) {
        let word = self.word.load(Relaxed); // The holder's.
        let mode = mode_of(word);
        let number = if mode == TICKET {
            self.ticket.served()
        } else {
            let acquisitions = &self.busy_state(word).acquisitions;
            let number = acquisitions.load(Relaxed).wrapping_add(1);
            acquisitions.store(number, Relaxed);
            number
        };
        if waited && mode != MUTEX && P::runnable() > P::parallelism() {
            self.change(word, MUTEX);
        } else if number.is_multiple_of(Self::PERIOD) {
            self.sample(word);
        }
    }

    /// Measures the queue behind the holder, who is the caller, and decides now and then.
    #[cold]
    fn sample(&self, word: Tagged<P>) {
        let mode = mode_of(word);
        let waiting = match mode {
            TICKET => self.ticket.line(),
            _ => P::waiters_of(self.address()) as u32,
        };
        if waiting == 0 && self.state(word).is_none() {
            return;
        }
        let (word, state) = self.with_state(word);
        let samples = state.samples.load(Relaxed) + 1;
        let sum = state.waiting.load(Relaxed).saturating_add(waiting);
        if samples < Self::SAMPLES {
            state.samples.store(samples, Relaxed);
            state.waiting.store(sum, Relaxed);
            return;
        }
        let asleep = if mode == MUTEX { waiting as usize } else { 0 };
        let is_overloaded = P::runnable() + asleep > P::parallelism();
        let better = Self::better(mode, sum, is_overloaded);
        let kept = if better == MCS { (Self::SAMPLES / Self::KEPT, sum / Self::KEPT) } else { (0, 0) };
        state.samples.store(kept.0, Relaxed);
        state.waiting.store(kept.1, Relaxed);
        self.change(word, better);
    }

    /// The mode for queues of this sum.
    fn better(mode: usize, sum: u32, is_overloaded: bool) -> usize {
        if sum > 0 && is_overloaded {
            MUTEX
        } else if sum >= Self::QUEUE * Self::SAMPLES {
            MCS
        } else if mode == MUTEX || sum < Self::SAMPLES {
            TICKET
        } else {
            mode
        }
    }

    /// The state, made if there is none, and the word with it.
    fn with_state(&self, word: Tagged<P>) -> (Tagged<P>, &GlkState<P>) {
        if let Some(state) = self.state(word) {
            return (word, state);
        }
        let fresh = P::alloc_node::<GlkState<P>>().as_ptr();
        // ORDER: Relaxed: later holders only, until the mode changes (I4). Without a state the mode is TICKET, which is 0.
        self.word.store(fresh, Relaxed);
        // SAFETY: made above, and there until the lock is disposed of (I4).
        (fresh, unsafe { &*fresh })
    }

    /// Changes the mode, if the lock of the new one is free.
    #[cold]
    fn change(&self, word: Tagged<P>, mode: usize) {
        if mode == mode_of(word) {
            return;
        }
        let (word, state) = self.with_state(word);
        // A thread may hold it that comes late, and is about to find that the mode is another one.
        let Some(node) = self.try_acquire(word, mode) else { return };
        let before = state.node.load(Relaxed);
        state.node.store(node, Relaxed); // I5: null for the other modes.
        // ORDER: Release is E1.
        self.word.store(word.map_addr(|address| address & !MODES | mode), Release);
        // SAFETY: the holder's, with its node.
        unsafe { self.release(word, before) };
    }

    #[cold]
    unsafe fn unlock_slow(&self, word: Tagged<P>) {
        let state = self.busy_state(word);
        let node = state.node.load(Relaxed);
        state.node.store(ptr::null_mut(), Relaxed); // I5.
        // SAFETY: the holder's.
        unsafe { self.release(word, node) };
    }
}

impl<P: Platform, const EAGER: bool> Drop for Glk<P, EAGER> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

// SAFETY: I1 and I2 give exclusion, and the locks of the modes order the sections.
unsafe impl<P: Platform, const EAGER: bool> RawLock<P> for Glk<P, EAGER> {
    type Token = ();

    fn new() -> Self {
        Self { ticket: Ticket::new(), word: P::Ptr::new(ptr::null_mut()) }
    }

    #[inline(always)]
    fn lock(&self) {
        if !self.is_taken_at_once() {
            self.lock_slow(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        loop {
            let word = self.seen();
            let node = self.try_acquire(word, mode_of(word))?;
            if self.settle(word, node) {
                self.take_stock(false);
                return Some(());
            }
        }
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<()> {
        (self.is_taken_at_once() || self.lock_slow(Some(deadline))).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        let word = self.word.load(Relaxed); // I2: the holder's.
        if mode_of(word) == TICKET {
            // SAFETY: I1.
            unsafe { self.ticket.unlock(()) };
        } else {
            // SAFETY: as above.
            unsafe { self.unlock_slow(word) };
        }
    }

    fn is_locked(&self) -> bool {
        let mut word = self.seen();
        loop {
            let is_locked = match mode_of(word) {
                TICKET => self.ticket.is_locked(),
                MCS => self.busy_state(word).mcs.is_locked(),
                _ => self.busy_state(word).mutex.is_locked(),
            };
            let now = self.seen();
            if is_locked || now == word {
                return is_locked;
            }
            word = now; // A holder was there, and may be still.
        }
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        let word = self.word.load(Relaxed);
        let mode = mode_of(word);
        // The locks of other modes are held by ghosts only, who came late.
        if mode == TICKET {
            // SAFETY: the caller's contract.
            unsafe { self.ticket.forget_waiters(Some(())) };
        } else {
            self.ticket.reset();
        }
        let Some(state) = self.state(word) else { return };
        if mode == MCS {
            let node = NonNull::new(state.node.load(Relaxed));
            // SAFETY: as above; I5: the node is the holder's.
            unsafe { state.mcs.forget_waiters(node) };
        } else {
            state.mcs.clear();
        }
        if mode == MUTEX {
            // SAFETY: as above.
            unsafe { state.mutex.forget_waiters(Some(())) };
        } else {
            state.mutex.reset();
        }
    }

    unsafe fn dispose(&self) {
        let word = self.word.swap(ptr::null_mut(), Relaxed);
        if let Some(state) = NonNull::new(word.map_addr(|address| address & !MODES)) {
            // SAFETY: unlinked, and the caller's contract: nobody uses the lock.
            unsafe { P::free_node(state) };
        }
    }
}

#[cfg(test)]
mod tests;
