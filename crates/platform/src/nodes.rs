//! The pool that queue nodes come from: pages from the kernel, cut into nodes of one cache line, a
//! spare node and a free list per thread, and one list for all. No lock path ever calls malloc.
//!
//! Memory is never unmapped, so a late futex wake on a freed node hits mapped memory, and
//! nodes circulate between threads freely: whoever frees a node keeps it.
//!
//! The shared [list](crate::batches) holds batches. It is immune to ABA and safe against `fork` at any instruction (a child may
//! lose a few nodes, never consistency).

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::batches::{Batch, Batches};
use crate::published::Published;
use crate::tls::ThreadBlock;
use crate::{Native, sys};

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
    /// In the first node of a batch: its place in the shared list.
    batch: Batch<Native>,
    /// Next node of the thread's list, or of the batch.
    next: *mut FreeNode,
}

/// Batches that no thread owns.
static SHARED: Batches<Native> = Batches::empty();
/// The region being cut up; its first cache line is its header.
static REGION: Published<Native, Region> = Published::nothing();

#[repr(C, align(64))]
struct Region {
    /// Offset of the first byte not yet cut off; beyond the end when exhausted.
    used: AtomicUsize,
}

/// Of a thread's spare node: it has none, and may not have one.
pub(crate) const CLOSED: *mut FreeNode = ptr::null_mut();
/// Of a thread's spare node: it has none. No node has this address.
pub(crate) const OPEN: *mut FreeNode = ptr::without_provenance_mut(1);

/// Takes a node of [`NODE_BYTES`]; its content is undefined but initialised.
///
/// A thread that holds one lock at a time takes the same node again and again: the one that it has put aside. That is one word to
/// write where the list has three, with the count of what is in it.
#[inline(always)]
pub(crate) fn take() -> NonNull<u8> {
    match take_spare() {
        Some(node) => node,
        None => take_of_list(ThreadBlock::current()),
    }
}

/// As [`take`], if the thread has put a node aside. Calls nothing.
#[inline(always)]
pub(crate) fn take_spare() -> Option<NonNull<u8>> {
    let spare = &ThreadBlock::current().spare;
    let node = spare.get();
    if node.addr() <= OPEN.addr() {
        return None;
    }
    spare.set(OPEN);
    NonNull::new(node).map(NonNull::cast)
}

/// Cold, so that what is done without it comes without a jump.
#[cold]
#[inline(never)]
fn take_of_list(block: &ThreadBlock) -> NonNull<u8> {
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
    keep_rest(block, until_there_is_memory(take_batch))
}

/// As [`take`]; `None` if there is no memory.
pub(crate) fn try_take() -> Option<NonNull<u8>> {
    let block = ThreadBlock::current();
    if block.spare.get().addr() <= OPEN.addr() && block.nodes.get().is_null() {
        return take_batch().map(|batch| keep_rest(block, batch));
    }
    Some(take())
}

/// Takes a batch that no thread owns, or makes one.
fn take_batch() -> Option<NonNull<FreeNode>> {
    SHARED.pop().map(NonNull::cast::<FreeNode>).or_else(|| cut_batch(BATCH)).or_else(|| cut_batch(1))
}

/// Keeps a batch, which is the caller's, but for its first node.
fn keep_rest(block: &ThreadBlock, batch: NonNull<FreeNode>) -> NonNull<u8> {
    // SAFETY: the batch is ours.
    let rest = unsafe { batch.as_ref().next };
    if !rest.is_null() {
        if block.may_keep() {
            // The list was empty, so there is room for a batch.
            block.nodes.set(rest);
            block.room.set(KEEP - count(rest));
        } else {
            push(rest);
        }
    }
    batch.cast()
}

/// Gives a node to the calling thread.
///
/// # Safety
///
/// `node` came from [`take`] and is not used any more.
#[inline(always)]
pub(crate) unsafe fn give(node: NonNull<u8>) {
    let block = ThreadBlock::current();
    let node: *mut FreeNode = node.as_ptr().cast();
    if block.spare.get() == OPEN {
        return block.spare.set(node);
    }
    give_to_list(block, node);
}

