//! `liblockwork.so`: the POSIX and C11 locking API over the locks of Lockwork.
//!
//! Loaded by `LD_PRELOAD`, it takes the place of glibc's mutexes, conditions, reader-writer locks and spin locks in an
//! unmodified program. Lock state lives inside the program's own `pthread_mutex_t`: no table, no
//! allocation. What it cannot serve (robust, priority-aware and process-shared locks) goes to glibc.
//!
//! Rooms:
//!
//! - `abi`: the exported symbols, the entry points in assembly, the layout of glibc's types, glibc's own functions;
//! - `serve`: what the operations on mutexes, conditions, reader-writer locks and spin locks do, and the tables from a
//!   lock's tag to the code that serves it;
//! - `layers`: what stands between an entry point and the lock, if anything does;
//! - `life`: start and choice of locks, the policy file, `fork`, the report at the end.
#![no_std]

extern crate alloc;
// Tests are compiled under a profile whose panics unwind, for which only std has the machinery. `cargo check --workspace`
// under that profile then checks this crate, too; what programs are run under is built by the profiles of Cargo.toml.
#[cfg(panic = "unwind")]
extern crate std;

mod abi;
mod layers;
mod life;
mod serve;

/// A broken invariant: say so and stop, without unwinding into the program.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::fmt::Write;
    let _ = writeln!(lockwork_platform::sys::Stderr, "lockwork: {info}");
    // SAFETY: `abort` takes nothing and does not return.
    unsafe { abort() }
}

#[cfg(panic = "abort")]
unsafe extern "C" {
    fn abort() -> !;
}

// The precompiled core and alloc libraries refer to the unwinder and its personality. Nothing unwinds here. Hidden:
// exported ones would take the place of the real ones in a Rust program that links its standard library dynamically.
#[cfg(panic = "abort")]
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
