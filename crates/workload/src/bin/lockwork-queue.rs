//! Measures a bounded queue as programs build it from one mutex and two conditions: producers wait while it is full,
//! consumers while it is empty.
//!
//! With little room and no work for an item nothing but the hand-over between threads is measured; with work, or with room
//! for many items, how much of that is left to see.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;

/// Measures a bounded queue behind one POSIX mutex and two conditions.
///
/// Prints items a second; the mean streak of operations that one thread does before another gets its turn; context switches
/// for an item; and the share of operations that found the queue full or empty. Run
/// it under `lockwork run` to try a lock on it. Exits with 1 when an item was lost or delivered twice.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:\n  lockwork compare --locks pthread,cst-mutex,'gcr(mcs-stp)' --threads 1,16 --metric '+items/sec: (\\d+)' \\\n      -- lockwork-queue --producers {threads} --consumers {threads} --capacity 10 --work-ns 1000"
)]
struct Options {
    /// Threads that put items in
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    producers: u32,

    /// Threads that take items out
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    consumers: u32,

    /// Items that the queue has room for
    #[arg(long, value_name = "ITEMS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    capacity: u32,

    /// Time that a producer spends on making an item, and a consumer on using it, outside of the mutex
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    work_ns: u64,

    /// Items in all
    #[arg(long, value_name = "TOTAL", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    items: u64,

    /// Wake the other side after the mutex is unlocked, instead of before
    #[arg(long)]
    unlock_first: bool,
}

/// The queue, on cache lines of its own.
#[repr(align(128))]
struct Queue {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    not_full: UnsafeCell<libc::pthread_cond_t>,
    not_empty: UnsafeCell<libc::pthread_cond_t>,
    capacity: usize,
    unlock_first: bool,
    contents: UnsafeCell<Contents>,
}

/// What the mutex guards.
struct Contents {
    items: VecDeque<u64>,
    /// The thread of the last operation.
    last: u32,
    /// How often another thread than the last one got its turn.
    turns: u64,
}

// SAFETY: the mutex and the conditions are made to be shared, and the contents are touched by the holder of the mutex only.
unsafe impl Sync for Queue {}

impl Queue {
    fn new(options: &Options) -> Self {
        let capacity = options.capacity as usize;
        Queue {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            not_full: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            not_empty: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            capacity,
            unlock_first: options.unlock_first,
            contents: UnsafeCell::new(Contents {
                items: VecDeque::with_capacity(capacity),
                last: u32::MAX,
                turns: 0,
            }),
        }
    }

    /// Puts an item in; returns whether it had to wait for room.
    fn put(&self, thread: u32, item: u64) -> bool {
        self.transfer(thread, &self.not_full, &self.not_empty, |items| {
            (items.len() < self.capacity).then(|| items.push_back(item))
        })
        .1
    }

    /// Takes an item out; returns whether it had to wait for one.
    fn take(&self, thread: u32) -> (u64, bool) {
        self.transfer(thread, &self.not_empty, &self.not_full, VecDeque::pop_front)
    }

    /// Waits until `attempt` succeeds, and wakes one thread of the other side.
    fn transfer<T>(
        &self,
        thread: u32,
        own: &UnsafeCell<libc::pthread_cond_t>,
        other: &UnsafeCell<libc::pthread_cond_t>,
        mut attempt: impl FnMut(&mut VecDeque<u64>) -> Option<T>,
    ) -> (T, bool) {
        let mut waited = false;
        // SAFETY: an initialised mutex that never moves while threads borrow the queue.
        check(unsafe { libc::pthread_mutex_lock(self.mutex.get()) });
        let result = loop {
            // SAFETY: this thread holds the mutex.
            let contents = unsafe { &mut *self.contents.get() };
            if let Some(result) = attempt(&mut contents.items) {
                contents.turns += u64::from(contents.last != thread);
                contents.last = thread;
                break result;
            }
            waited = true;
            // SAFETY: an initialised condition, and a mutex that this thread holds.
            check(unsafe { libc::pthread_cond_wait(own.get(), self.mutex.get()) });
        };
        // SAFETY: an initialised condition.
        let wake = || check(unsafe { libc::pthread_cond_signal(other.get()) });
        // SAFETY: this thread holds the mutex.
        let unlock = || check(unsafe { libc::pthread_mutex_unlock(self.mutex.get()) });
        if self.unlock_first {
            unlock();
            wake();
        } else {
            wake();
            unlock();
        }
        (result, waited)
    }
}