#[cold]
#[inline(never)]
fn give_to_list(block: &ThreadBlock, node: *mut FreeNode) {
    let room = block.room.get();
    if room == 0 {
        return give_slow(block, node);
    }
    // SAFETY: the node is ours to link.
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
        return push(node);
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
    push(first);
}

/// Gives back all nodes of an ending thread.
pub(crate) fn give_back_all(block: &ThreadBlock) {
    let mut first = block.nodes.replace(ptr::null_mut());
    block.room.set(0);
    let spare = block.spare.replace(CLOSED);
    if spare.addr() > OPEN.addr() {
        // SAFETY: the thread's own.
        unsafe { (*spare).next = first };
        first = spare;
    }
    if !first.is_null() {
        push(first);
    }
}

/// The largest block.
pub(crate) const MOST_BLOCK: usize = 4096;

/// Blocks larger than a node, by the power of two of their size in nodes, one shared list each.
static BLOCKS: [Batches<Native>; 7] = [const { Batches::empty() }; 7];

/// Bytes cut off regions so far.
static CUT: AtomicUsize = AtomicUsize::new(0);

/// How many bytes the pool has ever had in use or kept for threads: it never gives any back to the kernel.
#[must_use]
pub fn bytes() -> usize {
    CUT.load(Ordering::Relaxed)
}

/// How many bytes something of `bytes` (at most 4 KiB) takes of the pool.
#[must_use]
pub const fn taken_by(bytes: usize) -> usize {
    bytes.div_ceil(NODE_BYTES).next_power_of_two() * NODE_BYTES
}

/// The list that serves blocks of `bytes`, and the size of its blocks.
fn block_class(bytes: usize) -> (&'static Batches<Native>, usize) {
    let bytes = taken_by(bytes);
    (&BLOCKS[(bytes / NODE_BYTES).trailing_zeros() as usize], bytes)
}

/// Takes a block of at least `bytes` (at most 4 KiB), aligned to [`NODE_BYTES`].
pub(crate) fn take_block(bytes: usize) -> NonNull<u8> {
    until_there_is_memory(|| try_take_block(bytes))
}

/// As [`take_block`]; `None` if there is no memory.
pub(crate) fn try_take_block(bytes: usize) -> Option<NonNull<u8>> {
    take_block_or_cut(bytes, true)
}

/// As [`try_take_block`], leaving the reserve to others.
pub(crate) fn try_take_block_of_plenty(bytes: usize) -> Option<NonNull<u8>> {
    take_block_or_cut(bytes, false)
}

fn take_block_or_cut(bytes: usize, reserved: bool) -> Option<NonNull<u8>> {
    let (list, bytes) = block_class(bytes);
    list.pop().map(NonNull::cast::<u8>).or_else(|| cut(bytes, reserved).map(NonNull::cast::<u8>))
}

/// What `take` returns once it finds memory. Neither the kernel nor the reserve having any, the thread waits until another gives
/// some back, as it would wait for the lock: a lock must not end a program, and POSIX gives `pthread_mutex_lock` no error for it.
pub(crate) fn until_there_is_memory<T>(mut take: impl FnMut() -> Option<T>) -> T {
    static SAID: AtomicBool = AtomicBool::new(false);
    loop {
        if let Some(memory) = take() {
            return memory;
        }
        if !SAID.swap(true, Ordering::Relaxed) {
            sys::write_stderr(
                b"lockwork: out of memory for queue nodes, waiting for some: raise the limit on mappings or memory\n",
            );
        }
        sys::sched_yield();
    }
}

