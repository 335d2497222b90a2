//! What a lock shares. State, invariants (I) and ordering edges (E) are those of [`by_node`](super).

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{
    AtomicCell, AtomicInt, DataCell, FutexCell, NODE_BYTES, Native, Platform, PoolNode, PooledState,
};

use super::Rule;
use super::slow::SlowPath;
use crate::api::{Token, until_released};
use crate::describe::Favour;
use crate::hierarchical::directory::Children;
use crate::hierarchical::part::LocalLock;
use crate::state::{Claimed, State, take_back, take_free};
use crate::wait::{Patience, WAITING};

/// A writer has or waits for the lock.
pub(super) const BARRED: u32 = 1;
/// Readers sleep on the word.
pub(super) const PARKED: u32 = 2;
/// Nobody uses the word yet.
pub(super) const NEW: u32 = 4;
/// All flags.
pub(super) const FLAGS: u32 = BARRED | PARKED | NEW;
/// One reader.
pub(super) const READER: u32 = 8;
/// In `remaining`: no writer waits for readers.
pub(super) const RESTING: u32 = 1 << 31;

/// Phases of the holder of the writers' lock, for a child after `fork`; for others a hint. No writer says that it has the
/// lock, and none lifts bars.
pub(super) const IDLE: u32 = 0;
/// A writer has the lock.
pub(super) const HELD: u32 = 1;
/// The counts of nodes that are still barred have been moved, or come to nothing together.
pub(super) const LIFTING: u32 = 2;

/// Whether this is a value of `remaining` while no writer waits for readers; what is counted there may be less than none.
pub(super) fn is_resting(remaining: u32) -> bool {
    remaining.wrapping_sub(RESTING / 2) < RESTING
}

/// The word of a node.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Readers<P: Platform> {
    word: P::Futex,
}

const _: () = assert!(size_of::<Readers<Native>>() == NODE_BYTES);

impl<P: Platform> PoolNode<P> for Readers<P> {
    fn new() -> Self {
        Self { word: P::Futex::new(0) }
    }
}

/// What a lock shares; made at its first use.
#[repr(C)]
pub(super) struct Shared<P: Platform, M: 'static> {
    /// The word of the first node, and of those that have none.
    home: Readers<P>,
    /// Words of the other nodes, number 1 first. Read-mostly.
    nodes: Children<P, Readers<P>, 4>,
    /// Whether there are any of those: 0 or 1.
    has_nodes: P::U32,
    /// Whose the state is, for readers.
    owner: P::Usize,
    writers_line: WritersLine<P, M>,
}

/// Changed by writers, and by the readers that one waits for.
#[repr(C, align(64))]
pub(super) struct WritersLine<P: Platform, M> {
    /// The writers' lock.
    pub(super) writers: M,
    /// See the module's table.
    pub(super) remaining: P::U32,
    /// What the writer that waits for readers waits on.
    pub(super) turn: P::Futex,
    /// Changed by the holder of the writers' lock.
    pub(super) phase: P::U32,
    /// Writers that have been handed the bars since they were lifted: the writer's own.
    pub(super) batch: P::Data<u32>,
    /// The word of the holder's token, which is the holder's own, and not noted if there is but one.
    pub(super) token: P::Data<usize>,
    /// Whose the state is, and how many wait.
    claim: Claimed<P>,
}

impl<P: Platform, M> core::ops::Deref for Shared<P, M> {
    type Target = WritersLine<P, M>;

    fn deref(&self) -> &WritersLine<P, M> {
        &self.writers_line
    }
}

impl<P: Platform, M: LocalLock<P>> PoolNode<P> for Shared<P, M> {
    fn new() -> Self {
        Self {
            home: Readers::new(),
            nodes: Children::new(),
            has_nodes: P::U32::new(0),
            owner: P::Usize::new(0),
            writers_line: WritersLine {
                writers: M::new(),
                remaining: P::U32::new(RESTING),
                turn: P::Futex::new(WAITING),
                phase: P::U32::new(IDLE),
                batch: P::Data::new(0),
                token: P::Data::new(0),
                claim: Claimed::new(),
            },
        }
    }
}

impl<P: Platform, M: LocalLock<P>> PooledState<P> for Shared<P, M> {
    fn take_back(&self) -> bool {
        take_back(self)
    }

