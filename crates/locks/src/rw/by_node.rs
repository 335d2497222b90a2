//! Reader-writer locks that count readers by NUMA node, around a mutex for writers: the `c-rw-*` and `cst-rwsem*` locks.
//!
//! Irina Calciu, Dave Dice, Yossi Lev, Victor Luchangco, Virendra J. Marathe and Nir Shavit, "NUMA-aware reader-writer
//! locks", PPoPP 2013: a cohort lock for the writers, a reader indicator split by node, and three preferences. Sanidhya
//! Kashyap, Changwoo Min and Taesoo Kim, "Scalable NUMA-aware blocking synchronization primitives", USENIX ATC 2017,
//! section 5.2: the same, writers preferred, whose readers park on a list of their node, of which a writer wakes the
//! first and that one the others.
//!
//! Deviations. The published locks have a flag of the writer's and counters of the readers', with a store-load race
//! between them. Here a writer bars each node's word, which is also its count: readers come and go by one
//! addition to a word of their node, without fences, and one that is barred has nothing to undo. (One that finds the bar
//! only then waits until the writer has barred all nodes.) A writer that
//! waits for readers sleeps; the last of them wakes it. Parked readers sleep on their node's word. `c-rw-np`: the
//! paper's readers pass through the writers' lock one by one; here only those that have found the lock barred twice.
//! A thread that may park spins first. The kernel's waiters look at their own CPU's queue, which a program cannot see, so readers
//! give way to it between two rounds; a writer that waits for readers may be granted its turn at any time, and spins on
//! while the machine has CPUs to spare. A node gets a word of its own at the first use that finds no writer; until then
//! its readers use that of the first node. The mutex of `cst-rwsem*` is the CST-mutex: with more threads than CPUs the
//! lock goes to writers that are awake. `cst-rwsem` lets readers in when no writer of the releaser's node is awake, rather
//! than when none waits: they would have to wait for a writer to wake up. A rule with a batch ([`Rule::BATCH`]), as that of
//! `auto-rw`, hands bars and lock to a writer of any node that is awake, or that is first among the nodes, for so many times.
//!
//! Properties: 8 bytes at rest; used, 192 more, 64 for each further node that reads, and the state of the writers'
//! lock. Readers of different nodes share no line that changes. A writer changes a line a node, twice.
//!
//! # State
//!
//! ```text
//! lock ─→ shared: home word, words of further nodes; the writers' lock; remaining, turn, phase
//! ```
//!
//! Under a rule that says so ([`Rule::ALONE`]) the lock is a word of its own until a second thread comes: see `alone.rs`.
//!
//! A node's word:
//!
//! | bits | name     | meaning                                                                         |
//! |------|----------|---------------------------------------------------------------------------------|
//! | 0    | `BARRED` | a writer has or waits for the lock: the count is not live                        |
//! | 1    | `PARKED` | readers sleep on the word, or are about to                                       |
//! | 2    | `NEW`    | nobody uses the word yet: readers of this node use that of the first one         |
//! | 3–31 | count    | mod 2^29: acquisitions counted on this node, less releases counted on it              |
//!
//! `remaining`, in units of `READER` as the counts:
//!
//! | value              | meaning                                                                |
//! |--------------------|------------------------------------------------------------------------|
//! | `RESTING` + r      | no writer waits for readers; r readers are counted here rather than by a node |
//! | r, above 0         | a writer waits for r readers, which are all there are                  |
//! | 0                  | a writer has the lock, or is about to learn it                         |
//!
//! # Invariants
//!
//! - I1: nodes are barred only by the holder of the writers' lock; while that is free, no node is barred.
//! - I2: the number of readers is the sum of the live counts and of what `remaining` counts. A reader that acquires
//!   adds 1 to a live count, or to `remaining` where that waits for readers; one that releases takes 1 from a live
//!   count, or from `remaining` if it finds its node barred. A reader that finds the bar only when it has changed the
//!   count has changed nothing: a count is live until the operation that bars the word, which returns it, and begins anew when the
//!   bar is lifted. A release on another node than the acquisition's makes one count too small and another too large by
//!   the same: arithmetic wraps, and only the sum is used.
//! - I3: a writer bars all nodes, and sums up the counts. If their sum is 0 and `remaining` says then that no readers
//!   are counted there, there are none: until the bars are lifted none comes in, and nobody else changes `remaining`, which
//!   the writer sets to 0. (Between two writers it only falls; an old value could but make it seem that there are some.)
//!   Else the writer moves the sum into it in the one operation that ends the rest. From then on no reader comes in but
//!   beside another one, so it reaches 0 once, by the writer's own operation or by one reader's release. That reader
//!   grants `turn`, once. The writer waits for the grant, not for the 0.
//! - I4: a writer that gives up puts the rest back. If `remaining` was 0, the grant is certain and it waits for that
//!   instead. So `turn` is granted to the writer that waits for it, and to no later one.
//! - I5: a release by a reader touches nothing after its last operation: nobody else may grant before it has. A release
//!   by a writer touches the lock itself only at its beginning, and the shared state, last of all, by releasing the
//!   writers' lock, which `dispose` waits for.
//! - I6: bars that are handed over go with the writers' lock to a thread that certainly takes it: it finds that `remaining`
//!   is 0, which it is not when a writer lifts them and releases.
//! - I7: while readers sleep on a word, `PARKED` is set, or the thread that cleared it is about to wake them all. The
//!   writer that lifts the bar and finds it wakes one; a reader that was woken and finds the bar lifted clears it and wakes all,
//!   if possible before it acquires: a writer would have to wait for that.
//! - I8: a node's word is published `NEW`. It becomes live when a writer lifts its bar, or by a reader that came in on
//!   the first node's word after it found the other published, if it is not barred then. So a writer that has barred
//!   the first node's word sees every word that is live, or will be before it lifts that bar.
//! - I9: a child of `fork` that finds a writer amid its bars has but the words to sum up. A reader that came too late it
//!   would take for one that came before, and one that released too late be missed twice, by the word and by `remaining`.
//!   So both go on only when the sum has been moved there, or their node's bar lifted. (A reader that has not gone on when
//!   another thread forks is one in the child for ever, as one that came in time is.)
//! - I10: the state is the lock's while somebody has the lock, or waits and is counted: it is taken back by a thread that
//!   writes and finds nobody counted. A reader that comes in at once finds whose the state is afterwards, and leaves another
//!   lock's again, as a reader of that lock.
//!
//! # Ordering
//!
//! - E1: the operation that lifts a node's bar (Release) → the addition of a reader that comes in (Acquire): the writer's
//!   section, and that `remaining` rests, before the reader takes from it or looks at it. Also by way of the reader that
//!   makes a word live.
//! - E2: a reader's release on its node's word (Release) → the operation that bars it (Acquire), through the other
//!   readers' RMWs.
//! - E3: a reader's release on `remaining` (Release) → the operation on it that makes it 0 or adds the counts, or the load
//!   that finds nobody counted there (Acquire); and from the last reader on by the grant.
//! - E4: the operation on `remaining` that ends the rest (Release) → the CAS of a reader that joins another there, and
//!   the subtraction of the one that grants (Acquire): what the writer before wrote, and that `turn` waits.
//! - E5: the release of the writers' lock → its next acquisition: the critical section, and all that only its holder
//!   accesses.
//! - E6: the addition to the first node's word by a reader that knows of another word (Release) → the operation that bars the first node
//!   (Acquire): that the word is there.
//! - E7: as E1, by way of the bar that came after → the load of a reader that came or left too late (Acquire): that
//!   `remaining` rests, before it looks whether that is over.

