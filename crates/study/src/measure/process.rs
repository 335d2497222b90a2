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

/// CPU seconds that the processes of a group have used, with the children that they waited for. Those that have ended count until
/// somebody waits for them.
#[must_use]
pub fn group_seconds(group: u32) -> f64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let ticks = processes.filter_map(|entry| {
        // Gone meanwhile: whoever waited for it has its time.
        ticks_in_group(&std::fs::read_to_string(entry.path().join("stat")).ok()?, group)
    });
    ticks.sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// utime, stime, cutime and cstime of a process's `stat`, if it is of the group.
fn ticks_in_group(stat: &str, group: u32) -> Option<u64> {
    // The name before may have blanks and brackets.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // State, parent, group; times from the twelfth on.
    (fields.get(2)?.parse() == Ok(group)).then_some(())?;
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
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

    #[test]
    #[expect(clippy::zombie_processes, reason = "`reap` waits for it")]
    fn the_time_of_a_group_is_that_of_its_processes_and_their_children() {
        let stat = "7 (a) b) R 6 5 5 0 -1 4194304 1 2 3 4 100 20 3000 400 20 0 1 0 9 …";
        assert_eq!(ticks_in_group(stat, 5), Some(3520));
        assert_eq!(ticks_in_group(stat, 6), None);
        assert_eq!(ticks_in_group("garbage", 6), None);

        use std::os::unix::process::CommandExt;
        // A child that has ended and was waited for, then this one's own.
        let script = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done'; echo; read end";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut said = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        let running = group_seconds(child.id());
        drop(child.stdin.take());
        std::thread::sleep(std::time::Duration::from_millis(100));
        let ended = group_seconds(child.id());
        let (_, usage) = reap(child.id()).unwrap();
        let used = usage.user + usage.system;
        assert!(used > 0.05, "the loop took {used} s");
        for seconds in [running, ended] {
            assert!((seconds - used).abs() < 0.05, "{seconds} of {used} s");
        }
        assert_eq!(group_seconds(child.id()), 0.0, "nobody is left");
    }
}
