//! Values behind delegates, as users see them.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lockwork::delegates::{
    CcSynch, Delegate, DsmSynch, Fc, FcList, Ffwd, HSynch, Locked, Oyama, PSim, Rcl, Sanl, SanlNuma, SanlPlus,
};
use lockwork::locks::CstMutex;
use lockwork::{Condition, Delegated, Native, RunError};

const THREADS: u64 = 8;
const SECTIONS: u64 = 2_000;

/// Every section appends a number of its own and is told its place: no answer may go to another requester.
fn answers_go_to_their_requesters<D: Delegate<Native>>() {
    let log = Delegated::<Vec<u64>, D>::with_delegate(Vec::new());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for section in 0..SECTIONS {
                    let number = thread * SECTIONS + section;
                    let place = log.run(|log| {
                        log.push(number);
                        log.len() - 1
                    });
                    assert_eq!(log.run(move |log| log[place]), number);
                }
            });
        }
    });
    let mut log = log.into_inner();
    for thread in 0..THREADS {
        let own = log.iter().filter(|number| **number / SECTIONS == thread);
        assert!(own.is_sorted(), "the sections of a thread run in its order");
    }
    log.sort_unstable();
    assert!(log.into_iter().eq(0..THREADS * SECTIONS));
}

/// A panic is the requester's, and the value is poisoned until somebody says otherwise.
fn a_panic_goes_to_its_requester<D: Delegate<Native>>() {
    let value = Delegated::<u64, D>::with_delegate(0);
    let served = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (value, served) = (&value, &served);
            scope.spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    value.run(|value| {
                        assert_ne!(thread, 3, "the third");
                        *value += 1;
                    });
                }));
                match outcome {
                    Ok(()) => _ = served.fetch_add(1, Relaxed),
                    Err(panic) if thread == 3 => {
                        assert!(panic.downcast_ref::<String>().expect("a message").contains("the third"));
                    }
                    Err(panic) => {
                        let text = panic.downcast_ref::<&str>().copied().unwrap_or_default();
                        assert!(text.contains("clear_poison"), "{text}");
                    }
                }
            });
        }
    });
    assert!(value.is_poisoned());
    value.clear_poison();
    assert_eq!(value.run(|value| *value), served.load(Relaxed));
}

/// A value that is not to be poisoned is used as it was left.
#[test]
fn poisoning_can_be_left_out() {
    let value = Delegated::new(vec![1]).without_poisoning();
    for round in 0..2 {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            value.run(|value| {
                value.push(round);
                panic!("round {round}");
            })
        }));
        assert_eq!(
            *outcome.expect_err("a panic").downcast_ref::<String>().expect("text"),
            format!("round {round}")
        );
        assert!(!value.is_poisoned());
    }
    let panic = catch_unwind(AssertUnwindSafe(|| value.post(|_| panic!("posted")).wait()));
    assert!(panic.is_err() && !value.is_poisoned());
    value.clear_poison();
    assert_eq!(value.try_run_for(Duration::from_secs(60), |value| value.clone()), Ok(vec![1, 0, 1]));
}

/// A section uses another value, but not its own.
fn sections_nest<D: Delegate<Native>>() {
    let (outer, inner) = (Delegated::<u64, D>::with_delegate(0), Delegated::<u64, D>::with_delegate(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    outer.run(|outer| {
                        *outer += 1;
                        inner.run(|inner| *inner += 1);
                    });
                }
            });
        }
    });
    assert_eq!((outer.run(|value| *value), inner.run(|value| *value)), (2_000, 2_000));
    let again = catch_unwind(AssertUnwindSafe(|| outer.run(|_| outer.run(|value| *value))));
    let panic = again.expect_err("it would wait for itself");
    assert!(panic.downcast_ref::<&str>().expect("a message").contains("its own value"));
}

/// Closures borrow from their requester's stack, and return what it borrows.
fn closures_borrow<D: Delegate<Native>>() {
    let words = Delegated::<Vec<String>, D>::with_delegate(Vec::new());
    let text = String::from("one two three");
    thread::scope(|scope| {
        for word in text.split(' ') {
            let words = &words;
            scope.spawn(move || words.run(|words| words.push(word.to_owned())));
        }
    });
    let longest: &str = words.run(|words| {
        words.sort();
        text.split(' ').max_by_key(|word| word.len()).expect("three words")
    });
    assert_eq!(longest, "three");
    assert_eq!(words.into_inner(), ["one", "three", "two"]);
}

