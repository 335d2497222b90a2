//! The few instructions that differ between processors: system calls, hints, the thread
//! pointer.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{prefetch_write, rseq_area, rseq_cpu, syscall6, thread_block, ticks};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{prefetch_write, rseq_area, rseq_cpu, syscall6, thread_block, ticks};

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("lockwork-platform supports Linux on x86_64 and aarch64");
