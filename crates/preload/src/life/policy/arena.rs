//! The heap of start-up: pages that are never given back. Parsing a policy needs one; nothing else may.

use alloc::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use lockwork_platform::sys;

/// What is mapped at a time, in bytes.
const CHUNK: usize = 256 << 10;

#[global_allocator]
static ARENA: Arena = Arena { open: AtomicBool::new(false), free: UnsafeCell::new((0, 0)) };

struct Arena {
    open: AtomicBool,
    /// Addresses: from here, up to there.
    free: UnsafeCell<(usize, usize)>,
}

// SAFETY: `free` is accessed while the arena is open only, which is when one thread initialises the library.
unsafe impl Sync for Arena {}

/// Runs `work`, which may allocate. Only for initialisation, which is single-threaded by its own lock.
pub(super) fn with_heap<T>(work: impl FnOnce() -> T) -> T {
    ARENA.open.store(true, Ordering::Relaxed);
    // SAFETY: open, hence ours alone. Afresh: a thread of the parent of a `fork` may have been in the middle of it.
    unsafe { *ARENA.free() = (0, 0) };
    let result = work();
    ARENA.open.store(false, Ordering::Relaxed);
    result
}

impl Arena {
    /// The rest of the current chunk. Panics outside [`with_heap`]: locks are used inside malloc, and must not need it.
    fn free(&self) -> *mut (usize, usize) {
        assert!(self.open.load(Ordering::Relaxed), "allocation after start-up");
        self.free.get()
    }
}

// SAFETY: blocks are disjoint parts of fresh mappings, aligned as asked, and never reused.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: open, hence ours alone.
        let (from, to) = unsafe { &mut *self.free() };
        let mut start = from.next_multiple_of(layout.align());
        if start + layout.size() > *to {
            let bytes = (layout.size() + layout.align()).next_multiple_of(CHUNK);
            let Some(pages) = sys::map_pages(bytes) else {
                sys::refuse(format_args!("not enough memory for LOCKWORK_POLICY"));
            };
            *to = pages.as_ptr() as usize + bytes;
            start = (pages.as_ptr() as usize).next_multiple_of(layout.align());
        }
        *from = start + layout.size();
        start as *mut u8
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // Zero already, and most of a large block is never touched.
        // SAFETY: the caller's contract.
        unsafe { self.alloc(layout) }
    }

    unsafe fn dealloc(&self, _block: *mut u8, _layout: Layout) {}

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size <= layout.size() {
            return block;
        }
        // SAFETY: open, hence ours alone.
        let (from, to) = unsafe { &mut *self.free() };
        let start = block as usize;
        // The newest block grows in place, as a vector that is being filled does.
        if start + layout.size() == *from && start + size <= *to {
            *from = start + size;
            return block;
        }
        // SAFETY: the caller's contract: not too large for a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: not zero, being larger than the block was.
        let grown = unsafe { self.alloc(wanted) };
        // SAFETY: two blocks, of which the new one is longer.
        unsafe { ptr::copy_nonoverlapping(block, grown, layout.size()) };
        grown
    }
}
