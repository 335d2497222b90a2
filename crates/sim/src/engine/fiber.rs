//! Simulated threads: stackful coroutines, and what the machine knows of each.

use std::collections::BTreeMap;
use std::ptr::{self, NonNull};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use lockwork_platform::{Cpu, Native};

use super::CpuId;
use crate::memory::LineId;

/// A thread's number.
pub(crate) type FiberId = u32;

/// A process of a run: threads that share locks, pool memory and futexes with each other, and caches and CPUs with all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub(crate) u16);

impl ProcessId {
    /// The process that every run has.
    pub const FIRST: Self = Self(0);
}

/// Bytes of a thread's stack. Locks need little, and what is not touched is not taken.
const STACK: usize = 32 * 1024;

/// What a thread does while it does not run on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It runs, or is about to.
    Running,
    /// It computes, until its clock's time.
    Computing,
    /// It waits for a cache line.
    Line(LineId),
    /// It waits until its stores are visible.
    Drain,
    /// It waits for room in the store buffer.
    Room,
    /// It polls lines that have not changed since this time, with at most so many rounds of so many cycles.
    Polling { since: u64, round: u64, most: u32 },
    /// It waits for a CPU.
    Queued,
    /// It sleeps on the futex at this address.
    Parked(usize),
    /// It has ended.
    Ended,
}

/// The most lines that a polling loop can look at and be put to sleep.
const WATCHED: usize = 6;

/// What a thread has done since its last pause.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Round {
    lines: [LineId; WATCHED],
    /// How long after the beginning it looked at each, first.
    offsets: [u32; WATCHED],
    count: u8,
    /// Whether it did nothing but look at those lines.
    pub(crate) idle: bool,
    /// Whether it waited for a line: it took longer than the next will.
    pub(crate) stalled: bool,
    /// When it began.
    pub(crate) start: u64,
}

impl Round {
    /// The round that begins now.
    pub(crate) fn begin(start: u64) -> Self {
        Self { idle: true, start, ..Self::default() }
    }

    /// Adds a line that was looked at at this time.
    #[inline]
    pub(crate) fn looked_at(&mut self, line: LineId, time: u64) {
        if !self.idle || self.lines().contains(&line) {
            return;
        }
        let count = usize::from(self.count);
        if count == WATCHED {
            self.idle = false;
            return;
        }
        self.lines[count] = line;
        self.offsets[count] = (time - self.start) as u32;
        self.count += 1;
    }

    /// How long after its beginning the round looks at a line, if it does.
    pub(crate) fn looks_at(&self, line: LineId) -> Option<u64> {
        let place = self.lines().iter().position(|other| *other == line)?;
        Some(self.offsets[place].into())
    }

    pub(crate) fn lines(&self) -> &[LineId] {
        &self.lines[..usize::from(self.count)]
    }

    /// Whether the round did the same as the one before it, and the next will take as long.
    pub(crate) fn repeats(&self, before: &Self) -> bool {
        self.idle && !self.stalled && before.idle && self.count > 0 && self.lines() == before.lines()
    }
}

/// When a thread had a CPU, and when not. For reports.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seat {
    /// When it last lost its CPU, or went to sleep.
    pub(crate) gone: u64,
    /// When it last became able to run.
    pub(crate) ready: u64,
    /// When it last got a CPU.
    pub(crate) back: u64,
    /// For how long it has had none since it was able to run for the first time.
    pub(crate) off: u64,
}

impl Seat {
    /// It goes to sleep.
    pub(crate) fn sleeps(&mut self, at: u64) {
        self.gone = at;
    }

    /// It is awake, and waits for a CPU.
    pub(crate) fn wakes(&mut self, at: u64) {
        self.ready = at;
    }

    /// Another thread gets its CPU.
    pub(crate) fn loses_cpu(&mut self, at: u64) {
        self.gone = at;
        self.ready = at;
    }

    /// It gets a CPU.
    pub(crate) fn gets_cpu(&mut self, at: u64) {
        self.back = at;
        self.off += at.saturating_sub(self.gone);
    }
}

type Stack = Coroutine<(), (), (), DefaultStack>;

