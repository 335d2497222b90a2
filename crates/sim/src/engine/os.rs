//! The operating system: which thread has which CPU, and which sleeps on what.
//!
//! Each CPU has a queue of threads that wait for it, and lets the next one run when a slice of some milliseconds is
//! over; slices differ a little, as they do in life.
//!
//! Threads that are not pinned are placed and moved in the way of Linux's fair scheduler (kernel/sched/fair.c, up to 6.5). A new
//! one goes to the least loaded node, last-level cache, core and CPU, in this order (`find_idlest_group`, at each level of
//! domains). One that wakes up goes to its last CPU, if that is idle, else to an idle core, then to an idle CPU near it
//! (`select_idle_sibling`). A CPU with nothing to do takes a thread from the longest queue (`newidle_balance`), and once in a
//! slice a core with nothing to do takes a running thread from a core that runs two (`active_load_balance`).
//!
//! A CPU with nothing to do looks for work for a while before it halts (virt/kvm/halt-polling.rst in the kernel's documentation); what
//! a wake costs depends on whether it has.
//!
//! A thread that wakes up takes its CPU from one that has run for longer than it by some granularity
//! (`wakeup_preempt_entity`). How much less it counts as having run, after whatever sleep, is bounded (`place_entity`).

use super::coherence::CoreId;
use super::coherence::outlook::Outlook;
use super::fiber::{FiberId, State};
use super::{CpuId, Engine, Event};

impl Engine {
    /// Lines a thread up for a CPU.
    pub(super) fn enqueue(&mut self, id: FiberId, cpu: CpuId) {
        self.runnable += 1;
        let now = self.now;
        let fiber = self.fiber(id);
        fiber.state = State::Queued;
        fiber.seat.wakes(now);
        self.cpus[usize::from(cpu)].queue.push_back(id);
        if self.cpus[usize::from(cpu)].fiber.is_none() {
            self.switch(cpu, self.now);
        } else {
            self.file_slice(cpu);
        }
    }

    /// Makes sure that the CPU's slice ends, since another thread waits.
    fn file_slice(&mut self, cpu: CpuId) {
        let state = &mut self.cpus[usize::from(cpu)];
        if !state.slice_filed {
            state.slice_filed = true;
            let (end, slice) = (state.slice_end, state.slice);
            self.file(end, Event::Slice(cpu, slice));
        }
    }

    /// Gives a CPU, which nobody has since the time `at`, to the next thread.
    fn switch(&mut self, cpu: CpuId, at: u64) {
        let last = &self.cpus[usize::from(cpu)];
        if let Some(id) = last.fiber {
            let ran = at.saturating_sub(last.slice_start);
            self.fiber(id).ran += ran;
        }
        let waiting = self.cpus[usize::from(cpu)].queue.pop_front();
        let Some(id) = waiting.or_else(|| self.steal(cpu)) else {
            let state = &mut self.cpus[usize::from(cpu)];
            state.fiber = None;
            state.idle_since = at;
            return;
        };
        let os = &self.machine.os;
        let moved =
            self.machine.core_of(self.fibers[id as usize].cpu.into()) != self.machine.core_of(cpu.into());
        let last = self.cpus[usize::from(cpu)].last;
        let known = last == Some(id);
        let process = |id: FiberId| self.fibers[id as usize].process;
        let foreign = last.is_some_and(|last| process(last) != process(id));
        let cost = if known { 0 } else { os.context_switch }
            + if foreign { os.process_switch } else { 0 }
            + if moved { os.migration } else { 0 };
        let slice = self.machine.cycles(os.slice_us * 1000);
        let slice = self.random.jittered(slice, os.slice_jitter).max(1);
        self.counts.context_switches += u64::from(!known);
        self.counts.process_switches += u64::from(foreign);
        self.counts.migrations += u64::from(moved);
        let fiber = self.fiber(id);
        fiber.cpu = cpu;
        fiber.seat.gets_cpu(at + cost);
        fiber.clock = at + cost + std::mem::take(&mut fiber.owed);
        self.compute_as(id);
        let state = &mut self.cpus[usize::from(cpu)];
        state.fiber = Some(id);
        state.last = Some(id);
        state.slice += 1;
        state.slice_start = at;
        state.slice_end = at + slice;
        state.slice_filed = false;
        state.give_way = false;
        if !state.queue.is_empty() {
            self.file_slice(cpu);
        }
    }

