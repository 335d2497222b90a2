//! Entry points in assembly: where the compiler cannot promise a tail call, or where no Rust frame may be
//! on the stack.
//!
//! Those of mutexes and reader-writer locks ask for alignment at their end: that is their section's, of which they are the
//! beginning. One that lies across two cache lines costs up to half a nanosecond more, whatever the lock.

/// Entry of an operation on a mutex: one load of kind and tag, one jump. Anything but kind 0 is `$slow`'s.
macro_rules! mutex_entry {
    ($(#[$doc:meta])* $name:ident, $operation:expr, $slow:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(mutex: *mut $crate::abi::layout::Mutex) -> core::ffi::c_int {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "mov rax, qword ptr [rdi + 16]",
                "test eax, eax",
                "jne {slow}",
                "shr rax, 32",
                "and eax, {mask}",
                "mov rcx, qword ptr [rip + {board} + {gate}]",
                "jmp qword ptr [rcx + 8 * rax + {column}]",
                ".p2align 6",
                slow = sym $slow,
                board = sym $crate::layers::profile::BOARD,
                gate = const $crate::abi::entrances::GATE,
                column = const $crate::abi::entrances::column($operation),
                mask = const $crate::serve::mutex::table::TAGS - 1,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "ldr x9, [x0, #16]",
                "cbnz w9, 1f",
                "lsr x9, x9, #32",
                "and x9, x9, #{mask}",
                "adrp x10, {board} + {gate}",
                "ldr x10, [x10, :lo12:{board} + {gate}]",
                "add x10, x10, #{column}",
                "ldr x10, [x10, x9, lsl #3]",
                "br x10",
                "1: b {slow}",
                ".p2align 6",
                slow = sym $slow,
                board = sym $crate::layers::profile::BOARD,
                gate = const $crate::abi::entrances::GATE,
                column = const $crate::abi::entrances::column($operation),
                mask = const $crate::serve::mutex::table::TAGS - 1,
            );
        }
    };
}

/// A function that appends its return address, the code location that uses the lock, to the
/// arguments (one or two) and jumps to `$target`.
macro_rules! with_caller {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),+), $x86:literal, $arm:literal, $target:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),+) -> core::ffi::c_int {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                concat!("mov ", $x86, ", qword ptr [rsp]"),
                "jmp {target}",
                target = sym $target,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                concat!("mov ", $arm, ", x30"),
                "b {target}",
                target = sym $target,
            );
        }
    };
}

/// A function that appends its return address and the caller's frame pointer to its one argument and jumps to what serves this
/// operation on mutexes that need more than the lock.
macro_rules! with_call_through {
    ($(#[$doc:meta])* $name:ident, $operation:expr) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name(mutex: *mut $crate::abi::layout::Mutex) -> core::ffi::c_int {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "mov rsi, qword ptr [rsp]",
                "mov rdx, rbp",
                "mov rax, qword ptr [rip + {board} + {gate}]",
                "jmp qword ptr [rax + {checked}]",
                board = sym $crate::layers::profile::BOARD,
                gate = const $crate::abi::entrances::GATE,
                checked = const $crate::abi::entrances::checked($operation),
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "mov x1, x30",
                "mov x2, x29",
                "adrp x9, {board} + {gate}",
                "ldr x9, [x9, :lo12:{board} + {gate}]",
                "ldr x9, [x9, #{checked}]",
                "br x9",
                board = sym $crate::layers::profile::BOARD,
                gate = const $crate::abi::entrances::GATE,
                checked = const $crate::abi::entrances::checked($operation),
            );
        }
    };
}

