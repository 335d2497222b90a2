//! K42: an MCS queue whose holder has no node, so nothing has to be kept from acquisition to release.
//!
//! Marc A. Auslander, David J. Edelsohn, Orran Y. Krieger, Bryan S. Rosenburg and Robert W. Wisniewski, "Enhancement
//! to the MCS lock for increased functionality and improved programmability", US patent application 2003/0200457,
//! 2003; also in Michael L. Scott, "Shared-Memory Synchronization", Morgan & Claypool, 2013, chapter 4. Deviations:
//! "held, and nobody waits" is a constant rather than the lock's own address, so that the lock may be moved while
//! nobody uses it; a waiter enters by a swap, not by a loop of CASes; nodes come from the platform's pool instead of
//! the stack; waiters can give up at a deadline, and the release skips them; the hand-off is a swap rather than a
//! store, because the waiter may be asleep or gone.
//!
//! Properties: FIFO; 16 bytes a lock; one node of 64 bytes for each waiter, none for the holder; O(1) remote references
//! per hand-off. The uncontended path touches the lock and nothing else. Waiting: spin, stp, park, yield, aware.
//! `try_lock` succeeds only on a free lock with no queue. A waiter that gave up leaves its node in the queue until the
//! release gets there, and goes on with it when it comes back. Avoid the spinning variant with more threads than CPUs: a preempted waiter at the head of the
//! queue stops everybody for its whole time slice.
//!
//! # State
//!
//! ```text
//! tail == null     unlocked
//! tail == HELD     held, nobody waits
//! tail ────────────────────────────┐    held, and waited for; `first` may lag behind `tail`
//! first ──→ n1 ─next→ n2 ─next→ … ─next→ last
//! ```
//!
//! # Invariants
//!
//! - I1: the lock is held exactly while `tail` is not null. It is taken by moving `tail` from null to something else,
//!   or by being granted it.
//! - I2: whoever swaps something out of `tail` links itself to it: to `first` where it was HELD, to the node's
//!   `next` where it was a node. Each link is written once.
//! - I3: `first` means something to the holder only. It is null while `tail` is null or HELD; otherwise it is null
//!   until the first waiter has linked itself. Between a grant and [`settle`](K42::settle) it is stale, and read by
//!   nobody.
//! - I4: a node is recycled once: by its owner in `settle`, or by the releaser that was told it was abandoned; in
//!   both cases after its successor has linked itself, or after a CAS has shown that there is none.
//!
//! # Ordering
//!
//! - E1: the release's CAS of `tail` to null (Release) → the CAS or swap of the next locker that finds null
//!   (Acquire): the critical section.
//! - E2: the waiter's swap of `tail` (Release) → the swap of its successor (Acquire): the node's
//!   initialisation comes before the successor's write to `next`.
//! - E3: the store of `next` or `first` (Release) → the load of whoever looks for a successor (Acquire):
//!   the successor's node is initialised.
//! - E4: `wait::grant` → `WaitPolicy::wait`: the critical section, on a hand-off.
//! - E5: the CAS of `tail` from a node to HELD or null (Release) → the swap that finds HELD (Acquire), directly
//!   or through the CASes of `tail` in between (a release sequence): clearing `first` comes before the
//!   new waiter's write to it.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, Native, Platform, PoolNode};

use crate::api::{RawLock, address};
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};
use crate::wait::{self, Behind, Grant, Owner, Returning, Wait, WaitPolicy, patiently};

