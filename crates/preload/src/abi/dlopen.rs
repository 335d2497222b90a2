//! `dlopen` without `RTLD_DEEPBIND`.
//!
//! A library bound that way would find glibc's locks before ours, and share mutexes with a program
//! that uses ours.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::real;

static REAL: AtomicUsize = AtomicUsize::new(0);

extern "C" fn find_real() -> usize {
    let address = real::address_of(c"dlopen");
    REAL.store(address, Ordering::Relaxed);
    address
}

/// POSIX. Jumps to glibc's function, which looks at its return address for the caller's search path.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "and esi, -9",
        "mov rax, qword ptr [rip + {real}]",
        "test rax, rax",
        "je 1f",
        "jmp rax",
        "1:",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {find}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        ".cfi_endproc",
        real = sym REAL,
        find = sym find_real,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "and w1, w1, #0xfffffff7",
        "adrp x9, {real}",
        "ldr x9, [x9, :lo12:{real}]",
        "cbz x9, 1f",
        "br x9",
        "1:",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "stp x0, x1, [sp, #16]",
        "bl {find}",
        "mov x9, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "br x9",
        ".cfi_endproc",
        real = sym REAL,
        find = sym find_real,
    );
}
