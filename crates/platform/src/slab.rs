//! The pool that queue nodes come from: pages from the kernel, cut into nodes of one cache line, a
//! free list per thread and one for all. No lock path ever calls malloc.
//!
//! Memory is never unmapped, so a late futex wake on a freed node hits mapped memory, and
//! nodes circulate between threads freely: whoever frees a node keeps it.
//!
//! The shared list holds batches. Pushing is a CAS; popping takes the whole list and puts the rest back, which is immune
//! to ABA and safe against `fork` at any instruction (a child may lose a few nodes, never consistency).

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::sys;
use crate::tls::ThreadBlock;

/// Size and alignment of a node: one cache line.
pub const NODE_BYTES: usize = 64;

/// Nodes moved at once between a thread and the shared list.
const BATCH: u32 = 32;
/// A thread keeps at most this many free nodes.
pub(crate) const KEEP: u32 = 2 * BATCH;
/// Bytes asked of the kernel at once.
const REGION_BYTES: usize = 256 * 1024;

/// A free node: the links use the memory of the node itself.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct FreeNode {
    /// Next node of the thread's list, or of the batch.
    next: *mut FreeNode,
    /// Next batch, in the first node of a batch.
    next_batch: *mut FreeNode,
}

/// Batches that no thread owns.
static SHARED: AtomicPtr<FreeNode> = AtomicPtr::new(ptr::null_mut());
/// The region being cut up; its first cache line is its header.
static REGION: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());

#[repr(C, align(64))]
struct Region {
    /// Offset of the first byte not yet cut off; beyond the end when exhausted.
    used: AtomicUsize,
}

/// Takes a node of [`NODE_BYTES`]; its content is undefined but initialised.
#[inline(always)]
pub(crate) fn take() -> NonNull<u8> {
    let block = ThreadBlock::current();
    let node = block.nodes.get();
    if let Some(node) = NonNull::new(node) {
        // SAFETY: a node on this thread's list is owned by it and its links are valid.
        block.nodes.set(unsafe { node.as_ref().next });
        block.room.set(block.room.get() + 1);
        return node.cast();
    }
    take_slow(block)
}

#[cold]
#[inline(never)]
fn take_slow(block: &ThreadBlock) -> NonNull<u8> {
    let batch = pop(&SHARED).unwrap_or_else(cut_batch);
    // SAFETY: the batch is ours.
    let rest = unsafe { batch.as_ref().next };
    if !rest.is_null() {
        if block.may_keep() {
            // The list was empty, so there is room for a batch.
            block.nodes.set(rest);
            block.room.set(KEEP - count(rest));
        } else {
            push(&SHARED, rest, rest);
        }
    }
    batch.cast()
}

/// Puts a node on the calling thread's list.
///
/// # Safety
///
/// `node` came from [`take`] and is not used any more.
#[inline(always)]
pub(crate) unsafe fn give(node: NonNull<u8>) {
    let block = ThreadBlock::current();
    let node: *mut FreeNode = node.as_ptr().cast();
    let room = block.room.get();
    if room == 0 {
        return give_slow(block, node);
    }
    // SAFETY: the caller gave the node up, so its memory is ours to link.
    unsafe { (*node).next = block.nodes.get() };
    block.nodes.set(node);
    block.room.set(room - 1);
}

/// Gives a node back when the thread has no room for it: not registered yet, ending, or full.
#[cold]
#[inline(never)]
fn give_slow(block: &ThreadBlock, node: *mut FreeNode) {
    let keeps = block.may_keep();
    if keeps && block.room.get() == 0 {
        spill(block);
    }
    if !keeps {
        // SAFETY: the node is ours.
        unsafe { (*node).next = ptr::null_mut() };
        return push(&SHARED, node, node);
    }
    // SAFETY: the node is ours.
    unsafe { (*node).next = block.nodes.get() };
    block.nodes.set(node);
    block.room.set(block.room.get() - 1);
}

/// Moves one batch from the thread's list to the shared one.
fn spill(block: &ThreadBlock) {
    let first = block.nodes.get();
    let mut last = first;
    for _ in 1..BATCH {
        // SAFETY: the list is ours and at least `KEEP` long.
        last = unsafe { (*last).next };
    }
    // SAFETY: as above.
    block.nodes.set(unsafe { (*last).next });
    block.room.set(block.room.get() + BATCH);
    // SAFETY: as above; this ends the batch.
    unsafe { (*last).next = ptr::null_mut() };
    push(&SHARED, first, first);
}

/// Gives back all nodes of an ending thread.
pub(crate) fn give_back_all(block: &ThreadBlock) {
    let first = block.nodes.replace(ptr::null_mut());
    block.room.set(0);
    if !first.is_null() {
        push(&SHARED, first, first);
    }
}

/// Blocks larger than a node, by the power of two of their size in nodes, one shared list each.
static BLOCKS: [AtomicPtr<FreeNode>; 7] = [const { AtomicPtr::new(ptr::null_mut()) }; 7];

/// How many bytes something of `bytes` (at most 4 KiB) takes of the pool.
#[must_use]
pub const fn taken_by(bytes: usize) -> usize {
    bytes.div_ceil(NODE_BYTES).next_power_of_two() * NODE_BYTES
}

