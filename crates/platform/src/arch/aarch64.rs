//! aarch64: `svc 0`, `tpidr_el0`, initial-exec thread-local storage.

use core::arch::{asm, global_asm};

use crate::tls::ThreadBlock;

// See x86_64.rs for why initial-exec, hidden, and versioned.
global_asm!(
    ".section .tbss.__lockwork_thread_block_0_1,\"awT\",%nobits",
    ".globl __lockwork_thread_block_0_1",
    ".hidden __lockwork_thread_block_0_1",
    ".type __lockwork_thread_block_0_1, %object",
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
    // SAFETY: as on x86_64.
    unsafe {
        asm!(
            "adrp {block}, :gottprel:__lockwork_thread_block_0_1",
            "ldr {block}, [{block}, :gottprel_lo12:__lockwork_thread_block_0_1]",
            "mrs {tp}, tpidr_el0",
            "add {block}, {block}, {tp}",
            block = out(reg) block,
            tp = out(reg) _,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    block
}

/// The thread pointer.
#[inline(always)]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register that is constant for a thread's life.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags)) };
    pointer
}

/// This thread's area for restartable sequences, of 32 bytes at least, or `None` where none is registered.
#[inline(always)]
pub(crate) fn rseq_area() -> Option<*const u8> {
    let offset: *const isize;
    let size: *const u32;
    // SAFETY: loads two GOT entries, null where the weak symbols are undefined.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "adrp {offset}, :got:__rseq_offset",
            "ldr {offset}, [{offset}, :got_lo12:__rseq_offset]",
            "adrp {size}, :got:__rseq_size",
            "ldr {size}, [{size}, :got_lo12:__rseq_size]",
            offset = out(reg) offset,
            size = out(reg) size,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: both symbols exist, and glibc set them before any constructor ran.
    let (offset, size) = unsafe { (offset.read(), size.read()) };
    (size != 0).then(|| thread_pointer().wrapping_add_signed(offset) as *const u8)
}

/// The CPU number the kernel keeps in the rseq area, or `None` where rseq is not registered.
#[inline(always)]
pub(crate) fn rseq_cpu() -> Option<usize> {
    let area = rseq_area()?;
    // SAFETY: glibc registered an rseq area here; `cpu_id` is its second word, which the kernel rewrites at every
    // migration, hence volatile.
    let cpu = unsafe { area.wrapping_add(4).cast::<i32>().read_volatile() };
    usize::try_from(cpu).ok()
}

/// Asks for the cache line at `address`, to write to it.
#[inline(always)]
pub(crate) fn prefetch_write(address: *const u8) {
    // SAFETY: a hint, which faults at no address.
    unsafe { asm!("prfm pstl1keep, [{}]", in(reg) address, options(readonly, nostack, preserves_flags)) };
}

/// The counter of the generic timer.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let ticks;
    // SAFETY: reads a counter.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// A raw system call: returns the kernel's result, `-errno` on failure, and leaves `errno` alone.
///
/// # Safety
///
/// As the system call in question.
#[inline(always)]
pub(crate) unsafe fn syscall6(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel keeps every register but x0; the rest is the caller's contract.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") args[0] as isize => result,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            in("x5") args[5],
            options(nostack),
        );
    }
    result
}
