//! What happens next: a timing wheel for the near future, a heap for the rest.
//!
//! Almost all events of a simulated machine lie within a few thousand cycles, so that finding and filing one takes constant
//! time. Events at the same time come in the order in which they were filed.

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

#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    event: E,
    number: u64,
    next: u32,
}

/// Events in the order of their times.
#[derive(Debug)]
pub(crate) struct Wheel<E> {
    /// No event is earlier.
    now: u64,
    /// Events of the next `SLOTS` cycles; the slot of a time is its remainder.
    slots: Box<[Slot; SLOTS]>,
    /// Which slots have events, and which words of that have bits.
    filled: [u64; WORDS],
    summary: u64,
    entries: Vec<Entry<E>>,
    free: u32,
    /// Events that were too far away for the wheel when they were filed.
    far: BinaryHeap<Reverse<(u64, u64, E)>>,
    filed: u64,
}

impl<E: Copy + Ord> Wheel<E> {
    pub(crate) fn new() -> Self {
        Self {
            now: 0,
            slots: Box::new([Slot { first: NONE, last: NONE }; SLOTS]),
            filled: [0; WORDS],
            summary: 0,
            entries: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            filed: 0,
        }
    }

    /// Files an event; one for the past happens now.
    pub(crate) fn push(&mut self, time: u64, event: E) {
        let time = time.max(self.now);
        let number = self.filed;
        self.filed += 1;
        if time - self.now >= SLOTS as u64 {
            self.far.push(Reverse((time, number, event)));
            return;
        }
        let entry = Entry { event, number, next: NONE };
        let index = if self.free == NONE {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.entries[index as usize].next;
            self.entries[index as usize] = entry;
            index
        };
        let place = time as usize % SLOTS;
        let slot = &mut self.slots[place];
        if slot.first == NONE {
            slot.first = index;
            self.filled[place / 64] |= 1 << (place % 64);
            self.summary |= 1 << (place / 64);
        } else {
            self.entries[slot.last as usize].next = index;
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
        let near = self.near().unwrap_or(u64::MAX);
        self.far.peek().map_or(near, |Reverse((time, ..))| near.min(*time))
    }

    /// Takes the next event.
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        let near = self.near();
        if let Some(Reverse((time, number, _))) = self.far.peek() {
            let first = near.is_none_or(|near| {
                let head = self.slots[near as usize % SLOTS].first;
                (*time, *number) < (near, self.entries[head as usize].number)
            });
            if first {
                let Reverse((time, _, event)) = self.far.pop()?;
                self.now = time;
                return Some((time, event));
            }
        }
        let time = near?;
        let place = time as usize % SLOTS;
        let index = self.slots[place].first;
        let Entry { event, next, .. } = self.entries[index as usize];
        self.slots[place].first = next;
        if next == NONE {
            self.filled[place / 64] &= !(1 << (place % 64));
            if self.filled[place / 64] == 0 {
                self.summary &= !(1 << (place / 64));
            }
        }
        self.entries[index as usize].next = self.free;
        self.free = index;
        self.now = time;
        Some((time, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files and takes events at random, beside a sorted list.
    #[test]
    fn events_come_in_order() {
        let mut wheel = Wheel::new();
        let mut list = Vec::new();
        let mut random = crate::random::Random::new(7);
        let mut now = 0;
        for number in 0..200_000_u32 {
            let distance = match random.below(10) {
                0 => random.below(100_000),
                1..4 => random.below(SLOTS as u64 + 2),
                _ => random.below(40),
            };
            wheel.push(now + distance, number);
            list.push((now + distance, number));
            if random.below(2) == 0 {
                list.sort_by_key(|(time, _)| *time);
                assert_eq!(wheel.next_time(), list[0].0);
                let (time, event) = wheel.pop().expect("filed above");
                assert_eq!((time, event), list.remove(0));
                now = time;
            }
            if list.len() > 200 {
                list.sort_by_key(|(time, _)| *time);
                for expected in list.drain(..) {
                    assert_eq!(wheel.pop(), Some(expected));
                    now = expected.0;
                }
            }
        }
    }

    #[test]
    fn the_past_is_now() {
        let mut wheel = Wheel::new();
        wheel.push(10, 'a');
        assert_eq!(wheel.pop(), Some((10, 'a')));
        wheel.push(3, 'b');
        assert_eq!((wheel.next_time(), wheel.pop()), (10, Some((10, 'b'))));
        assert_eq!((wheel.next_time(), wheel.pop()), (u64::MAX, None));
    }
}
