//! Closures: threads with a delay between sections that work on shared cache lines, or on a counter, map, heap or queue, under a
//! delegate, under a lock, or under the mutexes of other crates.
//!
//! The latency is that of a section as its requester sees it, from the request to the result; the clock is read once before and
//! once after. Delegates with servers also say how much of a scan's lines had a request (`use_rate`), and in which share of the scans
//! the requests were for several values (`false_serialisation`; more than one with `--instances`).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockwork::Delegated;
use lockwork::delegates::DynDelegate;
use lockwork::servers::Measures;

use super::crew::{Times, crew, nanos};
use super::done::{Done, all_operations, figures};
use super::objects::{Counter, Heap, Lines, Map, Object, Queue};
use super::{Figures, Padded, figure, not_exclusive};
use crate::bench::options::{Delay, Object as Kind};
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
    /// What a section works on.
    pub(super) object: Kind,
    /// Cache lines that a section writes, if it works on those.
    pub(super) lines: usize,
    /// Values, each with its own lines.
    pub(super) instances: usize,
}

/// Something that runs sections on its value.
trait Runs: Sync {
    fn run(&self, random: u64) -> u64;
    fn operations(&self) -> u64;
}

impl<O: Object> Runs for Delegated<O, DynDelegate> {
    fn run(&self, random: u64) -> u64 {
        Delegated::run(self, |object| object.operate(random))
    }

    fn operations(&self) -> u64 {
        Delegated::run(self, |object| object.operations())
    }
}

impl<O: Object> Runs for Mutex<O> {
    fn run(&self, random: u64) -> u64 {
        self.lock().expect("no section panics").operate(random)
    }

    fn operations(&self) -> u64 {
        self.lock().expect("no section panics").operations()
    }
}

impl<O: Object> Runs for parking_lot::Mutex<O> {
    fn run(&self, random: u64) -> u64 {
        self.lock().operate(random)
    }

    fn operations(&self) -> u64 {
        self.lock().operations()
    }
}

impl<O: Object> Runs for lamlock::Lock<O> {
    fn run(&self, random: u64) -> u64 {
        lamlock::Lock::run(self, |object| object.operate(random)).expect("no section panics")
    }

    fn operations(&self) -> u64 {
        lamlock::Lock::run(self, |object| object.operations()).expect("no section panics")
    }
}

impl Closures {
    /// Measures what `name` names.
    pub(super) fn run(&self, name: &str) -> Result<Figures, Failure> {
        match self.object {
            Kind::Lines => self.run_on(name, || Lines::new(self.lines)),
            Kind::Counter => self.run_on(name, Counter::default),
            Kind::Map => self.run_on(name, Map::new),
            Kind::Heap => self.run_on(name, Heap::new),
            Kind::Queue => self.run_on(name, Queue::new),
        }
    }

    fn run_on<O: Object>(&self, name: &str, object: impl Fn() -> O) -> Result<Figures, Failure> {
        let failed = |message| Failure::with_status(1, message);
        let figures = match name {
            STD => self.measure(|| Mutex::new(object())),
            PARKING_LOT => self.measure(|| parking_lot::Mutex::new(object())),
            LAMLOCK => self.measure(|| lamlock::Lock::new(object())),
            spec => {
                DynDelegate::new(spec).map_err(|error| Failure::usage(format!("`{spec}`: {error}")))?;
                let make = || Delegated::with_spec(spec, object());
                self.measure(|| make().unwrap_or_else(|error| unreachable!("checked above: {error}")))
            }
        };
        figures.map_err(failed)
    }

    fn measure<R: Runs>(&self, make: impl Fn() -> R) -> Result<Figures, String> {
        let values: Vec<Padded<R>> = (0..self.instances).map(|_| Padded(make())).collect();
        let values = values.as_slice();
        let transfer = transfer();
        let before = servers();
        let (done, wall) = crew(self.threads, Times::after_a_tenth(self.time), |index, course| {
            let mut random = fastrand::Rng::with_seed(u64::from(index));
            let mut done = Done::nothing();
            while !course.is_over() {
                let place = if values.len() == 1 { 0 } else { random.usize(..values.len()) };
                let begin = Instant::now();
                std::hint::black_box(values[place].0.run(random.u64(..)));
                done.add_since(course, begin);
                self.delay.pass();
            }
            done
        })?;

        let operations = all_operations(&done);
        let guarded: u64 = values.iter().map(|value| value.0.operations()).sum();
        if guarded != operations {
            return Err(not_exclusive(guarded, operations));
        }
        let mut figures = figures(&done, wall);
        figures.push(figure("transfer", transfer));
        let by_servers = servers().since(before);
        figures.push(figure("use_rate", by_servers.use_rate(self.threads as usize)));
        figures.push(figure("false_serialisation", by_servers.false_serialisation()));
        Ok(figures)
    }
}

/// What all servers of this process have done.
fn servers() -> Measures {
    lockwork::servers::measures().into_iter().fold(Measures::default(), Measures::and)
}

/// Nanoseconds that a cache line takes from one thread to another: half of the fastest of some round trips, on whatever CPUs
/// the two threads happen to be. 0 where there is one CPU. Where both have got the same CPU they give way to each other, or each
/// trip would take as long as the scheduler lets a thread run: minutes, in all.
fn transfer() -> f64 {
    const BATCHES: u64 = 200;
    const ROUNDS: u64 = 50;
    /// No batch begins after this time: on a busy machine the two threads may share a CPU, and with others.
    const ENOUGH: Duration = Duration::from_millis(100);
    /// Looks at the ball before a thread gives way: some microseconds, many times what a line takes.
    const LOOKS: u32 = 1000;
    /// The ball of a game that is over.
    const OVER: u64 = u64::MAX;
    // The next ball that is not `last`.
    let after = |ball: &AtomicU64, last| {
        let mut looks = 0;
        loop {
            // ORDER: the ball itself is all that the two threads share.
            let seen = ball.load(Ordering::Relaxed);
            if seen != last {
                return seen;
            }
            looks += 1;
            if looks % LOOKS == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return 0.0;
    }
    let ball = Padded(AtomicU64::new(0));
    let ball = &ball.0;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut seen = after(ball, 0);
            while seen != OVER {
                ball.store(seen + 1, Ordering::Relaxed); // ORDER: as in `after`.
                seen = after(ball, seen + 1);
            }
        });
        let batch = |batch: u64| {
            let begin = Instant::now();
            for round in batch * ROUNDS..(batch + 1) * ROUNDS {
                ball.store(2 * round + 1, Ordering::Relaxed); // ORDER: as in `after`.
                after(ball, 2 * round + 1);
            }
            nanos(begin, Instant::now()) as f64 / (2 * ROUNDS) as f64
        };
        let begin = Instant::now();
        let batches = (0..BATCHES).take_while(|_| begin.elapsed() < ENOUGH);
        let least = batches.map(batch).fold(f64::INFINITY, f64::min);
        ball.store(OVER, Ordering::Relaxed); // ORDER: as in `after`.
        least
    })
}