/// Posts run once each, those of a thread in its order, and their results come back by either way.
fn posts_run<D: Delegate<Native>>() {
    let log = Delegated::<Vec<u64>, D>::with_delegate(Vec::new());
    thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                let post = |section: u64| {
                    let number = thread * 1_000 + section;
                    log.post(move |log| {
                        log.push(number);
                        number
                    })
                };
                let posted: Vec<_> = (0..100).map(post).collect();
                assert_eq!(log.run(|log| log.first().copied()).map(|_| ()), Some(()));
                for (section, posted) in (0..100).zip(posted) {
                    let number = if section % 2 == 0 { posted.wait() } else { block_on(posted) };
                    assert_eq!(number, thread * 1_000 + section);
                }
            });
        }
    });
    let log = log.into_inner();
    assert_eq!(log.len(), 400);
    for thread in 0..4 {
        assert!(log.iter().filter(|number| **number / 1_000 == thread).is_sorted());
    }
}

/// Does something while another thread runs a section of a value, which ends with `last`. What became of that section.
fn during_a_section<T: Send, D: Delegate<Native>>(
    value: &Delegated<T, D>,
    last: impl FnOnce(&mut T) + Send,
    meanwhile: impl FnOnce(),
) -> thread::Result<()> {
    let (begun, end) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        let section = scope.spawn(|| {
            let run = || {
                value.run(|value| {
                    begun.wait();
                    end.wait();
                    last(value);
                });
            };
            catch_unwind(AssertUnwindSafe(run))
        });
        begun.wait();
        meanwhile();
        end.wait();
        section.join().expect("its panic is caught")
    })
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// What a post runs beside its section is its caller's code, too: a waker, and the destructors of a result that nobody wants and
/// of a section that does not run. Their panics end nothing but themselves.
fn panics_beside_posts_go_nowhere<D: Delegate<Native>>() {
    struct Panicking;
    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            panic!("woken");
        }
    }
    let value = Delegated::<u64, D>::with_delegate(0);
    let mut waited = None;
    let first = during_a_section(
        &value,
        |value| *value += 1,
        || {
            drop(value.post(|value| {
                *value += 1;
                Bomb
            }));
            let mut post = Box::pin(value.post(|value| *value += 1));
            let waker = Arc::new(Panicking).into();
            assert!(post.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            waited = Some(post);
        },
    );
    assert!(first.is_ok());
    assert_eq!(value.run(|value| *value), 3);
    drop(waited);
    let mut unrun = None;
    let poisons = during_a_section(
        &value,
        |_| panic!("poison"),
        || {
            let bomb = Bomb;
            unrun = Some(value.post(move |_| {
                let _bomb = &bomb;
            }));
        },
    );
    assert!(poisons.is_err());
    let unrun = unrun.expect("posted");
    let panic = catch_unwind(AssertUnwindSafe(|| unrun.wait())).expect_err("it did not run");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"dropped"));
    value.clear_poison();
    assert_eq!(value.run(|value| *value), 3);
}

/// A section cannot wait for a post that runs after it.
#[test]
fn a_post_is_not_waited_for_in_a_section_of_its_value() {
    in_time(|| {
        let value = Arc::new(Delegated::<u64, Fc>::with_delegate(0));
        let (begun, posted) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        thread::scope(|scope| {
            let (give, take) = mpsc::channel::<lockwork::Posted<'_, u64>>();
            let (here, started, left) = (&value, &begun, &posted);
            scope.spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    here.run(move |_| {
                        started.wait();
                        left.wait();
                        take.recv().expect("a post").wait()
                    })
                }));
                let panic = outcome.expect_err("it would wait for itself");
                assert!(panic.downcast_ref::<&str>().expect("a message").contains("runs after it"));
            });
            begun.wait();
            give.send(value.post(|value| *value)).expect("a taker");
            posted.wait();
        });
        value.clear_poison();
        assert_eq!(value.run(|value| *value), 0);
    });
}

