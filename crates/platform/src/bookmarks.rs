//! Bookmarks: how a thread that gave up waiting in a queue finds its place again.
//!
//! A waiter whose deadline passes leaves its node in the queue, for a release to skip. A program that tries again and again
//! would leave a node each time. So the waiter writes the number of a bookmark into the node's hand-off word, and the bookmark
//! says which node of which queue it is: when the thread waits for the same lock again, it goes on with that node, in its old
//! place. The node's memory may have been recycled meanwhile, a bookmark's is never: the two threads that want the node, its
//! owner and a releaser that is about to skip it, meet at the bookmark.
//!
//! Bookmarks belong to a registered thread; those that a thread leaves behind when it ends go to the next one with its slot,
//! together with its places in queues. The memory of a lock that is not used any more while it is held, and becomes another
//! lock, has to be forgotten ([`forget`]). A child of `fork` begins without any: the queues may be emptied there. So there is at
//! most one abandoned node for each queue and thread that exists at a time, but for the moment in which a releaser decides.
//!
//! # State
//!
//! ```text
//!           waits, or nothing       gives up             comes back
//!  meeting: AWAY (0) ────────────────────→ OPEN ──────────────────────→ AWAY
//!                                           └── a releaser skips the node ──→ SEEN
//! ```
//!
//! `phase` and what is behind it belong to the owner, which a signal handler of its own thread may interrupt.
//!
//! # Invariants
//!
//! - I1: a node carries the number of the same bookmark for as long as it is in a queue, and a bookmark is noted in one node at
//!   most.
//! - I2: the thread that moves `meeting` from `OPEN` has the node: the owner (to `AWAY`), or a thread that may take nodes out of the queue (to
//!   `SEEN`).
//! - I3: a thread that moves on a word which says that its owner gave up visits the bookmark once, by [`Bookmark::visit`]. An owner
//!   that comes back and finds its word moved on does not use the bookmark again before that visit.
//!
//! # Ordering
//!
//! `meeting` orders nothing: what the two do to the node is ordered by the node's word, whose abandonment publishes that it is
//! open.

use core::num::NonZeroU32;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use crate::published::Published;
use crate::{AtomicCell, Cells, NODE_BYTES, Native, sys, waiters};

/// The owner has the node, or there is none.
const AWAY: u32 = 0;
/// The owner has given up.
const OPEN: u32 = 1;
/// A releaser has the node, or has granted it.
const SEEN: u32 = 2;

/// Of `phase`: the bookmark is for no wait.
const IDLE: u32 = 0;
/// The owner waits with the node, or is about to do something with the bookmark.
const USED: u32 = 1;
/// The owner has given up.
const LEFT: u32 = 2;
/// The owner was granted what it came back for, and the granter's visit may be still to come.
const VISITED: u32 = 3;

/// What a thread waits for, for bookmarks: a queue, and the type of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its address.
    pub address: usize,
    /// A number of the type of its nodes.
    pub kind: u64,
}

/// A bookmark.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Bookmark<C: Cells> {
    /// Where the owner and releasers meet.
    meeting: C::U32,
    phase: AtomicU32,
    /// The number of the next bookmark of the same thread; 0 = none.
    next: AtomicU32,
    address: AtomicUsize,
    kind: AtomicU64,
    node: AtomicUsize,
}

const _: () = assert!(size_of::<Bookmark<Native>>() == NODE_BYTES);

impl<C: Cells> Bookmark<C> {
    /// One that its owner uses, before `next`.
    #[must_use]
    pub fn new(next: u32) -> Self {
        Self {
            meeting: C::U32::new(AWAY),
            phase: AtomicU32::new(USED),
            next: AtomicU32::new(next),
            address: AtomicUsize::new(0),
            kind: AtomicU64::new(0),
            node: AtomicUsize::new(0),
        }
    }

    fn move_on(&self, from: u32, to: u32) -> bool {
        self.phase.compare_exchange(from, to, Relaxed, Relaxed).is_ok()
    }

    fn is_of(&self, queue: Queue) -> bool {
        self.address.load(Relaxed) == queue.address && self.kind.load(Relaxed) == queue.kind
    }

