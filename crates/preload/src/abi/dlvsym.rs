//! `dlvsym` for the names we serve.
//!
//! Our symbols have no version, so a look-up of a version passes them over and finds glibc's functions, which do
//! not understand our locks. Programs that look locking functions up by version get ours instead. Not so a library that is
//! preloaded behind ours and wraps the function (libfaketime): it is what we call for glibc's, and asks for what it is to call.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;

use crate::abi::{real, symbols};

const RTLD_DEFAULT: usize = 0;
const RTLD_NEXT: usize = usize::MAX;

/// `Dl_info`.
#[repr(C)]
struct Object {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, object: *mut Object) -> c_int;
}

/// Where the program or library begins that `address` is in.
fn base_of(address: usize) -> Option<*mut c_void> {
    let mut object = MaybeUninit::<Object>::uninit();
    // SAFETY: any address will do.
    let is_known = unsafe { dladdr(ptr::without_provenance(address), object.as_mut_ptr()) } != 0;
    // SAFETY: filled in if the address is known.
    is_known.then(|| unsafe { object.assume_init() }.base)
}

/// Our function, or 0 where the caller asks a particular library, for something else, or for what it wraps.
unsafe extern "C" fn replacement(handle: usize, name: *const c_char, caller: usize) -> usize {
    if !matches!(handle, RTLD_DEFAULT | RTLD_NEXT) || name.is_null() {
        return 0;
    }
    // SAFETY: the program's string.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(ours) = symbols::ours(name.to_bytes()) else { return 0 };
    if handle == RTLD_NEXT {
        let behind = real::find_optional(name).and_then(base_of);
        if behind.is_some() && behind == base_of(caller) {
            return 0;
        }
    }
    ours
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
        "mov rdx, [rsp + 24]",
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
        "mov x2, x30",
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