/// The list that serves blocks of `bytes`, and the size of its blocks.
fn block_class(bytes: usize) -> (&'static AtomicPtr<FreeNode>, usize) {
    let bytes = taken_by(bytes);
    (&BLOCKS[(bytes / NODE_BYTES).trailing_zeros() as usize], bytes)
}

/// Takes a block of at least `bytes` (at most 4 KiB), aligned to [`NODE_BYTES`].
pub(crate) fn take_block(bytes: usize) -> NonNull<u8> {
    let (list, bytes) = block_class(bytes);
    match pop(list) {
        Some(block) => block.cast(),
        None => cut(bytes).cast(),
    }
}

/// Gives a block back.
///
/// # Safety
///
/// `block` came from [`take_block`] with the same size and is not used any more.
pub(crate) unsafe fn give_block(block: NonNull<u8>, bytes: usize) {
    let block = block.as_ptr().cast();
    push(block_class(bytes).0, block, block);
}

fn count(mut node: *mut FreeNode) -> u32 {
    let mut nodes = 0;
    while !node.is_null() {
        nodes += 1;
        // SAFETY: a list this thread owns.
        node = unsafe { (*node).next };
    }
    nodes
}

/// Pushes the chain of batches `first ..= last` (linked by `next_batch`).
fn push(list: &AtomicPtr<FreeNode>, first: *mut FreeNode, last: *mut FreeNode) {
    let mut head = list.load(Ordering::Relaxed);
    loop {
        // SAFETY: the chain is ours until the CAS publishes it.
        unsafe { (*last).next_batch = head };
        // ORDER: Release publishes the links; its partner is the Acquire in `pop`.
        match list.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(there) => head = there,
        }
    }
}

fn pop(list: &AtomicPtr<FreeNode>) -> Option<NonNull<FreeNode>> {
    if list.load(Ordering::Relaxed).is_null() {
        return None;
    }
    let first = NonNull::new(list.swap(ptr::null_mut(), Ordering::Acquire))?;
    // SAFETY: the swap made the whole chain ours.
    let rest = unsafe { first.as_ref().next_batch };
    if !rest.is_null() {
        // Usually nobody pushed meanwhile, and the walk is spared. ORDER: as in `push`.
        if list.compare_exchange(ptr::null_mut(), rest, Ordering::Release, Ordering::Relaxed).is_ok() {
            return Some(first);
        }
        let mut last = rest;
        // SAFETY: as above, for every batch of the chain.
        while let Some(next) = NonNull::new(unsafe { (*last).next_batch }) {
            last = next.as_ptr();
        }
        push(list, rest, last);
    }
    Some(first)
}

/// Cuts `bytes` (a multiple of [`NODE_BYTES`]) off the current region, mapping a new region
/// where that one is used up. What is left of the old region is lost: less than one cut in 128.
fn cut(bytes: usize) -> NonNull<FreeNode> {
    loop {
        let region = REGION.load(Ordering::Acquire);
        // SAFETY: a published region is mapped for ever.
        if let Some(live) = unsafe { region.as_ref() } {
            let offset = live.used.fetch_add(bytes, Ordering::Relaxed);
            if offset + bytes <= REGION_BYTES {
                // SAFETY: the addition reserved these bytes of the mapping for us.
                let cut = unsafe { region.byte_add(offset) };
                // SAFETY: within a mapping, so not null.
                return unsafe { NonNull::new_unchecked(cut.cast()) };
            }
        }
        let fresh = map_region();
        if REGION.compare_exchange(region, fresh.as_ptr(), Ordering::Release, Ordering::Relaxed).is_err() {
            // Another thread was faster.
            // SAFETY: nobody else has seen `fresh`.
            unsafe { sys::unmap_pages(fresh.cast(), REGION_BYTES) };
        }
    }
}

fn map_region() -> NonNull<Region> {
    let Some(region) = sys::map_pages(REGION_BYTES) else {
        // A lock that cannot queue cannot keep its promise, and POSIX gives `pthread_mutex_lock` no error for it.
        sys::write_stderr(
            b"lockwork: out of memory for queue nodes: raise the limit on mappings or memory\n",
        );
        panic!("out of memory for queue nodes");
    };
    let region = region.cast::<Region>();
    // SAFETY: fresh, large enough, page-aligned.
    unsafe { region.write(Region { used: AtomicUsize::new(NODE_BYTES) }) };
    region
}

/// Cuts a batch of fresh nodes and links it into a list.
fn cut_batch() -> NonNull<FreeNode> {
    let first = cut(BATCH as usize * NODE_BYTES);
    for index in 0..BATCH as usize {
        let next = if index + 1 == BATCH as usize {
            ptr::null_mut()
        } else {
            first.as_ptr().wrapping_add(index + 1)
        };
        // SAFETY: `first` points to `BATCH` nodes that are ours.
        let node = unsafe { first.add(index) };
        // SAFETY: as above.
        unsafe { node.write(FreeNode { next, next_batch: ptr::null_mut() }) };
    }
    first
}
