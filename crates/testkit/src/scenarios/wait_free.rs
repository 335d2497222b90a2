//! Plays for values on which no thread waits: every change adds a number of its own to a total and answers what the total was
//! before.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::{Arc, Mutex};

use lockwork::wait_free::universal::{Change, Outcome, Universal};
use lockwork_platform::{AtomicCell, AtomicInt, Cells};

use super::{Scenario, Subject};
use crate::model::{ModelPlatform, Play};

/// A total, for so many threads a group. Checkers of orderings see the cells in which it is kept.
type Total<P, const THREADS: usize> = Universal<P, usize, Addition, THREADS, 8>;

struct Shared<P: ModelPlatform, const THREADS: usize> {
    total: UnsafeCell<ManuallyDrop<Total<P, THREADS>>>,
    /// How many threads have it.
    left: <P as Cells>::Usize,
}

/// What a thread has of a total. The last one frees it: kept, those of all executions would fill the memory.
struct Handle<P: ModelPlatform, const THREADS: usize>(Arc<Shared<P, THREADS>>);

// SAFETY: a total may be shared, and is freed when nobody has it any more.
unsafe impl<P: ModelPlatform, const THREADS: usize> Send for Handle<P, THREADS> {}

impl<P: ModelPlatform, const THREADS: usize> Deref for Handle<P, THREADS> {
    type Target = Total<P, THREADS>;

    fn deref(&self) -> &Self::Target {
        // SAFETY: it is there as long as a thread has it.
        unsafe { &*self.0.total.get() }
    }
}

impl<P: ModelPlatform, const THREADS: usize> Drop for Handle<P, THREADS> {
    fn drop(&mut self) {
        // An execution that has failed is over. ORDER: all uses of the total → its end.
        if !std::thread::panicking() && self.0.left.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: nobody has it any more.
            let total = unsafe { &mut *self.0.total.get() };
            // SAFETY: once.
            unsafe { ManuallyDrop::drop(total) };
        }
    }
}

/// A new total for so many threads.
fn total<P: ModelPlatform, const THREADS: usize>(threads: usize) -> Vec<Handle<P, THREADS>> {
    let total = UnsafeCell::new(ManuallyDrop::new(Universal::new(0)));
    let shared = Arc::new(Shared { total, left: <P as Cells>::Usize::new(threads) });
    (0..threads).map(|_| Handle(Arc::clone(&shared))).collect()
}

/// Adds a number, or fails in the midst.
struct Addition {
    number: usize,
    fails: bool,
}

impl Change<usize> for Addition {
    type Output = usize;

    fn apply(&self, total: &mut usize) -> Outcome<usize> {
        let before = *total;
        *total += self.number;
        if self.fails { Err(self.number.to_string()) } else { Ok(before) }
    }
}

/// What each change added, and what its requester was told.
type History = Arc<Mutex<Vec<(usize, usize)>>>;

/// Checks that the answers are those of some order of the changes.
fn check(history: &History, changes: usize) {
    let mut history = history.lock().expect("all threads have ended").clone();
    assert_eq!(history.len(), changes, "{history:?}");
    history.sort_unstable_by_key(|(_, before)| *before);
    history.iter().fold(0, |total, (number, before)| {
        assert_eq!(*before, total, "{history:?}");
        total + number
    });
}

/// A play that ends with the check of so many changes.
fn ending(history: &History, changes: usize) -> Play {
    let history = Arc::clone(history);
    Play::new(move || check(&history, changes))
}

/// Applies a change for the calling thread.
fn apply<P: ModelPlatform, const THREADS: usize>(
    total: &Total<P, THREADS>,
    change: Addition,
) -> Outcome<usize> {
    // SAFETY: the number is the calling thread's, and changes, totals and answers apply nothing.
    unsafe { total.apply(P::thread_id() as usize - 1, change) }
}

/// Adds `number`; returns what the total was before.
fn add<P: ModelPlatform, const THREADS: usize>(
    total: &Total<P, THREADS>,
    history: &History,
    number: usize,
) -> usize {
    let before = apply(total, Addition { number, fails: false });
    let before = before.expect("it does not fail");
    history.lock().expect("no panic while it is held").push((number, before));
    before
}

/// Threads add so many numbers each.
fn additions<P: ModelPlatform, const THREADS: usize>(changes: &[usize]) -> Play {
    let (mut totals, history) = (total::<P, THREADS>(changes.len()), History::default());
    let play = ending(&history, changes.iter().sum());
    changes
        .iter()
        .fold((play, 1), |(play, first), &changes| {
            let (total, history) = (totals.pop().expect("one a thread"), Arc::clone(&history));
            let play = play.with(move || {
                let mut last = None;
                for number in first..first + changes {
                    let before = add(&total, &history, number);
                    assert!(last < Some(before), "the thread's own changes are in its order");
                    last = Some(before);
                }
            });
            (play, first + changes)
        })
        .0
}

/// One thread adds numbers, and others read the total: each sees it grow.
fn readings<P: ModelPlatform>(changes: usize, readers: usize, times: usize) -> Play {
    let (mut totals, history) = (total::<P, 2>(1 + readers), History::default());
    let adder = totals.pop().expect("one a thread");
    let play = ending(&history, changes);
    let play = play.with(move || {
        for _ in 0..changes {
            let before = add(&adder, &history, 1);
            assert_eq!(adder.read(|total| *total), before + 1);
        }
    });
    (0..readers).fold(play, |play, _| {
        let total = totals.pop().expect("one a thread");
        play.with(move || {
            let read = || total.read(|total| *total);
            let seen: Vec<usize> = (0..times).map(|_| read()).collect();
            assert!(seen.is_sorted() && seen.iter().all(|seen| *seen <= changes), "{seen:?}");
        })
    })
}

/// Threads ask for changes that fail, beside others that add numbers: those that fail leave nothing behind.
fn failures<P: ModelPlatform>(adders: usize, failing: usize) -> Play {
    let (mut totals, history) = (total::<P, 2>(adders + failing), History::default());
    let play = ending(&history, adders);
    let play = (0..adders).fold(play, |play, thread| {
        let (total, history) = (totals.pop().expect("one a thread"), Arc::clone(&history));
        play.with(move || _ = add(&total, &history, thread + 1))
    });
    (0..failing).fold(play, |play, thread| {
        let total = totals.pop().expect("one a thread");
        play.with(move || {
            let number = 1_000 + thread;
            let outcome = apply(&total, Addition { number, fails: true });
            assert_eq!(outcome, Err(number.to_string()));
        })
    })
}

/// The plays of values that threads change without waiting for each other.
#[must_use]
pub fn wait_free<P: ModelPlatform>(large: bool) -> Subject {
    let scenarios = if large {
        vec![
            Scenario::new("crowd", 8, || additions::<P, 2>(&[2; 8])),
            Scenario::new("rounds", 3, || additions::<P, 2>(&[6; 3])),
            Scenario::new("readings", 4, || readings::<P>(8, 3, 4)),
            Scenario::new("failures", 6, || failures::<P>(3, 3)),
        ]
    } else {
        // Three switches take half a minute, and find nothing more.
        vec![
            Scenario::new("changes", 2, || additions::<P, 2>(&[2; 2])).within(2),
            Scenario::new("changes-of-three", 3, || additions::<P, 2>(&[1; 3])),
            Scenario::new("helped", 2, || additions::<P, 2>(&[3, 1])).within(2),
            Scenario::new("readings", 2, || readings::<P>(3, 1, 1)),
            Scenario::new("failures", 2, || failures::<P>(1, 1)),
        ]
    };
    Subject { name: "wait-free".to_owned(), scenarios }
}
