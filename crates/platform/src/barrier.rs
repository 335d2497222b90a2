//! A store-load fence whose cost falls on one side: `membarrier(2)`.
//!
//! Two threads each store to one location and then load the other's; at least one of them must see the other's store.
//! Normally both need a fence. Where one side is rare, it can instead make the kernel run a full barrier on every CPU
//! that executes a thread of this process, and the frequent side keeps only the order of its instructions.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU8, compiler_fence, fence};

use crate::sys::{self, Membarrier};

/// Not tried yet: both sides fence.
const UNTRIED: u8 = 0;
/// The kernel does it: the light side is free.
const ASYMMETRIC: u8 = 1;
/// The kernel does not do it here: both sides fence.
const SYMMETRIC: u8 = 2;
/// It does not do it any more: light sides fence from now on, but some may not have seen that yet.
const LEAVING: u8 = 3;

/// After this time, in ns, a light side that has not seen [`LEAVING`] is past its few instructions, or was interrupted in them,
/// which is a barrier too.
const STRAGGLING: u64 = 1_000_000;

static STATE: AtomicU8 = AtomicU8::new(UNTRIED);

/// Asks the kernel for the service. Quick while the process has one thread, otherwise some milliseconds.
#[cold]
pub fn prepare() {
    let state = if sys::membarrier(Membarrier::Register) { ASYMMETRIC } else { SYMMETRIC };
    // Where another thread was faster, and light sides may rely on the kernel already, only `leave` changes it.
    let _ = STATE.compare_exchange(UNTRIED, state, Relaxed, Relaxed);
}

/// The same, unless it has been done.
pub fn prepare_once() {
    if STATE.load(Relaxed) == UNTRIED {
        prepare();
    }
}

/// The frequent side's fence.
#[inline(always)]
pub(crate) fn light() {
    if STATE.load(Relaxed) == ASYMMETRIC {
        compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// The rare side's fence: one or two microseconds.
#[cold]
pub(crate) fn heavy() {
    fence(SeqCst);
    prepare_once();
    match STATE.load(Relaxed) {
        ASYMMETRIC if !sys::membarrier(Membarrier::Expedited) => leave(),
        LEAVING => leave(),
        _ => {}
    }
}

/// A filter of system calls came after the registration. Each heavy side waits for stragglers, until one has done so to the end.
#[cold]
fn leave() {
    // It fails if another thread has gone ahead.
    let _ = STATE.compare_exchange(ASYMMETRIC, LEAVING, Relaxed, Relaxed);
    sys::sleep_ns(STRAGGLING);
    STATE.store(SYMMETRIC, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_serves_or_both_sides_fence() {
        heavy();
        let state = STATE.load(Relaxed);
        assert_eq!(state == ASYMMETRIC, sys::membarrier(Membarrier::Expedited));
        light();
    }
}
