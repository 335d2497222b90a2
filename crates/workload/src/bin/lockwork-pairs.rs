//! Measures an uncontended `pthread_mutex_lock` and `pthread_mutex_unlock`, as the program at hand calls them: under
//! glibc, or under a preloaded library.
//!
//! A second, idle thread exists, because glibc's mutex is cheaper in a process that has only one.
//!
//! What two calls into a shared library cost that do nothing is measured beside it, in turns: no lock behind calls can cost
//! less, whatever it does.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;

/// Measures an uncontended lock and unlock of a pthread mutex.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:\n  lockwork compare --locks pthread,futex,ttas,mcs-stp --metric 'ns: ([\\d.]+)' -- lockwork-pairs"
)]
struct Options {
    /// Pairs in a batch; the result is the fastest batch, which is the one least disturbed by other processes
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,

    /// Batches
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    batches: u32,
}

/// A mutex on cache lines of its own.
#[repr(align(128))]
struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

/// The time of so many pairs.
fn batch(mutex: &Mutex, pairs: u32) -> Duration {
    let start = Instant::now();
    for _ in 0..pairs {
        // SAFETY: an initialised mutex that only this thread uses.
        let locked = unsafe { libc::pthread_mutex_lock(mutex.0.get()) };
        // SAFETY: as above, and locked.
        let unlocked = unsafe { libc::pthread_mutex_unlock(mutex.0.get()) };
        assert_eq!((locked, unlocked), (0, 0), "the mutex refused an operation");
    }
    start.elapsed()
}

/// The time of so many pairs of calls that do nothing.
fn calls(pairs: u32) -> Duration {
    let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let start = Instant::now();
    for _ in 0..pairs {
        for _ in 0..2 {
            // SAFETY: in glibc this function, which nobody interposes, returns 0 and does nothing else.
            unsafe { libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()) };
        }
    }
    start.elapsed()
}

fn main() {
    let options = Options::parse();
    let (stop, stopped) = mpsc::channel::<()>();
    let idle = thread::spawn(move || stopped.recv());
    let mutex = Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    let [mut pair, mut nothing] = [Duration::MAX; 2];
    for _ in 0..options.batches {
        pair = pair.min(batch(&mutex, options.pairs));
        nothing = nothing.min(calls(options.pairs));
    }
    let ns = |batch: Duration| batch.as_nanos() as f64 / f64::from(options.pairs);
    println!("ns: {:.2}", ns(pair));
    println!("calls: {:.2}", ns(nothing));
    drop(stop);
    let _ = idle.join();
}
