//! GLK: a ticket lock where few wait, MCS where many do, a blocking mutex where there are more threads than CPUs.
//!
//! Jelena Antić, Georgios Chatzopoulos, Rachid Guerraoui and Vasileios Trigonakis, "Locking made easy", Middleware
//! 2016. The periods and thresholds are those of the authors' GLS library. Deviations: no thread in the background
//! watches the load of the system; those who had to wait look at it, at a figure of the kernel that one of them
//! refreshes every few milliseconds, and switch to the mutex at once when there are more runnable threads than CPUs (in
//! GLS two more, and back when there are five fewer, for some time). Those who stand far back in the ticket lock's line,
//! on a machine whose CPUs are all busy, sleep for a while: otherwise thousands that yield stand between the holder and its
//! successor. With the mutex, sleepers count as if they ran,
//! which is what they would do in the other modes, and the queue decides what comes next (in GLS the ticket lock does).
//! In ticket mode the holder counts those behind it at every 128th acquisition; in GLS the one who draws that ticket
//! counts those before it. The mode changes only where the lock of the next mode is free.
//!
//! Properties: FIFO as long as the mode stays, no order with the mutex; 16 bytes a lock, 64 more once somebody was found
//! waiting, which may go to another lock while this one is idle: it then begins anew; with MCS a node for the holder and for each waiter. Waiting: spin; park with the mutex. Timed acquisition is
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
//! - I4: the state is set by a holder in TICKET, where nobody else follows it. A thread that looks into it is counted as its user, or holds
//!   one of its locks: so it stays the lock's meanwhile (I2 and I3 of `state::claim`).
//! - I5: the holder's node is in the state exactly while a holder holds the lock in MCS.
//! - I6: where `word` has a mode with a state, and that is not the lock's any more, the lock is free, and its mode TICKET. Who
//!   finds that acquires the ticket lock first, and says so in `word` then; while it does that, it keeps the state from becoming the
//!   lock's again.
//!
//! # Ordering
//!
//! - E1: the store of a new mode (Release) → the load of a thread that finds it without holding the lock (Acquire): the
//!   state's initialisation.
//! - E2: those of the state (`state::claim`): E1 and E2 there, and E5, from the sections in the mode of a state that was taken back
//!   to the one after that.
//! - The critical section: by the lock of the mode. A change of the mode is made under the old lock and under the new
//!   one, so the edges of both lead from the one to the other; and a thread that acquires the old one afterwards sees the change.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Clock, Deadline, FutexCell, Native, Platform, PoolNode, PooledState};

use crate::api::{RawLock, Token};
use crate::blocking::futex::FutexLock;
use crate::describe::{Citation, Descriptor, Family, Keeps, Order, Proof, Timed};
use crate::queue::mcs::{Mcs, McsNode};
use crate::queue::ticket::{Serving, Ticket, TicketWait};
use crate::state::{Claimed, State, give_back_from, take_back, take_free, try_take_for};
use crate::wait::{Patience, Spin, Wait};

/// What is known of GLK.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "glk",
    family: Family::LoadControl,
    order: Order::OfMode,
    order_note: "FIFO, none with the mutex",
    bytes: 16,
    bytes_per_waiter: 64,
    holder_node: true,
    keeps: Keeps::Block,
    timed: Timed::OfMode("polls, gives up in the queue, or sleeps"),
    proofs: &[Proof { source: file!(), by: &["glk, adapting at once", "glk, adapting at once, overloaded"] }],
    citation: Citation {
        key: "antic16",
        text: "Antić, Chatzopoulos, Guerraoui, Trigonakis: Locking made easy. Middleware 2016",
    },
    summary: "a ticket lock where few wait, MCS where many do, a blocking mutex where threads outnumber CPUs",
    properties: "Measures its own queue. Nodes are used with MCS only; 64 bytes of state once somebody was found waiting.",
    deviations: "No background thread: waiters look at the system's load, and sleepers count as load; from the mutex \
                 straight to MCS where many wait; those far back in the ticket lock's line sleep where CPUs are short.",
    avoid: "Contention that changes faster than some thousand acquisitions, or a load that swings around the number of CPUs.",
    ..Descriptor::MUTEX
};

