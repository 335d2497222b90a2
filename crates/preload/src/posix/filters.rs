//! `prctl` and `syscall`, by which a program adds filters of system calls to its threads (`seccomp(2)`).
//!
//! A filter may end the process for reading the CPU clock of another thread, which waiters of aware locks do. They stop
//! before the first filter is there. (One that a program adds by instructions of its own is not seen: it then has to be
//! started with `LOCKWORK_CPU_CLOCKS=0`.)
//!
//! Both take as many arguments as the caller likes; that more are passed on than were given harms nobody, as in glibc.

use core::ffi::{c_int, c_long};

use lockwork_platform::cpu_time;

use crate::real;

const PR_SET_SECCOMP: c_int = 22;
#[cfg(target_arch = "x86_64")]
const SYS_PRCTL: c_long = 157;
#[cfg(target_arch = "aarch64")]
const SYS_PRCTL: c_long = 167;
#[cfg(target_arch = "x86_64")]
const SYS_SECCOMP: c_long = 317;
#[cfg(target_arch = "aarch64")]
const SYS_SECCOMP: c_long = 277;

/// Linux.
#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    if option == PR_SET_SECCOMP {
        cpu_time::forbid();
    }
    // SAFETY: the caller's contract.
    unsafe { real::prctl(option, a, b, c, d) }
}

/// Linux.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let adds_filter = number == SYS_SECCOMP || number == SYS_PRCTL && a as c_int == PR_SET_SECCOMP;
    if adds_filter {
        cpu_time::forbid();
    }
    // SAFETY: the caller's contract.
    unsafe { real::syscall(number, a, b, c, d, e, f) }
}
