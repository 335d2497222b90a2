//! Where a lock's source asks for an ordering, and how a test weakens it at one place.
//!
//! The cells of a modelled machine know their callers (`track_caller`), so that an edge can be
//! weakened without touching the source: that is what the mutation tests do.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The kind of an operation. A compare-exchange has an ordering of its own for failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A read-modify-write, or the success of a compare-exchange.
    Rmw,
    /// The failure of a compare-exchange.
    Failure,
    /// A fence.
    Fence,
}

/// One place that asks for an ordering stronger than `Relaxed`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Source file, as the compiler names it.
    pub file: &'static str,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
    /// What it does there.
    pub op: Op,
    /// Rank of the ordering it asks for.
    rank: u8,
}

const RANKED: [Ordering; 5] = [Relaxed, Acquire, Release, AcqRel, SeqCst];

impl Site {
    fn new(caller: &'static Location<'static>, op: Op, order: Ordering) -> Self {
        let rank = RANKED.iter().position(|ranked| *ranked == order).expect("a known ordering") as u8;
        Self { file: caller.file(), line: caller.line(), column: caller.column(), op, rank }
    }

    /// The ordering asked for.
    #[must_use]
    pub fn order(&self) -> Ordering {
        RANKED[usize::from(self.rank)]
    }

    /// The next weaker orderings: one edge less each. `Relaxed` for a fence means none.
    #[must_use]
    pub fn weaker(&self) -> &'static [Ordering] {
        match (self.order(), self.op) {
            (AcqRel, _) => &[Acquire, Release],
            (SeqCst, Op::Fence) => &[AcqRel],
            (SeqCst, Op::Rmw) => &[Acquire, Release],
            (Relaxed, _) => &[],
            _ => &[Relaxed],
        }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{} {:?} {:?}", self.file, self.line, self.column, self.op, self.order())
    }
}

thread_local! {
    static SEEN: RefCell<Option<BTreeSet<Site>>> = const { RefCell::new(None) };
    static WEAKENED: Cell<Option<(Site, Ordering)>> = const { Cell::new(None) };
}

/// The ordering to use at a place: the one asked for, or the weaker one that a test put there.
pub(crate) fn ordering(caller: &'static Location<'static>, op: Op, asked: Ordering) -> Ordering {
    if asked == Relaxed {
        return asked;
    }
    let site = Site::new(caller, op, asked);
    SEEN.with_borrow_mut(|seen| seen.as_mut().map(|seen| seen.insert(site)));
    match WEAKENED.get() {
        Some((weakened, weaker)) if weakened == site => weaker,
        _ => asked,
    }
}

/// All places that asked for more than `Relaxed` while `f` ran on this thread.
pub fn record(f: impl FnOnce()) -> BTreeSet<Site> {
    SEEN.set(Some(BTreeSet::new()));
    f();
    SEEN.take().unwrap_or_default()
}

/// Restores the orderings, even when a mutant is caught by a panic.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        WEAKENED.set(None);
    }
}

/// Runs `f` on this thread with `weaker` at `site`.
pub fn weakened<R>(site: Site, weaker: Ordering, f: impl FnOnce() -> R) -> R {
    WEAKENED.set(Some((site, weaker)));
    let _restore = Restore;
    f()
}