    fn take_free(&self) -> bool {
        take_free(self)
    }

    /// By writing: whoever is a reader, or writes, is not counted.
    fn close(&self) -> Option<usize> {
        if self.readers() != 0 {
            return None;
        }
        let token = self.writers.try_lock()?;
        SlowPath::<P, M, Closing>::new(self, 0).try_write(token).then(|| token.into_word())
    }

    fn open(&self, word: usize) {
        // ORDER: Relaxed: a child after `fork` is alone; to others it is a hint.
        self.phase.store(LIFTING, Relaxed);
        self.lift();
        // SAFETY: made of a token by `close`.
        let token = unsafe { M::Token::from_word(word) };
        // SAFETY: of the acquisition there.
        unsafe { self.writers.unlock(token) };
    }

    unsafe fn clear(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.nodes.dispose(|_| {}) };
        // SAFETY: as above.
        unsafe { self.writers.dispose() };
    }
}

impl<P: Platform, M: LocalLock<P>> State<P> for Shared<P, M> {
    fn claim(&self) -> &Claimed<P> {
        &self.claim
    }

    fn note_owner(&self, owner: usize) {
        self.owner.store(owner, Release); // ORDER: → `is_of`: the word that the lock had before.
    }

    #[inline(always)]
    fn is_of(&self, owner: usize) -> bool {
        self.owner.load(Acquire) == owner // ORDER: a look at the lock's word that follows finds nothing older.
    }
}

/// What takes a state back writes for a moment, and never waits for readers.
#[derive(Debug)]
struct Closing;

impl Rule for Closing {
    const FAVOUR: Favour = Favour::Readers;
    const PARKS: bool = false;
}

impl<P: Platform, M: LocalLock<P>> Shared<P, M> {
    /// The word that readers of this node use.
    #[inline(always)]
    pub(super) fn word_here(&self) -> &P::Futex {
        match Self::further_node() {
            None => &self.home.word,
            Some(index) => self.word_of(index).unwrap_or(&self.home.word),
        }
    }

    /// The index of the calling thread's node among those that do not use the home word by right.
    #[inline(always)]
    fn further_node() -> Option<usize> {
        if P::domains() == 1 { None } else { P::domain().checked_sub(1) }
    }

    /// The word of a further node, unless nobody uses it yet.
    #[inline(always)]
    pub(super) fn word_of(&self, index: usize) -> Option<&P::Futex> {
        let word = &self.nodes.get(index)?.word;
        // ORDER: Relaxed: a thread that uses it changes it, and acquires then (E1).
        (word.load(Relaxed) & NEW == 0).then_some(word)
    }

    /// Adds a reader on this node, if that is not barred.
    #[inline(always)]
    pub(super) fn enter_here(&self) -> bool {
        let Some(index) = Self::further_node() else { return self.enter(&self.home.word) };
        match self.word_of(index) {
            Some(word) => self.enter(word),
            None => self.enter_first(index),
        }
    }

    /// Adds a reader to a node's word, if that is not barred.
    #[inline(always)]
    pub(super) fn enter(&self, word: &P::Futex) -> bool {
        // Not by compare-and-swap: of many that try at once, one would succeed. I2. ORDER: E1.
        word.load(Relaxed) & BARRED == 0
            && (word.fetch_add(READER, Acquire) & BARRED == 0 || self.came_too_late(word))
    }

    /// What is said of a reader that found the word barred when it had added itself: it has not come in.
    #[cold]
    fn came_too_late(&self, word: &P::Futex) -> bool {
        self.until_counted(word);
        false
    }

    /// As [`Shared::enter_here`], for the first on its node: makes the word that those after it use.
    #[cold]
    pub(super) fn enter_first(&self, index: usize) -> bool {
        let Some(word) = self.make_word(index) else { return self.enter(&self.home.word) };
        let home = &self.home.word;
        // As in `enter`. ORDER: Acquire is E1, Release is E6.
        if home.load(Relaxed) & BARRED != 0 {
            return false;
        }
        if home.fetch_add(READER, AcqRel) & BARRED != 0 {
            return self.came_too_late(home);
        }
        // I8. ORDER: Release is E1, by way of us.
        let _ = word.compare_exchange(NEW, 0, Release, Relaxed);
        true
    }