/// What is known of K42.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "k42",
    family: Family::Queue,
    order: Order::Fifo,
    bytes: 16,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("in the queue"),
    proofs: &[Proof::of(file!()), Proof::of("wait/policy.rs"), Proof::of("wait/word.rs")],
    citation: Citation {
        key: "auslander03",
        text: "Auslander, Edelsohn, Krieger, Rosenburg, Wisniewski: Enhancement to the MCS lock for increased \
               functionality and improved programmability. US patent application 2003/0200457, 2003",
    },
    summary: "an MCS queue whose holder has no node: nothing to keep while the lock is held",
    properties: "One remote reference per hand-off, however many wait. Uncontended, it touches nothing but the lock.",
    deviations: "\"Held\" is a constant instead of the lock's address; waiters enter by a swap, their nodes come \
                 from a pool; waiters can give up at a deadline and are skipped.",
    avoid: "k42-spin: more threads than CPUs (a preempted waiter stops everybody). k42-stp: very short critical \
            sections with more threads than CPUs (every hand-off may have to wake a sleeper).",
    ..Descriptor::MUTEX
};

/// A queue node.
#[repr(C)]
pub struct K42Node<P: Platform> {
    /// The hand-off word of the node's owner; written by the owner and once by the releaser.
    word: P::Futex,
    /// Written before the node is in the queue.
    owner: Owner<P>,
    /// The successor; written once, by the successor.
    next: P::Ptr<K42Node<P>>,
}

impl<P: Platform> core::fmt::Debug for K42Node<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("K42Node").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for K42Node<P> {
    fn new() -> Self {
        Self { word: P::Futex::new(wait::WAITING), owner: Owner::new(), next: P::Ptr::new(ptr::null_mut()) }
    }
}

/// The K42 lock, waiting by `W`.
#[repr(C)]
pub struct K42<P: Platform, W> {
    /// Null, HELD, or the last waiter.
    tail: P::Ptr<K42Node<P>>,
    /// The first waiter; written by it, or by the holder on its behalf; read by the holder.
    first: P::Ptr<K42Node<P>>,
    policy: PhantomData<W>,
}

const _: () = assert!(size_of::<K42<Native, wait::Spin>>() == DESCRIPTOR.bytes);

impl<P: Platform, W> core::fmt::Debug for K42<P, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (tail, first) = (self.tail.load(Relaxed), self.first.load(Relaxed));
        f.debug_struct("K42").field("tail", &tail).field("first", &first).finish()
    }
}

impl<W> K42<Native, W> {
    /// An unlocked lock, for statics.
    #[must_use]
    pub const fn unlocked() -> Self {
        Self { tail: Native::null(), first: Native::null(), policy: PhantomData }
    }
}

/// The `tail` of a lock that is held and not waited for: no node has this address.
#[inline(always)]
const fn held<P: Platform>() -> *mut K42Node<P> {
    ptr::without_provenance_mut(1)
}

/// The successor in `link`, when a thread is known to be on the way to write it.
fn await_link<P: Platform>(link: &P::Ptr<K42Node<P>>) -> NonNull<K42Node<P>> {
    patiently::<P, _>(|| NonNull::new(link.load(Acquire))) // ORDER: E3.
}

impl<P: Platform, W: WaitPolicy<P>> K42<P, W> {
    #[inline(always)]
    fn acquire_fast(&self) -> bool {
        // ORDER: Acquire is E1. Release is not needed: a CAS continues the release sequence of E5.
        self.tail.compare_exchange(ptr::null_mut(), held::<P>(), Acquire, Relaxed).is_ok()
    }

    /// Lines up and waits; returns whether the lock was acquired before the deadline.
    fn queue_up(&self, wait: &Wait) -> bool {
        let node = P::alloc_node::<K42Node<P>>();
        if wait.deadline.is_none() {
            return self.line_up(node, wait);
        }
        let line_up = |wait: &Wait| self.line_up(node, wait).then_some(());
        let come_back =
            |left, returning: &mut Returning<_, _>, wait: &Wait| self.come_back(left, returning, wait);
        Returning::run(address(self), wait, node, line_up, come_back).is_some()
    }