/// A function that appends its return address and the caller's frame pointer to its arguments, as the argument of that
/// position and the next, and jumps to `$target`.
macro_rules! with_call {
    ($(#[$doc:meta])* $name:ident, 1, $target:path) => {
        $crate::abi::entry::with_call! { @ $(#[$doc])* $name, "rsi", "rdx", "x1", "x2", $target }
    };
    ($(#[$doc:meta])* $name:ident, 3, $target:path) => {
        $crate::abi::entry::with_call! { @ $(#[$doc])* $name, "rcx", "r8", "x3", "x4", $target }
    };
    (@ $(#[$doc:meta])* $name:ident, $caller:literal, $frame:literal, $arm_caller:literal, $arm_frame:literal, $target:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                concat!("mov ", $caller, ", qword ptr [rsp]"),
                concat!("mov ", $frame, ", rbp"),
                "jmp {target}",
                target = sym $target,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                concat!("mov ", $arm_caller, ", x30"),
                concat!("mov ", $arm_frame, ", x29"),
                "b {target}",
                target = sym $target,
            );
        }
    };
}

/// A function for an entry point's column: it appends its return address, the caller's frame pointer, and the leaf function of
/// this operation and the tag, to its argument, and jumps to `$target`. The tag is where `mutex_entry` leaves it, in rax or x9.
macro_rules! with_call_and_leaf {
    ($(#[$doc:meta])* $name:ident, $operation:expr, $target:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "lea rcx, [rip + {leaves} + {column}]",
                "mov rsi, qword ptr [rsp]",
                "mov rdx, rbp",
                "mov rcx, qword ptr [rcx + 8 * rax]",
                "jmp {target}",
                ".p2align 6",
                target = sym $target,
                leaves = sym $crate::serve::mutex::table::LEAVES,
                column = const $operation * size_of::<$crate::abi::entrances::Column>(),
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "adrp x3, {leaves} + {column}",
                "add x3, x3, :lo12:{leaves} + {column}",
                "ldr x3, [x3, x9, lsl #3]",
                "mov x1, x30",
                "mov x2, x29",
                "b {target}",
                target = sym $target,
                leaves = sym $crate::serve::mutex::table::LEAVES,
                column = const $operation * size_of::<$crate::abi::entrances::Column>(),
            );
        }
    };
}

/// Entry of an operation on a reader-writer lock: straight to what serves ours if it is ours, else to what serves others with the
/// return address as the fourth argument.
macro_rules! rwlock_entry {
    ($(#[$doc:meta])* $name:ident, $operation:expr) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "cmp dword ptr [rdi + {server}], {first_of_ours}",
                "jb 2f",
                "mov rax, qword ptr [rip + {board} + {gate}]",
                "jmp qword ptr [rax + {ours}]",
                "2:",
                "mov rcx, qword ptr [rsp]",
                "mov rax, qword ptr [rip + {board} + {gate}]",
                "jmp qword ptr [rax + {others}]",
                ".p2align 6",
                server = const core::mem::offset_of!($crate::abi::layout::RwLock, server),
                first_of_ours = const $crate::abi::layout::RWLOCK_FUTEX,
                board = sym $crate::layers::profile::BOARD,
                gate = const $crate::abi::entrances::GATE,
                ours = const $crate::abi::entrances::rwlock($operation, 0),
                others = const $crate::abi::entrances::rwlock($operation, 1),
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "ldr w9, [x0, #{server}]",
                "cmp w9, #{first_of_ours}",
                "b.lo 2f",
                "adrp x9, {board} + {gate}",
                "ldr x9, [x9, :lo12:{board} + {gate}]",
                "ldr x9, [x9, #{ours}]",
                "br x9",
                "2:",
                "mov x3, x30",
                "adrp x9, {board} + {gate}",
                "ldr x9, [x9, :lo12:{board} + {gate}]",
                "ldr x9, [x9, #{others}]",
                "br x9",
                ".p2align 6",
                server = const core::mem::offset_of!($crate::abi::layout::RwLock, server),
                first_of_ours = const $crate::abi::layout::RWLOCK_FUTEX,
                board = sym $crate::layers::profile::BOARD,
                gate = const $crate::abi::entrances::GATE,
                ours = const $crate::abi::entrances::rwlock($operation, 0),
                others = const $crate::abi::entrances::rwlock($operation, 1),
            );
        }
    };
}

/// Another name for an entry point.
macro_rules! alias {
    ($($name:ident = $target:path;)*) => {
        $(
            /// Alias that glibc exports too.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!("jmp {target}", target = sym $target);
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!("b {target}", target = sym $target);
            }
        )*
    };
}

/// A cancellable wait. `$prepare(condition, mutex, return address)` returns 0, or glibc's function to jump to instead;
/// `$wait` returns [`CANCELLED`](crate::serve::cancel::CANCELLED) when the thread shall act on a cancellation request, which it
/// does here, with no Rust frame on the stack: unwinding through one would abort.
macro_rules! cancellable_entry {
    ($(#[$doc:meta])* $name:ident, $prepare:path, $wait:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "push rcx",
                ".cfi_adjust_cfa_offset 8",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "mov rdx, qword ptr [rsp + 40]",
                "mov rcx, rbp",
                "call {prepare}",
                "test rax, rax",
                "jne 3f",
                "call {testcancel}",
                "mov rdi, qword ptr [rsp + 32]",
                "mov rsi, qword ptr [rsp + 24]",
                "mov rdx, qword ptr [rsp + 16]",
                "mov rcx, qword ptr [rsp + 8]",
                "call {wait}",
                "cmp eax, {cancelled}",
                "jne 2f",
                "call {testcancel}",
                "xor eax, eax",
                "2:",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                "3:",
                ".cfi_adjust_cfa_offset 40",
                "cmp dword ptr [rip + {profiled}], 0",
                "jne 4f",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp rax",
                "4:",
                ".cfi_adjust_cfa_offset 40",
                "mov rdi, qword ptr [rsp + 32]",
                "mov rsi, qword ptr [rsp + 24]",
                "mov rdx, qword ptr [rsp + 16]",
                "mov rcx, qword ptr [rsp + 8]",
                "call rax",
                "mov rdi, qword ptr [rsp + 24]",
                "mov esi, eax",
                "call {forwarded}",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                ".cfi_endproc",
                profiled = sym $crate::layers::profile::LOADED,
                forwarded = sym $crate::layers::profile::cond::after_glibcs_wait,
                prepare = sym $prepare,
                wait = sym $wait,
                testcancel = sym $crate::serve::cancel::testcancel,
                cancelled = const $crate::serve::cancel::CANCELLED,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-48]!",
                ".cfi_def_cfa_offset 48",
                ".cfi_offset x29, -48",
                ".cfi_offset x30, -40",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "mov x2, x30",
                "ldr x3, [x29]",
                "bl {prepare}",
                "cbnz x0, 3f",
                "bl {testcancel}",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "bl {wait}",
                "cmp w0, #{cancelled}",
                "b.ne 2f",
                "bl {testcancel}",
                "mov w0, wzr",
                "2:",
                "ldp x29, x30, [sp], #48",
                ".cfi_remember_state",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                "3:",
                ".cfi_restore_state",
                "adrp x9, {profiled}",
                "ldr w9, [x9, :lo12:{profiled}]",
                "cbnz w9, 4f",
                ".cfi_remember_state",
                "mov x9, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x29, x30, [sp], #48",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "br x9",
                "4:",
                ".cfi_restore_state",
                "mov x9, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "blr x9",
                "mov w1, w0",
                "ldr x0, [sp, #24]",
                "bl {forwarded}",
                "ldp x29, x30, [sp], #48",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                ".cfi_endproc",
                profiled = sym $crate::layers::profile::LOADED,
                forwarded = sym $crate::layers::profile::cond::after_glibcs_wait,
                prepare = sym $prepare,
                wait = sym $wait,
                testcancel = sym $crate::serve::cancel::testcancel,
                cancelled = const $crate::serve::cancel::CANCELLED,
            );
        }
    };
}

pub(crate) use with_call_and_leaf;
pub(crate) use {
    alias, cancellable_entry, mutex_entry, rwlock_entry, with_call, with_call_through, with_caller,
};
