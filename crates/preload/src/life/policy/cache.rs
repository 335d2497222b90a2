//! Decisions by code location, so that thousands of locks from one place are decided once.
//!
//! Lock-free, and never waits: two words an entry, written one after the other. The first is the key mixed with the
//! second, so that a mixture of two entries fits neither key (as in the transposition tables of chess programs).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lockwork_policy::Kind;

/// A power of two.
const ENTRIES: usize = 512;
/// The low bits of an entry's second word are the decision, the others the module's identity.
const DECISION: u64 = 0xffff;

struct Entry {
    mixed: AtomicU64,
    value: AtomicU64,
}

static ENTRY: [Entry; ENTRIES] =
    [const { Entry { mixed: AtomicU64::new(0), value: AtomicU64::new(0) } }; ENTRIES];

fn key(caller: usize, kind: Kind) -> u64 {
    // Addresses of programs have at most 56 bits.
    caller as u64 | (kind as u64 + 1) << 57
}

fn entry(caller: usize) -> &'static Entry {
    // Multiplicative hashing: the high bits depend on all bits of the address.
    let hash = (caller as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &ENTRY[(hash >> 55) as usize % ENTRIES]
}

/// The decision for locks of this sort from this place, if it is known; `identity` is that of the module, which may have
/// been unloaded and another one loaded there.
pub(super) fn get(caller: usize, kind: Kind, identity: u64) -> Option<u16> {
    let entry = entry(caller);
    let value = entry.value.load(Relaxed);
    let fits = entry.mixed.load(Relaxed) ^ value == key(caller, kind) && (value ^ identity) & !DECISION == 0;
    fits.then_some(value as u16)
}

/// Remembers a decision.
pub(super) fn put(caller: usize, kind: Kind, identity: u64, decision: u16) {
    let entry = entry(caller);
    let value = identity & !DECISION | u64::from(decision);
    entry.value.store(value, Relaxed);
    entry.mixed.store(key(caller, kind) ^ value, Relaxed);
}
