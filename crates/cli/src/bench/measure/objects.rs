//! What the sections of `closures` work on.

use std::collections::{BinaryHeap, HashMap, VecDeque};

/// A value behind a delegate or a mutex.
pub(super) trait Object: Send + 'static {
    /// An operation, chosen by a random number. Its result is what the requester is told.
    fn operate(&mut self, random: u64) -> u64;

    /// How many operations there have been, as the object has counted without any protection of its own.
    fn operations(&self) -> u64;
}

#[repr(align(64))]
struct Line {
    /// The index of the line to touch after this one.
    next: usize,
    count: u64,
}

/// Cache lines, each found through the one before.
pub(super) struct Lines(Box<[Line]>);

impl Lines {
    pub(super) fn new(lines: usize) -> Self {
        Self((1..=lines).map(|next| Line { next: next % lines, count: 0 }).collect())
    }
}

impl Object for Lines {
    #[inline(always)]
    fn operate(&mut self, _: u64) -> u64 {
        let mut place = 0;
        let before = self.0[0].count;
        for _ in 0..self.0.len() {
            let line = &mut self.0[place];
            line.count += 1;
            place = std::hint::black_box(line.next);
        }
        before
    }

    fn operations(&self) -> u64 {
        // One that has lost an addition has fewer.
        self.0.iter().map(|line| line.count).min().unwrap_or(0)
    }
}

/// A counter.
#[derive(Default)]
pub(super) struct Counter(u64);

impl Object for Counter {
    #[inline(always)]
    fn operate(&mut self, _: u64) -> u64 {
        self.0 += 1;
        self.0
    }

    fn operations(&self) -> u64 {
        self.0
    }
}

/// Keys of the map; items that the heap and the queue begin with.
const ITEMS: u64 = 1_024;

/// A hash map: half of the operations look a key up, a quarter insert one, a quarter remove one.
pub(super) struct Map {
    map: HashMap<u64, u64>,
    operations: u64,
}

impl Map {
    pub(super) fn new() -> Self {
        Self { map: (0..ITEMS / 2).map(|key| (key * 2, key)).collect(), operations: 0 }
    }
}

impl Object for Map {
    fn operate(&mut self, random: u64) -> u64 {
        self.operations += 1;
        let key = random / 4 % ITEMS;
        match random % 4 {
            0 => self.map.insert(key, random),
            1 => self.map.remove(&key),
            _ => self.map.get(&key).copied(),
        }
        .unwrap_or(0)
    }

    fn operations(&self) -> u64 {
        self.operations
    }
}

/// A priority queue: as many operations push an item as take the largest.
pub(super) struct Heap {
    heap: BinaryHeap<u64>,
    operations: u64,
}

impl Heap {
    pub(super) fn new() -> Self {
        Self { heap: (0..ITEMS).map(|item| item << 54).collect(), operations: 0 }
    }
}

impl Object for Heap {
    fn operate(&mut self, random: u64) -> u64 {
        self.operations += 1;
        if random.is_multiple_of(2) {
            self.heap.push(random);
            return random;
        }
        self.heap.pop().unwrap_or(0)
    }

    fn operations(&self) -> u64 {
        self.operations
    }
}

/// A FIFO queue: as many operations append an item as take the first.
pub(super) struct Queue {
    queue: VecDeque<u64>,
    operations: u64,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self { queue: (0..ITEMS).collect(), operations: 0 }
    }
}

impl Object for Queue {
    fn operate(&mut self, random: u64) -> u64 {
        self.operations += 1;
        if random.is_multiple_of(2) {
            self.queue.push_back(random);
            return random;
        }
        self.queue.pop_front().unwrap_or(0)
    }

    fn operations(&self) -> u64 {
        self.operations
    }
}