    /// A thread that waits for another CPU, for one with nothing to do.
    fn steal(&mut self, cpu: CpuId) -> Option<FiberId> {
        if self.cpus.iter().all(|other| other.queue.is_empty()) {
            return None;
        }
        let movable = |fibers: &[super::Fiber], id: &FiberId| !fibers[*id as usize].pinned;
        let count = self.cpus.len();
        let longest = (1..count)
            .map(|step| (usize::from(cpu) + step) % count)
            .filter(|other| self.cpus[*other].queue.iter().any(|id| movable(&self.fibers, id)))
            .min_by_key(|other| std::cmp::Reverse(self.cpus[*other].queue.len()))?;
        let place = self.cpus[longest].queue.iter().rposition(|id| movable(&self.fibers, id))?;
        self.cpus[longest].queue.remove(place)
    }

    /// Whether a thread whose turn it is may go on; if its CPU is to change hands, that happens now or soon.
    pub(super) fn may_go_on(&mut self, id: FiberId) -> bool {
        let cpu = self.fiber(id).cpu;
        let state = &mut self.cpus[usize::from(cpu)];
        if state.fiber != Some(id) {
            return false;
        }
        if matches!(self.fibers[id as usize].state, State::Polling { .. }) {
            self.stop_polling(id, self.now);
        }
        let state = &mut self.cpus[usize::from(cpu)];
        if !state.give_way || state.queue.is_empty() {
            state.give_way = false;
            return true;
        }
        if state.is_drained() {
            self.preempt(cpu);
        } else {
            self.fiber(id).state = State::Drain;
        }
        false
    }

    /// A CPU's slice is over, or is ended for a thread that goes first.
    pub(super) fn slice_ends(&mut self, cpu: CpuId, slice: u32) {
        let state = &mut self.cpus[usize::from(cpu)];
        if state.slice != slice {
            return;
        }
        state.slice_filed = false;
        state.give_way = !state.queue.is_empty();
        self.try_preempt(cpu);
    }

    /// Takes the CPU from a thread that is to give way, if that can be done at once.
    pub(super) fn try_preempt(&mut self, cpu: CpuId) {
        let state = &self.cpus[usize::from(cpu)];
        if !state.give_way || state.queue.is_empty() || !state.is_drained() {
            return;
        }
        let Some(id) = state.fiber else { return };
        match self.fiber(id).state {
            State::Polling { .. } => {
                self.stop_polling(id, self.now);
                self.preempt(cpu);
            }
            State::Computing => self.preempt(cpu),
            // It has an operation under way, and gives way when that is done.
            _ => {}
        }
    }

    fn preempt(&mut self, cpu: CpuId) {
        let now = self.now;
        let Some(id) = self.cpus[usize::from(cpu)].fiber else { return };
        self.counts.preemptions += 1;
        let fiber = self.fiber(id);
        fiber.owed = fiber.clock.saturating_sub(now);
        fiber.seat.loses_cpu(now);
        fiber.turn += 1;
        fiber.state = State::Queued;
        self.cpus[usize::from(cpu)].queue.push_back(id);
        self.switch(cpu, now);
    }

    /// The calling thread, which is to be suspended, leaves its CPU in this state.
    fn leave(&mut self, state: State) {
        let fiber = self.me();
        fiber.state = state;
        fiber.turn += 1;
        fiber.round.idle = false;
        let (cpu, clock) = (fiber.cpu, fiber.clock);
        fiber.seat.sleeps(clock);
        self.runnable -= 1;
        self.switch(cpu, clock);
    }

    /// A thread has ended.
    pub(super) fn end(&mut self, id: FiberId) {
        self.current = id;
        self.alive -= 1;
        self.leave(State::Ended);
    }

    /// In and out of the kernel. `None`: try again when it is the thread's turn.
    pub(crate) fn enter_kernel(&mut self) -> Option<()> {
        self.drained()?;
        if self.is_ahead(Outlook::default()) {
            return None;
        }
        self.delay(self.machine.os.syscall);
        Some(())
    }

    /// Offers the CPU to others. Returns whether one takes it: the calling thread is then to be suspended.
    pub(crate) fn offer_cpu(&mut self) -> bool {
        let cpu = self.me().cpu;
        if self.cpus[usize::from(cpu)].queue.is_empty() {
            return false;
        }
        let id = self.current;
        let fiber = self.me();
        fiber.turn += 1;
        fiber.state = State::Queued;
        let clock = fiber.clock;
        fiber.seat.loses_cpu(clock);
        self.cpus[usize::from(cpu)].queue.push_back(id);
        self.switch(cpu, clock);
        true
    }

    /// Lets the calling thread, which is to be suspended, sleep on the futex at `address`, until the cycle `deadline`.
    pub(crate) fn park(&mut self, address: usize, deadline: Option<u64>) {
        self.counts.parks += 1;
        let id = self.current;
        self.note_step(id, |_| "goes to sleep".to_owned());
        self.my_process().futexes.entry(address).or_default().push_back(id);
        self.me().timed_out = false;
        self.leave(State::Parked(address));
        if let Some(deadline) = deadline {
            let turn = self.me().turn;
            self.file(deadline, Event::Expire(id, turn));
        }
    }

