//! What the threads of a process have in common, and those of other processes have not: pool memory, the words that
//! locks share, futexes. Caches, CPUs and their queues are the machine's.

use std::alloc::Layout;
use std::collections::{HashMap, VecDeque};
use std::ptr::NonNull;

use super::Engine;
use super::fiber::{FiberId, ProcessId};
use super::trace::Name;
use crate::memory::{Arena, LINE};

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    /// Its threads, in the order in which they were added.
    pub(super) threads: Vec<FiberId>,
    /// Which thread sleeps on which address.
    pub(super) futexes: HashMap<usize, VecDeque<FiberId>>,
    /// Free blocks that no thread owns, by size.
    blocks: HashMap<usize, Vec<NonNull<u8>>>,
    shared: NonNull<u8>,
}

impl Process {
    /// A process without threads. The directory is still to learn of its memory.
    pub(super) fn new(memory: &mut Arena) -> Self {
        Self {
            threads: Vec::new(),
            futexes: HashMap::new(),
            blocks: HashMap::new(),
            shared: memory.allocate(Layout::new::<[u64; crate::platform::SHARED_WORDS]>()),
        }
    }
}

impl Engine {
    /// Adds a process without threads.
    ///
    /// # Panics
    ///
    /// If there are 65,536 already.
    pub(crate) fn add_process(&mut self) -> ProcessId {
        let id = u16::try_from(self.processes.len()).expect("at most 65,536 processes");
        let process = Process::new(&mut self.memory);
        self.directory.grow(self.memory.lines());
        self.processes.push(process);
        ProcessId(id)
    }

    /// Says that a run need not wait for the threads of a process, which go on for ever.
    pub(crate) fn leave_to_itself(&mut self, process: ProcessId) {
        self.alive -= self.processes[usize::from(process.0)].threads.len();
    }

    /// The process of the calling thread.
    pub(super) fn my_process(&mut self) -> &mut Process {
        let process = self.me().process;
        &mut self.processes[usize::from(process.0)]
    }

    /// The memory of the words that all locks of the calling thread's process share.
    pub(crate) fn shared(&mut self) -> NonNull<u8> {
        self.my_process().shared
    }

    /// How many threads the calling thread's process has.
    pub(crate) fn threads(&mut self) -> usize {
        self.my_process().threads.len()
    }

    /// The slot in the registry of waiters of one of the threads of the calling thread's process.
    pub(crate) fn slot(&mut self, thread: usize) -> usize {
        let id = self.my_process().threads[thread];
        self.fiber(id).slot
    }

    /// A block of pool memory: one that was freed, or fresh.
    pub(crate) fn take_block(&mut self, layout: Layout) -> NonNull<u8> {
        let size = size_of_block(layout);
        let freed = match is_own(size) {
            true => self.me().nodes.get_mut(&size).and_then(Vec::pop),
            false => self.my_process().blocks.get_mut(&size).and_then(Vec::pop),
        };
        freed.unwrap_or_else(|| {
            let block = self.allocate(layout);
            let me = self.current;
            self.name(block.as_ptr() as usize, layout, Name::Node(me));
            block
        })
    }

    /// Gives a block of pool memory back.
    pub(crate) fn free_block(&mut self, block: NonNull<u8>, layout: Layout) {
        let size = size_of_block(layout);
        let list = match is_own(size) {
            true => self.me().nodes.entry(size).or_default(),
            false => self.my_process().blocks.entry(size).or_default(),
        };
        list.push(block);
    }
}

fn size_of_block(layout: Layout) -> usize {
    layout.pad_to_align().size().next_multiple_of(LINE)
}

/// Whether each thread keeps the blocks of this size that it frees: queue nodes.
fn is_own(size: usize) -> bool {
    size <= LINE
}
