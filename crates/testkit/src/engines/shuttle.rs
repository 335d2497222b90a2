//! shuttle: random and PCT schedules of more threads than loom can explore; sequentially consistent.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread::Thread;

use crate::model::{Config, Engine, Ghost, Machine, Model, Play, RawCell, RawData, RawInt, Role};

/// The shuttle model checker.
#[derive(Clone, Copy, Debug)]
pub struct Shuttle;

/// The machine as shuttle models it.
pub type ShuttlePlatform = Model<Shuttle>;

/// How shuttle chooses schedules.
#[derive(Clone, Copy, Debug)]
pub enum Schedules {
    /// Any thread at any point, this many executions.
    Random(usize),
    /// Probabilistic concurrency testing: few, well-placed switches; this many executions of each depth from 1 to 4.
    Pct(usize),
    /// All schedules, at most this many.
    All(usize),
}

thread_local! {
    static MACHINE: RefCell<Machine<Shuttle>> = const { RefCell::new(Machine::new()) };
    static HANDLES: RefCell<Vec<Option<Thread>>> = const { RefCell::new(Vec::new()) };
}

/// Runs a role; a role that ends as a ghost ends well.
fn perform(number: usize, role: Role) {
    assert_eq!(Shuttle::thread(), number, "shuttle numbers the threads as they are spawned");
    HANDLES.with_borrow_mut(|handles| handles[number] = Some(shuttle::thread::current()));
    let Err(cause) = catch_unwind(AssertUnwindSafe(role)) else { return };
    if !cause.is::<Ghost>() {
        resume_unwind(cause);
    }
}

fn run(
    scheduler: impl Scheduler + 'static,
    resident: usize,
    play: impl Fn() -> Play + Send + Sync + 'static,
) {
    let runner = shuttle::Runner::new(scheduler, shuttle::Config::new());
    runner.run(move || {
        let Play { roles, end } = play();
        let count = roles.len();
        HANDLES.set(vec![None; count]);
        let mut roles = roles.into_iter().enumerate();
        let first = roles.next();
        let threads: Vec<_> =
            roles.map(|(number, role)| shuttle::thread::spawn(move || perform(number, role))).collect();
        if let Some((number, role)) = first {
            perform(number, role);
        }
        for thread in threads {
            thread.join().expect("shuttle ends the execution when a thread panics");
        }
        end();
        MACHINE.with_borrow_mut(|machine| machine.end(resident));
    });
}

/// The seed of all random schedules: `LOCKWORK_SEED`, or always the same.
fn seed() -> u64 {
    let seed = std::env::var("LOCKWORK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x10c7);
    println!("LOCKWORK_SEED={seed}");
    seed
}

/// Runs `play` under many schedules. A failing one is printed by shuttle, to be replayed.
///
/// # Panics
///
/// If an execution fails.
pub fn explore(
    schedules: Schedules,
    config: Config,
    resident: usize,
    play: impl Fn() -> Play + Clone + Send + Sync + 'static,
) {
    let play = move || {
        MACHINE.with_borrow_mut(|machine| machine.begin(config));
        play()
    };
    let seed = seed();
    match schedules {
        Schedules::Random(n) => run(RandomScheduler::new_from_seed(seed, n), resident, play),
        Schedules::All(most) => run(DfsScheduler::new(Some(most), false), resident, play),
        Schedules::Pct(n) => {
            for depth in 1..=4 {
                run(PctScheduler::new_from_seed(seed, depth, n), resident, play.clone());
            }
        }
    }
}

impl Engine for Shuttle {
    type U32 = Word<u32>;
    type Usize = Word<usize>;
    type Ptr<T: 'static> = Word<*mut T>;
    type Data<T: Copy + Send + 'static> = Word<T>;

    /// Threads are chosen at random: this many fruitless turns in a row do not happen while one can go on.
    const STUCK_AFTER: u32 = 20_000;

    fn machine<R>(f: impl FnOnce(&mut Machine<Self>) -> R) -> R {
        MACHINE.with_borrow_mut(f)
    }

    fn thread() -> usize {
        // Asked at every step: shuttle's thread-locals are in a hash table.
        shuttle::current::me().into()
    }

    fn switch() {
        // shuttle models no time: this is a scheduling point and nothing else.
        shuttle::thread::sleep(Duration::ZERO);
    }

    fn yield_now() {
        shuttle::thread::yield_now();
    }

    fn sleep() {
        shuttle::thread::park();
    }

    fn rouse(thread: usize) {
        let handle = HANDLES.with_borrow(|handles| handles[thread].clone());
        // Not inside the closure: another thread may run now.
        if let Some(handle) = handle {
            handle.unpark();
        }
    }

    /// Chance ends unfair schedules.
    fn prune() {}

    fn fence(_order: Ordering) {}
}

/// A word or plain data: shuttle is sequentially consistent, and runs one thread at a time.
#[derive(Debug)]
pub struct Word<T: Copy>(Cell<T>);

// SAFETY: all threads of an execution are coroutines of one thread.
unsafe impl<T: Copy> Sync for Word<T> {}
// SAFETY: as above.
unsafe impl<T: Copy> Send for Word<T> {}

impl<T: Copy + Send + 'static> RawData<T> for Word<T> {
    fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    fn get(&self) -> T {
        self.0.get()
    }

    fn set(&self, value: T) {
        self.0.set(value);
    }
}

impl<T: Copy + PartialEq + 'static> RawCell<T> for Word<T> {
    fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    fn load(&self, _order: Ordering) -> T {
        self.0.get()
    }

    fn store(&self, value: T, _order: Ordering) {
        self.0.set(value);
    }

    fn swap(&self, value: T, _order: Ordering) -> T {
        self.0.replace(value)
    }

    fn compare_exchange(&self, current: T, new: T, _success: Ordering, _failure: Ordering) -> Result<T, T> {
        let seen = self.0.get();
        if seen != current {
            return Err(seen);
        }
        self.0.set(new);
        Ok(seen)
    }
}

macro_rules! raw_int {
    ($value:ty) => {
        impl RawInt<$value> for Word<$value> {
            fn fetch_add(&self, value: $value, _order: Ordering) -> $value {
                self.0.replace(self.0.get().wrapping_add(value))
            }
            fn fetch_sub(&self, value: $value, _order: Ordering) -> $value {
                self.0.replace(self.0.get().wrapping_sub(value))
            }
            fn fetch_or(&self, value: $value, _order: Ordering) -> $value {
                self.0.replace(self.0.get() | value)
            }
            fn fetch_and(&self, value: $value, _order: Ordering) -> $value {
                self.0.replace(self.0.get() & value)
            }
        }
    };
}

raw_int!(u32);
raw_int!(usize);
