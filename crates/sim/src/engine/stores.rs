//! A CPU's store buffer: stores that are not visible yet, and which of them may become so.
//!
//! In total store order that is the oldest alone. In a weak order it is any whose line has come, but for these: two
//! stores to a line keep their order; a releasing store waits for all before it; and a fence that releases keeps those
//! before it before those behind it.

use std::collections::VecDeque;
use std::ops::Range;

use crate::machine::Order;
use crate::memory::LineId;

/// How much a store writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Nothing: its value is where it belongs already, and only the line is wanted. For data that a lock protects.
    Line,
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

/// A store that is not visible yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Store {
    pub(super) line: LineId,
    pub(super) address: usize,
    pub(super) bits: u64,
    pub(super) width: Width,
    /// Whether all stores before it become visible before it does.
    pub(super) releases: bool,
}

impl Store {
    /// Writes the value to memory.
    ///
    /// # Safety
    ///
    /// A cell of this width is at the address, and nobody borrows it.
    pub(super) unsafe fn commit(self) {
        match self.width {
            Width::Line => {}
            // SAFETY: the caller's contract.
            Width::Four => unsafe { (self.address as *mut u32).write(self.bits as u32) },
            // SAFETY: the caller's contract.
            Width::Eight => unsafe { (self.address as *mut u64).write(self.bits) },
        }
    }
}

/// The stores of a CPU that are under way, the oldest first.
#[derive(Debug)]
pub(super) struct StoreBuffer {
    order: Order,
    /// With their numbers, and how many fences came before them.
    stores: VecDeque<(u64, u64, Store)>,
    /// Stores that were ever put here.
    issued: u64,
    fences: u64,
}

impl StoreBuffer {
    pub(super) fn new(order: Order) -> Self {
        Self { order, stores: VecDeque::new(), issued: 0, fences: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.stores.len()
    }

    /// How many stores there have been: all that are here now have lower numbers.
    pub(super) fn issued(&self) -> u64 {
        self.issued
    }

    /// Whether all stores with lower numbers are visible.
    pub(super) fn are_visible(&self, below: u64) -> bool {
        self.stores.iter().all(|(number, ..)| *number >= below)
    }

    pub(super) fn push(&mut self, store: Store) {
        self.stores.push_back((self.issued, self.fences, store));
        self.issued += 1;
    }

    /// Keeps the stores that are here before those that come.
    pub(super) fn fence(&mut self) {
        self.fences += 1;
    }

    /// What the newest store to this address writes.
    #[inline]
    pub(super) fn newest(&self, address: usize) -> Option<u64> {
        let mut stores = self.stores.iter().rev().map(|(.., store)| store);
        stores.find(|store| store.address == address && store.width != Width::Line).map(|store| store.bits)
    }

    /// Whether a store to this memory is under way.
    pub(super) fn writes_to(&self, memory: &Range<usize>) -> bool {
        self.stores.iter().any(|(.., store)| memory.contains(&store.address))
    }

    /// Whether a store that came now could become visible before all that are here.
    #[inline]
    pub(super) fn lets_pass(&self, line: LineId, releases: bool) -> bool {
        match self.order {
            Order::Tso => self.is_empty(),
            Order::Weak => self.passes(self.stores.len(), self.fences, line, releases),
        }
    }

    fn passes(&self, behind: usize, fences: u64, line: LineId, releases: bool) -> bool {
        let is_before =
            |(_, earlier, store): &(u64, u64, Store)| releases || *earlier < fences || store.line == line;
        !self.stores.iter().take(behind).any(is_before)
    }

    /// The places of the stores that may become visible once their lines are here.
    pub(super) fn ready(&self) -> impl Iterator<Item = (usize, Store)> + '_ {
        let candidates = match self.order {
            Order::Tso => 1,
            Order::Weak => self.stores.len(),
        };
        let of = |place: usize| {
            let (_, fences, store) = self.stores[place];
            self.passes(place, fences, store.line, store.releases).then_some((place, store))
        };
        (0..candidates.min(self.stores.len())).filter_map(of)
    }

    /// Takes one out that has become visible.
    pub(super) fn remove(&mut self, place: usize) {
        self.stores.remove(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(line: LineId, releases: bool) -> Store {
        Store { line, address: line as usize * 64, bits: 1, width: Width::Eight, releases }
    }

    fn ready(buffer: &StoreBuffer) -> Vec<LineId> {
        buffer.ready().map(|(_, store)| store.line).collect()
    }

    #[test]
    fn in_total_store_order_only_the_oldest_may_go() {
        let mut buffer = StoreBuffer::new(Order::Tso);
        assert!(buffer.lets_pass(1, true));
        buffer.push(store(1, false));
        buffer.push(store(2, false));
        assert_eq!(ready(&buffer), [1]);
        assert!(!buffer.lets_pass(3, false));
        buffer.remove(0);
        assert_eq!(ready(&buffer), [2]);
        assert!(buffer.are_visible(1) && !buffer.are_visible(2));
    }

    #[test]
    fn in_a_weak_order_lines_releases_and_fences_keep_it() {
        let mut buffer = StoreBuffer::new(Order::Weak);
        for (line, releases) in [(1, false), (2, false), (1, false), (3, true), (4, false)] {
            buffer.push(store(line, releases));
        }
        assert_eq!(ready(&buffer), [1, 2, 4], "neither the second to line 1 nor the one that releases");
        assert!(buffer.lets_pass(5, false) && !buffer.lets_pass(5, true) && !buffer.lets_pass(2, false));
        buffer.fence();
        buffer.push(store(6, false));
        assert_eq!(ready(&buffer), [1, 2, 4]);
        assert!(!buffer.lets_pass(5, false));
        for _ in 0..5 {
            buffer.remove(0);
        }
        assert_eq!(ready(&buffer), [6]);
    }
}
