//! Values on which no thread waits for another one.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Weak, mpsc};
use std::thread;
use std::time::Duration;

use lockwork::{Operation, WaitFree};

const THREADS: u64 = 8;
const OPERATIONS: u64 = if cfg!(miri) { 5 } else { 500 };

/// Ends the process if a test hangs.
fn in_time(test: impl FnOnce()) {
    let (ended, end) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        if end.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a test of wait-free values hangs");
            std::process::abort();
        }
    });
    test();
    drop(ended);
    watchdog.join().expect("it only waits");
}

/// Adds a number to a total, and answers what the total was before.
struct Add(u64);

impl Operation<u64> for Add {
    type Output = u64;

    fn apply(&self, total: &mut u64) -> u64 {
        let before = *total;
        *total += self.0;
        before
    }
}

/// The answers are those of one order of all operations, in which those of a thread are in its order.
fn check(mut history: Vec<(u64, u64)>, total: u64) {
    history.sort_unstable_by_key(|(_, before)| *before);
    let sum = history.iter().fold(0, |sum, (number, before)| {
        assert_eq!(*before, sum, "{history:?}");
        sum + number
    });
    assert_eq!(sum, total);
}

#[test]
fn operations_are_applied_once_each_in_one_order() {
    in_time(|| {
        let total = WaitFree::new(0);
        let history = thread::scope(|scope| {
            let work = |thread: u64| {
                let total = &total;
                move || {
                    let numbers = (0..OPERATIONS).map(|operation| thread * OPERATIONS + operation + 1);
                    let mine: Vec<(u64, u64)> =
                        numbers.map(|number| (number, total.apply(Add(number)))).collect();
                    assert!(mine.is_sorted_by_key(|(_, before)| *before), "{mine:?}");
                    assert!(total.read(|total| *total) > mine[mine.len() - 1].1);
                    mine
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(work(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        check(history, total.into_inner());
    });
}

#[test]
fn threads_come_and_go() {
    in_time(|| {
        let total = Arc::new(WaitFree::new(0));
        let mut history = Vec::new();
        for generation in 0..if cfg!(miri) { 2 } else { 100 } {
            let all = Arc::new(Barrier::new(THREADS as usize));
            let work = |thread: u64| {
                let (total, all) = (Arc::clone(&total), Arc::clone(&all));
                move || {
                    all.wait();
                    let number = generation * THREADS + thread + 1;
                    (number, total.apply(Add(number)))
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| thread::spawn(work(thread))).collect();
            history.extend(threads.into_iter().map(|thread| thread.join().expect("no panic")));
        }
        check(history, total.read(|total| *total));
    });
}

thread_local! {
    static STANDS_STILL: Cell<bool> = const { Cell::new(false) };
}

/// As [`Add`]; one thread does not come to the end of it before it is let.
struct Gated {
    number: u64,
    begun: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
}

impl Operation<u64> for Gated {
    type Output = u64;

    fn apply(&self, total: &mut u64) -> u64 {
        if STANDS_STILL.get() {
            self.begun.store(true, SeqCst);
            while !self.end.load(SeqCst) {
                thread::yield_now();
            }
        }
        Add(self.number).apply(total)
    }
}

/// A thread is stopped in the middle of its operation: the others apply it with theirs, and go on.
#[test]
fn a_thread_that_stands_still_holds_up_nobody() {
    in_time(|| {
        let total = WaitFree::new(0);
        let (begun, end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let gated = |number| Gated { number, begun: Arc::clone(&begun), end: Arc::clone(&end) };
        thread::scope(|scope| {
            let stopped = scope.spawn(|| {
                STANDS_STILL.set(true);
                total.apply(gated(1_000_000))
            });
            while !begun.load(SeqCst) {
                thread::yield_now();
            }
            let others: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| (0..OPERATIONS).for_each(|_| _ = total.apply(gated(1)))))
                .collect();
            for other in others {
                other.join().expect("no panic");
            }
            assert_eq!(total.read(|total| *total), 1_000_000 + 3 * OPERATIONS);
            end.store(true, SeqCst);
            assert!(stopped.join().expect("no panic") <= 3 * OPERATIONS);
        });
        assert_eq!(total.into_inner(), 1_000_000 + 3 * OPERATIONS);
    });
}

/// Appends a number, or leaves half of one behind and panics.
struct Append(u64, bool);

impl Operation<Vec<u64>> for Append {
    type Output = usize;

    fn apply(&self, list: &mut Vec<u64>) -> usize {
        list.push(self.0);
        assert!(!self.1, "the number {}", self.0);
        list.len()
    }
}

/// A panic is that of the thread which asked for the operation, and changes nothing.
#[test]
fn an_operation_that_panics_changes_nothing() {
    in_time(|| {
        let list = WaitFree::new(Vec::new());
        thread::scope(|scope| {
            for thread in 0..4 {
                let list = &list;
                scope.spawn(move || {
                    for operation in 0..if cfg!(miri) { 3 } else { 60 } {
                        let (number, panics) = (thread * 1_000 + operation, operation % 3 == 2);
                        let outcome = catch_unwind(AssertUnwindSafe(|| list.apply(Append(number, panics))));
                        match outcome {
                            Ok(length) => assert!(!panics && length > 0),
                            Err(panic) => {
                                let text = panic.downcast_ref::<String>().expect("a text");
                                assert!(panics && *text == format!("the number {number}"), "{text}");
                            }
                        }
                    }
                });
            }
        });
        let mut list = list.into_inner();
        assert!(list.iter().all(|number| number % 1_000 % 3 != 2), "{list:?}");
        list.sort_unstable();
        list.dedup();
        assert_eq!(list.len(), 4 * if cfg!(miri) { 2 } else { 40 });
    });
}

/// Asks for an operation on the same value inside of one.
struct Nested(Arc<WaitFree<u64, Add>>);

impl Operation<u64> for Nested {
    type Output = u64;

    fn apply(&self, total: &mut u64) -> u64 {
        *total += self.0.apply(Add(1));
        *total
    }
}

#[test]
fn operations_ask_for_no_others() {
    let inner = Arc::new(WaitFree::new(0));
    let outer = WaitFree::new(0);
    let outcome = catch_unwind(AssertUnwindSafe(|| outer.apply(Nested(Arc::clone(&inner)))));
    let panic = outcome.expect_err("it may be applied several times");
    assert!(panic.downcast_ref::<String>().expect("a text").contains("any number of times"));
    assert_eq!((outer.into_inner(), inner.read(|total| *total)), (0, 0));
}

static ALIVE: AtomicU64 = AtomicU64::new(0);

/// A value that is counted.
struct Counted(u64);

impl Counted {
    fn new(number: u64) -> Self {
        ALIVE.fetch_add(1, SeqCst);
        Self(number)
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, SeqCst);
    }
}

impl Operation<Counted> for Add {
    type Output = u64;

    fn apply(&self, total: &mut Counted) -> u64 {
        self.apply(&mut total.0)
    }
}

/// Copies that have been replaced are used again, and freed with the value.
#[test]
fn copies_come_back() {
    in_time(|| {
        let total = WaitFree::new(Counted::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..OPERATIONS).for_each(|_| _ = total.apply(Add(1))));
            }
        });
        // Two for each thread, one more for each other thread that has been seen stopped, and the first one.
        assert!(ALIVE.load(SeqCst) <= 4 * (2 + 3) + 1, "{ALIVE:?}");
        assert_eq!(total.into_inner().0, 4 * OPERATIONS);
        assert_eq!(ALIVE.load(SeqCst), 0);
    });
}

thread_local! {
    static COPIES_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// A value whose copies may panic.
struct Fragile(u64);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        if COPIES_PANIC.get() {
            resume_unwind(Box::new("a copy that panics")); // Says nothing.
        }
        Self(self.0)
    }
}