mod alone;
mod shared;
mod slow;
#[cfg(test)]
mod tests;
pub mod variants;

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use lockwork_platform::{AtomicCell, AtomicInt, DataCell, Deadline, Native, Platform};

use crate::api::{RawRwLock, Token};
use crate::describe::Favour;
use crate::hierarchical::part::LocalLock;
use crate::state::{Lazy, State};
use crate::wait::{WAITING_ON_RWLOCK, Wait, grant};
use alone::{READER as READER_ALONE, WRITER};
use shared::{BARRED, FLAGS, HELD, LIFTING, READER, RESTING, Shared};
use slow::SlowPath;

/// What distinguishes the locks of this kind.
pub trait Rule: core::fmt::Debug + Send + Sync + 'static {
    /// Which threads pass which.
    const FAVOUR: Favour;
    /// Whether waiters sleep after a while, or spin.
    const PARKS: bool;
    /// How many writers get in one after the other, of whatever node, before readers do. 0 = the writers' lock decides that, by
    /// whom it hands itself over to.
    const BATCH: u32 = 0;
    /// Whether the word is the lock until a second thread comes.
    const ALONE: bool = false;
}

/// The lock, with `M` for its writers.
#[repr(transparent)]
pub struct ByNode<P: Platform, M: LocalLock<P>, R: Rule> {
    shared: Lazy<P, Shared<P, M>>,
    rule: PhantomData<R>,
}

