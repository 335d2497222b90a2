//! Plays for values on which no thread waits: every change adds a number of its own to a total and answers what the total was
//! before.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use lockwork::wait_free::universal::{Change, Outcome, Universal};

use super::{Scenario, Subject};
use crate::model::{ModelPlatform, Play};

/// A total, for so many threads a group. Checkers of orderings see the cells in which it is kept. It is not freed: that would be
/// more steps of the last thread.
type Total<P, const THREADS: usize> = ManuallyDrop<Universal<P, usize, Addition, THREADS, 8>>;

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

fn total<P: ModelPlatform, const THREADS: usize>() -> Arc<Total<P, THREADS>> {
    Arc::new(ManuallyDrop::new(Universal::new(0)))
}

/// Threads add so many numbers each.
fn additions<P: ModelPlatform, const THREADS: usize>(changes: &[usize]) -> Play {
    let (total, history) = (total::<P, THREADS>(), History::default());
    let (end, sum) = (Arc::clone(&history), changes.iter().sum());
    let play = Play::new(move || check(&end, sum));
    changes
        .iter()
        .fold((play, 1), |(play, first), &changes| {
            let (total, history) = (Arc::clone(&total), Arc::clone(&history));
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
    let (total, history) = (total::<P, 2>(), History::default());
    let end = Arc::clone(&history);
    let adder = Arc::clone(&total);
    let play = Play::new(move || check(&end, changes)).with(move || {
        for _ in 0..changes {
            let before = add(&adder, &history, 1);
            assert_eq!(adder.read(|total| *total), before + 1);
        }
    });
    (0..readers).fold(play, |play, _| {
        let total = Arc::clone(&total);
        play.with(move || {
            let read = || total.read(|total| *total);
            let seen: Vec<usize> = (0..times).map(|_| read()).collect();
            assert!(seen.is_sorted() && seen.iter().all(|seen| *seen <= changes), "{seen:?}");
        })
    })
}

/// Threads ask for changes that fail, beside others that add numbers: those that fail leave nothing behind.
fn failures<P: ModelPlatform>(adders: usize, failing: usize) -> Play {
    let (total, history) = (total::<P, 2>(), History::default());
    let end = Arc::clone(&history);
    let play = Play::new(move || check(&end, adders));
    let play = (0..adders).fold(play, |play, thread| {
        let (total, history) = (Arc::clone(&total), Arc::clone(&history));
        play.with(move || _ = add(&total, &history, thread + 1))
    });
    (0..failing).fold(play, |play, thread| {
        let total = Arc::clone(&total);
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
        vec![
            Scenario::new("changes", 2, || additions::<P, 2>(&[2; 2])),
            Scenario::new("changes-of-three", 3, || additions::<P, 2>(&[1; 3])),
            Scenario::new("helped", 2, || additions::<P, 2>(&[3, 1])),
            Scenario::new("readings", 2, || readings::<P>(3, 1, 1)),
            Scenario::new("failures", 2, || failures::<P>(1, 1)),
        ]
    };
    Subject { name: "wait-free".to_owned(), scenarios }
}
