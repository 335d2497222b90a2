//! `prctl` and `syscall`, by which a program adds filters of system calls to its threads (`seccomp(2)`).
//!
//! A filter may end the process for reading the CPU clock of another thread, which waiters of aware locks do. They stop
//! before the first filter is there. A process that is to be recorded makes its file then, if it has not done so. (A filter that
//! is added by instructions of the program's own, as Go does, or by functions looked up in libc.so.6 itself, is not seen: such a
//! program has to be started with `LOCKWORK_CPU_CLOCKS=0`.)
//!
//! Both take as many arguments as the caller likes. Those that were not given are passed on as well, as in glibc, and ignored.

use core::ffi::{c_int, c_long};

use lockwork_platform::cpu_time;

use crate::abi::real;
use crate::layers::profile;
use crate::life::fork;

const PR_SET_SECCOMP: c_int = 22;
#[cfg(target_arch = "x86_64")]
const SYS_PRCTL: c_int = 157;
#[cfg(target_arch = "aarch64")]
const SYS_PRCTL: c_int = 167;
#[cfg(target_arch = "x86_64")]
const SYS_SECCOMP: c_int = 317;
#[cfg(target_arch = "aarch64")]
const SYS_SECCOMP: c_int = 277;

/// Whether such a `prctl` adds a filter, or means to: others ask what the kernel knows.
fn adds_filter(mode: usize, filter: usize) -> bool {
    const STRICT: u32 = 1;
    const FILTER: u32 = 2;
    mode as u32 == STRICT || mode as u32 == FILTER && filter != 0
}

/// The same of `seccomp`, whose operations are the modes less one.
fn operation_adds_filter(operation: usize, filter: usize) -> bool {
    adds_filter(operation.wrapping_add(1), filter)
}

/// Called before a filter is added.
#[cold]
fn forbid() {
    // In a child of `fork` the registry may still say that threads of the parent read clocks.
    fork::purge_if_child();
    cpu_time::forbid();
    profile::make_file();
}

/// Linux.
#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    if option == PR_SET_SECCOMP && adds_filter(a, b) {
        forbid();
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
    let adds = match number as c_int {
        SYS_SECCOMP => operation_adds_filter(a, c),
        SYS_PRCTL => a as c_int == PR_SET_SECCOMP && adds_filter(b, c),
        _ => false,
    };
    if adds {
        forbid();
    }
    // SAFETY: the caller's contract.
    unsafe { real::syscall(number, a, b, c, d, e, f) }
}
