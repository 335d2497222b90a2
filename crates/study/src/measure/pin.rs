//! Placing the threads of a program that knows nothing of it.
//!
//! The threads of a process are in `/proc/PID/task`. They are looked at every few milliseconds while the process runs, and
//! every thread that was not there before is put on the next CPU, the nearest first. Until then it runs where its creator may.

use std::collections::HashSet;
use std::fs;

/// Puts each thread of a process on a CPU.
#[derive(Debug)]
pub(super) struct Pinner {
    process: u32,
    cpus: Vec<u32>,
    seen: HashSet<u32>,
}

impl Pinner {
    pub(super) fn new(process: u32, cpus: Vec<u32>) -> Self {
        Pinner { process, cpus, seen: HashSet::new() }
    }

    /// Looks for new threads.
    pub(super) fn look(&mut self) {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process)).into_iter().flatten().flatten();
        let mut threads: Vec<u32> =
            tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
        // In the order of their creation, wrap-around of ids aside.
        threads.sort_unstable();
        for thread in threads {
            if self.seen.insert(thread) {
                // Gone meanwhile: nothing to place.
                let _ = confine(thread, &[self.cpus[(self.seen.len() - 1) % self.cpus.len()]]);
            }
        }
    }
}

/// Lets a thread (0: the calling one) run on these CPUs only. Async-signal-safe.
pub(super) fn confine(thread: u32, cpus: &[u32]) -> std::io::Result<()> {
    // SAFETY: all-zero bytes are a valid set of CPUs: the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        // SAFETY: the numbers are of CPUs that `sched_getaffinity` named, so below CPU_SETSIZE.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: the set is valid for reads of its size.
    match unsafe { libc::sched_setaffinity(thread.cast_signed(), size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The nodes that this process may have memory on, as a bit mask.
pub(super) fn memory_nodes() -> Vec<libc::c_ulong> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:")).unwrap_or("0");
    let mut mask = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        for node in first.parse().unwrap_or(0_usize)..=last.parse().unwrap_or(0) {
            let (word, bit) = (node / libc::c_ulong::BITS as usize, node % libc::c_ulong::BITS as usize);
            mask.resize(mask.len().max(word + 1), 0);
            mask[word] |= 1 << bit;
        }
    }
    mask
}

/// Spreads the memory of the calling thread, and of what it executes, over these nodes. Async-signal-safe.
pub(super) fn interleave(nodes: &[libc::c_ulong]) -> std::io::Result<()> {
    const MPOL_INTERLEAVE: libc::c_long = 3;
    // The kernel takes one bit fewer than it is told.
    let bits = nodes.len() * libc::c_ulong::BITS as usize + 1;
    // SAFETY: the kernel reads no more than the mask, whose size `bits` says.
    let set = unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_INTERLEAVE, nodes.as_ptr(), bits) };
    match set {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
