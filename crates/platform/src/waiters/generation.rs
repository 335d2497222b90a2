//! Which threads of its parents a child of `fork` has: one at most, the one that forked.
//!
//! Processes are numbered by the forks that lie between the first one and them, where a handler runs in the child
//! ([`new_generation`]). Of older generations than this one, one thread is left, which may have lived through several forks.

use core::sync::atomic::{AtomicU32, Ordering};

use super::Slot;
use crate::tls::ThreadBlock;

static GENERATION: AtomicU32 = AtomicU32::new(0);
/// The number of the thread that forked last, 0 = it had none; and the generation in which that thread began.
static SURVIVOR: AtomicU32 = AtomicU32::new(0);
static SURVIVOR_SINCE: AtomicU32 = AtomicU32::new(0);

#[inline(always)]
pub(super) fn now() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Begins a generation. To be called in a child after `fork`, by its one thread; twice does no harm.
pub fn new_generation() {
    // SAFETY: a slot in a thread block belongs to that thread and is mapped for ever.
    let slot = unsafe { ThreadBlock::current().slot.get().as_ref() };
    let survivor = slot.map_or(0, Slot::number);
    let before = now();
    if SURVIVOR.swap(survivor, Ordering::Relaxed) != survivor || survivor == 0 {
        // Of the generation that ends, every thread began in it but the one that came from before.
        SURVIVOR_SINCE.store(before, Ordering::Relaxed);
    }
    GENERATION.store(before.wrapping_add(1), Ordering::Relaxed);
}

pub(super) fn lives_since(thread: u32, generation: u32) -> bool {
    generation == now()
        || thread == SURVIVOR.load(Ordering::Relaxed)
            && thread != 0
            && generation >= SURVIVOR_SINCE.load(Ordering::Relaxed)
}
