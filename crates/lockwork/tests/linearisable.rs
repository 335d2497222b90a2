//! Histories of a map and of a queue behind every delegate, recorded by 2 to 64 threads, are linearisable.
//!
//! Each section takes a number from the value itself: the order in which the delegate claims to have run the sections. It is
//! looked at whether that order is one: no number is missing or given twice, a plain map or queue that is used in this order
//! gives the same results, and no section that ended before another was requested comes after it.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use lockwork::Delegated;
use lockwork::delegates::DynDelegate;

/// Sections of a history, and threads that record one.
const SECTIONS: usize = 1_920;
const THREADS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// Every delegate by name, and a lock under which sections run in place.
const DELEGATES: [&str; 13] = [
    "oyama",
    "fc",
    "fc-list",
    "cc-synch",
    "dsm-synch",
    "h-synch",
    "p-sim",
    "ffwd",
    "rcl",
    "sanl",
    "sanl-numa",
    "sanl-plus",
    "locked(mcs-stp)",
];

/// Something with operations, each of which has arguments and a result.
trait Object: Default + Send {
    type Operation: Copy + Debug + Send + Sync;
    type Answer: PartialEq + Debug + Send;

    /// The operation number `index` of a thread: no two have the same arguments.
    fn operation(thread: usize, index: usize) -> Self::Operation;

    fn apply(&mut self, operation: Self::Operation) -> Self::Answer;
}

#[derive(Clone, Copy, Debug)]
enum OnMap {
    Insert(u64, u64),
    Remove(u64),
    Get(u64),
}

impl Object for HashMap<u64, u64> {
    type Operation = OnMap;
    type Answer = Option<u64>;

    fn operation(thread: usize, index: usize) -> OnMap {
        // Few keys, so that threads get into each other's way; every value is another one.
        let key = (index * 7 + thread * 3) as u64 % 13;
        match index % 3 {
            0 => OnMap::Insert(key, (thread << 32 | index) as u64),
            1 => OnMap::Get(key),
            _ => OnMap::Remove(key),
        }
    }

    fn apply(&mut self, operation: OnMap) -> Option<u64> {
        match operation {
            OnMap::Insert(key, value) => self.insert(key, value),
            OnMap::Remove(key) => self.remove(&key),
            OnMap::Get(key) => self.get(&key).copied(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum OnQueue {
    Push(u64),
    Pop,
    Len,
}

impl Object for VecDeque<u64> {
    type Operation = OnQueue;
    type Answer = Option<u64>;

    fn operation(thread: usize, index: usize) -> OnQueue {
        match index % 5 {
            0 | 3 => OnQueue::Push((thread << 32 | index) as u64),
            4 => OnQueue::Len,
            _ => OnQueue::Pop,
        }
    }

    fn apply(&mut self, operation: OnQueue) -> Option<u64> {
        match operation {
            OnQueue::Push(value) => {
                self.push_back(value);
                None
            }
            OnQueue::Pop => self.pop_front(),
            OnQueue::Len => Some(self.len() as u64),
        }
    }
}

/// What a thread has done and seen. Times are those of a clock that all threads share.
struct Event<O: Object> {
    requested: u64,
    answered: u64,
    /// The place that the section says it has in the order of all.
    place: usize,
    operation: O::Operation,
    answer: O::Answer,
}

/// Has threads use an object behind the delegate, and returns what they saw.
fn record<O: Object>(spec: &str, threads: usize) -> Vec<Event<O>> {
    let value: Delegated<(usize, O), DynDelegate> =
        Delegated::with_spec(spec, (0, O::default())).unwrap_or_else(|error| panic!("{spec}: {error}"));
    let (clock, start) = (AtomicU64::new(0), Barrier::new(threads));
    thread::scope(|scope| {
        let each = |thread: usize| {
            let (value, clock, start) = (&value, &clock, &start);
            move || {
                start.wait();
                let one = |index: usize| {
                    let operation = O::operation(thread, index);
                    let requested = clock.fetch_add(1, SeqCst);
                    let (place, answer) = value.run(|(next, object)| {
                        *next += 1;
                        (*next - 1, object.apply(operation))
                    });
                    let answered = clock.fetch_add(1, SeqCst);
                    Event { requested, answered, place, operation, answer }
                };
                (0..SECTIONS / threads).map(one).collect::<Vec<_>>()
            }
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(each(thread))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no section panics")).collect()
    })
}

/// Says what is wrong with a history, if anything is.
fn judge<O: Object>(mut history: Vec<Event<O>>) -> Result<(), String> {
    history.sort_unstable_by_key(|event| event.place);
    let (mut object, mut latest_request) = (O::default(), 0);
    for (place, event) in history.iter().enumerate() {
        let Event { requested, answered, operation, answer, .. } = event;
        if event.place != place {
            return Err(format!("the place {place} is missing, or {} was given twice", event.place));
        }
        let wanted = object.apply(*operation);
        if *answer != wanted {
            return Err(format!("{operation:?} at {place} gave {answer:?} instead of {wanted:?}"));
        }
        // A section that had been answered before one ahead of it was requested.
        if *answered < latest_request {
            return Err(format!("{operation:?} at {place} had ended at {answered}, before {latest_request}"));
        }
        latest_request = latest_request.max(*requested);
    }
    Ok(())
}

/// Ends the process if a delegate hangs.
fn in_time(what: &'static str, test: impl FnOnce()) {
    let (ended, end) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        if end.recv_timeout(Duration::from_secs(240)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{what} hangs");
            std::process::abort();
        }
    });
    test();
    drop(ended);
    watchdog.join().expect("it only waits");
}

fn all<O: Object>() {
    for spec in DELEGATES {
        in_time(spec, || {
            for threads in THREADS {
                let verdict = judge(record::<O>(spec, threads));
                assert_eq!(verdict, Ok(()), "{spec}, {threads} threads");
            }
        });
    }
}

#[test]
fn a_map() {
    all::<HashMap<u64, u64>>();
}

#[test]
fn a_queue() {
    all::<VecDeque<u64>>();
}

#[test]
fn every_delegate_is_among_them() {
    for entry in lockwork_locks::registry::delegates() {
        assert!(DELEGATES.contains(&entry.name), "{}", entry.name);
    }
}

/// The judge sees what is to be seen: an answer of another request, a section that did not run, an order against the clock.
#[test]
fn a_history_that_is_not_is_caught() {
    let history = || record::<HashMap<u64, u64>>("locked(ticket)", 4);
    let spoilt = |spoil: fn(&mut Vec<Event<HashMap<u64, u64>>>)| {
        let mut history = history();
        history.sort_unstable_by_key(|event| event.place);
        spoil(&mut history);
        judge(history).expect_err("it is spoilt")
    };
    assert!(spoilt(|history| history[40].answer = Some(u64::MAX)).contains("instead of"));
    assert!(spoilt(|history| _ = history.remove(9)).contains("missing"));
    assert!(spoilt(|history| history[7].place = 8).contains("twice"));
    let late = spoilt(|history| {
        history[0].requested = u64::MAX;
    });
    assert!(late.contains("had ended"), "{late}");
}
