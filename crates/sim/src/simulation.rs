//! Runs: threads on a machine, from outside and from inside.

use std::alloc::Layout;
use std::ptr;

use crate::engine::fiber::{Seat, State};
use crate::engine::stats::{Counts, Transfers};
use crate::engine::trace::{Name, Step};
use crate::engine::{CoreId, End, Engine, ProcessId, suspend, with};
use crate::machine::Machine;

/// How to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Determines every choice of the run that is left to chance.
    pub seed: u64,
    /// Whether polling threads sleep until what they poll changes. The same results, much faster; see the book.
    pub spin_sleep: bool,
    /// Whether spinning locks spin for ever, as published; otherwise they begin to yield after a while, as Lockwork's do.
    pub strict_spin: bool,
    /// Threads of another process that compute all the time, from the first CPU on, one on each, and stay there.
    pub background: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, spin_sleep: true, strict_spin: false, background: 0 }
    }
}

/// A machine with threads, to be run.
pub struct Simulation {
    engine: *mut Engine,
    /// Background threads that are still to be added.
    background: usize,
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation").finish_non_exhaustive()
    }
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Why it ended.
    pub end: End,
    /// When it ended, in cycles.
    pub cycles: u64,
    /// What the threads did.
    pub counts: Counts,
    /// Cache lines moved.
    pub transfers: Transfers,
    /// The same for the same run, and hardly ever for another.
    pub hash: u64,
}

impl Simulation {
    /// A machine without threads.
    ///
    /// # Safety
    ///
    /// - Nobody uses what was placed in its memory once it has been dropped.
    /// - Threads that the end of the run cuts short are forgotten where they are: what a thread has on its stack while
    ///   simulated time passes must not need to be dropped for others to be safe, as a pinned value or a scope of host
    ///   threads would.
    #[must_use]
    pub unsafe fn new(machine: &Machine, options: Options) -> Self {
        let engine = Engine::new(machine, options);
        Self { engine: Box::into_raw(engine), background: options.background }
    }

    fn engine(&mut self) -> &mut Engine {
        // SAFETY: made in `new`, freed in `drop`; `&mut self`, and nothing runs.
        unsafe { &mut *self.engine }
    }

    /// What `make` makes, which may ask what machine it is on, as locks do that are made otherwise on one node than on several. No
    /// simulated thread does it, and no time passes.
    ///
    /// # Panics
    ///
    /// If `make` asks for more than that.
    pub fn make<T>(&mut self, make: impl FnOnce() -> T) -> T {
        Engine::enter(self.engine, make)
    }

