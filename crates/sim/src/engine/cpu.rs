//! What a CPU does with the operations of its thread: cache hits, misses, stores and fences, polling.
//!
//! A core is in order and waits for what it loads. Stores wait in the buffer for their lines, several of which may be
//! on their way, and become visible in program order. A read-modify-write, a sequentially consistent store and a fence
//! wait until the buffer is empty, as on x86. On a machine with a weak order stores may overtake each other (see
//! `stores`), and a read-modify-write that does not release need not wait for them.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use super::coherence::outlook::Outlook;
use super::coherence::{Access, CoreId};
use super::fiber::{FiberId, Round, State};
pub(crate) use super::stores::Width;
use super::stores::{Store, StoreBuffer};
use super::{CpuId, Engine, Event};
use crate::machine::Order;
use crate::memory::LineId;

/// Where a load finds its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// In memory.
    Memory,
    /// Among the stores that are not visible yet.
    Buffer(u64),
}

/// A hardware thread.
#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) core: CoreId,
    /// The thread that it runs.
    pub(super) fiber: Option<FiberId>,
    buffer: StoreBuffer,
    /// Threads that wait for it.
    pub(super) queue: VecDeque<FiberId>,
    /// The number of its time slice, when it began, and when it is over if others wait.
    pub(super) slice: u32,
    pub(super) slice_start: u64,
    pub(super) slice_end: u64,
    /// Whether the end of the slice is filed as an event.
    pub(super) slice_filed: bool,
    /// Whether its thread is to give way as soon as it can.
    pub(super) give_way: bool,
    /// The thread that it ran last.
    pub(super) last: Option<FiberId>,
    /// Since when it has none, if it has none.
    pub(super) idle_since: u64,
}

impl Cpu {
    pub(super) fn new(core: CoreId, order: Order) -> Self {
        Self {
            core,
            fiber: None,
            buffer: StoreBuffer::new(order),
            queue: VecDeque::new(),
            slice: 0,
            slice_start: 0,
            slice_end: 0,
            slice_filed: false,
            give_way: false,
            last: None,
            idle_since: 0,
        }
    }

    /// When its thread has to give way to another one.
    fn must_give_way_at(&self) -> u64 {
        if self.slice_filed { self.slice_end } else { u64::MAX }
    }

    /// Whether all its stores are visible.
    pub(super) fn is_drained(&self) -> bool {
        self.buffer.is_empty()
    }
}

impl Engine {
    /// The CPUs of a core.
    pub(super) fn cpus_of(&self, core: CoreId) -> Range<CpuId> {
        let each = self.machine.threads_per_core as CpuId;
        core * each..(core + 1) * each
    }

    /// The core that runs the calling thread.
    pub(crate) fn my_core(&mut self) -> CoreId {
        self.my_cpu().core
    }

    /// The CPU that runs the calling thread.
    #[inline]
    fn my_cpu(&mut self) -> &mut Cpu {
        let cpu = self.me().cpu;
        &mut self.cpus[usize::from(cpu)]
    }

    /// Whether the thread has run ahead of what may still happen. Then it must wait, and will. What it is about to do
    /// does not change for as long as `outlook` says.
    #[inline]
    pub(crate) fn is_ahead(&mut self, outlook: Outlook) -> bool {
        let next = if self.ready.is_empty() { self.wheel.next_time() } else { self.now };
        let mut limit = next.saturating_add(outlook.lookahead);
        if outlook.until > limit {
            limit = limit.max(outlook.until.min(self.my_cpu().must_give_way_at()));
        }
        let limit = limit.min(self.end.saturating_add(1));
        let clock = self.me().clock;
        // What happens in the very cycle comes first; but a thread whose turn it is has had that.
        let ahead = clock > self.now && clock >= limit;
        if ahead {
            self.compute();
        }
        ahead
    }

    /// As [`Engine::is_ahead`], for an access to a line that depends on the thread's own stores, too, while there are
    /// any under way.
    #[inline]
    fn is_ahead_of_stores(&mut self, line: LineId, access: Access) -> bool {
        let cpu = self.my_cpu();
        let (core, drained) = (cpu.core, cpu.is_drained());
        let outlook = if drained { self.directory.outlook(core, line, access) } else { Outlook::default() };
        self.is_ahead(outlook)
    }

    /// Lets the calling thread, which is to be suspended, go on at its own clock's time.
    pub(crate) fn compute(&mut self) {
        self.compute_as(self.current);
    }

    /// Lets a thread go on at its own clock's time.
    pub(super) fn compute_as(&mut self, id: FiberId) {
        let fiber = self.fiber(id);
        fiber.state = State::Computing;
        fiber.turn += 1;
        let (clock, turn) = (fiber.clock, fiber.turn);
        self.file(clock, Event::Go(id, turn));
    }