const TICKET: usize = 0;
const MCS: usize = 1;
const MUTEX: usize = 2;
/// The bits of the mode.
const MODES: usize = 3;

/// How those with a ticket wait: looking all the time, but for those whose turn does not come soon once they have been
/// looking for long.
///
/// A ticket cannot be given back, so everybody who drew one before the mode changed has to be served, by number. If all of
/// them yielded meanwhile, each hand-over would wait until the scheduler has been through them: a crowd of 4,000 would take
/// 20 seconds, and five times as many 25 times as long.
#[derive(Debug)]
struct Napping;

impl Napping {
    /// Threads in line for each CPU among which nobody sleeps.
    const AWAKE: usize = 8;
    /// A nap for each thread before this one. Of n threads that sleep so, ln n wake up in such a time, most of them near the front;
    /// a wake-up and a look take some microseconds, and with naps of a twentieth of this they alone kept two CPUs busy.
    const EACH_NS: u64 = 100_000;

    fn nap<P: Platform>(before: u32) {
        let end = P::now(Clock::Monotonic).saturating_add(u64::from(before) * Self::EACH_NS);
        // Nobody else knows the word: only the deadline ends this, or a signal.
        let _ = P::Futex::new(0).wait(0, Some(Deadline { clock: Clock::Monotonic, ns: end }));
    }
}

impl<P: Platform> TicketWait<P> for Napping {
    fn wait(wait: &Wait, serving: &Serving<P>, number: u32) {
        let mut patience = Patience::among::<P>(wait.others);
        loop {
            match serving.before(number) {
                0 => return,
                before if patience.yields() && before as usize > Self::AWAKE * P::parallelism() => {
                    Self::nap::<P>(before);
                }
                _ => _ = patience.pause::<P>(),
            }
        }
    }
}

/// What a lock needs beside its ticket lock.
#[repr(C, align(64))]
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
    /// Whose it is, and how many use it.
    claim: Claimed<P>,
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
            claim: Claimed::new(),
        }
    }
}

impl<P: Platform> PooledState<P> for GlkState<P> {
    fn take_back(&self) -> bool {
        take_back(self)
    }

    fn take_free(&self) -> bool {
        take_free(self)
    }

    /// A holder is not counted.
    fn close(&self) -> Option<usize> {
        let node = self.mcs.try_lock()?;
        if self.mutex.try_lock().is_none() {
            // SAFETY: acquired above.
            unsafe { self.mcs.unlock(node) };
            return None;
        }
        Some(node.into_word())
    }

    fn open(&self, word: usize) {
        // SAFETY: acquired by `close`.
        unsafe { self.mutex.unlock(()) };
        // SAFETY: made of a token by `close`.
        let node = unsafe { Token::from_word(word) };
        // SAFETY: acquired there.
        unsafe { self.mcs.unlock(node) };
    }
}

impl<P: Platform> State<P> for GlkState<P> {
    fn claim(&self) -> &Claimed<P> {
        &self.claim
    }

