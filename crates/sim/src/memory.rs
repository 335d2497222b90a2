//! The memory of a simulated machine: one piece of ours, in which everything lies as it would natively.
//!
//! A cell's cache line is known by where the cell is, so false sharing is simulated as it is laid out. Memory is handed
//! out in the order of requests from a fixed start, so that a line has the same number in every run.

use std::alloc::Layout;
use std::ptr::NonNull;

use lockwork_platform::sys;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;
/// The most memory a run can use. It is reserved at the start, and taken when used.
pub(crate) const BYTES: usize = 1 << 30;

/// What the memory itself is aligned to, at least.
const PAGE: usize = 4096;

/// The number of a cache line.
pub(crate) type LineId = u32;

/// The memory of a run.
#[derive(Debug)]
pub(crate) struct Arena {
    start: NonNull<u8>,
    used: usize,
}

impl Arena {
    /// Empty memory.
    ///
    /// # Panics
    ///
    /// If the host has no address space left.
    pub(crate) fn new() -> Self {
        let start = sys::map_pages(BYTES).expect("a gigabyte of address space");
        Self { start, used: 0 }
    }

    /// Memory that reads as zero, on cache lines of its own.
    ///
    /// # Panics
    ///
    /// If the run uses more than a gigabyte, or something is to be aligned to more than a page.
    pub(crate) fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        let align = layout.align().max(LINE);
        assert!(align <= PAGE, "simulated memory is aligned to {PAGE} bytes, not to {align}");
        let offset = self.used.next_multiple_of(align);
        assert!(
            layout.size() <= BYTES.saturating_sub(offset),
            "the workload needs more than {BYTES} bytes of simulated memory"
        );
        self.used = (offset + layout.size().max(1)).next_multiple_of(LINE);
        // SAFETY: inside the piece, by the check.
        unsafe { self.start.add(offset) }
    }

    /// Lines handed out.
    pub(crate) fn lines(&self) -> usize {
        self.used / LINE
    }

    /// The line of an address; `None` if it is not simulated memory.
    #[inline]
    pub(crate) fn line_of(&self, address: usize) -> Option<LineId> {
        let offset = address.wrapping_sub(self.start.as_ptr() as usize);
        (offset < self.used).then_some((offset / LINE) as LineId)
    }

    /// Where an address is from the start: the same in every run.
    pub(crate) fn offset_of(&self, address: usize) -> usize {
        address.wrapping_sub(self.start.as_ptr() as usize)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: ours, and the run that knew of it is over.
        unsafe { sys::unmap_pages(self.start, BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut arena = Arena::new();
        let first = arena.allocate(Layout::new::<u64>());
        let large = Layout::from_size_align(BYTES, LINE).expect("a layout");
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| arena.allocate(large)));
        assert!(refused.is_err());
        assert_eq!(arena.lines(), 1);
        assert_eq!(arena.line_of(first.as_ptr() as usize + LINE), None);
    }
}
