//! What happens next: a timing wheel for the near future, a heap for the rest.
//!
//! Almost all events of a simulated machine lie within a few thousand cycles, so that finding and filing one takes
//! constant time. Events at the same time come in the order of their ranks, and those of one rank as they were filed:
//! what happens in a cycle does not depend on the order in which the simulation found out that it would.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cycles that the wheel spans: one slot each.
const SLOTS: usize = 4096;
const WORDS: usize = SLOTS / 64;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
}

/// An event, with its place among those of the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry<E> {
    rank: u64,
    number: u64,
    event: E,
}

#[derive(Debug, Clone, Copy)]
struct Node<E> {
    entry: Entry<E>,
    next: u32,
}

/// Events in the order of their times.
#[derive(Debug)]
pub(crate) struct Wheel<E> {
    /// No event is earlier.
    now: u64,
    /// The time of the next event, `u64::MAX` if there is none.
    next: u64,
    /// Events of this very time, the first one last. While there are any, others for this time join them.
    current: Vec<Entry<E>>,
    /// Events of the next `SLOTS` cycles; the slot of a time is its remainder.
    slots: Box<[Slot; SLOTS]>,
    /// Which slots have events, and which words of that have bits.
    filled: [u64; WORDS],
    summary: u64,
    nodes: Vec<Node<E>>,
    free: u32,
    /// Events that were too far away for the wheel when they were filed.
    far: BinaryHeap<Reverse<(u64, Entry<E>)>>,
    filed: u64,
}

impl<E: Copy + Ord> Wheel<E> {
    pub(crate) fn new() -> Self {
        Self {
            now: 0,
            next: u64::MAX,
            current: Vec::new(),
            slots: Box::new([Slot { first: NONE, last: NONE }; SLOTS]),
            filled: [0; WORDS],
            summary: 0,
            nodes: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            filed: 0,
        }
    }

    /// Files an event; one for the past happens now.
    pub(crate) fn push(&mut self, time: u64, rank: u64, event: E) {
        let entry = Entry { rank, number: self.filed, event };
        self.filed += 1;
        self.next = self.next.min(time.max(self.now));
        if time <= self.now && !self.current.is_empty() {
            let place = self.current.partition_point(|other| *other > entry);
            self.current.insert(place, entry);
            return;
        }
        let time = time.max(self.now);
        if time - self.now >= SLOTS as u64 {
            self.far.push(Reverse((time, entry)));
            return;
        }
        let node = Node { entry, next: NONE };
        let index = if self.free == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        };
        let place = time as usize % SLOTS;
        let slot = &mut self.slots[place];
        if slot.first == NONE {
            slot.first = index;
            self.filled[place / 64] |= 1 << (place % 64);
            self.summary |= 1 << (place / 64);
        } else {
            self.nodes[slot.last as usize].next = index;
        }
        slot.last = index;
    }

    /// The time of the first event on the wheel.
    #[inline]
    fn near(&self) -> Option<u64> {
        if self.summary == 0 {
            return None;
        }
        let start = self.now as usize % SLOTS;
        let (word, bit) = (start / 64, start % 64);
        let rest = self.filled[word] >> bit;
        let place = if rest != 0 {
            start + rest.trailing_zeros() as usize
        } else {
            // The words behind this one, round the wheel, and then this one's lower bits.
            let turned = (self.summary.rotate_right(word as u32) & !1).trailing_zeros() as usize;
            let word = (word + turned % WORDS) % WORDS;
            word * 64 + self.filled[word].trailing_zeros() as usize
        };
        Some(self.now + ((place + SLOTS - start) % SLOTS) as u64)
    }

    /// The time of the next event, `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn next_time(&self) -> u64 {
        self.next
    }

    /// The time of the next event that is not of this very time.
    fn later(&self) -> u64 {
        let near = self.near().unwrap_or(u64::MAX);
        self.far.peek().map_or(near, |Reverse((time, ..))| near.min(*time))
    }

    /// Takes the next event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        if self.current.is_empty() {
            self.turn();
        }
        let entry = self.current.pop()?;
        if self.current.is_empty() {
            self.next = self.later();
        }
        Some((self.now, entry.event))
    }

    /// The event that will come after `n` others, as far as that is known: of those of this very time.
    #[inline]
    pub(crate) fn upcoming(&self, n: usize) -> Option<E> {
        self.current.iter().rev().nth(n).map(|entry| entry.event)
    }

    /// Goes on to the time of the next event, and collects those of that time.
    fn turn(&mut self) {
        let time = self.next;
        if time == u64::MAX {
            return;
        }
        self.now = time;
        let place = time as usize % SLOTS;
        let mut index = std::mem::replace(&mut self.slots[place].first, NONE);
        if index != NONE {
            self.filled[place / 64] &= !(1 << (place % 64));
            if self.filled[place / 64] == 0 {
                self.summary &= !(1 << (place / 64));
            }
        }
        while index != NONE {
            let node = &mut self.nodes[index as usize];
            self.current.push(node.entry);
            let next = std::mem::replace(&mut node.next, self.free);
            self.free = index;
            index = next;
        }
        while self.far.peek().is_some_and(|Reverse((at, _))| *at == time) {
            self.current.extend(self.far.pop().map(|Reverse((_, entry))| entry));
        }
        if self.current.len() > 1 {
            self.current.sort_unstable_by(|one, other| other.cmp(one));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files and takes events at random, beside a sorted list.
    #[test]
    fn events_come_in_order() {
        let mut wheel = Wheel::new();
        let mut list: Vec<(u64, u64, u32)> = Vec::new();
        let mut random = crate::random::Random::new(7);
        let mut now = 0;
        let take = |wheel: &mut Wheel<u32>, list: &mut Vec<(u64, u64, u32)>| {
            list.sort_unstable();
            let (time, _, event) = list.remove(0);
            assert_eq!(wheel.next_time(), time);
            assert_eq!(wheel.pop(), Some((time, event)));
            time
        };
        for number in 0..200_000_u32 {
            let distance = match random.below(10) {
                0 => random.below(100_000),
                1..4 => random.below(SLOTS as u64 + 2),
                4 => 0,
                _ => random.below(40),
            };
            let rank = random.below(4);
            wheel.push(now + distance, rank, number);
            list.push((now + distance, rank, number));
            if random.below(2) == 0 {
                now = take(&mut wheel, &mut list);
            }
            if list.len() > 200 {
                while !list.is_empty() {
                    now = take(&mut wheel, &mut list);
                }
            }
        }
    }

    #[test]
    fn the_past_is_now() {
        let mut wheel = Wheel::new();
        wheel.push(10, 0, 'a');
        assert_eq!(wheel.pop(), Some((10, 'a')));
        wheel.push(3, 0, 'b');
        assert_eq!((wheel.next_time(), wheel.pop()), (10, Some((10, 'b'))));
        assert_eq!((wheel.next_time(), wheel.pop()), (u64::MAX, None));
    }

    #[test]
    fn of_one_time_the_lowest_rank_is_first() {
        let mut wheel = Wheel::new();
        for (rank, event) in [(2, 'c'), (1, 'a'), (2, 'd'), (3, 'f'), (1, 'b')] {
            wheel.push(5, rank, event);
        }
        let mut seen = String::new();
        while let Some((time, event)) = wheel.pop() {
            assert_eq!(time, 5);
            seen.push(event);
            if event == 'd' {
                // Filed while the others of its time are under way.
                wheel.push(5, 2, 'e');
            }
        }
        assert_eq!(seen, "abcdef");
    }
}