    fn prepare(&self) {
        for count in [&self.acquisitions, &self.samples, &self.waiting] {
            count.store(0, Relaxed);
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
    ticket: Ticket<P, Napping>,
    /// Where the state is, and the mode. Written by the holder, read by lockers.
    word: P::Ptr<GlkState<P>>,
}

const _: () = assert!(size_of::<Glk<Native>>() == DESCRIPTOR.bytes);

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

    /// What the state knows the lock by.
    fn owner(&self) -> usize {
        ptr::from_ref(&self.word).addr()
    }

    /// The mode and the state, for a thread that may follow the latter.
    fn seen(&self) -> Tagged<P> {
        self.word.load(Acquire) // ORDER: E1.
    }

    /// The state in a word that has one, which may have gone to another lock.
    fn state(&self, word: Tagged<P>) -> Option<&GlkState<P>> {
        // SAFETY: null or a state, which stays one, and initialised: found by `seen` (E1), or set by this holder or an earlier one.
        unsafe { word.map_addr(|address| address & !MODES).as_ref() }
    }

    /// The state in a word whose mode is not TICKET.
    fn busy_state(&self, word: Tagged<P>) -> &GlkState<P> {
        match self.state(word) {
            Some(state) => state,
            None => unreachable!("modes with a state have one"),
        }
    }

    /// The state in a word whose mode is not TICKET, with the caller as a user; `None` if it has gone.
    fn enter(&self, word: Tagged<P>) -> Option<&GlkState<P>> {
        let state = self.busy_state(word);
        if state.claim.enter_for(self.owner()) {
            return Some(state);
        }
        state.claim.leave();
        None
    }

    /// Acquires a lock whose word has a mode with a state that has gone (I6). Returns whether that was it; `None`: the deadline
    /// passed, or, of an attempt, the lock is not free.
    #[cold]
    fn revive(&self, word: Tagged<P>, wait: Option<&Wait>) -> Option<bool> {
        match wait {
            Some(wait) => self.ticket.lock_with(wait)?,
            None => self.ticket.try_lock_for(self.address()).then_some(())?,
        }
        let state = self.busy_state(word);
        let is_ours = state.claim.enter_for(self.owner());
        if !is_ours && self.word.load(Relaxed) == word {
            // ORDER: Relaxed: there is no state; those who find it acquire the ticket lock, which the caller holds.
            self.word.store(ptr::null_mut(), Relaxed);
        }
        state.claim.leave();
        Some(self.settle(ptr::null_mut(), ptr::null_mut()))
    }

    /// Acquires in ticket mode, if the lock is free.
    #[inline(always)]
    fn acquire_fast(&self) -> bool {
        // ORDER: Relaxed: TICKET needs no state; and I2: the second load, by the holder of the ticket lock, is right.
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
            self.sample(word, false);
        }
        true
    }

    /// Acquires the lock of the word's mode; the node if it is MCS, else null.
    fn acquire(&self, word: Tagged<P>, wait: &Wait) -> Option<*mut McsNode<P>> {
        let acquired = match mode_of(word) {
            TICKET => self.ticket.lock_with(wait),
            MCS => return self.busy_state(word).mcs.lock_with(wait).map(NonNull::as_ptr),
            _ => self.busy_state(word).mutex.lock_with(wait),
        };
        acquired.map(|()| ptr::null_mut())
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
        if waited && mode != MUTEX && P::is_overloaded() {
            if let Some((word, state)) = self.use_state(word, true) {
                self.change(word, state, MUTEX);
                state.claim.leave();
            }
        } else if number.is_multiple_of(Self::PERIOD) {
            self.sample(word, waited);
        }
    }

    /// Measures the queue behind the holder, who is the caller, and decides now and then.
    /// A caller that has `waited` is still registered as a waiter.
    #[cold]
    fn sample(&self, word: Tagged<P>, waited: bool) {
        let mode = mode_of(word);
        let waiting = match mode {
            TICKET => self.ticket.line(),
            _ => (P::waiters_of(self.address()) as u32).saturating_sub(u32::from(waited)),
        };
        if let Some((word, state)) = self.use_state(word, waiting > 0) {
            self.decide(word, state, waiting);
            state.claim.leave();
        }
    }