/// Panics unless the call succeeded.
fn check(error: libc::c_int) {
    assert_eq!(error, 0, "a mutex or condition refused an operation");
}

/// What a thread did.
struct Done {
    /// The sum of the items that a consumer took.
    sum: u64,
    waited: u64,
    end: Instant,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let queue = Queue::new(&options);
    let threads = options.producers + options.consumers;
    let (ready, start) = (Barrier::new(threads as usize), OnceLock::new());
    let before = context_switches();
    let done: Vec<Done> = thread::scope(|scope| {
        let spawn = |index: u32| {
            let (queue, options, ready, start) = (&queue, &options, &ready, &start);
            scope.spawn(move || {
                ready.wait();
                start.get_or_init(Instant::now);
                work(queue, options, index)
            })
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        handles.into_iter().map(|handle| handle.join().expect("a thread panicked")).collect()
    });
    let switches = context_switches() - before;
    let start = *start.get().expect("every thread sets it before it ends");
    let wall = done.iter().map(|done| done.end.duration_since(start)).max().unwrap_or_default();
    let items = options.items;
    let (sum, waited) = done
        .iter()
        .fold((0_u64, 0), |(sum, waited), done| (sum.wrapping_add(done.sum), waited + done.waited));
    // Items are numbered from 0.
    if sum != (0..items).fold(0, u64::wrapping_add) {
        eprintln!(
            "lockwork-queue: the mutex let two threads in at once: an item was lost or delivered twice"
        );
        return ExitCode::FAILURE;
    }
    println!("items/sec: {:.0}", items as f64 / wall.as_secs_f64());
    let turns = queue.contents.into_inner().turns;
    println!("streak: {:.1}", (2 * items) as f64 / turns as f64);
    println!("switches/item: {:.3}", switches as f64 / items as f64);
    println!("waited: {:.3}", waited as f64 / (2 * items) as f64);
    ExitCode::SUCCESS
}

/// What the thread does: the first threads produce, the others consume. Every side shares the items evenly.
fn work(queue: &Queue, options: &Options, index: u32) -> Done {
    let (mut sum, mut waited) = (0_u64, 0);
    let time = Duration::from_nanos(options.work_ns);
    if index < options.producers {
        for item in share(options.items, options.producers, index) {
            pass(time);
            waited += u64::from(queue.put(index, item));
        }
    } else {
        for _ in share(options.items, options.consumers, index - options.producers) {
            let (item, has_waited) = queue.take(index);
            sum = sum.wrapping_add(item);
            waited += u64::from(has_waited);
            pass(time);
        }
    }
    Done { sum, waited, end: Instant::now() }
}

/// The numbers that one of so many threads has of the items.
fn share(items: u64, threads: u32, index: u32) -> std::ops::Range<u64> {
    let at = |index: u32| (u128::from(items) * u128::from(index) / u128::from(threads)) as u64;
    at(index)..at(index + 1)
}

/// Works for so long.
fn pass(time: Duration) {
    if time.is_zero() {
        return;
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Context switches of this process so far, of its own accord and not.
fn context_switches() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call writes all of it.
    check(unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) });
    // SAFETY: written above.
    let usage = unsafe { usage.assume_init() };
    usage.ru_nvcsw + usage.ru_nivcsw
}