    /// Asks for a line, unless that has been done, and lets the thread wait for it.
    fn fetch(&mut self, line: LineId, access: Access) {
        let core = self.my_cpu().core;
        self.ask(core, line, access);
        let fiber = self.me();
        fiber.state = State::Line(line);
        fiber.round.stalled = true;
    }

    fn ask(&mut self, core: CoreId, line: LineId, access: Access) {
        if !self.directory.is_pending(core, line) {
            let me = self.current;
            self.note_step(me, |engine| engine.request_text(line, access));
            let time = self.me().clock.max(self.now);
            self.send(core, line, access, time);
        }
    }

    /// Sends a request on its way.
    fn send(&mut self, core: CoreId, line: LineId, access: Access, time: u64) {
        let (request, after) = self.directory.send(core, line, access);
        self.file(time + after, Event::Arrive(request));
    }

    /// The line of a cell.
    ///
    /// # Panics
    ///
    /// If the cell is not in this run's memory. Cells may be shared between host threads, each of which has runs of its
    /// own, only because nobody else than code of its own run can use one.
    #[inline]
    fn line_of(&self, address: usize) -> LineId {
        match self.memory.line_of(address) {
            Some(line) => line,
            None => foreign_cell(),
        }
    }

    /// Loads from `address`. `None`: try again when it is the thread's turn.
    #[inline]
    pub(crate) fn load(&mut self, address: usize) -> Option<Source> {
        let line = self.line_of(address);
        if self.is_ahead_of_stores(line, Access::Load) {
            return None;
        }
        let cpu = self.my_cpu();
        let core = cpu.core;
        if !cpu.is_drained()
            && let Some(bits) = cpu.buffer.newest(address)
        {
            self.worked(1);
            return Some(Source::Buffer(bits));
        }
        if !self.directory.hits(core, line, Access::Load) {
            self.fetch(line, Access::Load);
            return None;
        }
        let hit = self.machine.memory.hit;
        self.counts.operations += 1;
        let fiber = self.me();
        fiber.round.looked_at(line, fiber.clock);
        fiber.clock += hit;
        Some(Source::Memory)
    }

    /// Stores to `address`, after all earlier stores if it releases. `None`: try again when it is the thread's turn;
    /// else `Some(true)` if the caller is to write the value, `Some(false)` if the buffer will.
    #[inline]
    pub(crate) fn store(
        &mut self,
        address: usize,
        (bits, width): (u64, Width),
        releases: bool,
    ) -> Option<bool> {
        let line = self.line_of(address);
        if self.is_ahead_of_stores(line, Access::Store) {
            return None;
        }
        let room = self.machine.core.store_buffer;
        let cpu = self.my_cpu();
        let core = cpu.core;
        let at_once = cpu.buffer.lets_pass(line, releases);
        if cpu.buffer.len() >= room {
            self.me().state = State::Room;
            return None;
        }
        let owned = self.directory.hits(core, line, Access::Store);
        if at_once && owned {
            let time = self.me().clock;
            self.wrote(core, line, time);
        } else {
            self.my_cpu().buffer.push(Store { line, address, bits, width, releases });
            if !owned {
                self.ask(core, line, Access::Store);
            }
        }
        self.worked(1);
        Some(at_once && owned || width == Width::Line)
    }

    /// Makes the line of `address` the core's own, with no store under way that is to be visible before: what a
    /// read-modify-write begins with. `None`: try again when it is the thread's turn.
    #[inline]
    pub(crate) fn own(&mut self, address: usize, releases: bool) -> Option<()> {
        let line = self.line_of(address);
        if !self.my_cpu().buffer.lets_pass(line, releases) {
            self.drained()?;
        }
        let core = self.my_cpu().core;
        let outlook = self.directory.outlook(core, line, Access::Store);
        if self.is_ahead(outlook) {
            return None;
        }
        if !self.directory.hits(core, line, Access::Store) {
            self.fetch(line, Access::Store);
            return None;
        }
        let me = self.current;
        self.note_step(me, |engine| format!("changes {} by an atomic operation", engine.name_of(line)));
        let time = self.me().clock;
        self.wrote(core, line, time);
        self.counts.atomics += 1;
        self.worked(self.machine.core.atomic);
        Some(())
    }

    /// Waits until the thread's stores are visible. `None`: try again when it is the thread's turn.
    #[inline]
    pub(crate) fn drained(&mut self) -> Option<()> {
        if self.my_cpu().is_drained() {
            return Some(());
        }
        self.me().state = State::Drain;
        None
    }

