//! `dlvsym` for the names we serve.
//!
//! Our symbols have no version, so a look-up of a version passes them over and finds glibc's functions, which do
//! not understand our locks. Programs that look locking functions up by version get ours instead.

use core::ffi::{CStr, c_char};

use crate::abi::{real, symbols};

/// Our function, or 0 where the caller asks a particular library or for something else.
unsafe extern "C" fn replacement(handle: usize, name: *const c_char) -> usize {
    const RTLD_DEFAULT: usize = 0;
    const RTLD_NEXT: usize = usize::MAX;
    if !matches!(handle, RTLD_DEFAULT | RTLD_NEXT) || name.is_null() {
        return 0;
    }
    // SAFETY: the program's string.
    symbols::ours(unsafe { CStr::from_ptr(name) }.to_bytes()).unwrap_or(0)
}

extern "C" fn find_real() -> usize {
    real::DLVSYM.address()
}

/// GNU. Jumps to glibc's function, which looks at its return address, for all that is not ours.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlvsym() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "call {replacement}",
        "test rax, rax",
        "jne 1f",
        "call {find}",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        "1:",
        ".cfi_adjust_cfa_offset 24",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        ".cfi_endproc",
        replacement = sym replacement,
        find = sym find_real,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-48]!",
        ".cfi_def_cfa_offset 48",
        ".cfi_offset x29, -48",
        ".cfi_offset x30, -40",
        "stp x0, x1, [sp, #16]",
        "str x2, [sp, #32]",
        "bl {replacement}",
        "cbnz x0, 1f",
        "bl {find}",
        "mov x9, x0",
        "ldp x0, x1, [sp, #16]",
        "ldr x2, [sp, #32]",
        "ldp x29, x30, [sp], #48",
        ".cfi_remember_state",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "br x9",
        "1:",
        ".cfi_restore_state",
        "ldp x29, x30, [sp], #48",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        replacement = sym replacement,
        find = sym find_real,
    );
}
