//! What a lock shares, and waiting. State, invariants (I) and ordering edges (E) are those of [`pf_q`](super).

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use lockwork_platform::{
    AtomicCell, AtomicInt, DataCell, NODE_BYTES, Native, Platform, PoolNode, PooledState,
};

use crate::api::{RawLock, Token, address, until_released};
use crate::competitive::poll_steadily;
use crate::queue::mcs::Mcs;
use crate::rw::phases::{Phase, Phases};
use crate::state::{Claimed, State, take_back, take_free};
use crate::wait::{GRANTED, Grant, Returning, Spin, WAITING, Wait, WaitPolicy, abandon, grant};

/// In `departures`: a writer waits for readers, or has the lock.
const AWAITED: usize = 1;
/// One that has left.
pub(super) const LEFT: usize = 1 << 32;

/// The lower half of `departures` for a writer that waits until as many have left.
fn awaiting(entry: u32) -> usize {
    (entry << 1) as usize | AWAITED
}

/// Whether a writer waits for readers, or has the lock.
pub(super) fn is_awaited(departures: usize) -> bool {
    departures & AWAITED != 0
}

/// How many have left.
pub(super) fn departed(departures: usize) -> u32 {
    (departures >> 32) as u32
}

/// Whether a writer waits until as many have left: then it has the lock.
pub(super) fn have_left(departures: usize) -> bool {
    departures as u32 as usize == awaiting(departed(departures))
}

/// A reader that waits.
#[repr(C)]
struct Waiter<P: Platform> {
    /// See [`wait`](crate::wait).
    word: P::Futex,
    /// The one that came before, on the list.
    next: P::Ptr<Waiter<P>>,
}

impl<P: Platform> PoolNode<P> for Waiter<P> {
    fn new() -> Self {
        Self { word: P::Futex::new(WAITING), next: P::Ptr::new(ptr::null_mut()) }
    }
}

/// What a lock shares; made at its first use.
#[repr(C)]
pub(super) struct Shared<P: Platform, W: WaitPolicy<P>> {
    arriving: Arriving<P>,
    leaving: Leaving<P>,
    waiting: Waiting<P, W>,
    first: First<P>,
}

/// Changed by readers that come, and by the beginning and the end of a turn.
#[repr(C, align(64))]
struct Arriving<P: Platform> {
    word: Phases<P>,
    claim: Claimed<P>,
}

/// Changed by readers that leave, and by writers.
#[repr(C, align(64))]
struct Leaving<P: Platform> {
    departures: P::Usize,
}

/// Changed by those who begin to wait.
#[repr(C, align(64))]
struct Waiting<P: Platform, W: WaitPolicy<P>> {
    writers: Mcs<P, W>,
    queue: P::Ptr<Waiter<P>>,
}

/// The holder of the writers' lock waits on `turn`, and changes the rest.
#[repr(C, align(64))]
struct First<P: Platform> {
    turn: P::Futex,
    entry: P::U32,
    /// The word of the holder's token.
    token: P::Data<usize>,
}

const _: () = assert!(size_of::<Shared<Native, Spin>>() == 4 * NODE_BYTES);

impl<P: Platform, W: WaitPolicy<P>> PoolNode<P> for Shared<P, W> {
    fn new() -> Self {
        Self {
            arriving: Arriving { word: Phases::new(), claim: Claimed::new() },
            leaving: Leaving { departures: P::Usize::new(0) },
            waiting: Waiting { writers: Mcs::new(), queue: P::Ptr::new(ptr::null_mut()) },
            first: First { turn: P::Futex::new(WAITING), entry: P::U32::new(0), token: P::Data::new(0) },
        }
    }
}

impl<P: Platform, W: WaitPolicy<P>> PooledState<P> for Shared<P, W> {
    fn take_back(&self) -> bool {
        take_back(self)
    }

    fn take_free(&self) -> bool {
        take_free(self)
    }

    /// By writing: whoever is a reader, or writes, is not counted.
    fn close(&self) -> Option<usize> {
        if self.is_locked() {
            return None;
        }
        let token = self.writers().try_lock()?;
        // SAFETY: the writers' lock is held, by this token.
        unsafe { self.try_turn(token) }.then_some(0)
    }

    fn open(&self, _closed: usize) {
        // SAFETY: written by `close`.
        unsafe { self.release(0) };
    }
}

impl<P: Platform, W: WaitPolicy<P>> State<P> for Shared<P, W> {
    fn claim(&self) -> &Claimed<P> {
        &self.arriving.claim
    }
}

impl<P: Platform, W: WaitPolicy<P>> Shared<P, W> {
    #[inline(always)]
    pub(super) fn word(&self) -> &Phases<P> {
        &self.arriving.word
    }

    #[inline(always)]
    pub(super) fn departures(&self) -> &P::Usize {
        &self.leaving.departures
    }

    pub(super) fn writers(&self) -> &Mcs<P, W> {
        &self.waiting.writers
    }