impl<P: Platform, M: LocalLock<P>, R: Rule> core::fmt::Debug for ByNode<P, M, R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ByNode").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl<M: LocalLock<Native>, R: Rule> ByNode<Native, M, R> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { shared: Lazy::unused(), rule: PhantomData }
    }
}

impl<P: Platform, M: LocalLock<P>, R: Rule> Drop for ByNode<P, M, R> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the lock.
        unsafe { self.dispose() };
    }
}

impl<P: Platform, M: LocalLock<P>, R: Rule> ByNode<P, M, R> {
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize | WAITING_ON_RWLOCK
    }

    fn slow_path<'a>(&self, shared: &'a Shared<P, M>) -> SlowPath<'a, P, M, R> {
        SlowPath::new(shared, self.address())
    }

    /// The state of a lock that nobody else uses, if it has one.
    fn own(&self) -> Option<&Shared<P, M>> {
        if self.is_one_word() { None } else { self.shared.own() }
    }

    /// Calls `visit` with the count of every node that has a word, in the order of the nodes: how many readers have
    /// acquired there less how many have released there. Their sum is the number of readers, less those that `remaining` counts:
    /// after a writer that gave up, and where the lock had readers when it got its state. While a writer has it, or waits, counts
    /// mean nothing.
    pub fn visit_counts(&self, mut visit: impl FnMut(i32)) {
        if let Some(shared) = self.own() {
            shared.visit(|word| visit((word.load(Relaxed) & !FLAGS) as i32 / READER as i32));
        }
    }

    /// Acquires for reading; `again` may be a reader already.
    #[inline(always)]
    fn read(&self, deadline: Option<Deadline>, again: bool) -> bool {
        let shared = match self.read_alone_or_peek() {
            Some(shared) => shared,
            None => return true,
        };
        let joins = again || R::FAVOUR == Favour::Readers;
        (shared.enter_here() || joins && shared.join()) && self.is_right(shared)
            || self.wait_to_read(deadline, joins)
    }

    /// Whether the lock's own state was acquired for reading; if not, it has been released.
    #[inline(always)]
    fn is_right(&self, shared: &Shared<P, M>) -> bool {
        self.shared.owns(shared) || Self::leave_wrong(shared)
    }

    /// I10: another lock's.
    #[cold]
    fn leave_wrong(shared: &Shared<P, M>) -> bool {
        shared.leave();
        false
    }

    #[cold]
    fn wait_to_read(&self, deadline: Option<Deadline>, joins: bool) -> bool {
        self.used(|shared| {
            shared.enter_here() || joins && shared.join() || self.slow_path(shared).read_slow(deadline, joins)
        })
    }

    /// Runs `f` with the lock's state, as one of its users.
    fn used(&self, f: impl FnOnce(&Shared<P, M>) -> bool) -> bool {
        let shared = self.shared.enter();
        let acquired = f(shared);
        shared.claim().leave(); // I10.
        acquired
    }
}

// SAFETY: a writer has the lock from when all nodes are barred and no reader is left (I1 to I3) until it lifts the
// first bar, or hands them on (I6); E1 to E5 order the sections.
unsafe impl<P: Platform, M: LocalLock<P>, R: Rule> RawRwLock<P> for ByNode<P, M, R> {
    fn new() -> Self {
        Self { shared: Lazy::new(), rule: PhantomData }
    }