impl Operation<Fragile> for Add {
    type Output = u64;

    fn apply(&self, total: &mut Fragile) -> u64 {
        self.apply(&mut total.0)
    }
}

/// What a thread announced before a copy panicked is applied before what it asks for next, and once.
#[test]
fn a_copy_that_panics_loses_no_operation() {
    in_time(|| {
        let total = WaitFree::new(Fragile(0));
        assert_eq!(total.apply(Add(1)), 0);
        for round in 0..5 {
            COPIES_PANIC.set(true);
            let outcome = catch_unwind(AssertUnwindSafe(|| total.apply(Add(10))));
            COPIES_PANIC.set(false);
            assert!(outcome.is_err(), "the panic is the thread's");
            assert_eq!(total.apply(Add(100)), 1 + 110 * round + 10);
        }
        assert_eq!(total.into_inner().0, 551);
    });
}

/// Users of a state that unwind are counted no longer: so many would run into its address.
#[test]
fn however_many_copies_panic() {
    in_time(|| {
        let total = WaitFree::new(Fragile(0));
        assert_eq!(total.apply(Add(1)), 0);
        COPIES_PANIC.set(true);
        for _ in 0..if cfg!(miri) { 20 } else { 70_000 } {
            catch_unwind(AssertUnwindSafe(|| total.apply(Add(10)))).expect_err("the panic is the thread's");
        }
        COPIES_PANIC.set(false);
        assert_eq!(total.apply(Add(100)), 11, "the first of them was announced");
        assert_eq!(total.into_inner().0, 111);
    });
}