    /// Adds a sample, and decides now and then.
    fn decide(&self, word: Tagged<P>, state: &GlkState<P>, waiting: u32) {
        let mode = mode_of(word);
        let samples = state.samples.load(Relaxed) + 1;
        let sum = state.waiting.load(Relaxed).saturating_add(waiting);
        if samples < Self::SAMPLES {
            state.samples.store(samples, Relaxed);
            state.waiting.store(sum, Relaxed);
            return;
        }
        let asleep = if mode == MUTEX { waiting as usize } else { 0 };
        let is_overloaded = P::is_overloaded() || P::runnable() + asleep > P::parallelism();
        let better = Self::better(mode, sum, is_overloaded);
        let kept = if better == MCS { (Self::SAMPLES / Self::KEPT, sum / Self::KEPT) } else { (0, 0) };
        state.samples.store(kept.0, Relaxed);
        state.waiting.store(kept.1, Relaxed);
        self.change(word, state, better);
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

    /// The state and the word with it, for the holder, who becomes a user of it. Made if there is none and it `is_needed`; `None`
    /// also if there is no memory.
    fn use_state(&self, word: Tagged<P>, is_needed: bool) -> Option<(Tagged<P>, &GlkState<P>)> {
        let there = self.state(word);
        if let Some(state) = there
            && state.claim.enter_for(self.owner())
        {
            return Some((word, state));
        }
        // In another mode than TICKET the holder holds a lock of the state, which thus is the lock's.
        let fresh = if is_needed { self.take_state() } else { None };
        if let Some(there) = there {
            there.claim.leave();
        }
        // SAFETY: the lock's, as long as the caller is a user of it.
        fresh.map(|fresh| (fresh.as_ptr(), unsafe { &*fresh.as_ptr() }))
    }

    /// Gives the lock another state than it has, for the holder, who becomes a user of it. `None`: there is no memory. A fork waits
    /// meanwhile: only then states may be taken back from idle locks.
    fn take_state(&self) -> Option<NonNull<GlkState<P>>> {
        P::in_steps(|| {
            let fresh = try_take_for::<P, GlkState<P>>(self.owner())?;
            // ORDER: Relaxed: later holders only, until the mode changes (I4).
            self.word.store(fresh.as_ptr(), Relaxed);
            Some(fresh)
        })
    }

    /// Changes the mode to MCS, as where many wait, for models. The caller is the holder.
    #[doc(hidden)]
    pub fn change_to_queue(&self) {
        if let Some((word, state)) = self.use_state(self.word.load(Relaxed), true) {
            self.change(word, state, MCS);
            state.claim.leave();
        }
    }

    /// Changes the mode, if the lock of the new one is free, for the holder, a user of the state.
    #[cold]
    fn change(&self, word: Tagged<P>, state: &GlkState<P>, mode: usize) {
        if mode == mode_of(word) {
            return;
        }
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
    fn lock_fast(&self) -> Option<()> {
        self.acquire_fast().then_some(())
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        loop {
            let word = self.seen();
            let mode = mode_of(word);
            let acquired = if mode == TICKET {
                let node = self.try_acquire(word, mode)?;
                self.settle(word, node)
            } else if let Some(state) = self.enter(word) {
                let node = self.try_acquire(word, mode);
                let acquired = node.map(|node| self.settle(word, node));
                state.claim.leave(); // I4: held, or done with.
                acquired?
            } else {
                self.revive(word, None)?
            };
            if acquired {
                self.take_stock(false);
                return Some(());
            }
        }
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        loop {
            let word = self.seen();
            let acquired = if mode_of(word) == TICKET {
                let node = self.acquire(word, wait)?;
                self.settle(word, node)
            } else if let Some(state) = self.enter(word) {
                let acquired = self.acquire(word, wait).map(|node| self.settle(word, node));
                state.claim.leave(); // I4: held, or done with.
                acquired?
            } else {
                self.revive(word, Some(wait))?
            };
            if acquired {
                self.take_stock(true);
                return Some(());
            }
        }
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
            let state = if mode_of(word) == TICKET { None } else { self.enter(word) };
            let is_locked = match (mode_of(word), state) {
                (MCS, Some(state)) => state.mcs.is_locked(),
                (MUTEX, Some(state)) => state.mutex.is_locked(),
                _ => self.ticket.is_locked(), // I6.
            };
            if let Some(state) = state {
                state.claim.leave();
            }
            let now = self.seen();
            if is_locked || now == word {
                return is_locked;
            }
            word = now; // A holder was there, and may be still.
        }
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        let mut word = self.word.load(Relaxed);
        let own = self.state(word).filter(|state| state.claim.is_for(self.owner()));
        if mode_of(word) != TICKET && own.is_none() {
            // I6: a ghost may have the ticket lock, who was about to say so.
            self.word.store(ptr::null_mut(), Relaxed);
            word = ptr::null_mut();
            self.ticket.reset();
        }
        let mode = mode_of(word);
        // The locks of other modes are held only by ghosts that came late.
        if mode == TICKET {
            // SAFETY: the caller's contract.
            unsafe { self.ticket.forget_waiters(Some(())) };
        } else {
            self.ticket.reset();
        }
        let Some(state) = own else { return };
        state.claim.forget(0);
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
            // SAFETY: the caller's contract.
            unsafe { give_back_from(state, self.owner()) };
        }
    }
}

#[cfg(test)]
mod tests;