    #[inline]
    fn lock_shared(&self, deadline: Option<Deadline>) -> bool {
        self.read(deadline, false)
    }

    #[inline]
    fn lock_shared_again(&self, deadline: Option<Deadline>) -> bool {
        self.read(deadline, true)
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        let attempt =
            |shared: &Shared<P, M>| shared.enter_here() || R::FAVOUR == Favour::Readers && shared.join();
        let Some(shared) = self.read_alone_or_peek() else { return true };
        if attempt(shared) && self.is_right(shared) {
            return true;
        }
        // A thread that would take the state back may have barred it meanwhile. None does while the caller is counted.
        self.used(attempt)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: read-locked.
        if let Some(shared) = unsafe { self.leave_alone(READER_ALONE) } {
            shared.leave();
        }
    }

    fn lock_exclusive(&self, deadline: Option<Deadline>) -> bool {
        if self.write_alone() {
            return true;
        }
        // From before the writers' lock is taken: a child of `fork` must find a ghost that has that, and not yet the lock.
        Wait::run::<P, _>(self.address(), deadline, |wait| {
            self.used(|shared| {
                let slow_path = self.slow_path(shared);
                if let Some(token) = shared.writers.lock_fast_for(wait.address) {
                    return slow_path.write(token, deadline);
                }
                let token = shared.writers.lock_slow(wait);
                token.is_some_and(|token| slow_path.write_in_turn(token, deadline))
            })
        })
    }

    fn try_lock_exclusive(&self) -> bool {
        if self.write_alone() {
            return true;
        }
        loop {
            let acquired = Wait::run::<P, _>(self.address(), None, |_| {
                self.used(|shared| {
                    // A thread that would fail takes no lock on which others might fail.
                    if shared.readers() != 0 {
                        return false;
                    }
                    // The fast path may fail where the state of the writers' lock has been taken back.
                    let token =
                        shared.writers.lock_fast_for(self.address()).or_else(|| shared.writers.try_lock());
                    token.is_some_and(|token| self.slow_path(shared).try_write(token))
                })
            });
            if acquired || self.shared.settle() {
                return acquired;
            }
        }
    }

    unsafe fn unlock_exclusive(&self) {
        // SAFETY: write-locked.
        let Some(shared) = (unsafe { self.leave_alone(WRITER) }) else { return };
        // SAFETY: the writer holds the writers' lock, and put its token there.
        let mut token = unsafe { shared.token() };
        // From here on the lock has no holder, but the writers' lock is not free yet. The last step lets others free it all.
        P::in_steps(|| {
            // ORDER: Relaxed: a child after `fork` is alone; to others it is a hint.
            shared.phase.store(LIFTING, Relaxed);
            if R::FAVOUR == Favour::Writers {
                // SAFETY: held, by this token. ORDER: E5.
                match unsafe { shared.hand_over::<R>(token) } {
                    Ok(()) => return, // I6.
                    Err(kept) => token = kept,
                }
            }
            shared.lift();
            // SAFETY: held, by this token. I5.
            unsafe { shared.writers.unlock(token) };
        });
    }

    unsafe fn downgrade(&self) {
        // SAFETY: write-locked.
        let Some(shared) = (unsafe { self.leave_alone(WRITER.wrapping_sub(READER_ALONE)) }) else { return };
        // SAFETY: as in `unlock_exclusive`.
        let token = unsafe { shared.token() };
        Wait::run::<P, _>(self.address(), None, |_| {
            // ORDER: Relaxed: as there.
            shared.phase.store(LIFTING, Relaxed);
            shared.lift();
            // Nobody bars it again before the writers' lock is released (I1). ORDER: Relaxed: the bar that counts us
            // acquires that (E5).
            shared.word_here().fetch_add(READER, Relaxed);
            // SAFETY: held, by this token.
            unsafe { shared.writers.unlock(token) };
        });
    }

