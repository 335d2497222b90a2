//! What every measured process needs, here and in `lockwork compare`: it dies with its parent, it is collected with what it used,
//! and what others used meanwhile is known.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::store::Usage;

/// Has this process killed when its parent ends. Async-signal-safe: for a child between fork and exec.
///
/// # Errors
///
/// If the system refuses.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: prctl(PR_SET_PDEATHSIG) takes an integer and touches no memory.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for a child's end and collects it, with what it and the children that it waited for used.
///
/// # Errors
///
/// If there is no such child, or it was collected already.
pub fn reap(pid: u32) -> io::Result<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`, a struct of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = pid.cast_signed();
    // SAFETY: `status` and `usage` are valid for writes.
    while unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } != pid {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let usage = Usage {
        user: seconds(usage.ru_utime),
        system: seconds(usage.ru_stime),
        max_rss: usage.ru_maxrss,
        voluntary: usage.ru_nvcsw,
        involuntary: usage.ru_nivcsw,
        minor_faults: usage.ru_minflt,
        major_faults: usage.ru_majflt,
    };
    Ok((ExitStatus::from_raw(status), usage))
}

/// CPU seconds that the machine has been busy since it was started.
#[must_use]
pub fn busy_seconds() -> Option<f64> {
    let ticks = busy_ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// user, nice, system, irq, softirq and steal of the `cpu` line; idle, iowait and guests (contained in user) are left out.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    [0, 1, 2, 5, 6, 7].iter().map(|&index| fields.get(index).copied()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_ticks_leave_out_idle_and_guests() {
        assert_eq!(busy_ticks("cpu  1 2 4 100 200 8 16 32 400 800\ncpu0 …"), Some(63));
        assert_eq!(busy_ticks("garbage"), None);
    }
}
