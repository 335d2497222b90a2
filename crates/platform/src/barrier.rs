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

static STATE: AtomicU8 = AtomicU8::new(UNTRIED);

/// Asks the kernel for the service. Quick while the process has one thread, otherwise some milliseconds.
#[cold]
pub fn prepare() {
    let state = if sys::membarrier(Membarrier::Register) { ASYMMETRIC } else { SYMMETRIC };
    STATE.store(state, Relaxed);
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
    if STATE.load(Relaxed) == ASYMMETRIC && !sys::membarrier(Membarrier::Expedited) {
        // A filter of system calls came after the registration. Light sides fence from now on; those that have not seen
        // that yet are past their few instructions, or were interrupted in them, which is a barrier too, after this time.
        STATE.store(SYMMETRIC, Relaxed);
        sys::sleep_ns(1_000_000);
    }
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
