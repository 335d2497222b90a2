//! loom: every interleaving and every value that a weak memory model lets a load return, within bounds.
//!
//! loom treats `SeqCst` accesses as `AcqRel` (fences it does model), and knows at most
//! [`loom::MAX_THREADS`] threads and the last seven stores to a word.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

use super::stacks;
use crate::model::{Config, Engine, Machine, Model, Play, RawCell, RawData, RawInt, Role};

/// The loom model checker.
#[derive(Clone, Copy, Debug)]
pub struct Loom;

/// The machine as loom models it.
pub type LoomPlatform = Model<Loom>;

/// How far loom explores.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Involuntary switches in one execution; `None` = any number.
    pub preemptions: Option<usize>,
    /// Scheduling points and loads in one execution.
    pub branches: usize,
    /// Executions; `None` = all.
    pub executions: Option<usize>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { preemptions: None, branches: 3_000, executions: None }
    }
}

impl Bounds {
    /// At most `n` involuntary switches in one execution.
    #[must_use]
    pub fn preemptions(n: usize) -> Self {
        Self { preemptions: Some(n), ..Self::default() }
    }
}

struct Stage {
    machine: RefCell<Machine<Loom>>,
    /// The end of the execution that runs or ran last.
    end: RefCell<Option<Role>>,
    executions: Cell<u64>,
    /// Where the stack of each thread began to be used, 0 = the thread has not begun.
    stacks: [Cell<usize>; loom::MAX_THREADS],
}

thread_local! {
    static STAGE: Stage = const {
        Stage {
            machine: RefCell::new(Machine::new()),
            end: RefCell::new(None),
            executions: Cell::new(0),
            stacks: [const { Cell::new(0) }; loom::MAX_THREADS],
        }
    };
}

/// An address in the stack of the calling thread.
#[inline(always)]
fn here() -> usize {
    let mark = 0_u8;
    std::hint::black_box(&raw const mark).addr()
}

/// Thread `number` begins on the stack at hand. In the caller's frame, so that all that it calls is further down.
#[inline(always)]
fn begins(number: usize) {
    STAGE.with(|stage| stage.stacks[number].set(here()));
}

/// Checks the end of the last execution, if there was one.
fn conclude(resident: usize) {
    if let Some(end) = STAGE.with(|stage| stage.end.take()) {
        end();
        STAGE.with(|stage| stage.machine.borrow_mut().end(resident));
    }
}

/// Explores all executions of `play` within the bounds; returns how many there were. At the end of each, at most
/// `resident` pool nodes may be in use.
///
/// Nothing joins the threads (that would multiply the executions): each ends by itself, and what must hold
/// afterwards is checked before the next execution.
///
/// # Panics
///
/// If an execution fails.
pub fn explore(
    bounds: Bounds,
    config: Config,
    resident: usize,
    play: impl Fn() -> Play + Send + Sync + 'static,
) -> u64 {
    STAGE.with(|stage| {
        stage.end.take();
        stage.machine.borrow_mut().clear();
        stage.executions.set(0);
    });
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bounds.preemptions;
    builder.max_branches = bounds.branches;
    if let Some(most) = bounds.executions {
        // loom looks at the limit before an execution whose number, from 1, is a multiple of the interval.
        builder.max_permutations = Some(most + 1);
        builder.checkpoint_interval = most + 1;
    }
    let execution = move || {
        STAGE.with(|stage| stage.stacks.iter().for_each(|stack| stack.set(0)));
        begins(0);
        conclude(resident);
        STAGE.with(|stage| {
            stage.executions.set(stage.executions.get() + 1);
            stage.machine.borrow_mut().begin(config);
        });
        let Play { roles, end } = play();
        STAGE.with(|stage| stage.end.replace(Some(end)));
        let mut roles = roles.into_iter().enumerate();
        let first = roles.next();
        for (number, role) in roles {
            loom::thread::spawn(move || {
                begins(number);
                role();
            });
        }
        if let Some((_, role)) = first {
            role();
        }
    };
    stacks::keeping(|| builder.check(execution));
    conclude(resident);
    STAGE.with(|stage| stage.executions.get())
}

impl Engine for Loom {
    type U32 = AtomicU32;
    type Usize = AtomicUsize;
    type Ptr<T: 'static> = Pointer<T>;
    type Data<T: Copy + Send + 'static> = LoomData<T>;