/// What a waker asks of the value is refused, not waited for: it runs in the section.
#[test]
fn a_waker_may_not_wait_for_its_own_section() {
    struct Ask(Arc<Delegated<u64, Fc>>, Mutex<Option<RunError>>);
    impl Wake for Ask {
        fn wake(self: Arc<Self>) {
            let outcome = self.0.try_run_for(Duration::from_secs(60), |value| *value);
            *self.1.lock().unwrap() = outcome.err();
        }
    }
    in_time(|| {
        let value = Arc::new(Delegated::<u64, Fc>::with_delegate(7));
        let ask = Arc::new(Ask(Arc::clone(&value), Mutex::new(None)));
        let mut posted = None;
        let first = during_a_section(
            &value,
            |_| {},
            || {
                let mut post = Box::pin(value.post(|value| *value));
                let waker = Arc::clone(&ask).into();
                assert!(post.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                posted = Some(post);
            },
        );
        assert!(first.is_ok());
        let mut posted = posted.expect("posted");
        let outcome = posted.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(outcome, Poll::Ready(7));
        assert_eq!(*ask.1.lock().unwrap(), Some(RunError::Reentered));
        let again = catch_unwind(AssertUnwindSafe(|| {
            let _ = posted.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }));
        assert!(again.is_err(), "the result is given once");
    });
}

/// A value that is poisoned while an attempt waits is an error of the attempt.
#[test]
fn an_attempt_behind_a_panic_is_an_error() {
    in_time(|| {
        let value = Delegated::<u64, Fc>::with_delegate(0);
        let (begun, asked) = (Barrier::new(2), AtomicBool::new(false));
        thread::scope(|scope| {
            let (here, started, other) = (&value, &begun, &asked);
            scope.spawn(move || {
                let panic = catch_unwind(AssertUnwindSafe(|| {
                    here.run(|_| {
                        started.wait();
                        while !other.load(Relaxed) {
                            thread::yield_now();
                        }
                        thread::sleep(Duration::from_millis(20));
                        panic!("poison")
                    })
                }));
                assert!(panic.is_err());
            });
            begun.wait();
            asked.store(true, Relaxed);
            assert_eq!(value.try_run_for(Duration::from_secs(60), |value| *value), Err(RunError::Poisoned));
        });
    });
}

/// The smallest executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(thread::current())).into();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A section that nobody begins in time does not run; one that has begun is waited for; re-entry and poison are errors.
fn attempts_end<D: Delegate<Native>>() {
    let value = Delegated::<Vec<u64>, D>::with_delegate(Vec::new());
    let first = during_a_section(
        &value,
        |value| value.push(1),
        || {
            let note = String::from("borrowed");
            let late = value.try_run_for(Duration::from_millis(20), |value| {
                value.push(2);
                note.len()
            });
            assert_eq!(late, Err(RunError::TimedOut));
            drop(note);
        },
    );
    assert!(first.is_ok());
    let in_time = value.try_run_for(Duration::from_secs(60), |value| {
        value.push(3);
        value.clone()
    });
    assert_eq!(in_time, Ok(vec![1, 3]));
    let again = value.run(|_| value.try_run_for(Duration::from_secs(60), |value| value.len()));
    assert_eq!(again, Err(RunError::Reentered));
    let panic = catch_unwind(AssertUnwindSafe(|| value.post(|_| panic!("posted")).wait()));
    assert_eq!(*panic.expect_err("a panic").downcast_ref::<&str>().expect("a message"), "posted");
    assert_eq!(value.try_run_for(Duration::from_secs(60), |value| value.len()), Err(RunError::Poisoned));
    value.clear_poison();
    assert_eq!(
        value.run_all([|value: &mut Vec<u64>| value.len(), |value: &mut Vec<u64>| value.len() * 2]),
        [2, 4]
    );
}

/// A queue of bounded length: sections wait until there is room, or something to take.
fn conditions_hold_up_nobody<D: Delegate<Native>>() {
    const ITEMS: u64 = 600;
    let queue = Delegated::<VecDeque<u64>, D>::with_delegate(VecDeque::new());
    let (filled, emptied) = (Condition::new(), Condition::new());
    let taken = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for producer in 0..2 {
            let (queue, filled, emptied) = (&queue, &filled, &emptied);
            scope.spawn(move || {
                for item in 0..ITEMS {
                    queue.run_when(emptied, |queue| {
                        (queue.len() < 4).then(|| {
                            queue.push_back(producer * ITEMS + item);
                            filled.notify_one();
                        })
                    });
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ITEMS {
                    let item = queue.run_when(&filled, |queue| {
                        let item = queue.pop_front()?;
                        emptied.notify_one();
                        Some(item)
                    });
                    taken.lock().expect("no panic").push(item);
                }
            });
        }
    });
    let mut taken = taken.into_inner().expect("no panic");
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..2 * ITEMS));
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(queue.run_when_until(&filled, soon, |queue| queue.pop_front()), None);
}