    /// Waits until no store to this memory is under way: what is written there at once is written after those. `None`:
    /// try again when it is the thread's turn.
    pub(crate) fn settled(&mut self, memory: Range<usize>) -> Option<()> {
        if self.my_cpu().buffer.writes_to(&memory) {
            self.me().state = State::Drain;
            return None;
        }
        Some(())
    }

    /// A full fence.
    pub(crate) fn fence(&mut self) -> Option<()> {
        self.drained()?;
        self.worked(self.machine.core.atomic);
        Some(())
    }

    /// A fence that keeps the stores before it before those behind it. Costs nothing where they keep their order anyway.
    pub(crate) fn release_fence(&mut self) {
        if self.machine.core.order == Order::Weak {
            self.my_cpu().buffer.fence();
            self.worked(1);
        }
    }

    /// Asks for the line of `address`, to write it, and does not wait. `None`: try again when it is the thread's turn.
    pub(crate) fn prefetch(&mut self, address: usize) -> Option<()> {
        // A hint may name any address.
        let Some(line) = self.memory.line_of(address) else { return Some(()) };
        if self.is_ahead(Outlook::default()) {
            return None;
        }
        let core = self.my_cpu().core;
        if !self.directory.hits(core, line, Access::Store) && !self.directory.is_busy(line) {
            self.ask(core, line, Access::Store);
        }
        // The next look at the line is another one.
        self.me().round.idle = false;
        Some(())
    }

    /// Begins to load a line that the thread is about to look at.
    pub(crate) fn look_ahead(&mut self, address: usize) -> Option<()> {
        let Some(line) = self.memory.line_of(address) else { return Some(()) };
        let core = self.my_cpu().core;
        if self.directory.hits(core, line, Access::Load) {
            return Some(());
        }
        if self.is_ahead(Outlook::default()) {
            return None;
        }
        if !self.directory.hits(core, line, Access::Load) {
            self.ask(core, line, Access::Load);
        }
        // The next look at the line is another one.
        self.me().round.idle = false;
        Some(())
    }

    /// The thread has done something of this many cycles that others may notice.
    #[inline]
    fn worked(&mut self, cycles: u64) {
        self.counts.operations += 1;
        let fiber = self.me();
        fiber.clock += cycles;
        fiber.round.idle = false;
    }

    /// The thread computes for some cycles, and does not poll.
    pub(crate) fn delay(&mut self, cycles: u64) {
        let cpu = self.me().cpu;
        let core = self.cpus[usize::from(cpu)].core;
        let busy = |other: CpuId| other != cpu && self.cpus[usize::from(other)].fiber.is_some();
        let slow = self.cpus_of(core).any(busy);
        let factor = if slow { self.machine.core.smt_slowdown } else { 1.0 };
        let fiber = self.me();
        fiber.clock += if slow { (cycles as f64 * factor) as u64 } else { cycles };
        fiber.round.idle = false;
    }

    /// Stores of a core to a line that it owns, which the other hardware threads of the core may poll.
    fn wrote(&mut self, core: CoreId, line: LineId, time: u64) {
        self.directory.modify(line);
        if self.machine.threads_per_core > 1 {
            self.wake_pollers(core, line, time);
        }
    }

    /// Makes visible what can be, and asks for the lines of the rest.
    pub(super) fn drain(&mut self, cpu: CpuId) {
        let core = self.cpus[usize::from(cpu)].core;
        while let Some((place, store)) = self.owned_store(cpu) {
            // SAFETY: a cell of this width is at the address; nobody borrows cells.
            unsafe { store.commit() };
            if let Some(id) = self.cpus[usize::from(cpu)].fiber {
                self.note_event(id, |engine| {
                    format!("its store to {} becomes visible", engine.name_of(store.line))
                });
            }
            self.cpus[usize::from(cpu)].buffer.remove(place);
            self.wrote(core, store.line, self.now);
        }
        self.ask_for_ready(cpu);
        let Cpu { fiber, ref buffer, .. } = self.cpus[usize::from(cpu)];
        let (drained, room) = (buffer.is_empty(), buffer.len() < self.machine.core.store_buffer);
        let Some(id) = fiber else { return };
        match self.fiber(id).state {
            State::Drain if drained => self.goes_on(id),
            State::Room if room => self.goes_on(id),
            _ if drained => self.try_preempt(cpu),
            _ => {}
        }
    }

    /// A store that may become visible now.
    fn owned_store(&self, cpu: CpuId) -> Option<(usize, Store)> {
        let Cpu { core, ref buffer, .. } = self.cpus[usize::from(cpu)];
        buffer.ready().find(|(_, store)| self.directory.hits(core, store.line, Access::Store))
    }