    /// Takes a reader from this node's count. `false`: a writer counts it, or will, and it is to be taken from `remaining`.
    #[inline(always)]
    pub(super) fn leave_here(&self) -> bool {
        let word = self.word_here();
        // Read first: I9.
        if word.load(Relaxed) & BARRED != 0 {
            return false;
        }
        // ORDER: Release is E2.
        if word.fetch_sub(READER, Release) & BARRED == 0 {
            return true; // I5.
        }
        self.until_counted(word);
        false
    }

    /// Waits until nobody can take the word, barred before this thread changed it, for a count any more (I9).
    #[cold]
    fn until_counted(&self, word: &P::Futex) {
        let mut patience = Patience::new::<P>();
        // ORDER: E7.
        while word.load(Acquire) & BARRED != 0 && is_resting(self.remaining.load(Relaxed)) {
            patience.pause::<P>();
        }
    }

    /// The word of a further node, made if it is not there. `None`: there is no memory.
    pub(super) fn make_word(&self, index: usize) -> Option<&P::Futex> {
        if self.has_nodes.load(Relaxed) == 0 {
            // Before it is published. ORDER: Relaxed: E6.
            self.has_nodes.store(1, Relaxed);
        }
        self.nodes.state(index, |readers| readers.word.store(NEW, Relaxed)).map(|readers| &readers.word)
    }

    /// Calls `visit` with the word of every node that has one.
    pub(super) fn visit(&self, mut visit: impl FnMut(&P::Futex)) {
        visit(&self.home.word);
        self.visit_further(visit);
    }

    /// Calls `visit` with the words of the nodes that do not use the home word by right.
    fn visit_further(&self, mut visit: impl FnMut(&P::Futex)) {
        if self.has_nodes.load(Relaxed) != 0 {
            self.nodes.visit(|readers| visit(&readers.word));
        }
    }

    /// Lifts all bars, once the readers that are left are counted by `remaining`.
    pub(super) fn lift_nodes(&self) {
        lift::<P>(&self.home.word);
        self.visit_further(|word| {
            // One that is not barred has become live since another was lifted (I8). ORDER: Relaxed: E5, or by ourselves.
            if word.load(Relaxed) & BARRED != 0 {
                lift::<P>(word);
            }
        });
        self.phase.store(IDLE, Relaxed);
    }

    /// How many readers there seem to be, in units of `READER`.
    pub(super) fn readers(&self) -> u32 {
        let remaining = self.remaining.load(Relaxed);
        if !is_resting(remaining) {
            return remaining;
        }
        let is_lifting = self.phase.load(Relaxed) == LIFTING;
        let mut readers = remaining.wrapping_sub(RESTING);
        self.visit(|word| {
            let seen = word.load(Relaxed);
            if !(is_lifting && seen & BARRED != 0) {
                readers = readers.wrapping_add(seen & !FLAGS);
            }
        });
        readers
    }

    /// In a child after `fork`: keeps the writer that has the lock, if one does, and else the readers.
    ///
    /// # Safety
    ///
    /// No other thread exists.
    pub(super) unsafe fn forget_waiters(&self) {
        self.claim.forget(0);
        let is_held = self.is_held();
        let readers = if is_held { 0 } else { self.readers() };
        self.visit(|word| word.store(if is_held { BARRED } else { 0 }, Relaxed));
        if is_held {
            // SAFETY: nobody else runs, and the writer has noted its token.
            let token = unsafe { self.token() };
            // SAFETY: as above.
            return unsafe { self.writers.forget_waiters(Some(token)) };
        }
        self.home.word.store(readers, Relaxed);
        self.remaining.store(RESTING, Relaxed);
        self.phase.store(IDLE, Relaxed);
        self.writers.clear();
    }

    /// Waits until the last writer is through with its release.
    pub(super) fn until_idle(&self) {
        until_released(&self.writers);
    }
}

/// Lifts the bar of a node's word, and wakes a reader if some sleep there.
fn lift<P: Platform>(word: &P::Futex) {
    // The count has been moved, or is one of those that come to nothing (I3). ORDER: Release is E1.
    if word.fetch_and(PARKED, Release) & PARKED != 0 {
        // SAFETY: alive until `dispose`, which waits for us (I5). I7.
        unsafe { FutexCell::wake(ptr::from_ref(word), 1) };
    }
}
