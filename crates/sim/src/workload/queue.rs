//! Producers and consumers: a bounded buffer behind one lock, with a condition variable for each side.
//!
//! The conditions are those of the library (`lockwork_locks::cond`), with the library's way to wake many: whoever waits
//! sleeps in the simulated kernel, whatever the lock is. A section is one item put or taken, the wait for room or for
//! an item included.

use std::cell::Cell;

use lockwork_locks::cond::Cond;
use lockwork_locks::delegation::condition::Condition;
use lockwork_platform::DataCell;

use super::Workload;
use super::cells::{get, set};
use super::distribution::Distribution;
use super::frame::{self, Frame, Holding, Load, Thread};
use super::locks::{Access, Protection};
use super::observed::RunResult;
use crate::machine::Machine;
use crate::platform::{Plain, Sim};
use crate::simulation::{Options, Simulation, delay};

/// What the threads do. Times in cycles.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// How many of the threads produce, the first ones; the others consume. There must be one of each kind.
    pub producers: usize,
    /// Items that the buffer has room for, at least 1.
    pub capacity: usize,
    /// What a producer computes for an item.
    pub produce: Distribution,
    /// What a consumer computes with an item.
    pub consume: Distribution,
}

impl Workload for Queue {
    fn run(&self, frame: &Frame, machine: &Machine, lock: &Protection, options: Options) -> RunResult {
        frame::run(frame, machine, (lock, 1), options, |run| Buffer::place(run, self))
    }

    fn memory(&self) -> u64 {
        self.capacity as u64 * size_of::<u64>() as u64
    }
}

/// The buffer.
struct Buffer {
    queue: Queue,
    ends: &'static Ends,
    slots: &'static [Plain<u64>],
    not_full: &'static Cond<Sim>,
    not_empty: &'static Cond<Sim>,
    /// The same, for sections that are handed over.
    room: &'static Condition<Sim>,
    items: &'static Condition<Sim>,
    /// Items produced and consumed, as the host sees it.
    produced: Cell<u64>,
    consumed: Cell<u64>,
}

/// Which items are in the buffer: they are numbered from 0, and item n is in slot n modulo the capacity.
#[repr(align(64))]
struct Ends {
    /// The oldest item.
    first: Plain<u64>,
    /// The next that will be produced.
    next: Plain<u64>,
}

impl Buffer {
    fn place(run: &mut Simulation, queue: &Queue) -> Self {
        let ends = Ends { first: Plain::new(0), next: Plain::new(0) };
        let slots = (0..queue.capacity.max(1)).map(|_| Plain::new(0));
        Self {
            queue: queue.clone(),
            ends: run.place_named("the buffer's ends", ends),
            slots: run.place_all("the buffer", slots),
            not_full: run.place_named("the condition `not full`", Cond::new()),
            not_empty: run.place_named("the condition `not empty`", Cond::new()),
            room: run.place_named("the condition `not full`", Condition::new()),
            items: run.place_named("the condition `not empty`", Condition::new()),
            produced: Cell::new(0),
            consumed: Cell::new(0),
        }
    }

    /// Items in the buffer, as a holder of the lock sees it.
    fn len(&self) -> u64 {
        get(&self.ends.next).saturating_sub(get(&self.ends.first))
    }

    fn is_full(&self) -> bool {
        self.len() >= self.slots.len() as u64
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot(&self, item: u64) -> &Plain<u64> {
        &self.slots[(item % self.slots.len() as u64) as usize]
    }

    /// Waits until `blocked` no longer holds, and gives the lock back meanwhile; or until the run is over.
    fn wait_while(
        &self,
        blocked: impl Fn() -> bool,
        condition: &Cond<Sim>,
        thread: &Thread,
        mut holding: Holding,
    ) -> Holding {
        while blocked() && !thread.is_stopping() {
            let unlock = || thread.release(holding);
            let relock = || thread.acquire(0, Access::Write);
            holding = condition.wait(0, None, &(), unlock, relock).1;
        }
        holding
    }

    /// Puts the next item into the buffer, which has room.
    fn put(&self, thread: &Thread) {
        let item = get(&self.ends.next);
        set(self.slot(item), mark(item));
        set(&self.ends.next, item + 1);
        if item != self.produced.replace(self.produced.get() + 1) {
            thread.found(|| format!("item {item} was produced out of turn: the lock does not exclude"));
        }
    }

    /// Takes the oldest item out of the buffer, which has some.
    fn take(&self, thread: &Thread) {
        let item = get(&self.ends.first);
        let seen = get(self.slot(item));
        set(&self.ends.first, item + 1);
        if item != self.consumed.replace(self.consumed.get() + 1) || seen != mark(item) {
            thread.found(|| {
                format!("item {item} was consumed twice or out of turn: the lock does not exclude")
            });
        }
    }
}

/// What is in the slot of an item.
fn mark(item: u64) -> u64 {
    !item
}

impl Buffer {
    /// Puts an item in or takes one out, with the lock held.
    fn by_lock(&self, thread: &mut Thread, produces: bool) {
        let holding = thread.acquire(0, Access::Write);
        if produces {
            let holding = self.wait_while(|| self.is_full(), self.not_full, thread, holding);
            thread.change(Access::Write, |thread| self.put(thread));
            thread.release(holding);
            self.not_empty.signal();
        } else {
            let holding = self.wait_while(|| self.is_empty(), self.not_empty, thread, holding);
            thread.change(Access::Write, |thread| self.take(thread));
            thread.release(holding);
            self.not_full.signal();
        }
    }

    /// The same by sections that are handed over: one that has to wait ends, and is handed over again after a signal.
    fn by_delegate(&self, thread: &mut Thread, produces: bool) {
        let (own, others) = if produces { (self.room, self.items) } else { (self.items, self.room) };
        while !thread.is_stopping() {
            let mut seen = None;
            thread.delegate(0, false, |thread| match produces {
                true if self.is_full() => seen = Some(own.seen()),
                false if self.is_empty() => seen = Some(own.seen()),
                true => thread.change(Access::Write, |thread| self.put(thread)),
                false => thread.change(Access::Write, |thread| self.take(thread)),
            });
            let Some(seen) = seen else {
                others.signal();
                return;
            };
            // Without a deadline that cannot fail.
            let _ = own.wait(seen, None);
        }
    }
}

impl Load for Buffer {
    fn think_time(&self) -> u64 {
        self.queue.produce.mean()
    }

    fn turn(&self, thread: &mut Thread) {
        let produces = thread.me < self.queue.producers;
        if produces {
            thread.think(|random| self.queue.produce.draw(random));
        }
        thread.begins();
        if thread.is_delegate(0) {
            self.by_delegate(thread, produces);
        } else {
            self.by_lock(thread, produces);
        }
        thread.ends();
        if !produces {
            delay(self.queue.consume.draw(&mut thread.random));
        }
    }

    fn check(&self) -> Result<(), String> {
        let (first, next) = (self.ends.first.peek(), self.ends.next.peek());
        let (consumed, produced) = (self.consumed.get(), self.produced.get());
        if (first, next) == (consumed, produced) && (first..=first + self.slots.len() as u64).contains(&next)
        {
            return Ok(());
        }
        Err(format!(
            "{produced} items were produced and {consumed} consumed, but the buffer says {next} and {first}: the lock does not exclude"
        ))
    }
}