static REFUSED: AtomicU64 = AtomicU64::new(0);

/// As [`Add`]; asks for another one when it is dropped.
struct Last {
    number: u64,
    total: Weak<WaitFree<u64, Last>>,
}

impl Operation<u64> for Last {
    type Output = u64;

    fn apply(&self, total: &mut u64) -> u64 {
        Add(self.number).apply(total)
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(total) = self.total.upgrade() {
            let another = Self { number: 1_000_000, total: Weak::new() };
            let outcome = catch_unwind(AssertUnwindSafe(|| total.apply(another)));
            outcome.expect_err("it is dropped inside of an operation");
            REFUSED.fetch_add(1, SeqCst);
        }
    }
}

/// An earlier operation of a thread is dropped inside of a later one: if it asks for another one, nobody's bits change.
#[test]
fn operations_that_end_ask_for_no_others() {
    in_time(|| {
        let total = Arc::new(WaitFree::new(0));
        let history = thread::scope(|scope| {
            let work = |thread: u64| {
                let total = &total;
                move || {
                    let numbers = (0..OPERATIONS).map(|operation| thread * OPERATIONS + operation + 1);
                    let apply = |number| total.apply(Last { number, total: Arc::downgrade(total) });
                    numbers.map(|number| (number, apply(number))).collect::<Vec<_>>()
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(work(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(REFUSED.load(SeqCst) > 0);
        check(history, Arc::into_inner(total).expect("nobody has it").into_inner());
    });
}

thread_local! {
    static MEDDLES: Cell<bool> = const { Cell::new(false) };
}

static MEDDLED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// A value and a result: copying it, and dropping it, asks for an operation, in threads that meddle.
struct Meddler {
    number: u64,
    total: Weak<WaitFree<Meddler, Meddle>>,
}

struct Meddle;

impl Operation<Meddler> for Meddle {
    type Output = Meddler;

    fn apply(&self, total: &mut Meddler) -> Meddler {
        total.number += 1;
        Meddler { number: total.number, total: Weak::clone(&total.total) }
    }
}

impl Meddler {
    fn meddle(&self, is_copied: bool) {
        if MEDDLES.get() {
            let total = self.total.upgrade().expect("it is in use");
            let outcome = catch_unwind(AssertUnwindSafe(|| total.apply(Meddle)));
            assert!(outcome.is_err(), "it is inside of an operation");
            MEDDLED[usize::from(is_copied)].fetch_add(1, SeqCst);
        }
    }
}

impl Clone for Meddler {
    fn clone(&self) -> Self {
        self.meddle(true);
        Self { number: self.number, total: Weak::clone(&self.total) }
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.meddle(false);
    }
}

/// What is copied or dropped inside of an operation asks for none.
#[test]
fn copies_ask_for_no_operations() {
    in_time(|| {
        let make =
            |total: &Weak<WaitFree<_, _>>| WaitFree::new(Meddler { number: 0, total: Weak::clone(total) });
        let total = Arc::new_cyclic(make);
        for number in 1..=5 {
            MEDDLES.set(true);
            let outcome = total.apply(Meddle);
            MEDDLES.set(false);
            assert_eq!(outcome.number, number);
        }
        let [dropped, copied] = MEDDLED.each_ref().map(|count| count.load(SeqCst));
        assert!(dropped > 0 && copied > 0, "{dropped} were dropped, {copied} copied");
    });
}

/// Ends with a panic whose payload panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload of a panic");
    }
}

/// Adds 1, or ends so.
struct Explode(bool);

impl Operation<u64> for Explode {
    type Output = u64;

    fn apply(&self, total: &mut u64) -> u64 {
        *total += 1;
        if self.0 {
            panic_any(Bomb);
        }
        *total
    }
}

/// A panic of any kind is that of the thread which asked for it: the others go on.
#[test]
fn panics_whose_payloads_panic_hold_up_nobody() {
    in_time(|| {
        let total = WaitFree::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| total.apply(Explode(true))));
        let panic = outcome.expect_err("it is the thread's");
        assert_eq!(*panic.downcast::<String>().expect("a text"), "an operation panicked");
        thread::scope(|scope| {
            let other = scope.spawn(|| total.apply(Explode(false)));
            assert_eq!(other.join().expect("no panic"), 1);
        });
        assert_eq!(total.apply(Explode(false)), 2);
    });
}