/// Threads come and go, more than CPUs at a time, and put distinct keys into a map.
fn threads_come_and_go<D: Delegate<Native>>() {
    let map = Delegated::<HashMap<u64, u64>, D>::with_delegate(HashMap::new());
    for generation in 0..20 {
        thread::scope(|scope| {
            for thread in 0..16 {
                let map = &map;
                scope.spawn(move || {
                    let key = generation * 16 + thread;
                    assert_eq!(map.run(|map| map.insert(key, key * 3)), None);
                    assert_eq!(map.run(|map| map.remove(&key)), Some(key * 3));
                    assert_eq!(map.run(|map| map.insert(key, key * 7)), None);
                });
            }
        });
    }
    let map = map.into_inner();
    assert_eq!(map.len(), 320);
    assert!(map.iter().all(|(key, value)| *value == key * 7));
}

/// A section that waits for a section of another value of the same delegate, which another thread requests.
fn a_section_that_blocks_stops_no_other_value<D: Delegate<Native>>() {
    let (blocked, other) = (Delegated::<u64, D>::with_delegate(0), Delegated::<u64, D>::with_delegate(0));
    let first = during_a_section(&blocked, |value| *value = 1, || other.run(|value| *value = 2));
    assert!(first.is_ok());
    assert_eq!((blocked.run(|value| *value), other.run(|value| *value)), (1, 2));
}

macro_rules! under_every_delegate {
    ($($delegate:ident: $type:ty),* $(,)?) => {
        under_every_delegate! {
            @ [$($delegate: $type),*]
            answers_go_to_their_requesters a_panic_goes_to_its_requester sections_nest closures_borrow posts_run
            panics_beside_posts_go_nowhere attempts_end
            conditions_hold_up_nobody threads_come_and_go a_section_that_blocks_stops_no_other_value
        }
    };
    (@ $delegates:tt $($test:ident)*) => { $(under_every_delegate! { @test $test $delegates })* };
    (@test $test:ident [$($delegate:ident: $type:ty),*]) => {
        mod $test {
            use super::*;
            $(
                #[test]
                fn $delegate() {
                    in_time(super::$test::<$type>);
                }
            )*
        }
    };
}

/// Ends the process if a test hangs.
fn in_time(test: fn()) {
    let (ended, end) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        if end.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a test of delegates hangs");
            std::process::abort();
        }
    });
    test();
    drop(ended);
    watchdog.join().expect("it only waits");
}

under_every_delegate! {
    oyama: Oyama, fc: Fc, fc_list: FcList, cc_synch: CcSynch, dsm_synch: DsmSynch, h_synch: HSynch, p_sim: PSim, ffwd: Ffwd, rcl: Rcl, sanl: Sanl,
    sanl_numa: SanlNuma, sanl_plus: SanlPlus, locked: Locked<CstMutex>,
}

#[test]
fn specs_name_delegates() {
    for spec in [
        "fc",
        "fc-list",
        "oyama",
        "rcl(servers=1)",
        "ffwd",
        "sanl(serve=10, wait=0)",
        "locked(gcr(mcs-stp))",
        "h-synch",
        "p-sim",
    ] {
        let value = Delegated::with_spec(spec, 0).expect(spec);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| value.run(|value| *value += 1)));
            }
        });
        assert_eq!(value.into_inner(), 400, "{spec}");
    }
}

/// Resident memory, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// 20,000 threads, eight at a time, leave nothing behind.
#[test]
fn threads_leave_no_memory_behind() {
    fn generations<D: Delegate<Native>>(value: &Delegated<u64, D>, count: usize) {
        for _ in 0..count {
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| (0..3).for_each(|_| value.run(|value| *value += 1)));
                }
            });
        }
    }
    fn grown<D: Delegate<Native>>() -> usize {
        let value = Delegated::<u64, D>::with_delegate(0);
        generations(&value, 125);
        let before = resident();
        generations(&value, 500);
        assert_eq!(value.into_inner(), 625 * 8 * 3);
        resident().saturating_sub(before)
    }
    let grown = [grown::<Fc>(), grown::<CcSynch>(), grown::<Rcl>(), grown::<Sanl>()];
    assert!(grown.iter().all(|bytes| *bytes < 1 << 20), "{grown:?}");
}