    /// As [`Simulation::place`], with a name for reports.
    pub fn place_named<T: 'static>(&mut self, name: &'static str, value: T) -> &'static T {
        let placed = self.place(value);
        self.engine().name(ptr::from_ref(placed).addr(), Layout::new::<T>(), Name::Given(name));
        placed
    }

    /// Puts a value into simulated memory, on cache lines of its own. It stays until the run is dropped, without being
    /// dropped itself.
    pub fn place<T: 'static>(&mut self, value: T) -> &'static T {
        let place = self.engine().allocate(Layout::new::<T>()).cast::<T>();
        // SAFETY: fresh memory of this layout.
        unsafe { place.write(value) };
        // SAFETY: it stays for as long as the run, and by the contract of `new` nobody uses it for longer.
        unsafe { place.as_ref() }
    }

    /// As [`Simulation::place_named`] for many values, one behind the other as in an array: they share cache lines
    /// unless their type is aligned to 64 bytes.
    ///
    /// # Panics
    ///
    /// If they need more memory than a run has.
    pub fn place_all<T: 'static>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = T>,
    ) -> &'static [T] {
        let values: Vec<T> = values.into_iter().collect();
        let count = values.len();
        let layout = Layout::array::<T>(count).expect("a size that fits the address space");
        let place = self.engine().allocate(layout).cast::<T>();
        self.engine().name(place.as_ptr() as usize, layout, Name::Given(name));
        for (index, value) in values.into_iter().enumerate() {
            // SAFETY: inside the array.
            let element = unsafe { place.add(index) };
            // SAFETY: fresh memory for a value of this type.
            unsafe { element.write(value) };
        }
        // SAFETY: `count` values, which stay for as long as the run; by the contract of `new` nobody uses them for longer.
        unsafe { std::slice::from_raw_parts(place.as_ptr(), count) }
    }

    /// Adds a thread, which starts at the time 0 on `cpu` and stays there if it is pinned; else where there is
    /// least to do. `body` may be cut short at the end of the run: it is then forgotten, and what it owns is not dropped.
    pub fn spawn(&mut self, cpu: usize, pinned: bool, body: impl FnOnce() + 'static) {
        self.spawn_in(ProcessId::FIRST, cpu, pinned, body);
    }

    /// The state of every thread that has not ended, a line each: what it does or waits for.
    #[must_use]
    pub fn describe(&mut self) -> String {
        self.engine().describe()
    }

    /// Adds a process without threads. All that it shares with others is the machine.
    ///
    /// # Panics
    ///
    /// If there are 65,536 already.
    pub fn add_process(&mut self) -> ProcessId {
        self.engine().add_process()
    }

    /// As [`Simulation::spawn`], a thread of any process of this run.
    ///
    /// # Panics
    ///
    /// If this run has no such process.
    pub fn spawn_in(&mut self, process: ProcessId, cpu: usize, pinned: bool, body: impl FnOnce() + 'static) {
        self.engine().spawn(process, cpu, pinned, body);
    }

    /// Adds the background's threads, behind all others. They do not count for the end of a run.
    fn add_background(&mut self) {
        let threads = std::mem::take(&mut self.background);
        if threads == 0 {
            return;
        }
        let process = self.add_process();
        for cpu in 0..threads {
            self.spawn_in(process, cpu, true, compute_for_ever);
        }
        self.engine().leave_to_itself(process);
    }

    /// Runs until all threads have ended or the time `cycles` is over.
    ///
    /// # Panics
    ///
    /// If a thread panics, or this is one.
    pub fn run(&mut self, cycles: u64) -> Outcome {
        self.add_background();
        let engine = self.engine;
        let end = Engine::enter(engine, || Engine::run(engine, cycles));
        let engine = self.engine();
        let transfers = engine.directory.counts;
        Outcome { end, cycles: engine.now, counts: engine.counts, transfers, hash: engine.hash() }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`.
        drop(unsafe { Box::from_raw(self.engine) });
    }
}

/// In a simulated thread: computes for some cycles.
pub fn delay(cycles: u64) {
    with(|engine| engine.delay(cycles));
    // Let the time come, so that what follows happens then.
    crate::engine::catch_up();
}

/// In a simulated thread: computes until somebody else gets its CPU, and again once it has that back. No event is filed
/// for it: when nothing is left that may happen to the other threads, nothing is left.
fn compute_for_ever() {
    loop {
        with(|engine| engine.me().state = State::Computing);
        suspend();
    }
}

/// In a simulated thread: begins to note what happens on the machine, for [`end_trace`].
pub fn begin_trace() {
    with(Engine::begin_trace);
}

/// In a simulated thread: what has happened since [`begin_trace`], in the order of its times.
#[must_use]
pub fn end_trace() -> Vec<Step> {
    with(Engine::end_trace)
}

/// In a simulated thread: notes something about itself, if [`begin_trace`] was called.
pub fn note(what: &str) {
    with(|engine| {
        let me = engine.my_id();
        engine.note_step(me, |_| what.to_owned());
    });
}

/// In a simulated thread: its number. Costs nothing.
#[must_use]
pub(crate) fn thread() -> u32 {
    with(|engine| engine.my_id())
}

/// In a simulated thread: the core that it runs on. Costs nothing.
#[must_use]
pub(crate) fn core() -> CoreId {
    with(|engine| engine.my_core())
}

/// What has been moved and done up to some time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    /// Lines that came from another core or from memory.
    pub(crate) misses: u64,
    /// Those of them that came to some cores.
    pub(crate) theirs: u64,
    /// Read-modify-writes.
    pub(crate) atomics: u64,
}

/// In a simulated thread: what all threads have moved and done so far, and of that what has come to these cores. Costs nothing.
#[must_use]
pub(crate) fn traffic(cores: &[CoreId]) -> Traffic {
    with(|engine| Traffic {
        misses: engine.directory.misses(),
        theirs: cores.iter().map(|core| engine.directory.misses_of(*core)).sum(),
        atomics: engine.counts.atomics,
    })
}

/// In a simulated thread: when it had a CPU. Costs nothing.
#[must_use]
pub(crate) fn seat() -> Seat {
    with(|engine| engine.me().seat)
}

/// In a simulated thread: its time, in cycles. Costs nothing.
#[must_use]
pub fn now() -> u64 {
    with(|engine| engine.me().clock)
}