    /// Wakes up to `n` sleepers of the futex at `address`.
    pub(crate) fn wake(&mut self, address: usize, n: u32) {
        for _ in 0..n {
            let futexes = &mut self.my_process().futexes;
            let Some(queue) = futexes.get_mut(&address) else { return };
            let Some(id) = queue.pop_front() else { return };
            if queue.is_empty() {
                futexes.remove(&address);
            }
            let (cost, latency) = self.cost_of_waking(id);
            let me = self.current;
            let sleeper = self.fiber(id);
            sleeper.waker = Some(me);
            let turn = sleeper.turn;
            self.note_step(me, |_| format!("wakes thread {id}"));
            let waker = self.me();
            waker.clock += cost;
            let time = waker.clock + latency;
            self.file(time, Event::Wake(id, turn));
        }
    }

    /// What waking a sleeper costs the calling thread, and after what time it is ready to run. A CPU that has been idle for long has
    /// halted, and takes longer to notice.
    fn cost_of_waking(&mut self, id: FiberId) -> (u64, u64) {
        let now = self.me().clock;
        let os = &self.machine.os;
        let halted = (os.wake, os.wake_latency);
        let cpu = &self.cpus[usize::from(self.cpu_for(id))];
        if os.wake_own > 0 && cpu.fiber == Some(self.current) {
            (os.wake_own, 0)
        } else if os.idle_poll_us == 0 {
            halted
        } else if cpu.fiber.is_some() {
            (os.wake_polled, 0)
        } else if now.saturating_sub(cpu.idle_since) < self.machine.cycles(os.idle_poll_us * 1000) {
            (os.wake_polled, os.wake_latency_polled)
        } else {
            halted
        }
    }

    /// A sleeper's deadline has come, unless it has been woken.
    pub(super) fn expire(&mut self, id: FiberId, turn: u32) {
        let State::Parked(address) = self.fiber(id).state else { return };
        if self.fiber(id).turn != turn {
            return;
        }
        let process = self.fiber(id).process;
        let futexes = &mut self.processes[usize::from(process.0)].futexes;
        let Some(queue) = futexes.get_mut(&address) else { return };
        let Some(place) = queue.iter().position(|sleeper| *sleeper == id) else { return };
        queue.remove(place);
        let fiber = self.fiber(id);
        (fiber.timed_out, fiber.waker) = (true, None);
        self.make_runnable(id);
    }

    /// Lets a sleeper run again, as soon as it has a CPU.
    pub(super) fn make_runnable(&mut self, id: FiberId) {
        let cpu = self.cpu_for(id);
        self.note_step(id, |_| format!("is awake, and gets or awaits CPU {cpu}"));
        let goes_first = self.place_in_time(id, cpu);
        self.fiber(id).turn += 1;
        self.enqueue(id, cpu);
        let state = &mut self.cpus[usize::from(cpu)];
        if state.fiber != Some(id) && goes_first {
            if let Some(last) = state.queue.pop_back() {
                state.queue.push_front(last);
            }
            let os = &self.machine.os;
            // The waker's own CPU changes threads on the way out of the kernel.
            let is_own = os.wake_own > 0 && state.fiber == self.fibers[id as usize].waker;
            let latency = if is_own { 0 } else { os.preempt_latency };
            let (interrupt, slice) = (self.now + latency, state.slice);
            if interrupt > self.now {
                self.file(interrupt, Event::Slice(cpu, slice));
            } else {
                state.give_way = true;
                self.try_preempt(cpu);
            }
        }
    }

    /// Puts how long a thread that wakes up has run near the time of the thread that has the CPU. Whether it takes the CPU from
    /// that.
    fn place_in_time(&mut self, id: FiberId, cpu: CpuId) -> bool {
        let state = &self.cpus[usize::from(cpu)];
        let Some(current) = state.fiber else { return false };
        let now = self.fibers[current as usize].ran + self.now.saturating_sub(state.slice_start);
        let cycles = |us: u64| self.machine.cycles(us * 1000);
        let os = &self.machine.os;
        let (credit, granularity) = (cycles(os.sleeper_credit_us), cycles(os.wakeup_granularity_us));
        let fiber = self.fiber(id);
        fiber.ran = fiber.ran.clamp(now.saturating_sub(credit), now);
        now - fiber.ran > granularity
    }