/// Gives a block back.
///
/// # Safety
///
/// `block` came from [`take_block`] with the same size and is not used any more.
pub(crate) unsafe fn give_block(block: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller gave the block up.
    unsafe { block_class(bytes).0.push(block.cast()) };
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

/// Gives a batch to all threads. It begins with `first`, and is the caller's.
fn push(first: *mut FreeNode) {
    if let Some(first) = NonNull::new(first) {
        // SAFETY: the caller's, in memory that is never unmapped.
        unsafe { SHARED.push(first.cast()) };
    }
}

/// Cuts `bytes` (a multiple of [`NODE_BYTES`]) off the current region, mapping a new region
/// where that one is used up. What is left of the old region is lost: less than one cut in 128.
/// `None` if the kernel has none, and the reserve is used up or not to be used.
fn cut(bytes: usize, reserved: bool) -> Option<NonNull<FreeNode>> {
    loop {
        let region = REGION.pointer();
        // SAFETY: a published region is mapped for ever.
        if let Some(live) = unsafe { region.as_ref() } {
            let offset = live.used.fetch_add(bytes, Ordering::Relaxed);
            if offset + bytes <= REGION_BYTES {
                CUT.fetch_add(bytes, Ordering::Relaxed);
                // SAFETY: the addition reserved these bytes of the mapping for us.
                let cut = unsafe { region.byte_add(offset) };
                return NonNull::new(cut.cast());
            }
        }
        let Some(fresh) = map_region() else {
            return if reserved { cut_of_reserve(bytes) } else { None };
        };
        // SAFETY: initialised, and mapped for ever once it is published.
        if unsafe { REGION.replace(region, fresh) }.is_err() {
            // Another thread was faster.
            // SAFETY: nobody else has seen `fresh`.
            unsafe { sys::unmap_pages(fresh.cast(), REGION_BYTES) };
        }
    }
}

/// Memory for when the kernel has none: of this library, and so mapped with it.
#[repr(C, align(64))]
struct Reserve(UnsafeCell<[MaybeUninit<u8>; RESERVE_BYTES]>);

// SAFETY: each byte is cut off once, for one thread.
unsafe impl Sync for Reserve {}

const RESERVE_BYTES: usize = 64 * 1024;
static RESERVE: Reserve = Reserve(UnsafeCell::new([MaybeUninit::zeroed(); RESERVE_BYTES]));
/// Bytes of the reserve that are cut off.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// Cuts `bytes` off the reserve.
fn cut_of_reserve(bytes: usize) -> Option<NonNull<FreeNode>> {
    let fits = |used: usize| (used + bytes <= RESERVE_BYTES).then_some(used + bytes);
    let offset = RESERVED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
    // SAFETY: within the reserve.
    let cut = unsafe { RESERVE.0.get().byte_add(offset) };
    NonNull::new(cut.cast())
}

fn map_region() -> Option<NonNull<Region>> {
    let region = sys::map_pages(REGION_BYTES)?.cast::<Region>();
    // SAFETY: fresh, large enough, page-aligned.
    unsafe { region.write(Region { used: AtomicUsize::new(NODE_BYTES) }) };
    Some(region)
}

/// Cuts a batch of so many fresh nodes and links it into a list.
fn cut_batch(nodes: u32) -> Option<NonNull<FreeNode>> {
    let nodes = nodes as usize;
    let first = cut(nodes * NODE_BYTES, true)?;
    for index in 0..nodes {
        let next = if index + 1 == nodes { ptr::null_mut() } else { first.as_ptr().wrapping_add(index + 1) };
        // SAFETY: `first` points to so many nodes that are ours.
        let node = unsafe { first.add(index) };
        // SAFETY: as above.
        unsafe { node.write(FreeNode { batch: Batch::alone(), next }) };
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::thread;

    use super::*;

    #[test]
    fn threads_give_back_what_they_keep() {
        const THREADS: usize = 1_000;
        let a_thread = || {
            let (first, second) = (take(), take());
            // SAFETY: taken above.
            unsafe { give(first) };
            // SAFETY: as above.
            unsafe { give(second) };
        };
        thread::spawn(a_thread).join().expect("a thread");
        let before = bytes();
        for _ in 0..THREADS {
            thread::spawn(a_thread).join().expect("a thread");
        }
        // Other tests take some meanwhile.
        let lost = (bytes() - before) / NODE_BYTES;
        assert!(lost < THREADS / 2, "{lost} nodes of {THREADS} threads");
    }

    #[test]
    fn what_was_put_aside_is_taken_first() {
        let (first, second) = (take(), take());
        // SAFETY: taken above.
        unsafe { give(first) };
        // SAFETY: as above.
        unsafe { give(second) };
        assert_eq!([take(), take()], [first, second], "the spare one, then the list's");
        // SAFETY: taken above.
        unsafe { give(first) };
        // SAFETY: as above.
        unsafe { give(second) };
    }
}
