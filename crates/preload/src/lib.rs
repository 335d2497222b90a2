//! `liblockwork.so`: the POSIX and C11 locking API over the locks of Lockwork.
//!
//! Loaded by `LD_PRELOAD`, it takes the place of glibc's mutexes, conditions, reader-writer locks and spin locks in an
//! unmodified program. Lock state lives inside the program's own `pthread_mutex_t`: no table, no
//! allocation. What it cannot serve (robust, priority-aware and process-shared locks) goes to glibc.
//!
//! Rooms: `start` (constructor, choice of locks), `table` and `rwtable` (from a lock's tag to code), `layout` (where
//! things are in glibc's types), `policy` (`LOCKWORK_POLICY`), `posix` (the API), `fork`, `real` (glibc's own
//! functions), `report` (`LOCKWORK_VERBOSE`) to `output`.
#![no_std]

extern crate alloc;

mod counters;
mod fork;
mod layout;
mod output;
mod policy;
mod posix;
mod real;
mod report;
mod rwtable;
mod slices;
mod start;
mod table;

/// A broken invariant: say so and stop, without unwinding into the program.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::fmt::Write;
    let _ = writeln!(report::Stderr, "lockwork: {info}");
    // SAFETY: `abort` takes nothing and does not return.
    unsafe { abort() }
}

unsafe extern "C" {
    fn abort() -> !;
}

// The precompiled core and alloc libraries refer to the unwinder and its personality. Nothing unwinds here. Hidden:
// exported ones would take the place of the real ones in a Rust program that links its standard library dynamically.
core::arch::global_asm!(
    ".pushsection .text",
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "rust_eh_personality:",
    ".globl _Unwind_Resume",
    ".hidden _Unwind_Resume",
    "_Unwind_Resume:",
    ".byte 0",
    ".popsection",
);

// The dynamic loader's symbols and the rest of libc.
#[link(name = "c")]
unsafe extern "C" {}