    /// As the owner: takes the node of this queue up again, if it gave up there and the node is still in the queue.
    fn come_back(&self, queue: Queue) -> Option<usize> {
        if self.phase.load(Relaxed) != LEFT || !self.is_of(queue) || !self.move_on(LEFT, USED) {
            return None;
        }
        // A signal handler may have used it for another queue in between.
        if !self.is_of(queue) {
            self.phase.store(LEFT, Relaxed);
            return None;
        }
        if self.meeting.compare_exchange(OPEN, AWAY, Relaxed, Relaxed).is_ok() {
            return Some(self.node.load(Relaxed)); // I2.
        }
        self.phase.store(IDLE, Relaxed);
        None
    }

    /// As the owner: takes the bookmark for a new node, if it is for none.
    fn take(&self) -> bool {
        match self.phase.load(Relaxed) {
            IDLE => self.move_on(IDLE, USED),
            // I3.
            phase @ (LEFT | VISITED) => self.meeting.load(Relaxed) == SEEN && self.move_on(phase, USED),
            _ => false,
        }
    }

    /// As the owner: notes a node that it is about to wait with.
    pub fn note(&self, queue: Queue, node: usize) {
        self.meeting.store(AWAY, Relaxed);
        self.address.store(queue.address, Relaxed);
        self.kind.store(queue.kind, Relaxed);
        self.node.store(node, Relaxed);
    }

    /// As the owner: notes another node instead.
    pub fn leaves(&self, node: usize) {
        self.node.store(node, Relaxed);
    }

    /// As the owner: lets releasers have the node. To be called before the node's word says that the owner gave up, by a
    /// write that releases.
    #[track_caller]
    pub fn open(&self) {
        self.meeting.store(OPEN, Relaxed);
    }

    /// As the owner, whose node has been granted before its word could say that it gave up.
    #[track_caller]
    pub fn close(&self) {
        self.meeting.store(AWAY, Relaxed);
    }

    /// As the owner: ends a wait.
    pub fn end(&self, end: End) {
        let phase = match end {
            End::Granted => IDLE,
            End::GrantedOnReturn => VISITED,
            // It may have left the queue.
            End::GaveUp if self.meeting.load(Relaxed) == AWAY => IDLE,
            End::GaveUp => LEFT,
        };
        self.phase.store(phase, Relaxed);
    }

    /// As a thread that has moved on a word which said that the owner gave up (I3): whether the node is the caller's. Else the
    /// owner has come back, and finds what was made of the word.
    pub fn visit(&self) -> bool {
        self.meeting.swap(SEEN, Relaxed) == OPEN
    }
}

/// How a wait with a bookmark ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The waiter was granted what it waited for.
    Granted,
    /// It had given up, came back, and was granted what it waited for while it did.
    GrantedOnReturn,
    /// Its deadline passed.
    GaveUp,
}

/// A bookmark for a wait.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    /// The bookmark's number.
    pub number: NonZeroU32,
    /// The node in which the thread gave up waiting for the same queue before, and which it has again; it was abandoned by
    /// this bookmark.
    pub node: Option<usize>,
}

/// Bookmarks of threads.
pub trait Bookmarks: Cells {
    /// The number of the calling thread's first bookmark; `None` if it can have none.
    fn first_bookmark<R>(use_it: impl FnOnce(&AtomicU32) -> R) -> Option<R> {
        let _ = use_it;
        None
    }

    /// Uses a bookmark.
    ///
    /// # Panics
    ///
    /// If there is none with this number.
    fn bookmark<R>(number: NonZeroU32, use_it: impl FnOnce(&Bookmark<Self>) -> R) -> R {
        let _ = use_it;
        panic!("no bookmark {number}")
    }

    /// Makes a bookmark before `next`; `None` if there is no memory.
    fn make_bookmark(next: u32) -> Option<NonZeroU32> {
        let _ = next;
        None
    }