    /// The CPU for a new thread: the wish of one that is pinned, else one of the least loaded part of the machine.
    pub(super) fn cpu_for_new(&self, id: FiberId) -> CpuId {
        let fiber = &self.fibers[id as usize];
        if fiber.pinned {
            return fiber.cpu;
        }
        let machine = &self.machine;
        let load = |cpus: std::ops::Range<usize>| -> usize {
            cpus.map(|cpu| usize::from(self.cpus[cpu].fiber.is_some()) + self.cpus[cpu].queue.len()).sum()
        };
        let part = |number: usize, cores: usize| {
            let cpus = cores * machine.threads_per_core;
            load(number * cpus..(number + 1) * cpus)
        };
        let loads = |cpu: &CpuId| {
            let cpu = usize::from(*cpu);
            let core = machine.core_of(cpu);
            let (llc, node) = (machine.llc_of(core), machine.node_of(core));
            let of_node = part(node, machine.cores_per_llc * machine.llcs_per_node);
            (of_node, part(llc, machine.cores_per_llc), part(core, 1), load(cpu..cpu + 1))
        };
        (0..self.cpus.len() as CpuId).min_by_key(loads).unwrap_or(fiber.cpu)
    }

    /// Moves a running thread from a core that runs several to one that runs none, if there are both.
    pub(super) fn balance(&mut self) {
        let runs = |core: usize| {
            self.cpus_of(core as CoreId).filter(|cpu| self.cpus[usize::from(*cpu)].fiber.is_some())
        };
        let cores = 0..self.machine.cores();
        let Some(idle) = cores.clone().find(|core| runs(*core).count() == 0) else { return };
        let movable = |cpu: &CpuId| {
            let state = &self.cpus[usize::from(*cpu)];
            let fiber = state.fiber.map(|id| &self.fibers[id as usize]);
            state.is_drained()
                && fiber.is_some_and(|fiber| {
                    !fiber.pinned && matches!(fiber.state, State::Polling { .. } | State::Computing)
                })
        };
        let crowded = cores.filter(|core| runs(*core).count() > 1);
        let from = crowded
            .filter_map(|core| Some((self.machine.distance(core, idle), runs(core).find(movable)?)))
            .min_by_key(|(distance, _)| *distance);
        let Some((_, from)) = from else { return };
        let Some(id) = self.cpus[usize::from(from)].fiber else { return };
        if matches!(self.fiber(id).state, State::Polling { .. }) {
            self.stop_polling(id, self.now);
        }
        let now = self.now;
        let fiber = self.fiber(id);
        fiber.owed = fiber.clock.saturating_sub(now);
        fiber.seat.loses_cpu(now);
        fiber.turn += 1;
        fiber.state = State::Queued;
        self.runnable -= 1;
        self.switch(from, now);
        let to = self.cpus_of(idle as CoreId).start;
        self.enqueue(id, to);
    }

    /// Files the next look at the balance of the machine.
    pub(super) fn file_balance(&mut self) {
        let time = self.now + self.machine.cycles(self.machine.os.slice_us * 1000);
        self.file(time, Event::Balance);
    }

    /// The CPU for a thread that wakes up: its last one, or the nearest that is idle, of an idle core if there is one near.
    pub(super) fn cpu_for(&self, id: FiberId) -> CpuId {
        let fiber = &self.fibers[id as usize];
        let is_idle = |cpu: CpuId| self.cpus[usize::from(cpu)].fiber.is_none();
        if fiber.pinned || is_idle(fiber.cpu) {
            return fiber.cpu;
        }
        let here = self.machine.core_of(fiber.cpu.into());
        let far = |cpu: CpuId| self.machine.distance(here, self.machine.core_of(cpu.into()));
        let all = || 0..self.cpus.len() as CpuId;
        let llc = |cpu: CpuId| self.machine.llc_of(self.machine.core_of(cpu.into()));
        let near = llc(fiber.cpu);
        let is_shared = |cpu: CpuId| {
            let core = self.machine.core_of(cpu.into());
            self.cpus_of(core as CoreId).any(|other| !is_idle(other))
        };
        let idle = all()
            .filter(|cpu| is_idle(*cpu))
            .min_by_key(|cpu| (llc(*cpu) != near, is_shared(*cpu), far(*cpu)));
        let queue = |cpu: CpuId| self.cpus[usize::from(cpu)].queue.len();
        let shorter = || all().min_by_key(|cpu| (queue(*cpu), far(*cpu)));
        idle.or_else(shorter).unwrap_or(fiber.cpu)
    }

    /// Whether a thread has a CPU; `None` if there is no such thread, or no longer.
    pub(crate) fn has_cpu(&self, id: FiberId) -> Option<bool> {
        let fiber = self.fibers.get(id as usize).filter(|fiber| fiber.state != State::Ended)?;
        Some(self.cpus[usize::from(fiber.cpu)].fiber == Some(id))
    }

    /// Threads that run or wait for a CPU.
    pub(crate) fn runnable(&self) -> usize {
        self.runnable
    }
}
