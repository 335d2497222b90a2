//! What a lock takes of memory, measured on a real lock of the kind.

mod probe;

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lockwork_locks::RawLock;
use lockwork_locks::registry::erased::ErasedLock;
use lockwork_locks::registry::{Spec, Visitor, Wrapper, WrapperId};

use self::probe::{LIVE, NODES, Probe, WAITING};
/// Bytes of a lock and of what it keeps in the pool while no thread holds it or waits for it. The knobs of `gcr`, which
/// all locks of one spec share under `lockwork run`, do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Never used.
    pub unused: usize,
    /// After three threads of one NUMA node have contended for it.
    pub one_node: usize,
    /// After two threads of every node have contended for it, and a third one.
    pub all_nodes: usize,
}

impl Footprint {
    /// Measures the mutex that `spec` describes on a machine with so many NUMA nodes (1 to 64): threads that say that
    /// they run there contend for it. Takes some milliseconds.
    ///
    /// ```
    /// use lockwork_footprint::Footprint;
    /// use lockwork_locks::registry::Spec;
    ///
    /// let cohort = Footprint::measure(Spec::mutex("c-tkt-tkt")?, 8);
    /// assert_eq!((cohort.unused, cohort.one_node), (8, 136));
    /// # Ok::<(), lockwork_locks::registry::SpecError>(())
    /// ```
    #[must_use]
    pub fn measure(mut spec: Spec, nodes: usize) -> Self {
        /// The measured machine is one for the whole process.
        static MACHINE: Mutex<()> = Mutex::new(());
        if let Some(Wrapper { knobs, .. }) = &mut spec.wrapper {
            // A thread that does not join at once becomes passive, and takes its place before it is seen to wait.
            knobs.spin = Some(0);
        }
        let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        NODES.store(nodes.clamp(1, 64), Relaxed);
        let after = |used| spec.dispatch::<Probe, _>(After { spec: &spec, used });
        let measured = [0, 1, nodes.clamp(1, 64)].map(after);
        Self { unused: measured[0], one_node: measured[1], all_nodes: measured[2] }
    }
}

/// Measures after the use by so many nodes.
struct After<'a> {
    spec: &'a Spec,
    used: usize,
}

impl Visitor<Probe> for After<'_> {
    type Output = usize;

    fn mutex<L: RawLock<Probe> + 'static>(self, new: impl Fn() -> L) -> usize {
        let bytes = match self.spec.wrapper.map(|wrapper| wrapper.id) {
            // The lock, and the pointer to the state.
            Some(WrapperId::Gcr | WrapperId::GcrNuma) => {
                self.spec.base.dispatch::<Probe, _>(Bytes) + size_of::<usize>()
            }
            Some(_) | None => size_of::<L>(),
        };
        let before = LIVE.load(Relaxed);
        let lock = new();
        contend(&lock, self.used);
        bytes + LIVE.load(Relaxed) - before
    }
}

/// The size of a base lock.
struct Bytes;

impl Visitor<Probe> for Bytes {
    type Output = usize;

    fn mutex<L: RawLock<Probe> + 'static>(self, _: impl Fn() -> L) -> usize {
        size_of::<L>()
    }
}

/// Lets two threads of each of so many nodes wait for a lock, several times.
fn contend(lock: &dyn ErasedLock<Probe>, nodes: usize) {
    /// Enough for a lock to settle.
    const ROUNDS: usize = 3;
    /// A round in which a thread does not come to wait goes on after this time.
    const PATIENCE: Duration = Duration::from_millis(200);
    let threads = 2 * nodes;
    let rounds = &Barrier::new(threads + 1);
    let unlock = |held| {
        // SAFETY: every token below is passed once.
        unsafe { lock.unlock(held) };
    };
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                probe::run_on(thread % nodes);
                for _ in 0..ROUNDS {
                    rounds.wait();
                    probe::come();
                    unlock(lock.lock());
                    rounds.wait();
                }
            });
        }
        for _ in 0..if nodes == 0 { 0 } else { ROUNDS } {
            let held = lock.lock();
            WAITING.store(0, SeqCst);
            rounds.wait();
            let start = Instant::now();
            while WAITING.load(SeqCst) < threads && start.elapsed() < PATIENCE {
                thread::yield_now();
            }
            unlock(held);
            rounds.wait();
        }
    });
}
