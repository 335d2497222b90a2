//! The bookkeeping of one execution under a model checker: memory, sleepers, threads, the clock.
//!
//! It is plain data: a model checker runs one thread at a time, and what it must see (scheduling points, orderings)
//! goes through its own words.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::TypeId;
use std::fmt::Write as _;
use std::mem;
use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lockwork_platform::AtomicCell;
use lockwork_platform::bookmarks::Bookmark;

use super::Model;
use super::cells::Word;
use super::engine::{Engine, RawCell, RawData};

/// What the modelled machine looks like to a lock.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// CPUs; thread `n` runs on CPU `n % parallelism`.
    pub parallelism: usize,
    /// NUMA nodes; CPU `n` belongs to node `n % nodes`.
    pub nodes: usize,
    /// Groups of cores in a node; CPU `n` belongs to group `n / nodes % clusters` of its node.
    pub clusters: usize,
    /// Threads that can run, as far as a lock is told.
    pub runnable: usize,
    /// Whether threads are seen to be on a CPU; `None`: nobody watches the scheduler.
    pub running: Option<bool>,
    /// Whether CPU clocks of threads are seen to move on; `None`: nobody can read them.
    pub clocks: Option<bool>,
    /// Pauses before a spin-then-park waiter parks.
    pub spin_budget: u32,
    /// Whether the state of an idle lock is taken for another one. Otherwise each lock that needs a state gets a fresh one.
    pub reclaims: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            parallelism: 2,
            nodes: 1,
            clusters: 1,
            runnable: 1,
            running: None,
            clocks: None,
            spin_budget: 1,
            reclaims: false,
        }
    }
}

/// The payload with which a thread of the parent unwinds after a modelled `fork`.
#[derive(Debug)]
pub struct Ghost;

/// Pool nodes of all types share memory, as they do natively, so that one is recycled as another.
const BLOCK: Layout = match Layout::from_size_align(16384, 128) {
    Ok(layout) => layout,
    Err(_) => panic!("not a layout"),
};

/// Waiting threads that run in turn this often, while another could do something, make a schedule unfair.
const MOST_TURNS: u32 = 4;

/// After this many fruitless turns in a row, time passes up to the next deadline of a sleeper. Time may always pass.
const TURNS_OF_A_TICK: u32 = 12;

/// Threads in one execution.
const MOST_THREADS: usize = 16;

/// Wakes of futexes in different regions do not depend on each other; modulo this many.
const BUCKETS: usize = 8;

/// Words that all locks share.
const SHARED: usize = 4;

/// Slots for visible readers: fewer than threads, so that some share.
pub(super) const VISIBLE: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Alive,
    Dead,
}

/// Memory with a lifetime: a pool node, or a lock that the scenario registered.
struct Region<E: Engine> {
    start: usize,
    bytes: usize,
    life: Life,
    /// Read by every access to the region, written where its lifetime begins and ends: an access that is not
    /// ordered against those is a causality violation.
    watch: E::Data<u32>,
    /// Whether the memory is ours.
    pooled: bool,
}

struct Sleeper {
    thread: usize,
    word: usize,
    deadline: Option<u64>,
    awake: bool,
}

#[derive(Default)]
struct ThreadState {
    /// The number of the thread's first bookmark.
    bookmarks: Rc<AtomicU32>,
    free: Vec<usize>,
    word: u64,
    waiting_on: usize,
    /// Releases that the thread is in, and `fork` waits for.
    steps: usize,
    ghost: bool,
    /// Pauses to come that do not let others run first.
    hurry: u32,
}

/// A state of a lock, which stays of its type.
#[derive(Clone, Copy)]
pub(super) struct StateAt {
    pub(super) kind: TypeId,
    pub(super) address: usize,
    /// Takes the state at this address back, if nobody uses it.
    pub(super) take_back: fn(usize) -> bool,
}

/// The bookkeeping of one execution.
pub struct Machine<E: Engine> {
    config: Config,
    regions: Vec<Region<E>>,
    /// Those that can be taken back, in the order in which they were made.
    states: Vec<StateAt>,
    threads: Vec<ThreadState>,
    sleepers: Vec<Sleeper>,
    bookmarks: Vec<Rc<Bookmark<Model<E>>>>,
    /// Modelled forks so far.
    generation: u32,
    fruitless: u32,
    /// The thread that waited in vain last, and how often that changed since something happened.
    turns: (usize, u32),
    time: u64,
    words: Option<Words<E>>,
}

