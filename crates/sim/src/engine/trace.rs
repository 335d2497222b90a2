//! What happens to threads and lines for a while, in words: shows where the cycles of a hand-off go.

use std::alloc::Layout;
use std::fmt;

use super::Engine;
use super::coherence::Access;
use super::fiber::FiberId;
use crate::memory::{LINE, LineId};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When, in cycles.
    pub time: u64,
    /// To which thread.
    pub thread: usize,
    /// On which CPU.
    pub cpu: usize,
    /// In words.
    pub what: String,
}

/// What a piece of memory is called; put into words only where somebody reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Name {
    /// What a workload calls it.
    Given(&'static str),
    /// A thread's slot in the registry of waiters.
    Slot(FiberId),
    /// Pool memory, first used by this thread.
    Node(FiberId),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(name) => f.write_str(name),
            Self::Slot(thread) => write!(f, "the slot of thread {thread}"),
            Self::Node(thread) => write!(f, "a node that thread {thread} made"),
        }
    }
}

/// What the lines are called, and what has happened.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// First line, and the one behind the last.
    names: Vec<(LineId, LineId, Name)>,
    /// Only while something is to be noted.
    steps: Option<Vec<Step>>,
}

impl Engine {
    /// Gives the lines of a piece of memory a name.
    pub(crate) fn name(&mut self, address: usize, layout: Layout, name: Name) {
        let Some(first) = self.memory.line_of(address) else { return };
        let lines = layout.size().max(1).div_ceil(LINE) as LineId;
        self.trace.names.push((first, first + lines, name));
    }

    /// Begins to note what happens.
    pub(crate) fn begin_trace(&mut self) {
        self.trace.steps.get_or_insert_default();
    }

    /// Ends it. Returns what has been noted.
    pub(crate) fn end_trace(&mut self) -> Vec<Step> {
        let mut steps = self.trace.steps.take().unwrap_or_default();
        steps.sort_by_key(|step| step.time);
        steps
    }

    /// Notes something about a thread at its own time, if that is wanted.
    #[inline]
    pub(crate) fn note_step(&mut self, id: FiberId, what: impl FnOnce(&Self) -> String) {
        if self.trace.steps.is_some() {
            let time = self.fiber(id).clock.max(self.now);
            self.add_step(id, time, what(self));
        }
    }

    /// As [`Engine::note_step`], at the machine's time: something that comes about while the thread may be well ahead of it.
    #[inline]
    pub(super) fn note_event(&mut self, id: FiberId, what: impl FnOnce(&Self) -> String) {
        if self.trace.steps.is_some() {
            self.add_step(id, self.now, what(self));
        }
    }

    #[cold]
    fn add_step(&mut self, id: FiberId, time: u64, what: String) {
        let cpu = self.fiber(id).cpu.into();
        if let Some(steps) = &mut self.trace.steps {
            let step = Step { time, thread: id as usize, cpu, what };
            steps.push(step);
        }
    }

    /// A line's name.
    pub(super) fn name_of(&self, line: LineId) -> String {
        let named = self.trace.names.iter().find(|(first, end, _)| (*first..*end).contains(&line));
        match named {
            Some((first, end, name)) if end - first > 1 => format!("{name}, line {}", line - first),
            Some((_, _, name)) => name.to_string(),
            None => format!("line {line}"),
        }
    }

    /// What a thread asks for, in words.
    pub(super) fn request_text(&self, line: LineId, access: Access) -> String {
        let purpose = match access {
            Access::Load => "read",
            Access::Store => "write",
        };
        format!("asks for {} to {purpose} it: {}", self.name_of(line), self.directory.describe(line))
    }
}
