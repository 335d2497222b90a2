//! Closures: threads with a delay between sections that touch shared cache lines, under a delegate, under a lock, or under
//! the mutexes of other crates.
//!
//! The latency is that of a section as its requester sees it, from the request to the result; the clock is read once before and
//! once after.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockwork::Delegated;
use lockwork::delegates::DynDelegate;

use super::crew::{crew, nanos, stopped};
use super::done::{Done, figures, operations};
use super::{Figures, Padded, figure, not_exclusive};
use crate::bench::options::Delay;
use crate::error::Failure;

/// `std::sync::Mutex`, which the others are compared with.
pub(crate) const STD: &str = "std";
/// `parking_lot::Mutex`.
pub(crate) const PARKING_LOT: &str = "parking_lot";
/// `lamlock::Lock`, a combiner of another crate.
pub(crate) const LAMLOCK: &str = "lamlock";

/// The mutexes of others.
pub(crate) const PEERS: [&str; 3] = [STD, PARKING_LOT, LAMLOCK];

/// The benchmark.
pub(super) struct Closures {
    pub(super) threads: u32,
    pub(super) time: Duration,
    /// Between two sections.
    pub(super) delay: Delay,
    /// Cache lines that a section writes.
    pub(super) lines: usize,
    /// Values, each with its own lines.
    pub(super) instances: usize,
}

#[repr(align(64))]
struct Line {
    /// The index of the line to touch after this one.
    next: usize,
    count: u64,
}

/// What a section works on.
struct Value(Box<[Line]>);

impl Value {
    fn new(lines: usize) -> Self {
        Self((1..=lines).map(|next| Line { next: next % lines, count: 0 }).collect())
    }

    /// A section. Its result is what its requester checks: how often there was one before.
    #[inline(always)]
    fn touch(&mut self) -> u64 {
        let mut place = 0;
        let before = self.0[0].count;
        for _ in 0..self.0.len() {
            let line = &mut self.0[place];
            line.count += 1;
            place = std::hint::black_box(line.next);
        }
        before
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|line| line.count).sum()
    }
}

/// Something that runs sections on its value.
trait Runs: Sync {
    fn run(&self) -> u64;
    fn total(&self) -> u64;
}

impl Runs for Delegated<Value, DynDelegate> {
    fn run(&self) -> u64 {
        Delegated::run(self, Value::touch)
    }

    fn total(&self) -> u64 {
        Delegated::run(self, |value| value.total())
    }
}

impl Runs for Mutex<Value> {
    fn run(&self) -> u64 {
        self.lock().expect("no section panics").touch()
    }

    fn total(&self) -> u64 {
        self.lock().expect("no section panics").total()
    }
}

impl Runs for parking_lot::Mutex<Value> {
    fn run(&self) -> u64 {
        self.lock().touch()
    }

    fn total(&self) -> u64 {
        self.lock().total()
    }
}

impl Runs for lamlock::Lock<Value> {
    fn run(&self) -> u64 {
        lamlock::Lock::run(self, Value::touch).expect("no section panics")
    }

    fn total(&self) -> u64 {
        lamlock::Lock::run(self, |value| value.total()).expect("no section panics")
    }
}

impl Closures {
    /// Measures what `name` names.
    pub(super) fn run(&self, name: &str) -> Result<Figures, Failure> {
        let failed = |message| Failure::with_status(1, message);
        let values = || Value::new(self.lines);
        let figures = match name {
            STD => self.measure(|| Mutex::new(values())),
            PARKING_LOT => self.measure(|| parking_lot::Mutex::new(values())),
            LAMLOCK => self.measure(|| lamlock::Lock::new(values())),
            spec => {
                DynDelegate::new(spec).map_err(|error| Failure::usage(format!("`{spec}`: {error}")))?;
                let make = || Delegated::with_spec(spec, values());
                self.measure(|| make().unwrap_or_else(|error| unreachable!("checked above: {error}")))
            }
        };
        figures.map_err(failed)
    }

    fn measure<R: Runs>(&self, make: impl Fn() -> R) -> Result<Figures, String> {
        let values: Vec<Padded<R>> = (0..self.instances).map(|_| Padded(make())).collect();
        let values = values.as_slice();
        let transfer = transfer();
        let (done, wall) = crew(self.threads, self.time, |index, stop| {
            let mut random = fastrand::Rng::with_seed(u64::from(index));
            let mut done = Done::nothing();
            while !stopped(stop) {
                let place = if values.len() == 1 { 0 } else { random.usize(..values.len()) };
                let begin = Instant::now();
                std::hint::black_box(values[place].0.run());
                done.add_since(begin);
                self.delay.pass();
            }
            done
        })?;

        let operations = operations(&done);
        let touched: u64 = values.iter().map(|value| value.0.total()).sum();
        if touched != operations * self.lines as u64 {
            return Err(not_exclusive(touched / self.lines as u64, operations));
        }
        let mut figures = figures(&done, wall);
        figures.push(figure("transfer", transfer));
        Ok(figures)
    }
}

/// Nanoseconds that a cache line takes from one thread to another: half of the fastest of some round trips, on whatever CPUs
/// the two threads happen to be. 0 where there is one CPU.
fn transfer() -> f64 {
    const BATCHES: u64 = 20;
    const ROUNDS: u64 = 500;
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return 0.0;
    }
    let ball = Padded(AtomicU64::new(0));
    let ball = &ball.0;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for round in 0..BATCHES * ROUNDS {
                // ORDER: the ball itself is all that the two threads share.
                while ball.load(Ordering::Relaxed) != 2 * round + 1 {
                    std::hint::spin_loop();
                }
                ball.store(2 * round + 2, Ordering::Relaxed);
            }
        });
        let batch = |batch: u64| {
            let begin = Instant::now();
            for round in batch * ROUNDS..(batch + 1) * ROUNDS {
                ball.store(2 * round + 1, Ordering::Relaxed);
                while ball.load(Ordering::Relaxed) != 2 * round + 2 {
                    std::hint::spin_loop();
                }
            }
            nanos(begin, Instant::now()) as f64 / (2 * ROUNDS) as f64
        };
        (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
    })
}