    /// Goes on with `node`, in which the thread gave up; returns whether the lock was acquired before the deadline.
    #[cold]
    fn come_back(
        &self,
        node: NonNull<K42Node<P>>,
        returning: &mut Returning<P, K42Node<P>>,
        wait: &Wait,
    ) -> Option<()> {
        // SAFETY: I4: ours again, until it is granted (and settled) or abandoned.
        let ours = unsafe { node.as_ref() };
        // The thread ahead may be another one by now. ORDER: E4 where it has been granted.
        if let Some(wait) = returning.take_up(&ours.word, wait) {
            ours.owner.note::<W>();
            W::wait_at(&ours.word, &Behind::new(0, &ours.owner), &wait).ok()?;
        }
        self.settle(node);
        Some(())
    }

    /// [`K42::queue_up`] with `node`, which is fresh.
    fn line_up(&self, node: NonNull<K42Node<P>>, wait: &Wait) -> bool {
        // SAFETY: our own node.
        unsafe { node.as_ref() }.owner.note::<W>();
        // ORDER: Release is E2; Acquire is E1, E2 and E5.
        let pred = self.tail.swap(node.as_ptr(), AcqRel);
        let acquired = pred.is_null() || self.wait_behind(pred, node, wait);
        if acquired {
            self.settle(node);
        }
        acquired
    }

    /// Links `node` behind `pred` and waits; returns whether the lock was granted. If not, the node is
    /// the releaser's.
    fn wait_behind(&self, pred: *mut K42Node<P>, node: NonNull<K42Node<P>>, wait: &Wait) -> bool {
        let (link, ahead) = if pred == held::<P>() {
            (&self.first, 0) // I2. The holder is not known.
        } else {
            // SAFETY: I4: a node that was in `tail` is not recycled before we have linked ourselves to it.
            let pred = unsafe { &*pred };
            (&pred.next, pred.owner.get::<W>())
        };
        link.store(node.as_ptr(), Release); // ORDER: E3.
        // SAFETY: our node lives until it is granted (and settled) or abandoned, and `wait_at` returns then.
        let ours = unsafe { node.as_ref() };
        W::wait_at(&ours.word, &Behind::new(ahead, &ours.owner), wait).is_ok()
    }

    /// The holder takes its node out of the queue.
    fn settle(&self, node: NonNull<K42Node<P>>) {
        // SAFETY: our own node.
        let next = &unsafe { node.as_ref() }.next;
        let mut first = next.load(Acquire); // ORDER: E3.
        if first.is_null() {
            if self.retire_last(node, held::<P>()) {
                return;
            }
            first = await_link::<P>(next).as_ptr();
        }
        // ORDER: Relaxed: only the holder looks at it until it is cleared (I3).
        self.first.store(first, Relaxed);
        // SAFETY: I4: its successor has linked itself, and is done with it.
        unsafe { P::free_node(node) };
    }

    /// Takes `node` out of the queue if nobody is behind it, and leaves the lock as `state` says.
    fn retire_last(&self, node: NonNull<K42Node<P>>, state: *mut K42Node<P>) -> bool {
        // Before the CAS: afterwards the next waiter writes there. ORDER: E5 publishes it.
        self.first.store(ptr::null_mut(), Relaxed);
        // ORDER: Release is E5, and E1 if the lock is freed.
        if self.tail.compare_exchange(node.as_ptr(), state, Release, Relaxed).is_err() {
            return false;
        }
        // SAFETY: I4: there is no successor.
        unsafe { P::free_node(node) };
        true
    }

    /// Hands the lock to the first waiter that has not given up, or frees it if all have.
    #[cold]
    fn pass_on(&self) {
        // A thread has swapped `tail`, so it links itself to `first` (I2).
        let mut succ = await_link::<P>(&self.first);
        loop {
            // SAFETY: the successor's node is initialised (E3) and stays until we grant.
            let node = unsafe { succ.as_ref() };
            match wait::grant::<P>(&node.word) {
                // ORDER: E4. The lock and the node are no longer ours to look at.
                Grant::Accepted => return,
                Grant::Abandoned => {
                    let gone = succ;
                    match NonNull::new(node.next.load(Acquire)) {
                        Some(next) => succ = next, // ORDER: E3.
                        None if self.retire_last(gone, ptr::null_mut()) => return,
                        None => succ = await_link::<P>(&node.next),
                    }
                    // SAFETY: I4: abandoned, and its successor has linked itself.
                    unsafe { P::free_node(gone) };
                }
            }
        }
    }
}