/// The words through which the checker sees what the bookkeeping does.
pub(super) struct Words<E: Engine> {
    clock: Rc<E::U32>,
    buckets: Rc<[E::U32; BUCKETS]>,
    shared: Rc<[Word<E, E::Usize>; SHARED]>,
    visible: Rc<[Word<E, E::Usize>; VISIBLE]>,
    states: Rc<E::Usize>,
}

impl<E: Engine> Clone for Words<E> {
    fn clone(&self) -> Self {
        Self {
            clock: Rc::clone(&self.clock),
            buckets: Rc::clone(&self.buckets),
            shared: Rc::clone(&self.shared),
            visible: Rc::clone(&self.visible),
            states: Rc::clone(&self.states),
        }
    }
}

impl<E: Engine> Words<E> {
    pub(super) fn clock(&self) -> &E::U32 {
        &self.clock
    }

    pub(super) fn visible(&self, index: usize) -> &Word<E, E::Usize> {
        &self.visible[index]
    }

    pub(super) fn shared(&self, index: usize) -> &Word<E, E::Usize> {
        &self.shared[index % SHARED]
    }

    /// How many states have been published.
    pub(super) fn states(&self) -> &E::Usize {
        &self.states
    }

    pub(super) fn bucket(&self, index: usize) -> &E::U32 {
        &self.buckets[index]
    }
}