    /// Asks again for the lines of stores that only wait for those, if others have taken them away.
    fn ask_for_ready(&mut self, cpu: CpuId) {
        let core = self.cpus[usize::from(cpu)].core;
        let missing = |engine: &Self| {
            let buffer = &engine.cpus[usize::from(cpu)].buffer;
            let mut lines = buffer.ready().map(|(_, store)| store.line);
            lines.find(|line| !engine.directory.is_pending(core, *line))
        };
        while let Some(line) = missing(self) {
            self.send(core, line, Access::Store, self.now);
        }
    }

    /// A line has come to the core of a CPU.
    pub(super) fn line_came(&mut self, cpu: CpuId, line: LineId) {
        let Some(id) = self.cpus[usize::from(cpu)].fiber else { return };
        if self.fiber(id).state == State::Line(line) {
            self.goes_on(id);
        }
    }

    /// What a thread waited for has come.
    fn goes_on(&mut self, id: FiberId) {
        let now = self.now;
        let fiber = self.fiber(id);
        fiber.state = State::Running;
        fiber.clock = fiber.clock.max(now);
        self.ready.push_back(id);
    }

    /// How many stores each CPU has begun.
    pub(crate) fn stores_begun(&self) -> Vec<u64> {
        self.cpus.iter().map(|cpu| cpu.buffer.issued()).collect()
    }

    /// Waits until the first so many stores of each CPU are visible. `None`: try again when it is the thread's turn.
    pub(crate) fn all_visible(&mut self, stores: &[u64]) -> Option<()> {
        const LOOK_EVERY: u64 = 100;
        if self.cpus.iter().zip(stores).all(|(cpu, stores)| cpu.buffer.are_visible(*stores)) {
            return Some(());
        }
        self.delay(LOOK_EVERY);
        self.compute();
        None
    }

    /// One pause of a thread that polls, and would for at most `most` rounds. Returns whether the thread is to be
    /// suspended, until something changes or the rounds are over.
    pub(crate) fn pause(&mut self, most: u32) -> bool {
        let pause = self.machine.core.pause;
        let spin_sleep = self.spin_sleep;
        let cpu = self.my_cpu();
        let (core, drained) = (cpu.core, cpu.is_drained());
        let fiber = self.me();
        fiber.clock += pause;
        fiber.rounds = 1;
        let clock = fiber.clock;
        if !spin_sleep {
            // Rounds that are not idle are not looked into.
            let length = clock - mem::replace(&mut fiber.round.start, clock);
            self.counts.spun += length;
            return false;
        }
        let round = mem::replace(&mut fiber.round, Round::begin(clock));
        let before = mem::replace(&mut fiber.last_round, round);
        let length = clock - round.start;
        self.counts.spun += length;
        if !drained || most < 2 || !round.repeats(&before) {
            return false;
        }
        if !round.lines().iter().all(|line| self.directory.hits(core, *line, Access::Load)) {
            return false;
        }
        let id = self.current;
        let fiber = self.me();
        fiber.state = State::Polling { since: clock, round: length, most };
        fiber.turn += 1;
        let turn = fiber.turn;
        if most < u32::MAX {
            self.file(clock + u64::from(most - 1) * length, Event::Go(id, turn));
        }
        true
    }

    /// Rounds that the last pause of the calling thread stood for.
    pub(crate) fn rounds(&mut self) -> u32 {
        self.me().rounds
    }

    /// A core has lost a line, or written it, at this time: threads there that poll it look again.
    pub(super) fn wake_pollers(&mut self, core: CoreId, line: LineId, time: u64) {
        for cpu in self.cpus_of(core) {
            let Some(id) = self.cpus[usize::from(cpu)].fiber else { continue };
            let fiber = self.fiber(id);
            let looks_at = fiber.last_round.looks_at(line);
            if let (State::Polling { .. }, Some(offset)) = (fiber.state, looks_at) {
                self.stop_polling(id, time.saturating_sub(offset));
                self.note_step(id, |engine| format!("loses {}, which it polls", engine.name_of(line)));
                self.compute_as(id);
            }
        }
    }

    /// Accounts for the rounds of a thread that has polled, up to the one that begins at this time or is the next to begin.
    pub(super) fn stop_polling(&mut self, id: FiberId, time: u64) {
        let fiber = self.fiber(id);
        let State::Polling { since, round, most } = fiber.state else { return };
        let rounds = time.saturating_sub(since).div_ceil(round).min(u64::from(most - 1));
        fiber.rounds = 1 + rounds as u32;
        fiber.clock = since + rounds * round;
        fiber.round = Round::begin(fiber.clock);
        self.counts.spun += rounds * round;
    }
}

#[cold]
fn foreign_cell() -> ! {
    panic!("a simulated cell is used that is not in the memory of this run");
}