// SAFETY: the lock is taken and granted once at a time (I1), and E1 and E4 order the sections.
unsafe impl<P: Platform, W: WaitPolicy<P>> RawLock<P> for K42<P, W> {
    type Token = ();

    fn new() -> Self {
        Self { tail: P::Ptr::new(ptr::null_mut()), first: P::Ptr::new(ptr::null_mut()), policy: PhantomData }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        // Read first: a failing CAS would take the line from the holder.
        (self.tail.load(Relaxed).is_null() && self.acquire_fast()).then_some(())
    }

    #[inline(always)]
    fn lock_fast(&self) -> Option<()> {
        self.acquire_fast().then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        self.queue_up(wait).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // With a waiter known, there is no point in a CAS that must fail (I3). ORDER: Relaxed: `pass_on` reads again.
        let alone = self.first.load(Relaxed).is_null();
        // ORDER: Release is E1.
        let passes_on = match alone {
            false => true,
            // A free lock stays as it is: POSIX leaves unlocking one undefined, glibc makes it harmless.
            true => self
                .tail
                .compare_exchange(held::<P>(), ptr::null_mut(), Release, Relaxed)
                .is_err_and(|tail| !tail.is_null()),
        };
        if passes_on {
            self.pass_on();
        }
    }

    fn is_locked(&self) -> bool {
        !self.tail.load(Relaxed).is_null()
    }

    unsafe fn forget_waiters(&self, _holder: Option<()>) {
        if self.is_locked() {
            self.first.store(ptr::null_mut(), Relaxed);
            self.tail.store(held::<P>(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwork_platform::{Clock, Deadline};

    use super::*;
    use crate::wait::Spin;

    const PAST: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };

    fn state(lock: &K42<Native, Spin>) -> (usize, usize) {
        (lock.tail.load(Relaxed).addr(), lock.first.load(Relaxed).addr())
    }

    #[test]
    fn zeroed_memory_is_an_unlocked_lock() {
        // SAFETY: a null pointer is a valid atomic pointer.
        let lock: K42<Native, Spin> = unsafe { core::mem::zeroed() };
        assert!(!lock.is_locked());
        assert!(lock.try_lock().is_some());
        assert_eq!(state(&lock), (1, 0));
        assert!(lock.try_lock().is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(state(&lock), (0, 0));
    }

    #[test]
    fn the_release_skips_those_who_gave_up_and_frees_the_lock() {
        let lock = K42::<Native, Spin>::unlocked();
        let () = lock.lock();
        for _ in 0..3 {
            assert!(lock.try_lock_until(PAST).is_none());
        }
        assert_ne!(state(&lock), (1, 0));
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(state(&lock), (0, 0));
    }

    #[test]
    fn a_node_that_finds_the_lock_free_is_settled() {
        let lock = K42::<Native, Spin>::unlocked();
        assert!(lock.queue_up(&Wait::until(None)));
        assert_eq!(state(&lock), (1, 0));
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        assert_eq!(state(&lock), (0, 0));
    }

    #[test]
    fn forgetting_waiters_keeps_the_lock_locked() {
        let lock = K42::<Native, Spin>::unlocked();
        let () = lock.lock();
        assert!(lock.try_lock_until(PAST).is_none());
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(Some(())) };
        lockwork_platform::bookmarks::forget(crate::api::address(&lock), size_of_val(&lock));
        assert_eq!(state(&lock), (1, 0));
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        // SAFETY: nobody else uses this lock.
        unsafe { lock.forget_waiters(None) };
        assert_eq!(state(&lock), (0, 0));
    }
}