impl<E: Engine> std::fmt::Debug for Machine<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<E: Engine> Machine<E> {
    /// The state before the first execution.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            config: Config {
                parallelism: 1,
                nodes: 1,
                clusters: 1,
                runnable: 1,
                running: None,
                clocks: None,
                spin_budget: 0,
                reclaims: false,
            },
            regions: Vec::new(),
            states: Vec::new(),
            threads: Vec::new(),
            sleepers: Vec::new(),
            bookmarks: Vec::new(),
            generation: 0,
            fruitless: 0,
            turns: (0, 0),
            time: 0,
            words: None,
        }
    }

    /// Begins an execution. Call it inside the model checker.
    pub fn begin(&mut self, config: Config) {
        self.clear();
        self.config = config;
        self.threads.resize_with(MOST_THREADS, ThreadState::default);
        self.words = Some(Words {
            clock: Rc::new(E::U32::new(0)),
            buckets: Rc::new(std::array::from_fn(|_| E::U32::new(0))),
            shared: Rc::new(std::array::from_fn(|_| Word::new(0))),
            visible: Rc::new(std::array::from_fn(|_| Word::new(0))),
            states: Rc::new(E::Usize::new(0)),
        });
    }

    /// Ends an execution that went well.
    ///
    /// # Panics
    ///
    /// If more than `resident` pool nodes were not returned.
    pub fn end(&mut self, resident: usize) {
        let kept = self.regions.iter().filter(|region| region.pooled && region.life == Life::Alive).count();
        self.clear();
        assert!(kept <= resident, "{kept} pool nodes were not returned ({resident} expected)");
    }

    /// Forgets an execution.
    pub fn clear(&mut self) {
        for region in self.regions.drain(..).filter(|region| region.pooled) {
            // SAFETY: allocated with this layout by `allocate`, and no thread of the execution is left.
            unsafe { dealloc(region.start as *mut u8, BLOCK) };
        }
        self.states.clear();
        self.threads.clear();
        self.sleepers.clear();
        self.bookmarks.clear();
        self.generation = 0;
        self.words = None;
        self.progress();
        self.time = 0;
    }

    pub(super) fn words(&self) -> Words<E> {
        self.words.clone().expect("an execution has begun")
    }

    pub(super) fn config(&self) -> Config {
        self.config
    }

    fn region(&self, address: usize) -> Option<usize> {
        self.regions.iter().position(|region| (region.start..region.start + region.bytes).contains(&address))
    }

    /// An access to the word at `address` is about to happen.
    pub(super) fn touch(&mut self, address: usize) {
        self.check_ghost();
        let Some(index) = self.region(address) else { return };
        let region = &self.regions[index];
        assert!(region.life == Life::Alive, "access to region {index} after its end");
        region.watch.get();
    }

    /// Something changed that a waiting thread may wait for.
    pub(super) fn progress(&mut self) {
        self.fruitless = 0;
        self.turns.1 = 0;
    }

    /// Lets the next `pauses` pauses of the running thread be no more than that.
    pub(super) fn hurry(&mut self, pauses: u32) {
        self.threads[E::thread()].hurry = pauses;
    }

    /// Whether the running thread, which pauses, lets others run first.
    pub(super) fn pause(&mut self) -> bool {
        let hurry = &mut self.threads[E::thread()].hurry;
        let patient = *hurry == 0;
        *hurry = hurry.saturating_sub(1);
        if patient {
            self.fruitless();
        }
        patient
    }

    /// A thread waits in vain once more.
    pub(crate) fn fruitless(&mut self) {
        self.check_ghost();
        self.fruitless += 1;
        let me = E::thread();
        if self.turns.0 != me {
            self.turns = (me, self.turns.1 + 1);
        }
        if self.fruitless.is_multiple_of(TURNS_OF_A_TICK) && self.tick() {
            return;
        }
        if self.turns.1 >= MOST_TURNS {
            E::prune();
        }
        assert!(self.fruitless <= E::STUCK_AFTER, "stuck: {}", self.describe());
    }

    /// Lets time pass up to the next deadline of a sleeper; whether there is one.
    fn tick(&mut self) -> bool {
        let time = self.time;
        let deadlines = self.sleepers.iter().filter_map(|sleeper| sleeper.deadline);
        let Some(next) = deadlines.filter(|deadline| *deadline > time).min() else { return false };
        // Not progress: a thread that only naps for ever is stuck.
        self.time = next;
        true
    }

    /// The time, if the clock word does not say later.
    pub(super) fn time(&self) -> u64 {
        self.time
    }

    fn describe(&self) -> String {
        let mut text = format!("nothing changes any more, seen by thread {};", E::thread());
        for sleeper in &self.sleepers {
            let region = self.region(sleeper.word);
            let _ = write!(text, " thread {} sleeps on region {region:?},", sleeper.thread);
        }
        for (thread, state) in self.threads.iter().enumerate() {
            if let Some(region) = self.region(state.waiting_on & !1) {
                let _ = write!(text, " thread {thread} waits for region {region},");
            }
        }
        text.pop();
        text
    }

    /// Declares memory that must not be used after [`Machine::retire`].
    pub fn adopt(&mut self, start: usize, bytes: usize) {
        let watch = E::Data::new(0);
        self.regions.push(Region { start, bytes, life: Life::Alive, watch, pooled: false });
    }

    /// Ends the life of the region at `start`.
    ///
    /// # Panics
    ///
    /// If there is no such region, or another thread's access is not ordered before this end.
    pub fn retire(&mut self, start: usize) {
        self.check_ghost();
        let index = self.region(start).expect("memory that was adopted or allocated");
        let region = &mut self.regions[index];
        assert!(region.life == Life::Alive, "region {index} ended twice");
        region.watch.set(0);
        region.life = Life::Dead;
        if region.pooled {
            self.threads[E::thread()].free.push(index);
        }
        self.progress();
    }

    /// Memory for a pool node: what this thread freed last, else fresh memory.
    pub(super) fn allocate(&mut self, needed: Layout) -> NonNull<u8> {
        self.check_ghost();
        assert!(
            needed.size() <= BLOCK.size() && needed.align() <= BLOCK.align(),
            "a node as large as {needed:?}"
        );
        let index = self.threads[E::thread()].free.pop().unwrap_or_else(|| {
            // SAFETY: the layout has a size.
            let Some(fresh) = NonNull::new(unsafe { alloc(BLOCK) }) else { handle_alloc_error(BLOCK) };
            let start = fresh.as_ptr() as usize;
            let watch = E::Data::new(0);
            self.regions.push(Region { start, bytes: BLOCK.size(), life: Life::Dead, watch, pooled: true });
            self.regions.len() - 1
        });
        let region = &mut self.regions[index];
        region.watch.set(0);
        region.life = Life::Alive;
        NonNull::new(region.start as *mut u8).expect("allocated memory")
    }

    pub(super) fn states(&self) -> Vec<StateAt> {
        self.states.clone()
    }

    pub(super) fn add_state(&mut self, state: StateAt) {
        self.states.push(state);
    }

    /// Which scheduling word stands for the futex at `address`.
    pub(super) fn bucket_of(&self, address: usize) -> usize {
        self.region(address).map_or(0, |index| index % BUCKETS)
    }

    /// Puts the running thread to sleep on the futex at `word`, unless the deadline has passed.
    pub(super) fn fall_asleep(&mut self, word: usize, deadline: Option<u64>) -> bool {
        if deadline.is_some_and(|deadline| deadline <= self.time) {
            return false;
        }
        self.sleepers.push(Sleeper { thread: E::thread(), word, deadline, awake: false });
        true
    }

    /// Whether the sleep of the running thread is over: `Some(true)` by a wake, `Some(false)` by its deadline.
    pub(super) fn woken(&mut self) -> Option<bool> {
        self.check_ghost();
        let me = E::thread();
        let index = self.sleepers.iter().position(|sleeper| sleeper.thread == me).expect("a sleeper");
        let sleeper = &self.sleepers[index];
        let expired = sleeper.deadline.is_some_and(|deadline| deadline <= self.time);
        let awake = sleeper.awake;
        if awake {
            self.progress();
        }
        if awake || expired {
            self.sleepers.remove(index);
        }
        (awake || expired).then_some(awake)
    }

    /// Wakes up to `n` sleepers on the futex at `word`, the oldest first; returns their threads.
    pub(super) fn wake(&mut self, word: usize, n: u32) -> Vec<usize> {
        self.progress();
        let asleep = self.sleepers.iter_mut().filter(|sleeper| sleeper.word == word && !sleeper.awake);
        asleep
            .take(n as usize)
            .map(|sleeper| {
                sleeper.awake = true;
                sleeper.thread
            })
            .collect()
    }

    /// Sets the clock; returns the threads whose sleep that ends.
    pub(super) fn set_time(&mut self, time: u64) -> Vec<usize> {
        self.progress();
        self.time = self.time.max(time);
        let late = |sleeper: &&Sleeper| sleeper.deadline.is_some_and(|deadline| deadline <= time);
        self.sleepers.iter().filter(late).map(|sleeper| sleeper.thread).collect()
    }

    /// A modelled `fork`: from here on only the running thread exists. Returns what the others waited for,
    /// and which of them sleep.
    pub(super) fn fork(&mut self) -> (Vec<usize>, Vec<usize>) {
        let me = E::thread();
        self.generation += 1;
        self.progress();
        let asleep =
            self.sleepers.iter().map(|sleeper| sleeper.thread).filter(|thread| *thread != me).collect();
        let mut waited_for = Vec::new();
        self.threads[me].bookmarks.store(0, Relaxed);
        for (_, state) in self.threads.iter_mut().enumerate().filter(|(thread, _)| *thread != me) {
            state.ghost = true;
            waited_for.extend(Some(state.waiting_on).filter(|address| *address != 0));
        }
        (waited_for, asleep)
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether no fork since has left this thread behind.
    pub(super) fn lives(&self, thread: usize) -> bool {
        self.threads.get(thread).is_some_and(|thread| !thread.ghost)
    }

    fn check_ghost(&self) {
        if self.threads.get(E::thread()).is_some_and(|thread| thread.ghost) && !std::thread::panicking() {
            resume_unwind(Box::new(Ghost));
        }
    }

    pub(super) fn thread_word(&mut self) -> &mut u64 {
        &mut self.threads[E::thread()].word
    }

    pub(super) fn set_waiting_on(&mut self, address: usize) -> usize {
        mem::replace(&mut self.threads[E::thread()].waiting_on, address)
    }

    /// The running thread enters (1) or leaves (-1) a release that `fork` waits for.
    pub(super) fn step(&mut self, change: isize) {
        let steps = &mut self.threads[E::thread()].steps;
        *steps = steps.checked_add_signed(change).expect("as many ends as beginnings");
    }

    pub(super) fn others_are_in_steps(&self) -> bool {
        let me = E::thread();
        self.threads.iter().enumerate().any(|(thread, state)| thread != me && state.steps > 0)
    }

    pub(super) fn waiters_of(&self, address: usize) -> usize {
        self.threads.iter().filter(|thread| thread.waiting_on == address).count()
    }

    pub(super) fn first_bookmark(&self) -> Rc<AtomicU32> {
        Rc::clone(&self.threads[E::thread()].bookmarks)
    }

    pub(super) fn bookmark(&self, index: usize) -> Rc<Bookmark<Model<E>>> {
        Rc::clone(&self.bookmarks[index])
    }

    /// Adds a bookmark; returns how many there are.
    pub(super) fn add_bookmark(&mut self, bookmark: Bookmark<Model<E>>) -> usize {
        self.bookmarks.push(Rc::new(bookmark));
        self.bookmarks.len()
    }

    pub(super) fn cpu(&self) -> usize {
        E::thread() % self.config.parallelism
    }

    pub(super) fn place(&self, level: usize) -> Option<usize> {
        let Config { nodes, clusters, .. } = self.config;
        let node = (nodes > 1).then(|| self.cpu() % nodes);
        let cluster = (clusters > 1).then(|| self.cpu() / nodes % clusters);
        [node, cluster].into_iter().flatten().nth(level)
    }
}

impl<E: Engine> Default for Machine<E> {
    fn default() -> Self {
        Self::new()
    }
}