    /// A bookmark for a wait of the calling thread in `queue`, with the node that it left there, if it has. `None`: the
    /// thread can have none now, and what it abandons it does not find again.
    fn mark(queue: Queue) -> Option<Marked> {
        Self::first_bookmark(|first| {
            let all = || {
                let mut next = NonZeroU32::new(first.load(Relaxed));
                core::iter::from_fn(move || {
                    let number = next?;
                    next = Self::bookmark(number, |mark| NonZeroU32::new(mark.next.load(Relaxed)));
                    Some(number)
                })
            };
            let back = |number| {
                let node = Self::bookmark(number, |mark| mark.come_back(queue))?;
                Some(Marked { number, node: Some(node) })
            };
            let fresh = |number| Marked { number, node: None };
            all().find_map(back).or_else(|| {
                let idle = all().find(|number| Self::bookmark(*number, Bookmark::take));
                idle.map(fresh).or_else(|| {
                    let before = first.load(Relaxed);
                    let number = Self::make_bookmark(before)?;
                    // A signal handler that comes in between loses what it has added, 64 bytes.
                    first.store(number.get(), Relaxed);
                    Some(fresh(number))
                })
            })
        })?
    }
}

/// Bookmarks in the first segment; each segment has twice as many as the one before.
const IN_FIRST: usize = 64;
const SEGMENTS: usize = 16;

static MARKS: [Published<Native, Bookmark<Native>>; SEGMENTS] = [const { Published::nothing() }; SEGMENTS];
/// Numbers that have been given out.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Where the bookmark of this number, from 1, is: segment and place in it.
fn place_of(number: NonZeroU32) -> (usize, usize) {
    let index = number.get() as usize - 1;
    let segment = (index / IN_FIRST + 1).ilog2() as usize;
    (segment, index - IN_FIRST * ((1 << segment) - 1))
}

fn segment(number: usize) -> Option<NonNull<Bookmark<Native>>> {
    let published = MARKS.get(number)?;
    if let Some(there) = NonNull::new(published.pointer()) {
        return Some(there);
    }
    let bytes = (IN_FIRST << number) * size_of::<Bookmark<Native>>();
    let fresh = sys::map_pages(bytes)?.cast::<Bookmark<Native>>();
    // SAFETY: zeroed pages, which are valid bookmarks, and stay.
    match unsafe { published.replace(ptr::null_mut(), fresh) } {
        Ok(()) => Some(fresh),
        Err(there) => {
            // SAFETY: nobody else has seen `fresh`.
            unsafe { sys::unmap_pages(fresh.cast(), bytes) };
            NonNull::new(there)
        }
    }
}

/// Says that the memory of `bytes` bytes at `start` is no lock any more that threads gave up waiting for, though it may have been
/// held to the last: whoever waits for another lock there lines up anew. Nobody uses a lock there meanwhile.
pub fn forget(start: usize, bytes: usize) {
    for number in (1..=MADE.load(Relaxed)).filter_map(NonZeroU32::new) {
        if MARKS[place_of(number).0].pointer().is_null() {
            continue; // There was no memory for it.
        }
        Native::bookmark(number, |mark| {
            let address = mark.address.load(Relaxed);
            if address.wrapping_sub(start) < bytes {
                // Fails where its owner uses it for another queue by now.
                let _ = mark.address.compare_exchange(address, 0, Relaxed, Relaxed);
            }
        });
    }
}

impl Bookmarks for Native {
    fn first_bookmark<R>(use_it: impl FnOnce(&AtomicU32) -> R) -> Option<R> {
        waiters::current().map(|slot| use_it(&slot.bookmarks))
    }

    fn bookmark<R>(number: NonZeroU32, use_it: impl FnOnce(&Bookmark<Self>) -> R) -> R {
        let (segment, place) = place_of(number);
        let first = MARKS[segment].pointer();
        // SAFETY: the number was given out after its segment was published, and the segment has a bookmark there.
        let mark = unsafe { first.add(place) };
        // SAFETY: a segment is written once, before it is published, and stays.
        use_it(unsafe { &*mark })
    }

    fn make_bookmark(next: u32) -> Option<NonZeroU32> {
        let fits = |made: u32| (place_of(NonZeroU32::new(made + 1)?).0 < SEGMENTS).then_some(made + 1);
        let number = NonZeroU32::new(MADE.fetch_update(Relaxed, Relaxed, fits).ok()? + 1)?;
        segment(place_of(number).0)?;
        Self::bookmark(number, |mark| {
            mark.phase.store(USED, Relaxed);
            mark.next.store(next, Relaxed);
        });
        Some(number)
    }
}