    fn is_locked(&self) -> bool {
        self.is_locked_alone().unwrap_or_else(|| {
            self.shared.look(|shared| shared.writers.is_locked() || shared.readers() != 0).unwrap_or(false)
        })
    }

    unsafe fn forget_waiters(&self) {
        if let Some(shared) = self.own() {
            // SAFETY: the caller's contract.
            unsafe { shared.forget_waiters() };
        }
    }

    unsafe fn dispose(&self) {
        // A writer that has it will never release it.
        if let Some(shared) = self.own().filter(|shared| !shared.is_held()) {
            shared.until_idle();
        }
        if self.is_one_word() {
            return self.shared.word().store(ptr::null_mut(), Relaxed);
        }
        // SAFETY: the caller's contract.
        unsafe { self.shared.dispose() };
    }
}

impl<P: Platform, M: LocalLock<P>> Shared<P, M> {
    /// Releases a reader.
    #[inline(always)]
    fn leave(&self) {
        // ORDER: Release is E3; Acquire is E3 and E4, for the last.
        if !self.leave_here() && self.remaining.fetch_sub(READER, AcqRel) == READER {
            // I3, I5.
            grant::<P>(&self.turn);
        }
    }

    /// Ends a writer's section, or its wait for readers: lifts all bars, and wakes a reader of each node where some sleep.
    fn lift(&self) {
        // I3: nobody else changes it while a writer has the lock. ORDER: Relaxed: before what readers do to it by E1, and
        // before what the next writer does by E5.
        self.remaining.store(RESTING, Relaxed);
        self.lift_nodes();
    }

    /// Hands the writers' lock to the next writer, with the bars, if one waits whose turn it is.
    ///
    /// # Safety
    ///
    /// The caller is the writer, by this token of the writers' lock.
    unsafe fn hand_over<R: Rule>(&self, token: M::Token) -> Result<(), M::Token> {
        if R::BATCH == 0 {
            // SAFETY: the caller's contract.
            return unsafe { self.writers.hand_over(token) };
        }
        // SAFETY: the writers' lock is held, here and below.
        let batch = unsafe { self.batch.get() };
        if batch + 1 < R::BATCH {
            // SAFETY: as above.
            unsafe { self.batch.set(batch + 1) };
            // SAFETY: the caller's contract.
            match unsafe { self.writers.hand_over_anywhere(token) } {
                Ok(()) => return Ok(()),
                Err(kept) => {
                    // SAFETY: still held.
                    unsafe { self.batch.set(0) };
                    return Err(kept);
                }
            }
        }
        // SAFETY: as above.
        unsafe { self.batch.set(0) };
        Err(token)
    }

    /// Joins readers that a writer waits for.
    fn join(&self) -> bool {
        let mut seen = self.remaining.load(Relaxed);
        while seen != 0 && !shared::is_resting(seen) {
            // ORDER: E4.
            match self.remaining.compare_exchange(seen, seen + READER, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// The token of the writers' lock, of its holder, who is the caller.
    ///
    /// # Safety
    ///
    /// The caller holds the writers' lock, and has noted its token.
    unsafe fn token(&self) -> M::Token {
        // SAFETY: the caller's contract.
        let word = if M::Token::STORED { unsafe { self.token.get() } } else { 0 };
        // SAFETY: of a token that was noted, or there is but one.
        unsafe { M::Token::from_word(word) }
    }

    /// Notes the token of the writers' lock.
    ///
    /// # Safety
    ///
    /// The caller holds the writers' lock.
    unsafe fn note_token(&self, token: M::Token) {
        if M::Token::STORED {
            // SAFETY: the caller's contract.
            unsafe { self.token.set(token.into_word()) };
        }
    }

    /// Bars all nodes. Returns the sum of their counts.
    fn bar(&self) -> u32 {
        let mut readers = 0_u32;
        self.visit(|word| {
            // ORDER: Acquire is E2.
            readers = readers.wrapping_add(word.fetch_or(BARRED, Acquire) & !FLAGS);
        });
        readers
    }

    /// Whether the writers' lock is held by a writer that has the lock.
    fn is_held(&self) -> bool {
        self.phase.load(Relaxed) == HELD
    }
}