    /// Draws as a reader, known as a waiter, and waits for the writer that is present.
    #[cold]
    pub(super) fn draw(&self, wait: &Wait) -> bool {
        let found = self.word().draw();
        if !found.is_writers() {
            return true;
        }
        let node = P::alloc_node::<Waiter<P>>();
        let acquired = if wait.deadline.is_none() {
            self.wait_with(node, found, wait)
        } else {
            let line_up = |wait: &Wait| self.wait_with(node, found, wait).then_some(());
            let come_back =
                |left, back: &mut Returning<_, _>, wait: &Wait| self.wait_again(left, found, back, wait);
            Returning::run(address(&self.waiting.queue), wait, node, line_up, come_back).is_some()
        };
        acquired || !self.word().take_back(found)
    }

    /// Waits for the end of the phase `found` with `node`, which is fresh. Whether it was granted.
    fn wait_with(&self, node: NonNull<Waiter<P>>, found: Phase, wait: &Wait) -> bool {
        self.put(node);
        // SAFETY: ours, until it is granted, and then still, or abandoned.
        let word = unsafe { &node.as_ref().word };
        let granted = self.wait_on(word, found, wait);
        if granted {
            // SAFETY: granted: nobody else knows of it any more.
            unsafe { P::free_node(node) };
        }
        granted
    }

    /// Waits on the word of a node that is on the list. Whether it was granted.
    fn wait_on(&self, word: &P::Futex, found: Phase, wait: &Wait) -> bool {
        // I5.
        let outcome = if self.word().acquired().phase() == found {
            W::wait(word, wait)
        } else {
            abandon::<P>(word, wait)
        };
        outcome.is_ok()
    }

    /// As [`Shared::wait_with`], with the node in which the thread gave up, in another phase perhaps. If that is abandoned once
    /// more, the phase may have ended all the same.
    #[cold]
    fn wait_again(
        &self,
        node: NonNull<Waiter<P>>,
        found: Phase,
        returning: &mut Returning<P, Waiter<P>>,
        wait: &Wait,
    ) -> Option<()> {
        // SAFETY: on the list, or granted, and ours again.
        let word = unsafe { &node.as_ref().word };
        let (granted, wait) = match returning.take_up(word, wait) {
            Some(wait) => (self.wait_on(word, found, &wait), wait),
            None => (true, Wait { bookmark: None, ..*wait }),
        };
        if !granted {
            return None;
        }
        // SAFETY: granted: nobody else knows of it any more.
        unsafe { P::free_node(node) };
        // The list may have been taken at the end of an earlier phase. Otherwise E7 has come with the grant.
        if self.word().acquired().phase() != found {
            return Some(());
        }
        let fresh = P::alloc_node::<Waiter<P>>();
        Returning::leaves(fresh, &wait);
        self.wait_with(fresh, found, &wait).then_some(())
    }

