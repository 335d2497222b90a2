//! `dlvsym` for the names we serve.
//!
//! Our symbols have no version, so a look-up of a version passes them over and finds glibc's functions, which do
//! not understand our locks. Programs that look locking functions up by version get ours instead.

use core::ffi::{CStr, c_char};

use crate::real;

macro_rules! served {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(fn $name();)*
        }

        /// Our function of this name, if we serve it.
        fn served(name: &[u8]) -> Option<usize> {
            $(if name == stringify!($name).as_bytes() {
                return Some($name as *const () as usize);
            })*
            None
        }
    };
}

served! {
    pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock pthread_mutex_trylock pthread_mutex_timedlock
    pthread_mutex_clocklock pthread_mutex_unlock pthread_mutex_consistent pthread_mutex_getprioceiling
    pthread_mutex_setprioceiling
    pthread_cond_init pthread_cond_destroy pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait
    pthread_cond_signal pthread_cond_broadcast
    pthread_rwlock_init pthread_rwlock_destroy pthread_rwlock_rdlock pthread_rwlock_tryrdlock
    pthread_rwlock_timedrdlock pthread_rwlock_clockrdlock pthread_rwlock_wrlock pthread_rwlock_trywrlock
    pthread_rwlock_timedwrlock pthread_rwlock_clockwrlock pthread_rwlock_unlock
    pthread_spin_init pthread_spin_destroy pthread_spin_lock pthread_spin_trylock pthread_spin_unlock
    pthread_cancel prctl syscall
    mtx_init mtx_destroy mtx_lock mtx_trylock mtx_timedlock mtx_unlock
    cnd_init cnd_destroy cnd_wait cnd_timedwait cnd_signal cnd_broadcast
}

/// Our function, or 0 where the caller asks a particular library or for something else.
unsafe extern "C" fn replacement(handle: usize, name: *const c_char) -> usize {
    const RTLD_DEFAULT: usize = 0;
    const RTLD_NEXT: usize = usize::MAX;
    if !matches!(handle, RTLD_DEFAULT | RTLD_NEXT) || name.is_null() {
        return 0;
    }
    // SAFETY: the program's string.
    served(unsafe { CStr::from_ptr(name) }.to_bytes()).unwrap_or(0)
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
