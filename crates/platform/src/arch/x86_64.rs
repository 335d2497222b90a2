//! x86_64: `syscall`, `%fs`, initial-exec thread-local storage.

use core::arch::{asm, global_asm};

use crate::tls::ThreadBlock;

// The per-thread block lives in initial-exec TLS: one load of an offset from the GOT and one addition,
// where the general-dynamic model of a shared object would call `__tls_get_addr`. The symbol is hidden, and
// carries the version because two versions of this crate may be linked into one program.
global_asm!(
    ".section .tbss.__lockwork_thread_block_0_1,\"awT\",@nobits",
    ".globl __lockwork_thread_block_0_1",
    ".hidden __lockwork_thread_block_0_1",
    ".type __lockwork_thread_block_0_1, @object",
    ".size __lockwork_thread_block_0_1, {size}",
    ".p2align 6",
    "__lockwork_thread_block_0_1:",
    ".zero {size}",
    ".text",
    size = const size_of::<ThreadBlock>(),
);

/// This thread's block, zeroed when the thread started.
#[inline(always)]
pub(crate) fn thread_block() -> *mut ThreadBlock {
    let block: *mut ThreadBlock;
    // SAFETY: reads the thread pointer and an offset that the dynamic linker wrote before any code of ours ran: nothing that changes,
    // as `nomem` says, so that a function asks once.
    unsafe {
        asm!(
            "mov {block}, qword ptr [rip + __lockwork_thread_block_0_1@GOTTPOFF]",
            "add {block}, qword ptr fs:0",
            block = out(reg) block,
            options(pure, nomem, nostack),
        );
    }
    block
}

/// Where this thread's area for restartable sequences is, from the thread pointer on, or `None` where none is registered.
#[inline(always)]
fn rseq_offset() -> Option<isize> {
    let offset: *const isize;
    let size: *const u32;
    // Weak, because glibc before 2.35 lacks the symbols.
    // SAFETY: loads two GOT entries, null where the symbols are undefined.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
            offset = out(reg) offset,
            size = out(reg) size,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: the symbol exists, and glibc set it before any constructor ran.
    let offset = unsafe { offset.read() };
    // SAFETY: as above.
    let size = unsafe { size.read() };
    (size != 0).then_some(offset)
}

/// The CPU number the kernel keeps in the rseq area, or `None` where rseq is not registered.
#[inline(always)]
pub(crate) fn rseq_cpu() -> Option<usize> {
    let offset = rseq_offset()?;
    let cpu: i32;
    // SAFETY: glibc registered an rseq area at this offset; `cpu_id` is its second word.
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[{1} + 4]", out(reg) cpu, in(reg) offset, options(readonly, nostack, preserves_flags))
    };
    usize::try_from(cpu).ok()
}

/// This thread's area for restartable sequences, of 32 bytes at least, or `None` where none is registered.
pub(crate) fn rseq_area() -> Option<*const u8> {
    let offset = rseq_offset()?;
    let pointer: *const u8;
    // SAFETY: the thread pointer's first word is its own address.
    unsafe {
        asm!("mov {}, qword ptr fs:0", out(reg) pointer, options(pure, readonly, nostack, preserves_flags))
    };
    Some(pointer.wrapping_offset(offset))
}

/// Asks for the cache line at `address`, to write to it.
#[inline(always)]
pub(crate) fn prefetch_write(address: *const u8) {
    // SAFETY: a hint, which faults at no address, and is ignored by processors that do not know it.
    unsafe { asm!("prefetchw byte ptr [{}]", in(reg) address, options(readonly, nostack, preserves_flags)) };
}

/// The time stamp counter.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A raw system call: returns the kernel's result, `-errno` on failure, and leaves `errno` alone.
///
/// # Safety
///
/// As the system call in question.
#[inline(always)]
pub(crate) unsafe fn syscall6(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel clobbers rcx and r11 and keeps everything else; the rest is the caller's contract.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}