    /// Puts a node on the list.
    fn put(&self, node: NonNull<Waiter<P>>) {
        let queue = &self.waiting.queue;
        let mut head = queue.load(Relaxed);
        loop {
            // SAFETY: ours. ORDER: E4 publishes it.
            unsafe { node.as_ref() }.next.store(head, Relaxed);
            // ORDER: Release is E4, Acquire is E5.
            match queue.compare_exchange(head, node.as_ptr(), AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the list, and grants all who wait there.
    fn grant_readers(&self) {
        // ORDER: Acquire is E4, Release is E5.
        let mut head = self.waiting.queue.swap(ptr::null_mut(), AcqRel);
        while let Some(node) = NonNull::new(head) {
            // SAFETY: on the list until granted. ORDER: Relaxed: E4, or our own reading of an abandoned one.
            head = unsafe { node.as_ref() }.next.load(Relaxed);
            // SAFETY: as above. ORDER: E7.
            if grant::<P>(unsafe { &node.as_ref().word }) == Grant::Abandoned {
                // SAFETY: abandoned to us, and off the list.
                unsafe { P::free_node(node) };
            }
        }
    }

    /// Begins a turn, with the writers' lock acquired. Returns whether the caller is the writer; if not, the writers' lock is
    /// released.
    ///
    /// # Safety
    ///
    /// `token` is that of the caller, who holds the writers' lock.
    pub(super) unsafe fn take_turn(&self, token: <Mcs<P, W> as RawLock<P>>::Token, wait: &Wait) -> bool {
        // SAFETY: the writers' lock is held.
        unsafe { self.first.token.set(token.into_word()) };
        let entry = self.word().begin_turn(&self.first.entry);
        // I4: the grant of the wait before has come.
        self.first.turn.store(WAITING, Relaxed);
        // ORDER: Acquire is E2, Release is E3.
        let before = self.departures().fetch_add(awaiting(entry), AcqRel);
        if departed(before) == entry || self.wait_for_readers(wait) {
            return true;
        }
        // SAFETY: the caller's contract.
        unsafe { self.end_turn(token, 0) };
        false
    }

    /// Waits until the last reader grants the turn. Otherwise nobody will.
    fn wait_for_readers(&self, wait: &Wait) -> bool {
        let turn = &self.first.turn;
        // ORDER: E7.
        if W::wait(turn, wait).is_ok() {
            return true;
        }
        let mut seen = self.departures().load(Relaxed);
        while !have_left(seen) {
            // ORDER: Relaxed: publishes nothing.
            match self.departures().compare_exchange(seen, seen >> 32 << 32, Relaxed, Relaxed) {
                Ok(_) => return false,
                Err(now) => seen = now,
            }
        }
        // I4. ORDER: E7.
        poll_steadily::<P>(None, || turn.load(Acquire) == GRANTED)
    }

    /// Has a turn if there are no readers, with the writers' lock acquired. Otherwise as [`Shared::take_turn`].
    ///
    /// # Safety
    ///
    /// As of [`Shared::take_turn`].
    pub(super) unsafe fn try_turn(&self, token: <Mcs<P, W> as RawLock<P>>::Token) -> bool {
        // SAFETY: the writers' lock is held.
        unsafe { self.first.token.set(token.into_word()) };
        let seen = self.word().seen();
        // ORDER: E2.
        let departures = self.departures().load(Acquire);
        let entry = departed(departures);
        if seen.arrivals() != entry || self.word().try_begin_turn(seen, &self.first.entry).is_err() {
            // SAFETY: the caller's contract.
            unsafe { self.writers().unlock(token) };
            return false;
        }
        // All readers that had drawn had left, and no thread changes it now. ORDER: Relaxed: no reader comes in by that (I3).
        self.departures().store(departures | awaiting(entry), Relaxed);
        true
    }

    /// Releases the lock. The writer may go on as a reader, by adding `READER`.
    ///
    /// # Safety
    ///
    /// The caller has the lock for writing.
    pub(super) unsafe fn release(&self, more: usize) {
        let seen = self.departures().load(Relaxed);
        // Nobody else changes it (I2). ORDER: Relaxed: E1 comes after it.
        self.departures().store(seen >> 32 << 32, Relaxed);
        // SAFETY: the writer holds the writers' lock, and has noted its token.
        let token = unsafe { self.token() };
        // SAFETY: as above.
        unsafe { self.end_turn(token, more) };
    }

    /// Ends a turn which is not awaited any more, lets the readers in that it stopped, and releases the writers' lock.
    ///
    /// # Safety
    ///
    /// As of [`Shared::take_turn`].
    unsafe fn end_turn(&self, token: <Mcs<P, W> as RawLock<P>>::Token, more: usize) {
        self.word().end_turn(more);
        self.grant_readers();
        // SAFETY: the caller's contract. ORDER: E6. I6.
        unsafe { self.writers().unlock(token) };
    }

    /// The noted token of the holder of the writers' lock.
    ///
    /// # Safety
    ///
    /// The caller is the holder, or alone.
    unsafe fn token(&self) -> <Mcs<P, W> as RawLock<P>>::Token {
        // SAFETY: the caller's contract.
        let word = unsafe { self.first.token.get() };
        // SAFETY: put there by `take_turn` or `try_turn`.
        unsafe { Token::from_word(word) }
    }

    /// Whether there are readers, or a writer is present.
    pub(super) fn is_locked(&self) -> bool {
        // Before the word, or those who come and leave in between would hide a reader that stays. ORDER: Relaxed: an
        // attempt to write looks again.
        let departures = self.departures().load(Relaxed);
        let seen = self.word().seen();
        seen.phase().is_writers() || seen.arrivals() != departed(departures)
    }

    /// Whether a writer has the lock.
    pub(super) fn is_held(&self) -> bool {
        self.word().seen().phase().is_writers() && have_left(self.departures().load(Relaxed))
    }

    /// The one who is granted `turn`, by the last reader that left.
    pub(super) fn turn(&self) -> &P::Futex {
        &self.first.turn
    }

    /// In a child after `fork`: keeps the writer that has the lock, if one does, and else the readers.
    ///
    /// # Safety
    ///
    /// No other thread exists.
    pub(super) unsafe fn forget_waiters(&self) {
        self.arriving.claim.forget(0);
        let is_held = self.is_held();
        self.word().forget_waiters(self.first.entry.load(Relaxed), is_held);
        self.waiting.queue.store(ptr::null_mut(), Relaxed);
        if is_held {
            // SAFETY: nobody else runs, and the writer has noted its token.
            let token = unsafe { self.token() };
            // SAFETY: as above.
            return unsafe { self.writers().forget_waiters(Some(token)) };
        }
        let seen = self.departures().load(Relaxed);
        self.departures().store(seen >> 32 << 32, Relaxed);
        self.writers().clear();
    }

    /// Waits until the last writer is through with its release, and frees what is on the list.
    pub(super) fn until_idle(&self) {
        until_released(self.writers());
        // All that is left there was abandoned (I5).
        self.grant_readers();
    }
}