    /// Spinners yield, so a few turns each show that nobody can go on.
    const STUCK_AFTER: u32 = 200;

    fn machine<R>(f: impl FnOnce(&mut Machine<Self>) -> R) -> R {
        STAGE.with(|stage| f(&mut stage.machine.borrow_mut()))
    }

    fn thread() -> usize {
        // Asked at every step: loom's thread-locals are in a hash table. Stacks grow downwards and do not overlap, so that the
        // nearest beginning above is that of the thread's own.
        let here = here();
        STAGE.with(|stage| {
            let above = |number: &usize| stage.stacks[*number].get().wrapping_sub(here);
            (0..stage.stacks.len()).min_by_key(above).expect("loom has threads")
        })
    }

    fn switch() {}

    fn yield_now() {
        loom::thread::yield_now();
    }

    /// loom's own parking would order the waker before the sleeper, and so hide missing orderings.
    fn sleep() {
        Self::machine(Machine::fruitless);
        loom::thread::yield_now();
    }

    fn rouse(_thread: usize) {}

    fn prune() {
        loom::skip_branch();
    }

    fn fence(order: Ordering) {
        loom::sync::atomic::fence(order);
    }
}

// What follows is called from every lock, and loom's part of it is large: it is compiled once, not inlined everywhere.
macro_rules! raw_cell {
    ($cell:ty, $value:ty) => {
        impl RawCell<$value> for $cell {
            #[track_caller]
            fn new(value: $value) -> Self {
                <$cell>::new(value)
            }
            #[track_caller]
            #[inline(never)]
            fn load(&self, order: Ordering) -> $value {
                self.load(order)
            }
            #[track_caller]
            #[inline(never)]
            fn store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }
            #[track_caller]
            #[inline(never)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.swap(value, order)
            }
            #[track_caller]
            #[inline(never)]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }
        }
    };
}

macro_rules! raw_int {
    ($cell:ty, $value:ty) => {
        raw_cell!($cell, $value);
        impl RawInt<$value> for $cell {
            #[track_caller]
            #[inline(never)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.fetch_add(value, order)
            }
            #[track_caller]
            #[inline(never)]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.fetch_sub(value, order)
            }
            #[track_caller]
            #[inline(never)]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.fetch_or(value, order)
            }
            #[track_caller]
            #[inline(never)]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.fetch_and(value, order)
            }
        }
    };
}

raw_int!(AtomicU32, u32);
raw_int!(AtomicUsize, usize);
raw_cell!(AtomicPtr<()>, *mut ());

/// A pointer. To loom all are of one type: each type more would compile loom's atomics once more.
#[derive(Debug)]
pub struct Pointer<T>(AtomicPtr<()>, PhantomData<std::sync::atomic::AtomicPtr<T>>);

impl<T: 'static> RawCell<*mut T> for Pointer<T> {
    #[track_caller]
    fn new(value: *mut T) -> Self {
        Self(AtomicPtr::new(value.cast()), PhantomData)
    }

    #[track_caller]
    fn load(&self, order: Ordering) -> *mut T {
        RawCell::load(&self.0, order).cast()
    }

    #[track_caller]
    fn store(&self, value: *mut T, order: Ordering) {
        RawCell::store(&self.0, value.cast(), order);
    }

    #[track_caller]
    fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        RawCell::swap(&self.0, value.cast(), order).cast()
    }

    #[track_caller]
    fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        RawCell::compare_exchange(&self.0, current.cast(), new.cast(), success, failure)
            .map(<*mut ()>::cast)
            .map_err(<*mut ()>::cast)
    }
}

/// Plain data: loom reports a "Causality violation" where accesses are not ordered.
#[derive(Debug)]
pub struct LoomData<T>(UnsafeCell<T>);

// SAFETY: loom runs one thread at a time and reports unordered accesses.
unsafe impl<T: Send> Sync for LoomData<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for LoomData<T> {}

impl<T: Copy + Send + 'static> RawData<T> for LoomData<T> {
    #[track_caller]
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    #[track_caller]
    fn get(&self) -> T {
        // SAFETY: `with` has checked that no write is concurrent.
        self.0.with(|pointer| unsafe { *pointer })
    }

    #[track_caller]
    fn set(&self, value: T) {
        // SAFETY: `with_mut` has checked that no access is concurrent.
        self.0.with_mut(|pointer| unsafe { *pointer = value });
    }
}