/// A simulated thread.
pub(crate) struct Fiber {
    stack: Option<Stack>,
    /// Whose thread it is.
    pub(crate) process: ProcessId,
    yielder: *const Yielder<(), ()>,
    /// Near the top of its stack while it does not run on the host.
    pub(crate) rests_at: *const u8,
    pub(crate) state: State,
    /// Its own time, in cycles; at least the machine's while it runs.
    pub(crate) clock: u64,
    pub(crate) cpu: CpuId,
    /// Whether it stays on its CPU.
    pub(crate) pinned: bool,
    /// Cycles of work that it still has to do once it has a CPU again.
    pub(crate) owed: u64,
    /// How long it has had a CPU, in cycles; when it wakes up, put near the time of the thread that has its CPU.
    pub(crate) ran: u64,
    /// When it had a CPU, and when not.
    pub(crate) seat: Seat,
    /// Events for an older turn are void.
    pub(crate) turn: u32,
    pub(crate) round: Round,
    pub(crate) last_round: Round,
    /// Rounds that the last pause stood for.
    pub(crate) rounds: u32,
    /// The thread that has woken it last; none if its deadline has.
    pub(crate) waker: Option<FiberId>,
    /// Whether its last sleep ended at the deadline.
    pub(crate) timed_out: bool,
    pub(crate) word: u64,
    /// Calls of `VisibleReaders::now_and_then`.
    pub(crate) calls: u32,
    /// The address of its slot in the registry of waiters.
    pub(crate) slot: usize,
    /// Free pool nodes, by size.
    pub(crate) nodes: BTreeMap<usize, Vec<NonNull<u8>>>,
}

impl std::fmt::Debug for Fiber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fiber")
            .field("state", &self.state)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl Fiber {
    /// A thread that will run `body`.
    ///
    /// # Panics
    ///
    /// If the host has no memory for its stack.
    pub(crate) fn new(body: impl FnOnce() + 'static, cpu: CpuId, pinned: bool, id: FiberId) -> Self {
        let stack = DefaultStack::new(STACK).expect("memory for a thread's stack");
        let stack = Coroutine::with_stack(stack, move |yielder, ()| {
            super::with(|engine| engine.fiber(id).yielder = ptr::from_ref(yielder));
            body();
        });
        Self {
            stack: Some(stack),
            process: ProcessId::FIRST,
            yielder: ptr::null(),
            rests_at: ptr::null(),
            state: State::Queued,
            clock: 0,
            cpu,
            pinned,
            owed: 0,
            ran: 0,
            seat: Seat::default(),
            turn: 0,
            round: Round::default(),
            last_round: Round::default(),
            rounds: 1,
            waker: None,
            timed_out: false,
            word: 0,
            calls: 0,
            slot: 0,
            nodes: BTreeMap::new(),
        }
    }

    /// Takes the coroutine, to resume it while nothing of the machine is borrowed.
    pub(crate) fn take(&mut self) -> Option<Stack> {
        self.stack.take()
    }

    pub(crate) fn put_back(&mut self, stack: Stack) {
        self.stack = Some(stack);
    }

    /// Has the host fetch this.
    pub(crate) fn prefetch(&self) {
        prefetch(ptr::from_ref(self).cast(), size_of::<Self>());
    }

    /// Has the host fetch what the thread uses of its stack when it goes on: both ends.
    pub(crate) fn prefetch_stack(&self) {
        const BELOW: usize = 128;
        const ABOVE: usize = 256;
        prefetch(self.rests_at.wrapping_sub(BELOW), BELOW + ABOVE);
        Native::prefetch_write(self.yielder);
    }

    pub(crate) fn yielder(&self) -> *const Yielder<(), ()> {
        self.yielder
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        if let Some(stack) = self.stack.as_mut().filter(|stack| stack.started() && !stack.done()) {
            // SAFETY: by the contract of `Simulation::new` a thread that is cut short may be forgotten, and is not unwound.
            unsafe { stack.force_reset() };
        }
    }
}

/// Has the host fetch some bytes, whatever is there.
fn prefetch(start: *const u8, bytes: usize) {
    const LINE: usize = 64;
    for offset in (0..bytes).step_by(LINE) {
        Native::prefetch_write(start.wrapping_add(offset));
    }
}

/// Whether a coroutine has come to its end.
pub(crate) fn has_ended(result: &CoroutineResult<(), ()>) -> bool {
    matches!(result, CoroutineResult::Return(()))
}
