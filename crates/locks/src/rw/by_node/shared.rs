//! What a lock shares. State, invariants (I) and ordering edges (E) are those of [`by_node`](super).

use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, DataCell, NODE_BYTES, Native, Platform, PoolNode};

use crate::hierarchical::directory::Children;
use crate::hierarchical::lazy::State;
use crate::hierarchical::part::LocalLock;
use crate::wait::{Patience, WAITING, registered};

/// A writer has or waits for the lock.
pub(super) const BARRED: u32 = 1;
/// Readers sleep on the word.
pub(super) const PARKED: u32 = 2;
/// All flags.
pub(super) const FLAGS: u32 = BARRED | PARKED;
/// One reader.
pub(super) const READER: u32 = 4;
/// In `remaining`: no writer waits for readers.
pub(super) const RESTING: u32 = 1 << 31;

/// Phases of the holder of the writers' lock, for a child after `fork`. No writer has the lock, and none lifts bars.
pub(super) const IDLE: u32 = 0;
/// A writer has the lock.
pub(super) const HELD: u32 = 1;
/// The frozen counts of nodes that are still barred have been moved.
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
    limit: P::U32,
    owner: P::U32,
    /// The bars come with the writers' lock. This and the next belong to its holder.
    pub(super) handed: P::Data<bool>,
    /// The word of the holder's token.
    pub(super) token: P::Data<usize>,
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
            limit: P::U32::new(0),
            owner: P::U32::new(0),
            handed: P::Data::new(false),
            token: P::Data::new(0),
            writers_line: WritersLine {
                writers: M::new(),
                remaining: P::U32::new(RESTING),
                turn: P::Futex::new(WAITING),
                phase: P::U32::new(IDLE),
            },
        }
    }
}

impl<P: Platform, M> State<P> for Shared<P, M> {
    fn pass_limit(&self) -> &P::U32 {
        &self.limit
    }

    fn owner(&self) -> &P::U32 {
        &self.owner
    }
}

impl<P: Platform, M: LocalLock<P>> Shared<P, M> {
    /// The word that readers of this node use, of the lock that waiters call `address`.
    #[inline(always)]
    pub(super) fn word_here(&self, address: usize) -> &P::Futex {
        if P::nodes() == 1 {
            return &self.home.word;
        }
        self.word_of(P::node(), address)
    }

    fn word_of(&self, node: usize, address: usize) -> &P::Futex {
        let Some(index) = node.checked_sub(1) else { return &self.home.word };
        match self.nodes.get(index) {
            Some(readers) => &readers.word,
            None => self.add(index, address).map_or(&self.home.word, |readers| &readers.word),
        }
    }

    /// Gives a node a word of its own, unless the writers' lock is taken (I1).
    #[cold]
    fn add(&self, index: usize, address: usize) -> Option<&Readers<P>> {
        registered::<P, _>(address, || {
            let token = self.writers.try_lock()?;
            let readers = self.nodes.state(index, |_| {});
            // SAFETY: acquired above.
            unsafe { self.writers.unlock(token) };
            Some(readers)
        })
    }

    /// Calls `visit` with the word of every node that has one.
    pub(super) fn visit(&self, mut visit: impl FnMut(&P::Futex)) {
        visit(&self.home.word);
        self.nodes.visit(|readers| visit(&readers.word));
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
        // SAFETY: as above.
        unsafe { self.handed.set(false) };
        self.writers.clear();
    }

    /// Gives back what this points to, once the last writer is through with its release.
    pub(super) fn clear(&self) {
        let mut patience = Patience::new::<P>();
        while self.writers.is_locked() {
            patience.pause::<P>();
        }
        // SAFETY: the lock is being disposed of.
        unsafe { self.nodes.dispose(|_| {}) };
        // SAFETY: as above.
        unsafe { self.writers.dispose() };
    }
}
